"""`haloport.ghex`: programs written for GHEX, checked against a global oracle."""

from __future__ import annotations

import importlib
import itertools
import random
import subprocess
import sys
import textwrap
import time
from typing import Any

import numpy as np
import pytest

import haloport
from haloport import ghex
from haloport.ghex import unstructured
from haloport.ghex.context import make_context
from haloport.ghex.structured import regular
from haloport.ghex.structured.cartesian_sets import IndexSpace, ProductSet, UnionCartesian, UnitRange, union
from haloport.ghex.util import Architecture

DTYPES = (np.float64, np.float32, np.int32, np.int64, np.bool_)


def test_context(ranks: Any) -> None:
    def check(comm: haloport.Communicator) -> None:
        for thread_safe in (False, True):
            context = make_context(comm, thread_safe)
            assert (context.rank(), context.size()) == (comm.rank, comm.size)
            assert "thread safe" in repr(context)
            assert isinstance(context.mpi_comm(), ghex.mpi_comm)

    ranks()(check)


def test_context_of_mpi4py(comm: Any) -> None:
    if comm is None:
        pytest.skip("needs ranks of MPI")
    halves = comm.Split(comm.rank % 2)
    context = make_context(halves)
    assert (context.rank(), context.size()) == (halves.rank, halves.size)


def test_a_communicator_is_one_of_mpi4py() -> None:
    with pytest.raises(TypeError, match=r"must be `mpi4py.MPI.Comm`, found str"):
        ghex.mpi_comm("world")


def test_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert ghex.__version__ == "0.9.0"
    assert set(ghex.__config__) >= {"transport", "gpu", "gpu_mode", "xpmem", "version"}
    assert ghex.__config__["gpu"] == any(device.backend == "cuda" for device in haloport.devices())
    ghex.print_config(ghex.__config__)
    assert "transport" in capsys.readouterr().out


def test_there_are_no_objects_of_cpp() -> None:
    with pytest.raises(NotImplementedError, match="no C\\+\\+ object"):
        ghex.expose_cpp_ptr(object())
    with pytest.raises(AttributeError, match="cubed_sphere"):
        ghex.cubed_sphere


def test_install_takes_the_place_of_ghex() -> None:
    program = """
        import importlib, sys, types
        import haloport.ghex
        {before}
        haloport.ghex.install()
        haloport.ghex.install()
        import ghex
        from ghex import structured
        from ghex.context import make_context
        from ghex.structured.cartesian_sets import IndexSpace
        from ghex.structured.regular import HaloGenerator
        from ghex.unstructured import DomainDescriptor
        from ghex.util import Architecture
        assert ghex is haloport.ghex
        assert DomainDescriptor is haloport.ghex.unstructured.DomainDescriptor
        assert structured.regular is haloport.ghex.structured.regular
        for name in ("context", "structured.regular", "structured.cartesian_sets", "unstructured", "util"):
            one, other = (importlib.import_module(f"{{package}}.{{name}}") for package in ("ghex", "haloport.ghex"))
            assert one is other, name
    """

    def run(before: str) -> subprocess.CompletedProcess[str]:
        source = textwrap.dedent(program).format(before=before)
        return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)

    done = run("")
    assert done.returncode == 0, done.stderr
    done = run("sys.modules['ghex'] = types.ModuleType('ghex')")
    assert "RuntimeError" in done.stderr and "ghex was imported before" in done.stderr


