"""What the docstrings promise of grids, meshes, plans, exchanges in flight, streams and messages."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import itertools
import math
import os
import pickle
import pydoc
import random
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
from conftest import world
from numpy.typing import NDArray

import haloport

Ranks = Callable[..., Any]
Comm = haloport.Communicator

ALONE = 1 if world is None else world.size
"""The number of ranks of tests that compute with dpnp, which may hang in several threads."""


def row(comm: Comm, cells: int = 4, **options: Any) -> haloport.Grid:
    """A periodic row of `cells` cells for each rank, with a halo of one cell."""
    return haloport.Grid((cells * comm.size,), periodic=True, comm=comm, **options)


def fill(grid: haloport.Grid, array: Any, add: float = 0) -> None:
    """Gives owned cells their index in the grid, and halo cells -1."""
    array[...] = -1
    index = grid.indices()[0]
    owned = grid.owned[0]
    array[owned] = (index[owned] + add).reshape(-1, *[1] * (array.ndim - 1))


def assert_filled(grid: haloport.Grid, array: Any, add: float = 0) -> None:
    """Checks that all cells of a periodic row have their index."""
    index = grid.indices()[0] + add
    assert np.array_equal(np.asarray(array), np.broadcast_to(index.reshape(-1, *[1] * (array.ndim - 1)), array.shape))


# Ranks


def test_what_a_grid_and_a_mesh_show_and_take() -> None:
    comm = haloport.threads(1)[0]
    grid = haloport.Grid((6, 4), halo=[1, (0, 2)], periodic=[True, False], comm=comm)
    assert repr(grid) == "<haloport.Grid (6, 4), halo ((1, 1), (0, 2)), periodic (True, False), rank 0 of 1>"
    mask = np.array([True, True, True])
    for owned in (mask.sum(), np.array(3), np.uint8(3), 3, mask, [True] * 3):
        assert haloport.Mesh([0, 1, 2], owned, comm=comm).owned.tolist() == [True, True, True]
    for wrong in (np.int64(-1), np.array(4), np.uint64(2**63)):
        with pytest.raises(ValueError, match="owned: expected a number of cells from 0 to 3"):
            haloport.Mesh([0, 1, 2], wrong, comm=comm)


def test_orders_are_values() -> None:
    for order, name in ((haloport.DEFAULT, "haloport.DEFAULT"), (haloport.BLOCK, "haloport.BLOCK")):
        assert repr(order) == name
        assert copy.copy(order) is order and copy.deepcopy(order) is order
        assert pickle.loads(pickle.dumps(order)) is order
        assert {order: 1}[order] == 1
    assert haloport.DEFAULT != haloport.BLOCK

    @dataclasses.dataclass
    class Options:
        stream: Any = haloport.DEFAULT

    assert Options().stream is haloport.DEFAULT


def test_layouts_and_devices_are_values() -> None:
    make = haloport.Layout
    layouts = [
        make((6, 3), "f8"),
        make((6, 3), "f4"),
        make((3, 6), "f8"),
        make((6, 3), "f8", [0, "levels"]),
        make((6, 3), "f8", ["levels", 0]),
        make((6, 3), "f8", strides=(8, 48)),
        make((2, 2**60), "f8"),
        make((6, 3), "f8", origin=(2,)),
        make((6, 3), "M8[s]"),
        make((6, 3), "M8[ns]"),
        make((6, 3), [("a", "i4"), ("b", "f4")]),
    ]
    for one, other in itertools.product(layouts, layouts):
        assert (one == other) == (one is other) and (one != other) == (one is not other)
    for layout in layouts:
        for same in (copy.copy(layout), copy.deepcopy(layout), *(pickle.loads(pickle.dumps(layout, n)) for n in range(2, 6))):
            assert same == layout and hash(same) == hash(layout) and repr(same) == repr(layout)
            assert (same.strides, same.origin, same.axes) == (layout.strides, layout.origin, layout.axes)
    # By what they mean, not by how they were written.
    same = make([6, np.int64(3)], np.float64, strides=(24, 8), device="cpu")
    assert same == layouts[0] and hash(same) == hash(layouts[0]) and same.device is None
    assert layouts[0] != "a layout" and layouts[0] is not None
    grid = row(haloport.threads(1)[0])
    assert grid.plan(np.zeros((6, 3))).layouts == grid.plan(make((6, 3), "f8")).layouts == layouts[:1]

    device = haloport.Device("cpu:threads=3")
    for copied in (copy.copy(device), copy.deepcopy(device), pickle.loads(pickle.dumps(device))):
        assert copied == device and hash(copied) == hash(device) and copied.name == "cpu:0"
    assert device.__getnewargs__() == ("cpu:threads=3",) and device != "cpu:0"


CALLS = {
    "Plan": "plan(*fields, stream=None)",
    "Kernel": "kernel(size, *arguments, stream=None)",
    "BoundKernel": "bound(*, stream=None)",
    "SparseExchange": "exchange(messages, *, into=None, stream=None)",
    "LineExchange": "line(*, left=None, right=None, into=None, stream=None)",
}


@pytest.mark.parametrize("name", CALLS)
def test_help_describes_calls(name: str) -> None:
    text = pydoc.plain(pydoc.render_doc(getattr(haloport, name)))
    described = text[: text.index("Methods defined here")]
    assert CALLS[name] in described and "Parameters of a call" in described and "stream" in described


def test_periodic_as_cartesian_communicators_have_it() -> None:
    comm = haloport.threads(1)[0]
    assert haloport.Grid((4, 4), periodic=[1, 0], comm=comm).periodic == (True, False)
    for wrong in (1, [0, 2], [-1, 0]):
        with pytest.raises((TypeError, ValueError), match="periodic: expected True, False"):
            haloport.Grid((4, 4), periodic=wrong, comm=comm)  # type: ignore[arg-type]


@pytest.mark.skipif(world is None, reason="needs ranks of MPI")
def test_cartesian_communicators() -> None:
    dims = [2, world.size // 2] if world.size % 2 == 0 else [world.size, 1]
    cart = world.Create_cart(dims, periods=[True, False], reorder=True)
    shape = (4 * dims[0], 3 * dims[1], 2)
    grid = haloport.Grid(shape, halo=[1, 1, 0], comm=cart)
    assert grid.periodic == (True, False, False)
    i, j = cart.coords
    assert (grid.lower, grid.upper) == ((4 * i, 3 * j, 0), (4 * i + 4, 3 * j + 3, 2))
    # So does a communicator made of it.
    same = haloport.Grid(shape, halo=[1, 1, 0], comm=haloport.Communicator(cart))
    assert (same.periodic, same.lower, same.upper) == (grid.periodic, grid.lower, grid.upper)
    # The arguments of the call win.
    other = haloport.Grid(shape, halo=0, parts=[1, world.size, 1], periodic=False, comm=cart)
    assert other.periodic == (False, False, False) and other.lower[0] == 0
    with pytest.raises(ValueError, match="at most 1 dimensions"):
        haloport.Grid((8 * world.size,), comm=cart)
    cart.Free()


def test_run_ranks() -> None:
    def check(comm: Comm) -> tuple[int, float]:
        grid = row(comm)
        u = grid.empty()
        u[grid.owned] = comm.rank
        grid.plan(u)(u)
        return comm.rank, float(u[0])

    assert haloport.run_ranks(3, check) == [(0, 2.0), (1, 0.0), (2, 1.0)]

    def fails(comm: Comm) -> None:
        if comm.rank == 1:
            raise KeyError("of rank 1")
        with pytest.raises(haloport.ExchangeError, match="KeyError: 'of rank 1'"):
            comm.barrier()

    began = time.monotonic()
    with pytest.raises(KeyError, match="of rank 1") as raised:
        haloport.run_ranks(3, fails)
    assert raised.value.__notes__ == ["on rank 1 of 3"]
    assert time.monotonic() - began < 20
    with pytest.raises(ValueError, match="ranks"):
        haloport.run_ranks(0, check)
    with pytest.raises(TypeError, match="why: expected a str"):
        haloport.threads(1)[0].fail(1)  # type: ignore[arg-type]


def test_reductions(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        size = comm.size
        total = comm.all_reduce(comm.rank)
        assert total == size * (size - 1) // 2 and type(total) is int
        assert comm.all_reduce(np.int32(comm.rank), "max") == size - 1  # type: ignore[call-overload]
        smallest = comm.all_reduce(-0.5 - comm.rank, op="min")
        assert smallest == 0.5 - size and type(smallest) is float
        assert comm.all_reduce(2**62, "sum") == (2**62 * size + 2**63) % 2**64 - 2**63
        assert np.isnan(comm.all_reduce(float("nan") if comm.rank == size - 1 else 1.0, "max"))
        wrongs: list[tuple[Any, Any, type[Exception]]] = [
            ("x", "sum", TypeError), (2**63, "sum", ValueError), (1, "mean", ValueError), (1j, "sum", TypeError)
        ]
        for wrong, op, kind in wrongs:
            with pytest.raises(kind):
                comm.all_reduce(wrong, op)
        if size > 1:
            with pytest.raises((haloport.RefusedError, haloport.ExchangeError)):
                comm.all_reduce(1 if comm.rank == 0 else 1.0)
        assert comm.all_reduce(1) == size

    ranks()(check)


def test_exact_sums(ranks: Ranks) -> None:
    random = np.random.default_rng(5)
    whole = random.uniform(-1, 1, 6000) * 2.0 ** random.integers(-40, 40, 6000)
    whole = np.concatenate([whole, -whole[random.permutation(6000)], [2.0**-50, 1 / 3]])
    expected = math.fsum(whole)  # exact, too

    def check(comm: Comm) -> None:
        mine = np.array_split(whole, comm.size)[comm.rank]
        found = comm.sum_exact(mine)
        assert found == expected and type(found) is float
        # Any strides, shapes and byte orders, lists as several sums, and products.
        pairs = np.ascontiguousarray(np.broadcast_to(mine[:, None], (mine.size, 2))).T
        assert comm.sum_exact(pairs) == math.fsum(2 * whole)
        assert comm.sum_exact([mine[::-1], mine.astype(">f8"), comm.rank, 0.5]) == [
            expected, expected, comm.size * (comm.size - 1) / 2, comm.size / 2
        ]
        assert comm.sum_exact(mine, mine) == float(sum(Fraction(term) ** 2 for term in whole))
        assert comm.sum_exact((mine, mine), (np.ones_like(mine), mine > 0)) == [expected, math.fsum(whole[whole > 0])]
        assert comm.sum_exact(mine.astype(np.float32)) == math.fsum(whole.astype(np.float32))
        assert comm.sum_exact(np.empty((0, 3)) if comm.rank else np.full((2, 3), 0.1)) == math.fsum([0.1] * 6)
        # At any address, and of other kinds of floats.
        packed = np.zeros(1, [("number", "i4"), ("mass", "f8")])
        packed["mass"] = 0.1
        assert comm.sum_exact(packed["mass"]) == math.fsum([0.1] * comm.size)
        assert comm.sum_exact(np.float16(0.5)) == comm.size / 2 and comm.sum_exact(np.array(2.0), np.array(False)) == 0
        masses: list[NDArray[np.float64]] = [mine, mine]
        assert comm.sum_exact(masses) == [expected, expected]
        assert math.isnan(comm.sum_exact(np.array([np.inf, -np.inf]))) and comm.sum_exact([]) == []
        wrongs: list[tuple[Any, Any, type[Exception], str]] = [
            (np.arange(3), None, TypeError, "values: expected an array with floats of at most 64 bits, found int64"),
            ([mine, "x"], None, TypeError, r"values\[1\]: expected an array"),
            (np.ma.masked_less(mine, 0), None, TypeError, "its mask would be lost"),
            (mine, mine[1:], ValueError, "weights: expected the shape of the values"),
            ([mine], mine, TypeError, "weights: expected a list"),
            ([mine], [mine, mine], ValueError, "weights: expected 1 as values has, found 2"),
        ]
        for values, weights, kind, text in wrongs:
            with pytest.raises(kind, match=text):
                comm.sum_exact(values, weights)
        if comm.size > 1:
            with pytest.raises(haloport.RefusedError if comm.rank else TypeError):
                comm.sum_exact(mine if comm.rank else np.arange(2))
            with pytest.raises(haloport.RefusedError, match="out of step"):
                comm.sum_exact([mine] * (1 + comm.rank))
        assert comm.sum_exact(1.0) == comm.size

    ranks()(check)


def test_objects_to_and_from_one_rank(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        last = comm.size - 1
        own = {"rank": comm.rank, "field": np.arange(comm.rank + 1)}
        found: Any = comm.broadcast(own if comm.rank == last else None, root=last)
        assert found["rank"] == last and found["field"].tolist() == list(range(last + 1))
        everything: Any = comm.gather(own, root=last)
        if comm.rank == last:
            assert [(one["rank"], len(one["field"])) for one in everything] == [(rank, rank + 1) for rank in range(comm.size)]
        else:
            assert everything is None
        assert comm.broadcast("text") == "text"
        for wrong in (comm.size, -1):
            with pytest.raises(ValueError, match="root"):
                comm.gather(1, root=wrong)
        # What cannot be pickled is an error on all ranks, which goes on.
        with pytest.raises((haloport.RefusedError, AttributeError, TypeError, ValueError, pickle.PicklingError)):
            comm.gather((lambda: 1) if comm.rank == 0 else 1)
        comm.barrier()

    ranks()(check)


# Arrays of the program from which neighbours copy straight


def test_neighbours_copy_straight_from_arrays_that_a_plan_shares(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = haloport.Grid((8 * comm.size, 1000), periodic=(True, False), halo=(2, 0), parts=(comm.size, 1), comm=comm)
        u: Any = np.full(grid.shape, -1.0)
        first = grid.plan(u, fixed=True, share=True)
        # Another plan of the same array, which outlives the first one.
        update = grid.plan(u, fixed=True, share=True)
        for turn in range(3):
            u[:] = -1.0
            u[2:-2] = comm.rank + 10 * turn
            (first if turn == 1 else update)()
            assert np.all(u[:2] == (comm.rank - 1) % comm.size + 10 * turn)
            assert np.all(u[-2:] == (comm.rank + 1) % comm.size + 10 * turn)
            if turn == 1:
                del first
        for route in update.describe()["routes"]:
            assert route["path"] == "direct" or route["why"] in ("quicker", "apart"), route
        del update
        assert np.all(u[2:-2] == comm.rank + 20)

    ranks()(check)


def test_memory_of_a_file_is_not_shared(ranks: Ranks, tmp_path: Path) -> None:
    def check(comm: Comm) -> None:
        grid = haloport.Grid((8 * comm.size, 1000), halo=(2, 0), parts=(comm.size, 1), comm=comm)
        u: Any = np.memmap(tmp_path / f"u{comm.rank}", dtype="f8", mode="w+", shape=grid.shape)
        u[:] = comm.rank
        update = grid.plan(u, fixed=True)
        update()
        # The same on all ranks.
        try:
            grid.plan(u, fixed=True, share=True)()
        except haloport.RefusedError as error:
            assert "it is memory of the file " in str(error)
        else:
            assert all(route["why"] != "sender-memory" for route in update.describe()["routes"])
        assert np.all(u[2:-2] == comm.rank)

    ranks()(check)


# From halos to their owners


def accumulated(comm: Comm, index: NDArray[np.int64], owned: NDArray[np.bool_], values: NDArray[Any]) -> NDArray[Any]:
    """What each owned cell must hold: its value and those of all halo cells with its index."""
    halo: Any = comm.gather(list(zip(index[~owned].tolist(), values[~owned].tolist(), strict=True)))
    sums: dict[int, float] = {}
    for cell, value in itertools.chain.from_iterable(comm.broadcast(halo)):
        sums[cell] = sums.get(cell, 0.0) + value
    expected = values.copy()
    expected[owned] += [sums.get(cell, 0.0) for cell in index[owned].tolist()]
    return expected


@pytest.mark.parametrize("fixed", [False, True])
def test_halos_of_a_grid_are_accumulated(ranks: Ranks, fixed: bool) -> None:
    def check(comm: Comm) -> None:
        shape = (7, 8)
        grid = haloport.Grid(shape, periodic=(True, False), halo=2, comm=comm)
        rows, columns = np.broadcast_arrays(*grid.indices())
        owned = np.zeros(grid.shape, dtype=bool)
        owned[grid.owned] = True
        # Beyond the ends of the second axis, cells belong to no rank.
        index = np.where((columns >= 0) & (columns < shape[1]), rows % shape[0] * shape[1] + columns, -1)
        u: Any = grid.empty()
        u[...] = comm.rank + 1 + np.arange(u.size).reshape(u.shape) % 5
        expected = accumulated(comm, index, owned, u.copy())
        plan = grid.plan(u, fixed=fixed, accumulate="sum", zero_halo=True)
        plan() if fixed else plan(u)
        assert np.array_equal(u[owned], expected[owned])
        assert np.all(u[~owned & (index >= 0)] == 0.0) and np.array_equal(u[index < 0], expected[index < 0])
        assert all(route["why"] != "accumulated" for route in plan.describe()["routes"])

    ranks()(check)


def test_halos_of_a_mesh_are_accumulated_while_the_program_computes(ranks: Ranks) -> None:
    """Edges of a ring: each rank assembles the elements between its own vertices and the next one, which another rank owns."""

    def check(comm: Comm) -> None:
        first, vertices = 3 * comm.rank, 3 * comm.size
        ids = np.array([first, first + 1, first + 2, (first + 3) % vertices])
        mesh = haloport.Mesh(ids, 3, comm=comm)
        load = np.zeros(4)
        for left, right in ((0, 1), (1, 2), (2, 3)):
            load[left] += 0.5
            load[right] += 0.5
        plan = mesh.plan(load, accumulate="sum")
        pending = plan.start(load)
        load[1] += 10.0
        pending.finish()
        assert load[:3].tolist() == [1.0, 11.0, 1.0]
        largest = np.array([comm.rank, 0.0, 0.0, comm.rank + 5.0])
        mesh.plan(largest, accumulate="max")(largest)
        assert largest[0] == (comm.rank - 1) % comm.size + 5.0
        given = np.array([1, 2, 3, 100 + comm.rank], dtype=np.int32)
        mesh.plan(given, accumulate="replace")(given)
        assert given[0] == 100 + (comm.rank - 1) % comm.size

    ranks()(check)


# Grids


GRIDS: list[dict[str, Any]] = [
    {"shape": (23,), "halo": 2},
    {"shape": (9, 14), "periodic": True},
    {"shape": (12, 9), "halo": [(2, 0), (1, 3)], "periodic": (False, True)},
    {"shape": (12, 9), "halo": [2, 1], "corners": False},
    {"shape": (6, 5, 7), "halo": 1, "periodic": (True, False, True)},
    {"shape": (3, 2), "halo": 3, "periodic": True},
    {"shape": (5, 4, 3, 4), "halo": [1, 0, 1, 2], "periodic": True},
]


@pytest.mark.parametrize("options", GRIDS, ids=str)
def test_cells_of_a_grid(ranks: Ranks, options: dict[str, Any]) -> None:
    def check(comm: Comm) -> list[tuple[Any, Any]]:
        grid = haloport.Grid(comm=comm, **options)
        axes = len(options["shape"])
        assert grid.global_shape == options["shape"] and (grid.comm.rank, grid.comm.size) == (comm.rank, comm.size)
        assert len(grid.halo) == len(grid.periodic) == axes
        assert grid.domains == [(grid.lower, grid.upper)]
        u = grid.empty(np.int64)
        assert u.shape == grid.shape and not u.any()
        extents = tuple(upper - lower for lower, upper in zip(grid.lower, grid.upper))
        assert u[grid.owned].shape == extents
        assert grid.shape == tuple(n + below + above for n, (below, above) in zip(extents, grid.halo))

        indices = grid.indices()
        for axis, index in enumerate(indices):
            assert index.dtype == np.int64
            assert index.shape == tuple(grid.shape[axis] if k == axis else 1 for k in range(axes))
            expected = np.arange(grid.lower[axis] - grid.halo[axis][0], grid.upper[axis] + grid.halo[axis][1])
            expected = expected % grid.global_shape[axis] if grid.periodic[axis] else expected
            assert index.ravel().tolist() == expected.tolist()

        # Owned cells belong to the interior or to one box of the boundary.
        count = np.zeros(grid.shape, np.int64)
        count[grid.interior] += 1
        boundary = grid.boundary
        assert len(boundary) <= 2 * axes
        for box in boundary:
            assert count[box].size > 0
            count[box] += 1
        owned = np.zeros_like(count)
        owned[grid.owned] = 1
        assert np.array_equal(count, owned)

        # The stencils of the interior read no cell that an exchange fills.
        u[...] = -1
        u[grid.owned] = sum(index * 100**axis for axis, index in enumerate(indices))[grid.owned]
        before = u.copy()
        grid.plan(u)(u)
        filled = u != before
        assert not (filled & (owned == 1)).any()
        corners = options.get("corners", True)
        for cell in zip(*np.nonzero(interior_marks(grid))):
            window = tuple(slice(k - below, k + above + 1) for k, (below, above) in zip(cell, grid.halo))
            if corners:
                assert not filled[window].any()
            for axis in range(axes):
                line = tuple(window[k] if k == axis else cell[k] for k in range(axes))
                assert not filled[line].any()
        return grid.domains

    domains = [box for boxes in ranks()(check) for box in boxes]
    if world is None:
        cells = sum(np.prod(np.subtract(upper, lower)) for lower, upper in domains)
        assert cells == np.prod(options["shape"])


def interior_marks(grid: haloport.Grid) -> NDArray[np.bool_]:
    marks = np.zeros(grid.shape, bool)
    marks[grid.interior] = True
    return marks


def test_one_value_stands_for_all_axes(ranks: Ranks) -> None:
    @ranks(1)
    def _(comm: Comm) -> None:
        def described(**options: Any) -> Any:
            grid = haloport.Grid((6, 5), comm=comm, **options)
            return grid.halo, grid.periodic, grid.shape, grid.lower

        one = described(halo=2, periodic=True, parts=1)
        assert one == described(halo=[2, 2], periodic=(True, True), parts=np.array([1, 1]))
        assert one == (((2, 2), (2, 2)), (True, True), (10, 9), (0, 0))
        with pytest.raises(ValueError, match=r"parts: expected one for each of 1 ranks, found 4 \(\[2, 2\]\)"):
            described(parts=2)


def test_interior_is_as_large_as_can_be(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm, 6)
        assert grid.interior == (slice(2, 6, 1),)
        assert sorted(box[0].start for box in grid.boundary) == [1, 6]
        # No cell beyond an end is filled.
        closed = haloport.Grid((6 * comm.size,), comm=comm)
        begin, end = comm.rank == 0, comm.rank == comm.size - 1
        assert closed.interior == (slice(1 if begin else 2, 7 if end else 6, 1),)

    ranks()(check)


def test_several_domains_or_none(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        # The last rank has all, each of two cells.
        mine = [((2 * k,), (2 * k + 2,)) for k in range(3)] if comm.rank == comm.size - 1 else []
        grid = haloport.Grid((6,), periodic=True, domains=mine, comm=comm)
        assert grid.domains == mine
        for name in ("lower", "upper", "shape", "owned", "interior", "boundary"):
            with pytest.raises(ValueError, match="expected one domain on this rank"):
                getattr(grid, name)
        with pytest.raises(ValueError, match="expected one domain"):
            grid.indices()
        with pytest.raises(ValueError, match="domain: expected .* found 3"):
            grid.indices(3)
        arrays = grid.empty("i4", 2)
        assert [array.shape for array in arrays] == [(4, 2)] * len(mine)
        assert isinstance(arrays, list) if mine else (arrays.shape, arrays.dtype) == ((0, 2), "i4")
        plan = grid.plan(arrays)
        for domain, array in enumerate(arrays):
            array[1:3] = grid.indices(domain)[0][1:3, None]
        plan(arrays)
        for domain, array in enumerate(arrays):
            assert np.array_equal(array, np.repeat(grid.indices(domain)[0][:, None], 2, axis=1))

    ranks()(check)


def test_empty(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = haloport.Grid((4 * comm.size, 3), halo=[1, (0, 2)], parts=(comm.size, 1), comm=comm)
        assert grid.empty().dtype == np.float64
        for dtype in ("?", "u1", "f2", "c16", "M8[D]", "S7", [("a", "i4"), ("b", "f8", (2,))]):
            u = grid.empty(dtype, 5)
            assert isinstance(u, np.ndarray) and u.dtype == np.dtype(dtype) and u.shape == (6, 5, 5)
            assert u.flags.writeable and not u.tobytes().strip(b"\0")
        # The memory outlives the grid.
        u = grid.empty("i8")
        u[...] = 7
        del grid
        assert (u == 7).all()

    ranks()(check)


# Whole arrays on one rank


def random_boxes(draw: random.Random, shape: tuple[int, ...], count: int) -> list[Any]:
    """Cuts a grid into up to `count` boxes."""
    boxes = [((0,) * len(shape), shape)]
    for _ in range(count - 1):
        lower, upper = boxes.pop(draw.randrange(len(boxes)))
        axis = draw.randrange(len(shape))
        if upper[axis] - lower[axis] < 2:
            boxes.append((lower, upper))
            continue
        at = draw.randrange(lower[axis] + 1, upper[axis])
        boxes.append((lower, tuple(at if k == axis else end for k, end in enumerate(upper))))
        boxes.append((tuple(at if k == axis else begin for k, begin in enumerate(lower)), upper))
    return boxes


def as_laid_out(draw: random.Random, array: NDArray[Any]) -> NDArray[Any]:
    """A copy of an array, with its axes in any order, in either direction, and with gaps."""
    axes = draw.sample(range(array.ndim), array.ndim)
    steps = [draw.choice([1, 1, 2, -1, -2]) for _ in axes]
    memory = np.zeros([array.shape[axis] * abs(step) for axis, step in zip(axes, steps)], array.dtype)
    shown = memory[tuple(slice(None, None, step) for step in steps)].transpose(np.argsort(axes))
    shown[...] = array
    return shown


@pytest.mark.parametrize("number", range(24))
def test_whole_arrays(ranks: Ranks, number: int) -> None:
    def check(comm: Comm) -> None:
        # The same on all ranks.
        draw = random.Random(1000 * number + comm.size)
        shape = tuple(draw.randint(1, 9) for _ in range(draw.randint(1, 4)))
        mine: list[list[Any]] = [[] for _ in range(comm.size)]
        for box in random_boxes(draw, shape, draw.randint(1, 2 * comm.size)):
            draw.choice(mine).append(box)
        further = draw.choice([(), (3,), (2, 3), (0,), (1, 2, 1, 3)])
        dtype = np.dtype(draw.choice(["f8", "i2", "?", "c16", "M8[s]", "S3", [("a", "i4"), ("b", "f8")]]))
        root, limit = draw.randrange(comm.size), draw.choice([0, 100, 1 << 40])
        grid = haloport.Grid(shape, halo=draw.randint(0, 2), domains=mine[comm.rank], comm=comm)
        raw = np.random.default_rng(number).integers(0, 2, (*shape, *further, dtype.itemsize), np.uint8)
        whole = np.ndarray((*shape, *further), dtype, raw)
        is_root, count = comm.rank == root, len(mine[comm.rank])
        # Of each rank.
        own = random.Random(f"{number} {comm.rank}")

        def check_field(arrays: list[Any], halo: int) -> None:
            for array, (lower, upper) in zip(arrays, mine[comm.rank], strict=True):
                assert isinstance(array, np.ndarray) and array.dtype == dtype and array.shape[len(shape) :] == further
                inner = tuple(slice(below, n - above) for n, (below, above) in zip(array.shape, grid.halo))
                assert array[inner].tobytes() == whole[tuple(map(slice, lower, upper))].tobytes()
                beyond = array.copy()
                beyond[inner] = np.frombuffer(bytes([halo] * dtype.itemsize), dtype)[0]
                assert beyond.tobytes() == bytes([halo] * beyond.nbytes)

        u = grid.scatter(whole if is_root else None, root=root)
        arrays = u if count > 1 else [u]
        assert len(arrays) == max(count, 1)
        if count == 0:
            assert u.dtype == dtype and u.shape == (0,) * len(shape) + further
        check_field(arrays[:count], 0)

        ones = [np.frombuffer(bytes([1] * array.nbytes), dtype).reshape(array.shape) for array in arrays[:count]]
        given: Any = [as_laid_out(own, array) for array in ones]
        given = given[0] if count == 1 else given
        found = grid.scatter(as_laid_out(own, whole) if is_root else None, root=root, into=given, limit=limit)
        assert found is given
        check_field([found] if count == 1 else found, 1)

        def check_whole(found: Any) -> None:
            assert (found is not None) == is_root
            if is_root:
                assert found.shape == whole.shape and found.dtype == dtype and found.tobytes() == whole.tobytes()

        # Also of a rank without domains, and of a field that is only read.
        check_whole(grid.gather(given, root=root))
        for array in [given] if count == 1 else given:
            array.flags.writeable = False
        into = as_laid_out(own, np.zeros_like(whole)) if is_root else own.choice([None, "ignored"])
        found = grid.gather(given, root=root, into=into, limit=limit)
        assert found is (into if is_root else None)
        check_whole(found)

    ranks()(check)


@pytest.mark.parametrize("shape", [(9, 3), (2, 5), (6, 2, 2)])
def test_whole_arrays_in_slabs(ranks: Ranks, shape: tuple[int, ...]) -> None:
    """Fields of several slabs, each of one row or of some, which end within domains and between them."""

    def check(comm: Comm) -> None:
        draw = random.Random(comm.size)
        mine: list[list[Any]] = [[] for _ in range(comm.size)]
        for box in random_boxes(draw, shape, 2 * comm.size):
            draw.choice(mine).append(box)
        kind = {"cubed_sphere": True} if len(shape) == 3 else {}
        grid = haloport.Grid(shape, halo=0, domains=mine[comm.rank], comm=comm, **kind)
        # Of 130 MiB.
        bytes_each = (130 << 20) // math.prod(shape)
        root, count = comm.size - 1, len(mine[comm.rank])
        whole = np.zeros((*shape, bytes_each), np.uint8) if comm.rank == root else None
        if whole is not None:
            whole[..., :2] = np.arange(2 * math.prod(shape)).reshape(*shape, 2)
        u = grid.scatter(whole, root=root)
        for array, (lower, upper) in zip(u if count > 1 else [u][:count], mine[comm.rank], strict=True):
            index = np.indices(shape)[(..., *map(slice, lower, upper))]
            number = np.ravel_multi_index(tuple(index), shape)
            assert (array[..., 0] == 2 * number).all() and (array[..., 1] == 2 * number + 1).all()
        into = np.ones_like(whole) if whole is not None else None
        found = grid.gather(u, root=root, into=into)
        assert found is into and (found is None or np.array_equal(found, whole))

    ranks(2)(check)


SEAMS: list[dict[str, Any]] = [
    {"periodic": True},
    {"fold": "cell"},
    {"fold": "corner", "points": "north-edges"},
    {"cubed_sphere": True, "halo": (0, 1, 1)},
]


@pytest.mark.parametrize("options", SEAMS)
def test_whole_arrays_of_grids_with_seams(ranks: Ranks, options: dict[str, Any]) -> None:
    """Each cell is that of its index, also where a fold has it twice."""

    def check(comm: Comm) -> None:
        shape = (6, 6, 6) if "cubed_sphere" in options else (7, 8)
        grid = haloport.Grid(shape, comm=comm, **options)
        whole = np.arange(math.prod(shape)).reshape(shape)
        u = grid.scatter(whole if comm.rank == 0 else None)
        assert np.array_equal(u[grid.owned], whole[tuple(map(slice, grid.lower, grid.upper))])
        grid.plan(u)(u)
        u[grid.owned] = whole[tuple(map(slice, grid.lower, grid.upper))]
        found = grid.gather(u)
        assert comm.rank > 0 or np.array_equal(found, whole)

    ranks()(check)


def test_whole_arrays_that_repeat_elements(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = haloport.Grid((4 * comm.size, 3), comm=comm)
        rows = np.arange(4.0 * comm.size)
        whole = np.broadcast_to(rows[:, np.newaxis, np.newaxis], (*grid.global_shape, 2))
        u = grid.scatter(whole)
        u[...] = 0
        grid.scatter(whole, into=u)
        assert np.array_equal(u[grid.owned], whole[tuple(map(slice, grid.lower, grid.upper))])
        found = grid.gather(np.broadcast_to(np.float32(comm.rank), grid.shape))
        owner = grid.gather(np.full(grid.shape, comm.rank, "f4"))
        assert comm.rank > 0 or np.array_equal(found, owner)

    ranks()(check)


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="found no peak of memory in /proc")
def test_memory_of_whole_arrays(ranks: Ranks) -> None:
    """Beyond the arrays, memory is for some slabs, and not for the whole array."""

    def peak(call: Callable[[], Any]) -> int:
        """The growth of the memory of this process at its peak during a call, in MiB."""
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        with open("/proc/self/status") as file:
            before = int(re.findall(r"VmRSS:\s*(\d+)", file.read())[0])
        call()
        with open("/proc/self/status") as file:
            return (int(re.findall(r"VmHWM:\s*(\d+)", file.read())[0]) - before) >> 10

    def check(comm: Comm) -> None:
        # Of 384 MiB.
        grid = haloport.Grid((48, 1 << 20), halo=0, comm=comm)
        u = grid.empty()
        u[...] = comm.rank + 1
        whole = np.ones(grid.global_shape) if comm.rank == 0 else None
        comm.barrier()
        assert peak(lambda: grid.gather(u, into=whole)) < 100
        assert peak(lambda: grid.scatter(whole, into=u)) < 100
        comm.barrier()
        assert peak(lambda: grid.gather(u)) < 384 + 100

    ranks(2)(check)


def test_whole_arrays_that_do_not_fit(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = haloport.Grid((4 * comm.size, 3), parts=(comm.size, 1), halo=1, comm=comm)
        last = comm.rank == comm.size - 1
        u, whole = grid.empty(levels=2), np.zeros((*grid.global_shape, 2))
        masked = np.ma.masked_array(u)
        xarray = type("DataArray", (), {"__module__": "xarray.core.dataarray"})()
        wrong: list[tuple[Any, str]] = [
            (u[1:], "field: expected a shape that begins with"),
            (np.zeros((6, 5, 3)), "further axes of extents"),
            (np.zeros((6, 5)), "further axes of extents"),
            (u.astype("f4"), "dtype"),
            (u.astype(object), "Python objects"),
            (masked, "mask"),
            (xarray, "u.data"),
            ([u], "expected an array"),
            (None, "expected an array"),
        ]
        for value, text in wrong:
            if comm.size == 1 and text in ("further axes of extents", "dtype"):
                continue
            with pytest.raises((ValueError, TypeError, BufferError), match=text) as raised:
                grid.gather(value if last else u, root=0)
            assert last or isinstance(raised.value, haloport.RefusedError)
        for value, text in [(whole[1:], "begins with"), (None, "found None"), (whole.astype(object), "Python objects")]:
            with pytest.raises((ValueError, TypeError, BufferError), match=text) as raised:
                grid.scatter(value, root=comm.size - 1)
            assert last or isinstance(raised.value, haloport.RefusedError)
        read_only, elsewhere = np.zeros_like(whole), bytearray(whole.nbytes)
        read_only.flags.writeable = False
        both = np.zeros(u.size + whole.size)
        part = both[: u.size].reshape(u.shape)
        wrong_into: list[tuple[Any, str]] = [
            (whole[1:], "into: expected a shape that begins with"),
            (whole[..., :1], "into: expected .* further axes of extents"),
            (whole.astype("f4"), "into: expected elements of dtype float64"),
            (read_only, "into: .*read-only"),
            (np.broadcast_to(1.0, whole.shape), "into: .*read-only"),
            (np.ma.masked_array(whole), "into: .*mask"),
            (elsewhere, "into: expected an array of NumPy, found bytearray"),
            (whole.tolist(), "into: expected an array of NumPy, found list"),
            (np.lib.stride_tricks.as_strided(whole, whole.shape, (0, 0, 8)), "into: .*stride 0"),
            (both[u.size // 2 :][: whole.size].reshape(whole.shape), "into: .*elements in common"),
        ]
        for value, text in wrong_into:
            with pytest.raises((ValueError, TypeError, BufferError), match=text if last else "into") as raised:
                grid.gather(part, root=comm.size - 1, into=value if last else None)
            assert last or isinstance(raised.value, haloport.RefusedError)
        wrong_into = [
            (u[1:], "into: expected a shape that begins with"),
            (u[..., :1], "into: expected .* further axes of extents .* in `whole` on rank `root`"),
            (u.astype("f4"), "into: expected elements of dtype float64"),
            (np.broadcast_to(1.0, u.shape), "into: .*read-only"),
            ([u], "into: expected an array of NumPy, found list"),
            (bytearray(u.nbytes), "into: expected an array of NumPy, found bytearray"),
        ]
        before = u.copy()
        for value, text in wrong_into:
            with pytest.raises((ValueError, TypeError, BufferError), match=text if last else "into") as raised:
                grid.scatter(whole + 1, into=value if last else u)
            assert last or isinstance(raised.value, haloport.RefusedError)
        with pytest.raises(ValueError, match="into: .*elements in common"):
            grid.scatter(both[u.size // 2 :][: whole.size].reshape(whole.shape), into=part)
        assert np.array_equal(u, before)
        for call in (grid.gather, grid.scatter):
            for root in (comm.size, -1):
                with pytest.raises(ValueError, match="root"):
                    call(u, root=root)
            with pytest.raises(ValueError, match="limit: expected a whole number from 0 on, found -1"):
                call(u if call == grid.gather else whole, limit=-1)
            if comm.size > 1:
                with pytest.raises(haloport.RefusedError):
                    call(u if call == grid.gather else whole, root=int(last))
                with pytest.raises(haloport.RefusedError, match="the limit of a slab"):
                    call(u if call == grid.gather else whole, limit=int(last))
        # All goes on.
        found = grid.gather(u)
        assert (found is not None) == (comm.rank == 0)

    ranks()(check)


# Meshes


def test_mesh(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        # Each rank owns three cells of a ring, and knows the one before and the one after.
        own = [3 * comm.rank + k for k in range(3)]
        halo = [(own[0] - 1) % (3 * comm.size), (own[2] + 1) % (3 * comm.size)]
        if comm.size == 1:
            halo = []
        ids = [*own, *halo]
        mesh = haloport.Mesh(ids, 3, comm=comm)
        assert mesh.cells == len(ids) and mesh.ids.tolist() == ids and mesh.ids.dtype == np.int64
        assert mesh.owned.tolist() == [True] * 3 + [False] * len(halo)
        assert mesh.empty().shape == (len(ids),) and mesh.empty("f4", 6).shape == (len(ids), 6)
        # The neighbours of each cell in the ring, by their places; -1 stands for none.
        place = {cell: at for at, cell in enumerate(ids)}
        ring = 3 * comm.size
        near = [[place.get((cell + step) % ring, -1) for step in (-1, 1)] for cell in ids]
        interior, boundary = mesh.split(np.array(near))
        assert interior.tolist() == ([1] if halo else [0, 1, 2]) and boundary.tolist() == ([0, 2] if halo else [])
        u = mesh.empty("i8")
        u[mesh.owned] = mesh.ids[mesh.owned]
        mesh.plan(u)(u)
        assert u.tolist() == ids

    ranks()(check)


def test_lists_name_cells_in_order(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        # Cell number k of the one list fills cell number k of the other.
        after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        mesh = haloport.Mesh.from_lists(6, {after: [2, 0, 1]}, {before: [4, 5, 3]}, comm=comm)
        assert mesh.owned.tolist() == [True] * 3 + [False] * 3
        u = np.array([0, 1, 2, -1, -1, -1]) + 10 * comm.rank
        mesh.plan(u)(u)
        assert u[3:].tolist() == [10 * before + k for k in (1, 2, 0)]

    ranks()(check)


# Layouts


def test_layouts(ranks: Ranks) -> None:
    layout = haloport.Layout((3, 5, 2), "f4", ("levels", 0, "components"), strides=(4, 24, 12), origin=(2,))
    assert layout.shape == (3, 5, 2) and layout.dtype == np.float32 and layout.strides == (4, 24, 12)
    assert layout.axes == ("levels", 0, "components") and layout.origin == (2,) and layout.device is None
    plain = haloport.Layout((3, 5), "i2")
    assert plain.strides == (10, 2) and plain.axes is None and plain.origin is None

    def check(comm: Comm) -> None:
        grid = row(comm)
        u, v = np.zeros((6, 3), "f4", order="F"), np.zeros((2, 6), "i8")
        plan = grid.plan(u, haloport.Layout(v.shape, v.dtype, ("levels", 0)))
        one, two = plan.layouts
        assert one.shape == (6, 3) and one.strides == (4, 24) and one.dtype == "f4" and one.axes is None
        assert two.shape == (2, 6) and two.strides == (48, 8) and two.dtype == "i8" and two.axes == ("levels", 0)
        assert not plan.fixed
        # Layouts of one plan make another one.
        again = grid.plan(*plan.layouts)
        fill(grid, u)
        fill(grid, v.T, 100)
        again(u, v)
        assert_filled(grid, u)
        assert_filled(grid, v.T, 100)
        for dtype in (bool, "M8[s]", "S3", [("a", "i4"), ("b", "f4")]):
            of_array, of_layout = grid.plan(np.zeros(6, dtype), haloport.Layout((6,), dtype)).layouts
            assert of_array.dtype == of_layout.dtype == np.dtype(dtype)

    ranks()(check)


def test_rank_without_domains(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        last, others = comm.rank == comm.size - 1, comm.size - 1
        mine = [] if last else [((4 * comm.rank,), (4 * comm.rank + 4,))]
        grid = haloport.Grid((4 * others,), domains=mine, periodic=True, comm=comm)
        # Each rank owns a cell of a ring, and knows the next one.
        ring = [] if last else [([comm.rank, (comm.rank + 1) % others], 1)]
        mesh = haloport.Mesh.of_domains(ring, comm=comm)
        for fixed in (False, True):
            u, v = grid.empty("f4", levels=3), mesh.empty(bool)
            on_grid, on_mesh = grid.plan(u, fixed=fixed), mesh.plan(v, fixed=fixed)
            if last:
                assert (u.shape, u.dtype, v.shape, v.dtype) == ((0, 3), "f4", (0,), bool)
                assert on_grid.layouts == []
            else:
                u[grid.owned], v[0] = comm.rank, comm.rank % 2
            on_grid(u)
            on_mesh(v)
            if not last:
                before, after = (comm.rank - 1) % others, (comm.rank + 1) % others
                assert (u[0] == before).all() and (u[-1] == after).all() and v[1] == after % 2

    ranks(3)(check)


def test_empty_lists_of_a_rank_without_domains(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        last, others = comm.rank == comm.size - 1, comm.size - 1
        mine = [] if last else [((4 * comm.rank,), (4 * comm.rank + 4,))]
        grid = haloport.Grid((4 * others,), domains=mine, periodic=True, comm=comm)
        for fixed, nothing in itertools.product((False, True), ([], ())):
            u, v = (nothing, nothing) if last else (np.zeros((6, 3), "M8[s]"), np.zeros(6, "f4"))
            plan = grid.plan(u, v, fixed=fixed)
            if not last:
                u[grid.owned] = np.datetime64(comm.rank, "s")
                v[grid.owned] = comm.rank
            plan(u, v)
            plan.start(u, v).finish()
            if last:
                assert plan.layouts == [] and (fixed or plan.functional(u, v) == ((), ()))
            else:
                before, after = (comm.rank - 1) % others, (comm.rank + 1) % others
                assert (u[0].astype(int) == before).all() and (u[-1].astype(int) == after).all()
                assert (v[0], v[-1]) == (before, after)
                fixed or plan.functional(u, v)
        # All ranks get errors, and go on.
        with pytest.raises((ValueError, TypeError), match="field 1: expected an array on some rank, found none"):
            grid.plan(*([[], []] if last else [np.zeros(6)]))
        with pytest.raises((ValueError, BufferError), match="read-only"):
            grid.plan([] if last else np.frombuffer(bytes(48)))
        nowhere = haloport.Mesh.of_domains([], comm=comm)
        with pytest.raises((TypeError, ValueError), match="field 0: expected an array on some rank, found none"):
            nowhere.plan([])
        nowhere.plan(np.zeros(0))(np.zeros(0))
        # A list is empty by mistake on a rank with domains.
        with pytest.raises((TypeError, ValueError), match="field 0"):
            grid.plan([])

    ranks(3)(check)


def test_origin_in_a_larger_array(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        u = np.full(11, -9.0)
        u[3:7] = grid.indices()[0][grid.owned]
        plan = grid.plan(haloport.Layout((11,), "f8", origin=(3,)))
        plan(u)
        assert u[2:8].tolist() == grid.indices()[0].tolist()
        assert (u[:2] == -9).all() and (u[8:] == -9).all()
        with pytest.raises(ValueError):
            # One cell of the halo has no memory.
            grid.plan(haloport.Layout((7,), "f8", origin=(3,)))

    ranks()(check)


def folded(i: int, j: int, shape: tuple[int, int], fold: str, points: str) -> tuple[int, int, bool]:
    """The owner of a point of a tripolar grid, and whether it is on the other side of the fold. See docs/fields.md."""
    rows, cells = shape
    east, north = points in ("east-edges", "corners"), points in ("north-edges", "corners")
    a, b = (cells, 2 * rows - 2) if fold == "cell" else (cells - 1, 2 * rows - 1)
    a, b, i = a - east, b - north, i % cells
    other = (a - i) % cells
    return (other, b - j, True) if 2 * j > b or (2 * j == b and i > other) else (i, j, False)


@pytest.mark.parametrize("fold", ["cell", "corner"])
@pytest.mark.parametrize("points", ["cells", "east-edges", "north-edges", "corners"])
def test_tripolar_grids(ranks: Ranks, fold: str, points: str) -> None:
    shape = (6, 8)

    def check(comm: Comm) -> None:
        for parts, halo in (([1, comm.size], 1), ([comm.size, 1], 2)):
            if shape[0] < parts[0]:
                continue
            grid = haloport.Grid(shape, halo=halo, parts=parts, fold=fold, points=points, comm=comm)
            assert grid.periodic == (False, True)
            scalar, vector = grid.empty(), grid.empty(levels=2)
            rows, columns = np.broadcast_arrays(*grid.indices())
            for fixed in (False, True):
                for array in (scalar, vector[..., 0], vector[..., 1]):
                    array[...] = -12345
                    array[grid.owned] = (100 * rows + columns + 1)[grid.owned]
                plan = grid.plan(scalar, vector, axes=None, vector=[None, None], fixed=fixed)
                turned = grid.plan(
                    scalar[..., None], axes=[0, 1, "components"], vector=[1 if halo == 1 else (0,)], fixed=fixed
                )
                plan(*(() if fixed else (scalar, vector)))
                for sign in (1, -1):
                    if sign < 0:
                        scalar[grid.owned] = (100 * rows + columns + 1)[grid.owned]
                        turned(*(() if fixed else (scalar[..., None],)))
                    for place in np.ndindex(*scalar.shape):
                        if rows[place] < 0:
                            continue
                        i, j, beyond = folded(int(columns[place]), int(rows[place]), shape, fold, points)
                        expected = 100 * j + i + 1
                        assert scalar[place] == (sign * expected if beyond else expected), (place, sign)
                        assert (vector[place] == expected).all()

    ranks()(check)


@pytest.mark.parametrize("options", [{}, {"fixed": True}, {"in_flight": 2}, {"path": "messages"}, {"accumulate": "sum"}])
def test_fields_of_several_grids(ranks: Ranks, options: dict[str, Any]) -> None:
    """Points of a tripolar grid, a wider halo, a mesh and several domains in one plan: as in a plan for each."""

    def check(comm: Comm) -> None:
        size, rank = comm.size, comm.rank
        comm = haloport.Communicator(comm)
        shape = (2 * size + 3, 8)
        cells = haloport.Grid(shape, fold="corner", comm=comm)
        edges = haloport.Grid(shape, fold="corner", points="east-edges", comm=comm)
        wide = haloport.Grid(shape, halo=2, periodic=True, parts=[size, 1], comm=comm)
        mesh = haloport.Mesh([rank, (rank + 1) % size] if size > 1 else [0], 1, comm=comm)
        # Two strips on each rank but the last, which has none if there are others.
        strips = [((4 * rank + 2 * k, 0), (4 * rank + 2 * k + 2, 3)) for k in range(2)] if rank < max(size - 1, 1) else []
        parts = haloport.Grid((4 * max(size - 1, 1), 3), periodic=True, domains=strips, comm=comm)
        grids = [mesh, cells, parts, edges, wide, cells]
        draw = np.random.default_rng(rank)
        fields: list[Any] = []
        for grid, dtype, levels in zip(grids, ("f8", "f4", "i8", "f8", "f8", "i2"), (None, 3, None, 2, None, None), strict=True):
            made = grid.empty(dtype, levels)
            for array in made if isinstance(made, list) else [made]:
                array[...] = draw.integers(-9, 9, array.shape)
            fields.append(made)
        vector: list[int | None] = [None, None, None, 1, None, None]
        arrays = [field if isinstance(field, list) else [field] for field in fields]
        expected = [[array.copy() for array in field] for field in arrays]
        together = cells.plan(*fields, grids=grids, vector=vector, **options)
        if options.get("in_flight") == 2:
            together.start(*fields).finish()
        else:
            together(*fields)
        alone = {name: value for name, value in options.items() if name == "accumulate"}
        for grid, field, along in zip(grids, expected, vector, strict=True):
            of = field if len(field) > 1 else field[0]
            (grid.plan(of, **alone) if along is None else grid.plan(of, vector=[along], **alone))(of)
        for found, copies in zip(arrays, expected, strict=True):
            for one, other in zip(found, copies, strict=True):
                assert np.array_equal(one, other)
        if options.get("path") == "messages":
            sends = {(route["from"], route["to"], route["field"]) for route in together.describe()["routes"]}
            assert len(sends) == len(together.describe()["routes"])
            others = {to for start, to, _ in sends if start == rank}
            assert together.traffic["messages"] <= len(others)

    ranks()(check)


def test_fields_of_grids_that_are_on_other_ranks(ranks: Ranks) -> None:
    """No rank has domains of all grids, and fields of others are empty lists."""

    def check(comm: Comm) -> None:
        comm = haloport.Communicator(comm)
        first, last = comm.rank == 0, comm.rank == comm.size - 1
        ocean = haloport.Grid((6,), periodic=True, domains=[((0,), (6,))] if first else [], comm=comm)
        air = haloport.Grid((4, 3), periodic=True, domains=[((0, 0), (4, 3))] if last else [], comm=comm)
        u: Any = np.arange(8.0) if first else []
        v: Any = np.arange(30, dtype="i4").reshape(6, 5) if last else []
        ocean.plan(u, v, grids=[ocean, air])(u, v)
        assert not first or (u[0], u[7]) == (6, 1)
        assert not last or (v[0, 0], v[5, 4]) == (23, 6)
    ranks(3)(check)


def test_wrong_grids(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        comm = haloport.Communicator(comm)
        grid, other = haloport.Grid((8 * comm.size, 4), comm=comm), haloport.Grid((8 * comm.size, 4), halo=2, comm=comm)
        u, v = grid.empty(), other.empty()
        for grids, error, text in (
            ([grid], ValueError, "grids: expected a Grid or a Mesh for each of 2 fields, found 1"),
            ([grid] * 3, ValueError, "for each of 2 fields, found more"),
            ([grid, "wide"], TypeError, "grids: expected a Grid or a Mesh, found str"),
            (7, TypeError, "grids: expected a Grid or a Mesh for each field"),
            ([other, grid], ValueError, "field 0"),
            ([grid, haloport.Grid((8, 4), comm=haloport.threads(1)[0])], ValueError, "grids: expected grids of one communicator"),
        ):
            with pytest.raises(error, match=text):
                grid.plan(u, v, grids=grids)
        if comm.size > 1:
            with pytest.raises(haloport.RefusedError, match="a set of the patterns"):
                grid.plan(u, v, grids=[grid, other] if comm.rank == 0 else [other, grid])
        grid.plan(u, v, grids=[grid, other])(u, v)

    ranks()(check)


@pytest.mark.parametrize("levels", [(), (2,)])
def test_cubed_spheres(ranks: Ranks, levels: tuple[int, ...]) -> None:
    """With an axis of levels between the tiles and the others, or without."""

    def check(comm: Comm) -> None:
        if 6 % comm.size:
            return
        shape, halo, parts = (6, *levels, 4, 4), [0, *(0 for _ in levels), 1, 1], [comm.size, *(1 for _ in levels), 1, 1]
        grid = haloport.Grid(shape, halo=halo, parts=parts, cubed_sphere=True, comm=comm)
        tile = grid.empty("i8")
        tile[...] = -1
        tile[grid.owned] = np.broadcast_arrays(*grid.indices())[0][grid.owned]
        grid.plan(tile)(tile)
        numbers = [number for number in range(grid.lower[0], grid.upper[0]) for _ in range(math.prod(levels))]
        for number, own in zip(numbers, tile.reshape(-1, 6, 6), strict=True):
            edges = [own[0, 1:-1], own[-1, 1:-1], own[1:-1, 0], own[1:-1, -1]]
            beside = {int(edge[0]) for edge in edges if (edge == edge[0]).all()}
            # Four tiles, without the one on the other side of the sphere.
            assert len(beside) == 4 and number not in beside and beside <= set(range(6))

    ranks(3)(check)


def test_wrong_folds(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        size = comm.size
        for wrong, text in (
            ({"fold": "edge"}, "fold: expected one of 'cell', 'corner', found 'edge'"),
            ({"points": "corners"}, "points: expected 'cells' on a grid without a fold"),
            ({"fold": "cell", "points": "U"}, "points: expected one of 'cells', 'east-edges'"),
            ({"cubed_sphere": True}, "shape: expected 6 tiles"),
            ({"fold": "cell", "shape": (8 * size,)}, "shape: expected 2 axes or more"),
            ({"fold": "cell", "shape": (8 * size, 7)}, "even number"),
            ({"fold": "cell", "periodic": True}, "along which the grid is periodic"),
        ):
            with pytest.raises(ValueError, match=text):
                haloport.Grid(**{"shape": (8 * size, 8), "comm": comm, **wrong})
        grid = haloport.Grid((8 * size, 8), fold="cell", comm=comm)
        u = grid.empty()
        for vector, text in (([], "an entry for each of 1 fields, found 0"), ([0, 1], "found more"), ([5], "axes"), ([(0, 1)], "axes")):
            with pytest.raises(ValueError, match=text):
                grid.plan(u, vector=vector)
        with pytest.raises(TypeError, match="vector: expected for each field None"):
            grid.plan(u, vector="x")

    ranks()(check)


def test_staggered_grids(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        cells = haloport.Grid((9, 7), halo=2, clipped=True, comm=comm)
        nodes = haloport.Grid((10, 8), halo=2, clipped=True, like=cells, comm=comm)
        assert nodes.lower == cells.lower
        ends = [upper + (upper == end) for upper, end in zip(cells.upper, (9, 7), strict=True)]
        assert list(nodes.upper) == ends
        for grid, shape in ((cells, (9, 7)), (nodes, (10, 8))):
            rows, columns = grid.indices()
            assert rows.min() >= 0 and columns.min() >= 0 and rows.max() < shape[0] and columns.max() < shape[1]
            u = grid.empty()
            u[...] = -1
            u[grid.owned] = (100 * rows + columns)[grid.owned]
            grid.plan(u)(u)
            assert (u == 100 * rows + columns).all()
        with pytest.raises(ValueError, match="expected one of `parts`, `domains` and `like`, found several"):
            haloport.Grid((10, 8), parts=[comm.size, 1], like=cells, comm=comm)
        with pytest.raises(TypeError, match="like: expected a Grid"):
            haloport.Grid((10, 8), like=(9, 7), comm=comm)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="entries"):
            haloport.Grid((10,), like=cells, comm=comm)

    ranks()(check)


# The ways of plans


def test_describe_tells_why(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = haloport.Grid((64 * comm.size, 64), halo=[1, 0], periodic=True, parts=[comm.size, 1], comm=comm)
        own = grid.empty()
        others = {rank for rank in ((comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size) if rank != comm.rank}

        def whys(**options: Any) -> set[tuple[str, str | None]]:
            found = grid.plan(own, **options).describe()
            assert found["devices"] == ["cpu:0"] and found["choice"]["path"] == options.get("path", "quickest")
            routes = found["routes"]
            assert {route["from"] for route in routes if route["to"] == comm.rank} == others
            assert {route["to"] for route in routes if route["from"] == comm.rank} == others
            assert len(routes) == 2 * len(others) and all(route["field"] == 0 for route in routes)
            return {(route["path"], route["why"]) for route in routes}

        near = {"shared", "messages"}
        assert whys(path="direct", fixed=True) <= {("direct", None)}
        assert whys(path="messages", fixed=True) <= {("messages", "asked")}
        assert whys() <= {(path, "passed") for path in near}
        for wrong in ("fast", "", "Direct"):
            with pytest.raises(ValueError, match="path: expected one of quickest, direct"):
                grid.plan(own, path=wrong)
        with pytest.raises(TypeError, match="path: expected a str"):
            grid.plan(own, path=1)
        if others:
            with pytest.raises(haloport.RefusedError, match="path `direct`.*because memory is passed to each start"):
                grid.plan(own, path="direct")

    ranks()(check)




def moved(traffic: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in traffic.items() if count}


def test_neighbours_copy_straight_from_arrays_of_empty(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = haloport.Grid((64 * comm.size, 16, 3), halo=[1, 0, 0], periodic=True, parts=[comm.size, 1, 1], comm=comm)
        u, v = grid.empty(), grid.empty("i2", 16)
        plan = grid.plan(u, v, fixed=True, path="direct")
        assert plan.fixed
        # Two planes of elements of 8 bytes, and of 16 levels of 2 bytes.
        planes = 2 * 16 * 3 * (8 + 32)
        found = moved(plan.traffic)
        assert found == ({"direct_bytes": planes} if comm.size > 1 else {"local_bytes": planes})
        for turn in range(3):
            fill(grid, u, turn)
            fill(grid, v, turn)
            if turn == 1:
                plan(u, v)
            else:
                plan()
            assert_filled(grid, u, turn)
            assert_filled(grid, v, turn)

    ranks()(check)


def test_other_arrays_are_packed(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = haloport.Grid((64 * comm.size, 64), halo=[1, 0], periodic=True, parts=[comm.size, 1], comm=comm)
        own = grid.empty()
        plans = [grid.plan(own), grid.plan(np.zeros_like(own), fixed=True), grid.plan(own[::-1], fixed=True)]
        # Threads reach all memory of a fixed plan, other processes none of it.
        for plan in plans if world is not None else plans[:1]:
            found = plan.traffic
            assert found["direct_bytes"] == 0
            assert found["message_bytes"] + found["shared_bytes"] + found["local_bytes"] >= 2 * 64 * 8

    ranks()(check)


def test_traffic_of_a_plan(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        traffic = row(comm).plan(haloport.Layout((6,), "f8")).traffic
        assert set(traffic) == {"messages", "message_bytes", "shared_bytes", "direct_bytes", "local_bytes"}
        assert all(isinstance(count, int) for count in traffic.values())
        assert (traffic["local_bytes"] == 16) == (comm.size == 1)

    ranks()(check)


def test_fixed_plans_keep_their_arrays(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        arrays = [grid.empty(), np.zeros(6)]
        for u in arrays:
            plan = grid.plan(u, fixed=True)
            with pytest.raises(ValueError, match="expected the arrays that the fixed plan was made for"):
                plan(u.copy())
            with pytest.raises(ValueError, match="found a fixed one"):
                plan.functional(u)
            fill(grid, u)
            view = u[:]
            known = weakref.ref(u)
            plan(view)
            assert_filled(grid, u)
            fill(grid, u, 5)
            arrays = [array for array in arrays if array is not u]
            del u
            assert known() is not None
            plan()
            assert_filled(grid, view, 5)
        with pytest.raises(ValueError, match="in_flight: expected 1 for a fixed plan"):
            grid.plan(grid.empty(), fixed=True, in_flight=2)
        with pytest.raises(TypeError, match="found a Layout"):
            grid.plan(haloport.Layout((6,), "f8"), fixed=True)

    ranks()(check)


# Memory that arrays have in common


def overlapping() -> Iterator[tuple[str, Callable[[], tuple[Any, Any]]]]:
    def offset() -> tuple[Any, Any]:
        base = np.zeros(11)
        return base[:6], base[5:]

    def reversed_() -> tuple[Any, Any]:
        base = np.zeros(6)
        return base, base[::-1]

    def strided() -> tuple[Any, Any]:
        base = np.zeros(17)
        return base[0:11:2], base[1::3][:6]

    yield "the same", lambda: (np.zeros(6),) * 2
    yield "one element", offset
    yield "backwards", reversed_
    yield "other strides", strided


@pytest.mark.parametrize("make", [make for _, make in overlapping()], ids=[name for name, _ in overlapping()])
@pytest.mark.parametrize("fixed", [False, True])
def test_views_that_overlap_are_refused(ranks: Ranks, make: Callable[[], tuple[Any, Any]], fixed: bool) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        u, v = make()
        with pytest.raises(ValueError, match="fields 0 and 1: expected memory of their own, found elements in common"):
            plan = grid.plan(u, v, fixed=fixed)
            plan(u, v)

    ranks()(check)


def side_by_side() -> Iterator[tuple[str, Callable[[], tuple[Any, Any]]]]:
    def interleaved() -> tuple[Any, Any]:
        base = np.zeros((6, 2))
        return base[:, 0], base[:, 1]

    def halves() -> tuple[Any, Any]:
        base = np.zeros((6, 8))
        return base[:, :4], base[:, 4:]

    def opposite() -> tuple[Any, Any]:
        base = np.zeros(12)
        return base[::2], base[::-2]

    def record() -> tuple[Any, Any]:
        base = np.zeros(6, [("a", "f8"), ("b", "i8")])
        return base["a"], base["b"]

    yield "interleaved", interleaved
    yield "halves", halves
    yield "opposite", opposite
    yield "members of a record", record
    yield "touching", lambda: tuple(np.zeros((2, 6)))  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("make", [make for _, make in side_by_side()], ids=[name for name, _ in side_by_side()])
@pytest.mark.parametrize("fixed", [False, True])
def test_views_beside_each_other(ranks: Ranks, make: Callable[[], tuple[Any, Any]], fixed: bool) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        u, v = make()
        plan = grid.plan(u, v, fixed=fixed)
        for turn in range(2):
            fill(grid, u, turn)
            fill(grid, v, 100 + turn)
            plan(u, v)
            assert_filled(grid, u, turn)
            assert_filled(grid, v, 100 + turn)
        # Also in two exchanges at once.
        one, two = grid.plan(u), grid.plan(v)
        fill(grid, u)
        fill(grid, v, 100)
        pending = one.start(u), two.start(v)
        for each in pending:
            each.finish()
        assert_filled(grid, u)
        assert_filled(grid, v, 100)

    ranks()(check)


# Exchanges in flight


def test_arrays_in_flight_are_kept(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        plan = grid.plan(np.zeros(6))
        base: Any = np.zeros(6)
        fill(grid, base)
        known = weakref.ref(base)
        pending = plan.start(base)
        del base
        assert known() is not None
        array = known()
        pending.finish()
        assert_filled(grid, array)
        # The plan keeps it no longer.
        del array
        assert known() is None

    ranks()(check)


def test_array_in_flight_is_refused_elsewhere(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        u = np.zeros(6)
        fill(grid, u)
        one, two = grid.plan(u), grid.plan(u)
        with one.start(u):
            for begin in (two, two.start):
                with pytest.raises(haloport.InFlightError, match="in flight in another exchange"):
                    begin(u)
            with pytest.raises(haloport.InFlightError):
                two.start(u[:])
            with pytest.raises(haloport.InFlightError, match="the plan is in flight"):
                one.start(np.zeros(6))
        assert_filled(grid, u)
        fill(grid, u, 3)
        two(u)
        assert_filled(grid, u, 3)

    ranks()(check)


def test_threads_that_compete_for_an_array() -> None:
    """Of exchanges that start at the same time, at most one has an array, and one gets it in the end."""
    threads, rounds = 4, 300
    array, own = np.zeros(10), threading.Lock()
    begin = threading.Barrier(threads)

    def compete(place: int) -> tuple[int, int]:
        grid = haloport.Grid((4,), halo=1, periodic=True, comm=haloport.threads(1)[0])
        # All have the elements in the middle.
        mine = array[place : place + 6]
        plan = grid.plan(mine, fixed=place % 2 == 1)
        had = refused = 0
        begin.wait()
        while had < rounds:
            try:
                with plan.start(mine):
                    assert own.acquire(blocking=False), "two exchanges have an element"
                    time.sleep(0)
                    own.release()
            except haloport.InFlightError:
                refused += 1
                time.sleep(0)
            else:
                had += 1
        return had, refused

    with ThreadPoolExecutor(threads) as pool:
        done = [entry.result() for entry in [pool.submit(compete, place) for place in range(threads)]]
    assert all(had == rounds for had, _ in done)
    assert any(refused for _, refused in done), "the threads did not compete"


@pytest.mark.parametrize("in_flight", [1, 2, 5])
def test_most_in_flight(ranks: Ranks, in_flight: int) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        arrays = [np.zeros(6) for _ in range(in_flight + 1)]
        plan = grid.plan(arrays[0], in_flight=in_flight)
        for turn in range(3):
            for number, u in enumerate(arrays):
                fill(grid, u, 100 * number + turn)
            pending = [plan.start(u) for u in arrays[:-1]]
            with pytest.raises(haloport.InFlightError):
                plan.start(arrays[-1])
            # The one that was refused is not in flight, and the others are as they were.
            order = list(range(in_flight))
            random.Random(comm.rank + turn).shuffle(order)
            for number in order:
                pending[number].finish()
                assert_filled(grid, arrays[number], 100 * number + turn)
            plan(arrays[-1])
            assert_filled(grid, arrays[-1], 100 * in_flight + turn)

    ranks()(check)


def test_in_flight_is_checked_on_all_ranks(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        for wrong in (0, 65):
            with pytest.raises(haloport.RefusedError):
                grid.plan(np.zeros(6), in_flight=wrong)
        if comm.size > 1:
            with pytest.raises(haloport.RefusedError):
                grid.plan(np.zeros(6), in_flight=1 + comm.rank)

    ranks()(check)


def test_dropped_pending(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        u, v = np.zeros(6), np.zeros(6)
        plan = grid.plan(u)
        for turn in range(3):
            fill(grid, u, turn)
            fill(grid, v, 10 + turn)
            plan.start(u)
            # The next call finishes it.
            plan(v)
            assert_filled(grid, u, turn)
            assert_filled(grid, v, 10 + turn)
        # Dropped with the plan.
        fill(grid, u)
        plan.start(u)
        del plan
        comm.barrier()
        plan = grid.plan(u)
        fill(grid, u, 7)
        plan(u)
        assert_filled(grid, u, 7)

    ranks()(check)


def test_finish_and_is_ready(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        u = np.zeros(6)
        plan = grid.plan(u)
        fill(grid, u)
        pending = plan.start(u)
        while not pending.is_ready():
            time.sleep(0)
        pending.finish()
        assert_filled(grid, u)
        assert pending.is_ready()
        # It has ended: this does nothing, even while the plan is in flight again.
        fill(grid, u, 1)
        again = plan.start(u)
        pending.finish()
        again.finish(haloport.BLOCK)
        assert_filled(grid, u, 1)

    ranks()(check)


def test_start_does_not_wait_for_neighbours(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        u = np.zeros(6)
        fill(grid, u)
        plan = grid.plan(u)
        if comm.rank == 0:
            pending = plan.start(u)
            assert not pending.is_ready()
            comm.barrier()
            pending.finish()
        else:
            comm.barrier()
            plan(u)
        assert_filled(grid, u)

    ranks(2)(check)


def test_with_finishes_after_an_exception(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        u = np.zeros(6)
        fill(grid, u)
        plan = grid.plan(u)
        with pytest.raises(KeyError), plan.start(u):
            raise KeyError
        assert_filled(grid, u)

    ranks()(check)


def test_await_lets_other_tasks_run(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        u = np.zeros(6)
        fill(grid, u)
        plan = grid.plan(u)

        async def exchange() -> int:
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            other = asyncio.ensure_future(count())
            await plan.start(u)
            other.cancel()
            return turns

        if comm.rank == 0:
            turns = asyncio.run(exchange())
            assert turns > 1
        else:
            time.sleep(0.05)
            plan(u)
        assert_filled(grid, u)

    ranks(2)(check)


def test_await_leaves_the_core_to_others(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        u = np.zeros(6)
        fill(grid, u)
        plan = grid.plan(u)
        messages = haloport.SparseExchange(comm=comm)

        async def wait_for(pending: Any) -> Any:
            return await pending

        for wait in (lambda: plan.start(u), lambda: messages.start([])):
            comm.barrier()
            if comm.rank == 0:
                before = time.thread_time()
                asyncio.run(wait_for(wait()))
                assert time.thread_time() - before < 0.3
            else:
                time.sleep(0.6)
                wait().finish()
        # A task that is cancelled meanwhile leaves the exchange to the next call.
        async def cancelled() -> None:
            task = asyncio.ensure_future(wait_for(plan.start(u)))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        comm.barrier()
        if comm.rank == 0:
            asyncio.run(cancelled())
        else:
            time.sleep(0.2)
            plan(u)
        plan(u)
        assert_filled(grid, u)

    ranks(2)(check)


def test_plan_in_two_threads(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        u, v = np.zeros(6), np.zeros(6)
        plan, other = grid.plan(u), grid.plan(u)
        fill(grid, u)
        if comm.rank == 0:
            waiting = threading.Thread(target=plan, args=(u,))
            waiting.start()
            # The thread waits for rank 1, which waits below.
            with pytest.raises(haloport.InFlightError, match="the plan is in use by another thread"):
                for _ in range(1000):
                    time.sleep(0.001)
                    plan.traffic
            with pytest.raises(haloport.InFlightError, match="the plan is in use by another thread"):
                plan(v)
            comm.barrier()
            waiting.join()
        else:
            comm.barrier()
            plan(u)
        assert_filled(grid, u)
        # Afterwards both are as before, and each thread may have a plan of its own.
        fill(grid, u, 1)
        fill(grid, v, 2)
        plan(u)
        other(v)
        assert_filled(grid, u, 1)
        assert_filled(grid, v, 2)

    ranks(2)(check)


def test_same_array_twice_one_after_the_other(ranks: Ranks) -> None:
    """Addresses that were checked once are checked again for other arrays."""

    def check(comm: Comm) -> None:
        grid = row(comm)
        u, v = np.zeros(6), np.zeros(6)
        plan = grid.plan(u, v)
        fill(grid, u)
        fill(grid, v, 9)
        plan(u, v)
        with pytest.raises(ValueError, match="elements in common"):
            plan(u, u)
        plan(v, u)
        assert_filled(grid, u)
        assert_filled(grid, v, 9)

    ranks()(check)


# Functional exchanges


def layouts_of_numpy() -> Iterator[tuple[str, Any]]:
    yield "C", np.zeros((6, 3))
    yield "F", np.zeros((6, 3), order="F")
    yield "gaps", np.zeros((12, 5))[::2, 1:4]
    yield "backwards", np.zeros((6, 3))[::-1, ::-1]
    yield "mixed", np.zeros((3, 2, 6)).transpose(2, 0, 1)[::-1, :, 1]
    yield "no levels", np.zeros((6, 0))


@pytest.mark.parametrize("array", [array for _, array in layouts_of_numpy()], ids=[name for name, _ in layouts_of_numpy()])
def test_functional_keeps_the_layout(ranks: Ranks, array: Any) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        base = array.base if array.base is not None else array
        mine = np.zeros_like(base)
        offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        u = np.ndarray(array.shape, array.dtype, mine, offset, array.strides)
        plan = grid.plan(u)
        fill(grid, u)
        before = u.copy()
        y = plan.functional(u)
        assert y is not u and np.array_equal(u, before)
        assert_filled(grid, y)
        # The copy goes through the same plan again.
        z = plan.functional(y)
        assert_filled(grid, z)
        u.flags.writeable = False
        assert_filled(grid, plan.functional(u))

    ranks()(check)


def test_functional_of_several_fields(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        grid = row(comm)
        u, v = np.zeros(6), np.zeros((6, 2), "i4")
        fill(grid, u)
        fill(grid, v, 5)
        found = grid.plan(u, v).functional(u, v)
        assert isinstance(found, tuple) and len(found) == 2
        assert_filled(grid, found[0])
        assert_filled(grid, found[1], 5)

    ranks()(check)


def test_autograd_knows_what_an_exchange_changes(ranks: Ranks) -> None:
    torch = pytest.importorskip("torch", reason="found no PyTorch")

    def check(comm: Comm) -> None:
        grid = row(comm)
        u, weight = torch.ones(6), torch.ones(6, requires_grad=True)
        plan, fixed = grid.plan(u), grid.plan(u, fixed=True)

        def between() -> None:
            pending = plan.start(u)
            between.kept = weight * u  # type: ignore[attr-defined]
            pending.finish()

        for change in (lambda: plan(u), fixed, lambda: plan.start(u).finish(), lambda: fixed.start().finish(), between):
            kept = weight * u
            version = u._version
            change()
            assert u._version > version
            kept = getattr(change, "kept", kept)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                kept.sum().backward()
        # Nothing is noted twice, or for tensors without a counter.
        pending = plan.start(u)
        pending.finish()
        version = u._version
        pending.finish()
        assert u._version == version
        with torch.inference_mode():
            plan(torch.ones(6))
        with pytest.raises(BufferError, match="resolve_conj"):
            grid.plan(torch.ones(6, dtype=torch.complex64).conj())
        with pytest.raises(BufferError, match="resolve_neg"):
            grid.plan(torch.ones(6, dtype=torch.complex64).conj().imag)
        with pytest.raises(BufferError, match="meta"):
            grid.plan(torch.ones(6, device="meta"))
        with pytest.raises(BufferError, match="to_dense"):
            grid.plan(torch.ones(6).to_sparse())

    ranks(ALONE)(check)


def test_numbers_that_numpy_does_not_know_have_one_name(ranks: Ranks) -> None:
    torch = pytest.importorskip("torch", reason="found no PyTorch")
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="found no ml_dtypes")

    def check(comm: Comm) -> None:
        grid = row(comm)
        tensor, array = torch.zeros(6, dtype=torch.bfloat16), np.zeros(6, ml_dtypes.bfloat16)
        u = tensor if comm.rank % 2 else array
        bits = tensor.view(torch.int16).numpy() if comm.rank % 2 else array.view(np.int16)
        plan = grid.plan(u)
        fill(grid, bits)
        plan(u)
        assert_filled(grid, bits)
        # Also of layouts and of the other kind.
        grid.plan(u, array)(u, np.zeros(6, ml_dtypes.bfloat16))
        grid.plan(u, tensor)(u, np.zeros(6, ml_dtypes.bfloat16))

    ranks()(check)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "int4"])
def test_numbers_that_numpy_does_not_know_are_records(ranks: Ranks, name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="found no ml_dtypes")

    def check(comm: Comm) -> None:
        grid = row(comm)
        u = grid.empty(getattr(ml_dtypes, name), 2)
        for plan in (grid.plan(u), grid.plan(u, fixed=True), grid.plan(haloport.Layout(u.shape, u.dtype))):
            fill(grid, u.view(np.int8))
            plan(u)
            assert_filled(grid, u.view(np.int8))
        # The type is that of no other bytes.
        for other in (ml_dtypes.float8_e4m3b11fnuz, "V1"):
            with pytest.raises(BufferError, match=f"expected elements of dtype {name}, found"):
                grid.plan(u)(np.zeros(u.shape, other))

    ranks()(check)


def test_numbers_without_a_name_here_are_refused_with_advice() -> None:
    torch = pytest.importorskip("torch", reason="found no PyTorch")
    grid = row(haloport.threads(1)[0])
    tensor = torch.zeros(6).to(torch.float8_e4m3fn)
    with pytest.raises(BufferError, match=r"found torch\.float8_e4m3fn; pass tensor\.view\(torch\.uint8\)"):
        grid.plan(tensor)
    shown = tensor.view(torch.uint8)
    fill(grid, shown.numpy().view(np.int8))
    grid.plan(shown)(tensor.view(torch.uint8))
    assert_filled(grid, tensor.view(torch.uint8).numpy())


def test_advice_for_arrays_of_jax_is_right() -> None:
    numpy = pytest.importorskip("jax.numpy", reason="found no JAX")
    grid = row(haloport.threads(1)[0])
    for dtype in ("float32", "bfloat16"):
        names = {"grid": grid, "x": numpy.arange(6).astype(dtype), "haloport": haloport}
        with pytest.raises(BufferError, match="immutable") as found:
            grid.plan(names["x"])
        use, make = re.findall("`([^`]*=[^`]*)`", str(found.value))
        exec(f"{make}\n{use}", names)
        assert np.asarray(names["y"]).astype(int).tolist() == [4, 1, 2, 3, 4, 1]


def test_arrays_that_numpy_reads() -> None:
    class Shown:
        """An object with NumPy's interface alone."""

        def __init__(self, array: Any) -> None:
            self.array = array

        @property
        def __array_interface__(self) -> Any:
            return self.array.__array_interface__

    grid = row(haloport.threads(1)[0])
    memory = np.zeros((2, 6))
    u = memory.T
    for plan in (grid.plan(Shown(u)), grid.plan(u)):
        fill(grid, u)
        plan(Shown(u))
        assert_filled(grid, u)
    fixed = grid.plan(Shown(u), fixed=True)
    fill(grid, u)
    fixed()
    assert_filled(grid, u)
    u.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        grid.plan(Shown(u))


