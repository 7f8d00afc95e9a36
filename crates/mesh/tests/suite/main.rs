//! Meshes: generators, readers, partitions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod gmsh;
mod mesh;
mod partition;
