"""Contestants: compiled ones with the interface of `peers.h`, and those that are written in Python."""

import ctypes as c
import sys
import traceback

import interface


class Compiled:
    """A contestant of a library."""

    def __init__(self, strategy, comm, problem):
        self.name = strategy.name.decode()
        self.strategy, self.stand_in = strategy, strategy.stand_in
        self.state = strategy.create(comm, c.byref(problem))
        self.runs = bool(self.state)
        self.writes = None

    def runner(self):
        return interface.Runner(self.strategy.run, self.state, interface.Run(), self.writes)

    def address(self, field):
        return self.strategy.field(self.state, field)

    def load(self):
        if self.strategy.load:
            self.strategy.load(self.state)

    def store(self):
        if self.strategy.store:
            self.strategy.store(self.state)

    def destroy(self):
        self.strategy.destroy(self.state)


class InPython:
    """A contestant whose exchange is a function of Python, of NumPy arrays."""

    stand_in, runs, writes = 0, True, None

    def __init__(self, name, exchange, arrays):
        self.name, self.arrays = name, arrays

        def run(_state, batch):
            try:
                for _ in range(batch):
                    exchange()
            except Exception:
                traceback.print_exc(file=sys.stderr)
                return 1
            return 0

        self.callback, self.idle = interface.Run(run), interface.Run(lambda _state, _batch: 0)

    def runner(self):
        return interface.Runner(self.callback, None, self.idle, self.writes)

    def address(self, field):
        return self.arrays[field].ctypes.data

    def load(self):
        pass

    def store(self):
        pass

    def destroy(self):
        pass
