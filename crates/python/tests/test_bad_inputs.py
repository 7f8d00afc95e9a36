"""Bad arrays and arguments raise what they should, and never end the process.

====================================================  ==============================
what goes wrong                                       raises
====================================================  ==============================
no protocol, not a stream, a wrong type               ``TypeError``
read-only, a copy needed, another device, type, order ``BufferError``
a malformed member, a number out of range, a layout   ``ValueError``
no driver, no MPI                                     ``haloport.ExchangeError``
no memory                                             ``MemoryError``
====================================================  ==============================

Exceptions of the caller's own objects are passed on. Every rank runs these tests alone.
"""

from __future__ import annotations

import ctypes
import gc
import math
import random
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import world

import haloport as hp

HUGE = 2**62
MOST = 2**63


class Case(NamedTuple):
    """A call that fails."""

    name: str
    call: Callable[[], Any]
    kind: type[BaseException] | tuple[type[BaseException], ...]
    text: str = ""
    """A part of the message."""


def check(case: Case) -> None:
    with pytest.raises(case.kind) as found:
        case.call()
    assert case.text in str(found.value)
    # What was found is shown, but not all of a long list.
    assert len(str(found.value)) < 600


def alone() -> hp.Communicator:
    return hp.threads(1)[0]


def grid(*shape: int, **options: Any) -> hp.Grid:
    return hp.Grid(shape or (8,), comm=alone(), **options)


def plan(*fields: Any, **options: Any) -> hp.Plan:
    return grid().plan(*(fields or (np.zeros(10),)), **options)


def mesh(cells: int = 2) -> hp.Mesh:
    return hp.Mesh(range(cells), cells, comm=alone())


def identifier(name: str) -> str:
    """The name of a test, the same in every process: without addresses."""
    return re.sub(r"0x[0-9a-f]*|\d{13,15}\b", "address", name).encode("ascii", "replace").decode()


class Endless:
    """An iterable without an end, of ``value``."""

    def __init__(self, value: Any = 1) -> None:
        self.value = value

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield self.value


class Boastful(list):
    """A list that promises more than it has."""

    def __len__(self) -> int:
        return 2**60


class Raising:
    """An object with an attribute that raises an error."""

    def __init__(self, error: BaseException, attribute: str) -> None:
        self.raising = (error, attribute)

    def __getattribute__(self, name: str) -> Any:
        if name != "raising" and name == self.raising[1]:
            raise self.raising[0]
        return object.__getattribute__(self, name)


