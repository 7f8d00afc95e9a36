"""`haloport.icon4py`, checked against a global oracle, and against ICON4Py's own exchange by GHEX."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import haloport
import haloport.ghex
import haloport.ghex.context
import haloport.ghex.unstructured
import haloport.ghex.util
import haloport.icon4py

DTYPES = (np.float64, np.float32, np.int32)
LEVELS = (None, 1, 3, 8)


@pytest.fixture
def icon() -> Any:
    """The modules of ICON4Py."""
    reason = "needs icon4py-common: scripts/ghex --install"
    pytest.importorskip("icon4py.model.common.decomposition.mpi_decomposition", reason=reason)
    from gt4py import next as gtx
    from icon4py.model.common import dimension
    from icon4py.model.common.decomposition import definitions, mpi_decomposition

    dims = (dimension.CellDim, dimension.EdgeDim, dimension.VertexDim)
    return SimpleNamespace(
        gtx=gtx, dims=dims, levels=dimension.KDim, definitions=definitions, mpi=mpi_decomposition
    )


class Triangles:
    """A periodic triangulation whose cells are dealt out to ranks at random.

    Square number ``v`` of ``nx`` by ``ny`` has the vertex ``v``, three edges and two cells. A rank holds the cells that it
    owns, those that have a vertex in common with them, and the edges and vertices of all of these. Each edge and vertex is
    owned by one of the ranks that own its cells. Ranks may own nothing, unless `each_owns` is true.
    """

    def __init__(self, chance: random.Random, ranks: int, each_owns: bool = False) -> None:
        self.nx, self.ny = chance.randint(3, 6), chance.randint(3, 6)
        squares = range(self.nx * self.ny)
        self.cells = [corners for square in squares for corners in self.triangles(square)]
        self.edges = [
            (square, other)
            for square in squares
            for other in (self.vertex(square, 1, 0), self.vertex(square, 0, 1), self.vertex(square, 1, 1))
        ]
        width = chance.choice((1, 4))
        owners = [chance.randrange(ranks) for _ in range(0, len(self.cells), width)]
        if each_owns:
            owners[:ranks] = range(ranks)
        self.owners = [owners[cell // width] for cell in range(len(self.cells))]
        self.first = chance.choice((0, 1000))

        def owner(points: set[int]) -> int:
            return chance.choice([self.owners[cell] for cell, corners in enumerate(self.cells) if points <= set(corners)])

        self.owner_of = {
            "Cell": self.owners,
            "Edge": [owner(set(edge)) for edge in self.edges],
            "Vertex": [owner({vertex}) for vertex in squares],
        }

    def vertex(self, square: int, east: int, north: int) -> int:
        x, y = square % self.nx, square // self.nx
        return (x + east) % self.nx + (y + north) % self.ny * self.nx

    def triangles(self, square: int) -> list[tuple[int, ...]]:
        corner = self.vertex(square, 1, 1)
        return [(square, self.vertex(square, 1, 0), corner), (square, corner, self.vertex(square, 0, 1))]

    def decomposition(self, icon: Any, rank: int, chance: random.Random) -> Any:
        """Returns what the rank holds, in a random order."""
        mine = [cell for cell, owner in enumerate(self.owners) if owner == rank]
        touched = {vertex for cell in mine for vertex in self.cells[cell]}
        cells = [cell for cell, corners in enumerate(self.cells) if touched & set(corners)]
        vertices = {vertex for cell in cells for vertex in self.cells[cell]}
        edges = [
            edge for edge, ends in enumerate(self.edges) if any(set(ends) <= set(self.cells[cell]) for cell in cells)
        ]
        info = icon.definitions.DecompositionInfo()
        for dim, held in zip(icon.dims, (cells, edges, sorted(vertices))):
            # The owner of an edge or a vertex holds it: a cell of its own has it.
            order = list(held)
            chance.shuffle(order)
            ids = np.array(order, np.int64).reshape(-1)
            owned = np.array([self.owner_of[dim.value][one] == rank for one in order], np.bool_).reshape(-1)
            info.set_dimension(dim, ids + self.first, owned, np.where(owned, 0, 1))
        return info


class Fields:
    """Some fields of one dimension on one rank."""

    def __init__(
        self, icon: Any, info: Any, dim: Any, kinds: list[tuple[Any, int | None]], own: random.Random, plain: bool = False
    ) -> None:
        self.ids = info.global_index(dim)
        self.owned = info.owner_mask(dim)
        self.arrays, self.fields = [], []
        for dtype, levels in kinds:
            array = self.allocate(own, dtype, levels, plain)
            field = array
            if own.random() < 0.4 and len(array):  # GT4Py has no empty fields
                dims = (dim,) if levels is None else (dim, icon.levels)
                field = icon.gtx.as_field(dims, array)
                array = field.ndarray
            self.arrays.append(array)
            self.fields.append(field)
        for number, array in enumerate(self.arrays):
            array[...] = -1
            values = self.values(number, array)
            array[: len(self.ids)][self.owned] = values[self.owned]

    def allocate(self, own: random.Random, dtype: Any, levels: int | None, plain: bool) -> Any:
        """Returns an array; unless `plain`, at random with more rows, or with a distance between rows or levels."""
        rows = len(self.ids)
        more = 0 if plain else own.choice((0, 0, 3))
        if levels is None:
            step = 1 if plain else own.choice((1, 1, 2))
            return np.empty(step * (rows + more), dtype)[::step]
        pad = 0 if plain else own.choice((0, 0, 2))
        return np.empty((rows + more, levels + pad), dtype, order=own.choice("CF"))[:, :levels]

    def values(self, number: int, array: Any) -> Any:
        by_row = (100 * self.ids + number).astype(array.dtype)
        if array.ndim == 1:
            return by_row
        return by_row[:, None] + (10 * np.arange(array.shape[1])).astype(array.dtype)

    def check(self) -> None:
        for number, array in enumerate(self.arrays):
            np.testing.assert_array_equal(array[: len(self.ids)], self.values(number, array))
            assert (array[len(self.ids) :] == -1).all()


def random_kinds(chance: random.Random) -> list[tuple[Any, int | None]]:
    return [(chance.choice(DTYPES), chance.choice(LEVELS)) for _ in range(chance.randint(1, 4))]


def exchange_in_one_way(icon: Any, exchange: Any, dim: Any, fields: list[Any], way: int) -> None:
    """Exchanges in one of the ways that the protocol has."""
    streams = (icon.definitions.DEFAULT_STREAM, icon.definitions.BLOCK)
    if way == 0:
        exchange.exchange(dim, *fields)
    elif way == 1:
        exchange.exchange(dim, *fields, stream=streams[len(fields) % 2])
    elif way == 2:
        assert exchange(*fields, dim=dim) is None
    elif way == 3:
        result = exchange(*fields, dim=dim, full_exchange=False, stream=streams[0])
        result.finish(streams[len(fields) % 2])
    else:
        result = exchange.start(dim, *fields)
        until = time.monotonic() + 10
        while not result.is_ready() and time.monotonic() < until:
            pass
        result.finish()
        assert result.is_ready()
        result.finish()


@pytest.mark.parametrize("case", range(40))
def test_halos(ranks: Any, icon: Any, case: int) -> None:
    """Each rank chooses by itself which arrays it replaces, and their strides and numbers of rows."""

    def check(comm: haloport.Communicator) -> None:
        shared, own = random.Random(case), random.Random(1000 * case + comm.rank)
        info = Triangles(shared, comm.size).decomposition(icon, comm.rank, own)
        exchange = haloport.icon4py.Exchange(SimpleNamespace(comm=comm), info)
        for dim in icon.dims:
            kinds = random_kinds(shared)
            fields = None
            for _ in range(4):
                if fields is None or own.random() < 0.7:
                    fields = Fields(icon, info, dim, kinds, own)
                exchange_in_one_way(icon, exchange, dim, fields.fields, shared.randrange(5))
                fields.check()

    ranks()(check)


@pytest.mark.parametrize("case", range(8))
def test_as_ghex_fills_them(comm: Any, icon: Any, case: int) -> None:
    if comm is None:
        pytest.skip("needs ranks of MPI")
    if comm.size == 1:
        pytest.skip("needs 2 ranks or more")
    if icon.mpi.ghex is None or icon.mpi.ghex is haloport.ghex:
        pytest.skip("needs GHEX: scripts/ghex --install")
    compare_with_multi_node_exchange(icon, icon.mpi.MPICommProcessProperties(comm), case)


@pytest.mark.parametrize("case", range(8))
def test_exchange_of_icon_over_haloport(
    ranks: Any, icon: Any, case: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ICON4Py's exchange with GHEX runs on `haloport.ghex` as it is."""
    monkeypatch.setattr(icon.mpi, "ghex", haloport.ghex, raising=False)
    monkeypatch.setattr(icon.mpi, "make_context", haloport.ghex.context.make_context, raising=False)
    monkeypatch.setattr(icon.mpi, "Architecture", haloport.ghex.util.Architecture, raising=False)
    for name in ("DomainDescriptor", "HaloGenerator", "make_communication_object", "make_field_descriptor", "make_pattern"):
        monkeypatch.setattr(icon.mpi, name, getattr(haloport.ghex.unstructured, name), raising=False)

    def check(comm: haloport.Communicator) -> None:
        props = SimpleNamespace(comm=comm, rank=comm.rank, comm_size=comm.size)
        compare_with_multi_node_exchange(icon, props, case)

    ranks()(check)


