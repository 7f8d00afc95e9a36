"""A tsunami off Vancouver Island: the shallow-water equations on the real relief of the Salish Sea.

    python tsunami.py                          # four ranks, as threads
    mpirun -n 4 python tsunami.py --verify     # or as processes
    python tsunami.py --hours 2 --refine 4     # longer, and finer

Writes pictures to out/tsunami-python, if Matplotlib is there. The scheme is of first order: the hydrostatic reconstruction
of Audusse et al. (2004) with the fluxes of Harten, Lax and van Leer. It keeps a lake at rest, depths positive and the volume
of water. `haloport run tsunami` computes the same with a scheme of second order, on a sphere, with the Earth's rotation.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import haloport as hp
import numpy as np

try:
    from mpi4py import MPI
except (ImportError, RuntimeError):
    MPI = None

RELIEF = Path(__file__).resolve().parents[3] / "data" / "topobathy.npz"
GRAVITY, DRY = 9.81, 1e-3  # m/s2, m
EARTH = 6_371_008.8  # metres
TOP, HEIGHT, LENGTH, WIDTH, STRIKE = (234.6, 48.37), 2.5, 26e3, 12e3, np.radians(320)  # of the uplift


class Sea:
    """The bed of the whole map, in rows from south to north, and its sea surface, lifted by an earthquake."""

    def __init__(self, refine):
        with np.load(RELIEF) as relief:
            longitude, latitude = (stretch(relief[name], refine) for name in ("longitude", "latitude"))
            self.bed = stretch(stretch(relief["topo"].astype(float), refine).T, refine).T
        self.extent = longitude[0], longitude[-1], latitude[0], latitude[-1]
        self.dy = EARTH * np.radians(latitude[1] - latitude[0])
        self.dx = EARTH * np.radians(longitude[1] - longitude[0]) * np.cos(np.radians(latitude.mean()))
        east = EARTH * np.radians(longitude - TOP[0]) * np.cos(np.radians(TOP[1]))
        north = EARTH * np.radians(latitude - TOP[1])[:, None]
        along, across = east * np.sin(STRIKE) + north * np.cos(STRIKE), east * np.cos(STRIKE) - north * np.sin(STRIKE)
        uplift = HEIGHT * np.exp(-((along / LENGTH) ** 2 + (across / WIDTH) ** 2) / 2)
        self.depth = np.where(self.bed < 0, np.maximum(uplift - self.bed, 0), 0)


def stretch(values, refine):
    """Values at `refine` times as many points along the last axis, between those given."""
    old = np.arange(values.shape[-1])
    new = np.linspace(0, old[-1], refine * old[-1] + 1)
    return np.apply_along_axis(lambda line: np.interp(new, old, line), -1, values)


def simulate(sea, seconds, every, comm=None):
    """Computes this rank's part. Returns its slices of the map, and in steps of `every` seconds the time and the depths there."""
    grid = hp.Grid(sea.bed.shape, halo=1, corners=False, comm=comm)
    part = tuple(slice(a, b) for a, b in zip(grid.lower, grid.upper))
    edges = np.pad(sea.bed, 1, mode="edge")  # with closed walls round the map
    bed = edges[tuple(slice(a, b + 2) for a, b in zip(grid.lower, grid.upper))]

    # Depth, and depth times the velocity to the north and to the east. The last axis: these three.
    q, new = np.zeros((*grid.shape, 3)), np.zeros((*grid.shape, 3))
    q[grid.owned][..., 0] = sea.depth[part]
    update = grid.plan(q, axes=[0, 1, "components"])
    dt = 0.45 * min(sea.dx, sea.dy) / np.sqrt(GRAVITY * sea.depth.max()) / 1.2  # the same on all ranks
    steps = int(np.ceil(seconds / dt))
    pictures = []
    for number in range(steps + 1):
        if number % max(1, round(every / dt)) == 0 or number == steps:
            pictures.append((number * dt, q[grid.owned][..., 0].copy()))
        walls(q, grid)
        with update.start(q):
            step(new, q, bed, grid.interior, sea, dt)  # while halos travel
        for cells in grid.boundary:
            step(new, q, bed, cells, sea, dt)
        q, new = new, q
    return part, pictures


def walls(q, grid):
    """Mirrors the cells at the ends of the map, with the velocity through the wall turned round."""
    for axis in (0, 1):
        lines = np.moveaxis(q, axis, 0)
        turned = np.where(np.arange(3) == axis + 1, -1.0, 1.0)
        if grid.lower[axis] == 0:
            lines[0] = turned * lines[1]
        if grid.upper[axis] == grid.global_shape[axis]:
            lines[-1] = turned * lines[-2]


def step(new, q, bed, cells, sea, dt):
    """One step of Euler's method for a box of cells."""
    change = 0.0
    for axis, width in ((0, sea.dy), (1, sea.dx)):
        lower, here, higher = (box(cells, axis, by) for by in (-1, 0, 1))
        _, low = flux(q[lower], q[here], bed[lower], bed[here], axis)
        high, _ = flux(q[here], q[higher], bed[here], bed[higher], axis)
        change = change + (high - low) / width
    after = q[cells] - dt * change
    after[after[..., 0] < DRY, 1:] = 0
    after[..., 0] = np.maximum(after[..., 0], 0)  # of rounding alone
    new[cells] = after


def box(cells, axis, by):
    """The cells that lie `by` further along an axis."""
    moved = slice(cells[axis].start + by, cells[axis].stop + by)
    return cells[:axis] + (moved,) + cells[axis + 1 :]


