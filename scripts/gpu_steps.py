"""The parts of scripts/run-gpu-tests, and the steps of each."""

import glob
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from runner import Job

HERE = Path(__file__).resolve().parent
SUITE = f"{HERE}/tests/suite"
COMMAND = f"{HERE}/haloport"
ALONE = ["--nocapture", "--test-threads", "1"]

# Name: the time limit of a step in seconds, description.
PARTS = {
    "suite": (120, "the device suite, kernels from cubins and PTX, order with the work around exchanges, ends on streams, steps in "
              "a row, ranks on several GPUs, NCCL"),
    "ratios": (120, "packing beside plain copies, a bound launch beside the raw one, host time of start and finish"),
    "mpi": (180, "2 and 4 MPI processes on one device: random exchanges, the path they use, both jobs against the CPU, the exchange"),
    "jobs": (180, "both jobs on 1, 2, 4 and 8 ranks that are threads, against the CPU"),
    "python": (150, "the Python package: arrays of CuPy, PyTorch and JAX, ranks that are threads and 2 MPI processes"),
    "exchanges": (300, "random exchanges against their oracles, at least --cases (500) of boxes and of meshes"),
    "settings": (120, "8 hardware queues, the driver's default, instead of 32; launches that wait for their kernels"),
    "cupy": (180, "the exchange of one rank beside the same written with CuPy, in turns"),
    "bench": (120, "haloport bench exchange with ranks that are threads"),
    "sanitizer": (300, "compute-sanitizer's memcheck and initcheck on a small case of each"),
}


