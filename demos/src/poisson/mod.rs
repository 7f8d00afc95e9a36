//! Poisson's equation on the sphere by finite elements.

pub mod model;
