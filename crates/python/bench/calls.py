#!/usr/bin/env python3
"""Measures what a call from Python costs beyond the same exchange in Rust.

    crates/python/bench/calls.py [--jobs N] [--launcher "mpirun -n 2"] [--json FILE]

Run it with a Python that has haloport and, for ranks under a launcher, mpi4py. It builds Rust's side (``calls.rs``).

Without a launcher one rank exchanges with itself, which shows the cost of calls alone: the same 4 or 20 NumPy arrays of 4³
cells each time, and 20 that lie at addresses that the plan has never seen. Rounds of both sides take turns. Under the
launcher, ranks of one node exchange arrays of ``grid.empty`` by a fixed plan; jobs of both sides take turns. In a round each
case runs two batches of calls, of which the second counts. The halos are checked at the end of each job.

The table has medians: of the times, and of the ratios and differences within pairs of rounds or jobs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import haloport
import numpy as np

ROOT = Path(__file__).resolve().parents[3]

# As in `calls.rs`.
ROUNDS = 200
CALLS = 50
STEP = 8

ALONE = ["4 arrays", "20 arrays", "20 arrays, new addresses"]
TOGETHER = ["20 fixed arrays of 4³", "4 fixed arrays of 32³", "4 fixed arrays of 64³"]

Round = list[float]
"""The time of a call in each case, in seconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=9, help="jobs (9)")
    parser.add_argument("--launcher", default="mpirun -n 2", help="starts the ranks; empty for none (mpirun -n 2)")
    parser.add_argument("--json", type=Path, help="also write the pairs of times into this file, in microseconds")
    parser.add_argument("--together", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.together:
        together()
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    """Runs all jobs and prints the table."""
    rust = build()
    launcher = shlex.split(options.launcher)
    if launcher and not shutil.which(launcher[0]):
        print(f"skipped: ranks under a launcher, found no {launcher[0]}", file=sys.stderr)
        launcher = []
    pairs: dict[str, list[tuple[float, float]]] = {}

    def add(cases: list[str], rust: Round, python: Round) -> None:
        for case, *times in zip(cases, rust, python, strict=True):
            pairs.setdefault(case, []).append((times[0] * 1e6, times[1] * 1e6))

    for _ in range(options.jobs):
        for pair in alone(rust):
            add(ALONE, *pair)
        if launcher:
            add(TOGETHER, run([*launcher, rust]), run([*launcher, sys.executable, __file__, "--together"]))
    if options.json:
        options.json.write_text(json.dumps(pairs, indent=2, ensure_ascii=False) + "\n")
    print("| exchange | Rust, µs | Python, µs | ratio | difference, µs |")
    print("| --- | --- | --- | --- | --- |")
    for case, found in pairs.items():
        medians = [statistics.median(times) for times in zip(*found, strict=True)]
        ratio = statistics.median(python / rust for rust, python in found)
        difference = statistics.median(python - rust for rust, python in found)
        print(f"| {case} | {medians[0]:.2f} | {medians[1]:.2f} | {ratio:.2f} | {difference:+.2f} |")


def run(command: list[str]) -> Round:
    """Runs a job; returns the medians of its rounds."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    rounds = [[float(time) for time in line.split()] for line in done.stdout.splitlines()]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def build() -> str:
    """Builds Rust's side; returns the path of the program."""
    command = "cargo build --release --package haloport-python --features abi3 --bench calls --message-format json".split()
    # As scripts/python builds the wheel.
    environment = {**os.environ, "CARGO_PROFILE_RELEASE_DEBUG": "false"}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return str(next(message["executable"] for message in reversed(messages) if message.get("executable")))


def alone(rust: str) -> Iterator[tuple[Round, Round]]:
    """Yields the times of Rust and Python in each round, of one rank."""
    grid = haloport.Grid((4, 4, 4), halo=1, periodic=True, comm=haloport.threads(1)[0])
    elements = 6**3
    arrays = tuple(np.empty((6, 6, 6)) for _ in range(20))
    memory = [np.zeros(elements + STEP * (2 * ROUNDS * CALLS + 1)) for _ in range(20)]
    shift = 0

    def moved(call: int) -> tuple[Any, ...]:
        return tuple(values[STEP * call : STEP * call + elements].reshape(6, 6, 6) for values in memory)

    four, twenty, moving = grid.plan(*arrays[:4]), grid.plan(*arrays), grid.plan(*moved(0))

    def new() -> float:
        nonlocal shift
        sets = [moved(call) for call in range(shift, shift + CALLS)]
        shift += CALLS
        began = perf_counter()
        for arrays in sets:
            moving(*arrays)
        return perf_counter() - began

    cases: list[Callable[[], float]] = [partial(repeat, four, arrays[:4]), partial(repeat, twenty, arrays), new]
    fill(grid, arrays)
    with subprocess.Popen([rust], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin and other.stdout
        for _ in range(ROUNDS):
            print(file=other.stdin, flush=True)
            times = [float(time) for time in other.stdout.readline().split()]
            yield times, one_round(grid.comm, cases)
        other.stdin.close()
    if other.returncode != 0:
        sys.exit(other.returncode)
    last = moved(2 * ROUNDS * CALLS)
    fill(grid, last)
    moving(*last)
    check(grid, arrays + last)


def together() -> None:
    """Measures fixed plans, of several ranks; rank 0 prints the times of each round."""
    from mpi4py import MPI

    comm = haloport.Communicator(MPI.COMM_WORLD)
    fields = []
    for cells, count in (4, 20), (32, 4), (64, 4):
        grid = haloport.Grid(
            (comm.size * cells, cells, cells), halo=1, periodic=True, parts=(comm.size, 1, 1), comm=comm
        )
        arrays = tuple(grid.empty("f8") for _ in range(count))
        fill(grid, arrays)
        fields.append((grid, arrays))
    # As in Rust, the plan has the arrays.
    cases = [partial(repeat, grid.plan(*arrays, fixed=True), ()) for grid, arrays in fields]
    for _ in range(ROUNDS):
        times = one_round(comm, cases)
        if comm.rank == 0:
            print(*times)
    for grid, arrays in fields:
        check(grid, arrays)


def repeat(plan: Any, arrays: tuple[Any, ...]) -> float:
    """Runs a batch with the same arrays; returns how many seconds it took."""
    began = perf_counter()
    for _ in range(CALLS):
        plan(*arrays)
    return perf_counter() - began


def one_round(comm: haloport.Communicator, cases: Sequence[Callable[[], float]]) -> Round:
    """Runs the cases in turns; returns the times of a call."""
    times = []
    for batch in cases:
        comm.barrier()
        batch()
        times.append(batch() / CALLS)
    return times


def expected(grid: haloport.Grid) -> Any:
    """Returns the values of all cells of a rank, those of halos too."""
    z, y, x = grid.indices()
    return ((z * 128 + y) * 128 + x).astype("f8")


def fill(grid: haloport.Grid, arrays: tuple[Any, ...]) -> None:
    """Fills owned cells with their values, the others with -1."""
    for array in arrays:
        array[...] = -1.0
        array[grid.owned] = expected(grid)[grid.owned]


def check(grid: haloport.Grid, arrays: tuple[Any, ...]) -> None:
    """Fails unless all cells have their values."""
    if not all((array == expected(grid)).all() for array in arrays):
        sys.exit("cells have wrong values")


if __name__ == "__main__":
    main()
