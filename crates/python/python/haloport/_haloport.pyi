"""The compiled part of Haloport. Import these names from ``haloport``; ``help`` shows what each does."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Generic, Literal, SupportsFloat, SupportsIndex, TypeAlias, TypeVar, final, overload

import numpy as np
import numpy.typing as npt
from numpy.typing import DTypeLike, NDArray

from haloport.typing import (
    ArrayLike,
    BoxLike,
    CommLike,
    CountsLike,
    DeviceLike,
    FieldLike,
    FlagsLike,
    LayoutLike,
    MessagesLike,
    StreamLike,
    SupportsBuffer,
)

__all__ = [
    "Array",
    "BLOCK",
    "BoundKernel",
    "Communicator",
    "DEFAULT",
    "Device",
    "Event",
    "ExchangeError",
    "Grid",
    "InFlightError",
    "Kernel",
    "Layout",
    "LineExchange",
    "Mesh",
    "Pending",
    "PendingMessages",
    "Plan",
    "RefusedError",
    "SparseExchange",
    "Stream",
    "TimeLimitError",
    "_Order",
    "__version__",
    "current_stream",
    "devices",
    "threads",
]

_T = TypeVar("_T")
_F = TypeVar("_F", bound="_Floats")
_A = TypeVar("_A", bound=ArrayLike)

_Slices: TypeAlias = tuple[slice, ...]
_Argument: TypeAlias = ArrayLike | SupportsFloat | SupportsIndex
"""An argument of a kernel: an array, or a number of Python or NumPy."""
_Floats: TypeAlias = ArrayLike | np.floating[Any] | float
"""Floats to sum: an array of any shape, or one float."""
_Path: TypeAlias = Literal["quickest", "direct", "shared", "messages", "stream-messages"]
_Combine: TypeAlias = Literal["sum", "min", "max", "replace"]

class ExchangeError(RuntimeError): ...
class InFlightError(RuntimeError): ...
class RefusedError(ValueError): ...

class TimeLimitError(TimeoutError):
    ranks: tuple[int, ...]

@final
class _Order:
    """The type of ``DEFAULT`` and ``BLOCK``."""

    DEFAULT: Final[_Order]
    BLOCK: Final[_Order]

DEFAULT: Final[_Order]
BLOCK: Final[_Order]

@final
class Communicator:
    def __new__(cls, comm: CommLike = None) -> Communicator: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def time_limit(self) -> float | None: ...
    @time_limit.setter
    def time_limit(self, seconds: float | None) -> None: ...
    @property
    def warn_after(self) -> float | None: ...
    @warn_after.setter
    def warn_after(self, seconds: float | None) -> None: ...
    @property
    def progress(self) -> Literal["auto", "thread", "caller"]: ...
    @progress.setter
    def progress(self, by: Literal["auto", "thread", "caller"]) -> None: ...
    def barrier(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Communicator: ...
    def __exit__(self, *_exception: object) -> None: ...
    def fail(self, why: str) -> None: ...
    @overload
    def all_reduce(self, value: int, op: Literal["sum", "min", "max"] = "sum") -> int: ...
    @overload
    def all_reduce(self, value: float, op: Literal["sum", "min", "max"] = "sum") -> float: ...
    @overload
    def sum_exact(self, values: _Floats, weights: _Floats | NDArray[np.bool_] | None = None) -> float: ...
    @overload
    def sum_exact(
        self, values: list[_F] | tuple[_F, ...], weights: Sequence[_Floats | NDArray[np.bool_]] | None = None
    ) -> list[float]: ...
    def broadcast(self, value: _T, root: SupportsIndex = 0) -> _T: ...
    def gather(self, value: _T, root: SupportsIndex = 0) -> list[_T] | None: ...

def threads(ranks: SupportsIndex) -> list[Communicator]: ...

@final
class Layout:
    def __new__(
        cls,
        shape: CountsLike,
        dtype: DTypeLike,
        axes: Iterable[SupportsIndex | str] | None = None,
        *,
        strides: CountsLike | None = None,
        origin: CountsLike | None = None,
        device: DeviceLike | None = None,
    ) -> Layout: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def axes(self) -> tuple[int | str, ...] | None: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def origin(self) -> tuple[int, ...] | None: ...
    @property
    def device(self) -> str | None: ...
    def __copy__(self) -> Layout: ...
    def __deepcopy__(self, _memo: Any) -> Layout: ...
    def __getnewargs_ex__(self) -> tuple[tuple[tuple[int, ...], np.dtype[Any]], dict[str, Any]]: ...

@final
class Grid:
    def __new__(
        cls,
        shape: CountsLike,
        *,
        halo: SupportsIndex | Iterable[SupportsIndex | tuple[SupportsIndex, SupportsIndex]] = 1,
        periodic: FlagsLike = False,
        corners: bool = True,
        parts: SupportsIndex | CountsLike | None = None,
        domains: Iterable[BoxLike] | None = None,
        like: Grid | None = None,
        clipped: bool = False,
        cubed_sphere: bool = False,
        fold: Literal["cell", "corner"] | None = None,
        points: Literal["cells", "east-edges", "north-edges", "corners"] = "cells",
        comm: CommLike = None,
    ) -> Grid: ...
    @property
    def comm(self) -> Communicator: ...
    @property
    def global_shape(self) -> tuple[int, ...]: ...
    @property
    def periodic(self) -> tuple[bool, ...]: ...
    @property
    def halo(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def domains(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]: ...
    @property
    def lower(self) -> tuple[int, ...]: ...
    @property
    def upper(self) -> tuple[int, ...]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def owned(self) -> _Slices: ...
    @property
    def interior(self) -> _Slices: ...
    @property
    def boundary(self) -> list[_Slices]: ...
    def indices(self, domain: SupportsIndex | None = None) -> tuple[NDArray[np.int64], ...]: ...
    def empty(
        self, dtype: DTypeLike = "float64", levels: SupportsIndex | None = None, *, device: DeviceLike | None = None
    ) -> Any: ...
    def plan(
        self,
        *fields: LayoutLike,
        axes: Iterable[SupportsIndex | str] | None = None,
        vector: Iterable[SupportsIndex | CountsLike | None] | None = None,
        fixed: bool = False,
        share: bool = False,
        in_flight: SupportsIndex = 1,
        path: _Path = "quickest",
        accumulate: _Combine | None = None,
        zero_halo: bool = False,
        grids: Iterable[Grid | Mesh] | None = None,
    ) -> Plan: ...
    def redistribute(self, target: Grid | Mesh, *, fill_halo: bool = False) -> Redistribution: ...
    def gather(
        self,
        field: FieldLike,
        *,
        root: SupportsIndex = 0,
        into: NDArray[Any] | None = None,
        limit: SupportsIndex = 67108864,
    ) -> NDArray[Any] | None: ...
    def scatter(
        self,
        whole: ArrayLike | None,
        *,
        root: SupportsIndex = 0,
        into: NDArray[Any] | Iterable[NDArray[Any]] | None = None,
        limit: SupportsIndex = 67108864,
    ) -> Any: ...

@final
class Mesh:
    def __new__(
        cls,
        ids: npt.ArrayLike,
        owned: npt.ArrayLike,
        owners: npt.ArrayLike | None = None,
        *,
        fill: npt.ArrayLike | None = None,
        comm: CommLike = None,
    ) -> Mesh: ...
    @staticmethod
    def from_lists(
        cells: SupportsIndex,
        sends: Mapping[int, npt.ArrayLike],
        receives: Mapping[int, npt.ArrayLike],
        *,
        comm: CommLike = None,
    ) -> Mesh: ...
    @staticmethod
    def of_domains(
        domains: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]],
        *,
        fill: npt.ArrayLike | None = None,
        comm: CommLike = None,
    ) -> Mesh: ...
    @property
    def comm(self) -> Communicator: ...
    @property
    def cells(self) -> int: ...
    @property
    def ids(self) -> NDArray[np.int64]: ...
    @property
    def owned(self) -> NDArray[np.bool_]: ...
    def split(self, neighbours: npt.ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
    def empty(
        self, dtype: DTypeLike = "float64", levels: SupportsIndex | None = None, *, device: DeviceLike | None = None
    ) -> Any: ...
    def plan(
        self,
        *fields: LayoutLike,
        axes: Iterable[SupportsIndex | str] | None = None,
        fixed: bool = False,
        share: bool = False,
        in_flight: SupportsIndex = 1,
        path: _Path = "quickest",
        accumulate: _Combine | None = None,
        zero_halo: bool = False,
        grids: Iterable[Grid | Mesh] | None = None,
    ) -> Plan: ...
    def redistribute(self, target: Mesh | Grid, *, fill_halo: bool = False) -> Redistribution: ...

@final
class Redistribution:
    def plan(
        self,
        *arrays: LayoutLike,
        axes: Iterable[SupportsIndex | str] | None = None,
        vector: Iterable[SupportsIndex | CountsLike | None] | None = None,
        fixed: bool = False,
        share: bool = False,
        in_flight: SupportsIndex = 1,
        path: _Path = "quickest",
    ) -> Plan: ...

@final
class Plan:
    @property
    def layouts(self) -> list[Layout]: ...
    @property
    def fixed(self) -> bool: ...
    @property
    def traffic(self) -> dict[str, int]: ...
    def describe(self) -> dict[str, Any]: ...
    def __call__(self, *fields: FieldLike, stream: StreamLike = None) -> None: ...
    def start(self, *fields: FieldLike, stream: StreamLike = None) -> Pending: ...
    def functional(self, *fields: FieldLike, stream: StreamLike = None) -> Any: ...

@final
class Pending:
    def finish(self, stream: StreamLike = None) -> None: ...
    def is_ready(self) -> bool: ...
    def __enter__(self) -> Pending: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]: ...
    def __await__(self) -> Generator[None, None, None]: ...

@final
class Device:
    def __new__(cls, name: DeviceLike = "auto") -> Device: ...
    @property
    def name(self) -> str: ...
    @property
    def backend(self) -> Literal["cpu", "cuda", "sycl", "level_zero"]: ...
    @property
    def description(self) -> str: ...
    @property
    def asynchronous(self) -> bool: ...
    @property
    def host_accessible(self) -> bool: ...
    def synchronize(self) -> None: ...
    def __copy__(self) -> Device: ...
    def __deepcopy__(self, _memo: Any) -> Device: ...
    def __getnewargs__(self) -> tuple[str]: ...

def devices() -> list[Device]: ...

@final
class Array:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def device(self) -> Device: ...
    def to_numpy(self, *, stream: StreamLike = None) -> NDArray[Any]: ...
    def copy_from(self, array: npt.ArrayLike, *, stream: StreamLike = None) -> None: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __array__(self, *_options: Any, **_named: Any) -> Any: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]: ...

@final
class Stream:
    def __new__(cls, device: DeviceLike = "cpu", *, priority: Literal["low", "normal", "high"] = "normal") -> Stream: ...
    @property
    def device(self) -> Device: ...
    @property
    def handle(self) -> int: ...
    def synchronize(self) -> None: ...
    def __cuda_stream__(self) -> tuple[int, int]: ...
    def __enter__(self) -> Stream: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]: ...

def current_stream(device: DeviceLike = "cpu") -> Stream: ...

@final
class Event:
    def __new__(cls, device: DeviceLike = "cpu") -> Event: ...
    @property
    def device(self) -> Device: ...
    @property
    def handle(self) -> int: ...
    def record(self, stream: StreamLike = None) -> None: ...
    def query(self) -> bool: ...
    def wait(self, stream: StreamLike = None) -> None: ...
    def elapsed(self, since: Event) -> float: ...

@final
class Kernel:
    def __new__(
        cls,
        name: str,
        source: str | None,
        parameters: Iterable[Literal["pointer", "i32", "i64", "f32", "f64"]],
        *,
        constants: Mapping[str, SupportsIndex | SupportsFloat] | None = None,
        host: Callable[..., None] | None = None,
        device: DeviceLike = "cpu",
    ) -> Kernel: ...
    @property
    def name(self) -> str: ...
    @property
    def device(self) -> Device: ...
    def __call__(self, size: SupportsIndex | CountsLike, *arguments: _Argument, stream: StreamLike = None) -> None: ...
    def bind(self, size: SupportsIndex | CountsLike, *arguments: _Argument) -> BoundKernel: ...

@final
class BoundKernel:
    @property
    def kernel(self) -> Kernel: ...
    def __call__(self, *, stream: StreamLike = None) -> None: ...

@final
class SparseExchange:
    def __new__(
        cls,
        *,
        sources: CountsLike | None = None,
        destinations: CountsLike | None = None,
        comm: CommLike = None,
    ) -> SparseExchange: ...
    @property
    def comm(self) -> Communicator: ...
    @overload
    def __call__(
        self, messages: MessagesLike, *, into: None = None, stream: StreamLike = None
    ) -> list[tuple[int, bytes]]: ...
    @overload
    def __call__(
        self, messages: MessagesLike, *, into: Callable[[int, int], _A], stream: StreamLike = None
    ) -> list[tuple[int, _A]]: ...
    @overload
    def start(
        self, messages: MessagesLike, *, into: None = None, stream: StreamLike = None
    ) -> PendingMessages[list[tuple[int, bytes]]]: ...
    @overload
    def start(
        self, messages: MessagesLike, *, into: Callable[[int, int], _A], stream: StreamLike = None
    ) -> PendingMessages[list[tuple[int, _A]]]: ...

@final
class LineExchange:
    def __new__(cls, items: SupportsIndex | range, *, comm: CommLike = None) -> LineExchange: ...
    @property
    def comm(self) -> Communicator: ...
    @property
    def items(self) -> range: ...
    @property
    def left(self) -> int | None: ...
    @property
    def right(self) -> int | None: ...
    @overload
    def __call__(
        self,
        *,
        left: ArrayLike | None = None,
        right: ArrayLike | None = None,
        into: None = None,
        stream: StreamLike = None,
    ) -> tuple[bytes | None, bytes | None]: ...
    @overload
    def __call__(
        self,
        *,
        left: ArrayLike | None = None,
        right: ArrayLike | None = None,
        into: Callable[[int, int], _A],
        stream: StreamLike = None,
    ) -> tuple[_A | None, _A | None]: ...
    @overload
    def start(
        self,
        *,
        left: ArrayLike | None = None,
        right: ArrayLike | None = None,
        into: None = None,
        stream: StreamLike = None,
    ) -> PendingMessages[tuple[bytes | None, bytes | None]]: ...
    @overload
    def start(
        self,
        *,
        left: ArrayLike | None = None,
        right: ArrayLike | None = None,
        into: Callable[[int, int], _A],
        stream: StreamLike = None,
    ) -> PendingMessages[tuple[_A | None, _A | None]]: ...

@final
class PendingMessages(Generic[_T]):
    def finish(self) -> _T: ...
    def is_ready(self) -> bool: ...
    def __await__(self) -> Generator[None, None, _T]: ...

__version__: Final[str]
