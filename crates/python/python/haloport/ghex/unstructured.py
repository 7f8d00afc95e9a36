"""Unstructured meshes, as ``ghex.unstructured``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from haloport._haloport import Mesh
from haloport._layouts import rows_of
from haloport.ghex._exchange import CommunicationObject, FieldDescriptor, PatternContainer
from haloport.ghex.context import context
from haloport.ghex.util import Architecture, architecture_of

__all__ = [
    "DomainDescriptor",
    "HaloGenerator",
    "make_communication_object",
    "make_field_descriptor",
    "make_pattern",
    "wrap_field",
]


class DomainDescriptor:
    """A domain: the cells that it owns and those of its halo.

    Parameters
    ----------
    index : int
        The id of the domain, which no other domain of any rank has.
    indices : array_like of int, shape (cells,)
        The global index of each cell, in the order of the rows of fields.
    halo_indices : array_like of int, shape (halo,)
        The rows of the cells that belong to the halo.
    """

    def __init__(self, index: int, indices: ArrayLike, halo_indices: ArrayLike) -> None:
        self._index = int(index)
        self._ids = np.array(indices, np.int64, ndmin=1)
        rows = np.array(halo_indices, np.int64, ndmin=1)
        self._owned = np.ones(len(self._ids), np.bool_)
        if len(rows) and not (0 <= rows.min() and rows.max() < len(self._ids)):
            raise ValueError(
                f"halo_indices: expected rows from 0 to {len(self._ids) - 1}, found {rows.min()} to {rows.max()}"
            )
        self._owned[rows] = False
        if np.count_nonzero(~self._owned) < len(rows):
            raise RuntimeError("repeated outer (local) index")
        inner = self._ids[self._owned]
        if len(np.unique(inner)) < len(inner):
            raise RuntimeError("repeated inner (global) index")

    def domain_id(self) -> int:
        """Returns the id of the domain."""
        return self._index

    def size(self) -> int:
        """Returns the number of cells, with those of the halo."""
        return len(self._ids)

    def inner_size(self) -> int:
        """Returns the number of cells that the domain owns."""
        return int(np.count_nonzero(self._owned))

    def indices(self) -> list[int]:
        """Returns the global index of each cell."""
        return [int(id_) for id_ in self._ids]


class HaloGenerator:
    """The cells that an exchange fills.

    Parameters
    ----------
    gids : array_like of int, optional
        Their global indices; those of other domains are passed over. By default all cells of the halo.
    """

    def __init__(self, gids: ArrayLike | None = None) -> None:
        self._gids = None if gids is None else np.array(gids, np.int64, ndmin=1)

    @classmethod
    def from_gids(cls, gids: ArrayLike) -> "HaloGenerator":
        """Returns the halo of the cells with these global indices."""
        return cls(gids)

    def rows(self, domain: DomainDescriptor) -> NDArray[np.int64]:
        """Returns the rows of the cells of a domain that an exchange fills, ascending."""
        filled = ~domain._owned
        if self._gids is not None:
            filled &= np.isin(domain._ids, self._gids)
        return np.flatnonzero(filled)


def make_field_descriptor(domain_desc: DomainDescriptor, field: Any, *, arch: Architecture | None = None) -> FieldDescriptor:
    """Describes a field of a domain.

    Parameters
    ----------
    domain_desc : DomainDescriptor
        The domain.
    field : array, shape (cells,) or (cells, levels)
        The field, of NumPy or CuPy, with a row for each cell of the domain.
    arch : Architecture, optional
        Where the memory of the field is; by default its protocols tell.
    """
    arch = architecture_of(field, arch)
    if field.ndim not in (1, 2):
        raise TypeError(f"field: expected 1 or 2 axes, found the shape {field.shape}")
    if field.shape[0] != domain_desc.size():
        raise TypeError(
            f"Field's first dimension ({field.shape[0]}) must match the size of the domain ({domain_desc.size()})"
        )
    return FieldDescriptor(domain_desc.domain_id(), field, arch)


def wrap_field(*args: Any) -> FieldDescriptor:
    """Does the same as ``make_field_descriptor``."""
    return make_field_descriptor(*args)


def make_pattern(
    context: context, halo_gen: HaloGenerator, domain_range: Sequence[DomainDescriptor]
) -> PatternContainer[FieldDescriptor]:
    """Finds the owners of the cells of all halos. Collective.

    Parameters
    ----------
    context : haloport.ghex.context.context
        The ranks.
    halo_gen : HaloGenerator
        The cells that an exchange fills.
    domain_range : sequence of DomainDescriptor
        The domains of this rank, at least one.

    Raises
    ------
    haloport.RefusedError
        On every rank, if an index of a halo has no owner, or an index has two.
    """
    rows = [halo_gen.rows(domain) for domain in domain_range]
    ids = [domain._ids[filled] for domain, filled in zip(domain_range, rows)]
    fill = None
    if halo_gen._gids is not None:
        fill = np.unique(np.concatenate([np.empty(0, np.int64), *ids]))
    mesh = Mesh.of_domains([(domain._ids, domain._owned) for domain in domain_range], fill=fill, comm=context._comm)
    return PatternContainer(
        mesh,
        [domain.domain_id() for domain in domain_range],
        [rows_of(filled) for filled in rows],
        lambda field, _: field.array,
        "unstructured__detail__grid_unsignedlong_",
    )


def make_communication_object(context: context) -> CommunicationObject:
    """Makes a communication object for meshes. Not collective."""
    return CommunicationObject("communication_object_unstructured")
