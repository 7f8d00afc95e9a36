//! Fields of any element type, and an oracle that knows what every element in memory must be.
//!
//! - `truth`: what an oracle knows of a case;
//! - `values`: what memory must be, in bytes;
//! - `fields`: fields of a case, owned or borrowed, which fill and verify themselves;
//! - `make`, `element_types`: makes such fields;
//! - `options`: how an exchange of a case is bound;
//! - `rounds`: rounds of exchanges, each of them verified.

mod element_types;
mod fields;
mod make;
mod options;
mod rounds;
mod truth;
mod values;

pub(crate) use fields::{CaseField, CaseFields, PlacedField, PlacedFields};
pub(crate) use make::{FieldMaker, Lenders, make_moved, make_placed, random_element, random_memory};
pub(crate) use options::CaseOptions;
pub(crate) use rounds::{Rounds, run_at_addresses, run_interleaved, run_passed, run_rounds};
pub(crate) use truth::{Name, Oracle, name_of};
