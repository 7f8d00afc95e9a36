"""Heat in a plate between two cold walls, in NumPy: the interior is computed while halos travel.

    python heat.py                    # one process
    mpirun -n 4 python heat.py 1000   # four; the number of steps
"""

import sys
from contextlib import suppress

import haloport as hp
import numpy as np

with suppress(ImportError, RuntimeError):  # without MPI this process is the only rank
    from mpi4py import MPI  # noqa: F401  the ranks are those of its world

NX, NY, STEPS = 600, 400, int(sys.argv[1]) if len(sys.argv) > 1 else 300


def shifted(cells, axis, by):
    """The cells that lie `by` further along an axis."""
    moved = slice(cells[axis].start + by, cells[axis].stop + by)
    return cells[:axis] + (moved,) + cells[axis + 1 :]


def step(new, u, cells):
    """Computes these cells of the next step, each from its four neighbours."""
    around = sum(u[shifted(cells, axis, by)] for axis in (0, 1) for by in (-1, 1))
    new[cells] = u[cells] + 0.2 * (around - 4 * u[cells])


grid = hp.Grid((NX, NY), periodic=(False, True), corners=False)  # with walls at the ends of axis 0
i, j = grid.indices()  # of this rank's cells and of their halo, in the whole grid
wave = np.sin(np.pi * (i + 1) / (NX + 1)) * np.cos(2 * np.pi * j / NY)  # nothing behind the walls

u, new = grid.empty(), grid.empty()
u[grid.owned] = wave[grid.owned]
update = grid.plan(u)
for _ in range(STEPS):
    with update.start(u):
        step(new, u, grid.interior)  # while halos travel
    for cells in grid.boundary:
        step(new, u, cells)
    u, new = new, u

# This wave keeps its shape and decays by the same factor in each step.
factor = 1 - 0.4 * (2 - np.cos(np.pi / (NX + 1)) - np.cos(2 * np.pi / NY))
error = abs(u - factor**STEPS * wave)[grid.owned].max()
print(f"rank {grid.comm.rank} of {grid.comm.size}: {STEPS} steps, largest error {error:.1e}")
assert error < 1e-12
