//! The job `haloport run advection`: a tracer carried round the sphere on a mesh.

pub mod model;
pub mod picture;
mod run;

pub(crate) use run::{AdvectionArgs, run};
