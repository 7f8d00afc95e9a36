//! Exchanges whose fields are passed to each start.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::agree::{Binder, FieldLayout, FieldSet, LayoutSet, PassedFields, bind_layouts};
use super::handle::Exchange;
use super::options::{BindError, BindOptions, ExchangeError, Schedule};
use super::pending::{OwnedFields, Pending, PendingFields};
use super::turns::{Ticket, Turns};
use crate::comm::CollectiveCall;
use crate::device::Pointer;
use crate::field::Storage;
use crate::pattern::Pattern;

/// Stands for the fields of an exchange to which they are passed at each start; they may be different ones each time if
/// they have the layouts that it was made for.
///
/// Use such an exchange, called a *plan*, if a field takes part in several exchanges, if two fields are swapped between
/// steps, or if the memory of a field is a slice that the program uses in between. Only making a plan is collective: at
/// each start, every rank may pass different fields or the same ones.
///
/// A plan packs the cells that it sends to other ranks. From the fields of an exchange that owns them, neighbours can
/// copy directly, so large blocks are quicker between ranks that share memory.
///
/// # Example
/// Two exchanges in each step, of (u, v) and of (u, t).
///
/// ```
/// use haloport::cpu::CpuDevice;
/// use haloport::{Field, Grid, Halo, Pattern, Split, run_ranks};
///
/// run_ranks(2, |comm| {
///     let grid = Grid::new([8])?.periodic([true])?;
///     let mine = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no such part")?;
///     let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
///     let device = CpuDevice::with_threads(1)?;
///     let mut u = Field::<f64, _>::new(&device, &pattern)?;
///     let mut v = Field::<f64, _>::new(&device, &pattern)?;
///     let mut t = Field::<f32, _>::new(&device, &pattern)?;
///
///     let mut wind = pattern.plan((&mut u, &mut v))?;
///     let mut physics = pattern.plan((&mut u, &mut t))?;
///     for step in 0..3 {
///         u.view_mut(0)?.fill_with(|cell, _| (10 * step + cell[0]) as f64);
///         wind.run((&mut u, &mut v))?;
///         t.view_mut(0)?.fill_with(|cell, _| cell[0] as f32);
///         let pending = physics.start((&mut u, &mut t))?;
///         pending.finish()?;
///     }
///     let below = (mine.lower()[0] + 7) % 8; // the cell below the rank's own, across the end of the grid
///     assert_eq!(u.view(0)?.get(&[mine.lower()[0] - 1]), Some((20 + below) as f64));
///     Ok(())
/// })?;
/// # Ok::<(), haloport::comm::RanksError>(())
/// ```
#[derive(Default)]
pub struct Passed {
    /// The memory of fields that devices may still be using.
    used: Vec<Arc<Storage>>,
    /// The fields of an exchange that owns them.
    owned: Option<Box<dyn Any + Send>>,
}

impl Passed {
    /// For an exchange that owns these fields: none are passed.
    pub(super) fn none(owned: Box<dyn Any + Send>) -> Passed {
        Passed { used: Vec::new(), owned: Some(owned) }
    }
}

impl fmt::Debug for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.owned.is_some() { "Passed (none)" } else { "Passed" })
    }
}

impl Pattern {
    /// Collective: makes a plan for fields of the same devices, element types and layouts as `fields`, in the same
    /// order. See [`Passed`].
    ///
    /// # Errors
    /// See [`BindError`]; every rank gets the same error.
    pub fn plan<F: FieldSet>(&self, fields: F) -> Result<Exchange<Passed>, BindError> {
        self.plan_with(fields, BindOptions::default())
    }

    /// As [`plan`](Pattern::plan), with options. [`DataPath::Direct`](crate::DataPath::Direct) is not possible for a plan,
    /// nor is [`HaloOrder::AxisByAxis`](crate::HaloOrder::AxisByAxis), in place of which halos are filled at once.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn plan_with<F: FieldSet>(
        &self,
        fields: F,
        options: BindOptions,
    ) -> Result<Exchange<Passed>, BindError> {
        Exchange::made(self, self, Binder::collect_layouts(&fields), options)
    }

    /// Collective: as [`plan_with`](Pattern::plan_with), from layouts alone. The fields may be on several devices.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn plan_layouts(
        &self,
        fields: &[FieldLayout],
        options: BindOptions,
    ) -> Result<Exchange<Passed>, BindError> {
        Exchange::made(self, self, LayoutSet::of(fields), options)
    }
}