def test_functional_of_torch_keeps_gaps(ranks: Ranks) -> None:
    torch = pytest.importorskip("torch", reason="found no PyTorch")

    def check(comm: Comm) -> None:
        grid = row(comm)
        u = torch.zeros(12, 4)[::2, ::2]
        plan = grid.plan(u)
        fill(grid, u.numpy())
        y = plan.functional(u)
        assert isinstance(y, torch.Tensor) and y.stride() == u.stride() and (u == -1).any()
        assert_filled(grid, y.numpy())

    ranks()(check)


# Devices, streams and events of the CPU


def test_streams_and_events_of_the_cpu() -> None:
    stream, event = haloport.Stream(), haloport.Event("cpu")
    assert stream.handle == 0 and event.handle == 0
    assert stream.device == event.device == haloport.Device("cpu") and stream.device.backend == "cpu"
    assert hash(stream.device) == hash(event.device)
    assert not stream.device.asynchronous and stream.device.host_accessible
    # An event that was never recorded counts as reached.
    assert event.query() and event.wait() is None
    first = haloport.Event()
    first.record(stream)
    with stream as inner:
        assert inner is stream
        first.wait(stream)
    # A block would wait for the work before it.
    assert not hasattr(event, "__enter__")
    event.record(stream)
    event.record()
    assert first.query() and first.handle == 0 and 0 <= event.elapsed(first) < 60
    stream.synchronize()
    stream.device.synchronize()
    with pytest.raises(TypeError, match="expected a stream of CUDA"):
        stream.__cuda_stream__()
    assert any(device.backend == "cpu" for device in haloport.devices())


