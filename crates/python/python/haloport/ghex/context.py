"""The ranks of an exchange, as ``ghex.context``."""

from typing import Any

from haloport._haloport import Communicator
from haloport.ghex._mpi import mpi_comm

__all__ = ["context", "make_context"]


class context:
    """The ranks among which patterns are made. Making one is collective: it duplicates the communicator.

    Parameters
    ----------
    mpi_comm : haloport.ghex.mpi_comm
        The communicator.
    thread_safe : bool, optional
        Whether several threads of a rank will exchange at the same time. Haloport asks MPI for the threads that call it,
        whatever this says.
    """

    def __init__(self, mpi_comm: mpi_comm, thread_safe: bool = False) -> None:
        self._given = mpi_comm
        self._thread_safe = thread_safe
        self._comm = Communicator(mpi_comm._comm)

    def mpi_comm(self) -> mpi_comm:
        """Returns the communicator from which this was made."""
        return self._given

    def rank(self) -> int:
        """Returns the number of this rank, from 0."""
        return self._comm.rank

    def size(self) -> int:
        """Returns the number of ranks."""
        return self._comm.size

    def __repr__(self) -> str:
        threads = "thread safe" if self._thread_safe else "not thread safe"
        return f"<ghex.context: {self._given!r}, {threads}>"


def make_context(comm: Any, thread_safe: bool = False) -> context:
    """Makes a context of the ranks of a communicator. Collective.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm or haloport.Communicator
        The communicator.
    thread_safe : bool, optional
        See ``context``.
    """
    return context(mpi_comm(comm), thread_safe)
