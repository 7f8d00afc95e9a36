"""Builds the contestants: C, PETSc, YAXT, peclet-halo, Haloport, also from Fortran, and the environments of those in Python.

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
# Open MPI starts nothing for root without these.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
DEBIAN = ["libpetsc-real-dev", "libtrilinos-kokkos-dev", "libboost-dev", "g++", "pkg-config"]
PECLET = "peclet-halo==1.7.0"
# Where Kokkos may be: its headers, and the name of its library.
KOKKOS = [("/usr/include/trilinos", "trilinos_kokkoscore"), ("/usr/include", "kokkoscore")]
ENVIRONMENTS = {
    "mpi4py": ["mpi4py==4.1.2", "numpy==2.4.6"],
    "ghex": ["ghex==0.9.0", "mpi4py==4.1.2", "numpy==2.4.6"],
    "mpi4jax": ["mpi4jax==0.9.1.post2", "jax==0.10.2", "mpi4py==4.1.2", "numpy==2.4.6"],
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


def build(groups, haloport=None, yaxt=None):
    """Builds what the groups of jobs need: YAXT if it is given, Haloport unless its library is given."""
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
    _yaxt(built, compiler, yaxt)
    _peclet(built)
    if haloport:
        built.libraries["haloport"] = str(haloport.resolve())
    else:
        _haloport(built)
    _fortran(built, compiler, haloport.resolve().parent if haloport else folder().parent / "release")
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
    sources = sorted(map(str, (PEERS / "petsc").glob("*.c")))
    failure = _compile(built, "petsc", [compiler, *C_FLAGS], sources, flags)
    if failure:
        built.missing["PETSc"] = failure


def _yaxt(built, compiler, given):
    """Builds the contestant with YAXT from its source, or from the folder in which YAXT is installed."""
    if not given:
        built.missing["YAXT"] = "no source was given: --yaxt FOLDER"
        return
    given = given.resolve()
    installed = given if (given / "include/yaxt.h").exists() else folder() / "yaxt"
    failure = None
    if installed != given:
        if (given / "configure").exists():
            failure = _install_yaxt(compiler, given, installed)
        else:
            failure = f"{given} has neither configure (autoreconf -i makes it) nor include/yaxt.h"
    if not failure:
        # The memory of its fields is that of the strategies in C.
        sources = [str(PEERS / "yaxt/yaxt.c"), str(PEERS / "strategies/memory.c")]
        library = installed / "lib"
        flags = [f"-I{installed / 'include'}", f"-L{library}", f"-Wl,-rpath,{library}", "-lyaxt_c"]
        failure = _compile(built, "yaxt", [compiler, *C_FLAGS], sources, flags)
    if failure:
        built.missing["YAXT"] = failure


def _peclet(built):
    """Builds the contestants with peclet-halo, from the headers of its source package."""
    compiler = shutil.which("mpicxx.openmpi") or shutil.which("mpicxx")
    if not compiler:
        built.missing["peclet-halo"] = "found no mpicxx.openmpi or mpicxx: install Open MPI (Debian: libopenmpi-dev)"
        return
    place = folder() / "peclet"
    include = place / PECLET.replace("-", "_").replace("==", "-") / "include"
    if not include.is_dir():
        place.mkdir(exist_ok=True)
        log = folder() / "peclet.log"
        with open(log, "w") as file:
            done = subprocess.run(
                [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", PECLET.partition("==")[0], "--dest", str(place), PECLET],
                stdout=file, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
        if done.returncode:
            built.missing["peclet-halo"] = f"{_reason(log, ('ERROR:',), 'pip failed')} (see {log})"
            return
        for archive in place.glob("*.tar.gz"):
            shutil.unpack_archive(archive, place)
    flags, libraries = ["-std=c++20", "-isystem", str(include)], []
    kokkos = next((found for found in KOKKOS if Path(found[0], "Kokkos_Core.hpp").exists()), None)
    if kokkos:
        flags += ["-DWITH_KOKKOS", "-isystem", kokkos[0]]
        libraries.append(f"-l{kokkos[1]}")
    else:
        built.missing["peclet-halo, shared memory"] = "found no Kokkos_Core.hpp; --install gets libtrilinos-kokkos-dev"
    failure = _compile(
        built, "peclet", [compiler, *(flag for flag in C_FLAGS if not flag.startswith("-std")), *flags],
        [str(PEERS / "peclet/peclet.cc")], libraries,
    )  # fmt: skip
    if failure:
        built.missing["peclet-halo"] = failure


def _install_yaxt(compiler, source, place):
    """Builds YAXT without Fortran, once for each source. Returns the reason if that fails."""
    launcher = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    configure = [
        str(source / "configure"), f"--prefix={place}", "--disable-shared", "--with-pic",
        "--with-on-demand-check-programs", "--without-example-programs", "--without-perf-programs",
        f"CC={compiler}", "CFLAGS=-O3 -march=native", "FC=no", f"MPI_LAUNCH={launcher}",
    ]  # fmt: skip
    mark = place / "complete"
    if mark.exists() and mark.read_text() == "\n".join(configure):
        return None
    print(f"building YAXT: {source}", file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    (place / "build").mkdir(parents=True)
    # Its checks of MPI start several ranks, maybe as root, or on a machine with one core.
    environment = {**os.environ, **AS_ROOT, "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    log = place / "build.log"
    with open(log, "w") as file:
        for command in [configure, ["make", f"-j{os.cpu_count() or 1}", "install"]]:
            done = subprocess.run(
                command, cwd=place / "build", stdout=file, stderr=subprocess.STDOUT, env=environment, check=False,
            )  # fmt: skip
            if done.returncode:
                break
    if done.returncode:
        return f"{_reason(log, ('error:', 'WARNING: Failed', 'Error'), 'its build failed')} (see {log})"
    mark.write_text("\n".join(configure))
    return None


def _reason(log, words, otherwise):
    """Returns the first line of a log with the first of the words that is in it."""
    lines = log.read_text(errors="replace").splitlines()
    return next((line.strip() for word in words for line in lines if word in line), otherwise)


def _fortran(built, mpicc, library):
    """Builds the contestant in Fortran, which is linked to the libhaloport_c.so in a folder."""
    compiler = shutil.which("gfortran")
    if not compiler or not (library / "libhaloport_c.so").exists():
        reason = f"{library} has no libhaloport_c.so" if compiler else "found no gfortran"
        built.missing["Haloport from Fortran"] = reason
        return
    # Programs look for it by the name under which it is installed.
    installed = library / "libhaloport.so.1"
    installed.unlink(missing_ok=True)
    installed.symlink_to("libhaloport_c.so")
    interface = ROOT / "crates/c"
    modules = folder() / "modules"
    modules.mkdir(exist_ok=True)
    # The memory of its fields is that of the strategies in C.
    for source in [interface / "fortran/haloport_fortran.c", PEERS / "strategies/memory.c"]:
        command = [mpicc, "-c", "-O3", "-std=gnu11", "-fPIC", f"-I{interface / 'include'}", str(source)]
        subprocess.run([*command, "-o", str(modules / f"{source.stem}.o")], check=True)
    failure = _compile(
        built, "fortran",
        [compiler, "-O3", "-march=native", "-std=f2018", "-Wall", "-Wextra", "-fPIC", "-shared", "-J", str(modules)],
        [str(interface / "fortran/haloport.f90"), str(PEERS / "fortran/fortran.f90"), *map(str, modules.glob("*.o"))],
        [f"-L{library}", f"-Wl,-rpath,{library}", "-lhaloport_c"],
    )  # fmt: skip
    if failure:
        built.missing["Haloport from Fortran"] = failure


def _haloport(built):
    done = subprocess.run(
        ["cargo", "build", "--release", "--quiet", "-p", "haloport-peers", "-p", "haloport-c"], cwd=ROOT, check=False
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
            words = ("Could NOT find", "fatal error:", "No matching distribution", "ERROR:")
            reason = _reason(log, words, "pip failed")
            built.missing[name] = f"{reason} (see {log}; --install gets what Debian has)"
            return
        mark.write_text("\n".join(wanted))
    if built.wheel:
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", built.wheel],
            check=True,
        )  # fmt: skip
    built.pythons[name] = str(python)
