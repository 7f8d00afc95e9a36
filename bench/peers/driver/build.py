"""Builds the contestants: C, PETSc, Haloport, and the environments of those that are used from Python.

A contestant that cannot be built is left out, with the reason.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).resolve().parent.parent
ROOT = PEERS.parent.parent
C_FLAGS = ["-O3", "-march=native", "-std=gnu11", "-Wall", "-Wextra", "-fPIC", "-shared"]
DEBIAN = ["libpetsc-real-dev", "libboost-dev", "g++", "pkg-config"]
ENVIRONMENTS = {
    "mpi4py": ["mpi4py==4.1.2", "numpy==2.4.6"],
    "ghex": ["ghex==0.9.0", "mpi4py==4.1.2", "numpy==2.4.6"],
}


class Built:
    """The libraries and interpreters by name, and the reasons why others are missing."""

    def __init__(self):
        self.libraries, self.pythons, self.missing = {}, {}, {}
        self.wheel = None


def folder():
    """Returns the folder of all builds, in the target folder of cargo."""
    target = os.environ.get("CARGO_TARGET_DIR") or ROOT / "target"
    return Path(target).resolve() / "peers"


def install():
    """Installs Debian's packages, as root or with sudo."""
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*sudo, "apt-get", "update", "-qq"], check=True)
    subprocess.run([*sudo, "apt-get", "install", "-y", "-qq", *DEBIAN], check=True, env=environment)


def build(groups, haloport=None):
    """Builds what the groups of jobs need, and Haloport unless its library is given."""
    built = Built()
    folder().mkdir(parents=True, exist_ok=True)
    compiler = shutil.which("mpicc.openmpi") or shutil.which("mpicc")
    if not compiler:
        sys.exit("there is no mpicc.openmpi or mpicc: install Open MPI (Debian: libopenmpi-dev openmpi-bin)")
    strategies = sorted(map(str, (PEERS / "strategies").glob("*.c")))
    failure = _compile(built, "c", [compiler, *C_FLAGS], strategies, ["-lm"])
    if failure:
        sys.exit(f"the C strategies cannot be built: {failure}")
    _petsc(built, compiler)
    if haloport:
        built.libraries["haloport"] = str(haloport.resolve())
    else:
        _haloport(built)
    if any(name in groups for name in ENVIRONMENTS):
        _wheel(built)
    for name in ENVIRONMENTS:
        if name in groups:
            _environment(built, name, compiler)
    return built


def _compile(built, name, command, sources, libraries):
    """Builds one library. Returns the reason if that fails."""
    path = folder() / f"libpeers_{name}.so"
    done = subprocess.run(
        [*command, "-o", str(path), *sources, *libraries], capture_output=True, text=True, check=False
    )
    if done.stderr:
        print(done.stderr, file=sys.stderr)
    if done.returncode == 0:
        built.libraries[name] = str(path)
        return None
    return next((line for line in done.stderr.splitlines() if "error" in line), "the compiler failed")


def _petsc(built, compiler):
    found = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "petsc"], capture_output=True, text=True, check=False
    ) if shutil.which("pkg-config") else None  # fmt: skip
    if not found or found.returncode:
        built.missing["PETSc"] = "pkg-config finds no petsc; --install gets libpetsc-real-dev"
        return
    flags = found.stdout.split()
    failure = _compile(built, "petsc", [compiler, *C_FLAGS], [str(PEERS / "petsc/petsc.c")], flags)
    if failure:
        built.missing["PETSc"] = failure


def _haloport(built):
    done = subprocess.run(
        ["cargo", "build", "--release", "--quiet", "-p", "haloport-peers"], cwd=ROOT, check=False
    )
    if done.returncode:
        sys.exit("Haloport cannot be built; the messages above say why")
    shutil.copy2(folder().parent / "release/libhaloport_peers.so", folder())
    built.libraries["haloport"] = str(folder() / "libhaloport_peers.so")


def _wheel(built):
    """Builds the wheel of Haloport's Python package, if there is maturin."""
    done = subprocess.run(
        [str(ROOT / "scripts/python"), "wheel"], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        built.missing["Haloport from Python"] = "no wheel; scripts/python wheel --install gets maturin"
    else:
        built.wheel = done.stdout.strip()


def _environment(built, name, compiler):
    """Makes an environment of Python with exactly the wanted packages, once."""
    place, wanted = folder() / f"python-{name}", ENVIRONMENTS[name]
    python, mark = place / "bin/python", place / "complete"
    if not (mark.exists() and mark.read_text() == "\n".join(wanted)):
        print(f"building the environment of {name}: {', '.join(wanted)}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        environment = {
            **os.environ,
            "MPICC": compiler,
            "CXXFLAGS": "-O3 -march=native",
            "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1),
        }
        log = folder() / f"python-{name}.log"
        with open(log, "w") as file:
            done = subprocess.run(
                [str(python), "-m", "pip", "install", "--verbose", *wanted],
                stdout=file, stderr=subprocess.STDOUT, env=environment, check=False,
            )  # fmt: skip
        if done.returncode:
            lines = log.read_text(errors="replace").splitlines()
            words = ("Could NOT find", "fatal error:", "No matching distribution", "ERROR:")
            reason = next((line.strip() for word in words for line in lines if word in line), "pip failed")
            built.missing[name] = f"{reason} (see {log}; --install gets what Debian has)"
            return
        mark.write_text("\n".join(wanted))
    if built.wheel:
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", built.wheel],
            check=True,
        )  # fmt: skip
    built.pythons[name] = str(python)
