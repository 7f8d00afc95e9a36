"""Tests run on ranks as threads and as MPI processes alike (see ``conftest.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import haloport
import pytest
from conftest import world

Ranks = Callable[..., Callable[[Callable[[haloport.Communicator], Any]], list[Any]]]


def rank_and_size(comm: haloport.Communicator) -> tuple[int, int]:
    comm.barrier()
    return comm.rank, comm.size


@pytest.mark.parametrize("n", [1, 2, 4])
def test_first_ranks(ranks: Ranks, n: int) -> None:
    results = ranks(n)(rank_and_size)
    here = range(n) if world is None else [rank for rank in range(n) if rank == world.rank]
    assert results == [(rank, n) for rank in here]


def test_all_ranks(ranks: Ranks) -> None:
    results = ranks()(rank_and_size)
    expected = [(rank, 4) for rank in range(4)] if world is None else [(world.rank, world.size)]
    assert results == expected


def test_failure_of_one_rank_fails_all(ranks: Ranks) -> None:
    def fail(comm: haloport.Communicator) -> None:
        if comm.rank == 1:
            raise ValueError("found a wrong value")

    with pytest.raises((ValueError, pytest.fail.Exception), match="found a wrong value") as info:
        ranks(2)(fail)
    if isinstance(info.value, ValueError):
        assert info.value.__notes__ == ["on rank 1 of 2"]
    else:
        assert world.rank != 1 and "on rank 1 of 2" in str(info.value)
    assert len(ranks(2)(rank_and_size)) <= 2


def test_skip_of_one_rank_skips_all(ranks: Ranks) -> None:
    def skip(comm: haloport.Communicator) -> None:
        if comm.rank == 1:
            pytest.skip("found no such device")

    on_both = ranks(2)
    with pytest.raises(pytest.skip.Exception, match="found no such device"):
        on_both(skip)
