//! A step, recorded once and replayed: an exchange overlapped with other work, as one launch if the device supports it.

use std::fmt;

use super::Exchange;
use super::agree::FieldSet;
use super::options::{ExchangeError, Schedule, StepError};
use super::pending::Pending;
use super::work::capture::WorkKind;
use crate::Error;
use crate::device::DeviceError;

/// A step that [`Exchange::record`] has recorded. It borrows the exchange, and with it the fields.
///
/// Dropping it completes the replay in flight, within the time limit, and waits for the device. If its thread is
/// panicking, the exchange is abandoned and poisoned instead.
pub struct Step<'e, F> {
    exchange: &'e mut Exchange<F>,
    schedule: Schedule<'e>,
    work: Box<dyn StepWork<F> + 'e>,
    /// The reason why it is not captured; `None` if it is.
    fallback_reason: Option<String>,
}

/// The caller's work in a step.
trait StepWork<F> {
    /// While halos travel.
    fn interior(&mut self, pending: &mut Pending<'_, F>) -> Result<(), Error>;
    /// With the halos in place.
    fn boundary(&mut self, fields: &mut F) -> Result<(), Error>;
}

/// The caller's two functions and the context that is passed to both.
struct Functions<C, I, B> {
    context: C,
    interior: I,
    boundary: B,
}

impl<F, C, I, B> StepWork<F> for Functions<C, I, B>
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
    /// Records a step: [`Step::replay`] then does what [`overlap`](Exchange::overlap) does with the same arguments, as
    /// often as it is called. No exchange is done here. The step keeps `context`, which is passed to both functions; it
    /// may be a reference.
    ///
    /// If the device can capture work (CUDA), the step is *captured*: one launch puts packing, `interior`, the wait for
    /// messages, unpacking and `boundary` into the stream that `order` names. Both functions are called here, twice each,
    /// and never later. If the step is not captured, each replay calls them, and
    /// [`fallback_reason`](Step::fallback_reason) returns the reason. The results are the same in both cases.
    ///
    /// A step is captured if all fields are on one device, the stream is not the default stream (CUDA
    /// cannot capture that one), and the cells of each neighbour come in messages of the transport, or are copied straight
    /// and handed over by streams ([`Capabilities::stream_words`](crate::device::Capabilities::stream_words)). With
    /// [`DataPath::Messages`](crate::DataPath::Messages), all cells come in messages of the transport.
    ///
    /// It is not captured if halos are filled axis by axis ([`HaloOrder`](crate::HaloOrder)); if messages are staged in
    /// chunks ([`BindOptions::staging_chunk`](crate::BindOptions::staging_chunk)) or sent by streams
    /// ([`DataPath::StreamMessages`](crate::DataPath::StreamMessages)); if other ranks of this process use a device whose
    /// streams share queues ([`DeviceInfo::shared_queues`](crate::device::DeviceInfo::shared_queues)); or if the device
    /// cannot show captured work the messages that the network writes
    /// ([`Device::flush_remote_writes`](crate::device::Device::flush_remote_writes)). Some ranks may capture a step and
    /// others not.
    ///
    /// The time line of a captured step has its messages, but no packing or unpacking. May block. If ranks are threads
    /// that share a device whose streams do not share queues, all of them must have recorded before one of them replays.
    ///
    /// # Safety
    /// At each call, each function puts the same launches, copies and fills into the stream, or into
    /// other streams that first wait for an event of this stream, and for whose events this stream waits last. On a
    /// device that may capture work, a function does nothing else: it neither waits for the device, nor queries events,
    /// nor allocates or frees memory of the device, nor accesses cells from the host.
    ///
    /// The safety conditions of these launches, copies and fills hold for each replay, from its call until its work has
    /// finished in stream order. The kernels, launches, lists of copies and memory that they use live as long as the
    /// step, or, if the step is forgotten, as long as the exchange.
    ///
    /// # Errors
    /// [`StepError::Work`] from a function; [`StepError::Exchange`]. A device error leaves the exchange as it was.
    ///
    /// # Example
    /// All cells of a domain become their mean, ten times; see [`overlap`](Exchange::overlap) for a longer example.
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
    ///     // SAFETY: nothing is put into a stream. A device that captures work would need launches instead of views.
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
        order: impl Into<Schedule<'e>>,
        context: C,
        interior: impl FnMut(&mut Pending<'_, F>, &mut C) -> Result<(), Error> + 'e,
        boundary: impl FnMut(&mut F, &mut C) -> Result<(), Error> + 'e,
    ) -> Result<Step<'e, F>, StepError> {
        let schedule = order.into();
        self.complete()?;
        let mut work: Box<dyn StepWork<F> + 'e> = Box::new(Functions { context, interior, boundary });
        let Exchange { turns, fields } = &mut *self;
        let bound = turns.first()?;
        let mut failed = None;
        let recorded = bound.flight.capture(&schedule, &mut |half| {
            let done = match half {
                WorkKind::Interior => work.interior(&mut Pending::for_capture(bound, fields)),
                WorkKind::Boundary => work.boundary(fields.get_mut()),
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
    /// Does the step once. On an asynchronous device it puts work into the stream of the schedule and returns, as
    /// `start` and `finish` do; a captured step is one launch and one event, and allocates nothing.
    ///
    /// If messages of the last replay have not arrived yet, the host blocks until they have, since their memory is used
    /// again.
    ///
    /// # Errors
    /// As for [`Exchange::overlap`]. An error after `replay` has returned is reported by the next call.
    pub fn replay(&mut self) -> Result<(), StepError> {
        let Step { exchange, schedule, work, fallback_reason } = self;
        if fallback_reason.is_some() {
            return exchange.overlap_on(
                *schedule,
                &mut **work,
                |pending, work| work.interior(pending),
                |fields, work| work.boundary(fields),
            );
        }
        exchange.complete()?;
        Ok(exchange.turns.first()?.replay(*schedule)?)
    }

    /// Blocks until the halos of the last replay are in place; for a captured step, until all of its work is done.
    ///
    /// # Errors
    /// As for [`Exchange::synchronize`].
    pub fn synchronize(&mut self) -> Result<(), ExchangeError> {
        self.exchange.synchronize()
    }
}

impl<F> Step<'_, F> {
    /// Whether the step is captured: a replay is one launch of the work that both functions did when the step was
    /// recorded.
    pub fn is_captured(&self) -> bool {
        self.fallback_reason.is_none()
    }

    /// The reason why each replay calls both functions; `None` if the step is captured.
    pub fn fallback_reason(&self) -> Option<&str> {
        self.fallback_reason.as_deref()
    }

    /// The fields of the exchange. Access from the host waits for the last replay.
    pub fn fields(&self) -> &F {
        self.exchange.fields.get()
    }

    /// The fields, for writing from the host between replays. If a field is replaced by another, every later replay is
    /// an error until it is put back.
    pub fn fields_mut(&mut self) -> &mut F {
        self.exchange.fields.get_mut()
    }
}

impl<F> Drop for Step<'_, F> {
    fn drop(&mut self) {
        if self.is_captured() {
            self.exchange.turns.slots().iter().for_each(|slot| slot.bound.forget_captured());
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
