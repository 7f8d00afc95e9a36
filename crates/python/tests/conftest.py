"""Fixtures of the tests: ranks as threads of this process or as MPI processes.

Under an MPI launcher every rank runs this session: the same tests in the same order. A test that takes too long ends the
process with the tracebacks of all its threads (``faulthandler_timeout`` in ``pyproject.toml``), and the launcher ends the job.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

# Ranks that wait for one whose test has failed stop waiting soon.
os.environ.setdefault("HALOPORT_TIME_LIMIT", "20")

import haloport  # noqa: E402

LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "PMIX_RANK")
"""What launchers of MPI set in the environment of each rank."""

T = TypeVar("T")

world: Any = None
"""mpi4py's ``COMM_WORLD`` under a launcher, otherwise ``None``."""
if any(name in os.environ for name in LAUNCHERS):
    from mpi4py import MPI

    world = MPI.COMM_WORLD


@pytest.fixture(scope="session")
def comm() -> Any:
    """mpi4py's ``COMM_WORLD`` under a launcher, otherwise ``None``."""
    return world


@pytest.fixture(scope="session")
def ranks() -> Callable[..., Callable[[Callable[[haloport.Communicator], T]], list[T]]]:
    """Runs a function on several ranks.

    ``ranks(n)(function)`` calls ``function(comm)`` on ``n`` ranks, each with its ``haloport.Communicator``, and returns the
    list of results of the ranks that run in this process: of all as threads, of one (or none) under a launcher. ``ranks()``
    stands for all ranks of the job, or for 4 threads. If the job has fewer than ``n`` ranks, the test is skipped. If it has
    more, the first ``n`` run the function.

    The first exception is raised again, with a note that names its rank. Under a launcher the test then fails on every
    rank.
    """
    return over_threads if world is None else over_processes


def over_threads(n: int = 4) -> Callable[[Callable[[haloport.Communicator], T]], list[T]]:
    """Returns a function that runs another one on ``n`` threads."""

    def run(function: Callable[[haloport.Communicator], T]) -> list[T]:
        results: list[Any] = [None] * n
        errors: list[BaseException] = []

        def run_rank(comm: haloport.Communicator) -> None:
            try:
                results[comm.rank] = function(comm)
            except BaseException as error:
                error.add_note(f"on rank {comm.rank} of {n}")
                errors.append(error)

        threads = [
            threading.Thread(target=run_rank, args=(comm,), name=f"rank {comm.rank}", daemon=True)
            for comm in haloport.threads(n)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results

    return run


def over_processes(n: int | None = None) -> Callable[[Callable[[haloport.Communicator], T]], list[T]]:
    """Returns a function that runs another one on the first ``n`` ranks of the job. Collective."""
    size = world.size if n is None else n
    if size > world.size:
        pytest.skip(f"needs {size} ranks, the job has {world.size}")

    def run(function: Callable[[haloport.Communicator], T]) -> list[T]:
        results: list[T] = []
        error: BaseException | None = None
        try:
            comm = communicator(size)
            if comm is not None:
                results.append(function(comm))
        except BaseException as raised:
            raised.add_note(f"on rank {world.rank} of {size}")
            error = raised
        agree(error, size)
        return results

    return run


communicators: dict[int, haloport.Communicator | None] = {}
"""By their sizes, communicators of the first ranks of the job; ``None`` on the other ranks."""


def communicator(size: int) -> haloport.Communicator | None:
    """Returns the communicator of the first ``size`` ranks of the job. Collective."""
    if size not in communicators:
        among = world.Split(0 if world.rank < size else 1)
        communicators[size] = haloport.Communicator(among) if world.rank < size else None
    return communicators[size]


def agree(error: BaseException | None, size: int) -> None:
    """Fails or skips the test on every rank if it has failed or was skipped on one. Collective."""
    mine = None
    if error is not None:
        skipped = isinstance(error, pytest.skip.Exception)
        text = str(error) if skipped else "".join(traceback.format_exception(error))
        # Failures before skips. Of several failures the first may be the cause of the others, as that of a rank is for
        # those that wait for it.
        mine = (skipped, time.time(), world.rank, text)
    reports = [report for report in world.allgather(mine) if report is not None]
    if not reports:
        return
    # Messages of this test may still be on their way.
    communicators.pop(size, None)
    skipped, _, rank, text = min(reports)
    if error is not None and not isinstance(error, pytest.skip.Exception):
        if rank != world.rank:
            error.add_note(f"after a failure on rank {rank}:\n{text}")
        raise error
    if skipped:
        pytest.skip(text)
    pytest.fail(f"failed on rank {rank}:\n{text}", pytrace=False)


class Failures:
    """What a rank other than the first prints: the tests that fail on it."""

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.print(report)

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.print(report)

    def print(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        print(f"\nrank {world.rank}: {report.nodeid}\n{report.longreprtext}", file=sys.stderr, flush=True)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Leaves the report to the first rank."""
    if world is not None and world.rank > 0:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            config.pluginmanager.unregister(reporter)
        config.pluginmanager.register(Failures())


def pytest_collection_finish(session: pytest.Session) -> None:
    """Ends the session if ranks have found different tests: they would wait for each other in vain."""
    if world is not None:
        found = world.allgather([item.nodeid for item in session.items])
        for rank, items in enumerate(found):
            if items != found[0]:
                pytest.exit(f"rank {rank} has found other tests than rank 0", returncode=3)


def pytest_internalerror() -> None:
    """Ends the job: the other ranks would wait for this one."""
    if world is not None:
        traceback.print_exc()
        world.Abort(3)
