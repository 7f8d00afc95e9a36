"""Defines the jobs and starts them.

A job is one case on two pinned ranks: all contestants that can run in one process take turns. Groups of contestants
that need an interpreter of their own have jobs of their own, each again with the yardstick and Haloport.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import build

AXES = {"slowest": 0, "fastest": 2}
COLUMNS = [((n, n, n), halo, fields) for n, halo, fields in
           [(32, 1, 1), (32, 3, 8), (128, 1, 1), (128, 1, 8), (128, 3, 1), (128, 3, 8)]]  # fmt: skip
# Levels, their order or nproma, and fields.
MESHES = [(80, order, fields) for order in ("fastest", "slowest", 32) for fields in (1, 4)]
MESHES += [(1, "fastest", 1), (1, "fastest", 4)]
TRANSPOSES = [(64, 1), (64, 4), (256, 1)]
PROBLEMS = ["boxes", "meshes", "sums", "transposes"]
# The states: a model writes owned cells before each exchange; otherwise they stay as they are, and caches hold what other
# contestants, the same exchange, or writes of other memory have left when a sample begins.
CACHES = ["written", "turns", "hot", "cold"]
GROUPS = ["compiled", "mpi4py", "ghex", "mpi4jax"]
SAMPLE_SECONDS = 1e-3
SWEEP_BYTES = 64 << 20
LIMIT_SECONDS = 120
# Two such jobs at the same time could hold one core each and wait for the other core for ever.
REALTIME_LOCK = Path(tempfile.gettempdir()) / f"haloport-peers-realtime-{os.getuid()}.lock"


def all_cases(arguments):
    """Returns the cases of the wanted problems and splits, as dictionaries."""
    found = []
    for local, halo, fields in COLUMNS if "boxes" in arguments.problems else []:
        for split in arguments.splits:
            found.append({"problem": "boxes", "local": local, "halo": halo, "fields": fields, "split": AXES[split]})
    for problem in ["meshes", "sums"]:
        for levels, order, fields in MESHES if problem in arguments.problems else []:
            found.append({"problem": problem, "levels": levels, "order": order, "fields": fields})
    for cells, fields in TRANSPOSES if "transposes" in arguments.problems else []:
        found.append({"problem": "transposes", "cells": [cells] * 3, "fields": fields})
    return found


def cases(arguments):
    """Returns the cases that were named, or all."""
    return [case for case in all_cases(arguments) if not arguments.case or name(case) in arguments.case]


def name(case):
    """Returns the name of a case, such as 32^3/1/1, 80/slowest/4 and 80/nproma=32/4 for meshes, or 256^3/1 for transposes."""
    if case["problem"] == "transposes":
        return f"{case['cells'][0]}^3/{case['fields']}"
    if case["problem"] in ("meshes", "sums"):
        order = case["order"] if isinstance(case["order"], str) else f"nproma={case['order']}"
        return f"{case['levels']}/{order}/{case['fields']}"
    return f"{case['local'][0]}^3/{case['halo']}/{case['fields']}"


def run(arguments, built, failed):
    """Runs all jobs, each case once in each round of jobs, and yields the reports of rank 0 one by one.

    Names the jobs that fail in `failed`.
    """
    todo = [
        (number, eager, case, group)
        for number in range(arguments.jobs)
        for case in cases(arguments)
        for eager in arguments.eager
        for group in arguments.groups
        if _takes_part(group, case) and group not in built.missing
    ]
    for at, (number, eager, case, group) in enumerate(todo):
        begin = time.monotonic()
        report = _job(arguments, built, number, eager, case, group)
        what = f"{name(case)} {group} {eager}"
        seconds = time.monotonic() - begin
        print(
            f"job {at + 1} of {len(todo)}: {what}, {seconds:.0f} s{'' if report else ': FAILED'}",
            file=sys.stderr,
        )
        if report:
            yield {"job": number, "eager": eager, "group": group, **report}
        else:
            failed.append(what)
        time.sleep(arguments.pause)


def _takes_part(group, case):
    """Whether a group has contestants for a case: mpi4py and mpi4jax for boxes, and GHEX for meshes as well, but for blocks of cells."""
    if group == "compiled" or case["problem"] == "boxes":
        return True
    return group == "ghex" and case["problem"] == "meshes" and isinstance(case["order"], str)


def _job(arguments, built, number, eager, case, group):
    out = build.folder() / "report.json"
    wanted = ["c", "petsc", "yaxt", "peclet", "haloport", "fortran"] if group == "compiled" else ["c", "haloport"]
    job = {
        "libraries": [built.libraries[library] for library in wanted if library in built.libraries],
        "python": [] if group == "compiled" else [f"with_{group}", *(["with_haloport"] if built.wheel else [])],
        "case": case,
        "mesh": str(build.ROOT / "data/sphere.npz"),
        # The first contestant, the yardstick, takes part in any case.
        "only": [""] if group == "compiled" else ["Haloport"],
        "sample_seconds": SAMPLE_SECONDS,
        "seed": 1 + number,
        "plans": _plans(arguments, case),
        "out": str(out),
    }
    python = sys.executable if group == "compiled" else built.pythons[group]
    script = str(Path(__file__).with_name("rank.py"))
    environment = {**os.environ, **build.AS_ROOT}
    launcher = shutil.which("mpirun.openmpi") or "mpirun"
    command = [launcher, "-n", "2", "--bind-to", "core", "--mca", "btl_vader_eager_limit", str(eager)]
    if arguments.realtime:
        # Jobs of the same priority take turns, unlike with `chrt -f`.
        command = ["flock", str(REALTIME_LOCK), "chrt", "-r", "50", *command]
    return launch([*command, python, "-B", script, json.dumps(job)], environment, out)


def launch(command, environment, out):
    """Runs a job, and returns the report that rank 0 writes into the file `out`, or None if the job fails or takes too long."""
    out.unlink(missing_ok=True)
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        process.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"expected the job to end within {LIMIT_SECONDS} s: it is killed", file=sys.stderr)
        _end(process)
    return json.loads(out.read_text()) if process.returncode == 0 and out.exists() else None


def _end(process):
    """Asks the launcher to end its ranks, and insists if it does not."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _plans(arguments, case):
    """Returns the states in which a case is measured. A transpose moves whole parts, which have no
    boundary, and is measured in turns alone."""
    rounds, seconds = arguments.rounds, arguments.seconds
    plans = {
        "written": {"rounds": rounds, "seconds": 2 * seconds, "warm": 1, "sweep": 0, "write": 1},
        "turns": {"rounds": rounds, "seconds": seconds, "warm": 0, "sweep": 0, "write": 0},
        "hot": {"rounds": rounds // 2 + 1, "seconds": seconds / 2, "warm": 1, "sweep": 0, "write": 0},
        "cold": {"rounds": rounds // 4 + 1, "seconds": seconds / 2, "warm": 0, "sweep": SWEEP_BYTES, "write": 0},
    }
    if case["problem"] == "transposes":
        return {"turns": plans["turns"]}
    return {caches: plans[caches] for caches in arguments.caches}
