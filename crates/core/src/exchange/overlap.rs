//! An exchange overlapped with other work, in one call.

use super::Exchange;
use super::agree::FieldSet;
use super::options::{Schedule, StepError};
use super::passed::Passed;
use super::pending::Pending;
use crate::{Error, log};

impl<F: FieldSet> Exchange<F> {
    /// Starts an exchange, runs `interior` while halos travel, finishes the exchange, and runs `boundary`, which may
    /// use the halos. Start and finish are in order with the default stream.
    ///
    /// Both functions are passed `context`, one after the other. It holds the data that they write, such as the next
    /// field; it may be a tuple of references, or `&mut ()` if there is none. Within the functions, `?` takes any
    /// error.
    ///
    /// The pattern determines the cells that each function computes: [`Pattern::regions`](crate::Pattern::regions) for
    /// boxes of a grid, [`Pattern::cell_regions`](crate::Pattern::cell_regions) for unstructured domains. On a device,
    /// both functions put kernels into that stream, and the host does not wait. Code on the host accesses
    /// fields in `interior` through the views of [`Pending`], and in `boundary` as a whole.
    ///
    /// # Errors
    /// [`StepError::Exchange`] from [`start`](Exchange::start) and [`finish`](Pending::finish); [`StepError::Work`]
    /// from a function. If `interior` fails, the exchange is still finished, since neighbours wait for it, and
    /// `boundary` does not run.
    ///
    /// # Example
    /// A step of the heat equation on the CPU, on a rod whose ends are walls: the program fills the halo cells beyond
    /// them, here once.
    ///
    /// ```
    /// use haloport::cpu::CpuDevice;
    /// use haloport::{Error, Exchange, Field, Grid, Halo, IndexBox, Pattern, Split, View, ViewMut, run_ranks};
    ///
    /// fn step(
    ///     now: &mut Exchange<Field<f64, CpuDevice>>,
    ///     next: &mut Field<f64, CpuDevice>,
    /// ) -> Result<(), Error> {
    ///     let regions = now.pattern().regions(0).ok_or("this rank has no domain")?;
    ///     now.overlap(
    ///         &mut next.view_mut(0)?,
    ///         |pending, next| {
    ///             let now = pending.owned(|field| field, 0)?;
    ///             regions.interior.iter().for_each(|cells| heat(cells, &now, next));
    ///             Ok(())
    ///         },
    ///         |field, next| {
    ///             let now = field.view(0)?;
    ///             regions.boundary.iter().for_each(|cells| heat(cells, &now, next));
    ///             Ok(())
    ///         },
    ///     )?;
    ///     Ok(())
    /// }
    ///
    /// fn heat(cells: &IndexBox, now: &View<'_, f64>, next: &mut ViewMut<'_, f64>) {
    ///     for i in cells.lower()[0]..cells.upper()[0] {
    ///         next[[i]] = now[[i]] + 0.25 * (now[[i - 1]] - 2.0 * now[[i]] + now[[i + 1]]);
    ///     }
    /// }
    ///
    /// // 8 cells on two ranks, hot at one end; beyond both it is cold.
    /// run_ranks(2, |comm| {
    ///     let grid = Grid::new([8])?;
    ///     let mine = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no such part")?;
    ///     let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
    ///     let device = CpuDevice::with_threads(1)?;
    ///     let mut next = Field::new(&device, &pattern)?;
    ///     let mut now = pattern.bind(Field::new(&device, &pattern)?)?;
    ///     now.fields_mut().view_mut(0)?.fill_with(|cell, _| if cell == [0] || cell == [4] { 1.0 } else { 0.0 });
    ///     step(&mut now, &mut next)?;
    ///     let found: Vec<f64> = next.view(0)?.rows(0, &mine)?.flatten().copied().collect();
    ///     let expected = [[0.5, 0.25, 0.0, 0.25], [0.5, 0.25, 0.0, 0.0]][comm.rank()];
    ///     assert_eq!(found, expected);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), haloport::comm::RanksError>(())
    /// ```
    pub fn overlap<C: ?Sized>(
        &mut self,
        context: &mut C,
        interior: impl FnOnce(&mut Pending<'_, F>, &mut C) -> Result<(), Error>,
        boundary: impl FnOnce(&mut F, &mut C) -> Result<(), Error>,
    ) -> Result<(), StepError> {
        self.overlap_on(Schedule::DefaultStream, context, interior, boundary)
    }

    /// As [`overlap`](Exchange::overlap), in order with a stream, or as a [`Schedule`] says.
    ///
    /// # Errors
    /// As for [`overlap`](Exchange::overlap).
    pub fn overlap_on<'s, C: ?Sized>(
        &mut self,
        order: impl Into<Schedule<'s>>,
        context: &mut C,
        interior: impl FnOnce(&mut Pending<'_, F>, &mut C) -> Result<(), Error>,
        boundary: impl FnOnce(&mut F, &mut C) -> Result<(), Error>,
    ) -> Result<(), StepError> {
        let schedule = order.into();
        run(self.start_on(schedule)?, schedule, context, interior, boundary)
    }
}

impl Exchange<Passed> {
    /// As `overlap` of an exchange that owns its fields, for `fields`, which are also passed to `boundary`.
    ///
    /// # Errors
    /// As there, and for [`start`](Exchange::start).
    pub fn overlap<F: FieldSet, C: ?Sized>(
        &mut self,
        fields: F,
        context: &mut C,
        interior: impl FnOnce(&mut Pending<'_, F>, &mut C) -> Result<(), Error>,
        boundary: impl FnOnce(&mut F, &mut C) -> Result<(), Error>,
    ) -> Result<(), StepError> {
        self.overlap_on(fields, Schedule::DefaultStream, context, interior, boundary)
    }

    /// As `overlap`, in order with a stream, or as a [`Schedule`] says.
    ///
    /// # Errors
    /// As for `overlap`.
    pub fn overlap_on<'s, F: FieldSet, C: ?Sized>(
        &mut self,
        fields: F,
        order: impl Into<Schedule<'s>>,
        context: &mut C,
        interior: impl FnOnce(&mut Pending<'_, F>, &mut C) -> Result<(), Error>,
        boundary: impl FnOnce(&mut F, &mut C) -> Result<(), Error>,
    ) -> Result<(), StepError> {
        let schedule = order.into();
        run(self.start_on(fields, schedule)?, schedule, context, interior, boundary)
    }
}

/// Runs the rest of a step whose exchange was started.
fn run<F, C: ?Sized>(
    mut pending: Pending<'_, F>,
    schedule: Schedule<'_>,
    context: &mut C,
    interior: impl FnOnce(&mut Pending<'_, F>, &mut C) -> Result<(), Error>,
    boundary: impl FnOnce(&mut F, &mut C) -> Result<(), Error>,
) -> Result<(), StepError> {
    let computed = interior(&mut pending, context);
    let finished = pending.end(schedule);
    if let (Err(_), Err(error)) = (&computed, &finished) {
        // Not lost: the exchange is poisoned, and its next use returns the error.
        log::error(format_args!("an exchange failed as well as the work beside it: {error}"));
    }
    computed.map_err(StepError::work)?;
    finished?;
    boundary(pending.fields_mut(), context).map_err(StepError::work)
}
