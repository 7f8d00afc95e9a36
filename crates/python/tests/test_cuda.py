"""Arrays on a GPU of NVIDIA: those of CuPy, PyTorch, JAX and Haloport, their streams, and what packages see of each other.

Skipped without CuPy and a GPU. Random exchanges of such arrays are in ``test_random.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import haloport

Ranks = Callable[..., Any]

ROUNDS = 20
CELLS = 1 << 20
"""Enough for work that takes longer than the calls of the host."""


@pytest.fixture(scope="module")
def cupy() -> Any:
    found = pytest.importorskip("cupy", reason="found no CuPy")
    try:
        found.cuda.runtime.getDeviceCount()
    except found.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"found no GPU of NVIDIA ({error})")
    return found


def alone() -> haloport.Communicator:
    """The communicator of this rank alone."""
    return haloport.threads(1)[0]


def expected(comm: haloport.Communicator, value: float) -> tuple[float, float]:
    """The halos of a ring whose cells have the value of a round and the number of their rank."""
    return value + (comm.rank - 1) % comm.size, value + (comm.rank + 1) % comm.size


@pytest.mark.parametrize("size", [1, 2, 3])
def test_exchanges_follow_the_stream_of_cupy(cupy: Any, ranks: Ranks, size: int) -> None:
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(size)]

    def run(comm: haloport.Communicator) -> None:
        grid = haloport.Grid((CELLS * comm.size,), periodic=True, comm=comm)
        u, halos = cupy.zeros(grid.shape), cupy.zeros((ROUNDS, 2))
        update = grid.plan(u)
        work = cupy.ones(CELLS)
        cupy.cuda.runtime.deviceSynchronize()
        with streams[comm.rank]:
            for turn in range(ROUNDS):
                for _ in range(5):
                    cupy.sqrt(work, out=work)
                # The sum of all elements of `work` is their number: the value is known when that work is done.
                u[grid.owned] = work.sum() / CELLS * (turn + comm.rank)
                update(u)
                halos[turn, 0], halos[turn, 1] = u[0], u[-1]
            found = halos.get()
        assert found.tolist() == [list(expected(comm, turn)) for turn in range(ROUNDS)]

    ranks(size)(run)


@pytest.mark.parametrize("size", [1, 2])
def test_exchanges_follow_the_stream_of_torch(cupy: Any, ranks: Ranks, size: int) -> None:
    torch = pytest.importorskip("torch", reason="found no PyTorch")
    if not torch.cuda.is_available():
        pytest.skip("found a PyTorch without CUDA")
    streams = [torch.cuda.Stream() for _ in range(size)]

    def run(comm: haloport.Communicator) -> None:
        grid = haloport.Grid((CELLS * comm.size,), periodic=True, comm=comm)
        u = torch.zeros(grid.shape, dtype=torch.float64, device="cuda")
        halos = torch.zeros((ROUNDS, 2), dtype=torch.float64, device="cuda")
        update = grid.plan(u)
        work = torch.ones(CELLS, dtype=torch.float64, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(streams[comm.rank]):
            for turn in range(ROUNDS):
                for _ in range(5):
                    work.sqrt_()
                u[grid.owned] = work.sum() / CELLS * (turn + comm.rank)
                with update.start(u):
                    work.mul_(1.0)
                halos[turn, 0], halos[turn, 1] = u[0], u[-1]
            found = halos.cpu()
        assert found.tolist() == [list(expected(comm, turn)) for turn in range(ROUNDS)]

    ranks(size)(run)


@pytest.mark.parametrize("size", [1, 2])
def test_accumulate_of_cupy(cupy: Any, ranks: Ranks, size: int) -> None:
    def run(comm: haloport.Communicator) -> None:
        for dtype, combine in (("f8", "sum"), ("f4", "sum"), ("i4", "max"), ("i8", "min"), ("c16", "sum")):
            grid = haloport.Grid((4 * comm.size, 5), periodic=True, halo=1, comm=comm)
            on_host, on_device = np.empty(grid.shape, dtype), cupy.empty(grid.shape, dtype)
            on_host[...] = np.random.default_rng(comm.rank).integers(-8, 8, grid.shape)
            on_device.set(on_host)
            cupy.cuda.runtime.deviceSynchronize()
            for u in (on_host, on_device):
                grid.plan(u, accumulate=combine, zero_halo=True)(u)
            assert np.array_equal(on_device.get(), on_host), (dtype, combine)

    ranks(size)(run)


@pytest.mark.parametrize("size", [1, 2])
def test_functional_of_packages(cupy: Any, ranks: Ranks, size: int) -> None:
    torch: Any = pytest.importorskip("torch", reason="found no PyTorch")
    torch.zeros(3, device="cuda").clone()

    def run(comm: haloport.Communicator) -> None:
        grid = haloport.Grid((4 * comm.size,), periodic=True, comm=comm)
        for made in (cupy.zeros(grid.shape), torch.zeros(grid.shape, dtype=torch.float64, device="cuda")):
            made[grid.owned] = comm.rank
            before = made.tolist()
            found = grid.plan(made).functional(made)
            assert type(found) is type(made) and found.device == made.device
            assert made.tolist() == before
            assert (found.tolist()[0], found.tolist()[-1]) == expected(comm, 0)

    ranks(size)(run)


def test_functional_of_jax(cupy: Any) -> None:
    jax: Any = pytest.importorskip("jax", reason="found no JAX")
    if jax.default_backend() != "gpu":
        pytest.skip("found a JAX without CUDA")
    grid = haloport.Grid((8,), periodic=True, comm=alone())
    u = jax.numpy.arange(10, dtype="float32")
    found = grid.plan(haloport.Layout(grid.shape, "float32", device="cuda:0")).functional(u)
    assert found.devices() == u.devices()
    assert found.tolist() == [8, 1, 2, 3, 4, 5, 6, 7, 8, 1] and u.tolist() == list(range(10))


def test_arrays_of_haloport_are_shared(cupy: Any) -> None:
    grid = haloport.Grid((6,), periodic=True, comm=alone())
    u = grid.empty(device="cuda:0")
    shared = cupy.asarray(u)
    shared[1:-1] = cupy.arange(6.0)
    cupy.cuda.runtime.deviceSynchronize()
    grid.plan(u)(u, stream=haloport.BLOCK)
    assert shared.tolist() == [5, 0, 1, 2, 3, 4, 5, 0] == u.to_numpy().tolist()
    assert cupy.from_dlpack(u).data.ptr == shared.data.ptr
    torch = pytest.importorskip("torch", reason="found no PyTorch")
    tensor = torch.from_dlpack(u)
    assert tensor.data_ptr() == shared.data.ptr and tensor.tolist() == shared.tolist()


def test_kernels_streams_and_events(cupy: Any) -> None:
    source = """
    KERNEL void add(GLOBAL f64 *u, f64 number, i64 n) {
        if (GLOBAL_INDEX(0) < n) u[GLOBAL_INDEX(0)] += number;
    }
    """
    device = haloport.Device("cuda:0")
    kernel = haloport.Kernel("add", source, ["pointer", "f64", "i64"], device=device)
    u = cupy.zeros(CELLS)
    cupy.cuda.runtime.deviceSynchronize()
    began, ended = haloport.Event(device), haloport.Event(device)
    with haloport.Stream(device, priority="high") as stream:
        assert stream.__cuda_stream__() == (0, stream.handle) and stream.handle != 0
        began.record()
        step = kernel.bind(CELLS, u, 0.25, CELLS)
        for _ in range(4):
            step()
        kernel(CELLS, u, 1.0, CELLS)
        ended.record()
    assert ended.query() and 0 < ended.elapsed(began) < 10
    assert (u == 2.0).all()
    own = cupy.cuda.Stream(non_blocking=True)
    kernel(CELLS, u, 1.0, CELLS, stream=own)
    with own:
        assert bool((u == 3.0).all())
    with pytest.raises(BufferError, match="expected memory of cuda:0, found memory of the host"):
        kernel(CELLS, np.zeros(CELLS), 1.0, CELLS)


def test_redistribute(cupy: Any, ranks: Ranks) -> None:
    def run(comm: haloport.Communicator) -> None:
        source = haloport.Grid((8, 6), comm=comm)
        target = haloport.Grid((8, 6), comm=comm, parts=(1, comm.size))
        u, v = cupy.zeros(source.shape), cupy.zeros(target.shape)
        i, j = source.indices()
        u.set(np.broadcast_to(10.0 * i + j, source.shape).copy())
        cupy.cuda.runtime.deviceSynchronize()
        expected = 10.0 * np.arange(8)[:, None] + np.arange(6)
        whole = source.gather(u)
        assert comm.rank > 0 or np.array_equal(whole, expected)
        source.redistribute(target).plan(u, v)(u, v)
        whole = target.gather(v)
        assert comm.rank > 0 or np.array_equal(whole, expected)
        back = source.scatter(cupy.asarray(expected) if comm.rank == 0 else None)
        whole = source.gather(back)
        assert comm.rank > 0 or np.array_equal(whole, expected)
        with pytest.raises(ValueError, match="contiguous"):
            source.gather(cupy.zeros(source.shape[::-1]).T)

    ranks(2)(run)


def test_messages_of_arrays(cupy: Any, ranks: Ranks) -> None:
    def run(comm: haloport.Communicator) -> None:
        exchange = haloport.SparseExchange(comm=comm)
        after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        with cupy.cuda.Stream(non_blocking=True):
            for turn in range(5):
                values = cupy.arange(CELLS + 1, dtype="f8") + (comm.rank + turn)
                [(source, came)] = exchange([(after, values)], into=lambda source, n: cupy.empty(n // 8))
                assert source == before and bool((came == cupy.arange(CELLS + 1) + (before + turn)).all())

    ranks(2)(run)


def test_wrong_devices_are_refused(cupy: Any) -> None:
    grid = haloport.Grid((6,), periodic=True, comm=alone())
    update = grid.plan(np.zeros(8))
    with pytest.raises(BufferError, match="CUDA"):
        update(cupy.zeros(8))
    on_device = grid.plan(cupy.zeros(8))
    with pytest.raises(BufferError, match="host"):
        on_device(np.zeros(8))
    freed = type("Freed", (), {})()
    freed.__cuda_array_interface__ = {"shape": (8,), "typestr": "<f8", "data": (0x1000, False), "version": 3}
    with pytest.raises(BufferError):
        on_device(freed)
