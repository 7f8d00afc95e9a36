"""Finite elements: Poisson's equation on the unit square with linear triangles, whose parts have ragged borders.

    python poisson.py                # four ranks, as threads
    mpirun -n 4 python poisson.py    # or as processes

Each rank computes with its own triangles. It adds to vertices that other ranks own, so these sums go from halos to their owners.
"""

import haloport as hp
import numpy as np

try:
    from mpi4py import MPI
except (ImportError, RuntimeError):
    MPI = None


def triangulation(n):
    """The vertices of n by n squares and the triangles, two in each square, by the ids of their vertices."""
    points = np.stack(np.meshgrid(np.linspace(0, 1, n + 1), np.linspace(0, 1, n + 1), indexing="ij"), axis=-1).reshape(-1, 2)
    i, j = np.divmod(np.arange(n * n), n)
    corner = i * (n + 1) + j
    lower = np.stack([corner, corner + n + 1, corner + n + 2], axis=1)
    upper = np.stack([corner, corner + n + 2, corner + 1], axis=1)
    return points, np.concatenate([lower, upper])


def parts(points, triangles, ranks):
    """The rank of each triangle, that of the nearest of some points, and the rank of each vertex, the lowest one of a triangle."""
    seeds = np.random.default_rng(1).uniform(0, 1, (ranks, 2))
    centres = points[triangles].mean(axis=1)
    rank = np.linalg.norm(centres[:, None] - seeds, axis=2).argmin(axis=1)
    owner = np.full(len(points), ranks)
    np.minimum.at(owner, triangles, rank[:, None])
    return rank, owner


def solve(comm, n):
    """The error of the solution on n by n squares, the largest of all vertices, and the number of iterations."""
    comm = hp.Communicator(comm)
    points, triangles = triangulation(n)
    rank, owner = parts(points, triangles, comm.size)
    triangles = triangles[rank == comm.rank]
    mine, touched = np.flatnonzero(owner == comm.rank), np.unique(triangles)
    ids = np.concatenate([mine, np.setdiff1d(touched, mine)])

    # A vertex in the halo has a value of its own on each rank that has a triangle of it.
    mesh = hp.Mesh(ids, len(mine), comm=comm)
    to_owners = mesh.plan(mesh.empty(), accumulate="sum", zero_halo=True)
    to_halos = mesh.plan(mesh.empty())

    place = np.empty(len(points), int)
    place[ids] = np.arange(len(ids))
    vertices, points = place[triangles], points[ids]
    edges = np.roll(points[vertices], 1, axis=1) - np.roll(points[vertices], -1, axis=1)  # opposite each vertex
    area = np.abs(edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0]) / 2
    stiffness = edges @ edges.transpose(0, 2, 1) / (4 * area)[:, None, None]
    inner = np.all((points > 0) & (points < 1), axis=1)[mesh.owned]  # the solution is 0 on the boundary

    def assembled(of_triangles):
        """Adds what triangles have for their vertices, on all ranks."""
        total = mesh.empty()
        np.add.at(total, vertices, of_triangles)
        to_owners(total)
        return np.where(inner, total[mesh.owned], 0)

    def applied(owned):
        """The product of the stiffness matrix and a vector."""
        u = mesh.empty()
        u[mesh.owned] = owned
        to_halos(u)
        return assembled(np.einsum("tij,tj->ti", stiffness, u[vertices]))

    exact = np.prod(np.sin(np.pi * points), axis=1)
    load = 2 * np.pi**2 * exact[vertices].mean(axis=1) * area / 3
    residual = assembled(np.repeat(load[:, None], 3, axis=1))
    u, direction, iterations = np.zeros_like(residual), residual, 0
    square = first = comm.sum_exact(residual, residual)
    while square > 1e-20 * first:
        product = applied(direction)
        step = square / comm.sum_exact(direction, product)
        u, residual = u + step * direction, residual - step * product
        square, before = comm.sum_exact(residual, residual), square
        direction = residual + square / before * direction
        iterations += 1
    error = np.abs(u - exact[mesh.owned]).max(initial=0)
    return comm.all_reduce(float(error), "max"), iterations


def main(comm):
    errors = [solve(comm, n) for n in (8, 16, 32)]
    if comm.rank == 0:
        for n, (error, iterations) in zip((8, 16, 32), errors):
            print(f"{n:3} by {n} squares: error {error:.2e} after {iterations} iterations")
    orders = [np.log2(one[0] / other[0]) for one, other in zip(errors, errors[1:])]
    assert all(1.8 < order < 2.2 for order in orders), orders
    return errors


if __name__ == "__main__":
    if MPI is not None and MPI.COMM_WORLD.size > 1:
        main(MPI.COMM_WORLD)
    else:
        everywhere = hp.run_ranks(4, main)
        # The sums of conjugate gradients are exact, so all ranks take the same steps.
        assert all(errors == everywhere[0] for errors in everywhere)