class Odd(Exception):
    """An exception that cannot be made of a text."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(one, other)


# Arguments -----------------------------------------------------------------------------------------------------------------

COUNTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "threads": ("ranks", hp.threads),
    "shape of a grid": ("shape", lambda n: hp.Grid((8, n), comm=alone())),
    "halo": ("halo", lambda n: grid(halo=n)),
    "halo of an axis": ("halo", lambda n: grid(halo=(n,))),
    "halo of a side": ("halo", lambda n: grid(halo=((1, n),))),
    "parts": ("parts", lambda n: grid(parts=(n,))),
    "domain": ("domain", lambda n: grid().indices(n)),
    "levels": ("levels", lambda n: grid().empty(levels=n)),
    "levels of a mesh": ("levels", lambda n: mesh().empty(levels=n)),
    "in flight": ("in_flight", lambda n: plan(in_flight=n)),
    "in flight on a mesh": ("in_flight", lambda n: mesh().plan(np.zeros(2), in_flight=n)),
    "cells of lists": ("cells", lambda n: hp.Mesh.from_lists(n, {}, {}, comm=alone())),
    "neighbour of lists": ("sends", lambda n: hp.Mesh.from_lists(2, {n: [0]}, {}, comm=alone())),
    "shape of a layout": ("shape", lambda n: hp.Layout((8, n), "f8")),
    "origin of a layout": ("origin", lambda n: plan(hp.Layout((10,), "f8", origin=(n,)))),
    "axis": ("axes", lambda n: plan(axes=(n,))),
    "size of a kernel": ("size", lambda n: hp.Kernel("k", None, [], host=lambda size: None)((4, n))),
}
"""Arguments that are numbers from 0 on: their names in errors, and a call with each."""


def counts() -> Iterator[Case]:
    """Values that are no numbers, and numbers that are too small or too large."""
    for name, (argument, call) in COUNTS.items():
        for value in (0.5, math.nan, 1 + 2j, b"8", object(), ...):
            yield Case(f"{name} = {type(value).__name__} {value!r:.9}", lambda c=call, v=value: c(v), TypeError, argument)
        for value in (-1, -(2**70), 2**64, 2**200):
            yield Case(f"{name} = {value:.2g}", lambda c=call, v=value: c(v), ValueError, argument)
        # The same as a scalar of NumPy.
        yield Case(f"{name} = int8(-1)", lambda c=call: c(np.int8(-1)), ValueError, argument)
        if name != "size of a kernel":
            yield Case(f"{name} = 2^62", lambda c=call: c(HUGE), (ValueError, MemoryError))


SEQUENCES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "shape of a grid": ("shape", lambda s: hp.Grid(s, comm=alone())),
    "halo": ("halo", lambda s: grid(halo=s)),
    "periodic": ("periodic", lambda s: grid(periodic=s)),
    "parts": ("parts", lambda s: grid(parts=s)),
    "domains": ("domains", lambda s: grid(domains=s)),
    "lower": ("domains", lambda s: grid(domains=[(s, (8,))])),
    "upper": ("domains", lambda s: grid(domains=[((0,), s)])),
    "shape of a layout": ("shape", lambda s: hp.Layout(s, "f8")),
    "strides of a layout": ("strides", lambda s: hp.Layout((3,), "f8", strides=s)),
    "axes of a layout": ("axes", lambda s: hp.Layout((3,), "f8", s)),
    "origin of a layout": ("origin", lambda s: hp.Layout((3,), "f8", origin=s)),
    "axes of a plan": ("axes", lambda s: plan(axes=s)),
    "parameters": ("parameters", lambda s: hp.Kernel("k", None, s, host=print)),
    "domains of a mesh": ("domains", lambda s: hp.Mesh.of_domains(s, comm=alone())),
}
"""Arguments that are lists."""


def sequences() -> Iterator[Case]:
    """Values that are no lists, and lists whose entries are wrong, that never end, or that promise to be huge."""
    for name, (argument, call) in SEQUENCES.items():
        for value in (0.5, "text", b"bytes", object(), [object()], [None], [0.5], [[[]]]):
            yield Case(f"{name} = {value!r:.9}", lambda c=call, v=value: c(v), TypeError, argument)
        # Not the length alone: memory for it would end the process.
        for value in (range(2**40), range(2**60), Endless(), Boastful([1] * 70)):
            yield Case(f"{name} = {type(value).__name__} {value!r:.9}", lambda c=call, v=value: c(v), (TypeError, ValueError))
        for error in (RuntimeError("of the caller"), KeyboardInterrupt(), Odd(1, 2)):
            raising = raise_in_iterator(error)
            yield Case(f"{name} raises {type(error).__name__}", lambda c=call, r=raising: c(r), type(error))
    for argument in ("corners", "periodic"):
        for value in (1, 0.5, "no", object()):
            yield Case(f"{argument} = {value!r:.9}", lambda a=argument, v=value: grid(**{a: v}), TypeError, argument)
    for value in (1, 0.5, "no", [], object()):
        yield Case(f"fixed = {value!r:.9}", lambda v=value: plan(fixed=v), TypeError, "fixed")
    for argument in ("time_limit", "warn_after"):
        for value in (math.nan, math.inf, -1, -0.0, 0, 1e300, 2**70, -(2**2000)):
            call = lambda a=argument, v=value: setattr(alone(), a, v)
            yield Case(f"{argument} = {str(value):.9}", call, ValueError, argument)
        for wrong in ("1", [], object(), 1j):
            call = lambda a=argument, v=wrong: setattr(alone(), a, v)
            yield Case(f"{argument} = {wrong!r:.9}", call, TypeError, argument)


def raise_in_iterator(error: BaseException) -> Any:
    class Iterable:
        def __iter__(self) -> Any:
            raise error

    return Iterable()


def lists_of_cells() -> Iterator[Case]:
    """Lists of ids and of indices."""
    ids = lambda value: hp.Mesh(value, 0, comm=alone())
    for value in (0.5, "ab", [0.5], [None], [object()], ["1"], [1j], np.zeros(2), np.array(["a"]), [2**64]):
        yield Case(f"ids = {value!r:.16}", lambda v=value: ids(v), TypeError, "ids")
    for value in (5, [[1, 2]], [[]], [-1], np.array([MOST], np.uint64), np.array([2**64 - 1, 0], np.uint64)):
        yield Case(f"ids = {value!r:.16}", lambda v=value: ids(v), ValueError)
    owned = lambda value: hp.Mesh([4, 5], value, comm=alone())
    for value in (-1, 3, HUGE, 2**70, -(2**70), [True], [True] * 3, [], [[True]]):
        yield Case(f"owned = {value!r:.16}", lambda v=value: owned(v), ValueError, "owned")
    for value in (0.5, "ab", [1, 0], [0.5, 1], [None, None], None):
        yield Case(f"owned = {value!r:.16}", lambda v=value: owned(v), TypeError, "owned")
    owners = lambda value: hp.Mesh([4, 5], 1, value, comm=alone())
    for value in ([0, -1], [0, 7], [0, HUGE], [0, 0], [0], [0, 0, 0], [], 5, [[0, 0]]):
        yield Case(f"owners = {value!r:.16}", lambda v=value: owners(v), ValueError)
    for value in ([0, 0.5], ["a", "b"], object()):
        yield Case(f"owners = {value!r:.16}", lambda v=value: owners(v), TypeError, "owners")
    fill = lambda value: hp.Mesh([4, 5], 1, fill=value, comm=alone())
    yield Case("fill of no halo", lambda: fill([9]), hp.RefusedError, "9")
    yield Case("fill of texts", lambda: fill(["a"]), TypeError, "fill")
    yield Case("no owner", lambda: hp.Mesh([4, 5], 1, comm=alone()).plan(np.zeros(2)), hp.RefusedError, "5")
    yield Case("two owners", lambda: hp.Mesh([4, 4], 2, comm=alone()), hp.RefusedError, "4")
    lists = lambda sends, receives={}: hp.Mesh.from_lists(4, sends, receives, comm=alone())
    for value in (5, None, [1], "ab", {"a": [1]}, {0: ["a"]}, {0: [0.5]}, {0.5: [1]}):
        yield Case(f"sends = {value!r:.16}", lambda v=value: lists(v), TypeError, "sends")
    for value in ({0: 5}, {0: [-1]}, {0: [2**32]}, {0: [99]}, {7: [1]}, {0: [1]}, {0: [[1]]}, {2**70: [1]}):
        yield Case(f"sends = {value!r:.16}", lambda v=value: lists(v), ValueError)
    yield Case("items that are no pairs", lambda: lists(SimpleNamespace(items=lambda: [5])), TypeError, "sends")
    split = lambda value: mesh().split(value)
    for value in (5, None, [["a"], ["b"]], [[0.5], [1]], np.array(3), object()):
        yield Case(f"neighbours = {value!r:.16}", lambda v=value: split(v), TypeError, "neighbours")
    for value in ([], [[0]], [[1], [2, 3]], np.array([[MOST], [0]], np.uint64)):
        yield Case(f"neighbours = {value!r:.16}", lambda v=value: split(v), ValueError)
    lying = type("Lying", (), {"shape": (HUGE, HUGE), "__len__": lambda self: 5})
    yield Case("neighbours that lie", lambda: split(lying()), TypeError, "neighbours")


def arguments() -> Iterator[Case]:
    """Everything else."""
    for value in ("world", 0.5, True, object(), [], b"", SimpleNamespace(rank=0, size=1)):
        for name, call in (("Communicator", hp.Communicator), ("Grid", lambda c: hp.Grid((8,), comm=c))):
            yield Case(f"{name} of {value!r:.9}", lambda c=call, v=value: c(v), TypeError, "comm")
    for value in (2**70, -(2**70), 1, 5, 99, -1, -2, 2**16 - 1):
        yield Case(f"comm = {value}", lambda v=value: hp.Communicator(v), ValueError, "comm: expected the handle")
    yield Case("comm = 0", lambda: hp.Communicator(0), hp.ExchangeError, "MPI")

    names = ("", "\0", "gpu", "cpu:", "cpu:1", "cpu:threads=0", "cpu:threads=x", f"cpu:threads={HUGE}", "CPU", "é" * 50)
    for name in (*names, "cuda:x", f"cuda:{2**70}", "sycl:tpu", "auto:0"):
        yield Case(f"device {name!r:.20}", lambda n=name: hp.Device(n), ValueError)
    for value in (5, 0.5, object(), [], b"cpu"):
        for kind in (hp.Device, hp.Stream, hp.Event, lambda v: hp.Layout((3,), "f8", device=v), lambda v: grid().empty(device=v)):
            yield Case(f"device {value!r:.9} of {kind}", lambda k=kind, v=value: k(v), TypeError, "device")
    for value in ("nonsense", 5, object(), "i3"):
        yield Case(f"dtype {value!r:.9}", lambda v=value: grid().empty(v), TypeError, "dtype")
    texts = ["T"] if hasattr(np.dtypes, "StringDType") else []
    for value in ("O", ">f8", "g", "G", *texts, "S0", "V0", [("a", "O")], ">M8[s]", [("a", "f4"), ("b", [("c", "O")])]):
        for call in (lambda v: hp.Layout((10,), v), lambda v: grid().empty(v)):
            yield Case(f"dtype {value!r:.9}", lambda c=call, v=value: c(np.dtype(v)), BufferError, "dtype")

    for kind in (hp.Plan, hp.Pending, hp.Array):
        yield Case(f"{kind.__name__}()", kind, TypeError, "cannot create")
    for stream in (hp.Event(), SimpleNamespace(handle=SimpleNamespace(value=5), elapsed_time=None)):
        yield Case(f"{type(stream)} for a stream", lambda s=stream: plan()(np.zeros(10), stream=s), TypeError, "the event")
    yield Case("an event for no stream", lambda: hp.Event().wait("5"), TypeError, "stream")
    yield Case("time between no events", lambda: hp.Event().elapsed(5), TypeError)
    yield Case("time since no record", lambda: hp.Event().elapsed(hp.Event()), ValueError, "never recorded")
    for value in ("urgent", 1, b"low"):
        yield Case(f"priority {value!r}", lambda v=value: hp.Stream(priority=v), (TypeError, ValueError), "priority")
    yield Case("the handle of no CUDA", lambda: hp.Stream().__cuda_stream__(), TypeError, "CUDA")

    def kernel(*parameters: str) -> hp.Kernel:
        return hp.Kernel("k", None, parameters, host=lambda *arguments: None)

    yield Case("no parameter type", lambda: kernel("f16"), ValueError, "parameters")
    yield Case("names of types as one text", lambda: hp.Kernel("k", None, "i32", host=print), TypeError, "parameters")
    yield Case("a name of another type", lambda: hp.Kernel(5, None, [], host=print), TypeError)
    yield Case("no function", lambda: hp.Kernel("k", None, []), ValueError, "host")
    yield Case("a function of another type", lambda: hp.Kernel("k", None, [], host=5), TypeError, "host")
    constant = lambda value: hp.Kernel("k", None, [], constants=value, host=print)
    for value in (5, ["N"], "N", {5: 1}, {"N": "1"}, {"N": None}, {"N": 1j}):
        yield Case(f"constants = {value!r}", lambda v=value: constant(v), TypeError, "constants")
    for value in ({"": 1}, {"2N": 1}, {"N+": 1}, {"N": MOST}, {"N": math.inf}, {"N": math.nan}):
        yield Case(f"constants = {value!r}", lambda v=value: constant(v), ValueError, "constants")
    yield Case("too few arguments", lambda: kernel("i32")(4), ValueError, "expected 1 arguments, found 0")
    for parameter, values in {
        "i32": (0.5, "x", None, []),
        "i64": (0.5, "x", None, []),
        "f32": ("x", None, [], 1j),
        "f64": ("x", None, [], 1j),
        "pointer": (5, "x", None, [0.0]),
    }.items():
        for value in values:
            yield Case(f"{parameter} = {value!r}", lambda p=parameter, v=value: kernel(p)(4, v), TypeError, "argument 0")
    yield Case("i32 = 2^31", lambda: kernel("i32")(4, 2**31), ValueError, "argument 0")
    yield Case("i64 = 2^63", lambda: kernel("i64")(4, MOST), ValueError, "argument 0")
    yield Case("four axes", lambda: kernel()((1, 2, 3, 4)), ValueError, "size")
    yield Case("no axis", lambda: kernel()(()), ValueError, "size")
    raising = hp.Kernel("k", None, [], host=lambda size: 1 // 0)
    yield Case("a function that raises", lambda: raising(4), ZeroDivisionError)

    yield Case("no fields", lambda: grid().plan(), ValueError, "one field or more")
    yield Case("too few fields", lambda: plan()(), ValueError, "expected 1 fields, found 0")
    yield Case("too many fields", lambda: plan()(np.zeros(10), np.zeros(10)), ValueError, "expected 1 fields, found 2")
    yield Case("a layout as an array", lambda: plan()(hp.Layout((10,), "f8")), TypeError, "expected an array")
    yield Case("a fixed layout", lambda: plan(hp.Layout((10,), "f8"), fixed=True), TypeError, "a fixed plan keeps")
    yield Case("a fixed plan twice", lambda: plan(np.zeros(10), fixed=True, in_flight=2), ValueError, "in_flight")
    yield Case("an unknown sum", lambda: plan(np.zeros(10), accumulate="mean"), ValueError, "'sum', 'min', 'max' or 'replace'")
    yield Case("a number of sums", lambda: plan(np.zeros(10), accumulate=2), TypeError, "accumulate")
    yield Case("zeros alone", lambda: plan(np.zeros(10), zero_halo=True), hp.RefusedError, "without `accumulate`")
    yield Case("the least of complex numbers", lambda: plan(np.zeros(10, "c16"), accumulate="min"), hp.RefusedError, "no `min`")
    yield Case("others for a fixed plan", lambda: plan(np.zeros(10), fixed=True)(np.zeros(10)), ValueError, "found others")
    yield Case("copies of a fixed plan", lambda: plan(np.zeros(10), fixed=True).functional(np.zeros(10)), ValueError, "fixed")
    for value in (5, [0.0] * 10, None, object()):
        yield Case(f"a copy of {value!r:.9}", lambda v=value: plan().functional(v), TypeError)
    for axes, text in {
        ("a", 0): 'found "a"',
        (0, 1): "axes of the grid from 0 to 0",
        (0, 0): "once",
        (1, "levels"): "axis 0 of the grid once",
        (0, "blocks"): 'no "blocks" on a grid',
        (0,): "expected one for each of 2 axes",
        (0, "levels", "levels"): "expected one for each of 2 axes",
    }.items():
        call = lambda a=axes: plan(np.zeros((10, 2)), axes=a)
        yield Case(f"axes = {axes!r}", call, ValueError, text)
    three = np.zeros((10, 2, 2))
    for name in ("components", "blocks"):
        call = lambda n=name: plan(three, axes=(0, n, n))
        yield Case(f"two axes of {name}", call, ValueError, f'"{name}"')
    for options, text in {
        "strides=(8, 16)": "strides: expected one for each of 1 axes",
        "strides=(12,)": "strides: expected multiples of the 8 bytes of an element, found 12",
        "strides=(0,)": "strides",
        f"strides=({HUGE},)": "memory can hold",
        f"strides=({-MOST},)": "memory can hold",
        f"strides=({MOST},)": "memory can hold",
        f"strides=({2**70},)": "strides: expected fewer than 2^63 elements of 8 bytes",
        "origin=(9,)": "axis 0",
        f"origin=({2**64 - 3},)": "memory can hold",
        "origin=(1, 1)": "origin",
        "origin=(3,)": "room",
    }.items():
        given = eval(f"dict({options})")
        yield Case(f"layout, {options}", lambda g=given: plan(hp.Layout((10,), "f8", **g)), ValueError, text)
    yield Case("a huge layout", lambda: plan(hp.Layout((2**64 - 1,), "f8", strides=(8,), origin=(1,))), ValueError, "memory")
    yield Case("huge levels", lambda: plan(hp.Layout((10, MOST), "f8", strides=(8, 80))), ValueError, "axis 1")
    yield Case("parts and domains", lambda: grid(parts=(1,), domains=[]), ValueError, "leave the others out")
    yield Case("a grid without axes", lambda: hp.Grid((), comm=alone()), ValueError, "axes")
    yield Case("a grid of 5 axes", lambda: grid(1, 1, 1, 1, 1), ValueError, "axes")
    yield Case("a grid without cells", lambda: grid(0, 8), ValueError, "axis 0")
    yield Case("a huge grid", lambda: grid(2**40, 2**40), ValueError, "too large")
    yield Case("a huge array", lambda: grid(2**40).empty(), MemoryError)
    yield Case("huge indices", lambda: grid(2**40).indices(), MemoryError)
    yield Case("a huge halo", lambda: grid(halo=2**31 - 1, periodic=True), hp.RefusedError, "halo")
    least, most = (-MOST,), (MOST - 1,)
    for name, domains in {
        "too few cells": [((0,), (7,))],
        "too many cells": [((0,), (9,))],
        "cells twice": [((0,), (8,)), ((7,), (8,))],
        "all integers": [(least, most)],
        "the wrong way": [((8,), (0,))],
        "other axes": [((0, 0), (8, 8))],
    }.items():
        yield Case(f"domains with {name}", lambda d=domains: grid(domains=d), ValueError)
    several = grid(domains=[((0,), (4,)), ((4,), (8,))])
    yield Case("the shape of two domains", lambda: several.shape, ValueError, "expected one domain")
    for value in (np.zeros(6), 5, [np.zeros(6)], [np.zeros(6)] * 3, Endless(np.zeros(6)), np.zeros((2, 6))):
        call = lambda v=value: several.plan(v)
        yield Case(f"{type(value).__name__} {value!r:.9} for two domains", call, (TypeError, ValueError), "field 0")
    passing = several.plan([np.zeros(6), np.zeros(6)])
    for value in (5, [np.zeros(6)], [np.zeros(6)] * 3, Endless(np.zeros(6)), [np.zeros(6), np.zeros(7)]):
        for method in (passing.__call__, passing.start, passing.functional):
            call = lambda m=method, v=value: m(v)
            yield Case(f"{method.__name__} of {value!r:.9}", call, (TypeError, ValueError))


def lengths() -> Iterator[Case]:
    """Lists with other than one value for each of two axes. A value for all axes is no list."""
    per_axis: dict[str, tuple[str, Any, Callable[[Any], Any]]] = {
        "halo": ("halo", 1, lambda s: grid(8, 8, halo=s)),
        "halo of sides": ("halo", (1, 0), lambda s: grid(8, 8, halo=s)),
        "periodic": ("periodic", True, lambda s: grid(8, 8, periodic=s)),
        "parts": ("parts", 1, lambda s: grid(8, 8, parts=s)),
        "lower": ("domains", 0, lambda s: grid(8, 8, domains=[(s, (8, 8))])),
        "upper": ("domains", 8, lambda s: grid(8, 8, domains=[((0, 0), s)])),
        "strides of a layout": ("strides", 1, lambda s: hp.Layout((10, 10), "f8", strides=s)),
        "origin of a layout": ("origin", 1, lambda s: grid(8, 8).plan(hp.Layout((12, 12), "f8", origin=s))),
        "axes of a layout": ("axes", "levels", lambda s: grid(8, 8).plan(hp.Layout((10, 10), "f8", s))),
        "axes of a plan": ("axes", "levels", lambda s: grid(8, 8).plan(np.zeros((10, 10)), axes=s)),
    }
    for name, (argument, value, call) in per_axis.items():
        for number in (0, 1, 3, 4):
            values = [value] * number
            yield Case(f"{name} of {number} axes", lambda c=call, v=values: c(v), ValueError, argument)
            if argument in ("halo", "periodic", "parts"):
                found = f"one for each of 2, found {number if number < 2 else 'more'}: {values}"
                yield Case(f"{name} of {number} axes, in words", lambda c=call, v=values: c(v), ValueError, found)


# Arrays --------------------------------------------------------------------------------------------------------------------


def arrays_of_numpy() -> Iterator[Case]:
    """Arrays of NumPy and buffers that a plan refuses, or that it cannot be made for."""
    read_only = np.zeros(10)
    read_only.flags.writeable = False
    one = np.zeros(1)
    broken = {
        "read-only": (read_only, "read-only"),
        "bytes": (b"x" * 80, "read-only"),
        "broadcast": (np.lib.stride_tricks.as_strided(one, (10,), (0,), writeable=True), "address of its own"),
        "unaligned": (np.zeros(81, np.int8)[1:].view("f8"), "aligned"),
        "parts of elements": (np.ndarray(10, "f8", bytearray(200), strides=(12,)), "multiples"),
        "the other byte order": (np.zeros(10, ">f8"), ">f8"),
        "objects": (np.zeros(10, object), "Python objects"),
        "records with objects": (np.zeros(10, [("a", "O")]), "Python objects"),
        "long doubles": (np.zeros(10, "g"), "dtype"),
        "a type without bytes": (np.zeros(10, "V0"), "dtype"),
    }
    for name, (array, text) in broken.items():
        yield Case(f"a plan for {name}", lambda a=array: plan(a), BufferError, text)
        yield Case(f"a fixed plan for {name}", lambda a=array: plan(a, fixed=True), BufferError, text)
        for method in ("__call__", "start"):
            yield Case(f"{method} of {name}", lambda a=array, m=method: getattr(plan(), m)(a), BufferError, "field 0")
    for name, (array, kind, text) in {
        "more cells": (np.zeros(11), ValueError, "axis 0: expected extent 10, found 11"),
        "fewer cells": (np.zeros(9), ValueError, "axis 0: expected extent 10, found 9"),
        "no cells": (np.zeros(0), ValueError, "found 0"),
        "another stride": (np.zeros(20)[::2], ValueError, "expected a stride of 8 bytes, found 16"),
        "the other direction": (np.zeros(10)[::-1], ValueError, "expected a stride of 8 bytes, found -8"),
        "more axes": (np.zeros((10, 1)), ValueError, "axes: expected 1, found 2"),
        "no axis": (np.zeros(()), ValueError, "axes: expected 1, found 0"),
        "another type": (np.zeros(10, "i8"), BufferError, "expected elements of dtype float64, found int64"),
        "a smaller type": (np.zeros(10, "f4"), BufferError, "expected elements of dtype float64, found float32"),
        "records of 8 bytes": (np.zeros(10, "V8"), BufferError, "expected elements of dtype float64, found records of 8 bytes"),
    }.items():
        # A copy has strides of its own.
        for method in ("__call__", "start") if "stride" in text else ("__call__", "start", "functional"):
            yield Case(f"{method} with {name}", lambda a=array, m=method: getattr(plan(), m)(a), kind, text)
    for expected, found in (
        ("M8[s]", "M8[ns]"),
        ("M8[s]", "m8[s]"),
        ("i8", "M8[s]"),
        ("M8[s]", "i8"),
        ("S8", "V8"),
        ("<U2", ">U2"),
        ([("a", "f4"), ("b", "f4")], [("b", "f4"), ("a", "f4")]),
        ([("a", "f4"), ("b", "f4")], "V8"),
    ):
        made, other = np.zeros(10, expected), np.zeros(10, found)
        for method in ("__call__", "start", "functional"):
            yield Case(
                f"{method} with {found} for {expected}",
                lambda m=made, o=other, call=method: getattr(plan(m), call)(o),
                BufferError,
                "field 0: expected elements of dtype",
            )
    deep: Any = "i4"
    for _ in range(40):
        deep = [("a", deep)]
    yield Case("records within 40 others", lambda: plan(np.zeros(10, deep)), BufferError, "at most 32 others")
    for value in (5, "text", None, object(), [0.0] * 10, {}, print, hp, int, 1.5, NotImplemented, ..., range(10)):
        for method in ("__call__", "start", "plan", "fixed"):
            call = {
                "plan": lambda v: grid().plan(v),
                "fixed": lambda v: grid().plan(v, fixed=True),
                "__call__": lambda v: plan()(v),
                "start": lambda v: plan().start(v),
            }[method]
            yield Case(f"{method} of {value!r:.12}", lambda c=call, v=value: c(v), TypeError, "field 0: expected an array")
    yield Case("axes in place of a shape", lambda: hp.Grid(64, 48), TypeError, r"as in Grid((64, 48)), found 2 arguments by position")  # type: ignore[call-arg]
    named = lambda name, module: type(name, (), {"__module__": module, "shape": (10,), "dtype": np.dtype("f8")})
    both = (np.zeros(10), np.zeros(10))
    for what, value, text in (
        ("xarray", named("DataArray", "xarray.core.dataarray")(), "u.data"),
        ("xarray's variables", named("Variable", "xarray.core.variable")(), "u.data"),
        ("dask", named("Array", "dask.array.core")(), "u.compute()"),
        ("a tuple of fields", both, "each array as an argument of its own"),
        ("a list of fields", [*both], "each array as an argument of its own"),
        ("a dict of fields", {"u": both[0]}, "each array as an argument of its own"),
    ):
        for how, call in (("plan", lambda v: plan(v)), ("call", lambda v: plan()(v)), ("start", lambda v: plan().start(v))):
            yield Case(f"{how} of {what}", lambda c=call, v=value: c(v), TypeError, text)
        two = grid(domains=[((0,), (4,)), ((4,), (8,))])
        yield Case(f"{what} within a list", lambda t=two, v=value: t.plan([v, v]), TypeError, text)
    whole = np.zeros(20)
    yield Case("fields that overlap", lambda: plan(whole[:10], whole[5:15])(whole[:10], whole[5:15]), ValueError, "in common")
    yield Case("a field twice", lambda: plan(whole[:10], whole[:10], fixed=True), ValueError, "in common")
    immutable = type("ImmutableArray", (), {"__module__": "jax.fake"})
    yield Case("an array of JAX", lambda: plan()(immutable()), BufferError, "plan.functional")
    for what, members, text in (
        ("gradients", {"requires_grad": True}, "tensor.detach()"),
        ("a lazy conjugate", {"is_conj": lambda self: True}, "tensor.resolve_conj()"),
        ("a lazy negative", {"is_neg": lambda self: True}, "tensor.resolve_neg()"),
        ("no memory", {"is_meta": True}, "the device meta"),
        ("sparse elements", {"layout": "torch.sparse_coo"}, "tensor.to_dense()"),
    ):
        tensor = type("Tensor", (), {"__module__": "torch.fake", **members})
        yield Case(f"a tensor with {what}", lambda t=tensor: plan()(t()), BufferError, text)


MISSING = object()
HOST = np.zeros(64)
"""Memory of the host that the objects below say is that of a device."""
ADDRESS: int = HOST.ctypes.data


class WithInterface:
    """An object with one array interface."""

    flags = SimpleNamespace()

    def __init__(self, name: str, value: Any) -> None:
        setattr(self, name, value)


class Capsules:
    """An object with ``_get_capsule``."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def _get_capsule(self) -> Any:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


