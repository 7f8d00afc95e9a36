//! Haloport from C, C++ and Fortran: the functions of `include/haloport.h`, which describes them.
//!
//! From the top down:
//!
//! - `plan`: exchanges; `fields`: their arrays; `flights`: those in flight, by their tickets; `memory`: arrays that neighbours
//!   copy straight from;
//! - `messages`: messages of any size; `line`: payloads along a line of ranks; `payload`: the bytes of both;
//! - `pattern`: which cells each rank owns; `boxes`: the cells of a domain; `domains`: what an `hp_pattern` stands for;
//! - `comm`: the ranks; `collective`: reductions, and bytes to and from one rank;
//! - `array`, `element`, `stream`, `device`: what the structs of the header mean;
//! - `describe`: texts; `log`: warnings; `layout`: the structs as a test sees them;
//! - `handle`: what callers hold; `arguments`: their pointers and numbers; `status`: what calls return.
//!
//! Each function is `status::call` around a body that returns a `Result`: it keeps the text of an error, and lets no panic
//! out. Pointers are checked for null; that they are valid otherwise is the contract of the header.

mod arguments;
mod array;
mod boxes;
mod collective;
mod comm;
mod describe;
mod device;
mod domains;
mod element;
mod fields;
mod flights;
mod handle;
#[doc(hidden)]
pub mod layout;
mod line;
mod log;
mod memory;
mod messages;
mod pattern;
mod payload;
mod plan;
mod status;
mod stream;
