"""A program that is never run: a type checker refuses each line that is marked as wrong, and accepts all others.

See ``test_stubs.py``.
"""

from __future__ import annotations

import array
import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import haloport as hp
from haloport.typing import ArrayLike, CommLike, DeviceLike, FieldLike, StreamLike


class CudaStream:
    """As of cuda.core."""

    handle = 5

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 5


class CupyStream:
    ptr = 5


class OldTorchStream:
    cuda_stream = 5


class Pointer:
    value: int | None = 5


class XpuStream:
    sycl_queue = 5


class NumbaStream:
    handle = Pointer()


class Queue:
    """As of dpctl."""

    def _get_capsule(self) -> object:
        return self


class Tensor:
    def __dlpack__(self, *, stream: Any | None = None, max_version: tuple[int, int] | None = None) -> object:
        return self


class CupyArray:
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {}


class UsmArray:
    @property
    def __sycl_usm_array_interface__(self) -> Mapping[str, Any]:
        return {}


class HostArray:
    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {}


class MpiComm:
    def Get_rank(self) -> int:
        return 0

    def Get_size(self) -> int:
        return 1


def arrays(grid: hp.Grid, u: NDArray[np.float64], several: list[NDArray[np.float64]], shape: NDArray[np.int64]) -> None:
    plan = grid.plan(u, np.zeros((3, 3)))
    for accepted in (u, Tensor(), CupyArray(), UsmArray(), HostArray(), bytearray(8), memoryview(b""), array.array("d")):
        plan(accepted)
    grid.plan(several, hp.Layout((3,), "f8"), [hp.Layout((3,), "f8")], axes=["levels", 1, np.int64(0)], vector=[None, 1, (0, 1)])
    plan(several, tuple(several), [], ())
    plan([0.0, 1.0])  # wrong: a list for an array
    plan({"u": u})  # wrong: a dict of arrays
    plan([several])  # wrong: a list within a list
    plan("u")  # wrong: a text
    plan(hp.Layout((3,), "f8"))  # wrong: a layout for an array
    plan(u, in_flight=2)  # wrong: a keyword of another call
    grid.plan(u, inflight=2)  # wrong: no such keyword
    grid.plan(u, path="fast")  # wrong: no such path
    grid.plan(u, fixed="yes")  # wrong: a text for a flag
    grid.plan(u, axes=5)  # wrong: a number for a list
    grid.plan(u, in_flight=1.5)  # wrong: a float for a number of exchanges
    whole: NDArray[np.float64] | None = grid.gather(u, root=np.int32(1))
    assert whole is not None and grid.gather(several) is None
    grid.gather(u, into=whole)
    grid.scatter(whole, root=0, into=u)
    grid.scatter(None, into=several)
    grid.gather(u, 1)  # wrong: a rank without its keyword
    grid.gather(u, root=0.5)  # wrong: a float as a rank
    grid.gather(u, into=CupyArray())  # wrong: an array of another package to fill
    grid.scatter([[0.0]])  # wrong: a list for an array
    grid.scatter(whole, into=[0.0])  # wrong: a list of numbers for one of arrays
    grid.gather(u).sum()  # wrong: other ranks get None
    hp.Grid(shape, halo=[np.int64(1), (0, 2)], periodic=np.array([True, False]), parts=np.array([1, 1]))


def streams(plan: hp.Plan, u: NDArray[np.float64], kernel: hp.Kernel, event: hp.Event) -> None:
    every: list[StreamLike] = [None, hp.DEFAULT, hp.BLOCK, hp.Stream(), 5, CudaStream(), CupyStream(), OldTorchStream()]
    for stream in (*every, NumbaStream(), XpuStream(), Queue()):
        plan(u, stream=stream)
        plan.start(u, stream=stream).finish(stream)
        kernel(5, u, 3, np.float32(1), 2.5, stream=stream)
        kernel.bind((5, np.int64(5)), u)(stream=stream)
        event.record(stream)
        event.wait(stream)
    plan(u, stream="default")  # wrong: a text as a stream
    plan(u, stream=event)  # wrong: an event as a stream
    plan.start(u).finish(0.5)  # wrong: a float as a stream
    plan(u, stream=hp.Device("cpu"))  # wrong: a device as a stream
    kernel(5, "u")  # wrong: a text as an argument
    kernel()  # wrong: no size
    kernel(1.5, u)  # wrong: a float as a size
    kernel.bind(5, u)("stream")  # wrong: a text for nothing
    hp.Kernel("k", None, ["f16"])  # wrong: no such type
    hp.Kernel("k", None, [], constants=["N"])  # wrong: names without values
    hp.Stream(priority="urgent")  # wrong: no such priority
    with event:  # wrong: no context manager
        pass
    with hp.Stream() as current:
        current.synchronize()
    event.elapsed(5.0)  # wrong: a time for an event


