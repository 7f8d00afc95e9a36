"""The Python package of GHEX 0.9.0 over Haloport: for programs that were written for GHEX.

Either import it in its place::

    import haloport.ghex as ghex
    from haloport.ghex.context import make_context

or call ``haloport.ghex.install()`` before other modules import GHEX, such as those of ICON4Py.

Patterns, communication objects, handles and field descriptors have the methods that GHEX's have, and behave as they do.
The differences:

- Each communication object makes a plan at its first exchange of fields of given patterns, element types and numbers of
  levels. That is collective: all ranks of the pattern take part in this first exchange, also those without neighbours.
  Make a communication object once, not in each step.
- The domains of a structured pattern cover the grid, and each cell or global index is owned by one domain. Otherwise, as
  for an index of a halo that no domain owns, ``make_pattern`` raises ``haloport.RefusedError`` on every rank.
- An exchange takes as many fields of each domain of a rank; each rank has at least one domain.
- The earlier exchange of a communication object may be in flight when the next one begins, unless it is one of the same
  kinds of fields: that raises ``haloport.InFlightError``, a ``RuntimeError``.
- Fields may have any element type and any strides.
- There are no addresses of C++ objects: ``expose_cpp_ptr`` raises ``NotImplementedError``.
"""

import importlib
import sys
from typing import Any, Final

from haloport._haloport import devices
from haloport.ghex._mpi import mpi_comm, mpi_finalize, mpi_init, mpi_is_finalized, mpi_is_initialized

__all__ = [
    "config",
    "expose_cpp_ptr",
    "install",
    "mpi_comm",
    "mpi_finalize",
    "mpi_init",
    "mpi_is_finalized",
    "mpi_is_initialized",
    "print_config",
]

__version__: Final = "0.9.0"
__config__: dict[str, Any]
"""The result of ``config()``, made when it is first asked for."""

_MODULES: Final = (
    "context",
    "structured",
    "structured.cartesian_sets",
    "structured.regular",
    "unstructured",
    "util",
)


def config() -> dict[str, Any]:
    """Returns how this GHEX was configured.

    Returns
    -------
    dict
        ``"transport"``: ``"Haloport"``. ``"gpu"``: whether there is a CUDA device. ``"gpu_mode"``: ``"cuda"`` or
        ``"none"``. ``"xpmem"``: ``False``. ``"version"``: the version of GHEX whose names these are.
    """
    gpu = any(device.backend == "cuda" for device in devices())
    mode = "cuda" if gpu else "none"
    return {"transport": "Haloport", "gpu": gpu, "gpu_mode": mode, "xpmem": False, "version": __version__}


def print_config(config: dict[str, Any]) -> None:
    """Prints a configuration, one line for each entry."""
    print("GHEX's configuration:")
    for name, value in config.items():
        print(f"     {name:<16}: {value!s:>10}")


def expose_cpp_ptr(obj: Any) -> int:
    """Raises ``NotImplementedError``: there is no C++ object behind `obj`."""
    raise NotImplementedError(
        f"expose_cpp_ptr: {type(obj).__name__} of haloport.ghex has no C++ object; build GHEX to pass one to C++"
    )


def install() -> None:
    """Puts this package in place of ``ghex`` for all modules that are imported afterwards.

    Calling it again does nothing.

    Raises
    ------
    RuntimeError
        If GHEX itself was imported before.
    """
    this = sys.modules[__name__]
    found = sys.modules.get("ghex", this)
    if found is not this:
        raise RuntimeError(
            f"haloport.ghex.install: ghex was imported before, from {getattr(found, '__file__', None)}; call install first"
        )
    sys.modules["ghex"] = this
    for name in _MODULES:
        sys.modules[f"ghex.{name}"] = importlib.import_module(f"{__name__}.{name}")


def __getattr__(name: str) -> Any:
    if name == "__config__":
        globals()[name] = config()
        return globals()[name]
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__} has no attribute {name}")
