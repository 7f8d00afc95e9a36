//! The job `haloport run tsunami`: the shallow-water equations on real relief.

pub mod model;
pub mod picture;
mod run;

pub(crate) use run::{TsunamiArgs, run};
