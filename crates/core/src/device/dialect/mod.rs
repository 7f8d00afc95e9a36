//! The portable kernel dialect: one source for each kernel, which both OpenCL C and CUDA C++ compile.
//!
//! A source is C with the names below, which a short prelude defines for each compiler ([`opencl`], [`cuda`]). It may
//! use what both languages understand in the same way: no recursion, no templates, no generic address space, and
//! pointer parameters only to global memory.
//!
//! | name | meaning |
//! | --- | --- |
//! | `KERNEL void f(...)` | a kernel |
//! | `KERNEL GROUP_SIZE(n) void f(...)` | a kernel that is launched in groups of `n` threads, along axis 0 only |
//! | `KERNEL GROUP_SIZE_RESIDENT(n, m) void f(...)` | the same; a thread has so few registers that a multiprocessor of CUDA (from Ampere on) holds `m` groups |
//! | `DEVICE_FUNCTION` | precedes a function that kernels call |
//! | `GLOBAL T *` | an address in the memory of the device |
//! | `GLOBAL_AT(T, x)` | `x`, a `u64`, as such an address |
//! | `LOCAL T x[n];` | memory of a group, declared in the outermost block of the kernel |
//! | `RESTRICT` | no other pointer leads to the same memory |
//! | `CONSTANT_PARAMETER T x` | a parameter of a kernel, a structure that all threads only read |
//! | `ALIGNED(n)` | precedes the name of a structure in its `typedef`: its addresses are multiples of `n` |
//! | `GLOBAL_INDEX(axis)` | the index of the thread along axis 0, 1 or 2; 0 is the fastest |
//! | `GROUP_INDEX(axis)`, `LOCAL_INDEX(axis)`, `LOCAL_SIZE(axis)` | the index of the group, the index of the thread in the group, the size of the group |
//! | `min(a, b)`, `MULTIPLY_HIGH(a, b)` | of two `u32`: the smaller; the upper half of the product |
//! | `F32_OF_BITS(u)`, `F64_OF_BITS(u)`, `BITS_OF_F32(x)`, `BITS_OF_F64(x)` | a float from the `u32` or `u64` with its bits, and the other way round |
//! | `FETCH(address)` | fetches the cache line at any address, a `u64`, ahead of its use; does nothing unless a thread is a core |
//! | `BARRIER()` | waits until all threads of the group have come here; then each sees what the others have written |
//! | `i8` … `i64`, `u8` … `u64`, `f32`, `f64` | numbers; `long`, `int`, `double`, `float` are the same as in C on Linux |
//! | `i128`, `u128`, `f16`, `bf16`, `complex32`, `complex64` | the other element types, as they are stored |
//! | `bytes16` | 16 bytes that are read and written at once, at addresses that are multiples of 16 |
//!
//! - Devices round the number of threads up: a kernel returns at once if its index is past the end.
//! - `a * b + c` is rounded twice, as on the host: contraction is off (by [`CUDA_OPTIONS`], and by the prelude in
//!   OpenCL).
//! - `f64` and `complex64` need a device with double precision.

mod entry;
mod grid;
mod table;

pub use table::{COPY_BLOCKS, COPY_GROUP_THREADS, COPY_TILE_BYTES, CopyBases, CopyTable, CopyTile};

/// The kernel that runs lists of copies on devices whose threads are not cores: `copy_words` (see [`CopyTable`]).
pub const COPY_WORDS: &str = concat!(
    include_str!("copies.h"),
    include_str!("signs.h"),
    include_str!("offsets.h"),
    include_str!("words.h"),
    include_str!("copy_words.c")
);

/// The kernel that runs lists of copies on OpenCL devices whose threads are cores: `copy_lines`.
pub const COPY_LINES: &str =
    concat!(include_str!("copies.h"), include_str!("signs.h"), include_str!("copy_lines.c"));

/// The kernel that runs lists of copies that combine, on all devices: `combine_words`, with the parameters of `copy_words`.
pub const COMBINE_WORDS: &str =
    concat!(include_str!("copies.h"), include_str!("offsets.h"), include_str!("combine.c"));

/// The kernel that fills memory at any address: `fill(target, low, high, bytes, count)`.
pub const FILL: &str = include_str!("fill.c");

/// The kernel that copies a word of host memory to memory of the device: `fetch_word(target, source)`, by one thread.
pub const FETCH_WORD: &str = include_str!("fetch_word.c");

/// The options of the CUDA compiler besides the architecture.
pub const CUDA_OPTIONS: [&str; 1] = ["--fmad=false"];

const ELEMENTS: &str = include_str!("elements.h");

/// `source` as OpenCL C 1.2, with the prelude before it. Line numbers in messages are those of `source`.
pub fn opencl(source: &str) -> String {
    with_prelude(include_str!("opencl.h"), source)
}

/// As [`opencl`], for a device whose threads are cores: there `FETCH` has an effect.
pub fn opencl_for_cores(source: &str) -> String {
    format!("#define HALOPORT_CORES\n{}", opencl(source))
}

/// `source` as CUDA C++, with the prelude before it. Line numbers in messages are those of `source`.
pub fn cuda(source: &str) -> String {
    with_prelude(include_str!("cuda.h"), source)
}

fn with_prelude(prelude: &str, source: &str) -> String {
    format!("{prelude}\n{ELEMENTS}\n#line 1\n{source}")
}
