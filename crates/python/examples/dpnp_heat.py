"""Heat in a periodic plate, in dpnp: all work is in one queue of SYCL, on a GPU or a CPU.

    python dpnp_heat.py                # one process
    mpirun -n 4 python dpnp_heat.py    # four, which may share a device
"""

import math
import sys
from contextlib import suppress

import haloport as hp

with suppress(ImportError, RuntimeError):  # without MPI this process is the only rank
    from mpi4py import MPI  # noqa: F401  the ranks are those of its world

try:
    import dpctl
    import dpnp

    queue = dpctl.SyclQueue()  # on a GPU of Intel, one of Level Zero
except ImportError:
    print("found no dpnp; nothing to do")
    sys.exit()
except dpctl.SyclQueueCreationError as error:
    print(f"found no device of SYCL ({error}); nothing to do")
    sys.exit()

N, STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 512, 100


def step(new, u, cells):
    """Computes these cells of the next step, each from its four neighbours."""
    i, j = cells
    around = u[i.start - 1 : i.stop - 1, j] + u[i.start + 1 : i.stop + 1, j]
    around += u[i, j.start - 1 : j.stop - 1] + u[i, j.start + 1 : j.stop + 1]
    new[cells] = u[cells] + 0.2 * (around - 4 * u[cells])


grid = hp.Grid((N, N), periodic=True, corners=False)
i, j = (dpnp.asarray(index, dtype="f4", sycl_queue=queue) for index in grid.indices())
wave = dpnp.cos(2 * math.pi / N * i) * dpnp.cos(2 * math.pi / N * j)

u, new = (dpnp.zeros(grid.shape, dtype="f4", sycl_queue=queue) for _ in range(2))
u[grid.owned] = wave[grid.owned]
update = grid.plan(u)
for _ in range(STEPS):
    with update.start(u):  # after the work that is in the queue
        step(new, u, grid.interior)  # while halos travel
    for cells in grid.boundary:
        step(new, u, cells)
    u, new = new, u

# This wave keeps its shape and decays by the same factor in each step.
factor = 1 - 0.8 * (1 - math.cos(2 * math.pi / N))
error = float(dpnp.max(abs(u - factor**STEPS * wave)[grid.owned]))
print(f"rank {grid.comm.rank} of {grid.comm.size} on {queue.sycl_device.name}: {STEPS} steps, largest error {error:.1e}")
assert error < 1e-4
