"""Ranks that disagree, fail, or are lost, and processes that are interrupted, forked or ended.

Every rank gets an exception that names what happened, none waits longer than its time limit, and no process hangs or crashes
at its end. Tests that start programs run in a session without a launcher.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import world

import haloport as hp

SOON = 5.0
"""Seconds in which a call fails that need not wait for a time limit, on a busy machine."""

alone_only = pytest.mark.skipif(world is not None, reason="programs are started without a launcher")
threads_only = pytest.mark.skipif(world is not None, reason="breaks the communicator of the job, so it takes threads")


def on_all_ranks(results: list[Any]) -> list[Any]:
    """The results of all ranks, in their order. Collective."""
    if world is None:
        return results
    return [result for results in world.allgather(results) for result in results]


def raised(call: Callable[[], Any]) -> tuple[type[BaseException], str]:
    """What a call raises."""
    try:
        call()
    except Exception as error:
        return type(error), str(error)
    return type(None), "nothing was raised"


def row(comm: hp.Communicator, **options: Any) -> hp.Grid:
    return hp.Grid((8, 6), comm=comm, **options)


# Ranks that disagree -------------------------------------------------------------------------------------------------------

DISAGREE: dict[str, tuple[Callable[[hp.Communicator, bool], Any], str]] = {
    "shape": (lambda comm, odd: hp.Grid((8, 7 if odd else 6), comm=comm), "7"),
    "axes of the grid": (lambda comm, odd: hp.Grid((8,) if odd else (8, 6), comm=comm), ""),
    "halo": (lambda comm, odd: row(comm, halo=2 if odd else 1), ""),
    "halo of one side": (lambda comm, odd: row(comm, halo=((1, 2 if odd else 1), 1)), ""),
    "periodic": (lambda comm, odd: row(comm, periodic=odd), ""),
    "corners": (lambda comm, odd: row(comm, corners=odd), ""),
    "domains": (lambda comm, odd: row(comm, domains=[((0, 0), (8, 6))]), "overlap"),
    "no domain": (lambda comm, odd: row(comm, domains=[]), ""),
    "dtype": (lambda comm, odd: planned(comm, np.float32 if odd else np.float64), "32-bit floats"),
    "unit of dates": (lambda comm, odd: planned(comm, "M8[ns]" if odd else "M8[us]"), "M8[us]"),
    "dates and numbers": (lambda comm, odd: planned(comm, "i8" if odd else "m8[s]"), "without a name here"),
    "members of records": (lambda comm, odd: planned(comm, [(name, "f4") for name in ("uv" if odd else "vu")]), "'u'"),
    "places in records": (
        lambda comm, odd: planned(comm, {"names": ["a"], "formats": ["i2"], "offsets": [2 * odd], "itemsize": 4}),
        "at 2",
    ),
    "records within records": (lambda comm, odd: planned(comm, [("a", [("b", "i4", 2 + odd), ("c", "i4", 3 - odd)])]), "'b'"),
    "texts of bytes and records": (lambda comm, odd: planned(comm, "V4" if odd else "S4"), "S4"),
    "the byte order of texts": (lambda comm, odd: planned(comm, ">U2" if odd else "<U2"), ">U2"),
    "number of fields": (lambda comm, odd: planned(comm, *[np.float64] * (2 if odd else 1)), "field"),
    "levels": (lambda comm, odd: planned(comm, np.float64, levels=3 if odd else 2), "3"),
    "further axis": (lambda comm, odd: planned(comm, np.float64, levels=1 if odd else None), ""),
    "in flight": (lambda comm, odd: planned(comm, np.float64, in_flight=3 if odd else 2), ""),
    "cells of two owners": (lambda comm, odd: hp.Mesh([7, 8], 1 if odd else 2, comm=comm), "7"),
    "cells of no owner": (lambda comm, odd: hp.Mesh([2 * comm.rank, 99], 1, comm=comm), "99"),
    "another owner": (lambda comm, odd: hp.Mesh([comm.rank, 1 - comm.rank], 1, [comm.rank] * 2, comm=comm), ""),
    "lists of other lengths": (
        lambda comm, odd: hp.Mesh.from_lists(
            4, {1 - comm.rank: [0] if odd else [0, 1]}, {1 - comm.rank: [2, 3]}, comm=comm
        ),
        "",
    ),
    "a list that is missing": (
        lambda comm, odd: hp.Mesh.from_lists(4, {1 - comm.rank: [0]}, {} if odd else {1 - comm.rank: [2]}, comm=comm),
        "",
    ),
    "a mesh beside a grid": (lambda comm, odd: hp.Mesh([0], 1, comm=comm) if odd else row(comm), ""),
}
"""For each disagreement a collective call, the same on all ranks but the last (``odd``), and a part of the message."""


def planned(comm: hp.Communicator, *dtypes: Any, levels: int | None = None, **options: Any) -> hp.Plan:
    grid = row(comm)
    return grid.plan(*(grid.empty(dtype, levels) for dtype in dtypes), **options)


@pytest.mark.parametrize("disagreement", DISAGREE)
def test_ranks_disagree(ranks: Any, disagreement: str) -> None:
    call, text = DISAGREE[disagreement]

    def run(comm: hp.Communicator) -> Any:
        began = time.monotonic()
        found = raised(lambda: call(comm, comm.rank == comm.size - 1))
        took = time.monotonic() - began
        # The communicator serves further calls.
        comm.barrier()
        grid = row(comm, periodic=True)
        grid.plan(array := grid.empty())(array)
        return *found, took

    results = on_all_ranks(ranks(2)(run))
    assert {kind for kind, _, _ in results} == {hp.RefusedError}, results
    assert len({message for _, message, _ in results}) == 1, results
    assert text in results[0][1]
    assert max(took for _, _, took in results) < SOON


def read_only(shape: Any) -> Any:
    array = np.zeros(shape)
    array.flags.writeable = False
    return array


def raising(error: BaseException) -> Any:
    class Iterable:
        def __iter__(self) -> Iterator[Any]:
            raise error

    return Iterable()


class Sick(Exception):
    pass


WRONG: dict[str, tuple[Callable[[hp.Communicator], Any], Callable[[hp.Communicator], Any], type[Exception]]] = {
    "shape of a text": (row, lambda comm: hp.Grid("shape", comm=comm), TypeError),
    "shape of a number": (row, lambda comm: hp.Grid(8, comm=comm), TypeError),
    "negative shape": (row, lambda comm: hp.Grid((8, -6), comm=comm), ValueError),
    "huge shape": (row, lambda comm: hp.Grid((2**62, 6), comm=comm), ValueError),
    "shape that raises": (row, lambda comm: hp.Grid(raising(Sick("ill")), comm=comm), Sick),
    "halo": (row, lambda comm: row(comm, halo="wide"), TypeError),
    "negative halo": (row, lambda comm: row(comm, halo=-1), ValueError),
    "periodic": (row, lambda comm: row(comm, periodic=(True,)), ValueError),
    "corners": (row, lambda comm: row(comm, corners="no"), TypeError),
    "parts": (row, lambda comm: row(comm, parts=(5, 5)), ValueError),
    "boxes": (row, lambda comm: row(comm, domains=[5]), TypeError),
    "ids": (lambda comm: hp.Mesh([comm.rank], 1, comm=comm), lambda comm: hp.Mesh([0.5], 1, comm=comm), TypeError),
    "owned": (lambda comm: hp.Mesh([comm.rank], 1, comm=comm), lambda comm: hp.Mesh([9], 2, comm=comm), ValueError),
    "fill": (lambda comm: hp.Mesh([comm.rank], 1, comm=comm), lambda comm: hp.Mesh([9], 1, fill="x", comm=comm), TypeError),
    "cells": (
        lambda comm: hp.Mesh.from_lists(1, {}, {}, comm=comm),
        lambda comm: hp.Mesh.from_lists(-1, {}, {}, comm=comm),
        ValueError,
    ),
    "lists": (
        lambda comm: hp.Mesh.from_lists(1, {}, {}, comm=comm),
        lambda comm: hp.Mesh.from_lists(1, {}, 5, comm=comm),
        TypeError,
    ),
    "domains of a mesh": (
        lambda comm: hp.Mesh.of_domains([], comm=comm),
        lambda comm: hp.Mesh.of_domains([5], comm=comm),
        TypeError,
    ),
}
for name, options in {
    "no array": (5, {}, TypeError),
    "no field": (None, {}, ValueError),
    "another shape": (np.zeros((3, 3)), {}, ValueError),
    "a read-only array": (read_only((3, 3)), {}, BufferError),
    "objects": (np.zeros((6, 8), object), {}, BufferError),
    "fixed": ("same", {"fixed": "yes"}, TypeError),
    "in_flight": ("same", {"in_flight": -1}, ValueError),
    "too many in flight": ("same", {"in_flight": 65}, ValueError),
    "in_flight of a float": ("same", {"in_flight": 1.5}, TypeError),
    "axes": ("same", {"axes": (0, 0)}, ValueError),
    "no axes": ("same", {"axes": 5}, TypeError),
}.items():

    def of_plan(comm: hp.Communicator, given: Any = options[0], named: Any = options[1]) -> Any:
        grid = row(comm)
        fields = () if given is None else (grid.empty() if isinstance(given, str) else given,)
        return grid.plan(*fields, **named)

    WRONG[f"plan: {name}"] = (lambda comm: planned(comm, np.float64), of_plan, options[2])


@pytest.mark.parametrize("argument", WRONG)
def test_one_rank_has_a_wrong_argument(ranks: Any, argument: str) -> None:
    """The rank itself gets its exception, the others one with its text, at once."""
    call, wrong, kind = WRONG[argument]

    def run(comm: hp.Communicator) -> Any:
        began = time.monotonic()
        found = raised(lambda: (wrong if comm.rank == 1 else call)(comm))
        took = time.monotonic() - began
        comm.barrier()
        return *found, took

    results = on_all_ranks(ranks()(run) if world is None or world.size > 1 else ranks(2)(run))
    assert issubclass(results[1][0], kind), results[1]
    for rank, (found, text, took) in enumerate(results):
        assert took < SOON
        if rank != 1:
            assert found is hp.RefusedError, results
            assert text == (results[1][1] if results[1][0] is hp.RefusedError else f"rank 1: {results[1][1]}")


@threads_only
@pytest.mark.parametrize("other", ["grid", "mesh", "plan", "end"])
def test_different_calls(ranks: Any, other: str) -> None:
    """Rank 0 waits in a barrier, the others make something, or end."""

    def run(comm: hp.Communicator) -> Any:
        grid = row(comm, periodic=True)
        array = grid.empty()
        calls = {
            "grid": lambda: row(comm),
            "mesh": lambda: hp.Mesh([comm.rank], 1, comm=comm),
            "plan": lambda: grid.plan(array),
            "end": lambda: None,
        }
        if other == "end" and comm.rank == 2:
            return None
        return raised(comm.barrier if comm.rank == 0 else calls[other]) if other != "end" else raised(comm.barrier)

    results = ranks(3)(run)
    if other == "end":
        assert [kind for kind, _ in results[:2]] == [hp.ExchangeError] * 2
        assert all("2" in text for _, text in results[:2]), results
    else:
        assert {kind for kind, _ in results} == {hp.RefusedError}, results
        assert all("barrier" in text for _, text in results), results


# Ranks that fail or fall silent, as threads --------------------------------------------------------------------------------


@dataclass
class Pair:
    """Two ranks of this process with a plan each, used by one thread."""

    comms: list[hp.Communicator] = field(default_factory=lambda: hp.threads(2))
    grids: list[Any] = field(default_factory=lambda: [None, None])
    arrays: list[Any] = field(default_factory=lambda: [None, None])
    plans: list[Any] = field(default_factory=lambda: [None, None])

    @staticmethod
    def make(**options: Any) -> Pair:
        pair = Pair()

        def run(rank: int) -> None:
            pair.grids[rank] = row(pair.comms[rank], periodic=True)
            pair.arrays[rank] = pair.grids[rank].empty()
            pair.plans[rank] = pair.grids[rank].plan(pair.arrays[rank], **options)

        makers = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
        return pair

    def given(self, rank: int) -> tuple[Any, ...]:
        """What a call of the plan passes."""
        return () if self.plans[rank].fixed else (self.arrays[rank],)

    def lose(self, rank: int) -> None:
        """Ends a rank: nothing of it is left."""
        self.comms[rank] = self.grids[rank] = self.arrays[rank] = self.plans[rank] = None


@pytest.mark.parametrize("way", ["freed", "closed"])
@pytest.mark.parametrize("call", ["barrier", "plan", "fixed plan", "finish", "grid", "new plan"])
def test_rank_that_ends_early(call: str, way: str) -> None:
    pair = Pair.make(fixed=call == "fixed plan")
    comm, grid, array, exchange = pair.comms[0], pair.grids[0], pair.arrays[0], pair.plans[0]
    pending = exchange.start(array) if call == "finish" else None
    if way == "freed":
        pair.lose(1)
    else:
        with pair.comms[1]:
            pass
        pair.comms[1].close()
        for use in (pair.comms[1].barrier, lambda: pair.plans[1](*pair.given(1)), lambda: row(pair.comms[1])):
            kind, text = raised(use)
            assert kind is hp.ExchangeError and "this rank has closed the communicator" in text, text
    calls: dict[str, Callable[[], Any]] = {
        "barrier": comm.barrier,
        "plan": lambda: exchange(array),
        "fixed plan": exchange,
        "finish": lambda: pending.finish(),
        "grid": lambda: row(comm),
        "new plan": lambda: grid.plan(array),
    }
    began = time.monotonic()
    kind, text = raised(calls[call])
    assert kind is hp.ExchangeError, text
    assert "rank 1" in text
    assert time.monotonic() - began < SOON


@pytest.mark.parametrize("call", ["barrier", "plan", "fixed plan", "finish", "grid"])
def test_silent_rank(call: str) -> None:
    pair = Pair.make(fixed=call == "fixed plan")
    comm, array, exchange = pair.comms[0], pair.arrays[0], pair.plans[0]
    comm.time_limit = 0.2
    calls: dict[str, Callable[[], Any]] = {
        "barrier": comm.barrier,
        "plan": lambda: exchange(array),
        "fixed plan": exchange,
        "finish": lambda: exchange.start(array).finish(),
        "grid": lambda: row(comm),
    }
    with pytest.raises(hp.TimeLimitError) as found:
        calls[call]()
    assert found.value.ranks == (1,), found.value
    assert "1" in str(found.value) and "200ms" in str(found.value)
    assert isinstance(found.value, TimeoutError)
    if call in ("plan", "finish", "fixed plan"):
        # The plan is given up, for every later call, even if the neighbour wakes up.
        given = () if call == "fixed plan" else (array,)
        for again in (exchange, exchange.start, exchange):
            kind, text = raised(lambda a=again: a(*given))
            assert kind is hp.ExchangeError, text
            assert "given up" in text and "make the plan again" in text
        # Messages may still be under way to the array of the plan that failed.
        other = hp.Grid((6, 4), comm=hp.threads(1)[0])
        shown = array.reshape(-1)[: other.shape[0] * other.shape[1]].reshape(other.shape)
        assert raised(lambda: other.plan(shown)(shown))[0] is hp.InFlightError
        kind, text = raised(lambda: pair.plans[1](*(() if call == "fixed plan" else (pair.arrays[1],))))
        assert kind is hp.ExchangeError, text
        assert "rank 0" in text


def test_plan_that_is_dropped_in_flight() -> None:
    """It waits for its neighbour as long as the time limit, and no exchange of it remains."""
    pair = Pair.make()
    pair.comms[0].time_limit = 0.2
    pending = pair.plans[0].start(pair.arrays[0])
    began = time.monotonic()
    pair.plans[0] = pending = None
    assert 0.1 < time.monotonic() - began < SOON
    assert pending is None
    alone = hp.Grid((6, 4), comm=hp.threads(1)[0])
    assert pair.arrays[0].shape == (6, 8)
    array = pair.arrays[0].reshape(-1)[: alone.shape[0] * alone.shape[1]].reshape(alone.shape)
    alone.plan(array)(array)


def test_array_in_flight() -> None:
    pair = Pair.make(in_flight=3)
    array, exchange = pair.arrays[0], pair.plans[0]
    alone = hp.Grid((4, 6), comm=hp.threads(1)[0])
    other = alone.plan(np.zeros((6, 8)))
    pending = exchange.start(array)
    for call in (lambda: exchange(array), lambda: exchange.start(array), lambda: other(array), lambda: other.start(array)):
        kind, text = raised(call)
        assert kind is hp.InFlightError
        assert "field 0: the array is in flight in another exchange" in text
    # A part of it, and another view of it.
    part = hp.Grid((2,), comm=hp.threads(1)[0]).plan(np.zeros(4))
    assert raised(lambda: part(array[0, :4]))[0] is hp.InFlightError
    assert raised(lambda: other(array[::-1][::-1]))[0] is hp.InFlightError
    second = exchange.start(np.zeros((6, 8)))
    third = exchange.start(np.zeros((6, 8)))
    kind, text = raised(lambda: exchange.start(np.zeros((6, 8))))
    assert kind is hp.InFlightError and "in_flight" in text and "3 before" in text
    others = [pair.plans[1].start(np.zeros((6, 8))) for _ in range(3)]
    for it in (third, pending, second, *others):
        it.finish()
        # Once is enough.
        it.finish()
        assert it.is_ready()
    other(array)


def test_plan_in_two_threads() -> None:
    pair = Pair.make()
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(raised(lambda: pair.plans[0](pair.arrays[0]))))
    waiting.start()
    deadline = time.monotonic() + SOON
    kind, text = type(None), ""
    while kind is not hp.InFlightError and time.monotonic() < deadline:
        # Not at once: the other thread would find the plan in use by this one.
        time.sleep(0.2)
        kind, text = raised(lambda: pair.plans[0].traffic)
    assert "in use by another thread" in text
    pair.plans[1](pair.arrays[1])
    waiting.join()
    assert found == [(type(None), "nothing was raised")]


def test_exception_in_a_block() -> None:
    """Leaving a ``with`` block by an exception finishes the exchange, and the exception remains."""
    pair = Pair.make()
    other = pair.plans[1].start(pair.arrays[1])
    with pytest.raises(ZeroDivisionError), pair.plans[0].start(pair.arrays[0]) as pending:
        1 // 0  # noqa: B018
    assert pending.is_ready()
    other.finish()


# Programs ------------------------------------------------------------------------------------------------------------------

PRELUDE = """
import os, signal, sys, threading, time
import numpy as np
import haloport as hp

