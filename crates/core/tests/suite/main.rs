//! Everything of the core but allocations, which `tests/allocations.rs` counts in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accumulate;
mod blocked;
mod collective;
#[path = "../common/mod.rs"]
mod common;
mod cubed_sphere;
mod detached;
mod error;
mod errors;
mod exact;
mod folded;
mod hostile_input;
mod in_place;
mod interop;
mod interrupt;
mod kernel_cache;
mod kernel_cache_processes;
mod levels;
mod line;
mod lists;
mod odd_input;
mod order;
mod out_of_step;
mod overlap;
mod pending;
mod plan;
mod redistribute;
mod routes;
mod same_bits;
mod share;
mod source_target;
mod sparse;
mod tags;
mod threads;
mod trace;
mod unstructured;
mod views;
mod waiting;
mod walls;
mod whole;
