//! The suites that every backend and every transport passes.
//!
//! A backend joins with one line, `haloport_conformance::device::suite(&device, &[])`; a transport joins with
//! `haloport_conformance::transport::suite(&comm)` on every rank. If a backend cannot do something, an [`Exception`]
//! with a reason says so. An exception that passes fails the suite.
//!
//! | folder | modules |
//! | --- | --- |
//! | `device` | [`device`]: one device, call by call; [`nvrtc`]: what CUDA's compiler makes of kernels |
//! | `transport` | [`transport`]: one transport, call by call |
//! | `exchange` | random exchanges against oracles: [`structured`] domains, [`unstructured`] ones, [`cubed_sphere`], [`tripolar`] grids; halos that are [`accumulated`], cells that are [`redistributed`]; [`mod@whole`] arrays on one rank; [`sparse`] exchanges and payloads along a [`mod@line`]; [`large`] sizes; what is made and dropped [`repeated`]ly; sums with the [`same_bits`]; [`sets`] of patterns; collective calls [`out_of_step`]; [`random`]: many of them on one device |
//! | `streams` | exchanges on streams: their [`ordering`] with other work, computing meanwhile ([`overlap`]), [`scheduled`] ends, [`staging`] in chunks, [`messages`] in streams, the thread that makes [`progress`], the time line ([`trace`]), [`faults`] and [`panics`] |
//! | `oracle` | what every element in memory must be |
//! | `test_devices` | devices made of another one: [`queued`], which goes on working after a call has returned; [`altered`], in which something differs; [`exported`], whose memory other processes reach |
//! | `test_transports` | [`test_transports`]: what transports that alter another one share |
//! | `backend` | [`backend`]: tests that backends share, for their test binaries |
//! | `mutation` | [`mutation`]: damaged inputs for readers |

#![warn(missing_docs)]

pub mod backend;
pub mod device;
mod exchange;
pub mod mutation;
mod oracle;
mod report;
mod setting;
mod streams;
mod test_devices;
pub mod test_transports;
pub mod transport;

pub use device::nvrtc;
pub use exchange::{
    accumulated, cubed_sphere, large, line, out_of_step, random, redistributed, repeated, same_bits, sets,
    sparse, structured, tripolar, unstructured, whole,
};
pub(crate) use report::judge;
pub use report::{Exception, Failure, Report};
pub use setting::{drawn, usual};
pub use streams::{faults, messages, ordering, overlap, panics, progress, scheduled, staging, trace};
pub use test_devices::{altered, exported, queued};

/// Tests the guide for authors of backends.
#[cfg(doctest)]
#[doc = include_str!("../../../CONTRIBUTING.md")]
struct Contributing;
