"""A SYCL program in Python that lets Haloport fill its halos in place: `python program.py LIBRARY [TEST ...]`.

`cargo build -p haloport-sycl-interop` makes LIBRARY. The program needs dpctl, dpnp and numpy, and in the folder that
OCL_ICD_VENDORS names an OpenCL driver for a CPU with unified shared memory; `scripts/opencl --install` installs them.
"""

import ctypes
import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

import dpctl
import dpctl.memory
import dpctl.program
import dpnp
import numpy

# The filter string of the device; another one than OpenCL's needs Haloport's library for SYCL.
DEVICE = os.environ.get("HALOPORT_SYCL_DEVICE", "opencl:cpu")
# Whether each array is an allocation of its own. On Level Zero, DPC++ takes small ones from blocks.
APART = DEVICE.startswith("opencl")
RANK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
BETWEEN = ctypes.CFUNCTYPE(None)
NOTHING = BETWEEN(lambda: None)
library = ctypes.CDLL(sys.argv[1])
library.haloport_forget.argtypes = [ctypes.c_void_p]
library.haloport_end.argtypes = [ctypes.c_void_p]


class Refused(Exception):
    """An error of Haloport."""


def call(name, *arguments):
    """Calls a function of the library; its error becomes an exception."""
    function = getattr(library, name)
    function.restype = ctypes.c_void_p
    error = function(*arguments)
    if error:
        raise Refused(text(error))


def text(address):
    """Returns a text of the library, and frees it there."""
    found = ctypes.string_at(address).decode()
    library.haloport_forget(address)
    return found


def form(syclobj):
    """The form of a `syclobj`, as the library expects it."""
    if isinstance(syclobj, str):
        return {"filter": syclobj}
    if isinstance(syclobj, dpctl.SyclQueue):
        return {"queue": syclobj.addressof_ref()}
    if isinstance(syclobj, dpctl.SyclContext):
        return {"context": syclobj.addressof_ref()}
    if type(syclobj).__name__ == "PyCapsule":
        return {"capsule": capsule(syclobj)}
    if hasattr(syclobj, "_get_capsule"):
        # The object that the capsule points to lives only as long as the capsule.
        syclobj.capsule = syclobj._get_capsule()
        return {"with_capsule": capsule(syclobj.capsule)}
    return {"other": type(syclobj).__name__}


def capsule(found):
    """The name and the address of a capsule."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = api.PyCapsule_GetName(found)
    return [name.decode(), api.PyCapsule_GetPointer(found, name)]


def members(array, **other):
    """The members of an array's interface for JSON; `other` replaces some of them."""
    interface = array if isinstance(array, dict) else array.__sycl_usm_array_interface__
    found = {**interface, **other}
    found["syclobj"] = form(found["syclobj"])
    return {name: value for name, value in found.items() if value is not None}


def describe(array, **other):
    """The library's description of an array."""
    found = ctypes.c_void_p()
    call("haloport_describe", json.dumps(members(array, **other)).encode(), ctypes.byref(found))
    return json.loads(text(found.value))


class Session:
    """An exchange of the halos of arrays, on a queue; `path` is the path of cells to other ranks."""

    def __init__(self, comm, queue, grid, halo, owned, arrays, path="quickest"):
        request = {
            "grid": grid,
            "halo": halo,
            "owned": owned,
            "queue": queue.addressof_ref(),
            "arrays": [members(array) for array in arrays],
            "path": path,
        }
        self.raw = ctypes.c_void_p()
        self.arrays = arrays
        call("haloport_bind", ctypes.c_void_p(comm), json.dumps(request).encode(), ctypes.byref(self.raw))

    def exchange(self, between=NOTHING):
        call("haloport_exchange", self.raw, between)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        library.haloport_end(self.raw)


def ranks(count, body):
    """Runs `body(comm, rank)` on `count` ranks, each a thread."""
    failures = []

    def run(comm, rank):
        try:
            body(comm, rank)
            return 0
        except BaseException as failure:
            failures.append(failure)
            return 1

    try:
        call("haloport_ranks", count, RANK(run))
    except Refused:
        raise failures[0] if failures else None


def must_refuse(parts, function, *arguments, **keywords):
    """Checks that the call fails, with all these parts in the message."""
    try:
        function(*arguments, **keywords)
    except Refused as refused:
        for part in parts:
            assert part in str(refused), f"{part!r} is not in: {refused}"
        return
    raise AssertionError(f"{arguments} {keywords} was not refused; expected {parts}")


