"""A tracer spreads over a mesh of triangles with levels, whose parts have ragged borders.

    python mesh.py                # four ranks, as threads
    mpirun -n 4 python mesh.py    # or as processes
"""

from concurrent.futures import ThreadPoolExecutor

import haloport as hp
import numpy as np

try:
    from mpi4py import MPI
except (ImportError, RuntimeError):
    MPI = None

N, LEVELS, STEPS = 40, 10, 50


def triangles():
    """The centres of the triangles of a periodic square, two in each of its cells, and the ids of the three beside each."""
    i, j = np.divmod(np.arange(N * N), N)
    lower, upper = 2 * np.arange(N * N), 2 * np.arange(N * N) + 1
    beside = np.empty((2 * N * N, 3), int)
    beside[lower] = np.stack([upper, upper[(i - 1) % N * N + j], upper[i * N + (j - 1) % N]], axis=1)
    beside[upper] = np.stack([lower, lower[(i + 1) % N * N + j], lower[i * N + (j + 1) % N]], axis=1)
    centres = np.repeat(np.stack([i, j], axis=1), 2, axis=0) + np.tile([[1 / 3], [2 / 3]], (N * N, 1))
    return centres, beside


def spread(comm):
    """Spreads a tracer on the cells of this rank; returns their ids and values."""
    comm = hp.Communicator(comm)
    centres, beside = triangles()
    # Each rank owns the triangles that are nearest to a point of its own.
    points = np.random.default_rng(1).uniform(0, N, (comm.size, 2))
    owner = np.linalg.norm(centres[:, None] - points, axis=2).argmin(axis=1)
    mine = np.flatnonzero(owner == comm.rank)
    halo = np.setdiff1d(beside[mine], mine)
    ids = np.concatenate([mine, halo])
    mesh = hp.Mesh(ids, len(mine), comm=comm)

    # The neighbours by their places in the arrays of this rank; -1 for those that it does not have.
    place = np.full(len(beside), -1)
    place[ids] = np.arange(len(ids))
    neighbours = place[beside[ids]]
    interior, boundary = mesh.split(neighbours)

    u, new = mesh.empty(levels=LEVELS), mesh.empty(levels=LEVELS)
    u[mesh.owned] = start(mine)
    update = mesh.plan(u)
    for _ in range(STEPS):
        with update.start(u):
            new[interior] = step(u, interior, neighbours)  # while halos travel
        new[boundary] = step(u, boundary, neighbours)
        u, new = new, u
    return mine, u[mesh.owned], len(halo)


def start(ids):
    """The initial values, which differ from level to level."""
    return np.cos(ids[:, None] * np.arange(1, LEVELS + 1))


def step(u, cells, neighbours):
    """The mean of each cell and of the three beside it."""
    a, b, c = neighbours[cells].T
    return (u[cells] + u[a] + u[b] + u[c]) / 4


def main():
    if MPI and MPI.COMM_WORLD.size > 1:
        parts = [spread(None)]
    else:
        with ThreadPoolExecutor(4) as pool:
            parts = list(pool.map(spread, hp.threads(4)))

    _, beside = triangles()
    whole = np.arange(len(beside))
    expected = start(whole)
    for _ in range(STEPS):
        expected = step(expected, whole, beside)
    for mine, values, halo in parts:
        print(f"{len(mine)} cells and {halo} in the halo: as on one rank, to the last bit")
        assert np.array_equal(values, expected[mine])


main()