# A shell that starts the tests in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

def pair(**options):
    found = [None, None]
    def run(comm):
        grid = hp.Grid((8, 6), periodic=True, comm=comm)
        array = grid.empty()
        found[comm.rank] = (comm, grid, array, grid.plan(array, **options))
    makers = [threading.Thread(target=run, args=(comm,)) for comm in hp.threads(2)]
    [maker.start() for maker in makers]
    [maker.join() for maker in makers]
    return found
"""


class Programs:
    """Starts programs of Python, and ends those that are left."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def start(self, text: str, *arguments: str, launcher: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[str]:
        program = subprocess.Popen(
            [*launcher, sys.executable, "-X", "faulthandler", "-c", PRELUDE + textwrap.dedent(text), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore", "HALOPORT_TIME_LIMIT": "60", **environment},
            start_new_session=True,
        )
        self.started.append(program)
        return program

    def end(self) -> None:
        for program in self.started:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
            program.communicate()


@pytest.fixture
def programs() -> Iterator[Programs]:
    made = Programs()
    yield made
    made.end()


def finished(program: subprocess.Popen[str], limit: float = 30) -> str:
    """The output of a program that ends by itself, without an error."""
    output, errors = program.communicate(timeout=limit)
    assert program.returncode == 0, f"code {program.returncode}\n{output}\n{errors}"
    assert not errors.strip(), errors
    return output


@alone_only
def test_warnings_go_to_logging(programs: Programs) -> None:
    """A rank that waits long warns by the logger `haloport`, without a call of the program to take the warning."""
    text = """
        BEFORE
        first, second = hp.threads(2)
        late = threading.Timer(0.3, second.barrier)
        late.start()
        first.barrier()
        late.join()
    """
    logging = "import logging; logging.basicConfig(format='%(name)s %(levelname)s %(message)s')"
    settings = {
        "without logging": ("", "", "rank 0 has waited 0."),
        "with logging": (logging, "", "haloport WARNING rank 0 has waited 0."),
        "level of the logger": ("import logging; logging.getLogger('haloport').setLevel('ERROR')", "", ""),
        "off": ("", "off", ""),
    }
    started = {
        name: programs.start(text.replace("BEFORE", before), HALOPORT_WARN_AFTER="0.05", HALOPORT_LOG=level)
        for name, (before, level, _) in settings.items()
    }
    for name, (_, _, begin) in settings.items():
        _, errors = started[name].communicate(timeout=30)
        assert started[name].returncode == 0, errors
        assert errors.startswith(begin) and errors.count("\n") == (1 if begin else 0), f"{name}: {errors}"


WAITS = {
    "barrier": "comm.barrier()",
    "plan": "plan(array)",
    "functional": "plan.functional(array)",
    "finish": "plan.start(array).finish()",
    "with": "with plan.start(array): pass",
    "ready": "pending = plan.start(array)\n    while not pending.is_ready(): pass",
    "grid": "hp.Grid((8, 6), comm=comm)",
    "new plan": "grid.plan(array)",
    "dropped": "pending = plan.start(array); del pending; plan(array)",
    "dropped plan": "pending = plan.start(array); del pending, plan\n    while True: time.sleep(0.01)",
    "handler": "signal.signal(signal.SIGINT, lambda *_: 1 // 0); plan(array)",
}


@alone_only
def test_interrupts(programs: Programs) -> None:
    """Ctrl-C ends every wait long before the time limit, and the process ends."""
    text = """
        (comm, grid, array, plan), other = pair()
        print("waiting", flush=True)
        try:
            WAIT
        except (KeyboardInterrupt, ZeroDivisionError) as error:
            print(time.time(), type(error).__name__, flush=True)
        if "WAIT".startswith("plan"):
            try:
                plan(array)
            except hp.ExchangeError as error:
                print(error)
    """
    # The wait itself contains lines.
    started = {
        name: programs.start(textwrap.dedent(text).replace('"WAIT"', repr(wait)).replace("WAIT", wait))
        for name, wait in WAITS.items()
    }
    sent = {}
    for program in started.values():
        assert program.stdout is not None and program.stdout.readline() == "waiting\n"
    time.sleep(0.2)
    for name, program in started.items():
        sent[name] = time.time()
        program.send_signal(signal.SIGINT)
    for name, program in started.items():
        output = finished(program, 10)
        moment, kind, *rest = output.split(maxsplit=2)
        assert kind == ("ZeroDivisionError" if name == "handler" else "KeyboardInterrupt"), name
        assert float(moment) - sent[name] < 5, name
        if name in ("plan", "functional", "finish"):
            assert "given up" in rest[0] and "interrupted" in rest[0]


@alone_only
def test_interrupt_that_nothing_catches(programs: Programs) -> None:
    """The process ends as Python does after Ctrl-C."""
    program = programs.start('(comm, *_), other = pair()\nprint("waiting", flush=True)\ncomm.barrier()')
    assert program.stdout is not None and program.stdout.readline() == "waiting\n"
    time.sleep(0.1)
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=10)
    assert program.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")


