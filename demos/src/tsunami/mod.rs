//! The shallow-water equations on real relief.

pub mod model;
pub mod picture;
pub mod states;
