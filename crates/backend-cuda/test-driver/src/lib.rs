//! A CUDA driver for tests, which computes on the host: what Haloport's CUDA backend does is seen without a GPU.
//!
//! It runs the PTX that NVRTC makes. Device memory is mapped so that an access of the host faults, and every access of a
//! kernel is checked. Two accesses that nothing orders are a fault. Work is done late, by a thread for each hardware queue; graphs run in a random one of the orders that
//! their edges allow. It refuses what a real driver would refuse: calls without a current context, handles of nothing that
//! lives, ranges past the end of their memory.
//!
//! Tests link it as `libcuda.so.1` where the loader looks first. Where it records, it also is `libnvrtc.so.12`, a compiler
//! that returns the source as if it were PTX; such kernels do nothing.
//!
//! - `api`: the functions of the driver; `status`: its codes; `compiler`: the functions of the compiler.
//! - `state`: what lives, and the recorded calls; `objects`: what handles stand for; `lane`: what the work of a stream belongs to; `give`: work for streams and captures.
//! - `memory`: allocations; `work`: what streams do; `order`: what comes before what; `settings`: the variables below.
//! - [`control`]: the functions through which tests control the driver.
//!
//! | variable | default | meaning |
//! | --- | --- | --- |
//! | `HALOPORT_DRIVER_DEVICES` | 1 | the number of devices |
//! | `HALOPORT_DRIVER_VERSION` | 12000 | the CUDA version of the driver |
//! | `HALOPORT_DRIVER_NUMBERS` | 1 | 0: streams that capture refuse to write and wait for numbers |
//! | `HALOPORT_DRIVER_PEERS` | 1 | 0: no device reaches the memory of another |
//! | `HALOPORT_DRIVER_QUEUES` | 8 | hardware queues of each priority; 0: each stream has its own |
//! | `HALOPORT_DRIVER_QUEUES_SHARED` | 0 | 1: streams of all priorities share them |
//! | `HALOPORT_DRIVER_SEED` | 1 | determines delays and the orders of graphs |
//! | `HALOPORT_DRIVER_DELAY_US` | 0 | the longest delay before each piece of work, in microseconds |
//! | `HALOPORT_DRIVER_FREE` | `waits` | freeing memory waits for the device; `locks`: meanwhile all other calls wait, too; `at-once`: it waits for nothing |
//! | `CUDA_LAUNCH_BLOCKING` | 0 | 1: a launch returns when its kernel has ended |
//! | `HALOPORT_DRIVER_FAULT` | none | a fault that tests must find: `waits`: streams do not wait for events; `gates`: nor for numbers; `events`: events are reached at once; `axis`: kernels copy an axis backwards |
//! | `HALOPORT_DRIVER_RACES` | 1 | 0: accesses that nothing orders are not looked for; nor are they where calls are recorded |
//! | `HALOPORT_DRIVER_RECORDS` | 0 | 1: calls are recorded and return when their work is done, and streams wait for no number |

#![warn(missing_docs)]

mod api;
mod compiler;
pub mod control;
mod give;
mod lane;
mod memory;
mod objects;
mod order;
mod settings;
mod state;
mod status;
mod work;
