//! A Level Zero driver for tests, which computes on the host: it shows without a GPU how Haloport's SYCL backend behaves
//! on Level Zero.
//!
//! It is `libze_loader.so.1`, the library that the Level Zero adapters of DPC++ open, for one made-up GPU. Kernels are
//! SPIR-V modules, which Intel's OpenCL runtime for CPUs builds and runs. Memory of all three kinds is memory of the
//! host; that of the device can be mapped by other processes. A thread for each command queue and each immediate command list does
//! the work some time after the call. Commands of a list that is not in order are done in random order, except for barriers and
//! events. The driver refuses handles of objects that do not exist.
//!
//! It also is `libocloc.so`, Intel's compiler, through which DPC++ builds texts in OpenCL C: clang 15 and llvm-spirv 15, as
//! Debian 12 has them, do the work.
//!
//! - `api`: the functions of Level Zero and of its loader; `structures`: their structures; `status`: their codes.
//! - `objects`: what handles stand for; `memory`: allocations; `module`: programs and kernels; `spirv`: the parameters of
//!   kernels; `opencl`: the runtime that builds and runs them; `lock`: locks.
//! - `compiler`: the compiler of texts; `work`: the work of queues; `settings`: the variables below.
//!
//! | variable | default | meaning |
//! | --- | --- | --- |
//! | `HALOPORT_LEVEL_ZERO_OPENCL` | `libintelocl.so` | Intel's OpenCL runtime for CPUs |
//! | `HALOPORT_LEVEL_ZERO_SEED` | 1 | determines delays, and the order of commands that have none |
//! | `HALOPORT_LEVEL_ZERO_DELAY_US` | 0 | the longest delay before each command, in microseconds |
//! | `HALOPORT_LEVEL_ZERO_VERSION` | `1.6.34000` | the version of the driver, by which DPC++ chooses what it calls |
//! | `HALOPORT_LEVEL_ZERO_FAULT` | none | a fault that tests must find: `waits`: commands do not wait for events; `events`: events are reached at once |
//! | `HALOPORT_LEVEL_ZERO_IMPORTS` | 1 | 0: memory of other processes cannot be mapped |
//! | `HALOPORT_LEVEL_ZERO_DOUBLES` | 1 | 0: the GPU has no double precision, as those of Intel's first generation of Arc |
//! | `HALOPORT_LEVEL_ZERO_TRACE` | 0 | 1: each call is printed on the error stream, with its code |

#![warn(missing_docs)]

mod api;
mod compiler;
mod lock;
mod memory;
mod module;
mod objects;
mod opencl;
mod settings;
mod spirv;
mod status;
mod structures;
mod work;
