"""Types of arguments, for annotations in programs: ``def step(u: ArrayLike, stream: StreamLike = None) -> None``.

The protocols name what objects of other packages need to have, so that no package is imported for its types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, SupportsIndex, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from haloport._haloport import Array, Communicator, Device, Layout, Stream, _Order

__all__ = [
    "ArrayLike",
    "BoxLike",
    "CommLike",
    "CountsLike",
    "DeviceLike",
    "FieldLike",
    "FlagsLike",
    "LayoutLike",
    "MessagesLike",
    "MpiComm",
    "StreamLike",
    "SupportsArrayInterface",
    "SupportsBuffer",
    "SupportsCudaArrayInterface",
    "SupportsCudaStream",
    "SupportsCudaStreamHandle",
    "SupportsDLPack",
    "SupportsHandle",
    "SupportsPointer",
    "SupportsSyclQueue",
    "SupportsUsmArrayInterface",
    "SyclQueue",
]


class SupportsDLPack(Protocol):
    """An array of PyTorch, JAX, CuPy, dpnp and others."""

    def __dlpack__(self) -> Any: ...


class SupportsCudaArrayInterface(Protocol):
    """An array of CuPy or Numba in memory of CUDA."""

    @property
    def __cuda_array_interface__(self) -> Any: ...


class SupportsUsmArrayInterface(Protocol):
    """An array of dpctl or dpnp in memory of SYCL."""

    @property
    def __sycl_usm_array_interface__(self) -> Any: ...


class SupportsArrayInterface(Protocol):
    """An array in memory of the host, as NumPy reads it."""

    @property
    def __array_interface__(self) -> Any: ...


class SupportsBuffer(Protocol):
    """An object with the buffer protocol, such as a ``bytearray`` or a ``memoryview``."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


ArrayLike: TypeAlias = Union[
    Array,
    NDArray[Any],
    SupportsDLPack,
    SupportsCudaArrayInterface,
    SupportsUsmArrayInterface,
    SupportsArrayInterface,
    SupportsBuffer,
]
"""An array of any supported package, where it is: no list, and no array of xarray or dask."""

FieldLike: TypeAlias = Union[ArrayLike, Sequence[ArrayLike]]
"""An array; on a rank with several domains a sequence with an array for each, on one without domains an empty one."""

LayoutLike: TypeAlias = Union[ArrayLike, Layout, Sequence[Union[ArrayLike, Layout]]]
"""What a plan is made for: a field, or layouts in place of its arrays."""


class SupportsCudaStream(Protocol):
    """A stream of cuda.core, or of PyTorch from 2.9 on."""

    def __cuda_stream__(self) -> tuple[int, int]: ...


class SupportsPointer(Protocol):
    """A stream of CuPy."""

    @property
    def ptr(self) -> int: ...


class SupportsCudaStreamHandle(Protocol):
    """A stream of PyTorch before 2.9."""

    @property
    def cuda_stream(self) -> int: ...


class _Value(Protocol):
    """A pointer of ctypes."""

    @property
    def value(self) -> int | None: ...


class SupportsHandle(Protocol):
    """A stream of Numba."""

    @property
    def handle(self) -> _Value | None: ...


class SupportsSyclQueue(Protocol):
    """A stream of PyTorch on `xpu`: the address of its `sycl::queue`."""

    @property
    def sycl_queue(self) -> int: ...


class SyclQueue(Protocol):
    """A queue of dpctl."""

    def _get_capsule(self) -> Any: ...


StreamLike: TypeAlias = Union[
    Stream,
    _Order,
    SupportsCudaStream,
    SupportsPointer,
    SupportsCudaStreamHandle,
    SupportsHandle,
    SupportsSyclQueue,
    SyclQueue,
    int,
    None,
]
"""A stream or a queue of Haloport or of another package, the handle of a CUDA stream, ``DEFAULT`` or ``BLOCK``. ``None`` is the
current stream, as `current_stream` tells, or that of the arrays' package."""

DeviceLike: TypeAlias = Union[str, Device, SyclQueue]
"""A device, its name, or a queue of SYCL on it."""


class MpiComm(Protocol):
    """A communicator of mpi4py."""

    def Get_rank(self) -> int: ...
    def Get_size(self) -> int: ...


CommLike: TypeAlias = Union[Communicator, MpiComm, int, None]
"""A communicator, one of mpi4py, the handle of an ``MPI_Comm``, or ``None`` for all ranks of the program."""

CountsLike: TypeAlias = Iterable[SupportsIndex]
"""Whole numbers, of Python or NumPy, one for each axis."""

FlagsLike: TypeAlias = Union[bool, np.bool_, Iterable[Union[int, np.bool_]]]
"""A flag for all axes, or one for each, where 0 and 1 stand for False and True."""

BoxLike: TypeAlias = tuple[CountsLike, CountsLike]
"""A box of cells: the first cell, and one past the last, along each axis."""

MessagesLike: TypeAlias = Union[Iterable[tuple[SupportsIndex, ArrayLike]], Mapping[int, ArrayLike]]
"""Pairs of a destination and a message, or a mapping of destinations to messages."""
