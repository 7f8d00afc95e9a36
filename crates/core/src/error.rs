//! The error type that holds any other.

use std::error::Error as StdError;
use std::fmt;

/// Any error, for functions that call Haloport and other libraries. `?` turns every error into it, and text too.
/// [`kind`](Error::kind) says which one it is.
///
/// `main` may return it: unlike other errors it is then printed as text, followed by its causes.
///
/// ```
/// use haloport::{Error, Grid};
///
/// fn main() -> Result<(), Error> {
///     let grid = Grid::new([8, 6])?;
///     let extent: usize = "8".parse()?;
///     let last = grid.periodic_axes().last().ok_or("a grid without axes")?;
///     assert_eq!((extent, *last), (grid.extent(0), false));
///     Ok(())
/// }
/// ```
///
/// It is not a [`std::error::Error`] itself, since a conversion from every such error would then be impossible;
/// [`into_inner`](Error::into_inner) returns the error within.
pub struct Error(Box<dyn StdError + Send + Sync>);

impl Error {
    /// Returns the error within, if it is an `E`.
    ///
    /// ```
    /// use haloport::domain::GridError;
    /// use haloport::{Error, Grid};
    ///
    /// let error: Error = Grid::new([]).unwrap_err().into();
    /// assert!(error.downcast_ref::<GridError>().is_some());
    /// ```
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }

    pub(crate) fn as_dyn(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.0
    }

    /// Returns the error within.
    pub fn into_inner(self) -> Box<dyn StdError + Send + Sync> {
        self.0
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Error {
    fn from(error: E) -> Error {
        Error(error.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text and its causes: what is printed if `main` returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_causes(&*self.0, f)
    }
}

/// Writes the text of an error and, one per line, the texts of its causes. Skips a text that the one before contains.
pub(crate) fn write_with_causes(error: &dyn StdError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut written = error.to_string();
    f.write_str(&written)?;
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !written.contains(&text) {
            write!(f, "\n  because: {text}")?;
            written = text;
        }
        cause = error.source();
    }
    Ok(())
}
