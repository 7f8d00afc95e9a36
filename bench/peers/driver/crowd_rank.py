"""Runs one rank of a job of `crowds`: makes, checks and times the contestants. Rank 0 writes the report.

The only argument is the job in JSON: see `crowds`.
"""

import ctypes as c
import json
import os
import sys
import time

import interface
from contestants import Compiled
from rank import Checker


def main():
    job = json.loads(sys.argv[1])
    library = interface.load(job["libraries"][0])
    comm = library.peers_init()
    rank, size = library.peers_rank(comm), library.peers_size(comm)
    if size > len(os.sched_getaffinity(0)):
        library.peers_share_cores()
    problem = interface.Case((c.c_int32 * 3)(*job["local"]), job["halo"], job["fields"], 0)
    contestants = _contestants(job, library, comm, problem)
    checker = Checker(library, problem, "boxes", rank, size, comm)
    for one in contestants:
        checker.check(one, 1)
    times = _measure(library, comm, contestants, job["rounds"], job["sample_seconds"])
    for one in contestants:
        checker.check(one, 2)
    if rank == 0:
        with open(job["out"], "w") as file:
            json.dump(times, file)
    for one in contestants:
        one.destroy()
    library.peers_finalize()
    os._exit(0)  # MPI is finalised, so no destructor may run


def _contestants(job, library, comm, problem):
    """Returns the wanted contestants of all libraries, in the order of the names."""
    found = {}
    for path in job["libraries"]:
        loaded = library if path == job["libraries"][0] else c.CDLL(path)
        for strategy in interface.strategies(loaded, ""):
            if strategy.name.decode() in job["names"]:
                found[strategy.name.decode()] = Compiled(strategy, comm, problem)
    runs = [name in found and found[name].runs for name in job["names"]]
    if library.peers_max(comm, 0.0 if all(runs) else 1.0) > 0:
        sys.exit(f"expected that every rank can make {job['names']}, found {runs}")
    return [found[name] for name in job["names"]]


def _measure(library, comm, contestants, rounds, seconds):
    """Returns the microseconds of an exchange in each round, by contestant. Samples are long: each lasts until all ranks have had
    their turns on the cores."""

    def sample(one, batch):
        library.peers_max(comm, 0.0)
        begin = time.perf_counter()
        failed = one.strategy.run(one.state, batch)
        if library.peers_max(comm, float(failed)) > 0:
            sys.exit(f"{one.name}: an exchange failed")
        return library.peers_max(comm, time.perf_counter() - begin)

    batches = [max(1, int(seconds * 100 / sample(one, 100))) for one in contestants]
    times = {one.name: [] for one in contestants}
    for _ in range(rounds):
        for one, batch in zip(contestants, batches):
            times[one.name].append(1e6 * sample(one, batch) / batch)
    return times


if __name__ == "__main__":
    main()
