//! A tsunami model: the shallow-water equations on real relief, distributed over ranks.
//!
//! | module | contents |
//! | --- | --- |
//! | [`relief`] | the land and the sea bed: reading, checking, refining |
//! | [`decomposition`] | the rectangle of the grid that each rank owns |
//! | [`regions`] | the cells computed while margins travel, and those afterwards |
//! | [`block`] | the rectangle of cells that one rank owns, its margin and its closed walls |
//! | [`metric`] | lengths and areas of the cells of a longitude-latitude grid |
//! | [`uplift`] | the hump of the sea surface that starts the wave |
//! | [`face`] | the flow through one face: reconstruction and flux |
//! | [`scheme`] | one stage of the time step over a range of rows and columns |
//! | [`kernels`] | the scheme as kernels of a device |
//! | `launches` | the kernels of one rank, bound to its arrays |
//! | [`solver`] | the model on one rank: fields, kernels, exchanges, time steps |
//! | `whole` | the fields of the whole grid, as the solver gathers them |
//! | [`survey`] | volume, extremes and the largest wave height |
//! | [`gauges`] | tide gauges and their records |
//!
//! Every cell's new value depends on nothing but global data taken in a fixed order, so a
//! field is the same bit for bit however the grid is cut into blocks, rows and columns.

pub mod block;
pub mod decomposition;
pub mod face;
pub mod gauges;
pub mod kernels;
mod launches;
pub mod metric;
pub mod regions;
pub mod relief;
pub mod scheme;
pub mod solver;
pub mod survey;
pub mod uplift;
mod whole;

/// The shipped relief: southern Vancouver Island and the Salish Sea, as a .npz file. The `README.md` beside it has its
/// provenance.
pub const SHIPPED: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/topobathy.npz"));
