"""The types that the package declares are consistent, and those of the compiled module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import world

if world is not None:
    pytest.skip("types are tested without a launcher", allow_module_level=True)
pytest.importorskip("mypy", reason="found no mypy")


def run(folder: Path, *arguments: str) -> None:
    """Runs a module of mypy in a folder of its own, on the package as it is installed."""
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_package_is_strictly_typed(tmp_path: Path) -> None:
    run(tmp_path, "mypy", "--strict", "--package", "haloport")


def test_stubs_match_module(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    # What PyO3 adds; and it gives a `__call__` of keywords alone no signature.
    allowed.write_text("haloport._haloport.(__all__|(LineExchange|BoundKernel).__call__)\n")
    run(tmp_path, "mypy.stubtest", "haloport", "--allowlist", str(allowed))
