"""Halo exchanges of ICON4Py by Haloport.

For version 0.2.0 of icon4py-common. ``register()`` makes ICON4Py use Haloport wherever it asks ``create_exchange`` for an
exchange of ranks of MPI::

    import haloport.icon4py

    haloport.icon4py.register()
    exchange = definitions.create_exchange(process_props, decomposition_info)

The module imports nothing of ICON4Py before it is used.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, Literal, overload

import numpy as np

from haloport._haloport import BLOCK, DEFAULT, Communicator, Mesh, Plan
from haloport._layouts import InFlight, LaidOutPlan, Way, rows_of
from haloport.typing import StreamLike

__all__ = ["Exchange", "Result", "register"]

_NUMPY: Final = np.ndarray


class Exchange:
    """Fills the halos of fields on the cells, edges and vertices of a mesh: an ``ExchangeRuntime`` of ICON4Py.

    Making it is collective. So is the first exchange of fields of a dimension, of given element types and numbers of
    levels, in a given order; all further ones are calls between neighbours. Ranks may pass arrays of other strides and
    numbers of rows in each exchange: if the strides differ from those of the first exchange on a rank, the rank
    exchanges temporary arrays, which takes longer.

    Parameters
    ----------
    process_props : icon4py.model.common.decomposition.definitions.ProcessProperties
        Its communicator, ``comm``, is anything that ``haloport.Communicator`` takes.
    decomposition_info : icon4py.model.common.decomposition.definitions.DecompositionInfo
        The global indices and the owner masks of cells, edges and vertices. Each index is owned by one rank.

    Raises
    ------
    haloport.RefusedError
        On every rank, if an index of a halo has no owner, or an index has two.
    """

    def __init__(self, process_props: Any, decomposition_info: Any) -> None:
        dimension = import_module("icon4py.model.common.dimension")
        definitions = import_module("icon4py.model.common.decomposition.definitions")
        comm = Communicator(process_props.comm)
        self._rank, self._size = comm.rank, comm.size
        self._default_stream, self._block = definitions.DEFAULT_STREAM, definitions.BLOCK
        self._meshes: dict[str, Mesh] = {}
        self._halos: dict[str, Any] = {}
        for dim in (dimension.CellDim, dimension.EdgeDim, dimension.VertexDim):
            ids = np.asarray(_on_host(decomposition_info.global_index(dim)), np.int64)
            owned = np.asarray(_on_host(decomposition_info.owner_mask(dim)), np.bool_)
            self._meshes[dim.value] = Mesh(ids, owned, comm=comm)
            self._halos[dim.value] = rows_of(np.flatnonzero(~owned))
        self._plans: dict[tuple[Any, ...], LaidOutPlan] = {}
        self._ways: dict[tuple[Any, ...], Way] = {}
        self._likely: dict[tuple[Any, ...], Plan] = {}

    def start(self, dim: Any, *fields: Any, stream: StreamLike = DEFAULT) -> "Result":
        """Starts an exchange. Returns without waiting for neighbours.

        Parameters
        ----------
        dim : gt4py.next.Dimension
            ``CellDim``, ``EdgeDim`` or ``VertexDim``.
        *fields : gt4py.next.Field or array
            Any number of fields of shape ``(rows,)`` or ``(rows, levels)``, of NumPy or CuPy, with at least as many rows
            as the mesh has cells, edges or vertices on this rank. Further rows are left alone.
        stream : stream, optional
            Work on a device waits for what was put into this stream before. Arrays on the host are sent at once.

        Returns
        -------
        Result
            Call its ``finish`` before the halos are used, and before the next exchange of the same kind.
        """
        return Result(self._start(dim, fields, self._stream(stream, DEFAULT)), self)

    def exchange(self, dim: Any, *fields: Any, stream: StreamLike = DEFAULT) -> None:
        """Starts and finishes an exchange. Parameters as for ``start``.

        Arrays on the host have their halos when it returns. On a device, what is put into `stream` afterwards waits for
        them; with ``BLOCK``, of ICON4Py or Haloport, the call waits.
        """
        if stream is self._block or stream is BLOCK:
            self._start(dim, fields, DEFAULT).finish(BLOCK)
            return
        if stream is self._default_stream:
            stream = DEFAULT
        if len(fields) == 1:
            (first,) = fields
            arrays: Sequence[Any] = fields
            if type(first) is not _NUMPY:
                first = getattr(first, "ndarray", first)
                arrays = (first,)
        elif fields:
            arrays = [field if type(field) is _NUMPY else getattr(field, "ndarray", field) for field in fields]
            first = arrays[0]
        else:
            return
        # The plan itself checks the arrays, quicker than it is to look for the way of all their types and strides.
        plan = self._likely.get((dim.value, len(arrays), first.shape, first.dtype.char))
        if plan is not None:
            try:
                if stream is DEFAULT:
                    plan(*arrays)
                else:
                    plan(*arrays, stream=stream)
                return
            except (ValueError, BufferError):
                pass
        self._way(dim, fields, arrays)(*arrays, stream=stream)

    @overload
    def __call__(self, *fields: Any, dim: Any, full_exchange: Literal[True] = ..., stream: StreamLike = ...) -> None: ...
    @overload
    def __call__(self, *fields: Any, dim: Any, full_exchange: Literal[False], stream: StreamLike = ...) -> "Result": ...
    def __call__(
        self, *fields: Any, dim: Any, full_exchange: bool = True, stream: StreamLike = DEFAULT
    ) -> "Result | None":
        """Does the same as ``exchange``, or as ``start`` if `full_exchange` is ``False``."""
        if full_exchange:
            self.exchange(dim, *fields, stream=stream)
            return None
        return self.start(dim, *fields, stream=stream)

    def get_size(self) -> int:
        """Returns the number of ranks."""
        return self._size

    def my_rank(self) -> int:
        """Returns the number of this rank, from 0."""
        return self._rank

    def __str__(self) -> str:
        return f"{self.__class__} (rank = {self._rank} / {self._size})"

    def _stream(self, stream: StreamLike, for_block: StreamLike) -> StreamLike:
        if stream is self._default_stream:
            return DEFAULT
        return for_block if stream is self._block or stream is BLOCK else stream

    def _start(self, dim: Any, fields: tuple[Any, ...], stream: StreamLike) -> InFlight:
        arrays = [getattr(field, "ndarray", field) for field in fields]
        return self._way(dim, fields, arrays).start(*arrays, stream=stream)

    def _way(self, dim: Any, fields: Sequence[Any], arrays: Sequence[Any]) -> Way:
        """Returns the way to exchange arrays of these types, shapes and strides. Collective if their kind is new."""
        key = (dim.value, *[(array.dtype, array.shape, array.strides) for array in arrays])
        way = self._ways.get(key)
        if way is None:
            way = self._ways[key] = self._find(dim, fields, arrays)
        if isinstance(way, Plan):
            self._likely[dim.value, len(arrays), arrays[0].shape, arrays[0].dtype.char] = way
        return way

    def _find(self, dim: Any, fields: Sequence[Any], arrays: Sequence[Any]) -> Way:
        mesh = self._meshes.get(dim.value)
        if mesh is None:
            raise ValueError(f"dim: expected {', '.join(self._meshes)}, found {dim}")
        if not fields:
            return _Nothing()
        for number, (field, array) in enumerate(zip(fields, arrays)):
            _check(f"field {number}", dim, mesh.cells, field, array)
        rows = [array if array.shape[0] == mesh.cells else array[: mesh.cells] for array in arrays]
        kind = (dim.value, *[(isinstance(array, np.ndarray), array.dtype, array.shape[1:]) for array in arrays])
        plan = self._plans.get(kind)
        if plan is None:
            plan = LaidOutPlan(mesh.plan(*rows), rows, [self._halos[dim.value]])
            self._plans[kind] = plan
        way = plan.way(rows)
        # A plan for some rows takes arrays with more; one for no rows, and temporary arrays, do not.
        if (way is not plan.plan or mesh.cells == 0) and any(cut is not array for cut, array in zip(rows, arrays)):
            way = _FirstRows(way, mesh.cells)
        return way


class Result:
    """An exchange in flight: an ``ExchangeResult`` of ICON4Py. If it is dropped, the exchange is finished first."""

    __slots__ = ("_exchange", "_pending")

    def __init__(self, pending: InFlight, exchange: Exchange) -> None:
        self._pending: InFlight | None = pending
        self._exchange = exchange

    def finish(self, stream: StreamLike = DEFAULT) -> None:
        """Ends the exchange; further calls do nothing.

        Arrays on the host have their halos when it returns. On a device, what is put into `stream` afterwards waits for
        them; with ``BLOCK``, of ICON4Py or Haloport, the call waits.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.finish(self._exchange._stream(stream, BLOCK))

    def is_ready(self) -> bool:
        """Makes progress, and returns whether ``finish`` would return without waiting for a neighbour."""
        return self._pending is None or self._pending.is_ready()


