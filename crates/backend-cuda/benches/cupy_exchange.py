#!/usr/bin/env python3
"""Times the halo exchange of one rank with itself over periodic axes, written with CuPy.

    cupy_exchange.py [--numpy] [--cells N] [--halo W] [--fields F] [--bar RATIO] [--beside haloport bench exchange ...]

There are F fields (8): arrays of N³ cells of f64 (N is 256) with W halo cells (3) on every side, each with 26 neighbours,
all of them the rank itself. Three ways of writing the exchange are timed:

- buffers: for every neighbour and field, copy a slice into the neighbour's buffer, then every buffer into the halo;
- stacked: the same with all fields in one array, so that one statement copies them all;
- straight: without buffers, which is possible only if a rank is its own neighbour.

Each time is that of one exchange, from its start until the device is done. All halo cells are checked, before and after.

With --beside, the given command does the same exchange in turns with these, and each round gives a ratio. The exit code
is 1 if its median over `buffers` is below the bar, and 77 if CuPy or a device for it is missing. --numpy uses NumPy instead
of CuPy, to try this program without a GPU.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--numpy", action="store_true")
    parser.add_argument("--cells", type=int, default=256)
    parser.add_argument("--halo", type=int, default=3)
    parser.add_argument("--fields", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--samples", type=int, default=30, help="exchanges of each way in a round (30)")
    parser.add_argument("--bar", type=float, default=0.0)
    parser.add_argument("--beside", nargs=argparse.REMAINDER, default=[], metavar="COMMAND")
    arguments = parser.parse_args()
    numbers = (arguments.cells, arguments.halo, arguments.fields, arguments.rounds, arguments.samples)
    if min(numbers) < 1 or arguments.halo > arguments.cells:
        parser.error("all numbers are at least 1, and the halo is no wider than the field")
    return arguments


def library(numpy):
    """CuPy or NumPy, the device that it runs on, and a function that returns when all work is done."""
    if numpy:
        import numpy

        return numpy, f"NumPy {numpy.__version__}", lambda: None
    import cupy

    device = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    return cupy, f"CuPy {cupy.__version__} on {device}", cupy.cuda.Stream.null.synchronize


def neighbours(cells, halo):
    """The owned cells that are sent in each of the 26 directions, with the halo cells that they arrive in."""
    sent = {-1: slice(halo, 2 * halo), 0: slice(halo, halo + cells), 1: slice(cells, halo + cells)}
    # Cells that are sent down arrive from above.
    halos = {-1: slice(halo + cells, 2 * halo + cells), 0: sent[0], 1: slice(0, halo)}
    directions = [direction for direction in itertools.product((-1, 0, 1), repeat=3) if any(direction)]
    return [
        (tuple(sent[step] for step in direction), tuple(halos[step] for step in direction))
        for direction in directions
    ]


class Buffers:
    """One buffer per neighbour, one statement per neighbour and field."""

    name = "buffers"

    def __init__(self, xp, shape, fields, pairs):
        self.arrays = [xp.empty(shape) for _ in range(fields)]
        self.pairs = pairs
        self.buffers = [xp.empty((fields, *self.arrays[0][sent].shape)) for sent, _ in pairs]

    def exchange(self):
        for (sent, _), buffer in zip(self.pairs, self.buffers):
            for number, array in enumerate(self.arrays):
                buffer[number] = array[sent]
        for (_, halo), buffer in zip(self.pairs, self.buffers):
            for number, array in enumerate(self.arrays):
                array[halo] = buffer[number]


class Stacked:
    """One buffer per neighbour, all fields in one array."""

    name = "stacked"

    def __init__(self, xp, shape, fields, pairs):
        self.arrays = xp.empty((fields, *shape))
        self.pairs = [((slice(None), *sent), (slice(None), *halo)) for sent, halo in pairs]
        self.buffers = [xp.empty(self.arrays[sent].shape) for sent, _ in self.pairs]

    def exchange(self):
        for (sent, _), buffer in zip(self.pairs, self.buffers):
            buffer[...] = self.arrays[sent]
        for (_, halo), buffer in zip(self.pairs, self.buffers):
            self.arrays[halo] = buffer


class Straight:
    """Copies from the owned cells straight into the halo."""

    name = "straight"

    def __init__(self, xp, shape, fields, pairs):
        self.arrays = [xp.empty(shape) for _ in range(fields)]
        self.pairs = pairs

    def exchange(self):
        for sent, halo in self.pairs:
            for array in self.arrays:
                array[halo] = array[sent]


def verify(xp, way, cells, halo, seed):
    """Exchanges into halos that hold NaN, and checks every cell."""
    owned = (slice(halo, halo + cells),) * 3
    count = cells**3
    for number, array in enumerate(way.arrays):
        array[...] = xp.nan
        array[owned] = (xp.arange(count, dtype=float) + seed + number * count).reshape((cells,) * 3)
    way.exchange()
    for number, array in enumerate(way.arrays):
        if not bool((array == xp.pad(array[owned], halo, mode="wrap")).all()):
            sys.exit(f"{way.name}: halo cells of field {number} are wrong")


def measure(way, samples, synchronize):
    """The median time of an exchange, in microseconds."""
    times = []
    for _ in range(samples):
        synchronize()
        begin = time.perf_counter()
        way.exchange()
        synchronize()
        times.append(1e6 * (time.perf_counter() - begin))
    return statistics.median(times)


def haloport(command, arguments):
    """Does the same exchange by `haloport bench exchange`; returns a description and the median time in microseconds."""
    local = ",".join([str(arguments.cells)] * 3)
    case = ["--ranks", "1", "--local", local, "--halo", str(arguments.halo), "--fields", str(arguments.fields)]
    done = subprocess.run([*command, *case, "--json"], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}")
    report = json.loads(done.stdout)
    if not report["verified"]:
        sys.exit("haloport has not checked its halos")
    return f"Haloport on {report['device']}, {report['device_name']}, by {report['path']}", report["median_us"]


def main():
    arguments = parse()
    try:
        xp, who, synchronize = library(arguments.numpy)
    except Exception as error:  # Without a driver or device, CuPy raises many types.
        print(f"nothing to compare with: {type(error).__name__}: {error}")
        sys.exit(77)
    cells, halo = arguments.cells, arguments.halo
    shape = (cells + 2 * halo,) * 3
    pairs = neighbours(cells, halo)
    ways = [kind(xp, shape, arguments.fields, pairs) for kind in (Buffers, Stacked, Straight)]
    for way in ways:
        verify(xp, way, cells, halo, 1)

    times = {way.name: [] for way in ways}
    own = []
    for _ in range(arguments.rounds):
        for way in ways:
            times[way.name].append(measure(way, arguments.samples, synchronize))
        if arguments.beside:
            other, microseconds = haloport(arguments.beside, arguments)
            own.append(microseconds)
    for way in ways:
        verify(xp, way, cells, halo, 1000)

    print(f"{who}: {cells}³ cells of f64, halo {halo}, {arguments.fields} fields, 26 neighbours, all halo cells checked")
    if own:
        print(f"{other}: {statistics.median(own):.0f} µs per exchange, median of {len(own)} rounds in turns")
    ratios = {}
    for name, microseconds in times.items():
        line = f"  {name:<10}{statistics.median(microseconds):>10.0f} µs"
        if own:
            of_rounds = [theirs / ours for theirs, ours in zip(microseconds, own)]
            ratios[name] = statistics.median(of_rounds)
            line += f", {ratios[name]:.2f} times Haloport's ({min(of_rounds):.2f} to {max(of_rounds):.2f})"
        print(line)
    if own and arguments.bar:
        held = ratios["buffers"] >= arguments.bar
        print(f"the bar of {arguments.bar:g} over `buffers` is {'held' if held else 'MISSED'}")
        sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
