"""xarray opens the fields that the jobs save, and finds in them what the jobs have reported.

usage: open_fields.py FOLDER     with tsunami.zarr and tsunami.json, advection.zarr and advection.json
"""

import json
import sys
from pathlib import Path

import numpy as np
import xarray

folder = Path(sys.argv[1])


def opened(job):
    """The fields of a job, all of them read, and its report."""
    fields = xarray.open_zarr(folder / f"{job}.zarr", consolidated=False).load()
    return fields, json.loads((folder / f"{job}.json").read_text())


fields, report = opened("tsunami")
columns, rows = report["grid"]
assert dict(fields.sizes) == {"time": 3, "latitude": rows, "longitude": columns}, fields.sizes
assert list(fields.time.values) == [0, 600, report["simulated_s"]] and fields.time.units == "s"
assert set(fields.data_vars) == {"h", "hu", "hv", "largest", "bed"} and fields.h.dtype == np.float64
assert fields.uplift == report["uplift"]
top = fields.largest.isel(time=-1)
at = top.argmax(["latitude", "longitude"])
assert float(top.max()) == report["max_wave_m"]
assert [float(top.longitude[at["longitude"]]), float(top.latitude[at["latitude"]])] == report["max_wave_at"]
speed = np.hypot(fields.hu, fields.hv).where(fields.h > 1) / fields.h
assert 0 < float(speed.max()) <= report["max_speed_m_s"] * (1 + 1e-12)
at_sea = fields.bed < -1
level = (fields.h + fields.bed).where(at_sea).isel(time=0)
assert np.isclose(float(level.max()), report["uplift"]["height"], rtol=0.02), float(level.max())

fields, report = opened("advection")
assert dict(fields.sizes) == {"time": 5, "cell": report["cells"], "level": report["levels"]}, fields.sizes
assert list(fields.time.values) == [86400 * report["simulated_days"] * quarter / 4 for quarter in range(5)]
assert [float(fields.tracer.min()), float(fields.tracer.max())] == [report["smallest"], report["largest"]]
assert fields.run == {"mesh": report["mesh"], "tracer": "gaussian", "alpha": 45, "days": 1, "limited": False}
# The first hill begins at 270 degrees east on the equator.
top = fields.tracer.isel(time=0, level=0).argmax("cell")
assert abs(float(fields.longitude[top]) + 90) < 8 and abs(float(fields.latitude[top])) < 8
print(f"xarray {xarray.__version__} opens the fields of both jobs")
