//! Advection: a tracer carried round the sphere on a mesh of triangles, distributed over ranks.
//!
//! This is test case 1 of Williamson et al., "A standard test set for numerical approximations to the shallow water
//! equations in spherical geometry", J. Comput. Phys. 102 (1992): a wind like the rotation of a solid body, about an
//! axis that may be tilted, brings every hill back to its start after 12 days.
//!
//! | module | contents |
//! | --- | --- |
//! | [`wind`] | the wind, its stream function, and the paths of points |
//! | [`tracer`] | hills of tracer, now and at any time, as means over cells |
//! | [`stencil`] | the data of each cell for the scheme: weights, offsets, fluxes |
//! | [`scheme`] | the gradient of a cell and one stage of its time step |
//! | [`kernels`] | the scheme as kernels of a device |
//! | [`tables`] | the stencils of a rank's cells, in the order in which they are computed |
//! | [`solver`] | the model on one rank: fields, kernels, exchanges, time steps |
//! | [`norms`] | mass, errors and the order of convergence |
//!
//! Every cell's new value is computed by the same operations in the same order, which follow from the numbers of the
//! whole mesh; so a field is the same bit for bit on any number of ranks, whatever the partition.

pub mod kernels;
pub mod norms;
pub mod scheme;
pub mod solver;
pub mod stencil;
pub mod tables;
pub mod tracer;
pub mod wind;