def test_sets_of_indices() -> None:
    chance = random.Random(1)
    for _ in range(100):
        axes = chance.randint(1, 3)
        boxes = [random_box(chance, axes) for _ in range(3)]
        a, b, c = (set(itertools.product(*(range(one.start, one.stop) for one in box.args))) for box in boxes)
        one, two, three = boxes
        cases = [
            (one, a),
            (one.without(two), a - b),
            (one.without(two, three), a - b - c),
            (union(one, two, three), a | b | c),
            (one.union(two), a | b),
            (one.intersect(two), a & b),
            (union(one, two).intersect(three), (a | b) & c),
            (union(one, two).without(three), (a | b) - c),
            (one.complement(two), b - a),
            (one.extend(*[(0, 0)] * axes), a),
            (one.translate(*[7] * axes), {tuple(at + 7 for at in index) for index in a}),
        ]
        for found, expected in cases:
            cells = list(found)
            assert len(cells) == len(expected) == found.size
            assert set(cells) == expected
            assert found.empty == (not expected)
            assert all(index in found for index in expected)
            singles = [ProductSet(*(UnitRange(at, at + 1) for at in index)) for index in expected]
            assert found == union(found.empty_set(), *singles)
            assert hash(found) == hash(union(found.empty_set(), *singles))
            if expected:
                assert found.bounds.as_tuple() == tuple((min(ats), max(ats) + 1) for ats in zip(*expected))
        assert (one == two) == (a == b)
        assert one.issubset(two) == (a <= b)


def random_box(chance: random.Random, axes: int) -> ProductSet:
    starts = [chance.randint(-3, 4) for _ in range(axes)]
    return ProductSet(*(UnitRange(start, start + chance.randint(0, 4)) for start in starts))


def test_products_and_positions() -> None:
    box = UnitRange(2, 6) * UnitRange(0, 3) * UnitRange(5, 6)
    assert box.shape == (4, 3, 1) and box.ndim == 3
    assert box[0, 0, 0] == (2, 0, 5) and box[-1, -1, -1] == (5, 2, 5)
    assert box[1:3, :, :] == UnitRange(3, 5) * UnitRange(0, 3) * UnitRange(5, 6)
    with pytest.raises(IndexError, match="found 4"):
        box[4, 0, 0]
    holes = UnitRange(0, 9).without(UnitRange(2, 3)) * UnitRange(0, 2)
    assert isinstance(holes, UnionCartesian) and holes.size == 16
    assert 2 not in UnitRange(0, 9).without(UnitRange(2, 3))
    assert UnitRange(0, 3).complement().complement() == UnitRange(0, 3)


def test_spaces_are_split() -> None:
    space = IndexSpace.from_sizes(10, 7)
    parts = space.decompose((3, 2))
    assert parts[0, 0].subset["definition"].as_tuple() == ((0, 3), (0, 3))
    assert parts[2, 1].subset["definition"].as_tuple() == ((6, 10), (3, 7))
    owned = parts[1, 1].subset["definition"]
    part = IndexSpace({"definition": owned, "halo": owned.extend((1, 2), 1).without(owned)})
    assert part.bounds.shape == part.shape == (6, 6)
    assert part.translate(-2, -2).default_origin == (1, 1)
    assert part.covering == owned.extend((1, 2), 1)
    with pytest.raises(ValueError, match="definition"):
        IndexSpace({})


@pytest.mark.parametrize("halos", [(1, 0, 0), (1, 2, 3), ((1, 0), (0, 0), (0, 0)), ((1, 0), (0, 2), (2, 2))])
def test_halos_of_boxes(halos: Any) -> None:
    grid = UnitRange(0, 20) * UnitRange(0, 10) * UnitRange(0, 4)
    owned = UnitRange(10, 20) * UnitRange(0, 10) * UnitRange(0, 4)
    domain = regular.DomainDescriptor(3, owned)
    assert (domain.domain_id(), domain.first(), domain.last()) == (3, (10, 0, 0), (19, 9, 3))
    halo = regular.HaloGenerator(grid, halos, (False, False, False))(domain)
    assert halo.global_ == owned.extend(*halos).without(owned)
    assert halo.local == halo.global_.translate(-10, 0, 0)
    with pytest.raises(ValueError, match="expected 3 entries"):
        regular.HaloGenerator(grid, halos[:2], (False, False, False))


def test_halos_of_joined_ends() -> None:
    grid = ProductSet(UnitRange(5, 25))
    halos = regular.HaloGenerator(grid, ((2, 1),), (True,))
    halo = halos(regular.DomainDescriptor(0, ProductSet(UnitRange(5, 15))))
    assert set(halo.local) == {(-2,), (-1,), (10,)}
    assert set(halo.global_) == {(23,), (24,), (15,)}


