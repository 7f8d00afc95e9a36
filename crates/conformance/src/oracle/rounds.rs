//! Rounds of exchanges of a case, each of them verified.

use std::time::{Duration, Instant};

use haloport_core::device::{AnyStream, Device, Pointer, Priority};
use haloport_core::{Communicator, Exchange, Passed, Pattern, Progress, Schedule};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::fields::{CaseField, CaseFields, PlacedFields};
use super::make::{FieldMaker, Memory, make_field, make_owned, make_placed};
use super::options::CaseOptions;
use super::truth::Oracle;
use crate::{Failure, ensure};

/// The common part of cases of any kind: the fields, the options of the exchange, and the number of rounds.
#[derive(Debug, Clone)]
pub(crate) struct Rounds<F> {
    /// The number of the case.
    pub(crate) number: u64,
    pub(crate) fields: Vec<F>,
    pub(crate) options: CaseOptions,
    pub(crate) count: u64,
}

impl<F: FieldMaker> Rounds<F> {
    /// The same with a field in place of each.
    pub(crate) fn with_fields<G>(&self, field: impl FnMut(&F) -> G) -> Rounds<G> {
        let Rounds { number, ref fields, options, count } = *self;
        Rounds { number, fields: fields.iter().map(field).collect(), options, count }
    }

    /// The same, in messages; staged ones in chunks of at most `bytes`.
    pub(crate) fn in_chunks(self, bytes: usize) -> Rounds<F> {
        Rounds { options: self.options.in_chunks(bytes), ..self }
    }

    /// The same, in messages that streams send and receive.
    pub(crate) fn by_streams(self) -> Rounds<F> {
        Rounds { options: self.options.by_streams(), ..self }
    }

    /// The same; staged messages are moved by a copy from `bytes` on.
    pub(crate) fn moved_from(self, bytes: usize) -> Rounds<F> {
        Rounds { options: self.options.moved_from(bytes), ..self }
    }

    /// Collective: runs the rounds, first of an exchange that owns its fields, then of a plan to which fields are passed,
    /// then of one to which addresses are passed. Every second field is on `other`.
    pub(crate) fn run<D: Device, E: Device>(
        &self,
        device: &D,
        other: &E,
        pattern: &Pattern,
        oracle: &dyn Oracle,
    ) -> Result<(), Failure> {
        let make = |memory| -> Result<CaseFields<'_>, Failure> {
            let fields = self.fields.iter().zip(memory).enumerate();
            let made = fields.map(|(number, (field, memory))| match number % 2 {
                0 => make_field(device, pattern, oracle, field, number, memory),
                _ => make_field(other, pattern, oracle, field, number, memory),
            });
            made.collect()
        };
        let comm = pattern.comm();
        // Each rank for itself.
        if (self.number + comm.rank() as u64).is_multiple_of(3) && comm.info().any_thread {
            comm.set_progress(Progress::Thread)?;
        }
        let mut memories: [Vec<Memory>; 3] = std::array::from_fn(|_| vec![Memory::new(); self.fields.len()]);
        let [bound, first, second] = &mut memories;
        let exchange = self.options.bind(pattern, make(bound)?)?;
        run_rounds(device, other, exchange, self.number, self.count)?;
        let mut sets = [make(first)?, make(second)?];
        let plan = self.options.plan(pattern, &mut sets[0])?;
        run_passed(device, plan, sets, self.number, self.count)?;
        self.run_placed(device, other, pattern, oracle)?;
        Ok(comm.set_progress(Progress::Auto)?)
    }

    /// Collective: as [`run`](Rounds::run), of a plan to which addresses are passed.
    fn run_placed<D: Device, E: Device>(
        &self,
        device: &D,
        other: &E,
        pattern: &Pattern,
        oracle: &dyn Oracle,
    ) -> Result<(), Failure> {
        let make = || -> Result<PlacedFields<'_>, Failure> {
            let fields = self.fields.iter().enumerate();
            let made = fields.map(|(number, field)| {
                let paired = (self.number + number as u64).is_multiple_of(4);
                match number % 2 {
                    0 => make_placed(device, pattern, oracle, field, number, paired),
                    _ => make_placed(other, pattern, oracle, field, number, paired),
                }
            });
            made.collect()
        };
        let mut sets = [make()?, make()?, make()?];
        let options = self.options.options();
        // Fields that are passed as such, before addresses are.
        let mut plan = pattern.plan_with(&mut sets[0], options)?;
        sets[1].iter_mut().try_for_each(|field| field.prepare(7))?;
        plan.run_blocking(&mut sets[1])?;
        sets[1].iter().try_for_each(|field| field.verify(7, true))?;
        drop(plan);
        let layouts = self.fields.iter().zip(&sets[0]);
        let layouts = layouts.map(|(maker, field)| field.field_layout(maker.vector()));
        let layouts = layouts.collect::<Result<Vec<_>, _>>()?;
        let plan = pattern.plan_layouts(&layouts, self.options.options().in_flight(2))?;
        run_at_addresses(device, plan, sets, self.number, self.count)
    }

    /// Collective: binds the first field, in its own memory.
    pub(crate) fn bind_first<'m, D: Device>(
        &self,
        device: &D,
        pattern: &Pattern,
        oracle: &'m dyn Oracle,
    ) -> Result<Exchange<Box<dyn CaseField + 'm>>, Failure> {
        let field: Box<dyn CaseField> = Box::new(make_owned(device, pattern, oracle, &self.fields[0], 0)?);
        Ok(pattern.bind_with(field, self.options.options())?)
    }

    /// Collective: as [`run`](Rounds::run), of an exchange that owns its fields and of a plan, with ranks that take unequal
    /// times between `start` and `finish` and meet in `outside`, which makes no progress with exchanges: some before
    /// `finish`, others after it.
    pub(crate) fn run_uneven<D: Device>(
        &self,
        device: &D,
        pattern: &Pattern,
        oracle: &dyn Oracle,
        outside: &Communicator,
    ) -> Result<(), Failure> {
        let limit = pattern.comm().time_limit();
        pattern.comm().set_time_limit(Some(UNEVEN_LIMIT));
        let options = self.options.waiting_once();
        let mut random = order_of_rank(self.number, outside.rank());
        let schedules = [Schedule::Blocking, Schedule::DefaultStream];
        let mut memories: [Vec<Memory>; 2] = std::array::from_fn(|_| vec![Memory::new(); self.fields.len()]);
        let [bound, passed] = memories.each_mut().map(|memory| {
            let fields = self.fields.iter().zip(memory).enumerate();
            let made = fields
                .map(|(number, (field, memory))| make_field(device, pattern, oracle, field, number, memory));
            made.collect::<Result<CaseFields<'_>, _>>()
        });
        let mut exchange = options.bind(pattern, bound?)?;
        for round in 0..UNEVEN_ROUNDS {
            for field in exchange.fields_mut() {
                field.prepare(round)?;
            }
            let schedule = schedules[random.random_range(0..2)];
            let pending = exchange.start_on(schedule)?;
            unevenly(&mut random, outside, || Ok(pending.finish_on(schedule)?))?;
            exchange.synchronize()?;
            exchange.fields().iter().try_for_each(|field| field.verify(round, true))?;
        }
        let mut passed = passed?;
        let mut plan = options.plan(pattern, &mut passed)?;
        for round in 0..UNEVEN_ROUNDS {
            passed.iter_mut().try_for_each(|field| field.prepare(round))?;
            let schedule = schedules[random.random_range(0..2)];
            let pending = plan.start_on(&mut passed, schedule)?;
            unevenly(&mut random, outside, || Ok(pending.finish_on(schedule)?))?;
            plan.synchronize()?;
            passed.iter().try_for_each(|field| field.verify(round, true))?;
        }
        pattern.comm().set_time_limit(limit);
        Ok(())
    }
}

