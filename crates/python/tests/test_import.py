"""``import haloport`` is quick and has no side effects."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import world

if world is not None:
    pytest.skip("programs are started without a launcher", allow_module_level=True)

LIMIT = 0.1
"""The time that the import may take beyond that of NumPy, divided by the time of that."""

BEGIN, END = "/haloport-import-begins", "/haloport-import-ends"
"""Files that do not exist: looking for them marks the import in the list of system calls."""

LIBRARIES = re.compile(r"lib(mpi|open-(rte|pal)|pmi|cuda|nvidia|nvrtc|OpenCL|sycl|ze_loader)[^/]*\.so|\.icd\b")

REPORT = """
import json, os, sys, time

def state():
    maps = [line.split()[-1] for line in open("/proc/self/maps")]
    return len(os.listdir("/proc/self/task")), sorted({name for name in maps if name.startswith("/")})

def clocks():
    return time.perf_counter(), time.thread_time()

begin = clocks()
import numpy
middle, before = clocks(), state()
again = clocks()
import haloport
end, after = clocks(), state()
print(json.dumps({"numpy": [b - a for a, b in zip(begin, middle)], "haloport": [b - a for a, b in zip(again, end)],
                  "before": before, "after": after}))
"""

TRACED = f"""
import os
import numpy
os.access({BEGIN!r}, os.F_OK)
import haloport
os.access({END!r}, os.F_OK)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which no folder of Haloport exists yet."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HALOPORT", "XDG"))}
    return {**kept, "HOME": str(tmp_path)}


def report(environment: dict[str, str]) -> dict[str, Any]:
    """Imports NumPy and Haloport in a new process, which writes no ``.pyc`` files."""
    command = [sys.executable, "-B", "-c", REPORT]
    result: dict[str, Any] = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
    return result


def test_is_quick(environment: dict[str, str]) -> None:
    reports = [report(environment) for _ in range(7)]
    # On a busy machine a process also waits for its turn: the quickest has waited least.
    for clock, typical in enumerate((min, statistics.median)):
        numpy, own = (typical(report[module][clock] for report in reports) for module in ("numpy", "haloport"))
        assert own <= LIMIT * numpy, f"{own * 1e3:.1f} ms beside {numpy * 1e3:.1f} ms"


def test_starts_no_thread(environment: dict[str, str]) -> None:
    found = report(environment)
    assert found["after"][0] == found["before"][0]


def test_loads_no_driver(environment: dict[str, str]) -> None:
    found = report(environment)
    new = set(found["after"][1]) - set(found["before"][1])
    assert any("_haloport" in name for name in new)
    assert not [name for name in new if LIBRARIES.search(name)]


def test_makes_no_folder(environment: dict[str, str], tmp_path: Path) -> None:
    report(environment)
    assert list(tmp_path.iterdir()) == []


def test_system_calls(environment: dict[str, str], tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("found no strace")
    output = tmp_path / "calls"
    trace = [strace, "-f", "-qq", "-e", "trace=%file,%process,%network,pipe,pipe2", "-o", str(output)]
    try:
        subprocess.run([*trace, sys.executable, "-c", ""], check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"strace may not trace: {error.stderr.decode()}")
    subprocess.run([*trace, sys.executable, "-B", "-c", TRACED], env=environment, check=True, capture_output=True)
    calls = output.read_text()
    calls = calls[calls.index(BEGIN) : calls.index(END)]
    assert "_haloport" in calls
    assert not [line for line in calls.splitlines() if LIBRARIES.search(line)]
    # New processes and threads, connections, and everything that makes or changes a file.
    changes = r"\b(v?fork|clone3?|execve|socket|connect|pipe2?|mkdir(at)?|rename\w*|unlink\w*|creat|link\w*|symlink\w*)\("
    assert not re.findall(rf"(?m)^.*{changes}.*$", calls)
    assert not re.findall(r"(?m)^.*\bO_(?:WRONLY|RDWR|CREAT)\b.*$", calls)