SHARED_MEMBERS: dict[str, list[tuple[Any, Any]]] = {
    "shape": [
        *((value, ValueError) for value in (MISSING, None, (-1,), (HUGE, HUGE), (2**70,), (1,) * 65, range(2**40), Endless())),
        *((value, TypeError) for value in (10, "10", (0.5,), object(), ("x",), (None,), 0.5)),
    ],
    "typestr": [
        *((value, ValueError) for value in (MISSING, None, "", "f", "<f", "é", "<f8 ", "<f-8", "<f" + "9" * 30, "|V0", "?f8")),
        *((value, BufferError) for value in (">f8", ">i4", "<f3", "<f16", "<i16", "|O8", "<U4", "<c2", "<M8")),
        *((value, TypeError) for value in (5, b"<f8", object(), np.float64, ["<f8"])),
    ],
    "data": [
        *((value, ValueError) for value in (MISSING, None, (0, False), (-1, False), (2**64, False), (2**64 - 8, False))),
        *((value, TypeError) for value in (5, ADDRESS, "x", (ADDRESS,), (ADDRESS, False, 1), ("x", False), (0.5, False))),
        ((ADDRESS + 1, False), BufferError),
    ],
    "version": [
        *((value, ValueError) for value in (MISSING, None, 0, 4, -1, 2**40, 2**70)),
        *((value, TypeError) for value in ("3", 3.0, object(), [])),
    ],
}
"""For each member of both interfaces, values and what they raise."""

