//! An NCCL for tests, on the CUDA driver for tests (`crates/cuda-test/driver`): it shows without a
//! GPU how Haloport's CUDA backend uses NCCL.
//!
//! Ranks are threads or processes of one machine. Communicators are non-blocking. As with NVIDIA's NCCL, a
//! thread puts each group of messages into its stream some time after the call; groups of one communicator run one
//! after the other; ranks connect in their first exchange, in which each waits for the other; a group ends when its
//! messages have arrived at both ends; a communicator is freed when those of all ranks end. Other ranks wait for a
//! missing rank. Ranks on one device are refused, and only they.
//!
//! Tests link it as `libnccl.so.2` where the loader looks first. It finds the driver as `libcuda.so.1`. Where that driver
//! records calls, those of this library are among them (`ncclSend bytes=8 peer=1 stream=0x1010`).
//!
//! - `api`: the functions of NCCL; `status`: its codes; `driver`: the functions of the driver; `settings`: the variables
//!   below.
//! - `communicator`: a rank of a group; `groups`: the calls between `ncclGroupStart` and `ncclGroupEnd`; `exchange`: what a
//!   stream does; `links`: the connections to the other ranks.
//!
//! | variable | default | meaning |
//! | --- | --- | --- |
//! | `HALOPORT_TEST_NCCL_VERSION` | 22703 | the version of the library |
//! | `HALOPORT_TEST_NCCL_DELAY_US` | 500 | the delay before a group of messages is put into its stream, in microseconds |
//! | `HALOPORT_TEST_NCCL_FOLDER` | none | the folder of its sockets; without, they have abstract names, which the ranks of one network namespace find |

#![warn(missing_docs)]

mod api;
mod communicator;
mod driver;
mod exchange;
mod groups;
mod links;
mod settings;
mod status;
