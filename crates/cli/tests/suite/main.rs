//! The command, and what its jobs compute. Damaged files are read in a process of their own, `tests/readers`.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod advection;
mod advection_model;
mod command;
mod common;
mod cuda;
mod environment;
mod files;
mod hashes;
mod help;
mod kernels;
mod mesh;
mod poisson;
mod rolling;
mod scaling;
mod source;
mod states;
mod sycl;
mod trace;
mod tsunami;
mod tsunami_model;
mod tsunami_relief;
mod tsunami_solver;
mod waiting;
