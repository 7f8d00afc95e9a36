//! A plan: an exchange of fields that are passed at each start.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bind::{Binder, FieldLayout, FieldSet, LayoutSet, PassedFields, bind_layouts};
use super::options::{BindError, BindOptions, Choice, ExchangeError, Schedule, Traffic};
use super::pending::{Pending, PendingFields};
use super::run::bound::Bound;
use super::run::flight::Status;
use crate::comm::CollectiveCall;
use crate::device::Pointer;
use crate::field::Storage;
use crate::pattern::Pattern;

/// A pattern bound to the layouts of fields. Making a plan lays out messages, allocates buffers and binds copies, once.
/// The fields are passed at each start, and may be different ones each time if they have these layouts.
///
/// Use a plan if a field takes part in several exchanges, if two fields are swapped between steps, or if the memory of
/// a field is a slice that the program uses in between. Only making a plan is collective: at each start, every rank may
/// pass different fields or the same ones.
///
/// A plan packs the cells that it sends to other ranks. From the fields of an [`Exchange`](super::Exchange), which owns
/// them, neighbours can copy directly, so it is quicker between ranks that share memory.
///
/// # Example
/// Two exchanges in each step, of (u, v) and of (u, t).
///
/// ```
/// use haloport_core::{Field, Grid, Halo, Pattern, Schedule, Split, run_ranks};
/// use haloport_cpu::CpuDevice;
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
///         wind.run((&mut u, &mut v), Schedule::DefaultStream)?;
///         t.view_mut(0)?.fill_with(|cell, _| cell[0] as f32);
///         let pending = physics.start((&mut u, &mut t), Schedule::DefaultStream)?;
///         pending.finish(Schedule::DefaultStream)?;
///     }
///     let below = (mine.lower()[0] + 7) % 8; // the cell below the rank's own, across the end of the grid
///     assert_eq!(u.view(0)?.get(&[mine.lower()[0] - 1]), Some((20 + below) as f64));
///     Ok(())
/// })?;
/// # Ok::<(), haloport_core::RanksError>(())
/// ```
pub struct Plan {
    pattern: Pattern,
    /// A number that no other plan of the process has.
    number: u64,
    /// Exchanges that take turns. Dropped before the memory that they use.
    slots: Vec<Slot>,
    /// The memory of fields that devices may still be using.
    used: Vec<Arc<Storage>>,
    /// The number of exchanges that were started.
    started: u64,
    choice: Choice,
}

/// One of the exchanges of a plan that can be in flight at once.
struct Slot {
    bound: Bound,
    /// The fields of the last start.
    passed: PassedFields,
    /// The number of the exchange that was begun and not ended.
    begun: Option<u64>,
}

/// An exchange of a plan that was begun and not ended; see [`Plan::begin_at`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Begun {
    /// That of the plan, so that no other plan takes it for one of its own.
    plan: u64,
    number: u64,
}

/// The number of plans that were made.
static MADE: AtomicU64 = AtomicU64::new(0);

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statuses: Vec<Status> = self.slots.iter().map(|slot| slot.bound.flight.status()).collect();
        f.debug_struct("Plan").field("statuses", &statuses).finish_non_exhaustive()
    }
}

impl Pattern {
    /// Collective: makes a plan for fields of the same devices, element types and layouts as `fields`, in the same
    /// order. See [`Plan`].
    ///
    /// # Errors
    /// See [`BindError`]; every rank gets the same error.
    pub fn plan<F: FieldSet>(&self, fields: F) -> Result<Plan, BindError> {
        self.plan_with(fields, BindOptions::default())
    }

    /// As [`plan`](Pattern::plan), with options. [`DataPath::Direct`](crate::DataPath::Direct) and
    /// [`HaloOrder::AxisByAxis`](crate::HaloOrder::AxisByAxis) are not possible for a plan, which takes the next
    /// possible path and order instead.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn plan_with<F: FieldSet>(&self, fields: F, options: BindOptions) -> Result<Plan, BindError> {
        Plan::make(self, Binder::collect_layouts(&fields), options)
    }

    /// Collective: as [`plan_with`](Pattern::plan_with), from layouts alone. The fields may be on several devices.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn plan_layouts(&self, fields: &[FieldLayout], options: BindOptions) -> Result<Plan, BindError> {
        Plan::make(self, LayoutSet::of(fields), options)
    }
}

impl Plan {
    fn make(pattern: &Pattern, layouts: LayoutSet, options: BindOptions) -> Result<Plan, BindError> {
        let (parts, expected) = layouts.expected();
        let _steps = pattern.comm().enter(CollectiveCall::Plan { pattern: pattern.number() })?;
        let (bound, choice) = bind_layouts(pattern, parts, &options)?;
        let mut completion = options.on_complete;
        let slots = bound.into_iter().map(|bound| {
            bound.flight.on_complete(completion.take());
            Slot { bound, passed: expected.clone(), begun: None }
        });
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Ok(Plan {
            pattern: pattern.clone(),
            number,
            slots: slots.collect(),
            used: Vec::new(),
            started: 0,
            choice,
        })
    }

