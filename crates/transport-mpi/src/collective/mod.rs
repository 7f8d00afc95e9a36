//! Collective calls: reductions and broadcasts (`reduce`), and the `sparse` exchange.

mod reduce;
mod sparse;