async def waits(plan: hp.Plan, u: NDArray[np.float64], sparse: hp.SparseExchange) -> list[tuple[int, bytes]]:
    await plan.start(u)
    await plan(u)  # wrong: nothing to wait for
    await sparse({0: b""})  # wrong: messages that are there
    wrong: int = await sparse.start([(0, b"")])  # wrong: messages as a number
    return await sparse.start([(np.int64(0), np.zeros(3)), (wrong, b"")])


def ranks(comm: hp.Communicator, cart: MpiComm, u: NDArray[np.float64], mask: NDArray[np.bool_]) -> None:
    total: int = comm.all_reduce(3)
    comm.broadcast(total, root=np.int64(0))
    comm.broadcast(total, root=1.5)  # wrong: a float as a rank
    comm.rank = 3  # wrong: a property that cannot be set
    comm.time_limit = None
    comm.time_limit = "long"  # wrong: a text for seconds
    hp.Mesh(range(3), mask.sum(), comm=cart)
    hp.Mesh([0, 1], mask, np.zeros(1, int), fill=[1])
    hp.Mesh([0, 1])  # wrong: an argument is missing
    hp.Mesh({0, 1}, 1)  # wrong: a set has no order
    hp.Mesh.from_lists(2, [0], {})  # wrong: a list for a mapping
    hp.Grid((4,), comm="world")  # wrong: a text for a communicator
    hp.Grid("44", comm=comm)  # wrong: a text for numbers
    hp.Grid((4.0, 4.0), comm=comm)  # wrong: floats for numbers of cells
    hp.Grid((4,), halo=0.5, comm=comm)  # wrong: a float for a width
    hp.Grid((4,), like=hp.Layout((4,), "f8"))  # wrong: a layout for a grid
    grid = hp.Grid((4,), comm=5)
    grid.shape = (3,)  # wrong: a property that cannot be set
    grid.empty(levels=2.0)  # wrong: a float for a number of levels
    grid.empty(device=5)  # wrong: a number for a device
    grid.empty(device=Queue())
    hp.SparseExchange(destinations=[0], sources=(1,))
    hp.SparseExchange([0])  # wrong: an argument without its keyword
    hp.SparseExchange()([0, 1])  # wrong: ranks without messages
    hp.LineExchange(10)(left="text")  # wrong: a text for bytes
    hp.LineExchange(10)(left=u, into=u)  # wrong: an array for a function that makes one
    came: list[tuple[int, NDArray[np.float64]]] = hp.SparseExchange()([(0, u)], into=lambda source, nbytes: np.zeros(nbytes // 8))
    hp.threads("4")  # wrong: a text for a number
    hp.run_ranks(4, 5)  # wrong: a number for a function


def values(layout: hp.Layout, grid: hp.Grid, device: hp.Device) -> None:
    assert layout == copy.copy(layout) and device == hp.Device("cpu") and hash(layout)
    assert layout == grid  # wrong: never equal
    assert device == "cpu"  # wrong: never equal
    assert grid.comm.rank == "0"  # wrong: never equal
    assert hp.DEFAULT != "default"  # wrong: always different
    layout.origin = (1,)  # wrong: a property that cannot be set
    hp.Layout((4,), "f8", 5)  # wrong: a number for a list
    hp.Layout((4,))  # wrong: an argument is missing
    grid.interior.start  # wrong: a tuple of slices


def of_a_program(u: ArrayLike, fields: FieldLike, comm: CommLike, device: DeviceLike, order: StreamLike) -> Sequence[int]:
    grid = hp.Grid((4, 4), comm=comm)
    grid.plan(u, fields)(u, fields, stream=order)
    return grid.empty(device=device)  # type: ignore[no-any-return]
