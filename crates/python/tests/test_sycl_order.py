"""What SYCL computes after an exchange sees the halos, also in tasks of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import haloport as hp
import pytest
from conftest import world

if world is None:
    pytest.skip("two threads of one process may wait for each other in Intel's OpenCL for CPUs", allow_module_level=True)
dpctl = pytest.importorskip("dpctl", reason="found no dpctl")
dpnp = pytest.importorskip("dpnp", reason="found no dpnp")

N, ROUNDS = 64, 20


@pytest.fixture
def queue() -> Any:
    try:
        return dpctl.SyclQueue()
    except dpctl.SyclQueueCreationError:
        pytest.skip("found no device of SYCL")


@pytest.mark.parametrize("names_queue", [False, True])
def test_arithmetic_sees_halos(ranks: Callable[..., Any], queue: Any, names_queue: bool) -> None:
    def rows(comm: hp.Communicator) -> list[Any]:
        stream = queue if names_queue else None
        grid = hp.Grid((N, N), periodic=True, corners=False, parts=(2, 1), comm=comm)
        u = dpnp.zeros(grid.shape, dtype="f4", sycl_queue=queue)
        update = grid.plan(u)
        sums = []
        for number in range(ROUNDS):
            u[:] = -1
            u[grid.owned] = 10 * number + comm.rank
            with update.start(u, stream=stream):
                pass
            # On CPUs, oneMKL adds contiguous rows in a task of the host.
            sums.append(u[0:1, 1:-1] + u[2:3, 1:-1])
        return [dpnp.asnumpy(found) for found in sums]

    for found in ranks(2)(rows):
        assert [set(row.ravel().tolist()) for row in found] == [{20 * number + 1} for number in range(ROUNDS)]
