//! A pattern of a grid that is split evenly between the ranks, in one expression.

use super::{Pattern, PatternError, structured};
use crate::comm::Communicator;
use crate::domain::{Grid, GridError, Halo, Split};

/// A pattern of a grid, one domain on each rank; from [`Pattern::on_grid`], made by [`build`](GridPattern::build).
#[derive(Debug, Clone)]
#[must_use = "the pattern is made by `build`"]
pub struct GridPattern {
    comm: Communicator,
    grid: Result<Grid, GridError>,
    halo: Halo,
}

impl Pattern {
    /// A pattern of a grid that is split evenly between the ranks: each has one domain, a box. `grid` is a [`Grid`], or the
    /// numbers of cells along its axes, none of which is periodic unless [`periodic`](GridPattern::periodic) says so. The
    /// halo is one cell wide unless [`halo`](GridPattern::halo) says otherwise.
    ///
    /// [`Pattern::structured`] takes domains of the program's choice.
    ///
    /// ```
    /// use haloport::{Pattern, run_ranks};
    ///
    /// run_ranks(2, |comm| {
    ///     let pattern = Pattern::on_grid(&comm, [8, 6]).periodic([true, false]).halo(2).build()?;
    ///     assert_eq!(pattern.boxes()[0].cells(), 24);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), haloport::comm::RanksError>(())
    /// ```
    pub fn on_grid<G>(comm: &Communicator, grid: G) -> GridPattern
    where
        G: TryInto<Grid>,
        GridError: From<G::Error>,
    {
        let grid = grid.try_into().map_err(GridError::from);
        GridPattern { comm: comm.clone(), grid, halo: Halo::uniform(1) }
    }
}

impl GridPattern {
    /// The axes along which the grid is periodic; one entry for each axis.
    pub fn periodic(self, periodic: impl AsRef<[bool]>) -> GridPattern {
        GridPattern { grid: self.grid.and_then(|grid| grid.periodic(periodic)), ..self }
    }

    /// The halo: its width in cells along all axes, or a [`Halo`].
    pub fn halo(self, halo: impl Into<Halo>) -> GridPattern {
        GridPattern { halo: halo.into(), ..self }
    }

    /// Collective: makes the pattern. If there are more ranks than cells, some have a domain without cells.
    ///
    /// # Errors
    /// [`PatternError::Refused`], with the same text on all ranks, if the grid of a rank is invalid. Others as for
    /// [`Pattern::structured`].
    pub fn build(self) -> Result<Pattern, PatternError> {
        let GridPattern { comm, grid, halo } = self;
        let split = grid.and_then(|grid| {
            let mine = Split::balanced(&grid, comm.size())?.part(comm.rank());
            Ok((grid, mine))
        });
        match split {
            Ok((grid, mine)) => Pattern::structured(&comm, &grid, mine.as_slice(), &halo),
            Err(error) => Err(structured::refuse(&comm, error)),
        }
    }
}
