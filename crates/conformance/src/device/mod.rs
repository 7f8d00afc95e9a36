//! The device suite: what every backend does, call by call.
//!
//! - `streams`, `memory`: streams, events and memory by themselves;
//! - `copies`, `faces`, `signs`: copies, alone and in lists, with random `cases`; `combining`: copies that combine;
//! - `kernels`, `elements`: kernels, their arguments and element types;
//! - `order`, `slow`: what is asynchronous and what waits, shown with a slow kernel;
//! - `bytes`: bytes to a device and back; `blocks`: blocks of memory that copies are anchored to;
//! - `words`: words that streams write and await;
//! - `programs`: a kernel for backends that load others than sources;
//! - `roles`: what a device hands out;
//! - `nvrtc`: what CUDA's compiler makes of kernels, which needs no device.

mod blocks;
mod bytes;
mod cases;
mod combining;
mod copies;
mod elements;
mod faces;
mod kernels;
mod memory;
pub mod nvrtc;
mod order;
pub mod programs;
mod roles;
mod signs;
mod slow;
mod streams;
mod words;

use haloport_core::device::{Device, KernelSource};

use crate::{Exception, Report, judge};
pub(crate) use slow::Slow;

/// The kernels of the suites, for compilers without a device.
pub fn kernel_sources() -> Vec<KernelSource> {
    [kernels::SAXPY, kernels::COUNT, slow::SPIN]
        .into_iter()
        .chain(elements::KERNELS.map(|(_, kernel)| kernel))
        .collect()
}

/// Runs all device tests.
///
/// # Errors
/// The failures, one per line; an exception that passes is one.
pub fn suite<D: Device>(device: &D, exceptions: &[Exception]) -> Result<Report, String> {
    judge(
        device,
        &[
            ("streams", streams::streams),
            ("events", streams::events),
            ("event timing", streams::event_timing),
            ("memory", memory::memory),
            ("too much memory", memory::too_much_memory),
            ("copies", copies::copies),
            ("writes that other streams follow", copies::writes),
            ("box copies", copies::box_copies),
            ("fills", copies::fills),
            ("bound copies", copies::bound_copies),
            ("large bound copies", copies::large_bound_copies),
            ("bound copies that are moved", copies::moved_copies),
            ("faces", faces::faces),
            ("indexed copies", copies::indexed_copies),
            ("large indexed copies", copies::large_indexed_copies),
            ("sign changes", signs::sign_changes),
            ("copies that combine", combining::combining),
            ("kernels", kernels::kernels),
            ("kernels in three dimensions", kernels::kernels_in_three_dimensions),
            ("rebinding", kernels::rebinding),
            ("wrong arguments", kernels::wrong_arguments),
            ("element types", elements::element_types),
            ("launches by several threads", order::launches_by_several_threads),
            ("order across streams", order::order_across_streams),
            ("work after the call", order::work_after_the_call),
            ("work in the call", order::work_in_the_call),
            ("waiting streams", order::waiting_streams),
            ("streams side by side", order::streams_side_by_side),
            ("all streams", order::all_streams),
            ("events recorded again", order::events_recorded_again),
            ("gates", order::gates),
            ("commands while another thread waits", order::commands_while_another_thread_waits),
            ("words in streams", words::words_in_streams),
            ("copies that a word stops", words::stopped_copies),
            ("roles", roles::roles_are_those_of_the_flags),
        ],
        exceptions,
    )
}