def test_arrays_of_the_host_take_any_stream(ranks: Ranks) -> None:
    class CudaStream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 0x1234

    class CupyStream:
        ptr = 0

    streams = [haloport.Stream(), haloport.DEFAULT, haloport.BLOCK, None, CudaStream(), CupyStream(), 1, 2]

    def check(comm: Comm) -> None:
        grid = row(comm)
        u = np.zeros(6)
        plan = grid.plan(u)
        for turn, stream in enumerate(streams):
            fill(grid, u, turn)
            plan(u, stream=stream)
            assert_filled(grid, u, turn)
            fill(grid, u, -turn)
            plan.start(u, stream=stream).finish(stream)
            assert_filled(grid, u, -turn)
        for wrong in ("stream", True, 1.5):
            with pytest.raises(TypeError):
                plan(u, stream=wrong)
        fill(grid, u)
        plan(u)
        assert_filled(grid, u)

    ranks()(check)


def test_kernel_of_the_cpu() -> None:
    calls: list[Any] = []
    kernel = haloport.Kernel("add", None, ["pointer", "i32", "f64"], host=lambda *given: calls.append(given))
    assert kernel.name == "add" and kernel.device == haloport.Device("cpu")
    u = np.zeros(4)
    kernel(4, u, 3, 0.5)
    kernel((2, 3), u, 3, 0.5)
    assert [call[0] for call in calls] == [(4,), (2, 3)] and calls[0][1] is u and calls[0][2:] == (3, 0.5)


