//! Shared by the jobs: numbers, inputs, arguments of kernels, traffic and speed, checks, progress, the output folder.

pub(crate) mod checks;
pub(crate) mod folder;
pub(crate) mod inputs;
pub(crate) mod kernel_arguments;
pub mod numbers;
pub(crate) mod performance;
pub(crate) mod progress;
pub mod traffic;