    /// Starts an exchange of these fields: packs, sends, and returns without waiting for neighbours. Not collective. If
    /// an earlier pending exchange was forgotten, completes it first.
    ///
    /// Allocates nothing if the fields, or as many others, were passed before. On an asynchronous device, if a field that
    /// was passed before has been dropped meanwhile, it blocks until the last exchange is in place, and frees that field.
    ///
    /// # Errors
    /// [`ExchangeError::FieldCount`] and [`ExchangeError::FieldDiffers`] if the fields are not like those of the plan,
    /// [`ExchangeError::InFlightElsewhere`], and [`ExchangeError::AllInFlight`] after
    /// [`begin_at`](Plan::begin_at); these leave the plan as it was. Others as for
    /// [`Exchange::start`](super::Exchange::start).
    pub fn start<F: FieldSet>(
        &mut self,
        fields: F,
        schedule: Schedule<'_>,
    ) -> Result<Pending<'_, F>, ExchangeError> {
        let number = self.start_next(|passed| passed.take_fields(&fields), |bound| bound.start(schedule))?;
        let slot = self.slot(number)?;
        Ok(Pending::new(&slot.bound, PendingFields::Passed(fields, &slot.passed.identities)))
    }

    /// Starts and finishes an exchange of these fields in one call.
    ///
    /// # Errors
    /// As for [`start`](Plan::start) and [`Pending::finish`].
    pub fn run<F: FieldSet>(&mut self, fields: F, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        let take = |passed: &mut PassedFields| passed.take_fields(&fields);
        let number = self.start_next(take, |bound| bound.start_to_end(schedule))?;
        self.slot(number)?.bound.end(schedule)
    }

    /// Begins an exchange of fields at these addresses: packs, sends, and returns without waiting for neighbours. It
    /// goes on until [`end`](Plan::end), and borrows nothing meanwhile. Not collective: each rank may pass other
    /// addresses each time. All ranks begin their exchanges of a plan in the same order; they may end them in any.
    ///
    /// `addresses` has one for each domain of each field, in the order in which the plan was made: that of the first
    /// element of the [`BlockLayout`](crate::BlockLayout). As many exchanges can be in flight as
    /// [`BindOptions::in_flight`] says; the one that was begun that many before must have ended. Allocates nothing.
    ///
    /// # Safety
    /// Each block is valid memory of the field's device over its layout's [`span`](crate::BlockLayout::span), and no two
    /// overlap. From this call on, nothing else writes owned cells that neighbours need, and nothing else reads or
    /// writes the halo; until `end` has returned and, on an asynchronous device, the work is done that `end` has put
    /// into its stream; after an error, and if `end` is not called, until the plan is dropped. A plan in flight is not
    /// forgotten (`mem::forget`).
    ///
    /// # Errors
    /// [`ExchangeError::AddressCount`], [`ExchangeError::Address`] and [`ExchangeError::AllInFlight`] leave the plan as
    /// it was. Others as for [`Exchange::start`](super::Exchange::start).
    pub unsafe fn begin_at(
        &mut self,
        addresses: &[Pointer],
        schedule: Schedule<'_>,
    ) -> Result<Begun, ExchangeError> {
        let take = |passed: &mut PassedFields| passed.take_addresses(addresses);
        let number = self.start_next(take, |bound| bound.start(schedule))?;
        self.slot(number)?.begun = Some(number);
        Ok(Begun { plan: self.number, number })
    }

    /// Ends an exchange that [`begin_at`](Plan::begin_at) began. Blocks, and orders, as [`Pending::finish`] does.
    ///
    /// # Errors
    /// [`ExchangeError::NotInFlight`] if it has ended, or is one of another plan. Others as for [`Pending::finish`].
    pub fn end(&mut self, begun: Begun, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        if begun.plan != self.number {
            return Err(ExchangeError::NotInFlight);
        }
        let slot = self.slot(begun.number)?;
        if slot.begun != Some(begun.number) {
            return Err(ExchangeError::NotInFlight);
        }
        slot.bound.pattern.comm().check_thread()?;
        slot.begun = None;
        slot.bound.end(schedule)
    }

    /// Makes progress, and returns whether [`end`](Plan::end) would return without waiting for a neighbour; also `true`
    /// if the exchange has ended or failed, or is one of another plan. Does not block.
    pub fn is_ready(&self, begun: Begun) -> bool {
        let is_it = |slot: &&Slot| begun.plan == self.number && slot.begun == Some(begun.number);
        self.slots.iter().find(is_it).is_none_or(|slot| slot.bound.is_ready())
    }

    /// Begins and ends an exchange of fields at these addresses in one call.
    ///
    /// # Safety
    /// As for [`begin_at`](Plan::begin_at).
    ///
    /// # Errors
    /// As for [`begin_at`](Plan::begin_at) and [`end`](Plan::end).
    pub unsafe fn run_at(
        &mut self,
        addresses: &[Pointer],
        schedule: Schedule<'_>,
    ) -> Result<(), ExchangeError> {
        let take = |passed: &mut PassedFields| passed.take_addresses(addresses);
        let number = self.start_next(take, |bound| bound.start_to_end(schedule))?;
        self.slot(number)?.bound.end(schedule)
    }

    /// Completes an exchange whose pending exchange was forgotten; does nothing otherwise.
    ///
    /// # Errors
    /// [`ExchangeError`]. If that exchange had fields in borrowed memory, whose owner may have it back by now, the
    /// exchange is abandoned and the plan poisoned.
    pub fn complete(&mut self) -> Result<(), ExchangeError> {
        self.slots.iter_mut().filter(|slot| slot.begun.is_none()).try_for_each(Slot::complete)
    }

    /// Blocks until the halos of all exchanges that have ended are in place, also for the host. Does nothing with
    /// [`Schedule::Blocking`] and on the CPU, where `finish` has waited for that.
    ///
    /// # Errors
    /// [`ExchangeError`], including that of an exchange that has failed after `finish` returned.
    pub fn synchronize(&mut self) -> Result<(), ExchangeError> {
        self.complete()?;
        self.slots.iter().filter(|slot| slot.begun.is_none()).try_for_each(|slot| slot.bound.synchronize())
    }

    /// The pattern.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The amount of data that one exchange moves on this rank.
    pub fn traffic(&self) -> Traffic {
        self.slots.first().map_or(Traffic::default(), |slot| slot.bound.flight.traffic())
    }

    /// The path and the order of the exchanges.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Starts the next exchange by `start`, of the fields that `take` takes, and returns its number.
    fn start_next(
        &mut self,
        take: impl FnOnce(&mut PassedFields) -> Result<(), ExchangeError>,
        start: impl FnOnce(&Bound) -> Result<(), ExchangeError>,
    ) -> Result<u64, ExchangeError> {
        let (number, most) = (self.started, self.slots.len());
        let slot = self.slot(number)?;
        if slot.begun.is_some() {
            return Err(ExchangeError::AllInFlight { most });
        }
        slot.complete()?;
        take(&mut slot.passed)?;
        slot.bound.flight.place(&slot.passed.addresses, &slot.passed.storages)?;
        self.keep_used(number)?;
        start(&self.slot(number)?.bound)?;
        self.started += 1;
        Ok(number)
    }

    /// Keeps the memory of the fields of exchange `number`, and releases that of fields that were dropped meanwhile.
    fn keep_used(&mut self, number: u64) -> Result<(), ExchangeError> {
        let is_dropped = |storage: &Arc<Storage>| Arc::strong_count(storage) == 1;
        if self.used.iter().any(is_dropped) {
            for Slot { bound, .. } in self.slots.iter().filter(|slot| slot.bound.flight.is_asynchronous()) {
                // Their memory is freed here.
                bound.wait_for_gates()?;
                bound.flight.synchronize()?;
            }
            self.used.retain(|storage| !is_dropped(storage));
        }
        let Some(slot) = self.slots.get(self.place(number)) else { return Ok(()) };
        for storage in &slot.passed.storages {
            if !self.used.iter().any(|known| Arc::ptr_eq(known, storage)) {
                self.used.push(Arc::clone(storage));
            }
        }
        Ok(())
    }

    /// The place of the slot of exchange `number`: ranks begin exchanges in the same order, so they take the same slots.
    fn place(&self, number: u64) -> usize {
        number.checked_rem(self.slots.len() as u64).unwrap_or(0) as usize
    }

    /// The slot of exchange `number`.
    fn slot(&mut self, number: u64) -> Result<&mut Slot, ExchangeError> {
        let place = self.place(number);
        self.slots.get_mut(place).ok_or(ExchangeError::NotInFlight)
    }
}

impl Slot {
    /// See [`Plan::complete`].
    fn complete(&mut self) -> Result<(), ExchangeError> {
        let status = self.bound.flight.status();
        if status == Status::Idle {
            return Ok(());
        }
        if matches!(status, Status::Travelling | Status::Arrived) && !self.passed.own_all() {
            self.bound.give_up(ExchangeError::Forgotten);
        }
        self.bound.complete()
    }
}