CUDA_MEMBERS: dict[str, list[tuple[Any, Any]]] = {
    **SHARED_MEMBERS,
    "data": [*SHARED_MEMBERS["data"], ((ADDRESS, True), BufferError)],
    "version": [*SHARED_MEMBERS["version"], (1, ValueError)],
    "strides": [
        *((value, ValueError) for value in ((), (8, 8), (HUGE,), (-HUGE,), (2**70,), range(2**40), Endless())),
        *((value, TypeError) for value in (8, "8", (0.5,), object())),
        *((value, BufferError) for value in ((0,), (4,), (-12,))),
    ],
    "mask": [(value, BufferError) for value in (True, False, 0, object(), np.zeros(10, bool))],
    "stream": [
        *((value, ValueError) for value in (0, -1, -(2**63), 2**70)),
        *((value, TypeError) for value in ("1", 0.5, object(), [])),
    ],
}

SYCL_MEMBERS: dict[str, list[tuple[Any, Any]]] = {
    **SHARED_MEMBERS,
    "version": [*SHARED_MEMBERS["version"], (2, ValueError)],
    "strides": [
        *((value, ValueError) for value in ((), (1, 1), (HUGE,), (-HUGE,), (2**70,), range(2**40), Endless())),
        *((value, TypeError) for value in (1, "1", (0.5,), object())),
        ((0,), BufferError),
    ],
    "offset": [
        *((value, ValueError) for value in (-1, HUGE, MOST - 1, 2**70)),
        *((value, TypeError) for value in ("1", 0.5, object(), ())),
    ],
    "syclobj": [
        *((value, ValueError) for value in (MISSING, None, "", "nonsense", "opencl:gpu:0:0", "opencl:cpu:x", "gpu:opencl")),
        *((value, TypeError) for value in (5, 0.5, object(), [], b"gpu", Capsules(5), Capsules(None), Capsules("gpu"))),
        (Capsules(RuntimeError("the queue failed")), RuntimeError),
        (Capsules(Odd(1, 2)), Odd),
    ],
}

NO_DRIVER = (hp.ExchangeError, BufferError)
"""What a well-formed array of a device raises: without a driver the first, with one the second, as the memory is another."""


