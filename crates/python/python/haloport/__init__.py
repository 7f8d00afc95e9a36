"""Halo exchange of the arrays that programs already hold.

A grid or a mesh says which cells each rank owns. Its plans fill the halos of arrays of NumPy, CuPy, PyTorch, JAX, Numba
and dpnp where they are, between ranks that are MPI processes or threads:

>>> import numpy as np, haloport as hp
>>> grid = hp.Grid((8, 6), halo=1, periodic=(True, False))
>>> u = grid.empty(np.float64)
>>> u[grid.owned] = 1.0
>>> update = grid.plan(u)
>>> update(u)
>>> float(u[0, 1])  # a halo cell, across the periodic end
1.0
"""

from haloport._abort import abort_on_exception
from haloport._haloport import (
    BLOCK,
    DEFAULT,
    Array,
    BoundKernel,
    Communicator,
    Device,
    Event,
    ExchangeError,
    Grid,
    InFlightError,
    Kernel,
    Layout,
    LineExchange,
    Mesh,
    Pending,
    PendingMessages,
    Plan,
    Redistribution,
    RefusedError,
    SparseExchange,
    Stream,
    TimeLimitError,
    __version__,
    current_stream,
    devices,
    threads,
)
from haloport._ranks import run_ranks

__all__ = [
    "BLOCK",
    "DEFAULT",
    "Array",
    "BoundKernel",
    "Communicator",
    "Device",
    "Event",
    "ExchangeError",
    "Grid",
    "InFlightError",
    "Kernel",
    "Layout",
    "LineExchange",
    "Mesh",
    "Pending",
    "PendingMessages",
    "Plan",
    "Redistribution",
    "RefusedError",
    "SparseExchange",
    "Stream",
    "TimeLimitError",
    "__version__",
    "abort_on_exception",
    "current_stream",
    "devices",
    "run_ranks",
    "threads",
]
