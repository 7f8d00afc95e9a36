//! Rolling means by time window over a sorted table, distributed over ranks.
//!
//! | module | what |
//! | --- | --- |
//! | [`table`] | the table: reading and checking |
//! | [`window`] | the length of the window |
//! | [`mean`] | the mean, on ranks that own consecutive rows |
//!
//! The mean of a row adds the same values in the same order on any number of ranks, so it is
//! the same bit for bit.

pub mod mean;
pub mod table;
pub mod window;

/// The table that is shipped: prices of shares and indices, 1990 to 2022, as CSV.
/// Its provenance is in the `README.md` beside it.
pub const SHIPPED: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/stocks.csv"));
