//! A CUDA driver for tests that records every call. It allocates host memory, copies and fills it, and runs no kernel.
//! It is also the run-time compiler, which returns the source as if it were PTX.
//!
//! Tests link it as `libcuda.so.1` and `libnvrtc.so.12` where the loader looks first, and control it through the
//! functions of [`control`]. Work is done when a call returns. It refuses what a real driver would refuse: calls
//! without a current context, handles of nothing that lives, ranges past the end of their memory.
//!
//! The functions of the driver are in `driver` and `status`, those of the compiler in `nvrtc`. They act on the `state`,
//! which consists of `objects`; `memory`, `copies` and `capture` hold what they do with memory, rows and streams.
//!
//! | variable | default | meaning |
//! | --- | --- | --- |
//! | `HALOPORT_RECORDING_DEVICES` | 1 | the number of devices |
//! | `HALOPORT_RECORDING_VERSION` | 12000 | the CUDA version of the driver |
//! | `HALOPORT_RECORDING_NUMBERS` | 1 | 0: streams that capture refuse to write and wait for numbers |
//! | `HALOPORT_RECORDING_PEERS` | 1 | 0: no device reaches the memory of another |

#![warn(missing_docs)]

mod capture;
pub mod control;
mod copies;
mod driver;
mod memory;
mod nvrtc;
mod objects;
mod state;
mod status;