@alone_only
def test_calls_in_a_signal_handler(programs: Programs) -> None:
    """A handler that runs during a wait may call Haloport: the plan is in use, another serves, and the wait goes on."""
    program = programs.start("""
        (comm, grid, array, plan), (_, _, other_array, other) = pair()
        alone = hp.Grid((4,), comm=hp.threads(1)[0])
        inner = alone.plan(np.zeros(6))
        def handler(*_):
            try:
                plan(array)
            except hp.InFlightError:
                print("in use")
            inner(np.zeros(6))
            hp.Grid((4,), comm=hp.threads(1)[0])
            pending.append(other.start(other_array))
        pending = []
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        plan(array)
        pending[0].finish()
        print("done")
    """)
    assert finished(program) == "in use\ndone\n"


@alone_only
def test_fork(programs: Programs) -> None:
    """A child of a process that used Haloport is refused, and ends; its parent goes on."""
    text = """
        MPI4PY
        grid = hp.Grid((8,), periodic=True); array = grid.empty(); array[1:-1] = np.arange(8)
        plan = grid.plan(array); fixed = grid.plan(array, fixed=True); plan(array); fixed()
        other = np.zeros(10); pending = plan.start(other)
        mesh = hp.Mesh([0, 1], 2); comm = grid.comm; stream = hp.Stream(); event = hp.Event(); device = hp.Device("cpu")
        kernel = hp.Kernel("k", None, ["pointer"], host=lambda size, array: None); bound = kernel.bind(4, array)
        calls = [
            lambda: hp.Grid((8,)), lambda: hp.threads(2), hp.Communicator, lambda: hp.Mesh([0], 1),
            lambda: hp.Mesh.from_lists(1, {}, {}), lambda: hp.Mesh.of_domains([]), lambda: hp.Device("cpu"), hp.devices,
            hp.Stream, hp.Event, lambda: hp.Kernel("k", None, [], host=print), lambda: plan(array), lambda: plan.start(array),
            lambda: plan.functional(array), fixed, pending.finish, pending.is_ready, lambda: grid.plan(array), grid.empty,
            mesh.empty, comm.barrier, lambda: comm.rank, lambda: comm.size, lambda: comm.name, lambda: plan.traffic,
            stream.synchronize, event.record, event.query, event.wait, device.synchronize,
            lambda: kernel(4, array), lambda: kernel.bind(4, array), bound, lambda: grid.gather(array), lambda: grid.scatter(array),
            lambda: grid.interior, lambda: mesh.ids, lambda: repr(grid), lambda: setattr(comm, "time_limit", 1),
        ]
        def child():
            for number, call in enumerate(calls):
                try:
                    call()
                except hp.ExchangeError as error:
                    assert "forked" in str(error), error
                else:
                    print("call", number, "was not refused", flush=True)
            # What is plain data stays.
            assert grid.shape == (10,) and array[0] == 7 and repr(plan)
            print("child", flush=True)
        END
        pending.finish(); plan(array); fixed(); comm.barrier()
        print("parent", array[0])
    """
    by_hand = """
        if (number := os.fork()) == 0:
            child()
            LEAVE
        assert os.waitpid(number, 0)[1] == 0
    """
    by_module = """
        import multiprocessing
        started = multiprocessing.get_context("fork").Process(target=child)
        started.start(); started.join(20)
        assert started.exitcode == 0, started.exitcode
    """
    endings = {
        "_exit": ("", by_hand.replace("LEAVE", "os._exit(0)")),
        "exit": ("", by_hand.replace("LEAVE", "sys.exit(0)")),
        "dropped": ("", by_hand.replace("LEAVE", "del pending, plan, fixed, grid, mesh, comm, array, other, calls; sys.exit(0)")),
        "multiprocessing": ("", by_module),
    }
    if has("mpi4py"):
        # A child that ends by itself runs the end of mpi4py, which hangs.
        endings["_exit, mpi4py"] = ("from mpi4py import MPI", by_hand.replace("LEAVE", "os._exit(0)"))
        endings["multiprocessing, mpi4py"] = ("from mpi4py import MPI", by_module)
    started = {}
    for name, (first, ending) in endings.items():
        lines = textwrap.dedent(text).replace("MPI4PY", first).replace("END", textwrap.dedent(ending))
        started[name] = programs.start(lines)
    for name, program in started.items():
        assert finished(program) == "child\nparent 7.0\n", name


