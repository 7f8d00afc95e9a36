"""The contestant mpi4py, as a Python user writes it: for every axis, the faces to both sides with `Sendrecv`.

Corners travel with the faces of later axes. All fields are one array, and the buffers of the faces are reused.
"""

import numpy as np
from contestants import InPython


def boxes(comm, case):
    """The contestants for boxes."""
    halo, local = case.halo, list(case.local)
    values = np.zeros([case.fields, *(cells + 2 * halo for cells in local)])
    rank, size = comm.Get_rank(), comm.Get_size()
    steps = []
    for axis in range(3):
        parts = size if axis == case.split else 1
        below = (rank - 1) % size if parts > 1 else rank
        above = (rank + 1) % size if parts > 1 else rank

        def face(begin, axis=axis):
            index = [slice(None)] * 4
            index[1 + axis] = slice(begin, begin + halo)
            return values[tuple(index)]

        n = local[axis]
        for source, target, to, come_from in [
            (face(n), face(0), above, below),
            (face(halo), face(n + halo), below, above),
        ]:
            sent = np.empty(source.shape)
            steps.append((source, target, to, come_from, sent, np.empty_like(sent)))

    def exchange():
        for source, target, to, come_from, sent, received in steps:
            np.copyto(sent, source)
            comm.Sendrecv(sent, dest=to, recvbuf=received, source=come_from)
            np.copyto(target, received)

    yield InPython("mpi4py: three axes of Sendrecv", exchange, list(values))


def meshes(_comm, _mesh):
    """Returns no contestant: it takes no part in meshes."""
    return iter(())


def version():
    import mpi4py

    return f"mpi4py {mpi4py.__version__}, NumPy {np.__version__}"