def compare_with_multi_node_exchange(icon: Any, props: Any, case: int) -> None:
    """Exchanges the same fields by Haloport and by ICON4Py's class for GHEX."""
    shared, own = random.Random(case), random.Random(1000 * case + props.rank)
    # GHEX takes no empty fields.
    info = Triangles(shared, props.comm_size, each_owns=True).decomposition(icon, props.rank, own)
    ours = haloport.icon4py.Exchange(props, info)
    theirs = icon.mpi.GHexMultiNodeExchange(props, info)
    assert (ours.my_rank(), ours.get_size()) == (theirs.my_rank(), theirs.get_size())
    for dim in icon.dims:
        # GHEX takes fields of the same type in an exchange.
        dtype = shared.choice(DTYPES)
        kinds = [(dtype, shared.choice(LEVELS)) for _ in range(shared.randint(1, 4))]
        for _ in range(3):
            # GHEX takes fields of the same order on all ranks.
            layouts = shared.random()
            one, two = (Fields(icon, info, dim, kinds, random.Random(layouts), plain=True) for _ in range(2))
            way = shared.randrange(5)
            exchange_in_one_way(icon, ours, dim, one.fields, way)
            exchange_in_one_way(icon, theirs, dim, two.fields, way)
            one.check()
            for mine, other in zip(one.arrays, two.arrays):
                np.testing.assert_array_equal(mine, other)


