"""Redistributions against an oracle made from global indices: every element that is filled has the value of its cell, and every
other one keeps its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
from conftest import world
from numpy.typing import NDArray
from test_random import check, numbers

import haloport

Ranks = Callable[..., Any]
Box = tuple[tuple[int, ...], tuple[int, ...]]

SIZES = (1, 2, 4) if world is None else (world.size,)
UNTOUCHED = -7


def cut(draw: random.Random, box: Box, parts: int) -> list[Box]:
    """Disjoint boxes that cover a box."""
    lower, upper = box
    axes = [axis for axis in range(len(lower)) if upper[axis] - lower[axis] > 1]
    if parts <= 1 or not axes:
        return [box]
    axis = draw.choice(axes)
    at = draw.randint(lower[axis] + 1, upper[axis] - 1)
    middle_upper = (*upper[:axis], at, *upper[axis + 1 :])
    middle_lower = (*lower[:axis], at, *lower[axis + 1 :])
    first = parts // 2
    return cut(draw, (lower, middle_upper), first) + cut(draw, (middle_lower, upper), parts - first)


def grid(draw: random.Random, shape: tuple[int, ...], comm: haloport.Communicator) -> haloport.Grid:
    """A grid that is cut into boxes of any ranks: some ranks own several, and some none."""
    boxes = cut(draw, ((0,) * len(shape), shape), draw.randint(1, 2 * comm.size))
    owners = [draw.randrange(comm.size) for _ in boxes]
    mine = [box for box, owner in zip(boxes, owners) if owner == comm.rank]
    periodic = [draw.random() < 0.5 for _ in shape]
    halo = [(draw.randint(0, 2), draw.randint(0, 2)) for _ in shape]
    return haloport.Grid(shape, halo=halo, periodic=periodic, domains=mine, comm=comm)


def indices(grid: haloport.Grid, box: Box) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """The number of each cell of an array, whether it is owned, and whether it is a cell of the grid."""
    cells = np.zeros((1,) * len(box[0]), dtype=np.int64)
    owned = exists = np.ones((1,) * len(box[0]), dtype=bool)
    for axis, (extent, periodic, (below, above)) in enumerate(zip(grid.global_shape, grid.periodic, grid.halo)):
        along = np.arange(box[0][axis] - below, box[1][axis] + above)
        along = along.reshape([-1 if other == axis else 1 for other in range(len(box[0]))])
        cells = cells * extent + along % extent
        owned = owned & (box[0][axis] <= along) & (along < box[1][axis])
        exists = exists & (periodic | ((0 <= along) & (along < extent)))
    return cells, owned, exists


def array(draw: random.Random, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """An array whose axes lie in any order."""
    order = draw.sample(range(len(shape)), len(shape))
    made = np.full([shape[axis] for axis in order], UNTOUCHED, dtype)
    return made.transpose(np.argsort(order))


def values(cells: NDArray[np.int64], levels: int | None, seed: int) -> NDArray[np.int64]:
    if levels is None:
        return (cells + seed) % 120
    return (cells[..., None] * levels + np.arange(levels) + seed) % 120


def run_grid(number: int, comm: haloport.Communicator) -> None:
    draw = random.Random(number)
    shape = tuple(draw.randint(1, 7) for _ in range(draw.randint(1, 3)))
    sides = [grid(draw, shape, comm) for _ in range(2)]
    domains = [side.domains for side in sides]
    cells = [[indices(side, box) for box in boxes] for side, boxes in zip(sides, domains)]
    fill_halo = draw.random() < 0.5
    fields = [(draw.choice(["f8", "i4", "i1"]), draw.choice([None, 1, 3])) for _ in range(draw.randint(1, 2))]
    fixed = draw.random() < 0.3
    path = draw.choice(["quickest", "messages"])
    calls = draw.randint(1, 3)

    own = random.Random(number * 64 + comm.rank)
    arrays: list[list[NDArray[Any]]] = []
    for dtype, levels in fields:
        for side in cells:
            further = () if levels is None else (levels,)
            arrays.append([array(own, one[0].shape + further, dtype) for one in side])
    # On a rank without domains, an array of that type tells it, or nothing does.
    given: list[Any] = [one[0] if len(one) == 1 else one for one in arrays]
    plan = sides[0].redistribute(sides[1], fill_halo=fill_halo).plan(*given, fixed=fixed, path=path)
    for call in range(calls):
        for place, (dtype, levels) in enumerate(fields):
            for block, (numbers, owned, _) in zip(arrays[2 * place], cells[0]):
                block[...] = UNTOUCHED
                block[owned] = values(numbers, levels, call + place)[owned]
            for block in arrays[2 * place + 1]:
                block[...] = UNTOUCHED
        if fixed:
            plan()
        elif own.random() < 0.5:
            plan(*given)
        else:
            plan.start(*given).finish()
        for place, (dtype, levels) in enumerate(fields):
            for block, (numbers, owned, _) in zip(arrays[2 * place], cells[0]):
                owned = owned if levels is None else owned[..., None]
                assert (block == np.where(owned, values(numbers, levels, call + place), UNTOUCHED)).all()
            for block, (numbers, owned, exists) in zip(arrays[2 * place + 1], cells[1]):
                filled = exists if fill_halo else owned
                filled = filled if levels is None else filled[..., None]
                expected = np.where(filled, values(numbers, levels, call + place), UNTOUCHED)
                assert (block == expected).all(), (block, expected)


@pytest.mark.parametrize("size", SIZES)
def test_grids(ranks: Ranks, size: int) -> None:
    ranks(size)(lambda comm: check(comm, numbers(60), run_grid))


def run_mesh(number: int, comm: haloport.Communicator) -> None:
    draw = random.Random(number)
    ids = draw.sample(range(1000), draw.randint(1, 40))
    owners = [[draw.randrange(comm.size) for _ in ids] for _ in range(2)]
    fill_halo = draw.random() < 0.5
    levels = draw.choice([None, 2])
    meshes, owned = [], []
    for side in owners:
        mine = [one for one, owner in zip(ids, side) if owner == comm.rank]
        rest = [one for one in ids if one not in mine]
        halo = random.Random(number * 64 + comm.rank).sample(rest, min(3, len(rest)))
        meshes.append(haloport.Mesh(mine + halo, len(mine), comm=comm))
        owned.append(len(mine))
    source, target = (mesh.empty("i8", levels) for mesh in meshes)
    source[: owned[0]] = values(meshes[0].ids[: owned[0]], levels, 0)
    target[...] = UNTOUCHED
    meshes[0].redistribute(meshes[1], fill_halo=fill_halo).plan(source, target)(source, target)
    expected = values(meshes[1].ids, levels, 0)
    if not fill_halo:
        expected[owned[1] :] = UNTOUCHED
    assert (target == expected).all()


@pytest.mark.parametrize("size", SIZES)
def test_meshes(ranks: Ranks, size: int) -> None:
    ranks(size)(lambda comm: check(comm, numbers(60), run_mesh))


def test_disjoint_ranks(ranks: Ranks) -> None:
    """Ranks that own cells on one side alone, or on none, pass an empty list for the other one."""

    def run(comm: haloport.Communicator) -> None:
        box = [((0,), (8,))]
        source = haloport.Grid((8,), halo=1, domains=box if comm.rank == 0 else [], comm=comm)
        target = haloport.Grid((8,), halo=0, domains=box if comm.rank == 1 else [], comm=comm)
        here: Any = np.arange(-1, 9, dtype="f4") if comm.rank == 0 else []
        there: Any = np.zeros(8, "f4") if comm.rank == 1 else []
        source.redistribute(target).plan(here, there)(here, there)
        if comm.rank == 1:
            assert there.tolist() == list(range(8))

    ranks(3)(run)


def test_grids_and_meshes(ranks: Ranks) -> None:
    """Cells of a grid in a mesh have the numbers of `ravel_multi_index`."""

    def run(comm: haloport.Communicator) -> None:
        grid = haloport.Grid((5, 7), halo=1, comm=comm)
        ids = np.random.default_rng(5).permutation(35)[comm.rank :: comm.size]
        mesh = haloport.Mesh([*ids, (ids[0] + 1) % 35], owned=len(ids), comm=comm)
        # Both lie backwards along some axes.
        u = np.full((2, *grid.shape), UNTOUCHED, "f4")[::-1, ::-1].transpose(1, 2, 0)
        v = np.full((len(ids) + 1, 2), UNTOUCHED, "f4", order="F")[::-1]
        inner = u[1:-1, 1:-1]
        i, j = (np.arange(lower, upper) for lower, upper in zip(grid.lower, grid.upper))
        numbers = np.ravel_multi_index(np.ix_(i, j), (5, 7))
        inner[...] = 2 * numbers[..., None] + [0, 1]
        grid.redistribute(mesh, fill_halo=True).plan(u, v)(u, v)
        assert (v == 2 * mesh.ids[:, None] + [0, 1]).all()
        inner[...] = UNTOUCHED
        mesh.redistribute(grid).plan(v, u)(v, u)
        assert (inner == 2 * numbers[..., None] + [0, 1]).all()
        inner[...] = UNTOUCHED
        assert (u == UNTOUCHED).all()
        with pytest.raises(haloport.RefusedError, match="a grid, whose halo has no ids; leave the halo out"):
            mesh.redistribute(grid, fill_halo=True)

    for size in SIZES:
        ranks(size)(run)


def test_functional(ranks: Ranks) -> None:
    def run(comm: haloport.Communicator) -> None:
        rows, columns = (haloport.Grid((4, 4), halo=0, parts=parts, comm=comm) for parts in ((2, 1), (1, 2)))
        u = np.arange(16.0).reshape(4, 4)[rows.lower[0] : rows.upper[0]]
        v = columns.empty()
        new = rows.redistribute(columns).plan(u, v).functional(u, v)
        assert (new == np.arange(16.0).reshape(4, 4)[:, columns.lower[1] : columns.upper[1]]).all()
        assert (v == 0).all()

    ranks(2)(run)


def test_sources_are_only_read(ranks: Ranks) -> None:
    """They may be read-only, immutable, and the same array for several targets and exchanges."""

    def run(comm: haloport.Communicator) -> None:
        rows, columns = (haloport.Grid((4, 4), halo=0, parts=parts, comm=comm) for parts in ((2, 1), (1, 2)))
        move, whole = rows.redistribute(columns), np.arange(16.0, dtype="f4").reshape(4, 4)
        mine, expected = whole[rows.lower[0] : rows.upper[0]], whole[:, columns.lower[1] : columns.upper[1]]
        locked = mine.copy()
        locked.flags.writeable = False
        sources: list[Any] = [locked, memoryview(locked).toreadonly()]
        sources += [module.asarray(mine) for module in (oracle.torch, oracle.jnp) if module]
        of_empty = rows.empty("f4")
        of_empty[...] = mine
        sources.append(of_empty)
        for source in sources:
            targets = [columns.empty("f4") for _ in range(2)]
            for fixed in (False, True):
                for target in targets:
                    target[...] = 0
                plan = move.plan(source, targets[0], source, targets[1], fixed=fixed)
                for _ in range(2):
                    plan(source, targets[0], source, targets[1])
                    assert all((target == expected).all() for target in targets), (type(source), fixed)
            with pytest.raises(BufferError, match="read-only|immutable|JAX"):
                columns.redistribute(rows).plan(targets[0], locked)
            # Two exchanges of the same source in flight.
            plan = move.plan(source, targets[0], in_flight=2)
            both = [plan.start(source, target) for target in targets]
            for pending in both:
                pending.finish()
        with pytest.raises(ValueError, match="fields 1 and 3: expected memory of their own"):
            target = columns.empty("f4")
            move.plan(locked, target, locked, target)(locked, target, locked, target)
        with pytest.raises(BufferError, match="an address of its own for each element"):
            move.plan(np.broadcast_to(np.float32(1), mine.shape), columns.empty("f4"))

    ranks(2)(run)


def test_refusals(ranks: Ranks) -> None:
    def run(comm: haloport.Communicator) -> None:
        rows, columns = (haloport.Grid((4, 4), halo=0, parts=parts, comm=comm) for parts in ((2, 1), (1, 2)))
        with pytest.raises(haloport.RefusedError, match="5"):
            rows.redistribute(haloport.Grid((4, 5), halo=0, comm=comm))
        with pytest.raises(haloport.RefusedError, match=r"no rank owns the cell \[0, 2\] with the id 2, which domain 0 of rank 0"):
            rows.redistribute(haloport.Mesh([comm.rank], 1, comm=comm))
        with pytest.raises(TypeError, match="target: expected a Grid or a Mesh, found numpy.ndarray"):
            rows.redistribute(rows.empty())  # type: ignore[arg-type]
        wrong: Any = columns if comm.rank == 0 else None
        with pytest.raises(TypeError if comm.rank == 1 else haloport.RefusedError, match="target: expected a Grid or a Mesh"):
            rows.redistribute(wrong)
        move = rows.redistribute(columns)
        u, v = rows.empty(), columns.empty()
        with pytest.raises(ValueError, match="expected an array of the source and one of the target, in turn, found 1 arrays"):
            move.plan(u)
        with pytest.raises(ValueError, match="field 0"):
            move.plan(v, u)
        with pytest.raises(haloport.RefusedError, match="field 1 holds 32-bit floats and its source 64-bit floats"):
            move.plan(u, columns.empty("f4"))
        with pytest.raises(ValueError, match="fields 0 and 1: expected memory of their own"):
            same = np.zeros((4, 4))
            plan = move.plan(same[:2], same[:, 2:])
            plan(same[:2], same[:, 2:])
        seconds, days = u.astype("M8[s]"), v.astype("M8[D]")
        with pytest.raises(ValueError, match=r"fields 0 and 1: expected elements of one dtype, found .*\[s\].* in the source"):
            move.plan(seconds, days)
        plan = move.plan(u, v)
        with pytest.raises(ValueError, match="expected 2 fields, found 1"):
            plan(u)

    ranks(2)(run)
