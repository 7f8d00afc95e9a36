//! A tracer that is carried round the sphere, on an icosahedral mesh.

pub mod model;
pub mod picture;
pub mod states;
