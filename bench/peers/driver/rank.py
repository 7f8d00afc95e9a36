"""Runs one rank of a job: makes the contestants of a case, checks and measures them. Rank 0 writes the report.

The only argument is the job in JSON: see `jobs.py`.
"""

import ctypes as c
import gc
import json
import os
import statistics
import sys
from functools import partial

import interface
import sphere
from contestants import Compiled

# The number of parts in which each state of the caches is measured, in turns: the machine changes within seconds.
PARTS = 4
# What stands in the names of functions for each kind of problem.
NAMES = dict(zip(["boxes", "meshes", "sums", "transposes"], interface.PROBLEMS))


def main():
    job = json.loads(sys.argv[1])
    library = interface.load(job["libraries"][0])
    comm = library.peers_init()
    rank, size = library.peers_rank(comm), library.peers_size(comm)
    kind = job["case"]["problem"]
    problem = _problem(job, kind, rank)
    contestants, missing, notes = _gather(job, comm, problem, kind, library)
    checker = Checker(library, problem, kind, rank, size, comm)
    for one in contestants:
        checker.check(one, 1)
    if writes := getattr(library, f"peers{NAMES[kind]}_writes", None):
        for one in contestants:
            fields = (c.c_void_p * problem.fields)(*(one.address(field) for field in range(problem.fields)))
            one.writes = writes(c.byref(problem), fields)
    gc.collect()
    gc.disable()
    measured, handover = _measure(job, library, comm, contestants)
    for one in contestants:
        checker.check(one, 2)
    if rank == 0:
        report = {
            "case": job["case"],
            "missing": missing,
            "notes": notes,
            "handover": handover,
            "measured": measured,
        }
        with open(job["out"], "w") as file:
            json.dump(report, file)
    for one in contestants:
        if one.writes:
            library.peers_writes_free(one.writes)
        one.destroy()
    sys.stdout.flush()
    library.peers_finalize()
    os._exit(0)  # MPI is finalised, so no destructor may run


def _problem(job, kind, rank):
    case = job["case"]
    if kind in ("meshes", "sums"):
        return sphere.read(job["mesh"], case["levels"], case["order"], case["fields"], rank)
    if kind == "transposes":
        return interface.Transpose((c.c_int32 * 3)(*case["cells"]), case["fields"])
    return interface.Case((c.c_int32 * 3)(*case["local"]), case["halo"], case["fields"], case["split"])


def _gather(job, comm, problem, kind, library):
    """Returns the contestants, the reasons why others are missing, and the paths of Haloport."""
    contestants, missing, notes = [], {}, {}
    for path in job["libraries"]:
        loaded = library if path == job["libraries"][0] else c.CDLL(path)
        for strategy in interface.strategies(loaded, NAMES[kind]):
            name = strategy.name.decode()
            if not any(word in name for word in job["only"]) and contestants:
                continue
            one = Compiled(strategy, comm, problem)
            # A contestant takes part if all ranks could make it.
            if library.peers_max(comm, 0.0 if one.runs else 1.0) > 0:
                missing[name] = "a rank could not make it"
                continue
            contestants.append(one)
            if hasattr(loaded, "peers_haloport_path"):
                text = c.create_string_buffer(400)
                loaded.peers_haloport_path(c.c_void_p(one.state), text, c.c_size_t(400))
                notes[name] = text.value.decode()
    if job["python"]:
        import mpi4py

        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI

        for name in job["python"]:
            module = __import__(name)
            notes[name] = module.version()
            contestants.extend(getattr(module, kind)(MPI.COMM_WORLD, problem))
    return contestants, missing, notes


class Checker:
    """Checks that an exchange fills every cell that it ought to fill, which holds another value before."""

    def __init__(self, library, problem, kind, rank, size, comm):
        self.library, self.comm = library, comm
        # A transpose has two parts for each field.
        self.fields = (2 if kind == "transposes" else 1) * problem.fields
        place = [c.byref(problem), *([] if kind in ("meshes", "sums") else [rank, size])]
        fill, wrong = (getattr(library, f"peers{NAMES[kind]}_{what}") for what in ("fill", "wrong"))
        self.fill, self.wrong = partial(fill, *place), partial(wrong, *place)

    def check(self, one, version):
        for field in range(self.fields):
            self.fill(field, version, one.address(field))
        one.load()
        self.library.peers_max(self.comm, 0.0)  # a barrier: all fields are filled before one is read
        runner = one.runner()
        failed = runner.run(runner.state, 1)
        one.store()
        wrong = 0
        if one.stand_in != interface.FILLS_NOTHING:
            wrong = sum(
                self.wrong(field, version, one.stand_in, one.address(field)) for field in range(self.fields)
            )
        if self.library.peers_max(self.comm, float(wrong + bool(failed))) > 0:
            sys.exit(f"{one.name}: {wrong} cells are wrong after an exchange, which returned {failed}")


def _measure(job, library, comm, contestants):
    """Returns the figures of each contestant for each state of the caches, and the handover times of the cores."""
    count = len(contestants)
    runners = (interface.Runner * count)(*(one.runner() for one in contestants))
    batch = (c.c_int32 * count)()
    if failed := library.peers_calibrate(comm, count, runners, job["sample_seconds"], batch):
        sys.exit(f"{contestants[failed - 1].name}: an exchange failed")
    columns = {caches: [[] for _ in contestants] for caches in job["plans"]}
    handover = []
    for part in range(PARTS):
        handover.append(library.peers_handover(comm))
        for caches, plan in job["plans"].items():
            rounds = -(-plan["rounds"] // PARTS)
            times, preempted = (c.c_double * (rounds * count))(), (c.c_uint8 * (rounds * count))()
            made = library.peers_measure(
                comm, count, runners, batch, rounds, plan["seconds"] / PARTS, PARTS * job["seed"] + part,
                plan["warm"], plan["sweep"], plan["write"], times, preempted,
            )  # fmt: skip
            if made < 0:
                sys.exit(f"{contestants[-made - 1].name}: an exchange failed")
            for at, column in enumerate(columns[caches]):
                places = range(at, made * count, count)
                column += [None if preempted[place] else times[place] for place in places]
    measured = {
        caches: {
            one.name: _summary(columns[caches], at, 1 if plan["sweep"] else batch[at], contestants)
            for at, one in enumerate(contestants)
        }
        for caches, plan in job["plans"].items()
    }
    return measured, [nanoseconds for nanoseconds in handover if nanoseconds > 0]


def _summary(columns, at, batch, contestants):
    """Returns medians over the rounds; ratios are those of the rounds in which both samples are clean."""
    clean = [time for time in columns[at] if time is not None]
    ratios = {}
    for other, column in enumerate(columns):
        pairs = [mine / its for mine, its in zip(columns[at], column) if mine is not None and its is not None]
        ratios[contestants[other].name] = statistics.median(pairs) if pairs else None
    return {
        "microseconds": statistics.median(clean) if clean else None,
        "least": min(clean, default=None),
        "batch": batch,
        "raw": len(columns[at]),
        "clean": len(clean),
        "ratio": ratios,
    }


if __name__ == "__main__":
    main()
