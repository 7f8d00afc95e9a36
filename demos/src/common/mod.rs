//! Shared by the programs: numbers, arguments of kernels, the bytes that exchanges move.

pub(crate) mod kernel_arguments;
pub mod numbers;
pub mod traffic;
