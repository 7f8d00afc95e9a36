"""Random exchanges, and what each must do to the memory of its arrays, from global indices alone.

A `Case` is made from a number and the number of ranks, so that every rank makes the same one, and a failure can be run
again. Whatever ranks need not agree on (the package, the strides and the order of the axes of each array, which arrays
are replaced by others, how an exchange is called) each rank draws for itself. Every element in memory has a name: the
index of its cell in the whole grid, or the id of its cell in the mesh, and its levels and component. Its value is a hash
of that name. After an exchange, the cells that it fills have the values of their names, and every other byte of the
memory, also between the elements of an array and beside it, is as it was before.
"""

from __future__ import annotations

import array
import asyncio
import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import haloport


def optional(name: str) -> ModuleType | None:
    """Imports a module; ``None`` if it is missing."""
    try:
        return __import__(name, fromlist=["_"])
    except ImportError:
        return None


torch: Any = optional("torch")
jnp: Any = optional("jax.numpy")
ml_dtypes: Any = optional("ml_dtypes")

AWAIT_LIMIT = 30
"""How long a rank awaits an exchange, in seconds: another rank may have failed."""

Bytes = NDArray[np.uint8]
Axes = tuple[int | str, ...]

RECORD = np.dtype([("mark", "i1"), ("value", "f8")])
DTYPES = [
    *(np.dtype(name) for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?")),
    *(np.dtype(name) for name in ("M8[s]", "m8[ns]", "S5", "V3")),
    RECORD,
    *([np.dtype(ml_dtypes.bfloat16)] if ml_dtypes else []),
]

DEVICE_DTYPES = [dtype for dtype in DTYPES if dtype.kind in "iufcb"]
"""The element types of arrays on devices."""

BY_NAME = {
    "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4",
    "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8", "complex64": "c8", "complex128": "c16", "bool": "?",
    "bfloat16": "bfloat16",
}  # fmt: skip
"""The element types that packages other than NumPy have."""

CODES = {"i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "f4": "f", "f8": "d"}
"""The codes of the types of ``array.array``."""


def values(names: NDArray[np.int64], seed: int, dtype: np.dtype[Any]) -> Bytes:
    """Returns the bytes of the elements with these names, a row for each."""
    words = -(-dtype.itemsize // 8)
    state = names.reshape(-1, 1).astype(np.uint64) * np.uint64(words) + np.arange(words, dtype=np.uint64)
    state = (state + np.uint64(seed % 2**64)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    found = (state ^ (state >> np.uint64(31))).view(np.uint8).reshape(len(state), 8 * words)[:, : dtype.itemsize]
    return found & 1 if dtype.kind == "b" else found


@dataclass(frozen=True)
class Cells:
    """The cells in the memory of one domain, along its own axes: those of a grid, or the cells of a mesh."""

    names: NDArray[np.int64]
    owned: NDArray[np.bool_]
    filled: NDArray[np.bool_]
    """The cells that an exchange fills."""
    origin: tuple[int, ...] | None = None
    labels: tuple[int | str, ...] = ("cells",)


@dataclass(frozen=True)
class Field:
    """What all ranks agree on."""

    dtype: np.dtype[Any]
    levels: tuple[int, ...]
    components: int
    """0 for no such axis."""

    @property
    def further(self) -> tuple[int, ...]:
        return self.levels + ((self.components,) if self.components else ())

    @property
    def labels(self) -> tuple[str, ...]:
        return ("levels",) * len(self.levels) + (("components",) if self.components else ())


class Block:
    """The layout of the array of one domain: where each of its elements lies, and which value it gets."""

    def __init__(self, draw: random.Random, cells: Cells, spec: Field, axes: Axes, *, plain: bool = False) -> None:
        """`axes` says what each axis is; `plain` stands for C order without gaps."""
        self.cells, self.dtype, self.axes = cells, spec.dtype, axes
        logical = cells.names.shape + spec.further
        labels: list[int | str] = [*cells.labels, *spec.labels]
        # The place of each logical axis in the array. Several axes of levels keep their order.
        free = list(range(len(axes)))
        places = [free.pop(next(at for at, place in enumerate(free) if axes[place] == label)) for label in labels]
        self.shape = tuple(logical[places.index(place)] for place in range(len(axes)))
        blocked = "blocks" in axes
        self.strides = [0] * len(axes)
        order = list(range(len(axes)))
        kind = "C" if plain else draw.choice("CCFR")
        if kind == "F":
            order.reverse()
        elif kind == "R":
            draw.shuffle(order)
        gaps = not plain and draw.random() < 0.4
        covered = 1
        for place in reversed(order):
            stride = covered * (draw.randint(2, 3) if gaps and draw.random() < 0.2 else 1)
            stride += draw.randint(1, 3) if gaps and draw.random() < 0.3 else 0
            covered = stride * max(self.shape[place], 1)
            own = blocked and axes[place] in ("blocks", "cells")
            backwards = gaps and not own and draw.random() < 0.4
            self.strides[place] = -stride if backwards else stride
        if not plain and 1 in self.shape and draw.random() < 0.3:
            # A stride along an axis of one element has no effect.
            self.strides[self.shape.index(1)] = draw.choice([1, 7, 1000])
        reaches = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides) if extent > 1]
        empty = 0 in self.shape
        self.first = draw.randint(0, 3) - (0 if empty else sum(min(reach, 0) for reach in reaches))
        self.size = self.first + (1 if empty else 1 + sum(max(reach, 0) for reach in reaches)) + draw.randint(0, 3)
        if plain:
            self.first, self.size = 0, math.prod(self.shape)

        offsets = np.array(self.first, dtype=np.int64)
        names = cells.names
        for axis, (extent, place) in enumerate(zip(logical, places)):
            offsets = offsets[..., None] + np.arange(extent) * self.strides[place]
            if axis >= cells.names.ndim:
                names = names[..., None] * extent + np.arange(extent)
        widened = (slice(None),) * cells.names.ndim + (None,) * len(spec.further)
        self.owned_at, self.owned_names = self.pick(cells.owned[widened], offsets, names)
        self.filled_at, self.filled_names = self.pick(cells.filled[widened], offsets, names)

    @staticmethod
    def pick(mask: NDArray[np.bool_], offsets: NDArray[np.int64], names: NDArray[np.int64]) -> tuple[Any, Any]:
        mask = np.broadcast_to(mask, names.shape)
        return offsets[mask], names[mask]

    @property
    def is_backwards(self) -> bool:
        return any(stride < 0 for stride in self.strides)

    @property
    def is_contiguous(self) -> bool:
        """Whether it is in C order without gaps."""
        steps = [math.prod(self.shape[place + 1 :]) for place in range(len(self.shape))]
        return all(extent == 1 or stride == step for extent, stride, step in zip(self.shape, self.strides, steps))

    def of_numpy(self, memory: Bytes) -> NDArray[Any]:
        """The array in this memory."""
        bytes_per_element = self.dtype.itemsize
        strides = [stride * bytes_per_element for stride in self.strides]
        return np.ndarray(self.shape, self.dtype, memory, self.first * bytes_per_element, strides)

    def layout(self, axes: Axes | None, device: Any = None) -> haloport.Layout:
        """The layout as the package takes it."""
        dtype = self.dtype
        strides = None if self.is_contiguous else [stride * np.dtype(dtype).itemsize for stride in self.strides]
        return haloport.Layout(
            self.shape, dtype, axes, strides=strides, origin=self.cells.origin, device=device
        )


class Memory:
    """Memory of one block, and the array that a package makes of it."""

    def __init__(self, block: Block, package: str, draw: random.Random) -> None:
        self.block, self.package = block, package
        self.bytes, self.array = PACKAGES[package](block, draw)
        self.before = self.expected = self.bytes

    def load(self) -> Bytes:
        return self.bytes

    def store(self, new: Bytes) -> None:
        self.bytes[...] = new

    def fill(self, seed: int, noise: np.random.Generator) -> None:
        """Writes the owned cells, and noise elsewhere."""
        block = self.block
        new = noise.integers(0, 2 if block.dtype.kind == "b" else 256, self.bytes.shape, np.uint8)
        new[block.owned_at] = values(block.owned_names, seed, block.dtype)
        self.store(new)
        self.before = new.copy()
        new[block.filled_at] = values(block.filled_names, seed, block.dtype)
        self.expected = new

    def check(self) -> None:
        """Checks the memory after an exchange."""
        self.compare(self.load(), self.expected)

    def check_unchanged(self) -> None:
        """Checks the memory after an exchange of a copy."""
        self.compare(self.load(), self.before)

    def compare(self, found: Bytes, expected: Bytes) -> None:
        if not np.array_equal(found, expected):
            block = self.block
            wrong = np.flatnonzero((found != expected).any(axis=-1))
            missing = np.isin(wrong, block.filled_at).sum()
            raise AssertionError(
                f"{len(wrong)} of {len(found)} elements are wrong, {missing} of them halo cells to be filled; the first "
                f"at {wrong[0]}: found {bytes(found[wrong[0]])!r}, expected {bytes(expected[wrong[0]])!r}; shape "
                f"{block.shape}, {block.dtype}, axes {block.axes}, strides {block.strides}, {self.package}"
            )

    def check_copy(self, copy: Any) -> None:
        """Checks the result of an exchange of a copy of this array."""
        assert type(copy) is type(self.array), f"found {type(copy)}, expected {type(self.array)}"
        found = as_numpy(copy)
        memory = self.block.of_numpy(self.expected.reshape(-1))
        assert found.shape == memory.shape
        assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(memory).tobytes(), "the copy is wrong"


def as_numpy(array: Any) -> NDArray[Any]:
    """The elements of an array of any package for the host."""
    if torch and isinstance(array, torch.Tensor):
        bits = array.view(torch.int16) if array.dtype is torch.bfloat16 else array
        return bits.numpy()
    return np.asarray(array)


def new_bytes(block: Block) -> Bytes:
    return np.empty((block.size, block.dtype.itemsize), np.uint8)


class Subclass(np.ndarray):
    """A class of arrays derived from that of NumPy."""


class OnlyDlpack:
    """An array with DLPack alone."""

    def __init__(self, array: Any) -> None:
        self.inner = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.inner.__dlpack_device__()


def of_numpy(block: Block, draw: random.Random) -> tuple[Bytes, Any]:
    memory = new_bytes(block)
    found = block.of_numpy(memory.reshape(-1))
    return memory, found.view(Subclass) if draw.random() < 0.1 else found


def of_torch(block: Block, draw: random.Random) -> tuple[Bytes, Any]:
    memory = new_bytes(block)
    is_bfloat = block.dtype.name == "bfloat16"
    flat = torch.from_numpy(memory.reshape(-1).view("i2" if is_bfloat else block.dtype))
    flat = flat.view(torch.bfloat16) if is_bfloat else flat
    return memory, flat.as_strided(block.shape, block.strides, block.first)


def of_memoryview(block: Block, draw: random.Random) -> tuple[Bytes, Any]:
    memory = new_bytes(block)
    return memory, memoryview(block.of_numpy(memory.reshape(-1)))


def of_standard_array(block: Block, draw: random.Random) -> tuple[Bytes, Any]:
    made = array.array(CODES[BY_NAME[block.dtype.name]], bytes(block.size * block.dtype.itemsize))
    memory = np.frombuffer(made, np.uint8).reshape(block.size, block.dtype.itemsize)
    return memory, made


def of_dlpack(block: Block, draw: random.Random) -> tuple[Bytes, Any]:
    memory = new_bytes(block)
    return memory, OnlyDlpack(block.of_numpy(memory.reshape(-1)))


def of_jax(block: Block, draw: random.Random) -> tuple[Bytes, Any]:
    """JAX copies the memory when it is written."""
    return new_bytes(block), jnp.zeros(block.shape, block.dtype)


PACKAGES: dict[str, Callable[[Block, random.Random], tuple[Bytes, Any]]] = {
    "numpy": of_numpy,
    "torch": of_torch,
    "memoryview": of_memoryview,
    "array": of_standard_array,
    "dlpack": of_dlpack,
    "jax": of_jax,
}


class JaxMemory(Memory):
    """An array of JAX, made anew whenever it is written."""

    def store(self, new: Bytes) -> None:
        self.bytes = new.copy()
        # Not a view of memory that changes later.
        self.array = jnp.array(self.block.of_numpy(new.reshape(-1)), copy=True)

    def load(self) -> Bytes:
        """The bytes of the array itself, which no exchange changes."""
        kept = self.block.of_numpy(self.bytes.reshape(-1))
        assert np.asarray(self.array).tobytes() == np.ascontiguousarray(kept).tobytes(), "the array of JAX has changed"
        return self.bytes


class EmptyMemory(Memory):
    """An array that `empty` of the pattern has made."""

    def __init__(self, block: Block, made: NDArray[Any]) -> None:
        assert made.shape == block.shape and made.dtype == block.dtype, f"{made.shape} {made.dtype}"
        assert made.flags.c_contiguous and not made.tobytes().strip(b"\0")
        self.block, self.package, self.array = block, "empty", made
        self.bytes = made.reshape(-1).view(np.uint8).reshape(block.size, block.dtype.itemsize)
        self.before = self.expected = self.bytes


class UsmMemory(Memory):
    """An array of dpnp in unified shared memory of SYCL. Its own queue may run in any order."""

    def __init__(self, block: Block, package: str, draw: random.Random, queue: Any) -> None:
        import dpctl.memory as usm
        import dpnp
        import dpnp.tensor as dpt

        self.block, self.package, self.draw = block, package, draw
        size = block.size * block.dtype.itemsize
        kind = draw.choice([usm.MemoryUSMShared, usm.MemoryUSMHost, usm.MemoryUSMDevice])
        self.usm = kind(max(size, 1), queue=queue)
        self.bytes = np.zeros((block.size, block.dtype.itemsize), np.uint8)
        self.before = self.expected = self.bytes
        if package == "dpctl":
            self.array = self.usm
        else:
            layout = {"strides": block.strides, "offset": block.first, "buffer": self.usm}
            self.array = dpt.usm_ndarray(block.shape, block.dtype.name, **layout)
        if package == "dpnp":
            self.array = dpnp.asarray(self.array)

    def store(self, new: Bytes) -> None:
        self.usm.copy_from_host(new.reshape(-1))

    def load(self) -> Bytes:
        if self.bytes.size:
            self.usm.copy_to_host(self.bytes.reshape(-1))
        return self.bytes


class OnlyCudaInterface:
    """An array with `__cuda_array_interface__` alone."""

    def __init__(self, array: Any) -> None:
        self.inner = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


class CudaMemory(Memory):
    """An array on a GPU of NVIDIA. The host waits for the device before it writes and reads it."""

    def __init__(self, block: Block, package: str, cupy: Any) -> None:
        self.block, self.package, self.synchronize = block, package, cupy.cuda.runtime.deviceSynchronize
        self.memory = cupy.zeros(block.size * block.dtype.itemsize, np.uint8)
        strides = [stride * block.dtype.itemsize for stride in block.strides]
        start = self.memory.data + block.first * block.dtype.itemsize
        made = cupy.ndarray(block.shape, block.dtype, start, strides)
        if package == "torch":
            flat = torch.from_dlpack(self.memory).view(getattr(torch, block.dtype.name))
            made = flat.as_strided(block.shape, block.strides, block.first)
        self.array = {"dlpack": OnlyDlpack, "interface": OnlyCudaInterface}.get(package, lambda array: array)(made)
        self.bytes = np.zeros((block.size, block.dtype.itemsize), np.uint8)
        self.before = self.expected = self.bytes

    def store(self, new: Bytes) -> None:
        self.memory.set(new.reshape(-1))
        self.synchronize()

    def load(self) -> Bytes:
        self.synchronize()
        return self.memory.get().reshape(self.bytes.shape)


def suitable(block: Block, manner: str) -> list[str]:
    """The packages that can make this array."""
    name = BY_NAME.get(block.dtype.name)
    if manner == "functional":
        wide = name in ("i8", "u8", "f8", "c16")
        found = ["numpy"]
        if jnp and name and not wide and block.is_contiguous:
            found += ["jax", "jax"]
    else:
        found = ["numpy", "numpy"]
        if name and name != "bfloat16":
            found += ["memoryview", "dlpack"]
        if name in CODES and len(block.shape) == 1 and block.is_contiguous and block.first == 0:
            if block.size == block.shape[0]:
                found += ["array"] * 3
    if torch and name and not block.is_backwards:
        found += ["torch", "torch"]
    return found


class Usm:
    """Arrays in unified shared memory of a queue of SYCL."""

    def __init__(self, queue: Any) -> None:
        self.device = queue
        """The argument `device` of a layout."""

    def memory(self, block: Block, draw: random.Random) -> Memory:
        is_flat = block.dtype == "u1" and len(block.shape) == 1 and block.is_contiguous and block.size == block.shape[0]
        packages = ["dpctl"] if is_flat and block.first == 0 and block.size > 0 else ["dpnp", "dpnp.tensor"]
        return UsmMemory(block, draw.choice(packages), draw, self.device)

    def no_elements(self, dtype: np.dtype[Any]) -> Any:
        """An array of no elements."""
        import dpctl.memory as usm
        import dpnp.tensor as dpt

        return dpt.usm_ndarray(0, dtype.name, buffer=usm.MemoryUSMShared(dtype.itemsize, queue=self.device))

    def streams(self) -> list[Any]:
        return [None, haloport.DEFAULT, haloport.BLOCK, self.device]


class Cuda:
    """Arrays on a GPU of NVIDIA."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.device = "cuda:0"
        """The argument `device` of a layout."""
        # Not made while streams wait for other ranks: the driver may wait for them then.
        self.own = [None, haloport.DEFAULT, haloport.BLOCK, haloport.Stream(self.device), cupy.cuda.Stream(non_blocking=True), 1, 2]
        self.has_torch = torch is not None and torch.cuda.is_available()
        if self.has_torch:
            self.own.append(torch.cuda.Stream())

    def memory(self, block: Block, draw: random.Random) -> Memory:
        # CuPy 14 hands out wrong strides by DLPack where they are negative.
        packages = ["cupy", "interface"] if block.is_backwards else ["cupy", "dlpack", "interface"]
        if self.has_torch and not block.is_backwards:
            packages += ["torch", "torch"]
        return CudaMemory(block, draw.choice(packages), self.cupy)

    def no_elements(self, dtype: np.dtype[Any]) -> Any:
        """An array of no elements."""
        return self.cupy.empty(0, dtype)

    def streams(self) -> list[Any]:
        return self.own


@dataclass
class Case:
    """The exchanges with this number on this number of ranks."""

    number: int
    ranks: int
    on_device: bool = False
    """Whether the arrays are on a device."""
    fields: list[Field] = field(init=False)
    manner: str = field(init=False)
    """``passed``, ``functional``, ``fixed`` (ordinary arrays) or ``own`` (arrays of `empty`, fixed)."""

    def __post_init__(self) -> None:
        draw = random.Random(f"case {self.number} of {self.ranks}")
        self.manner = draw.choice(["passed"] * 5 + ["functional", "fixed", "own"])
        if self.on_device and self.manner in ("functional", "own"):
            self.manner = "fixed"
        self.in_flight = draw.choice([1, 1, 2, 3]) if self.manner == "passed" else 1
        self.rounds = draw.randint(2, 3)
        self.pattern: GridCase | MeshCase = draw.choice([GridCase, GridCase, MeshCase])(draw, self.ranks)
        self.fields = self.draw_fields(draw)
        self.starts = [draw.randint(1, self.in_flight) for _ in range(self.rounds)]

    def draw_fields(self, draw: random.Random) -> list[Field]:
        own = self.pattern.axes
        count = draw.choice([1, 1, 2, 3])
        most = min(4 - own, 1 if self.manner == "own" else 3)
        alike = draw.randint(0, most), draw.random() < 0.3
        fields = []
        for _ in range(count):
            # A fixed plan takes arrays alone, whose axes are all of one kind.
            levels, vector = alike if self.manner == "fixed" else (draw.randint(0, most), draw.random() < 0.3)
            extents = tuple(0 if draw.random() < 0.03 else draw.randint(1, 4) for _ in range(levels))
            components = draw.randint(1, 3) if vector and self.manner != "own" else 0
            fields.append(Field(draw.choice(DEVICE_DTYPES if self.on_device else DTYPES), extents, components))
        return fields

    def replaces(self, rank: int, turn: int) -> bool:
        """Whether this rank replaces arrays by others before round `turn`."""
        return self.manner in ("passed", "functional") and turn > 0 and random.Random(f"{self.number} {rank} {turn}").random() < 0.5

    def replaces_on_some(self) -> bool:
        """Whether in a round arrays are replaced on some ranks and not on others."""
        return any(
            len({self.replaces(rank, turn) for rank in range(self.ranks)}) == 2 for turn in range(self.rounds)
        )


class GridCase:
    """A random grid, its halo and its split."""

    def __init__(self, draw: random.Random, ranks: int) -> None:
        self.axes = axes = draw.choice([1, 2, 2, 3, 3, 4])
        longest, widest = [(24, 6), (10, 3), (6, 2), (4, 2)][axes - 1]
        self.shape = tuple(draw.randint(1, longest) for _ in range(axes))
        sides = ["uniform", "axis", "side", "side"]
        self.form = draw.choice(sides)
        width = [draw.randint(0, widest) for _ in range(2 * axes)]
        if self.form == "uniform":
            width = [draw.randint(0, min(widest, 2))] * (2 * axes)
        elif self.form == "axis":
            width = [number for number in width[:axes] for _ in range(2)]
        self.halo = list(zip(width[::2], width[1::2]))
        self.periodic = [draw.random() < 0.5 for _ in range(axes)]
        self.corners = draw.random() < 0.7
        self.split = draw.choice(["balanced", "parts", "domains", "domains"])
        self.parts = self.draw_parts(draw, ranks)
        whole = ((0,) * axes, self.shape)
        self.domains = self.draw_domains(draw, whole, ranks) if self.split == "domains" else []

    def draw_parts(self, draw: random.Random, ranks: int) -> list[int]:
        parts = [1] * self.axes
        while ranks > 1:
            prime = next(number for number in range(2, ranks + 1) if ranks % number == 0)
            parts[draw.randrange(self.axes)] *= prime
            ranks //= prime
        return parts

    def draw_domains(self, draw: random.Random, whole: Any, ranks: int) -> list[list[Any]]:
        """Cuts the grid into boxes of any size, and gives each to any rank."""
        boxes = [whole]
        for _ in range(draw.randint(ranks - 1, 2 * ranks)):
            lower, upper = boxes.pop(draw.randrange(len(boxes)))
            axis = draw.randrange(self.axes)
            cut = draw.randint(lower[axis], upper[axis])
            at = (lower[:axis] + (cut,) + lower[axis + 1 :], upper[:axis] + (cut,) + upper[axis + 1 :])
            boxes += [(lower, at[1]), (at[0], upper)]
        owners = list(range(ranks)) if draw.random() < 0.5 else [draw.randrange(ranks) for _ in range(ranks)]
        domains: list[list[Any]] = [[] for _ in range(ranks)]
        for box in boxes:
            if all(lower < upper for lower, upper in zip(*box)) or draw.random() < 0.3:
                domains[draw.choice(owners)].append(box)
        return domains

    def make(self, comm: haloport.Communicator, draw: random.Random) -> haloport.Grid:
        halo: Any = self.halo
        if self.form == "uniform":
            halo = self.halo[0][0]
        elif self.form == "axis":
            halo = [below for below, _ in self.halo]
        elif draw.random() < 0.5:
            halo = tuple(tuple(sides) for sides in self.halo)
        periodic: Any = self.periodic
        if len(set(periodic)) == 1 and draw.random() < 0.5:
            periodic = periodic[0]
        options: dict[str, Any] = {}
        if self.split == "parts":
            options["parts"] = self.parts
        elif self.split == "domains":
            options["domains"] = self.domains[comm.rank]
        made = haloport.Grid(
            self.shape, halo=halo, periodic=periodic, corners=self.corners, comm=comm, **options
        )
        assert made.halo == tuple(self.halo)
        if self.split == "domains":
            assert made.domains == self.domains[comm.rank]
        return made

    @property
    def names(self) -> Axes:
        return tuple(range(self.axes))

    def cells(self, made: haloport.Grid, draw: random.Random, form: str) -> list[Cells]:
        """The cells in memory of each domain of this rank; in larger arrays if `form` is ``more``."""
        return [self.cells_of(box, draw, form == "exact") for box in made.domains]

    def cells_of(self, box: Any, draw: random.Random, exact: bool) -> Cells:
        empty = any(lower == upper for lower, upper in zip(*box))
        labels = tuple(range(self.axes))
        if empty:
            none = np.zeros((0,) * self.axes, np.int64)
            return Cells(none, none.astype(bool), none.astype(bool), None, labels)
        margins = []
        for axis, (below, above) in enumerate(self.halo):
            if exact:
                margins.append((below, above))
                continue
            # Beyond an end of the grid no cell is filled.
            at_end = not self.periodic[axis] and box[0][axis] == 0, not self.periodic[axis] and box[1][axis] == self.shape[axis]
            sides = (0 if end else width for end, width in zip(at_end, (below, above)))
            margins.append(tuple(width + draw.choice([0, 0, 1, 2]) for width in sides))
        names = np.zeros((1,) * self.axes, np.int64)
        outside = np.zeros((1,) * self.axes, np.int64)
        reached = np.ones((1,) * self.axes, bool)
        for axis, (below, above) in enumerate(margins):
            lower, upper, extent = box[0][axis], box[1][axis], self.shape[axis]
            index = np.arange(lower - below, upper + above)
            halo = self.halo[axis]
            reach = (index >= lower - halo[0]) & (index < upper + halo[1])
            if not self.periodic[axis]:
                reach &= (index >= 0) & (index < extent)
            along = [-1 if other == axis else 1 for other in range(self.axes)]
            names = names * extent + (index % extent).reshape(along)
            outside = outside + ((index < lower) | (index >= upper)).reshape(along)
            reached = reached & reach.reshape(along)
        filled = reached & ((outside >= 1) if self.corners else (outside == 1))
        origin = None if exact else tuple(below for below, _ in margins)
        return Cells(names, outside == 0, filled, origin, labels)


class MeshCase:
    """A random mesh: the cells of each domain and of its halo, by their ids."""

    axes = 1
    names: Axes = ("cells",)

    def __init__(self, draw: random.Random, ranks: int) -> None:
        self.form = draw.choice(["ids", "ids", "domains", "lists"])
        count = draw.randint(0, 50)
        ids = draw.sample(range(2 * count + 1 if draw.random() < 0.5 else 10**6), count)
        counts = [draw.randint(0, 3) if self.form == "domains" else 1 for _ in range(ranks)]
        numbers = [(rank, number) for rank in range(ranks) for number in range(counts[rank])]
        if not numbers:
            counts[0], numbers = 1, [(0, 0)]
        if len(numbers) > 1 and draw.random() < 0.3:
            numbers = draw.sample(numbers, len(numbers) - 1)
        owner = {number: draw.choice(numbers) for number in ids}
        self.has_owners = draw.random() < 0.5
        lists_fill = draw.random() < 0.4 and self.form != "lists"
        self.ranks: list[list[dict[str, Any]]] = []
        self.fill: list[list[int] | None] = []
        for rank in range(ranks):
            domains = []
            for number in range(counts[rank]):
                own = [cell for cell in ids if owner[cell] == (rank, number)]
                others = [cell for cell in ids if owner[cell] != (rank, number)]
                halo = draw.sample(others, draw.randint(0, len(others)))
                if self.form == "lists" and ranks > 1:
                    halo = [cell for cell in halo if owner[cell][0] != rank]
                if lists_fill and draw.random() < 0.5:
                    # Cells that no rank owns, and no exchange fills.
                    halo += [10**7 + draw.randrange(100)]
                first = draw.random() < 0.4
                both = own + halo
                if not first:
                    draw.shuffle(both)
                domains.append({"ids": both, "owned": set(own), "first": first})
            self.ranks.append(domains)
            known = sorted({cell for domain in domains for cell in domain["ids"] if cell not in domain["owned"]})
            known = [cell for cell in known if cell < 10**7]
            self.fill.append(draw.sample(known, draw.randint(0, len(known))) if lists_fill else None)
        self.owner = {cell: rank for cell, (rank, _) in owner.items()}

    def make(self, comm: haloport.Communicator, draw: random.Random) -> haloport.Mesh:
        domains, fill = self.ranks[comm.rank], self.fill[comm.rank]
        if self.form == "lists":
            return self.make_from_lists(comm)
        given = []
        for domain in domains:
            marks: Any = [cell in domain["owned"] for cell in domain["ids"]]
            owned = len(domain["owned"]) if domain["first"] else np.array(marks, bool)
            ids: Any = domain["ids"] if draw.random() < 0.3 else np.array(domain["ids"], draw.choice(["i4", "i8", "u8"]))
            given.append((ids, owned))
        if self.form == "domains":
            return haloport.Mesh.of_domains(given, fill=fill, comm=comm)
        owners = None
        if self.has_owners and draw.random() < 0.9:
            # Those of owned cells are not read.
            owners = [
                self.owner.get(cell, 0) if cell not in domains[0]["owned"] else -7 for cell in domains[0]["ids"]
            ]
        made = haloport.Mesh(*given[0], owners, fill=fill, comm=comm)
        assert made.ids.tolist() == domains[0]["ids"] and made.cells == len(domains[0]["ids"])
        assert made.owned.tolist() == [cell in domains[0]["owned"] for cell in domains[0]["ids"]]
        return made

    def make_from_lists(self, comm: haloport.Communicator) -> haloport.Mesh:
        places = [{cell: place for place, cell in enumerate(domains[0]["ids"])} for domains in self.ranks]
        halos = [[cell for cell in domains[0]["ids"] if cell not in domains[0]["owned"]] for domains in self.ranks]
        me = comm.rank
        sends = {
            rank: [places[me][cell] for cell in halos[rank] if self.owner[cell] == me] for rank in range(comm.size)
        }
        receives = {
            rank: [places[me][cell] for cell in halos[me] if self.owner[cell] == rank] for rank in range(comm.size)
        }
        return haloport.Mesh.from_lists(len(self.ranks[me][0]["ids"]), sends, receives, comm=comm)

    def cells(self, made: haloport.Mesh, draw: random.Random, form: str) -> list[Cells]:
        """The cells in memory of each domain of this rank; with more rows if `form` is ``more``, or in ``blocks``."""
        fill = self.fill[made.comm.rank]
        return [self.cells_of(domain, fill, draw, form) for domain in self.ranks[made.comm.rank]]

    def cells_of(self, domain: dict[str, Any], fill: list[int] | None, draw: random.Random, form: str) -> Cells:
        ids = domain["ids"]
        within = draw.randint(1, 8) if form == "blocks" else None
        count = len(ids) + (0 if form == "exact" else draw.choice([0, 0, 1, 2, 5]))
        shape: tuple[int, ...] = (count,) if within is None else (-(-count // within), within)
        names = np.zeros(math.prod(shape), np.int64)
        owned, filled = np.zeros_like(names, bool), np.zeros_like(names, bool)
        names[: len(ids)] = ids
        owned[: len(ids)] = [cell in domain["owned"] for cell in ids]
        known = None if fill is None else set(fill)
        filled[: len(ids)] = [
            cell not in domain["owned"] and (known is None or cell in known) for cell in ids
        ]
        labels = ("cells",) if within is None else ("blocks", "cells")
        return Cells(names.reshape(shape), owned.reshape(shape), filled.reshape(shape), None, labels)


@dataclass
class Flight:
    """An exchange in flight, of these arrays."""

    pending: haloport.Pending
    memories: list[Memory]

    def check(self) -> None:
        for memory in self.memories:
            memory.check()


class Participant:
    """One rank in a case."""

    def __init__(self, case: Case, comm: haloport.Communicator, place: Usm | Cuda | None = None) -> None:
        """`place` is where the arrays lie, if not in memory of the host."""
        self.case, self.comm, self.place = case, comm, place
        self.draw = random.Random(f"{case.number} on {comm.rank} of {comm.size}")
        self.noise = np.random.default_rng((case.number, comm.rank))
        self.pattern: Any = case.pattern.make(comm, self.draw)
        self.draw_layouts()
        self.sets: list[list[list[Memory]]] = [self.new_arrays() for _ in range(case.in_flight)]
        self.plan = self.pattern.plan(*self.plan_fields(), **self.options)

    def draw_layouts(self) -> None:
        """Draws the layouts of the arrays of this rank, by field and domain."""
        case, draw = self.case, self.draw
        is_fixed = case.manner in ("fixed", "own")
        names = case.pattern.names
        self.blocks: list[list[Block]] = []
        self.given: list[list[Axes | None] | None] = []
        """The argument `axes` for each block; ``None`` for fields that are passed as arrays."""
        self.empty: list[bool] = []
        # The axes of the arrays, which one field decides.
        chief = draw.choice(case.fields)
        blocked = isinstance(case.pattern, MeshCase) and case.manner != "own" and draw.random() < 0.25
        alike = (("blocks", *names) if blocked else names) + chief.labels
        common: Axes | None = None
        if blocked or not is_default(names, chief) or (case.manner != "own" and draw.random() < 0.5):
            common = tuple(draw.sample(alike, len(alike)))
        for spec in case.fields:
            default = names + spec.labels
            may_be_default = is_default(names, spec)
            fits = spec.labels == chief.labels if common is not None else may_be_default
            may_be_own = self.place is None and case.manner == "passed" and may_be_default and spec.levels == spec.further and len(spec.levels) < 2
            own = case.manner == "own" or (may_be_own and draw.random() < 0.15)
            axes: list[Axes | None] | None = None
            if own:
                cells = case.pattern.cells(self.pattern, draw, "exact")
                if common is not None:
                    axes = [default] * len(cells)
                blocks = [Block(draw, one, spec, default, plain=True) for one in cells]
            elif is_fixed or (fits and draw.random() < 0.6):
                assert fits
                form = "blocks" if blocked and common is not None else draw.choice(["exact", "more"])
                form = "exact" if form == "more" and not isinstance(case.pattern, MeshCase) else form
                cells = case.pattern.cells(self.pattern, draw, form)
                blocks = [Block(draw, one, spec, common or default) for one in cells]
            else:
                form = draw.choice(["exact", "more", "blocks" if isinstance(case.pattern, MeshCase) else "more"])
                cells = case.pattern.cells(self.pattern, draw, form)
                axes = []
                blocks = []
                for one in cells:
                    labels = one.labels + spec.labels
                    mine = tuple(draw.sample(labels, len(labels)))
                    if common is None and may_be_default and form != "blocks" and draw.random() < 0.3:
                        mine = default
                        axes.append(None)
                    else:
                        axes.append(mine)
                    blocks.append(Block(draw, one, spec, mine))
            self.blocks.append(blocks)
            self.given.append(axes)
            self.empty.append(own)
        self.options: dict[str, Any] = {} if common is None else {"axes": common}
        if is_fixed:
            self.options["fixed"] = True
            if draw.random() < 0.5:
                self.options["share"] = True
        if case.in_flight > 1:
            self.options["in_flight"] = case.in_flight

    def plan_fields(self) -> Iterator[Any]:
        """What the plan is made from."""
        for place, spec in enumerate(self.case.fields):
            if not self.blocks[place]:
                # A rank without a domain has the element type alone.
                if self.place is None and ("fixed" in self.options or self.draw.random() < 0.5):
                    yield np.zeros(0, spec.dtype)
                elif "fixed" in self.options:
                    assert self.place is not None
                    yield self.place.no_elements(spec.dtype)
                else:
                    yield haloport.Layout((0,), spec.dtype, device=self.place and self.place.device)
                continue
            memories, axes = self.sets[0][place], self.given[place]
            parts: list[Any] = [memory.array for memory in memories]
            if axes is not None:
                parts = [block.layout(mine, self.place and self.place.device) for block, mine in zip(self.blocks[place], axes)]
            elif any(memory.package == "jax" for memory in memories):
                # Its arrays cannot be written, so that a plan is made from their layouts.
                parts = [block.layout(None) for block in self.blocks[place]]
            yield parts[0] if len(parts) == 1 else parts

    def new_arrays(self) -> list[list[Memory]]:
        return [self.new_field(place) for place in range(len(self.case.fields))]

    def new_field(self, place: int) -> list[Memory]:
        spec, blocks = self.case.fields[place], self.blocks[place]
        if self.empty[place]:
            made = self.pattern.empty(spec.dtype, *spec.levels)
            made = made if isinstance(made, list) else [made] * len(blocks)
            assert len(made) == len(blocks)
            return [EmptyMemory(block, one) for block, one in zip(blocks, made)]
        manner = self.case.manner
        found: list[Memory] = []
        for block in blocks:
            if self.place is not None:
                found.append(self.place.memory(block, self.draw))
                continue
            package = self.draw.choice(suitable(block, manner))
            found.append((JaxMemory if package == "jax" else Memory)(block, package, self.draw))
        return found

    def arrays(self, memories: list[list[Memory]]) -> list[Any]:
        """The arguments of a call."""
        passed: list[Any] = []
        for blocks in memories:
            parts = [memory.array for memory in blocks]
            passed.append(parts[0] if len(parts) == 1 else self.draw.choice([list, tuple])(parts))
        return passed

    def prepare(self, turn: int) -> list[list[list[Memory]]]:
        """Replaces arrays, if this rank does, and fills those of each exchange of round `turn`."""
        case = self.case
        if case.replaces(self.comm.rank, turn):
            for arrays in self.sets:
                for place in range(len(case.fields)):
                    if self.draw.random() < 0.8:
                        arrays[place] = self.new_field(place)
        self.draw.shuffle(self.sets)
        used = self.sets[: case.starts[turn]]
        for number, arrays in enumerate(used):
            for place, blocks in enumerate(arrays):
                for memory in blocks:
                    memory.fill(hash((case.number, turn, number, place)), self.noise)
        return used

    def streams(self) -> dict[str, Any]:
        """Arrays in host memory take any stream."""
        if self.draw.random() < 0.6:
            return {}
        streams = [None, haloport.DEFAULT, haloport.BLOCK, haloport.Stream(), 1]
        if self.place is not None:
            streams = self.place.streams()
        return {"stream": self.draw.choice(streams)}

    def passed(self, arrays: list[list[Memory]]) -> list[Any]:
        if self.case.manner in ("fixed", "own") and self.draw.random() < 0.6:
            return []
        return self.arrays(arrays)

    def start(self, arrays: list[list[Memory]]) -> Flight:
        pending = self.plan.start(*self.passed(arrays), **self.streams())
        return Flight(pending, list(itertools.chain(*arrays)))

    def run(self, turn: int) -> None:
        """One round of a case that runs alone."""
        used = self.prepare(turn)
        if self.case.manner == "functional":
            return self.run_functional(used[0])
        if len(used) == 1 and self.draw.random() < 0.4:
            self.plan(*self.passed(used[0]), **self.streams())
            for memory in itertools.chain(*used[0]):
                memory.check()
            return None
        return finish_all([self.start(arrays) for arrays in used], self.draw)

    def run_functional(self, arrays: list[list[Memory]]) -> None:
        found = self.plan.functional(*self.arrays(arrays), **self.streams())
        copies = [found] if len(arrays) == 1 else found
        assert len(copies) == len(arrays)
        for blocks, copy in zip(arrays, copies):
            for memory, one in zip(blocks, [copy] if len(blocks) == 1 else copy, strict=True):
                memory.check_copy(one)
                memory.check_unchanged()


def is_default(names: Axes, spec: Field) -> bool:
    """Whether the axes of an array can be left out, if they are in this order."""
    own = len(names)
    return spec.labels == tuple("levels" if place < 4 else "components" for place in range(own, own + len(spec.labels)))


def finish_all(flights: list[Flight], draw: random.Random) -> None:
    """Finishes exchanges in any order, and checks the arrays of each as soon as it has finished."""
    manner = draw.choice(["finish", "finish", "finish", "with", "with", "await", "gather", "poll"])
    draw.shuffle(flights)
    if manner == "gather":

        async def finish(flight: Flight) -> None:
            await flight.pending
            flight.check()

        async def gather() -> None:
            async with asyncio.timeout(AWAIT_LIMIT):
                await asyncio.gather(*(finish(flight) for flight in flights))

        return asyncio.run(gather())
    for flight in flights:
        if manner == "with":
            with flight.pending as pending:
                assert pending is flight.pending
        elif manner == "await":
            asyncio.run(wait_for(flight.pending))
        else:
            while manner == "poll" and not flight.pending.is_ready():
                time.sleep(0)
            flight.pending.finish()
        flight.check()
        if draw.random() < 0.2:
            flight.pending.finish()
            assert flight.pending.is_ready()
    return None


async def wait_for(pending: haloport.Pending) -> None:
    async with asyncio.timeout(AWAIT_LIMIT):
        await pending


def run(number: int, comm: haloport.Communicator, place: Usm | Cuda | None = None) -> None:
    """Runs a case on this rank, with arrays in memory of the host, or where `place` says. Collective."""
    case = Case(number, comm.size, place is not None)
    one = Participant(case, comm, place)
    for turn in range(case.rounds):
        one.run(turn)


def run_together(numbers: Sequence[int], comm: haloport.Communicator) -> None:
    """Runs several cases, all of whose exchanges are in flight at once. Collective."""
    cases = [Case(number, comm.size) for number in numbers]
    ones = [Participant(case, comm) for case in cases if case.manner != "functional"]
    draw = random.Random(f"{numbers} on {comm.rank}")
    for turn in range(2):
        flights = []
        for one in ones:
            flights += [one.start(arrays) for arrays in one.prepare(turn)]
        finish_all(flights, draw)