@pytest.mark.parametrize("case", range(40))
def test_structured(ranks: Any, case: int) -> None:
    """Random boxes, several of them on a rank; some of the arrays are replaced, or have other strides, on some ranks."""

    def check(comm: haloport.Communicator) -> None:
        shared, own = random.Random(case), random.Random(1000 * case + comm.rank)
        axes = shared.randint(1, 4)
        parts_of_rank = shared.choice((1, 1, 2, 3))
        origin = [shared.randint(-3, 3) for _ in range(axes)]
        widths = [(shared.randint(0, 2), shared.randint(0, 2)) for _ in range(axes)]
        periodic = [shared.random() < 0.5 for _ in range(axes)]
        shape = [shared.randint(4, 7) for _ in range(axes)]
        shape[0] = max(shape[0], 2 * comm.size * parts_of_rank)
        grid = ProductSet(*(UnitRange(start, start + size) for start, size in zip(origin, shape)))
        cuts = sorted(shared.sample(range(1, shape[0]), comm.size * parts_of_rank - 1))
        ends = [0, *cuts, shape[0]]
        boxes = [
            ProductSet(UnitRange(origin[0] + start, origin[0] + stop), *grid.args[1:]) for start, stop in zip(ends, ends[1:])
        ]
        shared.shuffle(boxes)
        mine = boxes[comm.rank * parts_of_rank : (comm.rank + 1) * parts_of_rank]
        domains = [
            regular.DomainDescriptor(comm.rank * parts_of_rank + number, box) for number, box in enumerate(mine)
        ]
        context = make_context(comm)
        pattern = regular.make_pattern(context, regular.HaloGenerator(grid, widths, periodic), domains)
        assert pattern.domain_id_type == "int"
        communication = regular.make_communication_object(context)
        dtypes = [shared.choice(DTYPES) for _ in range(shared.randint(1, 3))]
        ways = [shared.randrange(3) for _ in range(3)]
        fields: list[list[StructuredField]] = []
        for way in ways:
            if not fields or own.random() < 0.5:
                fields = [
                    [StructuredField(own, dtype, number, box, domain, widths) for box, domain in zip(mine, domains)]
                    for number, dtype in enumerate(dtypes)
                ]
            for field in itertools.chain(*fields):
                field.reset()
            infos = [pattern(field.descriptor) for field in itertools.chain(*zip(*fields))]
            exchange_in_one_way(communication, infos, way)
            for field in itertools.chain(*fields):
                field.check(grid, widths, periodic)

    ranks()(check)


class StructuredField:
    """A field of a domain, with a random order of axes, and memory beyond the halo."""

    def __init__(
        self, chance: random.Random, dtype: Any, number: int, box: ProductSet, domain: Any, widths: list[tuple[int, int]]
    ) -> None:
        low = [width + chance.choice((0, 0, 2)) for width, _ in widths]
        high = [width + chance.choice((0, 0, 1)) for _, width in widths]
        self.shape = tuple(one.size + a + b for one, a, b in zip(box.args, low, high))
        order = list(range(len(self.shape)))
        chance.shuffle(order)
        memory = np.zeros([self.shape[axis] for axis in order], dtype)
        self.array = memory.transpose(np.argsort(order))
        assert self.array.shape == self.shape
        self.number, self.box, self.low = number, box, low
        self.descriptor = regular.make_field_descriptor(domain, self.array, low, self.shape)

    def reset(self) -> None:
        self.array[...] = self.expected(self.box, self.box, [False] * len(self.shape))

    def check(self, grid: ProductSet, widths: list[tuple[int, int]], periodic: list[bool]) -> None:
        np.testing.assert_array_equal(self.array, self.expected(self.box.extend(*widths), grid, periodic))

    def expected(self, cells: ProductSet, grid: ProductSet, periodic: list[bool]) -> Any:
        """Returns the values of cells whose index is one of the grid, or is once its joined ends are; -1 for the others."""
        folded = np.full(self.shape, 1 + self.number)
        has_value = np.ones(self.shape, np.bool_)
        for axis, at in enumerate(np.indices(self.shape)):
            index = at - self.low[axis] + self.box.args[axis].start
            has_value &= (cells.args[axis].start <= index) & (index < cells.args[axis].stop)
            whole = grid.args[axis]
            if periodic[axis]:
                index = whole.start + (index - whole.start) % whole.size
            has_value &= (whole.start <= index) & (index < whole.stop)
            folded = (31 * folded + index) % 9973
        if self.array.dtype == np.bool_:
            return has_value & (folded % 2 == 1)
        return np.where(has_value, folded, -1).astype(self.array.dtype)