# The cells of each rank are rows of a periodic grid. Most cells of an array are its halo, so that a command that reads
# before the unpacking is complete finds some cells that are not filled yet.
HALO = 96
ROWS, COLUMNS = 96, 256


def block(rank, count):
    """The rows that a rank owns, and the shape of its array."""
    return (rank * ROWS, (rank + 1) * ROWS), (ROWS + 2 * HALO, COLUMNS + 2 * HALO)


def cells(rank, count, number, owned_alone):
    """The values of a rank's array: `number` distinguishes exchanges; halos are -1, or as an exchange fills them."""
    (first, _), shape = block(rank, count)
    row = (numpy.arange(shape[0]) + first - HALO) % (ROWS * count)
    column = (numpy.arange(shape[1]) - HALO) % COLUMNS
    values = 1e6 * number + 1000.0 * row[:, None] + column[None, :]
    if owned_alone:
        inside = numpy.zeros(shape, dtype=bool)
        inside[HALO:-HALO, HALO:-HALO] = True
        values[~inside] = -1.0
    return values


SLOW = """
__kernel void slow(__global double *value, long rounds) {
    double x = value[0];
    for (long i = 0; i < rounds; i++) x = x * 0.999999 + 1e-7;
    value[0] = x;
}
"""


# Held by the rank that waits within the driver. On Intel's runtime for CPUs two threads that wait for queues that are out of order
# may wait for each other for ever; see docs/scheduling.md.
waiting = threading.Lock()


def drain(queue):
    """Waits until all commands in the queue are complete: they may need other ranks, so it polls first."""
    end = queue.submit_barrier()
    while end.execution_status != dpctl.event_status_type.complete:
        time.sleep(1e-4)
    with waiting:
        queue.wait()


def slow_program(queue):
    """Builds SLOW, which dpctl itself can do for OpenCL alone."""
    if queue.backend == dpctl.backend_type.opencl:
        return dpctl.program.create_program_from_source(queue, SLOW)
    with tempfile.TemporaryDirectory() as folder:
        # Compilers run with the libraries of the system.
        run = functools.partial(subprocess.run, cwd=folder, check=True, env={"PATH": os.environ["PATH"]})
        clang = "clang-15 -x cl -O2 -target spir64 -Xclang -finclude-default-header -emit-llvm -c -o slow.bc -"
        run(clang.split(), input=SLOW, text=True)
        run(["llvm-spirv-15", "--spirv-max-version=1.2", "-o", "slow.spv", "slow.bc"])
        with open(os.path.join(folder, "slow.spv"), "rb") as module:
            return dpctl.program.create_program_from_spirv(queue, module.read())


def order(kind, count, path, rounds):
    """Runs a slow kernel and a copy of SYCL, an exchange with another slow kernel in its middle, and a copy of SYCL,
    without a wait between them. Returns the number of wrong halo values, the number of all, and some wrong ones."""
    device = dpctl.SyclDevice(DEVICE)
    properties = {"in order": "in_order", "out of order": [], "with times": ["in_order", "enable_profiling"]}
    wrong, seen, lock = 0, [], threading.Lock()

    def body(comm, rank):
        nonlocal wrong
        queue = dpctl.SyclQueue(device, property=properties[kind])
        assert queue.is_in_order == (kind != "out of order")
        program = slow_program(queue)
        slow = program.get_sycl_kernel("slow")
        scratch = [dpctl.memory.MemoryUSMDevice(64, queue=queue) for _ in range(2)]
        (first, past), shape = block(rank, count)
        # By default, dpnp's arrays are on another queue of the same context.
        field = dpnp.zeros(shape, dtype="f8", sycl_queue=queue)
        memory = field.get_array().usm_data
        sources = [dpctl.memory.MemoryUSMDevice(memory.nbytes, queue=queue) for _ in range(rounds)]
        results = [dpctl.memory.MemoryUSMDevice(memory.nbytes, queue=queue) for _ in range(rounds)]
        for number, source in enumerate(sources):
            with waiting:
                source.copy_from_host(cells(rank, count, number, True).view("u1").reshape(-1))
        drain(queue)
        delay = ctypes.c_longlong(4_000_000)
        # The events that SYCL must know if the queue is out of order. It knows nothing of the exchange.
        after = (lambda *events: list(events)) if kind == "out of order" else lambda *_: None
        owned = [[first, 0], [past, COLUMNS]]
        with Session(comm, queue, [ROWS * count, COLUMNS], HALO, owned, [field], path) as session:
            last = []
            between = BETWEEN(lambda: last.append(queue.submit_async(slow, [scratch[1], delay], [1])))
            for source, result in zip(sources, results):
                event = queue.submit_async(slow, [scratch[0], delay], [1], None, after(*last) or None)
                event = queue.memcpy_async(memory, source, memory.nbytes, after(event))
                session.exchange(between)
                last = [queue.memcpy_async(result, memory, memory.nbytes)]
            drain(queue)
        for number, result in enumerate(results):
            with waiting:
                found = numpy.frombuffer(result.copy_to_host(), dtype="f8").reshape(shape)
            expected = cells(rank, count, number, False)
            bad = numpy.argwhere(found != expected)
            with lock:
                wrong += len(bad)
                for cell in map(tuple, bad[: 3 - len(seen)].tolist()):
                    seen.append(f"round {number} rank {rank} {cell}: expected {expected[cell]}, found {found[cell]}")

    ranks(count, body)
    halo_cells = block(0, count)[1][0] * block(0, count)[1][1] - ROWS * COLUMNS
    return wrong, count * rounds * halo_cells, seen


