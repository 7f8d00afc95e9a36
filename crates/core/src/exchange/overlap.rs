//! An exchange with work beside it, in one call.

use super::{Exchange, ExchangeError, Pending, Schedule};
use crate::field::FieldSet;

impl<F: FieldSet> Exchange<F> {
    /// Starts an exchange, runs `interior` while halos travel, finishes the exchange, and runs `boundary`, which may use the
    /// halos. Start and finish are ordered by `schedule`.
    ///
    /// Which cells are computed where is up to the pattern: [`Pattern::regions`](crate::Pattern::regions) for boxes of a
    /// grid, [`Pattern::cell_regions`](crate::Pattern::cell_regions) for unstructured domains. On a device both functions
    /// put kernels into the stream of `schedule`, and nothing waits on the host. Code on the host reads and writes in
    /// `interior` through what the [`Pending`] lends it, and in `boundary` whole fields.
    /// A step that is done again and again can be [recorded](Exchange::record).
    ///
    /// # Errors
    /// Those of [`start`](Exchange::start) and [`finish`](Pending::finish), and those of both functions. Where `interior`
    /// fails, the exchange is finished first, for the sake of the neighbours, and `boundary` does not run.
    ///
    /// # Example
    /// A step of the heat equation on the CPU. Both functions write the next field, one after the other, and so share it in a
    /// [`RefCell`](std::cell::RefCell).
    ///
    /// ```
    /// use std::cell::RefCell;
    ///
    /// use haloport_core::{Exchange, Field, Grid, Halo, IndexBox, Pattern, Schedule, Split, View, run_ranks};
    /// use haloport_cpu::CpuDevice;
    ///
    /// type Failure = Box<dyn std::error::Error + Send + Sync>;
    ///
    /// fn step(
    ///     now: &mut Exchange<Field<f64, CpuDevice>>,
    ///     next: &mut Field<f64, CpuDevice>,
    /// ) -> Result<(), Failure> {
    ///     let regions = now.pattern().regions(0).ok_or("this rank has no domain")?;
    ///     let next = RefCell::new(next.view_mut(0)?);
    ///     let heat = |cells: &IndexBox, now: &View<'_, f64>| -> Result<(), Failure> {
    ///         for i in cells.lower()[0]..cells.upper()[0] {
    ///             let at = |i| now.get(&[i]).ok_or("a cell outside of the view");
    ///             next.borrow_mut().set(&[i], at(i)? + 0.25 * (at(i - 1)? - 2.0 * at(i)? + at(i + 1)?));
    ///         }
    ///         Ok(())
    ///     };
    ///     now.overlap(
    ///         Schedule::DefaultStream,
    ///         |pending| {
    ///             let owned = pending.owned(|field| field, 0)?;
    ///             regions.interior.iter().try_for_each(|cells| heat(cells, &owned))
    ///         },
    ///         |field| {
    ///             let whole = field.view(0)?;
    ///             regions.boundary.iter().try_for_each(|cells| heat(cells, &whole))
    ///         },
    ///     )
    /// }
    ///
    /// // A ring of 8 cells on two ranks, hot in one place.
    /// run_ranks(2, |comm| -> Result<(), Failure> {
    ///     let grid = Grid::new([8])?.periodic([true])?;
    ///     let mine = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no such part")?;
    ///     let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
    ///     let device = CpuDevice::with_threads(1)?;
    ///     let mut next = Field::new(&device, &pattern)?;
    ///     let mut now = pattern.bind(Field::new(&device, &pattern)?)?;
    ///     now.fields_mut().view_mut(0)?.fill_with(|cell, _| if cell == [4] { 1.0 } else { 0.0 });
    ///     step(&mut now, &mut next)?;
    ///     let next = next.view(0)?;
    ///     let found: Vec<_> = (mine.lower()[0]..mine.upper()[0]).map(|i| next.get(&[i])).collect();
    ///     let expected = [[0.0, 0.0, 0.0, 0.25], [0.5, 0.25, 0.0, 0.0]][comm.rank()];
    ///     assert_eq!(found, expected.map(Some));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), haloport_core::RanksError<Failure>>(())
    /// ```
    pub fn overlap<E: From<ExchangeError>>(
        &mut self,
        schedule: Schedule<'_>,
        interior: impl FnOnce(&mut Pending<'_, F>) -> Result<(), E>,
        boundary: impl FnOnce(&mut F) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut pending = self.start(schedule)?;
        let computed = interior(&mut pending);
        let finished = pending.finish(schedule);
        if let (Err(_), Err(error)) = (&computed, &finished) {
            // Not lost: the exchange is poisoned and says so at its next use.
            tracing::error!(%error, "an exchange failed as well as the work beside it");
        }
        computed?;
        finished?;
        boundary(&mut self.fields)
    }
}
