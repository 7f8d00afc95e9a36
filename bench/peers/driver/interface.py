"""The interface of `peers.h` and of `strategies/measure.h`, through ctypes."""

import ctypes as c

STAND_IN, FILLS_NOTHING = 1, 2


class Case(c.Structure):
    """`struct peers_case`: equal boxes."""

    _fields_ = [("local", c.c_int32 * 3), ("halo", c.c_int32), ("fields", c.c_int32), ("split", c.c_int32)]


class Mesh(c.Structure):
    """`struct peers_mesh`: one half of a mesh."""

    _fields_ = [
        ("owned", c.c_int32),
        ("halo", c.c_int32),
        ("levels", c.c_int32),
        ("nproma", c.c_int32),
        ("fields", c.c_int32),
        ("sends", c.c_int32),
        ("ids", c.POINTER(c.c_int64)),
        ("send", c.POINTER(c.c_int32)),
        ("source", c.POINTER(c.c_int32)),
    ]


class Transpose(c.Structure):
    """`struct peers_transpose`."""

    _fields_ = [("cells", c.c_int32 * 3), ("fields", c.c_int32)]


Run = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int)
Hook = c.CFUNCTYPE(None, c.c_void_p)


class Strategy(c.Structure):
    """`struct peers_strategy`."""

    _fields_ = [
        ("name", c.c_char_p),
        ("create", c.CFUNCTYPE(c.c_void_p, c.c_int, c.c_void_p)),
        ("run", Run),
        ("field", c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_int)),
        ("load", Hook),
        ("store", Hook),
        ("destroy", Hook),
        ("stand_in", c.c_int),
    ]


class Runner(c.Structure):
    """`struct peers_runner`."""

    _fields_ = [("run", Run), ("state", c.c_void_p), ("idle", Run), ("writes", c.c_void_p)]


# The kinds of problems: what stands in the names of their functions, and their structure.
PROBLEMS = {"": Case, "_mesh": Mesh, "_sum": Mesh, "_transpose": Transpose}


def load(path):
    """Loads the library of the C strategies and of the clock, with the types of its functions."""
    library = c.CDLL(path, mode=c.RTLD_GLOBAL)
    library.peers_max.argtypes = [c.c_int, c.c_double]
    library.peers_max.restype = c.c_double
    library.peers_handover.argtypes = [c.c_int]
    library.peers_handover.restype = c.c_double
    library.peers_calibrate.argtypes = [c.c_int, c.c_int, c.POINTER(Runner), c.c_double, c.POINTER(c.c_int32)]
    library.peers_measure.argtypes = [
        c.c_int, c.c_int, c.POINTER(Runner), c.POINTER(c.c_int32), c.c_int, c.c_double, c.c_uint64, c.c_int,
        c.c_int64, c.c_int, c.POINTER(c.c_double), c.POINTER(c.c_uint8),
    ]  # fmt: skip
    rank_size, field_version = [c.c_int, c.c_int], [c.c_int, c.c_int]
    for name, problem in PROBLEMS.items():
        place = [c.POINTER(problem), *([] if problem is Mesh else rank_size), *field_version]
        fill, wrong = getattr(library, f"peers{name}_fill"), getattr(library, f"peers{name}_wrong")
        fill.argtypes, fill.restype = [*place, c.c_void_p], None
        wrong.argtypes, wrong.restype = [*place, c.c_int, c.c_void_p], c.c_int64
        if writes := getattr(library, f"peers{name}_writes", None):
            writes.argtypes, writes.restype = [c.POINTER(problem), c.POINTER(c.c_void_p)], c.c_void_p
    library.peers_writes_free.argtypes, library.peers_writes_free.restype = [c.c_void_p], None
    return library


def strategies(library, name):
    """Returns the contestants of a library for problems of a kind."""
    try:
        begin = getattr(library, f"peers{name}_strategies")
    except AttributeError:
        return []
    begin.restype = c.POINTER(Strategy)
    entries, at = begin(), 0
    found = []
    while entries[at].name:
        found.append(entries[at])
        at += 1
    return found