def interfaces() -> Iterator[Case]:
    """Objects that say that they are arrays on CUDA or of SYCL, with one wrong member."""
    for name, valid, members in (
        ("__cuda_array_interface__", {"version": 3}, CUDA_MEMBERS),
        ("__sycl_usm_array_interface__", {"version": 1, "syclobj": "opencl:cpu:0"}, SYCL_MEMBERS),
    ):
        valid = {"shape": (10,), "typestr": "<f8", "data": (ADDRESS, False), **valid}
        for member, values in members.items():
            for value, kind in values:
                changed = {key: found for key, found in {**valid, member: value}.items() if found is not MISSING}
                shown = "missing" if value is MISSING else f"{type(value).__name__} {value!r:.24}"
                text = f"`{member}`" if issubclass(kind, (TypeError, ValueError)) and member != "syclobj" else ""
                if member == "data" and kind is ValueError and value not in (MISSING, None):
                    text = "address"
                for how, call in (("plan", lambda a: plan(a)), ("call", lambda a: plan()(a))):
                    array = WithInterface(name, changed)
                    yield Case(f"{name}, {member} {shown}, {how}", lambda c=call, a=array: c(a), kind, text)
        for value in (None, 5, "text", [], (), object(), np.zeros(10)):
            array = WithInterface(name, value)
            yield Case(f"{name} = {value!r:.9}", lambda a=array: plan()(a), TypeError, "expected a dictionary")
        array = WithInterface(name, {})
        yield Case(f"{name} = {{}}", lambda a=array: plan()(a), ValueError, "version")
        array = WithInterface(name, valid)
        yield Case(f"{name} alone", lambda a=array: plan(a), NO_DRIVER)
        yield Case(f"{name} alone, fixed", lambda a=array: plan(a, fixed=True), NO_DRIVER)
        # On the plan of another device.
        yield Case(f"{name} for a plan of the CPU", lambda a=array: plan()(a), BufferError, "expected memory of cpu:0")
        kernel = hp.Kernel("k", None, ["pointer"], host=lambda *arguments: None)
        yield Case(f"{name} for a kernel", lambda a=array, k=kernel: k(4, a), BufferError, "expected memory of cpu:0")
        # dpctl's memory sets the flag of SYCL's interface if it can be written, so its arrays are asked.
        locked = WithInterface(name, {**valid, "data": (ADDRESS, "cuda" in name)})
        locked.flags = SimpleNamespace(writable=False)
        yield Case(f"{name}, read-only", lambda a=locked: plan()(a), BufferError, "read-only")
        empty = WithInterface(name, {**valid, "shape": (0,), "data": (0, False)})
        yield Case(f"{name} without cells", lambda a=empty: plan(a), (ValueError, *NO_DRIVER))


# DLPack --------------------------------------------------------------------------------------------------------------------

NAMES = {
    name: ctypes.create_string_buffer(name.encode())
    for name in (
        "dltensor", "dltensor_versioned", "used_dltensor", "used_dltensor_versioned", "dltensor2", "numpy", "SyclQueue",
    )
}
"""Names of capsules, which live as long as the process."""

Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

python = ctypes.PyDLL(None)
new_capsule = python.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
capsule_name = python.PyCapsule_GetName
capsule_name.restype, capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_uint64),
        ("strides", ctypes.c_uint64),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_uint64), ("deleter", Deleter)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_uint64),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


class Producer:
    """An object with DLPack, whose members and whose name of the capsule may be wrong."""

    def __init__(self, *, versioned: bool = True, name: str | None = "", extents: Any = (10,), steps: Any = None, **members: Any):
        self.memory = np.zeros(64)
        self.extents = (ctypes.c_int64 * max(len(extents), 1))(*extents)
        self.steps = (ctypes.c_int64 * max(len(steps), 1))(*steps) if steps is not None else None
        self.deleted = 0
        self.capsules: list[Any] = []
        self.managed: Any = Versioned(major=1) if versioned else Managed()
        self.managed.deleter = Deleter(self.delete)
        self.name = name if name != "" else "dltensor_versioned" if versioned else "dltensor"
        tensor = self.managed.tensor
        tensor.data, tensor.device_type, tensor.ndim = self.memory.ctypes.data, 1, len(extents)
        tensor.code, tensor.bits, tensor.lanes = 2, 64, 1
        tensor.shape = ctypes.addressof(self.extents)
        tensor.strides = 0 if self.steps is None else ctypes.addressof(self.steps)
        for member, value in members.items():
            setattr(tensor if hasattr(tensor, member) else self.managed, member, value)

    def delete(self, address: int) -> None:
        assert address == ctypes.addressof(self.managed)
        self.deleted += 1

    def __dlpack__(self, **options: Any) -> Any:
        name = None if self.name is None else ctypes.addressof(NAMES[self.name])
        capsule = new_capsule(ctypes.addressof(self.managed), name, None)
        self.capsules.append(capsule)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


TENSORS: list[tuple[dict[str, Any], Any, str]] = [
    *(({"name": name}, TypeError, "capsule") for name in (None, "dltensor2", "numpy", "SyclQueue")),
    *(({"name": name}, ValueError, "unused") for name in ("used_dltensor", "used_dltensor_versioned")),
    *(({"ndim": ndim}, ValueError, "`ndim`") for ndim in (-1, 65, 2**31 - 1, -(2**31))),
    *(({"shape": address}, ValueError, "`shape`") for address in (0, 1, ADDRESS + 4)),
    *(({"strides": address}, ValueError, "`strides`") for address in (1, ADDRESS + 4)),
    *(({"extents": extents}, ValueError, "`shape`") for extents in ((-1,), (-MOST,), (HUGE, HUGE), (MOST - 1, 2))),
    *(({"extents": extents}, ValueError, "") for extents in ((HUGE,), (11,), (9,), (0,), (), (10, 1))),
    *(({"steps": steps}, ValueError, "") for steps in ((HUGE,), (-MOST,), (2,), (-1,))),
    ({"steps": (0,)}, BufferError, "address of its own"),
    *(({"code": code}, BufferError, "") for code in (0, 1, 3, 4, 5, 6, 7, 8, 255)),
    *(({"bits": bits}, BufferError, "") for bits in (0, 1, 4, 8, 16, 32, 63, 80, 128, 255)),
    *(({"lanes": lanes}, BufferError, "") for lanes in (0, 2, 65535)),
    ({"bits": 0, "lanes": 8}, BufferError, "`dtype`"),
    ({"bits": 4, "lanes": 3}, BufferError, "`dtype`"),
    *(({"device_type": kind}, BufferError, "") for kind in (0, -1, 4, 7, 8, 9, 10, 11, 12, 15, 99, 2**31 - 1)),
    *(({"device_type": kind}, NO_DRIVER, "") for kind in (2, 13, 14)),
    *(({"device_id": number}, ValueError, "`device_id`") for number in (-1, -(2**31))),
    ({"data": 0}, ValueError, "`data`"),
    ({"data": ADDRESS + 4}, BufferError, "aligned"),
    ({"data": 2**64 - 16}, ValueError, "`data`"),
    ({"byte_offset": 4}, BufferError, "aligned"),
    *(({"byte_offset": offset}, ValueError, "") for offset in (2**64 - 1, 2**64 - 80)),
]
"""Members of a tensor that is else valid, and what they raise."""

VERSIONED: list[tuple[dict[str, Any], Any, str]] = [
    *(({"major": major}, BufferError, "version") for major in (0, 2, 2**32 - 1)),
    ({"flags": 1}, BufferError, "read-only"),
    ({"flags": 2}, BufferError, "copy"),
    ({"flags": 2**64 - 1}, BufferError, "read-only"),
]


def tensors() -> list[Any]:
    forms = [(False, case) for case in TENSORS] + [(True, case) for case in TENSORS + VERSIONED]
    return [
        pytest.param(versioned, members, kind, text, id=identifier(f"{'new' if versioned else 'old'} {members}"))
        for versioned, (members, kind, text) in forms
    ]


@pytest.mark.parametrize(("versioned", "members", "kind", "text"), tensors())
def test_tensor(versioned: bool, members: dict[str, Any], kind: Any, text: str) -> None:
    calls = [lambda array: plan()(array), lambda array: plan().start(array)]
    # A plan of its own may be made for other strides, another type or further axes.
    if not members.keys() & {"steps", "code", "bits", "lanes", "extents"}:
        calls.append(lambda array: plan(array, fixed=True))
    for call in calls:
        producer = Producer(versioned=versioned, **members)
        check(Case("", lambda c=call, p=producer: c(p), kind, text))
        name = capsule_name(producer.capsules[-1])
        taken = name is not None and name.startswith(b"used") and producer.name in ("dltensor", "dltensor_versioned")
        # A tensor is deleted once by its consumer, or stays with the capsule.
        assert producer.deleted == taken
        assert len(producer.capsules) == 1


@pytest.mark.parametrize("versioned", [False, True])
def test_tensor_is_deleted_once(versioned: bool) -> None:
    producer = Producer(versioned=versioned)
    shown = plan()
    shown(producer)
    assert producer.deleted == 1
    pending = shown.start(producer)
    assert producer.deleted == 1
    pending.finish()
    assert producer.deleted == 2
    fixed = plan(producer, fixed=True)
    fixed()
    assert producer.deleted == 2
    del fixed
    gc.collect()
    assert producer.deleted == 3
    assert all(capsule_name(capsule).startswith(b"used_dltensor") for capsule in producer.capsules)


def test_capsule_serves_once() -> None:
    capsule = Producer().__dlpack__()
    array = SimpleNamespace(__dlpack__=lambda **options: capsule)
    keep = Producer()
    capsule = keep.__dlpack__()
    plan()(array)
    check(Case("", lambda: plan()(array), ValueError, "unused"))
    assert keep.deleted == 1


