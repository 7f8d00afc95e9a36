"""Every example of the package runs on one process; scripts/test also runs it under a launcher."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import world

if world is not None:
    pytest.skip("programs are started without a launcher", allow_module_level=True)

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
