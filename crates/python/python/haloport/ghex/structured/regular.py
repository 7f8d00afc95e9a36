"""Structured grids whose domains are boxes, as ``ghex.structured.regular``."""

from collections.abc import Sequence
from dataclasses import dataclass
import itertools
from typing import Any

from haloport._haloport import Grid
from haloport._layouts import Indices
from haloport.ghex._exchange import CommunicationObject, FieldDescriptor, PatternContainer
from haloport.ghex.context import context
from haloport.ghex.structured.cartesian_sets import CartesianSet, ProductSet, UnitRange, union
from haloport.ghex.util import Architecture, architecture_of

__all__ = [
    "DomainDescriptor",
    "HaloContainer",
    "HaloGenerator",
    "make_communication_object",
    "make_field_descriptor",
    "make_pattern",
    "wrap_field",
]


class DomainDescriptor:
    """A domain: a box of cells.

    Parameters
    ----------
    id_ : int
        The id of the domain, which no other domain of any rank has.
    sub_domain_indices : CartesianSet
        The cells, in the indices of the whole grid.
    """

    def __init__(self, id_: int, sub_domain_indices: CartesianSet) -> None:
        box = sub_domain_indices.bounds
        self._id = int(id_)
        self._first = tuple(int(one.start) for one in box.args)
        self._last = tuple(int(one.stop) - 1 for one in box.args)

    def domain_id(self) -> int:
        """Returns the id of the domain."""
        return self._id

    def first(self) -> tuple[int, ...]:
        """Returns the index of the first cell."""
        return self._first

    def last(self) -> tuple[int, ...]:
        """Returns the index of the last cell."""
        return self._last


class _Field(FieldDescriptor):
    """An array with the index of the first cell that the domain owns, and the number of cells, along each axis."""

    def __init__(
        self, domain: DomainDescriptor, array: Any, offsets: tuple[int, ...], extents: tuple[int, ...], arch: Architecture
    ) -> None:
        super().__init__(domain.domain_id(), array, arch)
        self.offsets = offsets
        self.extents = extents


def make_field_descriptor(
    domain_desc: DomainDescriptor,
    field: Any,
    offsets: Sequence[int],
    extents: Sequence[int],
    *,
    arch: Architecture = Architecture.CPU,
) -> FieldDescriptor:
    """Describes a field of a domain.

    Parameters
    ----------
    domain_desc : DomainDescriptor
        The domain.
    field : array
        The field, of NumPy or CuPy, with as many axes as the grid.
    offsets : sequence of int
        The index in the array of the first cell that the domain owns, for each axis.
    extents : sequence of int
        The number of cells of the array along each axis.
    arch : Architecture, optional
        Where the memory of the field is; ``None``: the protocols of the array tell.
    """
    arch = architecture_of(field, arch)
    offsets, extents = tuple(map(int, offsets)), tuple(map(int, extents))
    axes = len(domain_desc.first())
    if field.ndim != axes:
        raise TypeError(f"Field has wrong dimensions. Expected {axes}, but got {field.ndim}")
    for name, values in (("offsets", offsets), ("extents", extents)):
        if len(values) != axes:
            raise TypeError(f"{name}: expected {axes} entries, found {values}")
    for axis, (extent, found) in enumerate(zip(extents, field.shape)):
        if extent > found:
            raise ValueError(f"extents: expected at most {found} cells along axis {axis} of the array, found {extent}")
    return _Field(domain_desc, field, offsets, extents, arch)


def wrap_field(*args: Any) -> FieldDescriptor:
    """Does the same as ``make_field_descriptor``."""
    return make_field_descriptor(*args)


@dataclass
class HaloContainer:
    """The halo of a domain: in indices from its first cell, and in those of the whole grid."""

    local: CartesianSet
    global_: CartesianSet


