//! The options of an exchange, its schedule, its errors and its reports.

mod bind_options;
mod choice;
mod error;
mod names;
mod order;
mod path;
mod schedule;
mod traffic;

pub use bind_options::{BindOptions, Completion, DEFAULT_STAGING_CHUNK, DEFAULT_STAGING_COPY};
pub use choice::Choice;
pub use error::{BindError, ExchangeError, StepError};
pub use order::HaloOrder;
pub use path::{CopiedBy, DataPath};
pub use schedule::Schedule;
pub use traffic::Traffic;

pub(crate) use path::Way;