def test_exchanges_are_in_order_with_what_sycl_does():
    kinds, ways = ["in order", "out of order", "with times"], [(1, "quickest"), (2, "direct"), (2, "messages")]
    for kind, (count, path) in itertools.product(kinds, ways):
        wrong, of, seen = order(kind, count, path, 8)
        print(f"    a queue {kind}, {count} ranks, {path}: {wrong} of {of} halo values wrong", flush=True)
        assert wrong == 0, seen


def test_views_are_filled_where_they_lie_and_nowhere_else():
    queue = dpctl.SyclQueue(DEVICE)
    rows, columns = 6, 5
    expected = numpy.pad(numpy.arange(rows * columns, dtype="f8").reshape(rows, columns), 1, mode="wrap")
    views = {
        "C order": ((8, 7), lambda base: base),
        "an offset and padded rows": ((11, 13), lambda base: base[2:10, 3:10]),
        "every second column": ((8, 15), lambda base: base[:, 1::2]),
        "backwards": ((8, 15), lambda base: base[::-1, ::-2][:, :7]),
        "transposed": ((7, 8), lambda base: base.T),
        "Fortran order": ((8, 7), lambda base: base),
    }
    for element, kind in [("f8", "device"), ("f4", "shared"), ("f8", "host")]:
        for name, (shape, view) in views.items():
            order = "F" if name == "Fortran order" else "C"
            base = dpnp.full(shape, -7.0, dtype=element, order=order, usm_type=kind, sycl_queue=queue)
            other = dpnp.zeros((8, 7), dtype=element, usm_type=kind, sycl_queue=queue)
            field = view(base)
            for array in (field, other):
                array[1:-1, 1:-1] = dpnp.array(expected[1:-1, 1:-1], dtype=element, sycl_queue=queue)
            untouched = view(numpy.full(shape, -7.0))
            untouched[...] = 0.0
            outside = untouched.base if untouched.base is not None else untouched
            queue.wait()

            def body(comm, rank):
                owned = [[0, 0], [rows, columns]]
                with Session(comm, queue, [rows, columns], 1, owned, [field, other]) as session:
                    session.exchange()
                queue.wait()

            ranks(1, body)
            for array in (field, other):
                assert (dpnp.asnumpy(array) == expected).all(), (element, kind, name, dpnp.asnumpy(array))
            found = dpnp.asnumpy(base)
            assert (found[outside == -7.0] == -7.0).all(), (element, kind, name)