def flux(left, right, bed_left, bed_right, axis):
    """The flux through faces, as the cells before them see it, and those behind them."""
    through, along = axis + 1, 2 - axis
    bed = np.maximum(bed_left, bed_right)
    sides = []
    for q, own in ((left, bed_left), (right, bed_right)):
        h = np.maximum(q[..., 0] + own - bed, 0)
        velocity = np.where(q[..., :1] > DRY, q / np.maximum(q[..., :1], DRY), 0)
        sides.append((h, velocity[..., through], velocity[..., along], q[..., 0]))
    (hl, ul, vl, full_l), (hr, ur, vr, full_r) = sides
    cl, cr = np.sqrt(GRAVITY * hl), np.sqrt(GRAVITY * hr)
    slow = np.minimum(np.minimum(ul - cl, ur - cr), 0)
    fast = np.maximum(np.maximum(ul + cl, ur + cr), 0)
    spread = np.maximum(fast - slow, 1e-12)

    def between(flux_l, flux_r, value_l, value_r):
        return (fast * flux_l - slow * flux_r + fast * slow * (value_r - value_l)) / spread

    mass = between(hl * ul, hr * ur, hl, hr)
    pressure_l, pressure_r = GRAVITY / 2 * hl**2, GRAVITY / 2 * hr**2
    momentum = between(hl * ul**2 + pressure_l, hr * ur**2 + pressure_r, hl * ul, hr * ur)
    results = []
    for pressure, full in ((pressure_l, full_l), (pressure_r, full_r)):
        result = np.empty((*mass.shape, 3))
        result[..., 0] = mass
        result[..., through] = momentum - pressure + GRAVITY / 2 * full**2
        result[..., along] = mass * np.where(mass > 0, vl, vr)
        results.append(result)
    return results


def draw(sea, pictures, folder):
    """Pictures of the sea surface."""
    from matplotlib.colors import LightSource
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    west, east, south, north = sea.extent
    surfaces = [(time, np.where(sea.bed < 0, depth + sea.bed, np.nan)) for time, depth in pictures]
    end = round_above(max(np.nanmax(np.abs(surface)) for _, surface in surfaces))
    for time, surface in surfaces:
        figure = Figure(figsize=(9, 7), layout="constrained")
        axes = figure.add_subplot(aspect=1 / np.cos(np.radians((south + north) / 2)))
        extent = (west - 360, east - 360, south, north)
        land = LightSource().hillshade(sea.bed, vert_exag=0.02)
        axes.imshow(land, cmap="gray", vmin=-0.4, vmax=1.2, origin="lower", extent=extent, aspect="auto")
        image = axes.imshow(surface, cmap="RdBu_r", vmin=-end, vmax=end, origin="lower", extent=extent, aspect="auto")
        figure.colorbar(image, label="height of the sea surface (m)")
        axes.set(title=f"{time / 60:.0f} minutes after the uplift", xlabel="longitude", ylabel="latitude")
        figure.savefig(folder / f"surface-{time / 60:03.0f}.png", dpi=110)


def round_above(height):
    """The end of the colours, metres: a round number that no height exceeds."""
    power = 10.0 ** np.floor(np.log10(max(height, 0.01)))
    return next(end * power for end in (1, 1.5, 2, 3, 4, 6, 10) if height <= end * power)


def main():
    parser = argparse.ArgumentParser(description="A tsunami off Vancouver Island.")
    parser.add_argument("--hours", type=float, default=1.0, help="simulated time (default: 1)")
    parser.add_argument("--refine", type=int, default=2, help="cells for each of the relief's, along each axis (2)")
    parser.add_argument("--every", type=float, default=10.0, help="minutes between pictures (10)")
    parser.add_argument("--ranks", type=int, default=4, help="threads, without mpirun (4)")
    parser.add_argument("--verify", action="store_true", help="compare with the fields of one rank")
    chosen = parser.parse_args()

    sea = Sea(chosen.refine)
    run = sea, 3600 * chosen.hours, 60 * chosen.every
    if MPI and MPI.COMM_WORLD.size > 1:
        parts = MPI.COMM_WORLD.gather(simulate(*run))
    else:
        with ThreadPoolExecutor(chosen.ranks) as pool:
            parts = list(pool.map(lambda comm: simulate(*run, comm), hp.threads(chosen.ranks)))
    if parts is None:  # the first rank does the rest
        return
    pictures = assemble(sea, parts)

    volumes = [depth.sum() for _, depth in pictures]
    drift = max(abs(volume / volumes[0] - 1) for volume in volumes)
    wet = sea.bed < 0
    heights = [(time, np.max((depth + sea.bed)[wet])) for time, depth in pictures]
    for time, height in heights:
        print(f"{time / 60:5.1f} minutes: highest surface {height:.2f} m")
    print(f"{len(parts)} ranks; largest relative change of the volume {drift:.1e}")
    assert drift < 1e-12 and all(np.isfinite(depth).all() for _, depth in pictures)
    if chosen.verify:
        alone = assemble(sea, [simulate(*run, hp.threads(1)[0])])
        assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(pictures, alone, strict=True))
        calm = Sea(chosen.refine)
        calm.depth = np.maximum(-calm.bed, 0)
        _, rest = simulate(calm, 600, 600, hp.threads(1)[0])
        assert abs(rest[-1][1] - calm.depth).max() < 1e-9
        print("the fields are those of one rank, to the last bit; a lake stays at rest")
    try:
        draw(sea, pictures, Path("out") / "tsunami-python")
    except ImportError:
        print("found no Matplotlib: no pictures")


def assemble(sea, parts):
    """The times, and the depths of the whole map."""
    whole = []
    for number, (time, _) in enumerate(parts[0][1]):
        depth = np.empty(sea.bed.shape)
        for part, pictures in parts:
            depth[part] = pictures[number][1]
        whole.append((time, depth))
    return whole


main()
