"""The contestant GHEX, from Python: arrays are wrapped once, all fields travel in one exchange."""

import ghex
import numpy as np
from contestants import InPython
from ghex import unstructured
from ghex.context import make_context
from ghex.structured import regular
from ghex.structured.cartesian_sets import ProductSet, UnitRange


def boxes(comm, case):
    """The contestants for boxes."""
    context = make_context(comm, False)
    halo, rank, size = case.halo, comm.Get_rank(), comm.Get_size()
    parts = [size if axis == case.split else 1 for axis in range(3)]
    first = [rank * case.local[axis] if parts[axis] > 1 else 0 for axis in range(3)]
    grid = ProductSet(*(UnitRange(0, case.local[axis] * parts[axis]) for axis in range(3)))
    owned = ProductSet(*(UnitRange(first[axis], first[axis] + case.local[axis]) for axis in range(3)))
    domain = regular.DomainDescriptor(rank, owned)
    halos = regular.HaloGenerator(grid, (halo,) * 3, (True,) * 3)
    pattern = regular.make_pattern(context, halos, [domain])
    shape = tuple(cells + 2 * halo for cells in case.local)
    arrays = [np.zeros(shape) for _ in range(case.fields)]
    wrapped = [regular.make_field_descriptor(domain, array, (halo,) * 3, shape) for array in arrays]
    yield _contestant(
        regular.make_communication_object(context), pattern, wrapped, arrays, (context, domain, halos)
    )


def meshes(comm, mesh):
    """The contestants for meshes."""
    context = make_context(comm, False)
    cells = mesh.owned + mesh.halo
    ids = [int(mesh.ids[at]) for at in range(cells)]
    domain = unstructured.DomainDescriptor(comm.Get_rank(), ids, list(range(mesh.owned, cells)))
    halos = unstructured.HaloGenerator.from_gids(ids[mesh.owned :])
    pattern = unstructured.make_pattern(context, halos, [domain])
    order = "F" if mesh.nproma == cells else "C"
    arrays = [np.zeros((cells, mesh.levels), order=order) for _ in range(mesh.fields)]
    wrapped = [unstructured.make_field_descriptor(domain, array) for array in arrays]
    communication = unstructured.make_communication_object(context)
    yield _contestant(communication, pattern, wrapped, arrays, (context, domain, halos))


def version():
    return f"GHEX {ghex.__version__.strip()}, NumPy {np.__version__}"


def _contestant(communication, pattern, wrapped, arrays, keep):
    infos = [pattern(field) for field in wrapped]

    def exchange():
        communication.exchange(infos).wait()

    exchange.keep = (keep, pattern, wrapped)  # GHEX does not keep them alive
    return InPython("GHEX from Python", exchange, arrays)
