"""Plans for arrays whose strides may differ from call to call and from rank to rank.

Making a plan is collective, so it happens only for a reason that all ranks share: the first exchange of fields of these
element types and numbers of levels. Strides and numbers of rows are local. If arrays differ from a plan only in their
strides, the exchange moves temporary arrays of the plan's strides, and copies the halos back.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
import sys
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from haloport._haloport import BLOCK, DEFAULT, Plan
from haloport.typing import StreamLike

Indices: TypeAlias = Any
"""Selects elements of an array: a tuple of slices, or indices along the first axis."""


class InFlight(Protocol):
    """An exchange in flight, as ``haloport.Pending``."""

    def finish(self, stream: StreamLike = ...) -> None: ...
    def is_ready(self) -> bool: ...


class Way(Protocol):
    """Exchanges fields of one layout: a ``haloport.Plan``, or one with copies before and after it."""

    def __call__(self, *fields: Any, stream: StreamLike = ...) -> None: ...
    def start(self, *fields: Any, stream: StreamLike = ...) -> InFlight: ...


class LaidOutPlan:
    """A plan, and the layouts of the arrays for which it was made.

    Parameters
    ----------
    plan : haloport.Plan
        The plan.
    fields : sequence of arrays or of sequences of arrays
        The fields for which it was made; of several domains, each a sequence with an array for each domain.
    halos : sequence of sequences of indices
        For each domain, the elements of its arrays that an exchange fills.
    """

    def __init__(self, plan: Plan, fields: Sequence[Any], halos: Sequence[Sequence[Indices]]) -> None:
        self.plan = plan
        self._strides = [[strides(block) for block in blocks(field)] for field in fields]
        self._halos = halos

    def way(self, fields: Sequence[Any]) -> Way:
        """Returns the way to exchange fields of these shapes and strides, and of the shapes and types of the plan's."""
        found = [[strides(block) for block in blocks(field)] for field in fields]
        if found == self._strides:
            return self.plan
        temporaries = [
            [None if had == has else _like(block, has) for block, had, has in zip(blocks(field), one, other)]
            for field, one, other in zip(fields, found, self._strides)
        ]
        return _Copying(self.plan, temporaries, self._halos)


class _Copying:
    """A plan for fields of other strides: those that have a temporary array are copied."""

    def __init__(self, plan: Plan, temporaries: list[list[Any]], halos: Sequence[Sequence[Indices]]) -> None:
        self._plan = plan
        self._temporaries = temporaries
        self._halos = halos

    def __call__(self, *fields: Any, stream: StreamLike = DEFAULT) -> None:
        self.start(*fields, stream=stream).finish(stream)

    def start(self, *fields: Any, stream: StreamLike = DEFAULT) -> InFlight:
        passed, back = [], []
        for field, temporaries in zip(fields, self._temporaries):
            arrays = list(blocks(field))
            for domain, (array, temporary) in enumerate(zip(tuple(arrays), temporaries)):
                if temporary is not None:
                    with _current(array, stream):
                        temporary[...] = array
                    arrays[domain] = temporary
                    back.append((array, temporary, self._halos[domain]))
            passed.append(arrays if isinstance(field, list) else arrays[0])
        return _CopiedBack(self._plan.start(*passed, stream=stream), back)


class _CopiedBack:
    """An exchange of temporary arrays in flight."""

    def __init__(self, pending: InFlight, back: list[tuple[Any, Any, Sequence[Indices]]]) -> None:
        self._pending = pending
        self._back = back

    def finish(self, stream: StreamLike = DEFAULT) -> None:
        self._pending.finish(stream)
        back, self._back = self._back, []
        for array, temporary, halo in back:
            with _current(array, stream) as current:
                for indices in halo:
                    array[indices] = temporary[indices]
                if current is not None and stream is BLOCK:
                    current.synchronize()

    def is_ready(self) -> bool:
        return self._pending.is_ready()


def blocks(field: Any) -> Sequence[Any]:
    """Returns the arrays of a field: itself, or of several domains the list of them."""
    return field if isinstance(field, list) else (field,)


def rows_of(rows: NDArray[np.int64]) -> list[Indices]:
    """Returns what selects these rows, which ascend: a slice if they are contiguous."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return [slice(int(rows[0]), int(rows[-1]) + 1)]
    return [rows]


def strides(array: Any) -> tuple[int, ...]:
    """Returns the strides in bytes, with 0 along axes of one element, where strides have no effect."""
    return tuple(stride if extent > 1 else 0 for stride, extent in zip(array.strides, array.shape))


def _like(array: Any, strides: tuple[int, ...]) -> Any:
    """Returns a new array of the same library, shape and type with these strides in bytes."""
    library = _library(array)
    size = array.dtype.itemsize
    reach = [(extent - 1) * stride for extent, stride in zip(array.shape, strides) if extent > 0]
    low, high = sum(min(one, 0) for one in reach), sum(max(one, 0) for one in reach)
    memory = library.empty((high - low) // size + 1, dtype=array.dtype)[-low // size :]
    return library.lib.stride_tricks.as_strided(memory, array.shape, strides)


def _library(array: Any) -> Any:
    """Returns the module NumPy or CuPy, whichever has made the array."""
    if isinstance(array, np.ndarray):
        return np
    return sys.modules[type(array).__module__.partition(".")[0]]


def _current(array: Any, stream: StreamLike) -> AbstractContextManager[Any]:
    """Returns a context in which work on the array goes to this stream: CuPy's stream, or ``None`` for NumPy."""
    library = _library(array)
    if not hasattr(library, "cuda"):
        return nullcontext()
    address: Any
    if stream is DEFAULT or stream is BLOCK:
        address = 0
    elif (named := getattr(stream, "__cuda_stream__", None)) is not None:
        address = named()[1]
    else:
        address = getattr(stream, "ptr", stream)
    made: AbstractContextManager[Any] = library.cuda.ExternalStream(address)
    return made
