//! A plan: an exchange of fields that are passed at each start.

use std::fmt;

use super::bind::Passing;
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

/// A pattern and the layouts of some fields: messages are laid out, buffers allocated and copies bound, once. The fields
/// are passed at each start, and may be others each time, as long as they have these layouts.
///
/// Use a plan if a field takes part in several exchanges, if it changes places with another one between steps, or if
/// its memory is a slice that the program uses in between. Only making a plan is collective: at each start, every rank may
/// pass other fields than the last time, or the same.
///
/// Cells are packed on their way to other ranks. An [`Exchange`](super::Exchange), which owns its fields, can have neighbours
/// copy straight from them instead, and so is quicker between ranks that share memory.
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
    /// Dropped before what it keeps alive.
    bound: Bound,
    choice: Choice,
    /// The fields of the last start.
    passing: Passing,
    /// Where the blocks begin that the copies lead to.
    addresses: Vec<Pointer>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("status", &self.bound.flight.status()).finish_non_exhaustive()
    }
}

impl Pattern {
    /// Collective: makes a plan for fields like these: of the same devices, element types and layouts, in the same order.
    /// See [`Plan`].
    ///
    /// # Errors
    /// See [`BindError`]; every rank gets the same error.
    pub fn plan<F: FieldSet>(&self, fields: F) -> Result<Plan, BindError> {
        self.plan_with(fields, BindOptions::default())
    }

    /// As [`plan`](Pattern::plan), with options. [`DataPath::Direct`](crate::DataPath::Direct) and
    /// [`HaloOrder::AxisByAxis`](crate::HaloOrder::AxisByAxis) are no ways for a plan: it takes the next ones that are
    /// possible.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn plan_with<F: FieldSet>(&self, fields: F, options: BindOptions) -> Result<Plan, BindError> {
        let (builders, passing, addresses) = Binder::collect_layouts(&fields);
        let _steps = self.comm().enter(CollectiveCall::Plan { pattern: self.number() })?;
        let (bound, choice) = bind_fields(self, builders, &options)?;
        bound.flight.on_complete(options.on_complete);
        Ok(Plan { bound, choice, passing, addresses })
    }
}

impl Plan {
    /// Starts an exchange of these fields: packs, sends, and returns; neighbours need not have come as far. Not
    /// collective. If an earlier pending exchange was forgotten, it is completed first.
    ///
    /// On the CPU this allocates nothing, whichever fields are passed. On an asynchronous device, if the fields are others
    /// than the last time, it waits until the last exchange is in place and lays out its copies anew.
    ///
    /// # Errors
    /// [`ExchangeError::FieldCount`] and [`ExchangeError::FieldDiffers`] for other fields than those of the plan,
    /// [`ExchangeError::InFlightElsewhere`]: the plan stays as it was. Others as for
    /// [`Exchange::start`](super::Exchange::start).
    pub fn start<F: FieldSet>(
        &mut self,
        fields: F,
        schedule: Schedule<'_>,
    ) -> Result<Pending<'_, F>, ExchangeError> {
        self.take(&fields)?;
        self.bound.start(schedule)?;
        Ok(Pending::new(&self.bound, &self.passing.identities, PendingFields::Passed(fields)))
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
    /// [`ExchangeError`]. If memory that was merely lent was in that exchange, its owner may have it back by now: the exchange
    /// is given up then, and the plan poisoned.
    pub fn complete(&mut self) -> Result<(), ExchangeError> {
        let status = self.bound.flight.status();
        if status == Status::Idle {
            return Ok(());
        }
        if matches!(status, Status::Travelling | Status::Arrived) && !self.passing.own_all() {
            self.bound.give_up(ExchangeError::Forgotten);
        }
        self.bound.complete()
    }

    /// Blocks until the halos of the last exchange are in place, also for the host. Does nothing if `finish` has seen to
    /// that: with [`Schedule::Blocking`], and on the CPU.
    ///
    /// # Errors
    /// [`ExchangeError`], also of an exchange that has failed since `finish` returned.
    pub fn synchronize(&mut self) -> Result<(), ExchangeError> {
        self.complete()?;
        self.bound.synchronize()
    }

    /// The pattern.
    pub fn pattern(&self) -> &Pattern {
        &self.bound.pattern
    }

    /// What one exchange moves on this rank.
    pub fn traffic(&self) -> Traffic {
        self.bound.flight.traffic()
    }

    /// How an exchange is done, and why.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Takes the fields of the next exchange, and has the copies lead to them.
    fn take(&mut self, fields: &impl FieldSet) -> Result<(), ExchangeError> {
        self.complete()?;
        Binder::pass(fields, &mut self.passing);
        self.passing.end()?;
        let Passing { addresses, storages, .. } = &self.passing;
        if *addresses != self.addresses {
            self.bound.wait_for_gates()?;
        }
        let transport = self.bound.pattern.comm().transport();
        self.bound.flight.carry(&**transport, &mut self.addresses, addresses, storages)
    }
}
