//! Shared by the programs: fields in files, hashes of fields, numbers, arguments of kernels, the bytes that exchanges move.

pub mod field_hash;
pub mod history;
pub(crate) mod kernel_arguments;
pub mod numbers;
pub mod traffic;
