//! Shared by the programs: fields in files, numbers, arguments of kernels, the bytes that exchanges move.

pub mod history;
pub(crate) mod kernel_arguments;
pub mod numbers;
pub mod traffic;