def test_arrays_of_sycl_programs_are_what_they_say():
    queue = dpctl.SyclQueue(DEVICE)
    base = dpnp.arange(4 * 6 * 5, dtype="f4", sycl_queue=queue).reshape(4, 6, 5)
    arrays = [base, base[1:3, ::2], base[::-1, :, 1], base[2, 3], base[0].T, dpnp.broadcast_to(base[0], (3, 6, 5))]
    arrays += [dpnp.array(3.0, sycl_queue=queue), dpnp.zeros((3, 0), sycl_queue=queue)]
    arrays += [dpnp.ones(3, dtype=kind, sycl_queue=queue) for kind in ["?", "u1", "i8", "c8", "c16", "f8"]]
    for array in arrays:
        said = describe(array)
        assert said["elements"] == array.size
        interface = array.__sycl_usm_array_interface__
        item = array.itemsize
        if array.size:
            memory = array.get_array().usm_data
            assert said["first"] == interface["data"][0] + item * interface.get("offset", 0)
            assert said["kind"] == "device"
            assert said["allocation"][0] <= said["addresses"][0] <= said["addresses"][1] <= said["allocation"][1]
            assert said["allocation"][0] <= memory._pointer < said["allocation"][1]
            for extent, stride, bytes_apart in zip(array.shape, said["strides"], array.strides):
                assert stride * item == (bytes_apart if extent > 1 else item)
        # The other way: dpctl reads the interface that Haloport makes.
        if array.size and min(array.strides, default=1) > 0:
            given = type("Given", (), {})()
            given.__sycl_usm_array_interface__ = {**said["interface"], "syclobj": queue}
            memory = dpctl.memory.as_usm_memory(given)
            assert memory._pointer == said["first"] and memory.sycl_context == queue.sycl_context
    # Memory without axes, of every kind, with every form of `syclobj`.
    for kind, name in [("Device", "device"), ("Shared", "shared"), ("Host", "pinned host")]:
        memory = getattr(dpctl.memory, f"MemoryUSM{kind}")(64, queue=queue)
        assert describe(memory)["kind"] == name
        context = queue.sycl_context
        wrapped = type("Wrapped", (), {"_get_capsule": lambda _: queue._get_capsule()})()
        for syclobj in [queue, context, queue._get_capsule(), context._get_capsule(), wrapped]:
            assert describe(memory, syclobj=syclobj)["first"] == memory._pointer
        must_refuse(["`syclobj`", "found int"], describe, memory, syclobj=3)
        must_refuse([DEVICE], describe, memory, syclobj=f"{DEVICE}:x")
        must_refuse(["`shape`"], describe, memory, shape=None)
        must_refuse(["`version`", "found 2"], describe, memory, version=2)
        must_refuse(["`typestr`"], describe, memory, typestr="f8")


def test_memory_of_others_is_refused():
    queue = dpctl.SyclQueue(DEVICE)
    other = dpctl.SyclQueue(dpctl.SyclContext([queue.sycl_device]), queue.sycl_device)
    assert other.sycl_context != queue.sycl_context
    foreign = ["an address of another program", "in unified shared memory of the", "of another context"]
    open_it = ["open the device in the context"]
    for kind in ["Device", "Shared", "Host"]:
        memory = getattr(dpctl.memory, f"MemoryUSM{kind}")(64, queue=other)
        assert describe(memory)["first"] == memory._pointer
        must_refuse(foreign + open_it, describe, memory, syclobj=queue)
        must_refuse(foreign + open_it, describe, memory, syclobj=queue.sycl_context)
    of_numpy = numpy.zeros((8, 8))
    interface = {"data": (of_numpy.ctypes.data, False), "shape": (8, 8), "typestr": "<f8", "version": 1, "syclobj": queue}
    must_refuse(foreign, describe, interface)
    memory = dpctl.memory.MemoryUSMDevice(4096, queue=queue)
    if APART:
        must_refuse(["the elements of an array", "in the allocation"], describe, memory, shape=(4097,))
        must_refuse(["the elements of an array"], describe, memory, offset=1)
        must_refuse(["the elements of an array"], describe, memory, strides=(-1,))
    # The same when an exchange is bound, and arrays that cannot be fields.
    grid = [8, 8]

    def bind(array):
        def body(comm, rank):
            Session(comm, queue, grid, 1, [[0, 0], grid], [array])

        ranks(1, body)

    right = dpnp.zeros((10, 10), sycl_queue=queue)
    must_refuse(foreign, bind, dpnp.zeros((10, 10), sycl_queue=other))
    must_refuse(["the shape of an array of a field", "[10, 10]", "[10, 9]"], bind, right[:, 1:])
    must_refuse(["the elements of an array", "expected f64", "found i64"], bind, right.astype("i8"))
    must_refuse(["the strides of a field", "where 0 is"], bind, dpnp.broadcast_to(right[0], (10, 10)))


tests = [value for name, value in sorted(globals().items()) if name.startswith("test_")]
for test in tests:
    if len(sys.argv) < 3 or any(part in test.__name__ for part in sys.argv[2:]):
        print(test.__name__.replace("_", " "), flush=True)
        test()
print("all passed")