class Api(ctypes.Structure):
    """The first members of ``DLPackExchangeAPI``."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("from_object", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("tensor", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


FromObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_uint64))
API_NAME = ctypes.create_string_buffer(b"dlpack_exchange_api")


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ({"code": 9}, BufferError),
        ({"ndim": -1}, ValueError),
        ({"device_type": 4}, BufferError),
        ({"device_type": 14}, BufferError),
        ({"major": 2}, BufferError),
        ({"flags": 1}, BufferError),
        ({"extents": (9,)}, ValueError),
        ({"data": 0}, ValueError),
    ],
    ids=str,
)
def test_exchange_interface(members: dict[str, Any], kind: Any) -> None:
    """A tensor from the interface in C is deleted, too, if it is refused."""
    producer = Producer(**members)

    @FromObject
    def from_object(found: Any, target: Any) -> int:
        target[0] = ctypes.addressof(producer.managed)
        return 0

    api = Api(major=1, minor=3, from_object=ctypes.cast(from_object, ctypes.c_void_p).value)
    capsule = new_capsule(ctypes.addressof(api), ctypes.addressof(API_NAME), None)
    array = type("Fast", (), {"__dlpack_c_exchange_api__": capsule})()
    check(Case("", lambda: plan()(array), kind))
    assert producer.deleted == 1


def test_exchange_interface_that_fails() -> None:
    @FromObject
    def fails(found: Any, target: Any) -> int:
        return 1

    @FromObject
    def forgets(found: Any, target: Any) -> int:
        return 0

    for function in (fails, forgets):
        api = Api(major=1, minor=3, from_object=ctypes.cast(function, ctypes.c_void_p).value)
        capsule = new_capsule(ctypes.addressof(api), ctypes.addressof(API_NAME), None)
        array = type("F", (), {"__dlpack_c_exchange_api__": capsule})()
        check(Case("", lambda a=array: plan()(a), ValueError, "no tensor"))
    # Another version, and what is no interface: the other protocols are tried.
    for api in (Api(major=2), Api(major=1)):
        capsule = new_capsule(ctypes.addressof(api), ctypes.addressof(API_NAME), None)
        array = type("F", (), {"__dlpack_c_exchange_api__": capsule})()
        check(Case("", lambda a=array: plan()(a), TypeError, "expected an array"))
    for value in (5, None, "x", new_capsule(ADDRESS, ctypes.addressof(NAMES["numpy"]), None), new_capsule(ADDRESS, None, None)):
        array = type("F", (), {"__dlpack_c_exchange_api__": value})()
        check(Case("", lambda a=array: plan()(a), TypeError, "expected an array"))


def results_of_dlpack() -> Iterator[Case]:
    """Methods ``__dlpack__`` that return or raise something else."""
    for value in (None, 5, "capsule", b"", object(), [], np.zeros(10)):
        array = SimpleNamespace(__dlpack__=lambda v=value, **options: v)
        yield Case(f"__dlpack__ returns {value!r:.9}", lambda a=array: plan()(a), TypeError, "expected a capsule")
    for value in (5, None, "text"):
        array = SimpleNamespace(__dlpack__=value)
        yield Case(f"__dlpack__ is {value!r}", lambda a=array: plan()(a), TypeError, "not callable")
    for error in errors():
        array = SimpleNamespace(__dlpack__=lambda e=error, **options: throw(e))
        yield Case(f"__dlpack__ raises {type(error).__name__}", lambda a=array: plan()(a), type(error))
    for wrong in (TypeError, ValueError, BufferError):
        array = SimpleNamespace(__dlpack__=lambda w=wrong, **options: throw(w("of the caller")))
        yield Case(f"__dlpack__ raises {wrong.__name__}", lambda a=array: plan()(a), wrong, "field 0: of the caller")


def throw(error: BaseException) -> Any:
    raise error


def errors() -> list[BaseException]:
    """Exceptions of the caller's own, some of which cannot be made of a text."""
    return [
        RuntimeError("of the caller"),
        KeyError("of the caller"),
        ZeroDivisionError(),
        OSError(5, "of the caller"),
        MemoryError(),
        KeyboardInterrupt(),
        SystemExit(3),
        StopIteration(),
        RecursionError(),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "of the caller"),
        Odd(1, 2),
    ]


def attributes() -> Iterator[Case]:
    """Objects whose attributes raise: their exceptions are passed on."""
    protocols = ("__sycl_usm_array_interface__", "__cuda_array_interface__", "__dlpack__")
    for attribute in protocols:
        for error in errors():
            array = Raising(error, attribute)
            for name, call in (("plan", lambda a: plan(a)), ("call", lambda a: plan()(a))):
                yield Case(f"{name}: {attribute} raises {type(error).__name__}", lambda c=call, a=array: c(a), type(error))
        array = Raising(AttributeError("of the caller"), attribute)
        yield Case(f"{attribute} raises AttributeError", lambda a=array: plan()(a), TypeError, "expected an array")
    for attribute in ("_get_capsule", "__cuda_stream__", "ptr", "cuda_stream", "handle"):
        for error in errors():
            stream = Raising(error, attribute)
            call = lambda s=stream: plan()(np.zeros(10), stream=s)
            yield Case(f"{attribute} of a stream raises {type(error).__name__}", call, type(error))
    for error in errors():
        two = grid(domains=[((0,), (4,)), ((4,), (8,))])
        yield Case(f"shape raises {type(error).__name__}", lambda t=two, e=error: t.plan(IterableWith(e)), type(error))
        for method in ("copy", "clone", "block_until_ready"):
            array = Copied(Raising(error, method)) if method == "block_until_ready" else Raising(error, method)
            yield Case(f"{method} raises {type(error).__name__}", lambda a=array: plan().functional(a), type(error))
    odd = type("NoModule", (), {})
    odd.__module__ = 3
    for name, call in (("plan", plan), ("call", plan()), ("comm", hp.Communicator), ("device", hp.Device)):
        yield Case(f"{name} of a type without a module", lambda c=call: c(odd()), TypeError, "NoModule")


class IterableWith:
    """A sequence whose ``shape`` raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __iter__(self) -> Iterator[Any]:
        return iter([np.zeros(6), np.zeros(6)])

    @property
    def shape(self) -> Any:
        raise self.error


class Copied:
    def __init__(self, copy: Any) -> None:
        self.made = copy

    def copy(self) -> Any:
        return self.made


class CudaStream:
    def __init__(self, result: Any) -> None:
        self.result = result

    def __cuda_stream__(self) -> Any:
        return self.result


def streams() -> Iterator[Case]:
    """Objects that are no streams, and numbers that no stream has."""
    wrong = ("0", "default", b"", 0.5, True, object(), [], {}, np.zeros(1), print)
    rubbish = (None, 5, "ab", (), (0,), (0, 1, 2), ("a", 0), (0, "b"), (0, None), object())
    for method in ("__call__", "start", "functional"):
        call = lambda s, m=method: getattr(plan(), m)(np.zeros(10), stream=s)
        for value in wrong:
            yield Case(f"{method}, stream = {value!r:.9}", lambda c=call, v=value: c(v), TypeError, "stream")
        for value in rubbish:
            stream = CudaStream(value)
            yield Case(f"{method}, __cuda_stream__ = {value!r:.9}", lambda c=call, s=stream: c(s), TypeError, "stream")
    others = {
        "Event.record": lambda s: hp.Event().record(s),
        "finish": lambda s: plan().start(np.zeros(10)).finish(s),
        "kernel": lambda s: hp.Kernel("k", None, [], host=print)(1, stream=s),
    }
    for name, call in others.items():
        for value in wrong:
            yield Case(f"{name}, stream = {value!r:.9}", lambda c=call, v=value: c(v), TypeError, "stream")
    call = lambda s: plan()(np.zeros(10), stream=s)
    tuples = ((1, 0), (0, -1), (0, 2**70), (2**70, 0))
    for value in (-1, 2**64, 2**70, -(2**70), *(CudaStream(found) for found in tuples)):
        yield Case(f"stream = {value!r:.24}", lambda v=value: call(v), ValueError)
    for attribute in ("ptr", "cuda_stream", "handle"):
        for value in ("x", 0.5, object()):
            stream = SimpleNamespace(**{attribute: value})
            yield Case(f"{attribute} = {value!r:.9}", lambda s=stream: call(s), TypeError, "stream")
        yield Case(f"{attribute} = -1", lambda a=attribute: call(SimpleNamespace(**{a: -1})), ValueError, "handle")
    for value in (5, None, "queue"):
        yield Case(f"_get_capsule returns {value!r}", lambda v=value: call(Capsules(v)), TypeError, "syclobj")


def generated() -> list[Any]:
    generators = (
        counts, sequences, lists_of_cells, arguments, lengths, arrays_of_numpy, interfaces, results_of_dlpack, attributes, streams,
    )
    # A launcher changes little here: one of eight.
    step = 1 if world is None else 8
    return [
        pytest.param(case, id=identifier(f"{generator.__name__}-{number}-{case.name}"))
        for generator in generators
        for number, case in enumerate(generator())
        if number % step == 0
    ]


@pytest.mark.parametrize("case", generated())
def test_bad_input(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("name", COUNTS)
def test_numbers_of_numpy(name: str) -> None:
    """Numbers from NumPy do what those of Python do."""
    _, call = COUNTS[name]

    def outcome(value: Any) -> Any:
        try:
            call(value)
        except Exception as error:
            return type(error)
        return None

    for number in (0, 1, 2):
        for made in (np.int64(number), np.uint8(number)):
            assert outcome(made) is outcome(number), repr(made)


def test_note_names_the_array() -> None:
    """An exception of the caller's own is the same object, with a note; of the three types of arrays, it is the cause."""
    error = Odd(1, 2)
    with pytest.raises(Odd) as found:
        plan(np.zeros(10), np.zeros(10))(np.zeros(10), Raising(error, "__dlpack__"))
    assert found.value is error
    assert any("field 1" in note for note in error.__notes__)
    of_dlpack = SimpleNamespace(__dlpack__=lambda **options: throw(ValueError("of the caller")))
    with pytest.raises(ValueError, match="field 0: of the caller") as wrong:
        plan()(of_dlpack)
    assert isinstance(wrong.value.__cause__, ValueError)


