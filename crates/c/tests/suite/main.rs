//! Programs that use the library from C, C++ and Fortran.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compilers;
mod devices;
mod examples;
mod header;
mod programs;
