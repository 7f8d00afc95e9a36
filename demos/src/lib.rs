//! Four programs that use Haloport: what the jobs of the command `haloport run` compute and draw.
//!
//! | module | the program | what it shows of Haloport |
//! | --- | --- | --- |
//! | [`tsunami`] | the shallow-water equations on real relief | a grid, kernels of one source for every device, overlap on one stream, fields that change places |
//! | [`advection`] | a tracer that is carried round the sphere | a mesh in parts, levels, blocks of cells |
//! | [`poisson`] | Poisson's equation on the sphere by finite elements | sums from halos to their owners, exact sums |
//! | [`rolling`] | means by time window over a sorted table | an exchange along a line of ranks |
//!
//! In the folder of a program, `model` computes, and `picture` or `chart` draws. They share [`common`], [`drawing`] for
//! pictures, [`npz`] for archives of NumPy arrays, and [`zarr`] for fields in files. The command adds arguments, inputs, checks and reports.

#![warn(missing_docs)]

pub mod advection;
pub mod common;
pub mod drawing;
pub mod npz;
pub mod poisson;
pub mod rolling;
pub mod tsunami;
pub mod zarr;