def exchange_in_one_way(communication: Any, infos: list[Any], way: int) -> None:
    """Exchanges in one of the ways that GHEX has."""
    if way == 0:
        handle = communication.exchange(infos)
        handle.wait()
    elif way == 1:
        handle = communication.exchange(*infos)
        until = time.monotonic() + 10
        while not handle.is_ready() and time.monotonic() < until:
            handle.progress()
        handle.wait()
    else:
        handle = communication.schedule_exchange(stream=None, patterns=infos)
        assert not communication.has_scheduled_exchange()
        handle.schedule_wait(None)
        assert communication.has_scheduled_exchange()
        handle.wait()
        assert not communication.has_scheduled_exchange()
    assert handle.is_ready()
    handle.wait()


@pytest.mark.parametrize("case", range(40))
def test_unstructured(ranks: Any, case: int) -> None:
    """Random domains of random cells, whose halos name some of the others, also several times and their own."""

    def check(comm: haloport.Communicator) -> None:
        shared, own = random.Random(case), random.Random(1000 * case + comm.rank)
        domains_of_rank = shared.choice((1, 1, 2, 3))
        count = shared.randint(comm.size * domains_of_rank, 60)
        owners = [shared.randrange(comm.size * domains_of_rank) for _ in range(count)]
        cells = []
        for number in range(comm.size * domains_of_rank):
            owned = [(7 * id_, True) for id_ in range(count) if owners[id_] == number]
            halo = [(7 * shared.randrange(count), False) for _ in range(shared.randint(0, 20))]
            both = owned + halo
            shared.shuffle(both)
            cells.append(both)
        first = comm.rank * domains_of_rank
        mine = cells[first : first + domains_of_rank]
        domains = []
        for number, domain in enumerate(mine):
            ids = [id_ for id_, _ in domain]
            rows = [row for row, (_, is_owned) in enumerate(domain) if not is_owned]
            domains.append(unstructured.DomainDescriptor(first + number, ids, rows))
            assert domains[-1].size() == len(domain) and domains[-1].inner_size() == len(domain) - len(rows)
            assert domains[-1].indices() == ids and domains[-1].domain_id() == first + number
        some = shared.random() < 0.3
        listed = {7 * id_ for id_ in range(count) if not some or id_ % 2}
        halos = {id_ for domain in mine for id_, is_owned in domain if not is_owned and id_ in listed}
        generator = unstructured.HaloGenerator()
        if some or shared.random() < 0.5:
            generator = unstructured.HaloGenerator.from_gids(sorted(halos))
        context = make_context(comm)
        pattern = unstructured.make_pattern(context, generator, domains)
        communication = unstructured.make_communication_object(context)
        kinds = [
            (shared.choice(DTYPES[:-1]), shared.choice((None, 1, 2, 5))) for _ in range(shared.randint(1, 3))
        ]
        arrays: list[list[Any]] = []
        for _ in range(3):
            if not arrays or own.random() < 0.5:
                arrays = [
                    [random_rows(own, len(domain), *kind) for domain in mine] for kind in kinds
                ]
            for number, of_domains in enumerate(arrays):
                for array, domain in zip(of_domains, mine):
                    fill_rows(array, domain, number, lambda id_, is_owned: is_owned)
            infos = [
                pattern(unstructured.make_field_descriptor(domain, array))
                for number, domain in enumerate(domains)
                for array in [of_domains[number] for of_domains in arrays]
            ]
            exchange_in_one_way(communication, infos, shared.randrange(3))
            for number, of_domains in enumerate(arrays):
                for array, domain in zip(of_domains, mine):
                    expected = np.empty_like(array)
                    fill_rows(expected, domain, number, lambda id_, is_owned: is_owned or id_ in listed)
                    np.testing.assert_array_equal(array, expected)

    ranks()(check)