/// An exchange whose fields are passed to each start.
impl Exchange<Passed> {
    /// Collective: makes a plan for the pieces of `pieces`. `pattern` is the one that the plan names as its own.
    pub(super) fn made(
        pieces: &Pattern,
        pattern: &Pattern,
        layouts: LayoutSet,
        options: BindOptions,
    ) -> Result<Exchange<Passed>, BindError> {
        let (parts, expected) = layouts.expected();
        let _steps = pieces.comm().enter(CollectiveCall::Plan { pattern: pieces.number() })?;
        let (bound, settled) = bind_layouts(pieces, parts, &options)?;
        let turns = Turns::new(pattern, bound, &expected, settled, options.on_complete);
        Ok(Exchange { turns, fields: OwnedFields::new(Passed::default(), [].into()) })
    }

    /// Starts an exchange of these fields, in order with the default stream: packs, sends, and returns without waiting for
    /// neighbours. Not collective. If an earlier pending exchange was forgotten, completes it first.
    ///
    /// Allocates nothing if the fields, or as many others, were passed before. On an asynchronous device, if a field that
    /// was passed before has been dropped meanwhile, it blocks until the last exchange is in place, and frees that field.
    ///
    /// # Errors
    /// [`ExchangeError::FieldCount`] and [`ExchangeError::FieldDiffers`] if the fields are not like those of the plan,
    /// [`ExchangeError::InFlightElsewhere`], and [`ExchangeError::AllInFlight`] after
    /// [`start_at`](Exchange::start_at); these leave the plan as it was. Others as for
    /// `start` of an exchange that owns its fields.
    pub fn start<F: FieldSet>(&mut self, fields: F) -> Result<Pending<'_, F>, ExchangeError> {
        self.start_on(fields, Schedule::DefaultStream)
    }

    /// As [`start`](Exchange::start), in order with a stream, or as a [`Schedule`] says.
    ///
    /// # Errors
    /// As for [`start`](Exchange::start).
    pub fn start_on<'s, F: FieldSet>(
        &mut self,
        fields: F,
        order: impl Into<Schedule<'s>>,
    ) -> Result<Pending<'_, F>, ExchangeError> {
        let schedule = order.into();
        self.take(|passed| passed.take_fields(&fields))?;
        let slot = self.turns.start(|bound| bound.start(schedule))?;
        Ok(Pending::new(&slot.bound, PendingFields::Passed(fields, &slot.passed.identities)))
    }

    /// Starts and finishes an exchange of these fields in one call, in order with the default stream.
    ///
    /// # Errors
    /// As for [`start`](Exchange::start) and [`Pending::finish`].
    pub fn run<F: FieldSet>(&mut self, fields: F) -> Result<(), ExchangeError> {
        self.run_on(fields, Schedule::DefaultStream)
    }

    /// As [`run`](Exchange::run), in order with a stream, or as a [`Schedule`] says.
    ///
    /// # Errors
    /// As for [`run`](Exchange::run).
    pub fn run_on<'s, F: FieldSet>(
        &mut self,
        fields: F,
        order: impl Into<Schedule<'s>>,
    ) -> Result<(), ExchangeError> {
        self.take(|passed| passed.take_fields(&fields))?;
        self.start_to_end(order.into())
    }

    /// As [`run`](Exchange::run), of a caller that has synchronised before; returns when the halos are in place.
    ///
    /// # Errors
    /// As for [`run`](Exchange::run).
    pub fn run_blocking<F: FieldSet>(&mut self, fields: F) -> Result<(), ExchangeError> {
        self.run_on(fields, Schedule::Blocking)
    }

    /// Starts an exchange of fields at these addresses: packs, sends, and returns without waiting for neighbours. It
    /// goes on until [`finish`](Exchange::finish), and borrows nothing meanwhile. Not collective: each rank may pass other
    /// addresses each time. All ranks start their exchanges of a plan in the same order; they may finish them in any.
    ///
    /// `addresses` has one for each domain of each field, in the order in which the plan was made: that of the first
    /// element of the [`BlockLayout`](crate::BlockLayout); it is empty if the exchange
    /// [owns its fields](Exchange::into_passed). As many exchanges can be in flight as [`BindOptions::in_flight`] says; the
    /// one that was started that many before must be finished. Allocates nothing.
    ///
    /// # Safety
    /// Each block is valid memory of the field's device over its layout's [`span`](crate::BlockLayout::span), and no two
    /// overlap. From this call on, nothing else writes owned cells that neighbours need, and nothing else reads or
    /// writes the halo; until `finish` has returned and, on an asynchronous device, the work is done that `finish` has put
    /// into its stream; after an error, and if `finish` is not called, until the plan is dropped. A plan in flight is not
    /// forgotten (`mem::forget`). If halos are [accumulated](BindOptions::accumulate), nothing else writes the halo for as
    /// long, and from the call of `finish` on, nothing else reads or writes owned cells. In a [redistribution](crate::Redistribution),
    /// nothing else writes the source, and nothing else reads or writes the target.
    ///
    /// # Errors
    /// [`ExchangeError::AddressCount`], [`ExchangeError::Address`] and [`ExchangeError::AllInFlight`] leave the plan as
    /// it was. Others as for [`start`](Exchange::start).
    pub unsafe fn start_at<'s>(
        &mut self,
        addresses: &[Pointer],
        order: impl Into<Schedule<'s>>,
    ) -> Result<Ticket, ExchangeError> {
        self.take(|passed| passed.take_addresses(addresses))?;
        self.turns.start_detached(order.into())
    }

    /// Finishes an exchange that [`start_at`](Exchange::start_at) has started. Blocks, and orders, as
    /// [`Pending::finish_on`] does.
    ///
    /// # Errors
    /// [`ExchangeError::NotInFlight`] if it is finished, or is one of another plan. Others as for [`Pending::finish`].
    pub fn finish<'s>(
        &mut self,
        ticket: Ticket,
        order: impl Into<Schedule<'s>>,
    ) -> Result<(), ExchangeError> {
        self.turns.finish(ticket, order.into())
    }

    /// Starts and finishes an exchange of fields at these addresses in one call.
    ///
    /// # Safety
    /// As for [`start_at`](Exchange::start_at).
    ///
    /// # Errors
    /// As for [`start_at`](Exchange::start_at) and [`finish`](Exchange::finish).
    pub unsafe fn run_at<'s>(
        &mut self,
        addresses: &[Pointer],
        order: impl Into<Schedule<'s>>,
    ) -> Result<(), ExchangeError> {
        self.take(|passed| passed.take_addresses(addresses))?;
        self.start_to_end(order.into())
    }

    /// Completes an exchange whose pending exchange was forgotten; does nothing otherwise.
    ///
    /// # Errors
    /// [`ExchangeError`]. If that exchange had fields in borrowed memory, whose owner may have it back by now, the
    /// exchange is abandoned and the plan poisoned.
    pub fn complete(&mut self) -> Result<(), ExchangeError> {
        self.turns.complete_forgotten()
    }

    /// Blocks until the halos of all exchanges that are finished are in place, also for the host. Does nothing with
    /// [`Schedule::Blocking`] and on the CPU, where `finish` has waited for that.
    ///
    /// # Errors
    /// [`ExchangeError`], including that of an exchange that has failed after `finish` returned.
    pub fn synchronize(&mut self) -> Result<(), ExchangeError> {
        self.complete()?;
        self.turns.synchronize()
    }

    /// Takes the fields of the next exchange.
    fn take(
        &mut self,
        take: impl FnOnce(&mut PassedFields) -> Result<(), ExchangeError>,
    ) -> Result<(), ExchangeError> {
        self.turns.make_ready()?;
        let slot = self.turns.next()?;
        take(&mut slot.passed)?;
        if self.fields.get().owned.is_some() {
            return Ok(());
        }
        slot.bound.flight.place(&slot.passed.addresses, &slot.passed.storages)?;
        self.keep_used()
    }

    fn start_to_end(&mut self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        let slot = self.turns.start(|bound| bound.start_to_end(schedule))?;
        slot.bound.end(schedule)
    }

    /// Keeps the memory of the fields of the next exchange, and releases that of fields that were dropped meanwhile.
    fn keep_used(&mut self) -> Result<(), ExchangeError> {
        let is_dropped = |storage: &Arc<Storage>| Arc::strong_count(storage) == 1;
        let Exchange { turns, fields } = self;
        let used = &mut fields.get_mut().used;
        if used.iter().any(is_dropped) {
            for slot in turns.slots.iter().filter(|slot| slot.bound.flight.is_asynchronous()) {
                // Their memory is freed here.
                slot.bound.wait_for_gates()?;
                slot.bound.flight.synchronize()?;
            }
            used.retain(|storage| !is_dropped(storage));
        }
        for storage in &turns.next()?.passed.storages {
            if !used.iter().any(|known| Arc::ptr_eq(known, storage)) {
                used.push(Arc::clone(storage));
            }
        }
        Ok(())
    }
}

impl<F: FieldSet + Send + 'static> Exchange<F> {
    /// Forgets the type of the fields, which the exchange keeps: its starts are then those of an exchange to which fields
    /// are [`Passed`], with no fields and no addresses.
    ///
    /// # Errors
    /// [`ExchangeError::FieldsReplaced`]; the exchange is then lost.
    pub fn into_passed(mut self) -> Result<Exchange<Passed>, ExchangeError> {
        self.fields.check()?;
        let Exchange { turns, fields } = self;
        Ok(Exchange {
            turns,
            fields: OwnedFields::new(Passed::none(Box::new(fields.into_inner())), [].into()),
        })
    }
}
