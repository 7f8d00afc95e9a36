"""The contestant Haloport, from Python: arrays of `empty` in a fixed plan, and any arrays, passed at each call."""

import haloport as hp
import numpy as np
from contestants import InPython


def boxes(comm, case):
    """The contestants for boxes."""
    parts = [comm.Get_size() if axis == case.split else 1 for axis in range(3)]
    shape = [cells * count for cells, count in zip(case.local, parts)]
    grid = hp.Grid(shape, halo=case.halo, periodic=True, parts=parts, comm=comm)
    yield from _both(grid, [grid.empty(np.float64) for _ in range(case.fields)])


def meshes(comm, mesh):
    """The contestants for meshes."""
    cells = mesh.owned + mesh.halo
    ids = np.array([mesh.ids[at] for at in range(cells)], dtype=np.int64)
    domain = hp.Mesh(ids, mesh.owned, comm=comm)
    if mesh.nproma == cells:
        arrays = [np.zeros((cells, mesh.levels), order="F") for _ in range(mesh.fields)]
    else:
        arrays = [domain.empty(np.float64, levels=mesh.levels) for _ in range(mesh.fields)]
    yield from _both(domain, arrays)


def version():
    return f"Haloport {hp.__version__} from Python, NumPy {np.__version__}"


def _both(domain, arrays):
    yield InPython("Haloport from Python, fixed arrays", domain.plan(*arrays, fixed=True), arrays)
    plain = [np.zeros_like(array) for array in arrays]
    update = domain.plan(*plain)
    yield InPython("Haloport from Python, any arrays", lambda: update(*plain), plain)
