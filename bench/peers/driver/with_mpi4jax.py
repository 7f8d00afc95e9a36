"""The contestant mpi4jax: a compiled function of JAX, in which `sendrecv` passes the faces of every axis to both sides.

Corners travel with the faces of later axes. All fields are one array. Arrays of JAX are immutable, so an exchange returns another
one, which takes the memory of its argument.
"""

import functools

import jax
import mpi4jax
import numpy as np
from contestants import InPython

jax.config.update("jax_enable_x64", True)
# In this thread, which alone may call MPI.
jax.config.update("jax_cpu_enable_async_dispatch", False)


class InJax(InPython):
    """A contestant whose values are an array of JAX; those that others write and read are NumPy's."""

    def __init__(self, name, exchange, values):
        super().__init__(name, self._exchange, list(values))
        self._values, self._filled, self._of_jax = values, exchange, jax.numpy.array(values)

    def _exchange(self):
        self._of_jax = jax.block_until_ready(self._filled(self._of_jax))

    def load(self):
        self._of_jax = jax.numpy.array(self._values)

    def store(self):
        self._values[...] = self._of_jax


def boxes(comm, case):
    """The contestants for boxes."""
    halo, local = case.halo, list(case.local)
    rank, size = comm.Get_rank(), comm.Get_size()

    @functools.partial(jax.jit, donate_argnums=0)
    def exchange(values):
        for axis in range(3):
            def face(begin, axis=axis):
                return tuple([slice(None)] * (1 + axis) + [slice(begin, begin + halo)])

            n = local[axis]
            for source, target, step in [(face(n), face(0), 1), (face(halo), face(n + halo), -1)]:
                passed = values[source]
                if axis == case.split and size > 1:
                    to, come_from = (rank + step) % size, (rank - step) % size
                    passed = mpi4jax.sendrecv(passed, passed, source=come_from, dest=to, comm=comm)
                values = values.at[target].set(passed)
        return values

    yield InJax("mpi4jax: three axes of sendrecv", exchange, np.zeros([case.fields, *(cells + 2 * halo for cells in local)]))


def meshes(_comm, _mesh):
    """Returns no contestant: it takes no part in meshes."""
    return iter(())


def version():
    return f"mpi4jax {mpi4jax.__version__}, JAX {jax.__version__}"