def test_strides_that_differ_on_some_ranks(ranks: Any, icon: Any) -> None:
    """The ranks make one plan, though some pass other strides and numbers of rows in each exchange."""

    def check(comm: haloport.Communicator) -> None:
        chance = random.Random(5)
        info = Triangles(chance, comm.size).decomposition(icon, comm.rank, chance)
        exchange = haloport.icon4py.Exchange(SimpleNamespace(comm=comm), info)
        dim = icon.dims[1]
        rows = len(info.global_index(dim))
        for step in range(12):
            fields = Fields(icon, info, dim, [(np.float64, 3)], chance, plain=True)
            array = np.full((rows + 2 * (step % 2), 3), -1.0, order="F" if (step + comm.rank) % 3 else "C")
            array[:rows] = fields.arrays[0]
            fields.arrays = [array]
            exchange.exchange(dim, array)
            fields.check()
        assert len(exchange._plans) == 1

    ranks()(check)


def test_kinds_of_fields_that_look_alike(ranks: Any, icon: Any) -> None:
    """Dimensions with the same number of rows have plans of their own, and so have fields of which only the last differs."""

    def check(comm: haloport.Communicator) -> None:
        info = icon.definitions.DecompositionInfo()
        for step, dim in enumerate(icon.dims, 1):
            ids = np.array([comm.rank, (comm.rank + step) % comm.size])
            info.set_dimension(dim, ids, np.array([True, False]), np.array([0, 1]))
        exchange = haloport.icon4py.Exchange(SimpleNamespace(comm=comm), info)
        for _ in range(3):
            for step, dim in enumerate(icon.dims, 1):
                for dtype in DTYPES:
                    one, two = np.array([comm.rank, -1.0]), np.array([comm.rank + 10, -1], dtype)
                    exchange.exchange(dim, one, two)
                    assert list(one) == [comm.rank, (comm.rank + step) % comm.size]
                    assert list(two) == [comm.rank + 10, (comm.rank + step) % comm.size + 10]

    ranks()(check)