def random_rows(chance: random.Random, rows: int, dtype: Any, levels: int | None) -> Any:
    """Returns an array of C or F order, or one with a distance between rows or levels."""
    if levels is None:
        return np.zeros(2 * rows, dtype)[:: chance.choice((1, 2))][:rows]
    memory = np.zeros((rows + chance.choice((0, 3)), levels + chance.choice((0, 2))), dtype, order=chance.choice("CF"))
    return memory[:rows, :levels]


def fill_rows(array: Any, domain: list[tuple[int, bool]], number: int, has_value: Any) -> None:
    """Gives rows their values by global index and level, and -1 to those that have none."""
    for row, (id_, is_owned) in enumerate(domain):
        if array.ndim == 1:
            array[row] = 10 * id_ + number if has_value(id_, is_owned) else -1
        else:
            for level in range(array.shape[1]):
                array[row, level] = 1000 * id_ + 10 * level + number if has_value(id_, is_owned) else -1


def test_two_patterns_in_one_exchange(ranks: Any) -> None:
    def check(comm: haloport.Communicator) -> None:
        context = make_context(comm)
        grid = ProductSet(UnitRange(0, 4 * comm.size))
        domain = regular.DomainDescriptor(comm.rank, ProductSet(UnitRange(4 * comm.rank, 4 * comm.rank + 4)))
        narrow = regular.make_pattern(context, regular.HaloGenerator(grid, ((1, 1),), (True,)), [domain])
        wide = regular.make_pattern(context, regular.HaloGenerator(grid, ((2, 3),), (True,)), [domain])
        communication = regular.make_communication_object(context)
        one, two = np.full(6, -1.0), np.full(9, -1.0)
        own = np.arange(4) + 4 * comm.rank
        one[1:5], two[2:6] = own, own
        infos = [
            narrow(regular.make_field_descriptor(domain, one, (1,), (6,))),
            wide(regular.make_field_descriptor(domain, two, (2,), (9,))),
        ]
        communication.exchange(infos).wait()
        np.testing.assert_array_equal(one, (np.arange(-1, 5) + 4 * comm.rank) % (4 * comm.size))
        np.testing.assert_array_equal(two, (np.arange(-2, 7) + 4 * comm.rank) % (4 * comm.size))

    ranks()(check)


def test_two_exchanges_in_flight(ranks: Any) -> None:
    def check(comm: haloport.Communicator) -> None:
        context, domain, pattern = ring(comm)
        arrays = [np.array([comm.rank + 10 * number, -1.0]) for number in range(2)]
        infos = [pattern(unstructured.make_field_descriptor(domain, array)) for array in arrays]
        objects = [unstructured.make_communication_object(context) for _ in arrays]
        handles = [communication.exchange(info) for communication, info in zip(objects, infos)]
        if comm.rank % 2:
            handles.reverse()
        for handle in handles:
            handle.wait()
        for number, array in enumerate(arrays):
            np.testing.assert_array_equal(array, [comm.rank + 10 * number, (comm.rank + 1) % comm.size + 10 * number])
        handle = objects[0].exchange(infos[0])
        with pytest.raises(haloport.InFlightError):
            objects[0].exchange(infos[1])
        handle.wait()

    ranks()(check)


def ring(comm: haloport.Communicator) -> Any:
    """Returns a context, the domain of this rank's cell and a halo of the cell of the next rank, and their pattern."""
    context = make_context(comm)
    domain = unstructured.DomainDescriptor(comm.rank, [comm.rank, (comm.rank + 1) % comm.size], [1])
    return context, domain, unstructured.make_pattern(context, unstructured.HaloGenerator(), [domain])


