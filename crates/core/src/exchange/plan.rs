//! A plan: an exchange of fields that are passed at each start.

use std::fmt;

use super::bind::PassedFields;
use super::bind::bind_fields;
use super::bind::{Binder, FieldSet};
use super::options::{BindError, BindOptions, Choice, ExchangeError, Schedule, Traffic};
use super::pending::Pending;
use super::pending::PendingFields;
use super::run::bound::Bound;
use super::run::flight::Status;
use crate::comm::CollectiveCall;
use crate::device::Pointer;
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
    /// Dropped before the memory that it uses.
    bound: Bound,
    choice: Choice,
    /// The fields of the last start.
    passed: PassedFields,
    /// The addresses of the blocks to which the copies are bound.
    addresses: Vec<Pointer>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("status", &self.bound.flight.status()).finish_non_exhaustive()
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
        let (builders, passed, addresses) = Binder::collect_layouts(&fields);
        let _steps = self.comm().enter(CollectiveCall::Plan { pattern: self.number() })?;
        let (bound, choice) = bind_fields(self, builders, &options)?;
        bound.flight.on_complete(options.on_complete);
        Ok(Plan { bound, choice, passed, addresses })
    }
}

impl Plan {
    /// Starts an exchange of these fields: packs, sends, and returns without waiting for neighbours. Not collective. If
    /// an earlier pending exchange was forgotten, completes it first.
    ///
    /// On the CPU this allocates nothing, whichever fields are passed. On an asynchronous device, if the fields are
    /// different from the last ones, it blocks until the last exchange is in place, and binds its copies to the new
    /// addresses.
    ///
    /// # Errors
    /// [`ExchangeError::FieldCount`] and [`ExchangeError::FieldDiffers`] if the fields are not like those of the plan,
    /// and [`ExchangeError::InFlightElsewhere`]; these leave the plan as it was. Others as for
    /// [`Exchange::start`](super::Exchange::start).
    pub fn start<F: FieldSet>(
        &mut self,
        fields: F,
        schedule: Schedule<'_>,
    ) -> Result<Pending<'_, F>, ExchangeError> {
        self.take(&fields)?;
        self.bound.start(schedule)?;
        Ok(Pending::new(&self.bound, &self.passed.identities, PendingFields::Passed(fields)))
    }

    /// Starts and finishes an exchange of these fields in one call.
    ///
    /// # Errors
    /// As for [`start`](Plan::start) and [`Pending::finish`].
    pub fn run<F: FieldSet>(&mut self, fields: F, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        self.take(&fields)?;
        self.bound.start(schedule)?;
        self.bound.end(schedule)
    }

    /// Completes an exchange whose pending exchange was forgotten; does nothing otherwise.
    ///
    /// # Errors
    /// [`ExchangeError`]. If that exchange had fields in borrowed memory, whose owner may have it back by now, the
    /// exchange is abandoned and the plan poisoned.
    pub fn complete(&mut self) -> Result<(), ExchangeError> {
        let status = self.bound.flight.status();
        if status == Status::Idle {
            return Ok(());
        }
        if matches!(status, Status::Travelling | Status::Arrived) && !self.passed.own_all() {
            self.bound.give_up(ExchangeError::Forgotten);
        }
        self.bound.complete()
    }

    /// Blocks until the halos of the last exchange are in place, also for the host. Does nothing with
    /// [`Schedule::Blocking`] and on the CPU, where `finish` has waited for that.
    ///
    /// # Errors
    /// [`ExchangeError`], including that of an exchange that has failed after `finish` returned.
    pub fn synchronize(&mut self) -> Result<(), ExchangeError> {
        self.complete()?;
        self.bound.synchronize()
    }

    /// The pattern.
    pub fn pattern(&self) -> &Pattern {
        &self.bound.pattern
    }

    /// The amount of data that one exchange moves on this rank.
    pub fn traffic(&self) -> Traffic {
        self.bound.flight.traffic()
    }

    /// The path and the order of the exchanges.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Collects the fields of the next exchange, and moves the copies to their addresses.
    fn take(&mut self, fields: &impl FieldSet) -> Result<(), ExchangeError> {
        self.complete()?;
        Binder::pass(fields, &mut self.passed);
        self.passed.end()?;
        let PassedFields { addresses, storages, .. } = &self.passed;
        if *addresses != self.addresses {
            self.bound.wait_for_gates()?;
        }
        let transport = self.bound.pattern.comm().transport();
        self.bound.flight.relocate(&**transport, &mut self.addresses, addresses, storages)
    }
}