def test_halo_written_while_a_copy_travels(ranks: Any, icon: Any) -> None:
    """Copying halos back leaves other rows as the program has set them meanwhile."""

    def check(comm: haloport.Communicator) -> None:
        chance = random.Random(6)
        info = Triangles(chance, comm.size).decomposition(icon, comm.rank, chance)
        exchange = haloport.icon4py.Exchange(SimpleNamespace(comm=comm), info)
        dim = icon.dims[0]
        exchange.exchange(dim, np.zeros((len(info.global_index(dim)), 2)))
        fields = Fields(icon, info, dim, [(np.float64, 2)], chance, plain=True)
        array = np.asfortranarray(fields.arrays[0])
        fields.arrays = [array]
        result = exchange.start(dim, array)
        array[fields.owned] += 0.5
        result.finish()
        array[fields.owned] -= 0.5
        fields.check()

    ranks()(check)


def test_protocol(ranks: Any, icon: Any) -> None:
    def check(comm: haloport.Communicator) -> None:
        chance = random.Random(1)
        info = Triangles(chance, comm.size).decomposition(icon, comm.rank, chance)
        exchange = haloport.icon4py.Exchange(SimpleNamespace(comm=comm), info)
        assert isinstance(exchange, icon.definitions.ExchangeRuntime)
        assert (exchange.my_rank(), exchange.get_size()) == (comm.rank, comm.size)
        assert f"(rank = {comm.rank} / {comm.size})" in str(exchange)
        exchange.exchange(icon.dims[0])
        exchange.start(icon.dims[0]).finish()

    ranks()(check)


def test_registered(comm: Any, icon: Any) -> None:
    if comm is None:
        pytest.skip("needs ranks of MPI")
    chance = random.Random(2)
    info = Triangles(chance, comm.size).decomposition(icon, comm.rank, chance)
    props = icon.mpi.MPICommProcessProperties(comm)
    before = icon.definitions.create_exchange.registry[type(props)]
    haloport.icon4py.register()
    haloport.icon4py.register()
    try:
        exchange = icon.definitions.create_exchange(props, info)
    finally:
        icon.definitions.create_exchange.register(type(props), before)
    if comm.size == 1:
        assert isinstance(exchange, icon.definitions.SingleNodeExchange)
        return
    assert isinstance(exchange, haloport.icon4py.Exchange)
    fields = Fields(icon, info, icon.dims[2], [(np.float32, 2)], chance)
    result = exchange.start(icon.dims[2], *fields.fields)
    icon.definitions.create_halo_exchange_wait(exchange)(result)
    fields.check()


def test_errors(ranks: Any, icon: Any) -> None:
    def check(comm: haloport.Communicator) -> None:
        chance = random.Random(3)
        info = Triangles(chance, comm.size).decomposition(icon, comm.rank, chance)
        exchange = haloport.icon4py.Exchange(SimpleNamespace(comm=comm), info)
        cells = icon.dims[0]
        rows = len(info.global_index(cells))
        with pytest.raises(ValueError, match="dim: expected Cell, Edge, Vertex, found K"):
            exchange.exchange(icon.levels, np.zeros(rows))
        with pytest.raises(ValueError, match="field 1: expected 1 or 2 axes"):
            exchange.exchange(cells, np.zeros(rows), np.zeros((rows, 2, 2)))
        if rows:
            with pytest.raises(ValueError, match=f"field 0: expected {rows} rows or more along Cell"):
                exchange.start(cells, np.zeros(rows - 1))
        turned = icon.gtx.as_field((icon.levels, cells), np.zeros((rows, rows)))
        with pytest.raises(ValueError, match="field 0: expected the dimension Cell"):
            exchange.start(cells, turned)
        field = np.zeros(rows)
        result = exchange.start(cells, field)
        with pytest.raises(haloport.InFlightError):
            exchange.start(cells, np.zeros(rows))
        result.finish()

    ranks()(check)


def test_indices_without_an_owner(ranks: Any, icon: Any) -> None:
    def check(comm: haloport.Communicator) -> None:
        info = icon.definitions.DecompositionInfo()
        for dim in icon.dims:
            info.set_dimension(dim, np.array([comm.rank, 999]), np.array([True, False]), np.array([0, 1]))
        with pytest.raises(haloport.RefusedError, match="999"):
            haloport.icon4py.Exchange(SimpleNamespace(comm=comm), info)

    ranks()(check)


def test_import_does_not_import_icon() -> None:
    program = """
import sys, haloport.icon4py
sys.exit(any(name.partition(".")[0] in ("icon4py", "gt4py") for name in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
