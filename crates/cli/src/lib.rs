//! The `haloport` command as a library, so that tests reach what its jobs compute.
//!
//! | module | contents |
//! | --- | --- |
//! | `command_line` | the arguments of `haloport`, and the module that each subcommand runs |
//! | `devices` | `haloport devices` |
//! | [`jobs`] | `haloport run`: for each job its model, its pictures and its run |
//! | `bench` | `haloport bench`: exchanges of boxes and of meshes, and simulated ranks |
//! | `mesh` | `haloport mesh` |
//! | [`trace`] | `haloport trace`: time lines |
//! | `completions` | `haloport completions` |
//! | `command` | shared by all: ranks, limits, memory, options, failures, log lines, output |
//! | [`drawing`], [`npz`] | pictures; archives of NumPy arrays |

#![warn(missing_docs)]

mod bench;
mod command;
mod command_line;
mod completions;
mod devices;
pub mod drawing;
pub mod jobs;
mod mesh;
pub mod npz;
pub mod trace;

pub use command_line::main;