def test_bound_kernel_of_the_cpu() -> None:
    def add(size: tuple[int, ...], u: Any, number: float) -> None:
        u[: size[0]] += number

    kernel = haloport.Kernel("add", None, ["pointer", "f64"], host=add)
    u = np.zeros(4)
    bound = kernel.bind(3, u, 0.5)
    assert bound.kernel is kernel and repr(bound) == "<haloport.BoundKernel: add of (3,) on cpu:0>"
    for stream in (None, haloport.Stream(), haloport.BLOCK, 5):
        bound(stream=stream)
    assert u.tolist() == [2, 2, 2, 0]
    kept = weakref.ref(u)
    del u
    assert kept() is not None
    del bound
    assert kept() is None
    with pytest.raises(TypeError, match="argument 1"):
        kernel.bind(3, np.zeros(4), "number")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected 2 arguments, found 0"):
        kernel.bind(3)
    with pytest.raises(TypeError, match="stream"):
        kernel.bind(3, np.zeros(4), 1)(stream="5")  # type: ignore[arg-type]


def test_current_streams_of_threads_and_tasks() -> None:
    outer, inner = haloport.Stream(), haloport.Stream(priority="high")
    default = haloport.current_stream()
    assert default.handle == 0 and default.device == haloport.Device("cpu")
    with outer, inner:
        assert haloport.current_stream() is inner and haloport.current_stream("cpu") is inner
        with outer:
            assert haloport.current_stream() is outer
        assert haloport.current_stream() is inner
        elsewhere: list[haloport.Stream] = []
        thread = threading.Thread(target=lambda: elsewhere.append(haloport.current_stream()))
        thread.start()
        thread.join()
        assert elsewhere[0] not in (outer, inner)
    assert haloport.current_stream() not in (outer, inner)
    with pytest.raises(ZeroDivisionError), outer:
        raise ZeroDivisionError
    assert haloport.current_stream() is not outer

    async def task(stream: haloport.Stream) -> None:
        with stream:
            for _ in range(3):
                await asyncio.sleep(0)
                assert haloport.current_stream() is stream

    async def both() -> None:
        await asyncio.gather(task(outer), task(inner))

    asyncio.run(both())


