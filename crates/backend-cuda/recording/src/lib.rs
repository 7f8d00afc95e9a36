//! A CUDA driver for tests: it keeps host memory behind the memory calls, copies and fills it, runs no kernel, and records
//! every call. It is the run-time compiler, too, which gives the source back as if it were PTX.
//!
//! Tests put it as `libcuda.so.1` and `libnvrtc.so.12` where the loader looks first, and ask it through the functions
//! of [`control`]. Work is done when a call returns. What a real driver would refuse, it refuses: calls without a current
//! context, handles of nothing that lives, ranges past the end of their memory.
//!
//! | variable | default | meaning |
//! | --- | --- | --- |
//! | `HALOPORT_RECORDING_DEVICES` | 1 | the number of devices |
//! | `HALOPORT_RECORDING_VERSION` | 12000 | the CUDA version of the driver |
//! | `HALOPORT_RECORDING_NUMBERS` | 1 | 0: streams that capture take no numbers that are written and waited for |

#![warn(missing_docs)]

mod capture;
pub mod control;
mod copies;
mod driver;
mod memory;
mod nvrtc;
mod objects;
mod state;
