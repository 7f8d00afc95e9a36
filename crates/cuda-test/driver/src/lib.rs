//! A CUDA driver for tests, which computes on the host: it shows without a GPU how Haloport's CUDA backend behaves.
//!
//! It runs the PTX that NVRTC makes. Device memory is mapped so that an access of the host faults, and every access of
//! a kernel is checked. Two accesses that nothing orders are a fault. A thread for each hardware queue does the work
//! some time after the call. The driver refuses what a real one would refuse: calls without a current context, handles of
//! objects that do not exist, and ranges past the end of their memory.
//!
//! Tests link it as `libcuda.so.1` where the loader looks first. Where it records, it also is `libnvrtc.so.12`, a compiler
//! that returns the source as if it were PTX; such kernels do nothing.
//!
//! - `api`: the functions of the driver; `status`: its codes; `compiler`: the functions of the compiler.
//! - `state`: the objects that exist, and the recorded calls; `objects`: what handles stand for; `lane`: the context and
//!   the order that work of a stream belongs to; `give`: work for streams, and captures; `left_out`: waits that are left
//!   out.
//! - `memory`: allocations; `work`: the work of streams; `order`: the order of work; `settings`: the variables below.
//! - [`control`]: the functions through which tests control the driver.
//!
//! | variable | default | meaning |
//! | --- | --- | --- |
//! | `HALOPORT_DRIVER_DEVICES` | 1 | the number of devices |
//! | `HALOPORT_DRIVER_BROKEN` | none | the number of a device that has failed: it has a name, and all else is an error |
//! | `HALOPORT_DRIVER_VERSION` | 12000 | the CUDA version of the driver |
//! | `HALOPORT_DRIVER_COMPILER` | 12000 | the version that it reports as NVRTC; if that has a later major version than the driver, programs are refused |
//! | `HALOPORT_DRIVER_NUMBERS` | `everywhere` | streams write and wait for numbers (stream memory operations); `nowhere`: they do not |
//! | `HALOPORT_DRIVER_PEERS` | 1 | 0: no device reaches the memory of another |
//! | `HALOPORT_DRIVER_QUEUES` | 8 | hardware queues of each device and priority; 0: each stream has its own |
//! | `HALOPORT_DRIVER_QUEUES_SHARED` | 0 | 1: streams of all priorities share them |
//! | `HALOPORT_DRIVER_SEED` | 1 | determines delays |
//! | `HALOPORT_DRIVER_DELAY_US` | 0 | the longest delay before each piece of work, in microseconds |
//! | `HALOPORT_DRIVER_FREE` | `waits` | freeing memory waits for the device; `locks`: meanwhile all other calls wait, too; `at-once`: it waits for nothing |
//! | `HALOPORT_DRIVER_RDMA` | `ordered` | work in streams sees what a network adapter writes; `wait`: if it waits for a number with the flag for that; `host`: if the host calls `cuFlushGPUDirectRDMAWrites`; `never`: only work that comes later sees it |
//! | `HALOPORT_DRIVER_HANDLES` | `fd` | how processes share memory of `cuMemCreate`: `fd`: by file descriptors; `fabric`: also by fabric handles; `denied`: the device offers those, but this process may not use them; `unready`: it can make, but not import them; `none`: there is no virtual memory management, as in an old driver |
//! | `CUDA_LAUNCH_BLOCKING` | 0 | 1: a launch returns when its kernel has ended |
//! | `HALOPORT_DRIVER_FAULT` | none | a fault that tests must find: `waits`: streams do not wait for events; `gates`: nor for numbers; `events`: events are reached at once; `axis`: kernels copy an axis backwards |
//! | `HALOPORT_DRIVER_WITHOUT_WAIT` | none | a place in the source of the program, as `exchange/part/stream.rs:181`: the waits that are called for from there are left out, those of streams and those of the host |
//! | `HALOPORT_DRIVER_RACES` | 1 | 0: accesses that nothing orders are not looked for; nor are they where calls are recorded |
//! | `HALOPORT_DRIVER_RECORDS` | 0 | 1: calls are recorded and return when their work is done, and streams wait for no number |

#![warn(missing_docs)]

mod api;
mod compiler;
pub mod control;
mod give;
mod lane;
mod left_out;
mod memory;
mod objects;
mod order;
mod settings;
mod state;
mod status;
mod work;
