"""The kinds of processors, as ``ghex.util``."""

from enum import Enum
from typing import Any

__all__ = ["Architecture", "unwrap"]


class Architecture(Enum):
    """Where the memory of a field is."""

    CPU = "cpu"
    GPU = "gpu"


def unwrap(arg: Any) -> Any:
    """Returns `arg`: no object wraps one of C++ here."""
    return arg


def architecture_of(field: Any, given: Architecture | None) -> Architecture:
    """Returns where a field is: as `given` after a check, or by the protocols of the array if that is ``None``."""
    on_gpu = hasattr(field, "__cuda_array_interface__") or hasattr(field, "__hip_array_interface__")
    on_cpu = hasattr(field, "__array_interface__")
    found = {Architecture.GPU: on_gpu, Architecture.CPU: on_cpu}
    if given is None:
        given = Architecture.GPU if on_gpu else Architecture.CPU
    if not found[given]:
        wanted = "__cuda_array_interface__" if given is Architecture.GPU else "__array_interface__"
        raise TypeError(f"field: expected an array with {wanted}, found {type(field).__name__}")
    return given
