"""A rolling mean over a table of pandas whose rows are spread over the ranks, each with consecutive ones.

    python rolling_mean.py                    # four ranks, as threads
    mpirun -n 4 python rolling_mean.py 200    # or as processes; the number of rows of the window
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import haloport as hp
import numpy as np
import pandas as pd

try:
    from mpi4py import MPI
except (ImportError, RuntimeError):
    MPI = None

TABLE = Path(__file__).resolve().parents[3] / "data" / "stocks.csv"
WINDOW = int(sys.argv[1]) if len(sys.argv) > 1 else 36


def rolling_mean(comm):
    """The means of the rows that this rank owns, and the number of rounds in which ranks passed rows on."""
    table = read()
    line = hp.LineExchange(len(table), comm=comm)  # in equal parts
    mine = table.iloc[line.items.start : line.items.stop]  # a rank needs no other rows of the table

    # Each rank passes the rows before its own on, until every one has those of its window.
    needed = WINDOW - 1
    rounds = min(-(-needed // (len(table) // line.comm.size)), line.comm.size - 1)
    rows = mine.to_numpy()
    before, passing = rows[:0], rows[max(0, len(rows) - needed) :]
    for _ in range(rounds):
        came, _ = line(right=None if line.right is None else passing.tobytes())
        passing = np.frombuffer(came or b"").reshape(-1, rows.shape[1])
        before = np.vstack([passing, before])
    known = pd.DataFrame(np.vstack([before, rows]), columns=mine.columns)
    means = known.rolling(WINDOW, min_periods=1).mean()
    return means.iloc[len(before) :].set_axis(mine.index), rounds


def read():
    """Prices of shares; without the rows of dividends, which have none."""
    return pd.read_csv(TABLE, comment="#", index_col="Date", parse_dates=True).dropna(how="all")


def main():
    if MPI and MPI.COMM_WORLD.size > 1:
        parts = [rolling_mean(None)]
    else:
        with ThreadPoolExecutor(4) as pool:
            parts = list(pool.map(rolling_mean, hp.threads(4)))

    expected = read().rolling(WINDOW, min_periods=1).mean()
    for means, rounds in parts:
        print(f"{means.index[0]:%Y-%m} to {means.index[-1]:%Y-%m}: as over the whole table (rounds: {rounds})")
        pd.testing.assert_frame_equal(means, expected.loc[means.index], rtol=1e-12, check_freq=False)


main()
