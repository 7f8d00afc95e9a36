//! The `haloport` command as a library, so that tests reach its reader of time lines.
//!
//! | module | contents |
//! | --- | --- |
//! | `command_line` | the arguments of `haloport`, and the module that each subcommand runs |
//! | `devices` | `haloport devices` |
//! | `jobs` | `haloport run`: for each job its arguments, inputs, checks and report |
//! | `bench` | `haloport bench`: exchanges of boxes and of meshes, and simulated ranks |
//! | `mesh` | `haloport mesh` |
//! | [`trace`] | `haloport trace`: time lines |
//! | `completions` | `haloport completions` |
//! | `command` | shared by all: ranks, limits, memory, options, failures, log lines, output |

#![warn(missing_docs)]

mod bench;
mod command;
mod command_line;
mod completions;
mod devices;
mod jobs;
mod mesh;
pub mod trace;

pub use command_line::main;