const UNEVEN_ROUNDS: u64 = 6;

/// Much longer than a `finish` takes that waits for the `start` of neighbours alone.
const UNEVEN_LIMIT: Duration = Duration::from_secs(20);

/// Takes a random time, and calls `finish`; meets the other ranks in `outside` before or after it.
fn unevenly(
    random: &mut StdRng,
    outside: &Communicator,
    finish: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let begin = Instant::now();
    let time = Duration::from_micros(random.random_range(0..100));
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
    if random.random_bool(0.5) {
        outside.barrier()?;
        finish()
    } else {
        finish()?;
        Ok(outside.barrier()?)
    }
}

/// Runs rounds of one exchange, each with another schedule, and verifies each.
pub(crate) fn run_rounds<D: Device, E: Device>(
    device: &D,
    other: &E,
    mut exchange: Exchange<CaseFields<'_>>,
    number: u64,
    rounds: u64,
) -> Result<(), Failure> {
    let (stream, of_other) =
        (device.create_stream(Priority::Normal)?, other.create_stream(Priority::Normal)?);
    let each: [&dyn AnyStream; 2] = [&stream, &of_other];
    // Every second field is on the other device.
    let has_both = exchange.fields().len() > 1 && device.id() != other.id();
    let streams = if has_both { Schedule::OnEach(&each) } else { Schedule::On(&stream) };
    for round in 0..rounds {
        for field in exchange.fields_mut() {
            field.prepare(round)?;
        }
        let schedules = [Schedule::Blocking, Schedule::DefaultStream, streams];
        match (number + round) % 4 {
            0 => exchange.run_on(schedules[0])?,
            1 => exchange.start_on(schedules[1])?.finish_on(schedules[0])?,
            2 => exchange.start_on(schedules[0])?.finish_on(schedules[2])?,
            _ => {
                let pending = exchange.start_on(schedules[2])?;
                while !pending.is_ready() {
                    std::thread::yield_now();
                }
                pending.finish_on(schedules[2])?;
            }
        }
        device.synchronize(&stream)?;
        other.synchronize(&of_other)?;
        for field in exchange.fields() {
            field.verify(round, true)?;
        }
    }
    Ok(())
}