# Arrays in memory of devices


def usm() -> Any:
    """A queue of SYCL; skips the test if there is none."""
    dpctl = pytest.importorskip("dpctl", reason="found no dpctl")
    pytest.importorskip("dpnp", reason="found no dpnp")
    if not dpctl.get_devices():
        pytest.skip("found no device of SYCL")
    return dpctl.SyclQueue()


class Named:
    """An array of dpnp whose interface names its context in another form."""

    def __init__(self, array: Any, syclobj: Any) -> None:
        self.array = array
        self.__sycl_usm_array_interface__ = {**array.__sycl_usm_array_interface__, "syclobj": syclobj}


@pytest.mark.skipif("HALOPORT_SYCL_SHIM" not in os.environ, reason="HALOPORT_SYCL_SHIM is not set")
def test_forms_of_syclobj() -> None:
    """A filter string, its parts and a device stand for the default context of the platform."""
    usm()
    import dpctl
    import dpnp

    comm = haloport.threads(1)[0]
    grid = haloport.Grid((8,), periodic=True, comm=comm)
    device = dpctl.SyclDevice("opencl:cpu:0")
    for form in (device.filter_string, "opencl:cpu:0", "cpu", ("opencl", "cpu", 0), device):
        queue = dpctl.SyclQueue(device)
        u = dpnp.zeros(10, sycl_queue=queue)
        u[1:-1] = dpnp.arange(8, sycl_queue=queue)
        queue.wait()
        named = Named(u, form)
        grid.plan(named)(named, stream=haloport.BLOCK)
        assert dpnp.asnumpy(u)[[0, 9]].tolist() == [7, 0], form
    with pytest.raises(haloport.ExchangeError, match="the device `level_zero:gpu:9` was not found"):
        grid.plan(Named(u, "level_zero:gpu:9"))
    other = dpnp.zeros(10, sycl_queue=dpctl.SyclQueue(dpctl.SyclContext([device]), device))
    with pytest.raises(BufferError, match="of another context"):
        grid.plan(Named(other, "opencl:cpu:0"))