# Arrays without elements, and huge ones ------------------------------------------------------------------------------------


def test_arrays_without_elements() -> None:
    empty = hp.Mesh([], 0, comm=alone())
    for array in (np.zeros(0), np.zeros(0)[::-1], np.zeros((0, 5)), np.zeros((0, 5), order="F"), np.zeros((0, 0))):
        shown = empty.plan(array)
        shown(array)
        shown.start(array).finish()
        empty.plan(array, fixed=True)()
    strange = np.lib.stride_tricks.as_strided(np.zeros(1), (0, 3), (-HUGE, 24))
    empty.plan(strange)(strange)
    levels = mesh().empty(levels=0)
    assert levels.shape == (2, 0)
    nothing = grid(domains=[((0,), (8,))]).empty(levels=0)
    grid().plan(nothing)(nothing)
    tensor = Producer(extents=(0,), data=0)
    empty.plan(tensor)(tensor)


def test_huge_strides_overlap() -> None:
    """Tensors whose ends are further apart than addresses can be are not taken for disjoint."""
    far = [Producer(steps=(2**55,), data=ADDRESS) for _ in range(2)]
    check(Case("", lambda: plan(*far, fixed=True), ValueError, "in common"))
    down, up = Producer(steps=(-(2**55),), data=2**62), Producer(steps=(2**55,), data=ADDRESS)
    # Overlap is not checked exactly for memory that no machine has, but no sum overflows.
    check(Case("", lambda: plan(down, up, fixed=True), ValueError, "in common"))
    blocks = hp.Layout((HUGE, 8), "f8", ("blocks", "cells"), strides=(2**43, 8))
    mesh().plan(blocks)


def test_overlap_is_exact() -> None:
    """Parts of one array in one call: refused exactly if they have an element in common."""
    rng = random.Random(5)
    whole = np.arange(400.0)
    index = np.arange(400)
    refused = 0
    for _ in range(150):
        steps = [rng.choice((-7, -3, -2, -1, 1, 2, 3, 5, 8)) for _ in range(2)]
        parts = []
        for step in steps:
            room = 400 - 10 * abs(step)
            first = rng.randrange(min(room, 40)) + (9 * abs(step) if step < 0 else 0)
            parts.append(slice(first, first + 10 * step if first + 10 * step >= 0 else None, step))
        one, other = (whole[part] for part in parts)
        common = np.intersect1d(index[parts[0]], index[parts[1]]).size > 0
        refused += common
        exchange = plan(one, other)
        first_plan, second_plan = plan(one), plan(other)
        if common:
            with pytest.raises(ValueError, match="in common"):
                exchange(one, other)
            with first_plan.start(one), pytest.raises(hp.InFlightError, match="field 0"):
                second_plan(other)
        else:
            exchange(one, other)
            with first_plan.start(one):
                second_plan(other)
    assert 20 < refused < 130


# Code of the caller that changes arrays while they are taken ---------------------------------------------------------------


