"""Every example runs, on one process or under the launcher of these tests, and checks its results itself."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import world

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))

ARGUMENTS = {
    "heat": ["20"],
    "dpnp_heat": ["64"],
    "rolling_mean": ["200"],
    "tsunami": ["--hours", "0.02", "--refine", "1", "--verify"],
}
"""Small sizes, by the names of examples; by default none."""

PACKAGES = {"rolling_mean": "pandas"}
"""Packages without which an example fails."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if example.stem in PACKAGES:
        pytest.importorskip(PACKAGES[example.stem])
    arguments = ARGUMENTS.get(example.stem, [])
    if world is None:
        command = [sys.executable, example, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return
    # A process that a launcher has started cannot start another one: the example runs in this one.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(example), *arguments])
    try:
        runpy.run_path(str(example), run_name="__main__")
    except SystemExit as end:
        assert not end.code