@alone_only
def test_fork_after_the_import_alone(programs: Programs) -> None:
    program = programs.start("""
        def use():
            grid = hp.Grid((8,), periodic=True); array = grid.empty(); array[1:-1] = np.arange(8)
            grid.plan(array)(array)
            return array[0]
        if (number := os.fork()) == 0:
            print("child", use(), flush=True)
            sys.exit(0)
        assert os.waitpid(number, 0)[1] == 0
        print("parent", use())
    """)
    assert finished(program) == "child 7.0\nparent 7.0\n"


ENDINGS = {
    "in flight": "pending = a[3].start(a[2])",
    "fixed in flight": "a, b = pair(fixed=True); pending = a[3].start()",
    "in flight, dropped": "pending = a[3].start(a[2]); del pending",
    "in flight, in a cycle": "pending = a[3].start(a[2]); cycle = [pending, a]; cycle.append(cycle); del a, b, pending",
    "in flight, in builtins": "import builtins; builtins.kept = (a, b, a[3].start(a[2]))",
    "in flight, one rank gone": "pending = a[3].start(a[2]); del b, pending, a",
    "thread in a barrier": "threading.Thread(target=a[0].barrier, daemon=True).start(); time.sleep(0.1)",
    "thread in a plan": "threading.Thread(target=a[3], args=(a[2],), daemon=True).start(); time.sleep(0.1)",
    "thread in finish": "threading.Thread(target=a[3].start(a[2]).finish, daemon=True).start(); time.sleep(0.1)",
    "threads that exchange": """
        def run(plan, array):
            while True: plan(array)
        for _, _, array, plan in (a, b): threading.Thread(target=run, args=(plan, array), daemon=True).start()
        time.sleep(0.1)
    """,
    "finished at the end": """
        import atexit
        for _, _, array, plan in (a, b): atexit.register(plan.start(array).finish)
    """,
    "a failed plan": """
        a[0].time_limit = 0.1
        try: a[3](a[2])
        except hp.TimeLimitError: pass
    """,
    "threads of a device": "grid = hp.Grid((64, 64)); u = grid.empty(device='cpu:threads=3'); grid.plan(u)(u)",
}


