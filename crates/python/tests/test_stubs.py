"""The types that the package declares are consistent, those of the compiled module, and find wrong uses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import world

if world is not None:
    pytest.skip("types are tested without a launcher", allow_module_level=True)
pytest.importorskip("mypy", reason="found no mypy")

WRONG = Path(__file__).with_name("wrong_types.py")


def mypy(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a module of mypy in a folder of its own, on the package as it is installed."""
    return subprocess.run([sys.executable, "-m", *arguments], cwd=folder, capture_output=True, text=True)


def check(folder: Path, *arguments: str) -> None:
    done = mypy(folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def test_package_is_strictly_typed(tmp_path: Path) -> None:
    check(tmp_path, "mypy", "--strict", "--package", "haloport")


def test_stubs_match_module(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    # What PyO3 adds; and it gives a `__call__` of keywords alone no signature.
    allowed.write_text("haloport._haloport.(__all__|(LineExchange|BoundKernel).__call__)\n")
    check(tmp_path, "mypy.stubtest", "haloport", "--allowlist", str(allowed))


def test_wrong_uses_are_found(tmp_path: Path) -> None:
    lines = WRONG.read_text().splitlines()
    expected = {number for number, line in enumerate(lines, 1) if "# wrong" in line}
    done = mypy(tmp_path, "mypy", "--strict", "--hide-error-context", str(WRONG))
    found = re.findall(rf"(?m)^\S*{WRONG.name}:(\d+): error: (.*)$", done.stdout)
    assert found, done.stdout + done.stderr
    errors = {int(number): text for number, text in found}
    assert not {number: lines[number - 1] for number in expected - errors.keys()}, "wrong uses that are accepted"
    assert not {number: errors[number] for number in errors.keys() - expected}, "uses that are refused"
    assert len(expected) > 50