class Steps:
    """The steps of the chosen parts: their titles, by the names of their jobs, and those that are skipped, with the reason."""

    def __init__(self, options, files):
        self.options, self.files, self.jobs, self.titles, self.skipped = options, files, [], {}, {}
        self.device = "cpu" if options.cpu else "cuda"
        small = options.small
        self.tsunami = ["run", "tsunami", "--device", self.device, "--verify", "--hours", "0.2"]
        self.tsunami += ["--refine", "1", "--bathymetry", f"{HERE}/topobathy-small.npz"] if small else ["--refine", "2"]
        self.tracer = ["run", "advection", "--device", self.device, "--verify"]
        self.tracer += ["--mesh", "icon:R2B1", "--days", "0.1"] if small else ["--mesh", "icon:R2B2", "--days", "1"]
        self.bench = ["bench", "exchange", "--device", self.device]
        self.bench += (["--local", "8,8,8", "--halo", "1", "--samples", "3"] if small else
                       ["--local", "128,128,128", "--halo", "3", "--fields", "8", "--samples", "50"])
        for part in options.only or PARTS:
            self.part = part
            getattr(self, f"part_{part}")()

    def suite(self, title, tests, *arguments, env=None, before=()):
        """The tests of the suite whose names contain `tests`; a failure if there are none."""
        listed = subprocess.run([SUITE, "--list", tests], capture_output=True, text=True, check=True).stdout
        if ": test" not in listed:
            return self.run(title, ["sh", "-c", f"echo 'found no test with `{tests}` in its name'; exit 1"])
        self.run(title, [*before, SUITE, tests, *arguments], env)

    def run(self, title, command, env=None):
        job = Job(f"{self.part}-{len(self.jobs) + 1}", list(map(str, command)), PARTS[self.part][0], env or {})
        self.jobs.append(job)
        self.titles[job.name] = f"{self.part}: {title}"

    def skip(self, reason):
        self.run(reason, ["true"])
        self.skipped[self.jobs[-1].name] = reason

    def on_gpu(self):
        """Whether this part can run; it cannot on the CPU."""
        if self.options.cpu:
            self.skip("it needs a GPU")
        return not self.options.cpu

    def both_jobs(self, where, command, *arguments, env=None):
        """Both jobs with all their checks."""
        for name, job in (("tsunami", self.tsunami), ("tracer", self.tracer)):
            self.run(f"a {name} on {where}, against the CPU", [*command, COMMAND, *job, "--out", self.files, *arguments], env)

    def part_suite(self):
        if self.on_gpu():
            self.suite("the device suite", "conformance::", "--nocapture")
            self.run("the backend's own tests", [f"{HERE}/tests/device"])
            self.suite("kernels from cubins and PTX", "programs::")
            self.suite("order of exchanges and the work around them", "order::", "--nocapture")
            self.suite("exchanges that end on streams", "scheduled::", *ALONE)
            self.suite("steps in a row, each with an exchange", "overlap::", *ALONE)
            if self.options.gpus < 2:
                return self.skip("ranks on GPUs of their own: there is one GPU")
            self.suite("ranks on GPUs of their own hand fields over", "devices::", *ALONE)
            self.suite("ranks on GPUs of their own exchange messages by NCCL", "stream_messages::", *ALONE)

    def part_ratios(self):
        if self.on_gpu():
            self.run("ratios", [f"{HERE}/ratios", *(["--small"] if self.options.small else [])])

    def part_cupy(self):
        how = ["--numpy", "--cells", "64", "--rounds", "3"] if self.options.cpu else ["--bar", "5", "--rounds", "5"]
        self.run("one rank with itself over periodic axes", [sys.executable, "-u", f"{HERE}/cupy_exchange.py", *how, "--beside", COMMAND,
                                                             "bench", "exchange", "--device", self.device, "--samples", "50"])

    def part_jobs(self):
        for ranks in (1, 2, 4, 8):
            self.both_jobs(f"{ranks} rank(s)", [], "--ranks", str(ranks))

    def part_exchanges(self):
        if self.on_gpu():
            listed = subprocess.run([SUITE, "--list", "exchange::"], capture_output=True, text=True, check=True).stdout
            tests = [line.partition(": test")[0] for line in listed.splitlines() if line.endswith(": test")]
            # The most important first: boxes, meshes.
            first = ("random_exchanges_match", "random_unstructured_exchanges_match")
            for test in sorted(tests, key=lambda test: not test.removeprefix("exchange::").startswith(first)):
                self.run(test, [SUITE, "--nocapture", "--exact", test])

    def part_mpi(self):
        cases, tests = self.options.cases, f"{HERE}/tests/mpi"
        for ranks in (2, 4):
            launched = [f"{HERE}/mpirun", "-n", str(ranks)]
            where = f"{ranks} MPI processes"
            self.run(f"which path {where} use", [*launched, COMMAND, "devices"])
            if not self.options.cpu:
                self.run(f"random exchanges, order and host time on {where}", [*launched, tests, "cuda", min(cases, 50)])
                for shared in ("fd", "ipc"):
                    self.run(f"memory that {where} share by {shared}", [*launched, tests, "cuda-memory", shared, min(cases, 10)],
                             {"HALOPORT_CUDA_SHARE": shared})
                self.run(f"random exchanges by NCCL on {where}", [*launched, tests, "stream-messages", min(cases, 50)])
            self.run(f"the exchange on {where}", [*launched, COMMAND, *self.bench])
            self.both_jobs(where, launched)
        self.run("the transport itself, on the CPU", [f"{HERE}/mpirun", "-n", "2", tests])

    def part_python(self):
        if not self.on_gpu():
            return
        if importlib.util.find_spec("pytest") is None or importlib.util.find_spec("cupy") is None:
            return self.skip("there is no pytest, or no CuPy")
        path = ":".join(filter(None, [f"{HERE}/python", os.environ.get("PYTHONPATH")]))
        env = {"PYTHONPATH": path, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        tests = [sys.executable, "-m", "pytest", "-rs", "--tb=short", "-o", "faulthandler_timeout=60", "-c", f"{HERE}/pytest.ini", "-k", "cuda",
                 f"{HERE}/python-tests/test_cuda.py", f"{HERE}/python-tests/test_random.py"]
        self.run("arrays on the GPU, with ranks that are threads", tests, env)
        if importlib.util.find_spec("mpi4py") is None:
            return self.skip("there is no mpi4py")
        env["MPI4PY_LIBMPI"] = f"{HERE}/mpi/lib/libmpi.so.40"
        self.run("arrays on the GPU, with ranks that are processes", [f"{HERE}/mpirun", "-n", "2", *tests], env)

    def part_settings(self):
        if self.on_gpu():
            unset, blocking = ["env", "-u", "CUDA_DEVICE_MAX_CONNECTIONS"], {"CUDA_LAUNCH_BLOCKING": "1"}
            self.suite("8 queues: order of exchanges and the work around them", "order::", "--nocapture", before=unset)
            self.suite("8 queues: exchanges that end on streams", "scheduled::", *ALONE, before=unset)
            self.suite("8 queues: steps in a row", "overlap::", *ALONE, before=unset)
            self.both_jobs("8 ranks with 8 queues", unset, "--ranks", "8")
            self.both_jobs("2 MPI processes with 8 queues", [*unset, f"{HERE}/mpirun", "-n", "2"])
            self.suite("launches wait: steps in a row", "overlap::", *ALONE, env=blocking)
            self.both_jobs("8 ranks where launches wait", [], "--ranks", "8", env=blocking)

    def part_bench(self):
        for ranks in (1, 2, 4):
            self.run(f"the exchange on {ranks} rank(s)", [COMMAND, *self.bench, "--ranks", ranks])
        spans = f"{self.files}/spans.json"
        self.run("a time line of the exchange on 2 ranks", [COMMAND, *self.bench, "--ranks", 2, "--trace", spans])
        self.run("what the spans of that time line take", [sys.executable, f"{HERE}/span_times.py", spans])

    def part_sanitizer(self):
        if not self.on_gpu():
            return
        sanitizer = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
        if sanitizer is None:
            return self.skip("there is no compute-sanitizer")
        # Not racecheck, which checks shared memory: no kernel has any.
        # Copies wait for their streams under initcheck, which would wait for ever behind a gate.
        for tool, env in (("memcheck", {}), ("initcheck", {"CUDA_LAUNCH_BLOCKING": "1"})):
            # Refused calls are no findings: the suites make some on purpose, and check the errors.
            check = [sanitizer, "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "1"]
            self.suite(f"{tool}: exchanges", "exchange::", "--nocapture", env={"HALOPORT_CASES": "5", **env}, before=check)
            self.suite(f"{tool}: the device suite", "conformance::", "--nocapture", env=env, before=check)
            self.run(f"{tool}: a tsunami", [*check, COMMAND, *"run tsunami --device cuda --refine 1 --hours 0.02 --ranks 2".split(),
                                            "--out", self.files], env)
            self.run(f"{tool}: a tracer", [*check, COMMAND, *"run advection --device cuda --mesh icon:R2B2 --days 0.1 --ranks 2".split(),
                                           "--out", self.files], env)
