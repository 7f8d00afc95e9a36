//! The kind of an [`Error`], for programs that handle some errors differently from others.

use std::error::Error as StdError;

use crate::Error;
use crate::comm::RanksError;
use crate::device::DeviceError;
use crate::domain::GridError;
use crate::exchange::{BindError, ExchangeError, StepError, WholeError};
use crate::field::{FieldError, ShapeError};
use crate::pattern::PatternError;
use crate::sparse::SparseError;
use crate::transport::TransportError;

/// The error within an [`Error`], by its type; from [`Error::kind`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum ErrorKind<'e> {
    /// A grid, a split or a halo is invalid.
    Grid(&'e GridError),
    /// A pattern could not be made.
    Pattern(&'e PatternError),
    /// An array does not fit a domain.
    Shape(&'e ShapeError),
    /// A field could not be made or accessed.
    Field(&'e FieldError),
    /// A pattern could not be bound to fields.
    Bind(&'e BindError),
    /// An exchange failed, by itself or as a part of a step.
    Exchange(&'e ExchangeError),
    /// A sparse exchange or a line exchange failed.
    Sparse(&'e SparseError),
    /// A device failed.
    Device(&'e DeviceError),
    /// The communication between ranks failed.
    Transport(&'e TransportError),
    /// Ranks that are threads could not be started, or one of them failed.
    Ranks(&'e RanksError),
    /// An error of another library, a text, or an error of the program itself.
    Other(&'e (dyn StdError + Send + Sync + 'static)),
}

impl Error {
    /// The error within, by its type. That of the caller's work in a [step](StepError::Work), and that
    /// of a [`WholeError`], is looked into.
    ///
    /// ```
    /// use haloport::exchange::ExchangeError;
    /// use haloport::{Error, ErrorKind};
    ///
    /// /// Whether the exchange may succeed with more time.
    /// fn is_late(error: &Error) -> bool {
    ///     matches!(error.kind(), ErrorKind::Exchange(ExchangeError::TimeLimit { .. }))
    /// }
    ///
    /// assert!(!is_late(&Error::from("no such file")));
    /// ```
    pub fn kind(&self) -> ErrorKind<'_> {
        ErrorKind::of(self.as_dyn())
    }
}

impl<'e> ErrorKind<'e> {
    fn of(error: &'e (dyn StdError + Send + Sync + 'static)) -> ErrorKind<'e> {
        match error.downcast_ref::<StepError>() {
            Some(StepError::Exchange(error)) => return ErrorKind::Exchange(error),
            Some(StepError::Work(error)) => return ErrorKind::of(&**error),
            None => {}
        }
        match error.downcast_ref::<WholeError>() {
            Some(WholeError::Pattern(error)) => return ErrorKind::Pattern(error),
            Some(WholeError::Bind(error)) => return ErrorKind::Bind(error),
            Some(WholeError::Exchange(error)) => return ErrorKind::Exchange(error),
            Some(WholeError::Transport(error)) => return ErrorKind::Transport(error),
            Some(WholeError::Refused(_)) | None => {}
        }
        macro_rules! known {
            ($($kind:ident: $type:ty),+) => {
                $(if let Some(error) = error.downcast_ref::<$type>() {
                    return ErrorKind::$kind(error);
                })+
            };
        }
        known!(
            Grid: GridError,
            Pattern: PatternError,
            Shape: ShapeError,
            Field: FieldError,
            Bind: BindError,
            Exchange: ExchangeError,
            Sparse: SparseError,
            Device: DeviceError,
            Transport: TransportError,
            Ranks: RanksError
        );
        ErrorKind::Other(error)
    }
}
