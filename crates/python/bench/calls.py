#!/usr/bin/env python3
"""Measures what a call from Python costs beyond the same exchange in Rust.

    crates/python/bench/calls.py [--jobs N] [--launcher "mpirun -n 2"] [--json FILE]

Run it with a Python that has haloport and, for ranks under a launcher, mpi4py. It builds Rust's side (``calls.rs``) and runs
jobs of both sides in turns. In a job the cases take turns, in batches of calls; the halos are checked at the end. The table
has the medians of the jobs' medians.

Without a launcher one rank exchanges with itself, which shows the cost of calls alone: the same 4 or 20 NumPy arrays of 4³
cells each time, and 20 that lie at addresses that the plan has never seen. Under the launcher, ranks of one node exchange
arrays of ``grid.empty`` by a fixed plan.
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
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[3]

# As in `calls.rs`.
BATCHES = 200
CALLS = 50
STEP = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=9, help="jobs of each side (9)")
    parser.add_argument("--launcher", default="mpirun -n 2", help="starts the ranks; empty for none (mpirun -n 2)")
    parser.add_argument("--json", type=Path, help="also write the median of each job into this file")
    parser.add_argument("--job", choices=["alone", "together"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job == "alone":
        alone()
    elif options.job == "together":
        together()
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    """Runs all jobs and prints the table."""
    rust = build()
    launchers: dict[str, list[str]] = {"alone": []}
    launcher = shlex.split(options.launcher)
    if launcher and shutil.which(launcher[0]):
        launchers["together"] = launcher
    elif launcher:
        print(f"skipped: ranks under a launcher, found no {launcher[0]}", file=sys.stderr)
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(options.jobs):
        for job, launcher in launchers.items():
            for side, command in ("rust", [rust]), ("python", [sys.executable, __file__, "--job", job]):
                done = subprocess.run([*launcher, *command], stdout=subprocess.PIPE, check=True)
                for case, median in json.loads(done.stdout).items():
                    found.setdefault(case, {}).setdefault(side, []).append(median)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    print("| exchange | Rust, µs | Python, µs | ratio | difference, µs |")
    print("| --- | --- | --- | --- | --- |")
    for case, sides in found.items():
        r, p = statistics.median(sides["rust"]), statistics.median(sides["python"])
        print(f"| {case} | {r:.2f} | {p:.2f} | {p / r:.2f} | {p - r:+.2f} |")


def build() -> str:
    """Builds Rust's side; returns the path of the program."""
    command = "cargo build --release --package haloport-python --features abi3 --bench calls --message-format json".split()
    # As scripts/python builds the wheel.
    environment = {**os.environ, "CARGO_PROFILE_RELEASE_DEBUG": "false"}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return str(next(message["executable"] for message in reversed(messages) if message.get("executable")))


def alone() -> None:
    """Measures plans, of one rank."""
    import haloport
    import numpy as np

    grid = haloport.Grid((4, 4, 4), halo=1, periodic=True, comm=haloport.threads(1)[0])
    elements = 6**3
    arrays = tuple(np.full((6, 6, 6), -1.0) for _ in range(20))
    memory = [np.zeros(elements + STEP * (BATCHES * CALLS + 1)) for _ in range(20)]
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

    for array in arrays:
        array[grid.owned] = cells(grid)[grid.owned]
    measure(
        grid.comm,
        {
            "4 arrays": lambda: repeat(four, arrays[:4]),
            "20 arrays": lambda: repeat(twenty, arrays),
            "20 arrays, new addresses": new,
        },
    )
    last = moved(BATCHES * CALLS)
    for array in last:
        array[...] = -1.0
        array[grid.owned] = cells(grid)[grid.owned]
    moving(*last)
    check(grid, arrays + last)


def together() -> None:
    """Measures fixed plans, of several ranks."""
    import haloport
    from mpi4py import MPI

    comm = haloport.Communicator(MPI.COMM_WORLD)
    cases: dict[str, Callable[[], float]] = {}
    checks = []
    for size, count in (4, 20), (32, 4):
        shape = (comm.size * size, size, size)
        grid = haloport.Grid(shape, halo=1, periodic=True, parts=(comm.size, 1, 1), comm=comm)
        arrays = tuple(grid.empty("f8") for _ in range(count))
        for array in arrays:
            array[...] = -1.0
            array[grid.owned] = cells(grid)[grid.owned]
        plan = grid.plan(*arrays, fixed=True)
        cases[f"{count} fixed arrays of {size}³"] = partial(repeat, plan, arrays)
        checks.append((grid, arrays))
    measure(comm, cases)
    for grid, arrays in checks:
        check(grid, arrays)


def repeat(plan: Any, arrays: tuple[Any, ...]) -> float:
    """Runs a batch with the same arrays; returns how many seconds it took."""
    began = perf_counter()
    for _ in range(CALLS):
        plan(*arrays)
    return perf_counter() - began


def measure(comm: Any, cases: dict[str, Callable[[], float]]) -> None:
    """Runs the cases in turns, and prints the medians on rank 0."""
    times: dict[str, list[float]] = {case: [] for case in cases}
    for _ in range(BATCHES):
        for case, batch in cases.items():
            comm.barrier()
            times[case].append(batch())
    if comm.rank == 0:
        print(json.dumps({case: statistics.median(all) * 1e6 / CALLS for case, all in times.items()}))


def cells(grid: Any) -> Any:
    """Returns the values of all cells of a rank, those of halos too."""
    z, y, x = grid.indices()
    return ((z * 128 + y) * 128 + x).astype("f8")


def check(grid: Any, arrays: tuple[Any, ...]) -> None:
    """Fails unless all cells have their values."""
    expected = cells(grid)
    if not all((array == expected).all() for array in arrays):
        sys.exit("cells have wrong values")


if __name__ == "__main__":
    main()
