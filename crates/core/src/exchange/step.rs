//! A whole step, recorded once and replayed: an exchange with work beside it, as one launch where the device
//! can.

use std::fmt;
use std::sync::Arc;

use super::Exchange;
use super::bind::FieldSet;
use super::options::{ExchangeError, Schedule, StepError};
use super::pending::Pending;
use super::run::capture::Half;
use crate::Error;
use crate::device::DeviceError;

/// A step that [`Exchange::record`] has recorded. It borrows the exchange, and with it the fields.
///
/// Dropping it completes the replay that is in flight first, within the time limit, and waits for the device;
/// while its thread is panicking the exchange is given up instead, and poisoned.
pub struct Step<'e, F> {
    exchange: &'e mut Exchange<F>,
    schedule: Schedule<'e>,
    work: Box<dyn Work<F> + 'e>,
    /// Why it is not captured.
    fallback_reason: Option<String>,
}

/// The work of a step.
trait Work<F> {
    /// While halos travel.
    fn interior(&mut self, pending: &mut Pending<'_, F>) -> Result<(), Error>;
    /// With the halos in place.
    fn boundary(&mut self, fields: &mut F) -> Result<(), Error>;
}

/// Two functions and what both are given.
struct Functions<C, I, B> {
    context: C,
    interior: I,
    boundary: B,
}

impl<F, C, I, B> Work<F> for Functions<C, I, B>
where
    I: FnMut(&mut Pending<'_, F>, &mut C) -> Result<(), Error>,
    B: FnMut(&mut F, &mut C) -> Result<(), Error>,
{
    fn interior(&mut self, pending: &mut Pending<'_, F>) -> Result<(), Error> {
        (self.interior)(pending, &mut self.context)
    }

    fn boundary(&mut self, fields: &mut F) -> Result<(), Error> {
        (self.boundary)(fields, &mut self.context)
    }
}

impl<F: FieldSet> Exchange<F> {
    /// Records a step: what [`overlap`](Exchange::overlap) does with the same arguments, to be done again and
    /// again by [`Step::replay`]. Nothing is done now. The step keeps `context`, which both functions are
    /// given; it may be a reference.
    ///
    /// Where the device can capture work (CUDA), the step is *captured*: packing, `interior`, the wait for
    /// messages, unpacking and `boundary` are put into the stream of `schedule` with one launch, and nothing
    /// of that is asked again. Both functions are called here, twice each, and never later. Elsewhere each
    /// replay calls them anew, and [`fallback_reason`](Step::fallback_reason) says why: a program that is written with steps
    /// computes the same everywhere.
    ///
    /// A step is captured for fields of one device, on a stream that was made (CUDA captures no default
    /// stream), where all that neighbours send comes in messages: as in
    /// [`DataPath::Messages`](crate::DataPath::Messages), and from everybody who shares no memory with this
    /// rank; not axis by axis ([`HaloOrder`](crate::HaloOrder)), and not in chunks
    /// ([`BindOptions::staging_chunk`](crate::BindOptions::staging_chunk)). Ranks may differ. In the time line of a captured step there are its messages, and no packing or
    /// unpacking. May block; ranks that are threads and share a device have all recorded before one of them
    /// replays.
    ///
    /// # Safety
    /// Each time that it is called, each function puts the same launches, copies and fills into the stream of
    /// `schedule`, or into others that wait for an event of it first, and it for events of theirs last.
    /// On a device that may capture work, it does nothing else: it does not wait
    /// for the device, nor ask whether something is done, nor allocate or free memory of it, nor access cells
    /// from the host.
    ///
    /// What was promised for these calls holds for each replay, from then until its work has finished in
    /// stream order. The kernels, launches, lists of copies and memory that they use live as long as the
    /// step, and, if that is forgotten, as long as the exchange.
    ///
    /// # Errors
    /// [`StepError::Work`] of a function; [`StepError::Exchange`], of which one of the device leaves the exchange as it was.
    ///
    /// # Example
    /// Cells that become the mean of their neighbours, ten times; see [`overlap`](Exchange::overlap) for
    /// more.
    ///
    /// ```
    /// use haloport_core::{Field, Grid, Halo, Pattern, Schedule, Split, run_ranks};
    /// use haloport_cpu::CpuDevice;
    ///
    /// run_ranks(2, |comm| {
    ///     let grid = Grid::new([8])?.periodic([true])?;
    ///     let mine = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no such part")?;
    ///     let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
    ///     let mut exchange = pattern.bind(Field::<f64, _>::new(&CpuDevice::with_threads(1)?, &pattern)?)?;
    ///     exchange.fields_mut().view_mut(0)?.fill_with(|cell, _| (cell[0] % 2) as f64);
    ///     // SAFETY: nothing is put into a stream. A device that captures would want launches in place of views.
    ///     let mut step = unsafe {
    ///         exchange.record(
    ///             Schedule::DefaultStream,
    ///             (),
    ///             |_, ()| Ok(()),
    ///             |field, ()| {
    ///                 let all = field.to_vec(0)?;
    ///                 field.view_mut(0)?.fill_with(|_, _| all.iter().sum::<f64>() / all.len() as f64);
    ///                 Ok(())
    ///             },
    ///         )?
    ///     };
    ///     assert!(!step.is_captured() && step.fallback_reason().is_some());
    ///     (0..10).try_for_each(|_| step.replay())?;
    ///     assert_eq!(step.fields().view(0)?.get(&[mine.lower()[0]]), Some(0.5));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), haloport_core::RanksError>(())
    /// ```
    pub unsafe fn record<'e, C: 'e>(
        &'e mut self,
        schedule: Schedule<'e>,
        context: C,
        interior: impl FnMut(&mut Pending<'_, F>, &mut C) -> Result<(), Error> + 'e,
        boundary: impl FnMut(&mut F, &mut C) -> Result<(), Error> + 'e,
    ) -> Result<Step<'e, F>, StepError> {
        self.complete()?;
        let mut work: Box<dyn Work<F> + 'e> = Box::new(Functions { context, interior, boundary });
        let flight = Arc::clone(&self.bound.flight);
        let mut failed = None;
        let recorded = flight.record(&schedule, &mut |half| {
            let done = match half {
                Half::Interior => {
                    let Exchange { bound, identities, fields, .. } = &mut *self;
                    work.interior(&mut Pending::of_capture(bound, identities, fields))
                }
                Half::Boundary => work.boundary(&mut self.fields),
            };
            done.map_err(|error| {
                failed = Some(error);
                DeviceError::invalid("the work of a step", "work without an error", "one")
            })
        });
        match (failed, recorded) {
            (Some(error), _) => Err(StepError::work(error)),
            (None, Err(error)) => Err(error.into()),
            (None, Ok(fallback_reason)) => Ok(Step { exchange: self, schedule, work, fallback_reason }),
        }
    }
}

impl<F: FieldSet> Step<'_, F> {
    /// Does the step once more. On an asynchronous device it puts work into the stream of the schedule and
    /// returns, as `start` and `finish` do; a captured step is one launch and one event, and allocates
    /// nothing.
    ///
    /// Where the messages of the last replay have not all come yet, it waits for them first, on the host:
    /// their memory is used again.
    ///
    /// # Errors
    /// As for [`Exchange::overlap`]. What fails after it has returned comes out of the next call.
    pub fn replay(&mut self) -> Result<(), StepError> {
        let Step { exchange, schedule, work, fallback_reason } = self;
        if fallback_reason.is_some() {
            return exchange.overlap(
                *schedule,
                &mut **work,
                |pending, work| work.interior(pending),
                |fields, work| work.boundary(fields),
            );
        }
        exchange.complete()?;
        Ok(exchange.bound.replay(*schedule)?)
    }

    /// Blocks until the halos of the last replay are in place, and, in a captured step, all of its work is
    /// done.
    ///
    /// # Errors
    /// As for [`Exchange::synchronize`].
    pub fn synchronize(&mut self) -> Result<(), ExchangeError> {
        self.exchange.synchronize()
    }
}

impl<F> Step<'_, F> {
    /// Whether a replay is one launch, of what both functions did when the step was recorded.
    pub fn is_captured(&self) -> bool {
        self.fallback_reason.is_none()
    }

    /// Why each replay calls both functions anew; `None` where the step is captured.
    pub fn fallback_reason(&self) -> Option<&str> {
        self.fallback_reason.as_deref()
    }

    /// The fields of the exchange. Access from the host waits for the last replay.
    pub fn fields(&self) -> &F {
        self.exchange.fields()
    }

    /// The fields, for writing from the host between replays. Replacing one by another field makes every
    /// later replay an error, until it is put back.
    pub fn fields_mut(&mut self) -> &mut F {
        self.exchange.fields_mut()
    }
}

impl<F> Drop for Step<'_, F> {
    fn drop(&mut self) {
        if self.is_captured() {
            self.exchange.bound.forget_recorded();
        }
    }
}

impl<F: fmt::Debug> fmt::Debug for Step<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("exchange", &self.exchange)
            .field("schedule", &self.schedule)
            .field("fallback_reason", &self.fallback_reason)
            .finish_non_exhaustive()
    }
}
