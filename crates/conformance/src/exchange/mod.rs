//! Random exchanges against oracles, on any device and transport.
//!
//! - `structured`, `unstructured` (with `random_cells`), `cubed_sphere`, `tripolar`: random domains (with
//!   `splits`), halos and fields;
//! - `any_kind`: a random case of any of these;
//! - `accumulated`: halos of such domains, which go to their owners and are combined there;
//! - `transposed`: exchanges and their transposes, which have one product;
//! - `same_bits`: sums of floats, compared bit for bit;
//! - `redistributed`: cells that go from their owners in one pattern to those in another one;
//! - `sets`: fields of several patterns in one exchange;
//! - `whole`: all cells as one array on one rank, and back;
//! - `sparse`, `line`: random rounds of sparse exchanges and of payloads along a line;
//! - `large`: sizes beyond 32 bits;
//! - `out_of_step`: ranks that make collective calls in different orders;
//! - `repeated`: patterns, exchanges and plans made and dropped many times;
//! - `random`: many of these cases on one device, with ranks as threads.

pub mod accumulated;
mod any_kind;
pub mod cubed_sphere;
pub mod large;
pub mod line;
pub mod out_of_step;
pub mod random;
mod random_cells;
pub mod redistributed;
pub mod repeated;
pub mod same_bits;
pub mod sets;
pub mod sparse;
mod splits;
pub mod structured;
mod transposed;
pub mod tripolar;
pub mod unstructured;
pub mod whole;
