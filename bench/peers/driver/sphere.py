"""Reads the halves of the mesh in `data/sphere.npz`, without NumPy."""

import ast
import ctypes as c
import struct
import zipfile

import interface


def read(path, levels, order, fields, rank):
    """Returns the half of rank 0 or 1 as `struct peers_mesh`. `order` is fastest or slowest, for levels, or nproma."""
    with zipfile.ZipFile(path) as file:
        arrays = {name.removesuffix(".npy"): _integers(file.read(name)) for name in file.namelist()}
    other = 1 - rank
    owned, halo = arrays[f"owned_{rank}"], arrays[f"halo_{rank}"]
    mine = {cell: at for at, cell in enumerate(owned)}
    theirs = {cell: at for at, cell in enumerate(arrays[f"owned_{other}"])}
    send = [mine[cell] for cell in arrays[f"halo_{other}"]]
    source = [theirs[cell] for cell in halo]
    ids = [*owned, *halo]
    return interface.Mesh(
        len(owned), len(halo), levels, {"fastest": 1, "slowest": len(ids)}.get(order, order), fields, len(send),
        (c.c_int64 * len(ids))(*ids), (c.c_int32 * len(send))(*send), (c.c_int32 * len(source))(*source),
    )  # fmt: skip


def _integers(data):
    """Reads a one-dimensional array of 64-bit integers in NumPy's format, version 1."""
    length = struct.unpack_from("<H", data, 8)[0]
    header = ast.literal_eval(data[10 : 10 + length].decode())
    if header["descr"] != "<i8" or len(header["shape"]) != 1:
        raise ValueError(f"expected a list of 64-bit integers, found {header}")
    return struct.unpack_from(f"<{header['shape'][0]}q", data, 10 + length)
