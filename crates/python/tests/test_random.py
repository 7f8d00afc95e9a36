"""Random exchanges against an oracle made from global indices; see ``oracle.py``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import oracle
import pytest
from conftest import world

import haloport

Ranks = Callable[..., Any]

CASES = {1: 60, 2: 180, 3: 180, 4: 180}
"""By the number of ranks, the number of cases on threads."""

SIZES = tuple(CASES) if world is None else (world.size,)


def numbers(count: int) -> Iterable[int]:
    """The numbers of this many cases, from one that ``HALOPORT_TEST_SEED`` gives, or the one that ``HALOPORT_CASE`` names."""
    chosen = os.environ.get("HALOPORT_CASE")
    if chosen is not None:
        return [int(chosen)]
    # Processes wait longer for each other, if they share cores.
    count = count if world is None else max(5, count // world.size)
    first = int(os.environ.get("HALOPORT_TEST_SEED", "0")) % 1_000_000 * 1000
    return range(first, first + count)


def check(comm: haloport.Communicator, numbers: Iterable[int], run: Callable[[int, haloport.Communicator], None]) -> None:
    for number in numbers:
        try:
            run(number, comm)
        except BaseException as error:
            error.add_note(f"case {number} of {comm.size} ranks; run it alone with HALOPORT_CASE={number}")
            raise


@pytest.mark.parametrize("size", SIZES)
def test_cases(ranks: Ranks, size: int) -> None:
    ranks(size)(lambda comm: check(comm, numbers(CASES.get(size, 180)), oracle.run))


@pytest.mark.parametrize("size", SIZES)
def test_several_plans_in_flight(ranks: Ranks, size: int) -> None:
    def run(number: int, comm: haloport.Communicator) -> None:
        oracle.run_together(range(number * 3, number * 3 + 3), comm)

    ranks(size)(lambda comm: check(comm, numbers(15), run))


def test_arrays_are_replaced_on_some_ranks() -> None:
    cases = [oracle.Case(number, size) for size in (2, 3, 4) for number in range(CASES[size])]
    assert sum(case.replaces_on_some() for case in cases) >= 100


# Two threads that wait for one device of Intel's OpenCL for CPUs may wait for each other: it has few places for them.
@pytest.mark.parametrize("size", [size for size in SIZES if world is not None or size == 1])
def test_unified_shared_memory(ranks: Ranks, size: int) -> None:
    pytest.importorskip("dpnp", reason="found no dpnp")
    dpctl = pytest.importorskip("dpctl", reason="found no dpctl")
    if not dpctl.get_devices():
        pytest.skip("found no device of SYCL")

    def run(comm: haloport.Communicator) -> None:
        place = oracle.Usm(dpctl.SyclQueue())
        check(comm, numbers(25), lambda number, comm: oracle.run(number, comm, place))

    ranks(size)(run)


@pytest.mark.parametrize("size", [size for size in SIZES if world is not None or size <= 3])
def test_cuda(ranks: Ranks, size: int) -> None:
    cupy = pytest.importorskip("cupy", reason="found no CuPy")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"found no GPU of NVIDIA ({error})")
    places = [oracle.Cuda(cupy) for _ in range(size if world is None else 1)]

    def run(comm: haloport.Communicator) -> None:
        place = places[comm.rank if world is None else 0]
        check(comm, numbers(60), lambda number, comm: oracle.run(number, comm, place))

    ranks(size)(run)