/// Runs rounds of one plan, to which this rank passes one of two sets of fields, in an order of its own. The other set must
/// stay as it is.
pub(crate) fn run_passed<D: Device>(
    device: &D,
    mut plan: Exchange<Passed>,
    mut sets: [CaseFields<'_>; 2],
    number: u64,
    rounds: u64,
) -> Result<(), Failure> {
    let mut random = order_of_rank(number, plan.pattern().comm().rank());
    for round in 0..rounds + 2 {
        let passed = random.random_range(0..2);
        for field in sets.iter_mut().flatten() {
            field.prepare(round)?;
        }
        match (number + round) % 3 {
            0 => plan.run_blocking(&mut sets[passed])?,
            1 => plan.start(&mut sets[passed])?.finish()?,
            _ => {
                let pending = plan.start_on(&mut sets[passed], Schedule::Blocking)?;
                while !pending.is_ready() {
                    std::thread::yield_now();
                }
                pending.finish()?;
            }
        }
        device.synchronize(&device.default_stream())?;
        for (set, fields) in sets.iter().enumerate() {
            for field in fields {
                field
                    .verify(round, set == passed)
                    .map_err(|error| format!("of a plan, round {round}: {error}"))?;
            }
        }
    }
    Ok(())
}

/// Runs rounds of one plan with two exchanges in flight, to which this rank passes the addresses of two of three sets of
/// fields, in an order of its own. The third set must stay as it is.
pub(crate) fn run_at_addresses<D: Device>(
    device: &D,
    mut plan: Exchange<Passed>,
    mut sets: [PlacedFields<'_>; 3],
    number: u64,
    rounds: u64,
) -> Result<(), Failure> {
    let mut random = order_of_rank(number, plan.pattern().comm().rank());
    let addresses_of = |set: &PlacedFields<'_>| -> Result<Vec<Pointer>, Failure> {
        let addresses = set.iter().map(|field| field.addresses()).collect::<Result<Vec<_>, _>>()?;
        Ok(addresses.concat())
    };
    for round in 0..rounds + 1 {
        // The sets of the first exchange and of the second, and the other one: each with values of its own.
        let mut order = [0, 1, 2];
        order.shuffle(&mut random);
        let values = |place: usize| 3 * round + place as u64;
        for (place, set) in order.into_iter().enumerate() {
            sets[set].iter_mut().try_for_each(|field| field.prepare(values(place)))?;
        }
        let mut tickets = Vec::new();
        for set in order.into_iter().take(2) {
            // SAFETY: the addresses are those of live fields of these layouts, which nothing else uses until the exchange
            // has ended and the device is done; after an error the plan is dropped first.
            tickets.push(unsafe { plan.start_at(&addresses_of(&sets[set])?, Schedule::DefaultStream)? });
        }
        if random.random_bool(0.5) {
            tickets.reverse();
        }
        for ticket in tickets {
            while random.random_bool(0.5) && !plan.is_ready(ticket) {
                std::thread::yield_now();
            }
            plan.finish(ticket, [Schedule::Blocking, Schedule::DefaultStream][random.random_range(0..2)])?;
            ensure!(plan.finish(ticket, Schedule::Blocking).is_err(), "an exchange was finished twice");
        }
        plan.synchronize()?;
        device.synchronize(&device.default_stream())?;
        for (place, set) in order.into_iter().enumerate() {
            for field in &sets[set] {
                field.verify(values(place), place < 2).map_err(|error| {
                    format!("of a plan at addresses, round {round}, set {place}: {error}")
                })?;
            }
        }
    }
    Ok(())
}

/// Runs rounds of several exchanges in flight at once, started and finished in an order of its own on every rank. The order
/// is made from `number` and `rank`.
pub(crate) fn run_interleaved(
    mut bound: Vec<Exchange<Box<dyn CaseField + '_>>>,
    number: u64,
    rank: usize,
) -> Result<(), Failure> {
    let mut random = order_of_rank(number, rank);
    for round in 0..5 {
        bound.shuffle(&mut random);
        let mut pending = Vec::new();
        for exchange in &mut bound {
            exchange.fields_mut().prepare(round)?;
            pending.push(exchange.start()?);
        }
        pending.shuffle(&mut random);
        for exchange in pending {
            // Some are dropped, which finishes them, too.
            if random.random_bool(0.8) {
                exchange.finish_blocking()?;
            }
        }
        for exchange in &bound {
            exchange.fields().verify(round, true)?;
        }
    }
    Ok(())
}

/// The order of one rank.
fn order_of_rank(number: u64, rank: usize) -> StdRng {
    StdRng::seed_from_u64(number ^ (rank as u64) << 40)
}