@alone_only
def test_ends_of_the_interpreter(programs: Programs) -> None:
    """No end of a program waits for ranks, or crashes, whatever is in flight."""
    started = {
        name: programs.start("a, b = pair()\n" + textwrap.dedent(text) + "\nprint('end', flush=True)", RUST_BACKTRACE="0")
        for name, text in ENDINGS.items()
    }
    for name, program in started.items():
        try:
            assert finished(program, 20) == "end\n", name
        except subprocess.TimeoutExpired:
            pytest.fail(f"{name}: hangs at the end")


def has(module: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(module) is not None


needs_mpi4py = pytest.mark.skipif(world is None and not has("mpi4py"), reason="needs mpi4py")


@alone_only
def test_launcher_without_mpi4py(programs: Programs) -> None:
    text = "try: hp.Grid((8,))\nexcept hp.ExchangeError as error: print(error)"
    variables = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
    started = {variable: programs.start(text, **{variable: "3"}) for variable in variables}
    for variable in variables:
        output = finished(started[variable])
        assert "has 1 rank, but the launcher has started 3 processes" in output
        assert f"{variable}=3" in output and "mpi4py" in output
    # Those that are meant to run alone say it.
    program = programs.start("print(hp.Grid((8,), comm=hp.threads(1)[0]).comm.size)", OMPI_COMM_WORLD_SIZE="3")
    assert finished(program) == "1\n"


@alone_only
@needs_mpi4py
def test_library_that_is_nowhere(programs: Programs) -> None:
    text = """
        try: hp.Communicator(0)
        except hp.ExchangeError as error: print(error)
        from mpi4py import MPI
        try: hp.Grid((8,))
        except hp.ExchangeError as error: print(error)
        print(hp.Grid((8,), comm=hp.threads(1)[0]).comm.size)
    """
    lines = finished(programs.start(text, HALOPORT_MPI="/nowhere/libmpi.so")).splitlines()
    assert len(lines) == 3 and lines[2] == "1"
    assert all("HALOPORT_MPI=/nowhere/libmpi.so: there is no such file" in line for line in lines[:2])


@alone_only
@needs_mpi4py
def test_communicators_of_mpi4py(programs: Programs) -> None:
    """Freed after and before use, null, between groups, before MPI begins and after its end."""
    text = """
        import mpi4py
        mpi4py.rc.initialize = False
        from mpi4py import MPI
        def show(call):
            try: print("none:", call())
            except Exception as error: print(f"{type(error).__name__}: {error}")
        show(lambda: hp.Communicator(MPI.COMM_WORLD))
        print(hp.Grid((8,)).comm.size)
        MPI.Init()
        freed = MPI.COMM_WORLD.Dup()
        kept = hp.Communicator(freed)
        freed.Free()
        kept.barrier()
        grid = hp.Grid((8,), periodic=True, comm=kept); array = grid.empty(); array[1:-1] = range(8)
        plan = grid.plan(array, in_flight=2); plan(array)
        print(array[0])
        show(lambda: hp.Communicator(freed))
        show(lambda: hp.Communicator(MPI.COMM_NULL))
        pending = plan.start(array)
        MPI.Finalize()
        show(kept.barrier)
        show(lambda: grid.plan(array))
        show(lambda: hp.Communicator(MPI.COMM_WORLD))
        pending.finish()
        print(hp.Grid((8,)).comm.size)
    """
    lines = finished(programs.start(text)).splitlines()
    assert lines[0].startswith("ExchangeError: comm: expected a communicator of MPI while it runs")
    assert lines[1:3] == ["1", "7.0"]
    assert all(line.startswith("ExchangeError") and "null: it was freed, or" in line for line in lines[3:5]), lines
    assert all(line.startswith("ExchangeError") and "finalised" in line for line in lines[5:8]), lines
    assert lines[8] == "1"


@alone_only
@needs_mpi4py
def test_wrong_thread(programs: Programs) -> None:
    text = """
        import mpi4py
        mpi4py.rc.thread_level = "funneled"
        from mpi4py import MPI
        grid = hp.Grid((8,)); array = grid.empty(); plan = grid.plan(array)
        def run():
            for call in (grid.comm.barrier, lambda: hp.Grid((8,)), lambda: grid.plan(array), lambda: hp.Mesh([0], 1)):
                try: print("none:", call())
                except hp.ExchangeError as error: print(error)
            for call in (lambda: plan(array), lambda: plan.start(array), pending.finish, send.finish, row.finish,
                         lambda: idle([]), idle_line.start, pending.is_ready, send.is_ready, row.is_ready):
                try: print("none:", call())
                except hp.ExchangeError as error: print(error)
        travelling = grid.empty(); pending = grid.plan(travelling).start(travelling)
        idle = hp.SparseExchange(); idle_line = hp.LineExchange(3)
        send = hp.SparseExchange().start([(0, b"one")]); row = hp.LineExchange(3).start()
        thread = threading.Thread(target=run); thread.start(); thread.join()
        pending.finish(); plan(array); grid.comm.barrier()
        print(send.finish(), row.finish(), idle([(0, b"two")]), idle_line())
    """
    *lines, last = finished(programs.start(text)).splitlines()
    assert len(lines) == 14 and last == "[(0, b'one')] (None, None) [(0, b'two')] (None, None)"
    assert all("MPI_THREAD_FUNNELED" in line and "another thread" in line for line in lines), lines


# Jobs of MPI ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def launcher() -> tuple[str, ...]:
    """The launcher of Open MPI, if mpi4py works with it."""
    found = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if found is None or not has("mpi4py"):
        pytest.skip("needs mpi4py and the launcher of Open MPI")
    version = subprocess.run([found, "--version"], capture_output=True, text=True)
    if "open-mpi" not in version.stdout.lower() or "MPI4PY_LIBMPI" in os.environ:
        pytest.skip("needs the launcher of Open MPI")
    # It refuses to run as root without these.
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    return (found, "--oversubscribe")


@alone_only
def test_jobs(programs: Programs, launcher: tuple[str, ...]) -> None:
    """Of three ranks the middle one is killed, or stopped, in an exchange. The others name it at their time limit.

    Meanwhile other jobs fail, too.
    """
    text = """
        from mpi4py import MPI
        signal_name, kind = sys.argv[1:]
        rank = MPI.COMM_WORLD.rank
        grid = hp.Grid((12, 8), parts=(3, 1))
        array = grid.empty()
        plan = grid.plan(array, fixed=kind == "fixed")
        grid.comm.barrier()
        if rank == 1:
            threading.Timer(0.05, os.kill, (os.getpid(), getattr(signal, signal_name))).start()
        began = time.monotonic()
        try:
            while True:
                plan(array)
        except hp.TimeLimitError as error:
            print(f"rank {rank}: {error.ranks} after {time.monotonic() - began:.1f} s", flush=True)
        # The launcher ends the job at the first rank that ends.
        time.sleep(1)
        os._exit(3)
    """
    # Without the option, the launcher ends the job with the rank that is killed.
    lost = [
        programs.start(text, name, kind, launcher=(*launcher, *options, "-n", "3"), HALOPORT_TIME_LIMIT="3")
        for name, kind, options in (("SIGKILL", "passing", ("--enable-recovery",)), ("SIGSTOP", "fixed", ()))
    ]
    jobs_that_fail(programs, launcher)
    for job in lost:
        output, errors = job.communicate(timeout=40)
        # The launcher continues a stopped rank when it ends the job.
        # It may write lines of two ranks as one.
        found = sorted(re.findall(r"rank ([02]): \(1,\) after ([0-9.]+) s", output))
        assert [rank for rank, _ in found] == ["0", "2"], output + errors
        assert all(2.5 < float(seconds) < 3 + SOON for _, seconds in found), found


@alone_only
def test_an_exception_of_one_rank_ends_all(programs: Programs, launcher: tuple[str, ...]) -> None:
    text = """
        from mpi4py import MPI
        grid = hp.Grid((12, 8), parts=(2, 1)); array = grid.empty(); plan = grid.plan(array)
        hp.abort_on_exception(sys.argv[1] == "on")
        plan(array)
        if MPI.COMM_WORLD.rank == 1:
            raise ValueError("rank 1 is lost")
        plan(array)
    """
    jobs = {
        setting: programs.start(text, setting, launcher=(*launcher, "-n", "2"), HALOPORT_TIME_LIMIT=limit)
        for setting, limit in (("on", "60"), ("off", "2"))
    }
    for setting, job in jobs.items():
        output, errors = job.communicate(timeout=30)
        assert job.returncode != 0 and "ValueError: rank 1 is lost" in errors, output + errors
        # Otherwise rank 0 is ended before it gives up.
        assert ("TimeLimitError" in errors) == (setting == "off"), output + errors
        assert ("rank 1 ends by this exception, and ends all ranks" in errors) == (setting == "on"), output + errors


@alone_only
def test_threads_that_ask_for_the_world_at_once(programs: Programs, launcher: tuple[str, ...]) -> None:
    """It is duplicated once on each rank."""
    text = """
        import threading
        from mpi4py import MPI
        copies = []
        MPI.COMM_WORLD.Set_attr(MPI.Comm.Create_keyval(lambda *_: copies.append(1)), 1)
        at_once, found = threading.Barrier(4), []
        def ask():
            at_once.wait()
            found.append(hp.Communicator(MPI.COMM_WORLD))
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        for comm in found: comm.barrier()
        print(f"ranks: {found[3].all_reduce(1)}, copies: {len(copies)}", flush=True)
    """
    output = finished(programs.start(text, launcher=(*launcher, "-n", "2")))
    # One for messages and one for other calls. The launcher may write two lines of ranks as one.
    assert re.findall(r"ranks: (\d+), copies: (\d+)", output) == [("2", "2")] * 2, output


def jobs_that_fail(programs: Programs, launcher: tuple[str, ...]) -> None:
    """Ranks that call different things, and that end with an exchange in flight: no job hangs or crashes."""
    different = """
        from mpi4py import MPI
        comm = hp.Communicator(MPI.COMM_WORLD)
        try:
            comm.barrier() if comm.rank == 0 else hp.Grid((8,), comm=comm)
        except hp.RefusedError as error:
            print(f"refused: {error}", flush=True)
    """
    in_flight = """
        from mpi4py import MPI
        grid = hp.Grid((8, 6), periodic=True); array = grid.empty(); fixed_array = grid.empty()
        plan = grid.plan(array, in_flight=2); fixed = grid.plan(fixed_array, fixed=True)
        kept = [plan.start(array), fixed.start()]
        plan.start(np.zeros(grid.shape))
        print("end", flush=True)
    """
    without = 'try: hp.Grid((8,))\nexcept hp.ExchangeError as error: print(error, flush=True)'
    jobs = [programs.start(text, launcher=(*launcher, "-n", "2")) for text in (different, in_flight, without)]
    # The launcher may write two lines of ranks as one.
    refused, ended, refused_alone = [finished(job) for job in jobs]
    texts = [text.strip() for text in refused.split("refused: ") if text.strip()]
    assert len(texts) == 2 and len(set(texts)) == 1, refused
    assert ended.split() in (["end", "end"], ["endend"]), ended
    assert refused_alone.count("has 1 rank, but the launcher has started 2 processes") == 2, refused_alone


@alone_only
def test_leaves_no_files(programs: Programs) -> None:
    """A process that ends in an exchange leaves no shared memory behind."""
    shared = Path("/dev/shm")
    if not shared.is_dir():
        pytest.skip("found no /dev/shm")

    program = programs.start("a, b = pair(fixed=True); pending = a[3].start(); print(os.getpid())")
    number = finished(program).strip()
    assert not [path.name for path in shared.iterdir() if "haloport" in path.name and number in path.name]
