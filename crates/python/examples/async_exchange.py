"""Two models on each rank as tasks of asyncio: while the halos of one travel, the other one computes.

    python async_exchange.py                # one process
    mpirun -n 4 python async_exchange.py    # four
"""

import asyncio
from contextlib import suppress

import haloport as hp
import numpy as np

with suppress(ImportError, RuntimeError):  # without MPI this process is the only rank
    from mpi4py import MPI  # noqa: F401  the ranks are those of its world

STEPS = 100


class Wave:
    """A wave that moves by one cell along an axis in each step, round a periodic grid."""

    def __init__(self, name, shape, axis):
        self.name, self.shape, self.axis = name, shape, axis
        self.grid = hp.Grid(shape, periodic=True, corners=False)
        self.u, self.new = self.grid.empty(), self.grid.empty()
        self.u[self.grid.owned] = self.exact(0)[self.grid.owned]
        self.update = self.grid.plan(self.u)

    def exact(self, steps):
        x = [index - steps * (axis == self.axis) for axis, index in enumerate(self.grid.indices())]
        return np.add(*(np.sin(2 * np.pi * (x % n) / n) for x, n in zip(x, self.shape)))

    async def run(self):
        upwind = list(self.grid.owned)
        upwind[self.axis] = slice(upwind[self.axis].start - 1, upwind[self.axis].stop - 1)
        for _ in range(STEPS):
            await self.update.start(self.u)  # other tasks run until the halos are in place
            self.new[self.grid.owned] = self.u[tuple(upwind)]
            self.u, self.new = self.new, self.u
        error = abs(self.u - self.exact(STEPS))[self.grid.owned].max()
        print(f"{self.name} on rank {self.grid.comm.rank}: largest error {error:.1e}")
        assert error < 1e-12


async def main():
    # Making grids and plans is collective, so all ranks do it in this order; starting exchanges is not.
    air, sea = Wave("air", (300, 200), axis=0), Wave("sea", (150, 100), axis=1)
    await asyncio.gather(air.run(), sea.run())


asyncio.run(main())