class Evil:
    """An array of DLPack that calls a function when it is taken."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self.array = np.zeros(10)
        self.action = action

    def __dlpack__(self, **options: Any) -> Any:
        self.action()
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


CHANGES: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "shrunk": lambda array: array.resize(1, refcheck=False),
    "grown": lambda array: array.resize(1_000_000, refcheck=False),
    "emptied": lambda array: array.resize(0, refcheck=False),
    "read-only": lambda array: array.setflags(write=False),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("known", [False, True], ids=["first call", "second call"])
def test_array_changed_while_taken(change: str, known: bool) -> None:
    exchange = plan(np.zeros(10), np.zeros(10))
    if known:
        # From then on the array is looked at without its attributes.
        exchange(np.zeros(10), np.zeros(10))
    for call in (exchange, exchange.start, lambda *fields: grid().plan(*fields, fixed=True)):
        array = np.zeros(10)
        evil = Evil(lambda array=array: CHANGES[change](array))
        check(Case("", lambda c=call, a=array, e=evil: c(a, e), ValueError, "field 0: expected an array that stays"))


@pytest.mark.parametrize("method", ["__call__", "start"])
def test_array_changed_by_a_stream(method: str) -> None:
    array = np.zeros(10)

    class EvilStream:
        def __cuda_stream__(self) -> tuple[int, int]:
            array.resize(1, refcheck=False)
            return (0, 0)

    exchange = plan()
    exchange(array)
    check(Case("", lambda: getattr(exchange, method)(array, stream=EvilStream()), ValueError, "axis 0: expected extent 10"))


def test_array_changed_by_an_iterator() -> None:
    two = grid(domains=[((0,), (4,)), ((4,), (8,))])
    exchange = two.plan([np.zeros(6), np.zeros(6)])

    def shrinking() -> Iterator[Any]:
        first = np.zeros(6)
        yield first
        first.resize(1, refcheck=False)
        yield np.zeros(6)

    exchange([np.zeros(6), np.zeros(6)])
    for call in (exchange, exchange.start):
        check(Case("", lambda c=call: c(shrinking()), ValueError, "axis 0: expected extent 6, found 1"))


def test_arrays_of_an_iterator_are_kept() -> None:
    two = grid(domains=[((0,), (4,)), ((4,), (8,))])
    exchange = two.plan([np.zeros(6), np.zeros(6)])
    alive: list[Any] = []

    def fresh() -> Iterator[Any]:
        for _ in range(2):
            array = np.zeros(6)
            alive.append(weakref.ref(array))
            yield array
            del array

    pending = exchange.start(fresh())
    gc.collect()
    assert all(array() is not None for array in alive)
    pending.finish()
    gc.collect()
    assert not any(array() is not None for array in alive)
    exchange(fresh())
    fixed = two.plan(fresh(), fixed=True)
    gc.collect()
    assert all(array() is not None for array in alive[-2:])
    fixed()


def test_dtype_that_lies() -> None:
    """The memory is that of bytes, whatever a class says."""

    class Liar(np.ndarray):
        dtype = property(lambda self: np.dtype("f8"))
        itemsize = property(lambda self: 8)

    bytes_8_apart = np.zeros((10, 8), np.int8)[:, 7].view(Liar)
    for call in (lambda: plan()(bytes_8_apart), lambda: plan().start(bytes_8_apart)):
        check(Case("", call, BufferError, "expected elements of dtype float64, found int8"))
    assert plan(bytes_8_apart.view(Liar)).layouts[0].dtype == np.int8


def test_attributes_that_lie() -> None:
    class Liar(np.ndarray):
        shape = property(lambda self: (10,))
        strides = property(lambda self: (8,))
        flags = property(lambda self: SimpleNamespace(writeable=True))
        __array_interface__ = property(lambda self: {"data": (8, False)})

    check(Case("", lambda: plan()(np.ndarray.__new__(Liar, (3,))), ValueError, "expected extent 10, found 3"))
    locked = np.ndarray.__new__(Liar, (10,))
    locked.setflags(write=False)
    check(Case("", lambda: plan()(locked), BufferError, "read-only"))


def test_one_box_without_its_list() -> None:
    with pytest.raises(TypeError, match=r"one box is a list, too: \[\(lower, upper\)\]"):
        grid(8, 6, domains=((0, 0), (8, 6)))


def test_message_to_a_rank_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="there is no rank 7"):
        hp.SparseExchange(comm=alone()).start([(7, b"one")])


def test_extents_name_the_cells_of_the_rank() -> None:
    with pytest.raises(ValueError, match=r"expected extent 10 .*found 9; this rank owns the cells 0\.\.8"):
        plan(np.zeros(9))


def test_masked_arrays() -> None:
    masked = np.ma.masked_equal(np.zeros(10), 0)
    for call in (lambda: plan(masked), lambda: plan()(masked), lambda: plan().start(masked)):
        check(Case("", call, BufferError, "masked array, whose mask would not be exchanged"))
    plan()(masked.data)


def test_the_kind_of_device_decides() -> None:
    """Packages for ROCm have the interface of CUDA, too."""

    class OfRocm:
        __cuda_array_interface__ = {"shape": (10,), "typestr": "<f8", "data": (ADDRESS, False), "version": 3}

        def __dlpack_device__(self) -> tuple[int, int]:
            return 10, 0

    check(Case("", lambda: plan(OfRocm()), BufferError, "found ROCm memory"))


def test_copy_that_is_no_copy() -> None:
    """`functional` does not write to an array that is read-only."""

    class Same(np.ndarray):
        def copy(self, order: Any = "C") -> Any:
            return self

    array = np.frombuffer(bytes(80)).view(Same)
    check(Case("", lambda: plan().functional(array), BufferError, "read-only"))
    producer = Producer(flags=1)
    check(Case("", lambda: plan().functional(Copied(producer)), BufferError, "read-only"))


def test_calls_within_calls() -> None:
    """Methods of arrays may call Haloport, also the same plan."""
    exchange = plan(periodic := np.zeros(10))
    inner = np.zeros(10)
    calls: list[Any] = []
    evil = Evil(lambda: calls.append(exchange(inner)))
    exchange(evil)
    exchange.start(evil).finish()
    assert len(calls) >= 2
    actions = (lambda: exchange.traffic, lambda: grid().plan(inner), lambda: hp.threads(3), gc.collect, alone().barrier)
    for action in actions:
        exchange(Evil(action))

    def use(**options: Any) -> None:
        with exchange.start(inner):
            pass

    exchange(Evil(use))
    kernel: hp.Kernel = hp.Kernel("k", None, ["i32"], host=lambda size, depth: kernel(size, depth - 1) if depth else None)
    kernel(3, 20)
    del periodic
    # An exchange of the same array, started meanwhile.
    held: list[Any] = []
    array = np.zeros(10)
    other = plan()
    starting = Evil(lambda: held.append(other.start(array)))
    both = plan(np.zeros(10), np.zeros(10))
    check(Case("", lambda: both(array, starting), hp.InFlightError, "field 0: the array is in flight"))
    held.pop().finish()
    both(array, np.zeros(10))


# Random damage -------------------------------------------------------------------------------------------------------------

EXPECTED_ERRORS = (TypeError, ValueError, BufferError, MemoryError, hp.ExchangeError, hp.InFlightError)

VALUES: list[Any] = [
    None, True, False, 0, 1, 2, 8, 10, -1, 2**31, 2**32, 2**40, HUGE, MOST, 2**64, -(2**70), 0.5, math.nan, "", "x", "f8", "<f8",
    b"", b"x" * 80, (), [], {}, (8,), (0,), (-1,), (1, 1), ((0, 0),), ((0,), (8,)), [((0,), (8,))], (HUGE,), (2**64,), [None],
    "cpu", object(), print, np.zeros(10), np.zeros(2), np.zeros((10, 2)), np.float64(2), np.int8(3), np.zeros(0), range(8), range(2**40),
    np.array(None), {0: [1]}, {0: []}, slice(None), hp.DEFAULT, hp.BLOCK, ..., Boastful([8]), np.dtype("O"), "levels",
]


def test_random_arguments() -> None:
    rng = random.Random(11)
    comm = alone()
    two = grid(4, 4)
    exchange = plan()
    kernel = hp.Kernel("k", None, ["pointer", "i32"], host=lambda *arguments: None)
    calls: list[tuple[Callable[..., Any], int, tuple[str, ...]]] = [
        (lambda *a, **k: hp.Grid(*a, **k, comm=comm), 1, ("halo", "periodic", "corners", "parts", "domains")),
        (lambda *a, **k: hp.Mesh(*a, **k, comm=comm), 3, ("fill",)),
        (lambda *a, **k: hp.Mesh.of_domains(*a, **k, comm=comm), 1, ("fill",)),
        (lambda *a, **k: hp.Mesh.from_lists(*a, **k, comm=comm), 3, ()),
        (hp.Layout, 3, ("strides", "origin", "device")),
        (hp.Communicator, 1, ()),
        (lambda *a, **k: two.plan(*a, **k), 2, ("axes", "fixed", "in_flight")),
        (lambda *a, **k: grid().plan(*a, **k), 1, ("axes", "fixed", "in_flight")),
        (lambda *a, **k: mesh().plan(*a, **k), 1, ("axes", "fixed", "in_flight")),
        (lambda *a, **k: mesh().split(*a), 1, ()),
        (two.indices, 1, ()),
        (exchange, 1, ("stream",)),
        (lambda *a, **k: exchange.start(*a, **k).finish(*a), 1, ("stream",)),
        (exchange.functional, 1, ("stream",)),
        (kernel, 3, ("stream",)),
        (hp.Kernel, 3, ("host", "device")),
        (lambda *a: hp.Event().record(*a), 1, ()),
        (lambda a: setattr(comm, "time_limit", a), 1, ()),
    ]
    passed = 0
    for number in range(6000):
        call, positional, keywords = rng.choice(calls)
        given = [rng.choice(VALUES) for _ in range(positional)]
        # A mesh of 2^31 cells may well exist, but not here.
        # A number may well be a handle of MPI.
        if isinstance(given[0], int) and (given[0] == 2**31 or call is hp.Communicator):
            continue
        named = {keyword: rng.choice(VALUES) for keyword in keywords if rng.random() < 0.3}
        try:
            call(*given, **named)
            passed += 1
        except EXPECTED_ERRORS:
            pass
        except BaseException as error:
            error.add_note(f"number {number}: {call}, {given}, {named}")
            raise
    assert passed > 100


def test_random_interfaces() -> None:
    rng = random.Random(12)
    members = ["shape", "typestr", "data", "version", "strides", "offset", "mask", "stream", "syclobj", "descr"]
    texts = ["<f8", ">f8", "|V8", "<f4", "<i8", "|u1", "O", "<f", "<V99999999999999999999"]
    pools: dict[str, list[Any]] = {
        "shape": [(10,), (2**62,), (0,), (10, 10), (-10,), [10], (2**31, 2**31, 2)],
        "typestr": [rng.choice(texts) for _ in range(8)],
        "data": [(ADDRESS, False), (0, True), (2**63, False), (ADDRESS + 1, 0), (2**64 - 1, None)],
        "version": [1, 2, 3, 4],
        "strides": [None, (8,), (-8,), (1,), (0,), (2**62,), (1, 10)],
        "syclobj": ["opencl", "cpu", "0", 0],
    }
    for number in range(3000):
        interface = {
            member: rng.choice(pools.get(member, []) + VALUES) if rng.random() < 0.2 else rng.choice(pools.get(member, [None]))
            for member in members
            if rng.random() < 0.9
        }
        array = WithInterface(rng.choice(["__cuda_array_interface__", "__sycl_usm_array_interface__"]), interface)
        try:
            rng.choice([plan, plan()])(array)
        except EXPECTED_ERRORS:
            continue
        except BaseException as error:
            error.add_note(f"number {number}: {interface}")
            raise
        raise AssertionError(f"number {number}: {interface}")


def test_random_tensors() -> None:
    """Tensors with several members damaged. Those that are accepted are those of a plan of their layout."""
    rng = random.Random(13)
    pools: dict[str, list[int]] = {
        "ndim": [0, 1, 2, -1, 64, 65, 2**31 - 1],
        "code": [0, 1, 2, 3, 5, 6, 255],
        "bits": [0, 1, 8, 16, 32, 64, 128, 255],
        "lanes": [0, 1, 2, 65535],
        "device_type": [0, 1, 2, 3, 4, 10, 13, 14, -1],
        "device_id": [0, 1, -1, 2**31 - 1],
        "byte_offset": [0, 8, 4, 2**63, 2**64 - 8],
        "flags": [0, 1, 2, 4],
        "major": [0, 1, 2],
        "context": [0, 2**64 - 1],
    }
    accepted = 0
    exchange = plan()
    for number in range(3000):
        damaged = {member: rng.choice(values) for member, values in pools.items() if rng.random() < 0.15}
        versioned = rng.random() < 0.6
        if not versioned:
            damaged = {key: value for key, value in damaged.items() if key not in ("flags", "major")}
        # As many as the tensor may say that there are.
        extents = [rng.choice([10, 10, 10, 1, 0, -1, 2**62])] + [1] * 63
        steps = rng.choice([None, [rng.choice([1, 1, 0, -1, 2**62])] + [rng.choice([0, 1, 2**62])] * 63])
        producer = Producer(versioned=versioned, extents=extents, steps=steps, **{"ndim": 1, **damaged})
        try:
            exchange(producer)
            accepted += 1
            assert capsule_name(producer.capsules[0]).startswith(b"used")
            assert producer.deleted == 1
        except EXPECTED_ERRORS:
            name = capsule_name(producer.capsules[0])
            assert producer.deleted == name.startswith(b"used")
        except BaseException as error:
            error.add_note(f"number {number}: {damaged}, {extents[:2]}, {steps and steps[:2]}")
            raise
    assert accepted > 100


def test_leaks_nothing() -> None:
    """Calls that fail hold neither the arrays nor the exceptions."""
    array, other = np.zeros(10), np.zeros(11)
    evil = Evil(lambda: None)
    exchange = plan(np.zeros(10), np.zeros(10))
    fixed_grid = grid()
    before = [sys.getrefcount(it) for it in (array, other, evil, evil.array)]
    for _ in range(50):
        for call in (exchange, exchange.start, exchange.functional, lambda *fields: fixed_grid.plan(*fields, fixed=True)):
            for fields in ((array, other), (array, 5), (array,), (evil, other), (evil, evil)):
                with pytest.raises(EXPECTED_ERRORS):
                    call(*fields)
                    raise ValueError
    del fields
    gc.collect()
    assert [sys.getrefcount(it) for it in (array, other, evil, evil.array)] == before