class HaloGenerator:
    """The cells that an exchange fills: some layers around each domain, with edges and corners.

    Parameters
    ----------
    glob_domain_indices : ProductSet
        The cells of the whole grid.
    halos : sequence of int or of pairs of int
        The width below and above along each axis, in cells; one number is both.
    periodicity : sequence of bool
        Whether the ends of an axis are joined.
    """

    def __init__(
        self, glob_domain_indices: CartesianSet, halos: Sequence[int | tuple[int, int]], periodicity: Sequence[bool]
    ) -> None:
        box = glob_domain_indices.bounds
        if not box.ndim == len(halos) == len(periodicity):
            raise ValueError(
                f"HaloGenerator: expected {box.ndim} entries of halos and periodicity, found {halos} and {periodicity}"
            )
        self._first = tuple(int(one.start) for one in box.args)
        self._shape = tuple(int(one.size) for one in box.args)
        self._halos = tuple((halo, halo) if isinstance(halo, int) else (int(halo[0]), int(halo[1])) for halo in halos)
        self._periodic = tuple(map(bool, periodicity))

    def __call__(self, domain: DomainDescriptor) -> HaloContainer:
        """Returns the halo of a domain, also of cells beyond ends of the grid that are not joined.

        Along an axis whose ends are joined, the global indices of each part of the halo are shifted so that its first
        cell lies in the grid.
        """
        extents = [last - first + 1 for first, last in zip(domain.first(), domain.last())]
        ranges = [
            ((-low, 0), (0, extent), (extent, extent + high)) for extent, (low, high) in zip(extents, self._halos)
        ]
        middle = tuple((0, extent) for extent in extents)
        local, global_ = [], []
        for part in itertools.product(*ranges):
            if part != middle and all(start < stop for start, stop in part):
                local.append(ProductSet(*(UnitRange(*one) for one in part)))
                shifted = (self._shift(axis, domain, *one) for axis, one in enumerate(part))
                global_.append(ProductSet(*shifted))
        none = ProductSet(*(UnitRange(0, 0) for _ in extents))
        return HaloContainer(union(none, *local), union(none, *global_))

    def _shift(self, axis: int, domain: DomainDescriptor, start: int, stop: int) -> UnitRange:
        """Returns the range of a part of a halo along an axis in the indices of the grid."""
        first = start + domain.first()[axis]
        if self._periodic[axis]:
            first = (first - self._first[axis]) % self._shape[axis] + self._first[axis]
        return UnitRange(first, first + stop - start)

    def _filled(self, domain: DomainDescriptor) -> list[Indices]:
        """Returns the parts of an array, with the halo around the domain, that an exchange fills."""
        owned, filled = [], []
        for axis, (low, high) in enumerate(self._halos):
            first, last = domain.first()[axis], domain.last()[axis]
            below, above = low, high
            if not self._periodic[axis]:
                below = min(low, first - self._first[axis])
                above = min(high, self._first[axis] + self._shape[axis] - 1 - last)
            owned.append(UnitRange(low, low + last - first + 1))
            filled.append(UnitRange(low - below, low + last - first + 1 + above))
        parts = ProductSet(*filled).without(ProductSet(*owned)).elements()
        return [tuple(slice(int(one.start), int(one.stop)) for one in part.args) for part in parts]


def make_pattern(
    context: context, halo_gen: HaloGenerator, domain_range: Sequence[DomainDescriptor]
) -> PatternContainer[_Field]:
    """Finds the owners of the cells of all halos. Collective.

    Parameters
    ----------
    context : haloport.ghex.context.context
        The ranks.
    halo_gen : HaloGenerator
        The whole grid and the halo.
    domain_range : sequence of DomainDescriptor
        The domains of this rank, at least one.

    Raises
    ------
    haloport.RefusedError
        On every rank, if the domains of all ranks do not cover the grid, or overlap.
    """
    domains = list(domain_range)
    origin = halo_gen._first
    boxes = [
        (
            [one - start for one, start in zip(domain.first(), origin)],
            [one - start + 1 for one, start in zip(domain.last(), origin)],
        )
        for domain in domains
    ]
    grid = Grid(
        halo_gen._shape, halo=halo_gen._halos, periodic=halo_gen._periodic, domains=boxes, comm=context._comm
    )

    def cells(field: _Field, number: int) -> Any:
        """Returns the part of an array with the cells of the domain and its halo."""
        first, last = domains[number].first(), domains[number].last()
        index = []
        for axis, (low, high) in enumerate(halo_gen._halos):
            start, stop = field.offsets[axis] - low, field.offsets[axis] + last[axis] - first[axis] + 1 + high
            if start < 0 or stop > field.extents[axis]:
                raise ValueError(
                    f"field: expected memory for a halo of {low} and {high} cells around the {last[axis] - first[axis] + 1} "
                    f"cells of the domain along axis {axis}, found {field.extents[axis]} cells with the domain from "
                    f"{field.offsets[axis]}"
                )
            index.append(slice(start, stop))
        return field.array[tuple(index)]

    return PatternContainer(
        grid,
        [domain.domain_id() for domain in domains],
        [halo_gen._filled(domain) for domain in domains],
        cells,
        f"structured__detail__grid_std__array_int_{len(origin)}ul__",
    )


def make_communication_object(context: context) -> CommunicationObject:
    """Makes a communication object for structured grids. Not collective."""
    return CommunicationObject("communication_object_regular")
