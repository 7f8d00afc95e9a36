"""Compares ICON4Py's `exchange` of a field of 4 KiB by GHEX and by Haloport, in one job.

    mpirun -n 2 python crates/python/bench/icon4py_exchange.py [--rounds N] [--calls N]

The two take turns. A round times some calls in a row on each rank and takes the slowest rank; the table has the medians of
all rounds, the ratio of the medians, and the quartiles of the ratios of single rounds. Every round is verified. The
environment of `scripts/ghex` has what it needs beside Haloport.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from gt4py import next as gtx
from icon4py.model.common import dimension
from icon4py.model.common.decomposition import definitions, mpi_decomposition
from mpi4py import MPI
import numpy as np

import haloport
import haloport.icon4py

BYTES = 4096
CASES = [
    ("gt4py field", (512,), "C"),
    ("gt4py field", (64, 8), "C"),
    ("gt4py field", (64, 8), "F"),
    ("array", (512,), "C"),
    ("array", (64, 8), "C"),
]
DIM = dimension.CellDim


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=41, help="rounds of each case")
    parser.add_argument("--calls", type=int, default=200, help="calls in a round")
    arguments = parser.parse_args()
    mpi_decomposition.init_mpi()
    world = MPI.COMM_WORLD
    props = mpi_decomposition.MPICommProcessProperties(world)
    if props.comm_size < 2:
        parser.error("expected 2 ranks or more: run it under mpirun")
    if mpi_decomposition.ghex is None:
        parser.error(f"GHEX is missing: {mpi_decomposition.import_error}")
    lines = [row("field", "shape", "order", "GHEX, µs", "Haloport, µs", "ratio", "ratios of rounds")]
    lines.append(row(*["---"] * 7))
    for case in CASES:
        lines.append(row(case[0], str(case[1]), case[2], *compare(props, case, arguments)))
    if world.rank == 0:
        versions = f"GHEX {mpi_decomposition.ghex.__version__}, Haloport {haloport.__version__}"
        print(f"ICON4Py's exchange of {BYTES} bytes on {world.size} ranks, {versions}\n")
        print("\n".join(lines))


def compare(props: Any, case: tuple[str, tuple[int, ...], str], arguments: argparse.Namespace) -> list[str]:
    """Returns the last cells of a line of the table."""
    kind, shape, order = case
    world = props.comm
    info = decomposition(world.rank, world.size, shape[0])
    contestants = (mpi_decomposition.GHexMultiNodeExchange(props, info), haloport.icon4py.Exchange(props, info))
    fields = [field_of(kind, np.empty(shape, order=order)) for _ in contestants]
    times: list[list[float]] = [[], []]
    for number in range(arguments.rounds + 1):
        for which in (0, 1) if number % 2 else (1, 0):
            array = fields[which] if kind == "array" else fields[which].ndarray
            reset(array, info, number)
            time = timed(world, contestants[which], fields[which], arguments.calls)
            verify(array, info, number)
            if number > 0:
                times[which].append(time)
    ghex, ours = (statistics.median(one) for one in times)
    low, _, high = statistics.quantiles([mine / other for other, mine in zip(*times)], n=4)
    return [f"{1e6 * ghex:.2f}", f"{1e6 * ours:.2f}", f"{ours / ghex:.3f}", f"{low:.3f} to {high:.3f}"]


def decomposition(rank: int, size: int, rows: int) -> Any:
    """Returns a ring of cells: each rank owns the same number, with a halo of a sixteenth of the rows on either side."""
    halo = rows // 16
    owned = rows - 2 * halo
    ids = (np.arange(-halo, owned + halo) + rank * owned) % (size * owned)
    mask = np.zeros(rows, np.bool_)
    mask[halo:-halo] = True
    info = definitions.DecompositionInfo()
    for dim in (dimension.CellDim, dimension.EdgeDim, dimension.VertexDim):
        info.set_dimension(dim, ids, mask, np.where(mask, 0, 1))
    return info


def field_of(kind: str, array: Any) -> Any:
    """Returns the array, or a field of GT4Py over it."""
    assert array.nbytes == BYTES
    if kind == "array":
        return array
    dims = (DIM, dimension.KDim)[: array.ndim]
    domain = gtx.domain({dim: (0, extent) for dim, extent in zip(dims, array.shape)})
    field = gtx.common._field(array, domain=domain)
    assert field.ndarray is array
    return field


def reset(array: Any, info: Any, number: int) -> None:
    """Sets owned cells to their values, and halos to -1."""
    array[...] = expected(array, info, number)
    array[~info.owner_mask(DIM)] = -1


def expected(array: Any, info: Any, number: int) -> Any:
    values = 1000.0 * info.global_index(DIM) + number
    return values if array.ndim == 1 else values[:, None] + np.arange(array.shape[1]) / 16


def verify(array: Any, info: Any, number: int) -> None:
    np.testing.assert_array_equal(array, expected(array, info, number))


def timed(world: Any, exchange: Any, field: Any, calls: int) -> float:
    """Returns the time of a call in seconds, of the slowest rank."""
    exchange.exchange(DIM, field)
    world.Barrier()
    begin = MPI.Wtime()
    for _ in range(calls):
        exchange.exchange(DIM, field)
    return float(world.allreduce((MPI.Wtime() - begin) / calls, MPI.MAX))


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