def test_errors(ranks: Any) -> None:
    def check(comm: haloport.Communicator) -> None:
        context, domain, pattern = ring(comm)
        array = np.zeros((2, 3))
        info = pattern(unstructured.make_field_descriptor(domain, array))
        communication = unstructured.make_communication_object(context)
        stranger = unstructured.DomainDescriptor(99, [0, 1], [1])
        with pytest.raises(RuntimeError, match="the domain 99, the pattern has"):
            pattern(unstructured.make_field_descriptor(stranger, array))
        with pytest.raises(TypeError, match=r"first dimension \(3\) must match the size of the domain \(2\)"):
            unstructured.make_field_descriptor(domain, np.zeros(3))
        with pytest.raises(TypeError, match="1 or 2 axes"):
            unstructured.make_field_descriptor(domain, np.zeros((2, 3, 4)))
        with pytest.raises(TypeError, match="expected an array with __array_interface__, found list"):
            unstructured.make_field_descriptor(domain, [1, 2])
        with pytest.raises(TypeError, match="__cuda_array_interface__"):
            unstructured.make_field_descriptor(domain, array, arch=Architecture.GPU)
        with pytest.raises(TypeError, match="what patterns return"):
            communication.exchange(array)
        with pytest.raises(RuntimeError, match="repeated outer"):
            unstructured.DomainDescriptor(0, [0, 1], [1, 1])
        with pytest.raises(RuntimeError, match="repeated inner"):
            unstructured.DomainDescriptor(0, [1, 1], [])
        with pytest.raises(ValueError, match="rows from 0 to 1"):
            unstructured.DomainDescriptor(0, [0, 1], [2])
        with pytest.raises(NotImplementedError, match="at least one domain"):
            unstructured.make_pattern(context, unstructured.HaloGenerator(), [])

        box = ProductSet(UnitRange(2 * comm.rank, 2 * comm.rank + 2))
        grid = ProductSet(UnitRange(0, 2 * comm.size))
        part = regular.DomainDescriptor(comm.rank, box)
        boxes = regular.make_pattern(context, regular.HaloGenerator(grid, (1,), (True,)), [part])
        with pytest.raises(ValueError, match="memory for a halo of 1 and 1 cells"):
            boxes(regular.make_field_descriptor(part, np.zeros(4), (0,), (4,)))
        with pytest.raises(ValueError, match="at most 4 cells along axis 0"):
            regular.make_field_descriptor(part, np.zeros(4), (1,), (5,))
        with pytest.raises(TypeError, match="Expected 1, but got 2"):
            regular.make_field_descriptor(part, np.zeros((4, 4)), (1,), (4,))
        with pytest.raises(TypeError, match="offsets: expected 1 entries"):
            regular.make_field_descriptor(part, np.zeros(4), (1, 1), (4,))
        assert info.array is array

    ranks()(check)


def test_domains_with_different_fields(ranks: Any) -> None:
    def check(comm: haloport.Communicator) -> None:
        context = make_context(comm)
        first = 2 * comm.rank
        domains = [unstructured.DomainDescriptor(first + number, [first + number], []) for number in range(2)]
        pattern = unstructured.make_pattern(context, unstructured.HaloGenerator(), domains)
        communication = unstructured.make_communication_object(context)
        infos = [
            pattern(unstructured.make_field_descriptor(domain, np.zeros(1, dtype)))
            for domain, dtype in zip(domains, (np.float32, np.float64))
        ]
        with pytest.raises(NotImplementedError, match=r"as many fields of each domain of a rank, found \[1, 0\]"):
            communication.exchange(infos[:1])
        with pytest.raises(ValueError, match="same types and levels"):
            communication.exchange(infos)

    ranks()(check)


def test_names() -> None:
    """The names of GHEX's package that programs use."""
    names = {
        "": "config print_config mpi_init mpi_finalize mpi_is_initialized mpi_is_finalized mpi_comm expose_cpp_ptr",
        ".context": "context make_context",
        ".unstructured": "make_communication_object DomainDescriptor make_field_descriptor wrap_field HaloGenerator "
        "make_pattern",
        ".structured.regular": "make_communication_object DomainDescriptor make_field_descriptor wrap_field HaloGenerator "
        "HaloContainer make_pattern",
        ".structured.cartesian_sets": "Set IntegerSet UnitRange UnionRange CartesianSet ProductSet UnionCartesian "
        "IndexSpace union is_integer_like",
        ".util": "Architecture unwrap",
    }
    for module, wanted in names.items():
        found = importlib.import_module(f"haloport.ghex{module}")
        for name in wanted.split():
            assert hasattr(found, name), (module, name)
