"""Heat in a periodic plate, in CuPy: all work is in one stream, and the host waits for nothing before the end.

    python cupy_heat.py                # one process
    mpirun -n 4 python cupy_heat.py    # four, which may share a GPU
"""

import sys
from contextlib import suppress

import haloport as hp

with suppress(ImportError, RuntimeError):  # without MPI this process is the only rank
    from mpi4py import MPI  # noqa: F401  the ranks are those of its world

try:
    import cupy

    gpus = cupy.cuda.runtime.getDeviceCount()
except ImportError:
    print("found no CuPy; nothing to do")
    sys.exit()
except cupy.cuda.runtime.CUDARuntimeError as error:
    print(f"found no GPU of NVIDIA ({error}); nothing to do")
    sys.exit()

N, STEPS = 2048, 500


def step(new, u, cells):
    """Computes these cells of the next step, each from its four neighbours."""
    i, j = cells
    around = u[i.start - 1 : i.stop - 1, j] + u[i.start + 1 : i.stop + 1, j]
    around += u[i, j.start - 1 : j.stop - 1] + u[i, j.start + 1 : j.stop + 1]
    new[cells] = u[cells] + 0.2 * (around - 4 * u[cells])


grid = hp.Grid((N, N), periodic=True, corners=False)
cupy.cuda.Device(grid.comm.rank % gpus).use()
i, j = (cupy.asarray(index) for index in grid.indices())
wave = cupy.cos(2 * cupy.pi * i / N) * cupy.cos(2 * cupy.pi * j / N)

u, new = cupy.zeros(grid.shape), cupy.zeros(grid.shape)
u[grid.owned] = wave[grid.owned]
update = grid.plan(u)
cupy.cuda.get_current_stream().synchronize()
with cupy.cuda.Stream(non_blocking=True) as stream:  # the exchanges, too, are put into CuPy's current stream
    for _ in range(STEPS):
        with update.start(u):
            step(new, u, grid.interior)  # while halos travel
        for cells in grid.boundary:
            step(new, u, cells)
        u, new = new, u
    # This wave keeps its shape and decays by the same factor in each step.
    factor = 1 - 0.8 * (1 - float(cupy.cos(2 * cupy.pi / N)))
    error = float(abs(u - factor**STEPS * wave)[grid.owned].max())
print(f"rank {grid.comm.rank} of {grid.comm.size}: {STEPS} steps, largest error {error:.1e}")
assert error < 1e-12
