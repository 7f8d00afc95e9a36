//! Rolling means by time window over a sorted table, distributed over ranks.
//!
//! | module | contents |
//! | --- | --- |
//! | [`table`] | the table: reading and checking |
//! | [`window`] | the length of the window |
//! | [`mean`] | the mean, on ranks that own consecutive rows |
//!
//! The mean of a row adds the same values in the same order on any number of ranks, so its bits are the same.

pub mod mean;
pub mod table;
pub mod window;

/// The shipped table: prices of shares and indices, 1990 to 2022, as CSV. The `README.md` beside it has its provenance.
pub const SHIPPED: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/stocks.csv"));