def register() -> None:
    """Makes Haloport the exchange of ICON4Py between ranks of MPI, in place of GHEX.

    Afterwards ``create_exchange`` returns an ``Exchange`` for ``MPICommProcessProperties`` of more than one rank, and
    ``create_halo_exchange_wait`` takes it. Calling it again does nothing. ICON4Py itself imports mpi4py only together
    with GHEX: call ``haloport.ghex.install()`` before ICON4Py is imported if GHEX is not installed.
    """
    definitions = import_module("icon4py.model.common.decomposition.definitions")
    mpi_decomposition = import_module("icon4py.model.common.decomposition.mpi_decomposition")

    def create(process_props: Any, decomp_info: Any) -> Any:
        if process_props.comm_size > 1:
            return Exchange(process_props, decomp_info)
        return definitions.SingleNodeExchange()

    definitions.create_exchange.register(mpi_decomposition.MPICommProcessProperties, create)
    definitions.create_halo_exchange_wait.register(Exchange, definitions.HaloExchangeWait)


class _Nothing:
    """An exchange of no fields."""

    def __call__(self, *fields: Any, stream: StreamLike = DEFAULT) -> None:
        pass

    def start(self, *fields: Any, stream: StreamLike = DEFAULT) -> InFlight:
        return self

    def finish(self, stream: StreamLike = DEFAULT) -> None:
        pass

    def is_ready(self) -> bool:
        return True


class _FirstRows:
    """Exchanges the first rows of arrays that have more."""

    def __init__(self, way: Way, rows: int) -> None:
        self._way = way
        self._rows = rows

    def __call__(self, *arrays: Any, stream: StreamLike = DEFAULT) -> None:
        self._way(*[array[: self._rows] for array in arrays], stream=stream)

    def start(self, *arrays: Any, stream: StreamLike = DEFAULT) -> InFlight:
        return self._way.start(*[array[: self._rows] for array in arrays], stream=stream)


def _check(name: str, dim: Any, rows: int, field: Any, array: Any) -> None:
    """Checks what all fields of a dimension have in common."""
    if field is not array and field.domain.dims[0] != dim:
        raise ValueError(f"{name}: expected the dimension {dim} first, found {field.domain.dims}")
    if len(array.shape) not in (1, 2):
        raise ValueError(f"{name}: expected 1 or 2 axes, found the shape {array.shape}")
    if array.shape[0] < rows:
        raise ValueError(f"{name}: expected {rows} rows or more along {dim}, found the shape {array.shape}")


def _on_host(array: Any) -> Any:
    """Returns an array of CuPy as one of NumPy; others as they are."""
    return array.get() if hasattr(array, "get") else array
