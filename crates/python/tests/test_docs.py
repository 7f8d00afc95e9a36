"""The blocks of Python in all documents, such as docs/python.md and docs/fields.md, run as they stand."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import world

if world is not None:
    pytest.skip("documents are tested without a launcher", allow_module_level=True)

ROOT = Path(__file__).parents[3]

FOLDERS = [folder for folder in ROOT.iterdir() if folder.is_dir() and folder.name != "target" and folder.name[0] != "."]
DOCUMENTS = [
    document
    for document in sorted([*ROOT.glob("*.md"), *(found for folder in FOLDERS for found in folder.rglob("*.md"))])
    if "```python" in document.read_text()
]

IMPORTS = "import haloport as hp; import numpy as np"
PREAMBLES = {
    "docs/python.md": f"from concurrent.futures import ThreadPoolExecutor; {IMPORTS}",
    "docs/fields.md": f"{IMPORTS}; ny, nx = 6, 12; u = np.zeros((ny + 2, nx + 2))",
}
"""For documents whose blocks stand behind some lines, these lines."""

TRIED = {
    "cupy": "import cupy; cupy.cuda.runtime.getDeviceCount()",
    "dpctl": "import dpctl; dpctl.SyclQueue()",
    "mpi4py": "import mpi4py.MPI",
}
"""For packages that need more than to be installed, what fails if that is missing."""


def sections() -> Iterator[tuple[str, str]]:
    """The headings, and the code below each: on the same lines as in the document, so that errors name these."""
    for document in DOCUMENTS:
        code: dict[str, list[str]] = {}
        heading, inside = "", False
        lines = document.read_text().splitlines()
        for number, line in enumerate(lines):
            if not inside and line.startswith("#"):
                heading = line.strip("# ")
            if inside and line != "```":
                code.setdefault(heading, [""] * len(lines))[number] = line
            inside = line != "```" if inside else line == "```python"
        name = document.relative_to(ROOT).as_posix()
        for heading, block in code.items():
            block[0] = PREAMBLES.get(name, "")
            yield f"{name}: {heading}", "\n".join(block)


SECTIONS = dict(sections())


@pytest.mark.parametrize("name", SECTIONS)
def test_section(name: str, tmp_path: Path) -> None:
    code = SECTIONS[name]
    for module in imported(code):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"found no {module}")
        if module in TRIED and subprocess.run([sys.executable, "-c", TRIED[module]], capture_output=True).returncode:
            pytest.skip(f"{module} does not work on this machine")
    program = tmp_path / "document.py"
    program.write_text(code)
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def imported(code: str) -> list[str]:
    """The packages that the code imports, but for Haloport."""
    found = []
    for statement in ast.walk(ast.parse(code)):
        if isinstance(statement, ast.Import):
            found += [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.module is not None:
            found.append(statement.module)
    return [name.split(".")[0] for name in found if not name.startswith(("ghex", "haloport"))]


def test_sections_were_found() -> None:
    assert {"README.md", "crates/python/README.md", *PREAMBLES} <= {name.partition(":")[0] for name in SECTIONS}
    assert len(SECTIONS) > 15
