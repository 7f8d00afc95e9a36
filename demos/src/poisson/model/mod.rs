//! Poisson's equation on the unit sphere, by linear finite elements and conjugate gradients, distributed over ranks.
//!
//! | module | contents |
//! | --- | --- |
//! | [`harmonic`] | an exact solution |
//! | `elements` | the triangles of a rank |
//! | [`solver`] | the solution, on ranks that own triangles |
//!
//! Each rank computes with its own triangles, whose vertices may belong to other ranks. What a triangle adds to such a vertex goes
//! from the halo to the owner, and is summed there.

mod elements;
pub mod harmonic;
pub mod solver;
