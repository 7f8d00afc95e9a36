"""Ranks that are threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from haloport._haloport import Communicator, threads

T = TypeVar("T")


def run_ranks(ranks: int, function: Callable[[Communicator], T]) -> list[T]:
    """Calls ``function(comm)`` on `ranks` ranks, each a thread of its own, and waits for them. A rank ends with its call.

    Parameters
    ----------
    ranks : int
        The number of ranks, from 1 to 65536.
    function : callable
        Takes the rank's `Communicator`.

    Returns
    -------
    list
        What the function has returned on each rank, in the order of the ranks.

    Raises
    ------
    BaseException
        The first exception of a rank, with a note that names the rank. The waits of the others for this rank end.
    """
    results: dict[int, T] = {}
    failures: list[BaseException] = []

    def run(comm: Communicator) -> None:
        rank = comm.rank
        try:
            results[rank] = function(comm)
        except BaseException as error:
            error.add_note(f"on rank {rank} of {ranks}")
            failures.append(error)
            comm.fail(f"{type(error).__name__}: {error}")
        # What the function has returned, or a cycle of references, may keep the communicator.
        comm.close()

    started = [threading.Thread(target=run, args=(comm,), name=f"rank {comm.rank}", daemon=True) for comm in threads(ranks)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if failures:
        raise failures[0]
    return [results[rank] for rank in range(ranks)]
