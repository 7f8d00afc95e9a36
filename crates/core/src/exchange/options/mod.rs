//! The options of an exchange, its schedule, its errors and its reports.

/// Implements `Display` and `FromStr` for an enum without data, given the name of each value. The error of `from_str`
/// lists all names.
macro_rules! named {
    ($kind:ty { $($value:ident => $name:literal),+ $(,)? }) => {
        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self { $(Self::$value => $name,)+ })
            }
        }

        impl std::str::FromStr for $kind {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($name => Ok(Self::$value),)+
                    _ => Err(format!("expected one of {}; found `{text}`", [$($name),+].join(", "))),
                }
            }
        }
    };
}

mod bind_options;
mod error;
mod path;
mod route;
mod schedule;
mod traffic;

pub use bind_options::{BindOptions, Completion, DEFAULT_STAGING_CHUNK, DEFAULT_STAGING_COPY};
pub use error::{BindError, ExchangeError, StepError};
pub use path::{Choice, CopiedBy, DataPath, HaloOrder};
pub use route::{Description, Obstacle, Route};
pub use schedule::Schedule;
pub use traffic::Traffic;

pub(crate) use path::Way;
pub(crate) use route::Settled;
