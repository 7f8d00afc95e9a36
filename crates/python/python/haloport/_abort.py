"""Ends all ranks of a job of MPI if the program of one of them ends by an exception."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]

_before: _Hook | None = None
"""The hook that was there before this one; `None` if this one was not put in place."""

_is_on = True


def abort_on_exception(on: bool = True) -> None:
    """Chooses whether an exception that nothing catches ends all ranks of an MPI job, instead of leaving them to wait for
    this one. It does by default, from the first communicator of mpi4py with several ranks on.

    The exception is printed first. Does nothing for exceptions in threads, in interactive sessions, and without mpi4py.

    Parameters
    ----------
    on : bool
        ``False``: the other ranks wait, until their time limit.
    """
    global _is_on
    _is_on = bool(on)
    if _is_on:
        _put_in_place()


def _put_in_place() -> None:
    """Puts the hook in place, once. Called for each communicator of several ranks."""
    global _before
    if _before is None and _is_on:
        _before = sys.excepthook
        sys.excepthook = _end_all


def _end_all(kind: type[BaseException], value: BaseException, traceback: TracebackType | None) -> None:
    (_before or sys.__excepthook__)(kind, value, traceback)
    mpi = sys.modules.get("mpi4py.MPI")
    is_interactive = hasattr(sys, "ps1") or bool(sys.flags.interactive)
    if not _is_on or mpi is None or is_interactive or not mpi.Is_initialized() or mpi.Is_finalized():
        return
    world = mpi.COMM_WORLD
    if world.Get_size() > 1:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        print(f"haloport: rank {world.Get_rank()} ends by this exception, and ends all ranks", file=sys.stderr, flush=True)
        world.Abort(1)
