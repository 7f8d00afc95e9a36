"""Communicators of GHEX, and the functions that initialise and finalise MPI."""

from typing import Any

from haloport._haloport import Communicator


class mpi_comm:
    """A communicator of MPI.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm or haloport.Communicator, optional
        By default MPI's world. A ``haloport.Communicator`` may also be one of ranks that are threads.
    """

    def __init__(self, comm: Any = None) -> None:
        if comm is None:
            from mpi4py import MPI

            comm = MPI.COMM_WORLD
        if not hasattr(comm, "py2f") and not isinstance(comm, Communicator):
            raise TypeError(f"Argument must be `mpi4py.MPI.Comm`, found {type(comm).__name__}")
        self._comm = comm

    def __repr__(self) -> str:
        return f"<ghex.mpi_comm: {self._comm!r}>"


def mpi_init(thread_safe: bool = True) -> None:
    """Initialises MPI through mpi4py, for calls from any thread or from one at a time.

    Raises
    ------
    RuntimeError
        If MPI does not support that.
    """
    from mpi4py import MPI

    wanted = MPI.THREAD_MULTIPLE if thread_safe else MPI.THREAD_SINGLE
    if MPI.Init_thread(wanted) < wanted:
        raise RuntimeError("MPI_Init_thread: this MPI does not support MPI_THREAD_MULTIPLE")


def mpi_finalize() -> None:
    """Finalises MPI through mpi4py."""
    from mpi4py import MPI

    MPI.Finalize()


def mpi_is_initialized() -> bool:
    """Returns whether MPI is initialised."""
    from mpi4py import MPI

    return bool(MPI.Is_initialized())


def mpi_is_finalized() -> bool:
    """Returns whether MPI is finalised."""
    from mpi4py import MPI

    return bool(MPI.Is_finalized())