class DlpackAlone:
    """An array of dpnp as one of PyTorch on `xpu` is: with DLPack, which names a device and no queue."""

    def __init__(self, array: Any) -> None:
        self.array = array.get_array()

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class XpuStream:
    """A stream as those of PyTorch on `xpu`, with the address of its queue."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        self.sycl_queue = queue.addressof_ref()

    def synchronize(self) -> None:
        self.queue.wait()


@pytest.mark.skipif("HALOPORT_SYCL_SHIM" not in os.environ, reason="HALOPORT_SYCL_SHIM is not set")
def test_dlpack_of_shared_memory() -> None:
    """DLPack alone stands for the default context of the device with its number."""
    usm()
    import dpctl
    import dpnp

    grid = haloport.Grid((8,), periodic=True, comm=haloport.threads(1)[0])
    device = dpctl.SyclDevice("opencl:cpu:0")
    queue = dpctl.SyclQueue(device)
    for streams in ({}, {"stream": haloport.BLOCK}, {"stream": queue}, {"stream": XpuStream(queue)}):
        u = dpnp.zeros(10, sycl_queue=queue)
        u[1:-1] = dpnp.arange(8, sycl_queue=queue)
        queue.wait()
        alone = DlpackAlone(u)
        grid.plan(alone)(alone, **streams)
        assert dpnp.asnumpy(u)[[0, 9]].tolist() == [7, 0], streams
    elsewhere = XpuStream(dpctl.SyclQueue(dpctl.SyclContext([device]), device))
    with pytest.raises(ValueError, match="expected a queue of the context"):
        grid.plan(alone)(alone, stream=elsewhere)


@pytest.mark.parametrize("fixed", [False, True])
def test_order_of_a_queue(ranks: Ranks, fixed: bool) -> None:
    """Without a stream, exchanges come after the work of the package in the queue, and before its next work."""

    def check(comm: Comm) -> None:
        queue = usm()
        import dpnp

        cells = 1000
        grid = row(comm, cells)
        u = dpnp.zeros(cells + 2, dtype="f4", sycl_queue=queue)
        index = dpnp.arange(cells, dtype="f4", sycl_queue=queue) + comm.rank * cells
        plan = grid.plan(u, fixed=fixed)
        for turn in range(5):
            slow = dpnp.ones(1 << 19, dtype="f4", sycl_queue=queue)
            for _ in range(20):
                slow = dpnp.sqrt(slow)
            u[1:-1] = index + slow[:1] * turn
            if fixed:
                plan()
            else:
                plan(u)
            found = dpnp.asnumpy(u[:1]), dpnp.asnumpy(u[-1:])
            whole = cells * comm.size
            assert found[0] == (comm.rank * cells - 1) % whole + turn
            assert found[1] == (comm.rank * cells + cells) % whole + turn

    ranks(ALONE)(check)


def test_arrays_of_haloport_on_a_device(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        queue = usm()
        import dpnp

        grid = row(comm)
        u = grid.empty("i4", 2, device=queue)
        assert isinstance(u, haloport.Array) and u.shape == (6, 2) and u.strides == (8, 4) and u.dtype == "i4"
        assert u.device.backend == "sycl" and not u.to_numpy().any()
        with pytest.raises(TypeError, match="to_numpy"):
            u.__array__()
        host = np.zeros((6, 2), "i4")
        for plan in (grid.plan(u), grid.plan(u, fixed=True)):
            fill(grid, host)
            u.copy_from(host)
            plan(u, stream=haloport.BLOCK)
            assert_filled(grid, u.to_numpy())
        # In the stream of the block, in which the kernel works for a while before it writes.
        source = """KERNEL void spin(GLOBAL int *u, long turn) {
            long found = GLOBAL_INDEX(0) + 1;
            for (long n = 0; n < ROUNDS; n += 1) found = found * 6364136223846793005 + 1442695040888963407;
            u[2 + GLOBAL_INDEX(0)] = (int)turn + (found == 1);
        }"""
        spin = haloport.Kernel("spin", source, ["pointer", "i64"], constants={"ROUNDS": 3_000_000}, device=u.device)
        for turn in range(1, 6):
            with haloport.Stream(queue) as stream:
                assert haloport.current_stream(queue) is stream is haloport.current_stream(u.device)
                spin(8, u, turn)
                plan(u)
                event = haloport.Event(u.device)
                event.record()
                found = u.to_numpy()
                assert event.query() and found.tolist() == [[turn, turn]] * 6
                u.copy_from(found)
            assert haloport.current_stream(queue).handle != stream.handle
        # Bound once, launched three times; a launch goes on after the bound kernel is gone.
        own = grid.empty("i4", 2, device=queue)
        bound = spin.bind(8, own, 7)
        stream = haloport.Stream(queue)
        bound(stream=stream)
        bound()
        with stream:
            bound()
        del bound
        stream.synchronize()
        assert own.to_numpy()[1:5].tolist() == [[7, 7]] * 4
        # Each set of constants is a kernel of its own.
        source = """KERNEL void values(GLOBAL i32 *u) {
            u[0] = (SINGLE == 0.1f) + 2 * (ONE > 0 && ONE < 1e-300) + 4 * (sizeof(SINGLE) == 4) + (i32)(SMALLEST >> 32);
        }"""
        for one, found in ((5e-301, 7), (0.5, 5)):
            constants = {"SINGLE": np.float32(0.1), "ONE": one, "SMALLEST": -(2**63)}
            values = haloport.Kernel("values", source, ["pointer"], constants=constants, device=u.device)
            values(1, own, stream=haloport.BLOCK)
            assert own.to_numpy()[0, 0] == found - 2**31
        shared = dpnp.asarray(u)
        assert shared.shape == (6, 2) and np.array_equal(dpnp.asnumpy(shared), u.to_numpy())
        with pytest.raises(ValueError, match="expected the shape"):
            u.copy_from(host[1:])

    ranks(ALONE)(check)


# Messages


def messages(number: int, size: int) -> dict[int, list[tuple[int, bytes]]]:
    """By their senders, random messages: the rank that each is for, and its bytes."""
    draw = random.Random(number)
    longest = draw.choice([0, 9, 300, 70_000])
    return {
        sender: [
            (draw.randrange(size), draw.randbytes(draw.randint(0, longest))) for _ in range(draw.randint(0, 2 * size))
        ]
        for sender in range(size)
    }


def expected_messages(sent: dict[int, list[tuple[int, bytes]]], rank: int) -> list[tuple[int, bytes]]:
    return [(sender, data) for sender in sorted(sent) for receiver, data in sent[sender] if receiver == rank]


def test_messages_between_any_ranks(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        exchange = haloport.SparseExchange(comm=comm)
        assert (exchange.comm.rank, exchange.comm.size) == (comm.rank, comm.size)
        for number in range(40):
            sent = messages(number, comm.size)
            mine = sent[comm.rank]
            manner = random.Random(number + comm.rank).choice(["call", "iterator", "start", "await", "poll", "arrays"])
            found: Any
            if manner == "call":
                found = exchange(mine)
            elif manner == "iterator":
                found = exchange(iter(mine))
            elif manner == "arrays":
                found = exchange([(rank, np.frombuffer(data, np.uint8)) for rank, data in mine])
            else:
                pending = exchange.start(mine)
                while manner == "poll" and not pending.is_ready():
                    time.sleep(0)
                found = asyncio.run(wait_for(pending)) if manner == "await" else pending.finish()
                assert pending.is_ready()
                with pytest.raises(haloport.InFlightError, match="the round has ended"):
                    pending.finish()
            assert found == expected_messages(sent, comm.rank), f"round {number}"
            assert all(isinstance(data, bytes) for _, data in found)

    ranks()(check)


async def wait_for(pending: Any) -> Any:
    return await pending


def test_messages_as_a_mapping(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        exchange = haloport.SparseExchange(comm=comm)
        found = exchange({rank: bytes([comm.rank, rank]) for rank in range(comm.size)})
        assert found == [(rank, bytes([rank, comm.rank])) for rank in range(comm.size)]

    ranks()(check)


def test_messages_between_fixed_ranks(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        exchange = haloport.SparseExchange(destinations=[after], sources=[before], comm=comm)
        for turn in range(10):
            mine = [(after, bytes([comm.rank, turn, k])) for k in range(turn % 3)]
            expected = [(before, bytes([before, turn, k])) for k in range(turn % 3)]
            assert exchange(mine) == expected
        exchange([])
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"destinations": [after]}, "expected both"),
            ({"sources": [before]}, "expected both"),
            ({"destinations": [after], "sources": 0.5}, "sources: expected numbers"),
        ]
        for options, text in wrong:
            with pytest.raises((ValueError, TypeError), match=text):
                haloport.SparseExchange(**options, comm=comm)

    ranks()(check)


def test_rounds_that_were_started(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        exchange, other = haloport.SparseExchange(comm=comm), haloport.SparseExchange(comm=comm)
        # Two exchanges at once, in any order.
        one, two = exchange.start([(0, b"one")]), other.start([(comm.size - 1, b"two")])
        found = two.finish(), one.finish()
        everybody = range(comm.size)
        assert found[0] == ([(rank, b"two") for rank in everybody] if comm.rank == comm.size - 1 else [])
        assert found[1] == ([(rank, b"one") for rank in everybody] if comm.rank == 0 else [])
        pending = exchange.start([])
        with pytest.raises(haloport.InFlightError):
            exchange.start([])
        assert pending.finish() == []

    ranks()(check)


@pytest.mark.parametrize("items", [0, 1, 3, 17])
def test_line(ranks: Ranks, items: int) -> None:
    def check(comm: Comm) -> None:
        shares: Any = items
        if items == 17:
            # Shares of any size. Some are empty.
            bounds = [0, *sorted(random.Random(comm.size).choices(range(18), k=comm.size - 1)), 17]
            shares = range(bounds[comm.rank], bounds[comm.rank + 1])
        line = haloport.LineExchange(shares, comm=comm)
        if isinstance(shares, range):
            assert line.items == shares
        assert (line.comm.rank, line.comm.size) == (comm.rank, comm.size)
        # Ranks without items take part as any other.
        assert line.left == (comm.rank - 1 if comm.rank else None)
        assert line.right == (comm.rank + 1 if comm.rank + 1 < comm.size else None)
        for turn in range(4):
            # Beyond the ends of the line they are dropped.
            left, right = b"left of %d in %d" % (comm.rank, turn), b"right of %d in %d" % (comm.rank, turn)
            if turn % 2:
                pending = line.start(left=left, right=right)
                found = asyncio.run(wait_for(pending)) if turn == 1 else pending.finish()
            else:
                found = line(left=left, right=right)
            assert found == (
                None if line.left is None else b"right of %d in %d" % (line.left, turn),
                None if line.right is None else b"left of %d in %d" % (line.right, turn),
            )
        # Nothing, and a payload of no bytes.
        assert line() == (None, None)
        empty = line(right=b"")
        assert empty == (None if line.left is None else b"", None)

    ranks()(check)


def test_messages_of_arrays_into_arrays(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        exchange, line = haloport.SparseExchange(comm=comm), haloport.LineExchange(3, comm=comm)
        after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        made: list[tuple[int, Any]] = []

        def into(source: int, count: int) -> Any:
            made.append((source, np.full(count, 99, "u1")))
            return made[-1][1]

        # Rows of a table, of which not all bytes lie together; and what has no buffer protocol.
        rows = np.arange(6.0).reshape(2, 3)[:, :2] + comm.rank
        payloads = [rows, *(module.asarray(np.arange(3) + comm.rank) for module in (oracle.torch, oracle.jnp) if module)]
        for payload in payloads:
            expected = np.asarray(payload) - comm.rank + before
            found = exchange([(after, payload)], into=into)
            assert found == made and found[0][0] == before and found[0][1] is made.pop()[1]
            assert found[0][1].view(expected.dtype).tolist() == expected.reshape(-1).tolist()
            ended = exchange.start({after: payload}, into=into).finish()
            assert ended[0][1] is made.pop()[1] and bytes(ended[0][1]) == bytes(found[0][1])
            assert exchange([(after, payload)]) == [(before, bytes(found[0][1]))]
        # A buffer that the program has, for whatever comes.
        kept = bytearray(5)
        assert exchange([(after, b"12345")], into=lambda source, count: kept) == [(before, kept)] and kept == b"12345"
        left, right = line.start(left=rows, right=b"", into=into).finish()
        assert [array for _, array in made] == [array for array in (left, right) if array is not None]
        assert [source for source, _ in made] == [rank for rank in (line.left, line.right) if rank is not None]
        assert left is None or len(left) == 0
        assert right is None or right.view("f8").tolist() == (rows - comm.rank + comm.rank + 1).reshape(-1).tolist()

        for wrong, kind, text in (
            (lambda source, count: np.zeros(count + 1, "u1"), ValueError, "expected an array of 3 bytes, found one of 4"),
            (lambda source, count: np.zeros(2 * count, "u1")[::2], ValueError, "expected a contiguous array"),
            (lambda source, count: b"123", BufferError, "into: "),
            (lambda source, count: "123", TypeError, "into: expected an array"),
            (lambda source, count: 1 / 0, ZeroDivisionError, "division"),
        ):
            with pytest.raises(kind, match=text):
                exchange([(after, b"123")], into=wrong)
        with pytest.raises(TypeError, match="into: expected a function of a source and a number of bytes, found bytearray"):
            exchange([], into=bytearray(3))  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="expected a message of bytes, found"):
            exchange([(after, 1.5)])  # type: ignore[list-item]
        # The rounds go on.
        assert exchange([(after, b"1")]) == [(before, b"1")]

    ranks()(check)


def test_messages_of_arrays_on_a_device(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        queue = usm()
        import dpnp

        exchange = haloport.SparseExchange(comm=comm)
        after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        cells = 300_001
        for turn in range(3):
            slow = dpnp.ones(1 << 19, dtype="f4", sycl_queue=queue)
            for _ in range(20):
                slow = dpnp.sqrt(slow)
            # Known when that work is done.
            values = dpnp.arange(cells, dtype="f4", sycl_queue=queue) + slow[:1] * (comm.rank + turn)
            [(source, came)] = exchange([(after, values)], into=lambda source, n: dpnp.empty(n // 4, dtype="f4", sycl_queue=queue))
            # In order with the work of the package.
            later = dpnp.asnumpy(came + 0)
            assert source == before and (later == np.arange(cells, dtype="f4") + before + turn).all()
        own = haloport.Grid((4,), halo=0, comm=haloport.threads(1)[0]).empty(device=queue)
        own.copy_from(np.arange(4.0) + comm.rank)
        [(_, into_own)] = exchange([(after, own)], into=lambda source, n: own)
        assert into_own is own and own.to_numpy().tolist() == (np.arange(4.0) + before).tolist()
        with pytest.raises(ValueError, match="expected a contiguous array"):
            exchange([(after, values[::2])])

    ranks(ALONE)(check)


def test_whole_arrays_of_a_device(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        queue = usm()
        import dpnp

        grid = haloport.Grid((9, 4), comm=comm)
        expected = np.arange(9 * 4 * 2, dtype="i4").reshape(9, 4, 2)
        on_device = dpnp.asarray(expected, sycl_queue=queue) if comm.rank == 0 else None
        u = grid.scatter(on_device)
        assert isinstance(u, np.ndarray)
        for turn in range(3):
            slow = dpnp.ones(1 << 19, dtype="f4", sycl_queue=queue)
            for _ in range(20):
                slow = dpnp.sqrt(slow)
            # Known when that work is done.
            v = dpnp.asarray(u, sycl_queue=queue) + slow[:1].astype("i4") * turn
            found = grid.gather(v)
            assert comm.rank > 0 or (found is not None and found.dtype == v.dtype and (found == expected + turn).all())
        own = grid.empty("f8", device=queue)
        own.copy_from(u[..., 1])
        found = grid.gather(own)
        assert comm.rank > 0 or (found is not None and (found == expected[..., 1]).all())
        with pytest.raises(ValueError, match="expected a contiguous array"):
            grid.gather(v[:, :, ::-1])

    ranks(ALONE)(check)


def test_exact_sums_of_a_device(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        queue = usm()
        import dpnp

        terms = np.random.default_rng(comm.rank).standard_normal((3, 1000)).astype("f4") * np.float32(2) ** np.arange(1000)[::-1] % 97
        weights = np.arange(3000.0, dtype="f4").reshape(3, 1000)
        expected = comm.sum_exact([terms, terms, terms], [np.ones_like(terms), weights, terms > 40])
        x, w = dpnp.asarray(terms, sycl_queue=queue), dpnp.asarray(weights, sycl_queue=queue)
        for turn in range(3):
            slow = dpnp.ones(1 << 19, dtype="f4", sycl_queue=queue)
            for _ in range(20):
                slow = dpnp.sqrt(slow)
            # Known when that work is done.
            y = x * slow[:1]
            found = comm.sum_exact([y, y, y], [np.ones_like(terms), w, y > 40])
            assert found == expected and comm.sum_exact(y) == expected[0], turn
        own = haloport.Grid((4,), halo=0, comm=haloport.threads(1)[0]).empty(device=queue)
        own.copy_from(np.array([1e100, 1.0, -1e100, 2.0]))
        assert comm.sum_exact(own) == 3.0 * comm.size
        with pytest.raises(ValueError, match=r"values\[1\]: expected a contiguous array"):
            comm.sum_exact([x, x[:, ::2]])
        with pytest.raises(TypeError, match="values: expected an array with floats of at most 64 bits, found int32"):
            comm.sum_exact(x.astype("i4"))

    ranks(ALONE)(check)


# Communicators


def test_communicator(ranks: Ranks) -> None:
    def check(comm: Comm) -> None:
        same = haloport.Communicator(comm)
        assert (same.rank, same.size, same.name) == (comm.rank, comm.size, comm.name)
        before = comm.time_limit, comm.warn_after
        try:
            comm.time_limit, comm.warn_after = 12.5, None
            assert comm.time_limit == 12.5 and comm.warn_after is None
            assert row(comm).comm.time_limit == 12.5
            assert comm.progress == "auto"
            for by in ("caller", "thread", "auto"):
                comm.progress = by
                assert comm.progress == by
            with pytest.raises(ValueError, match="progress: expected one of 'auto', 'thread', 'caller', found 'mpi'"):
                comm.progress = "mpi"
            for wrong in (0, -1, float("nan"), float("inf")):
                with pytest.raises(ValueError):
                    comm.time_limit = wrong
        finally:
            comm.time_limit, comm.warn_after = before

    ranks()(check)
    assert [comm.rank for comm in haloport.threads(3)] == list(range(3))


def test_rank_that_is_gone_is_named() -> None:
    one, two = haloport.threads(2)
    del two
    with pytest.raises(haloport.ExchangeError, match="rank 1"):
        haloport.Grid((8,), comm=one)


def test_all_pairs_of_layouts(ranks: Ranks) -> None:
    """Ranks may have different strides and axes: each pair of neighbours here has others."""
    makes: list[Callable[[], tuple[Any, Any]]] = [
        lambda: (np.zeros((6, 3)), (0, "levels")),
        lambda: (np.zeros((3, 6)), ("levels", 0)),
        lambda: (np.zeros((6, 3), order="F"), (0, "levels")),
        lambda: (np.zeros((3, 12))[::-1, ::2], ("levels", 0)),
    ]

    def check(comm: Comm) -> None:
        grid = row(comm)
        for shift in itertools.product(range(2), range(2)):
            u, axes = makes[(comm.rank * (1 + shift[0]) + 2 * shift[1]) % 4]()
            plan = grid.plan(u, axes=axes)
            assert plan.layouts[0].axes == axes
            cells = u if axes[0] == 0 else u.T
            fill(grid, cells)
            plan(u)
            assert_filled(grid, cells)

    ranks()(check)
