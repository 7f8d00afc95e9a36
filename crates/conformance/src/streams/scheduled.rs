//! Exchanges whose end the host does not wait for, on devices that go on working after a call has returned.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use haloport_core::device::{Device, MemoryKind, Priority};
use haloport_core::exchange::CopiedBy;
use haloport_core::{BindOptions, Communicator, DataPath, ExchangeError, Field, Grid, Halo, Pattern, Split};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::gate::{TimedGate, gate, wait_until_set};
use super::ring::RankRing;
use crate::device::Slow;
use crate::{Failure, ensure};

/// Cells that a rank sends in one exchange.
const CELLS: usize = 1024;

/// The time of the kernel during which exchanges are started and finished.
const KERNEL: Duration = Duration::from_millis(300);

/// The time limit of ranks that wait for others which run into theirs.
const LONG: Duration = Duration::from_secs(60);

/// Exchanges in flight behind one kernel.
const EXCHANGES: usize = 10;

/// Collective: while a kernel of 300 ms runs, `start` and `finish` of exchanges on its stream return. After the stream
/// has been synchronised, the halos are right. `blocking` counts the calls of the driver that have blocked this thread;
/// `&|| 0` for a driver that does not count them. The device has gates.
/// Returns the median time of a `start` and its `finish`, of at least `tries`.
///
/// # Errors
/// A call that waited, a wrong halo, or the error of a call.
pub fn host_goes_on<D: Device>(
    comm: &Communicator,
    device: &D,
    tries: usize,
    blocking: &dyn Fn() -> u64,
) -> Result<Duration, Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let reached = device.create_event(false)?;
    let slow = Slow::lasting(device, KERNEL)?;
    let ring = || RankRing::new(comm, device, DataPath::Quickest, CELLS);
    let mut rings = (0..EXCHANGES).map(|_| ring()).collect::<Result<Vec<_>, _>>()?;
    let mut times = Vec::with_capacity(tries);
    let rounds = tries.div_ceil(EXCHANGES) as i64;
    let mut late = 0;
    for round in 1..=rounds {
        for ring in &rings {
            ring.write(round, &stream)?;
        }
        slow.start(&stream)?;
        device.record(&reached, &stream)?;
        let before = blocking();
        for ring in &mut rings {
            let begin = Instant::now();
            ring.exchange.start_on(&stream)?.finish_on(&stream)?;
            times.push(begin.elapsed());
        }
        let blocked = blocking() - before;
        // A busy machine may delay this thread in some rounds; a call that waits does so in every round.
        late += i64::from(device.query(&reached)?);
        ensure!(blocked == 0, "{blocked} calls blocked the host");
        device.synchronize(&stream)?;
        for ring in &mut rings {
            ring.exchange.synchronize()?;
            ring.look(&stream)?;
            ring.verify(round, &stream)?;
        }
        comm.barrier()?;
    }
    ensure!(3 * late <= rounds, "the kernel was over before the exchanges in {late} of {rounds} rounds");
    times.sort();
    Ok(times[times.len() / 2])
}

/// Collective: cells that a pending exchange of a field lends hold what an earlier exchange of that field writes,
/// although the host has not waited for the earlier one.
///
/// # Errors
/// A halo that was lent before it was filled, or the error of a call.
pub fn views_wait<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    let grid = Grid::new([4 * comm.size()])?.periodic([true])?;
    let mine = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("no part")?;
    let around = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
    // It fills nothing below the domain, so it lends those cells while it is pending.
    let above = Pattern::structured(comm, &grid, &[mine], &Halo::per_side([(0, 1)]))?;
    let mut field = Field::<i64, D>::new(device, &around)?;
    field.view_mut(0)?.fill_with(|_, _| comm.rank() as i64);
    let (mut first, mut second) = (around.plan(&mut field)?, above.plan(&mut field)?);
    let streams = [device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?];
    let slow = Slow::lasting(device, KERNEL)?;
    slow.start(&streams[0])?;
    first.start_on(&mut field, &streams[0])?.finish_on(&streams[0])?;
    let pending = second.start_on(&mut field, &streams[1])?;
    let below = pending.owned(|field| field, 0)?.get(&[mine.lower()[0] - 1]);
    let expected = ((comm.rank() + comm.size() - 1) % comm.size()) as i64;
    ensure!(below == Some(expected), "{below:?} was lent below the domain, expected {expected}");
    pending.finish_blocking()?;
    device.synchronize(&streams[0])?;
    comm.barrier()?;
    Ok(())
}

/// Collective: `rounds` rounds of 8 exchanges in random order on four streams. The order is the same on every rank, the
/// delays differ. Every halo is verified.
///
/// # Errors
/// A wrong halo, or the error of a call.
pub fn storm<D: Device>(comm: &Communicator, device: &D, rounds: i64) -> Result<(), Failure> {
    let paths: [fn() -> BindOptions; 4] = [
        || BindOptions::default().prefer(DataPath::Direct).copied_by(CopiedBy::Receiver),
        || BindOptions::default().path(DataPath::Messages),
        || BindOptions::default().prefer(DataPath::Direct).copied_by(CopiedBy::Sender),
        || BindOptions::default().path(DataPath::Messages),
    ];
    storm_with(comm, device, rounds, paths.each_ref().map(|path| path as &dyn Fn() -> BindOptions))
}

/// Collective: as [`storm`], by two other paths, each of which half of the exchanges take.
///
/// # Errors
/// As for [`storm`].
pub fn storm_by<D: Device>(
    comm: &Communicator,
    device: &D,
    rounds: i64,
    [one, other]: [DataPath; 2],
) -> Result<(), Failure> {
    let by = |path| move || BindOptions::default().prefer(path);
    storm_with(comm, device, rounds, [&by(one), &by(other), &by(one), &by(other)])
}

fn storm_with<D: Device>(
    comm: &Communicator,
    device: &D,
    rounds: i64,
    paths: [&dyn Fn() -> BindOptions; 4],
) -> Result<(), Failure> {
    const RINGS: usize = 8;
    // Streams do work in order, so exchanges in different orders on two ranks would wait for each other.
    let (mut random, mut own) = (StdRng::seed_from_u64(0), StdRng::seed_from_u64(1 + comm.rank() as u64));
    let streams = (0..4).map(|_| device.create_stream(Priority::Normal)).collect::<Result<Vec<_>, _>>()?;
    let mut rings = Vec::with_capacity(RINGS);
    for number in 0..RINGS {
        // Some messages go in chunks, and some are moved by a copy.
        let chunk = if number < RINGS / 2 { usize::MAX } else { 256 };
        let moved_from = if number % 4 < 2 { usize::MAX } else { 0 };
        let options = paths[number % 4]().staging_chunk(chunk);
        rings.push(RankRing::with_options(
            comm,
            device,
            options.staging_copy(moved_from),
            64 << (number % 4),
        )?);
    }
    for round in 1..=rounds {
        let mut order: Vec<usize> = (0..RINGS).collect();
        order.shuffle(&mut random);
        let mut looked = Vec::with_capacity(RINGS);
        for number in order {
            let ring = &mut rings[number];
            let [from, to] = [(); 2].map(|()| &streams[random.random_range(0..streams.len())]);
            ring.write(round, from)?;
            let pending = ring.exchange.start_on(from)?;
            if own.random_range(0..20) == 0 {
                thread::sleep(Duration::from_micros(own.random_range(0..300)));
            }
            pending.finish_on(to)?;
            ring.look(to)?;
            looked.push((number, to));
        }
        for (number, stream) in looked {
            rings[number].verify(round, stream).map_err(|error| format!("exchange {number}: {error}"))?;
        }
    }
    for ring in &mut rings {
        ring.exchange.synchronize()?;
    }
    comm.barrier()?;
    Ok(())
}

/// Collective, for devices with gates: fields of the device and of the host in one exchange. While a gate holds the
/// stream back, `finish` on it fills the halos of the host's field, leaves those of the device's behind the gate, and
/// returns.
///
/// # Errors
/// A call that waited for the stream, a wrong halo, or the error of a call.
pub fn two_devices<D: Device, H: Device>(comm: &Communicator, device: &D, host: &H) -> Result<(), Failure> {
    let grid = Grid::new([CELLS * comm.size()])?.periodic([true])?;
    let domain = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("no part")?;
    let pattern = Pattern::structured(comm, &grid, &[domain], &Halo::per_side([(1, 0)]))?;
    let fields = (Field::<i64, D>::new(device, &pattern)?, Field::<i64, H>::new(host, &pattern)?);
    let mut exchange = pattern.bind(fields)?;
    let stream = device.create_stream(Priority::Normal)?;
    let of_host = host.create_stream(Priority::Normal)?;
    let refused = exchange.run_on(&of_host);
    ensure!(
        matches!(refused, Err(ExchangeError::NoStream { device: on, .. }) if on == device.id()),
        "without a stream of the device: {refused:?}"
    );
    let reached = device.create_event(false)?;
    let left = (comm.rank() + comm.size() - 1) % comm.size();
    for round in 1..=3 {
        let value = |rank: usize| 100 * round + rank as i64;
        let mut values = vec![value(comm.rank()); CELLS + 1];
        // The halo, which only the exchange sets right.
        values[0] = -1;
        let (on_device, on_host) = exchange.fields_mut();
        on_device.copy_from(0, &values)?;
        on_host.copy_from(0, &values)?;
        // No neighbour copies while the gate is closed.
        comm.barrier()?;
        let gate = TimedGate::new(gate(device, &stream)?);
        device.record(&reached, &stream)?;
        exchange.start_on(&stream)?.finish_on(&stream)?;
        let found = exchange.fields().1.to_vec(0)?[0];
        let early = device.query(&reached)?;
        ensure!(gate.open()? && !early, "`finish` has waited for the stream");
        ensure!(found == value(left), "round {round}: found {found} in the halo on the host");
        exchange.synchronize()?;
        ensure!(device.query(&reached)?, "the exchange was over before its stream came to it");
        let found = exchange.fields().0.to_vec(0)?[0];
        ensure!(found == value(left), "round {round}: found {found} in the halo on the device");
    }
    Ok(())
}

/// Collective: rank 0 exchanges, the others do not, until `limit`, which becomes the time limit of `comm`. The stream of rank 0
/// goes on, and both the completion callback and the next call get an error that names the missing neighbour. Halos
/// have 8 KiB. `told` is set when rank 0 has its errors. Ranks are left with different counts of exchanges, so `comm`
/// must not be used afterwards.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn silent_neighbour<D: Device>(
    comm: &Communicator,
    device: &D,
    options: BindOptions,
    limit: Duration,
    told: &AtomicBool,
) -> Result<(), Failure> {
    let (sender, receiver) = mpsc::channel();
    let stream = device.create_stream(Priority::Normal)?;
    let options = options.on_complete(move |end| {
        let _ = sender.send(end.map_err(ToString::to_string));
    });
    let mut ring = RankRing::with_options(comm, device, options, CELLS)?;
    // Binding may take longer.
    comm.barrier()?;
    comm.set_time_limit(Some(limit));
    if comm.rank() != 0 {
        wait_until_set(told);
        return Ok(());
    }
    let outcome = unheard(&mut ring, device, &stream, &receiver, &format!("rank {}", comm.size() - 1));
    told.store(true, Ordering::SeqCst);
    outcome
}

/// Collective: all ranks but `missing` exchange, each with at least one neighbour, until `limit`. Their streams go on, and the
/// completion callback and the next call get an error. Halos have 8 KiB. The time limit of `comm` is a minute afterwards.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn missing_rank<D: Device>(
    comm: &Communicator,
    device: &D,
    options: BindOptions,
    missing: usize,
    limit: Duration,
) -> Result<(), Failure> {
    let (sender, receiver) = mpsc::channel();
    let stream = device.create_stream(Priority::Normal)?;
    let options = options.on_complete(move |end| {
        let _ = sender.send(end.map_err(ToString::to_string));
    });
    let mut ring = RankRing::with_options(comm, device, options, CELLS)?;
    // Binding may take longer.
    comm.barrier()?;
    if comm.rank() == missing {
        comm.set_time_limit(Some(LONG));
    } else {
        comm.set_time_limit(Some(limit));
        let begin = Instant::now();
        let outcome = unheard(&mut ring, device, &stream, &receiver, "rank ");
        // The others may need longer.
        comm.set_time_limit(Some(LONG));
        outcome?;
        let time = begin.elapsed();
        ensure!(
            time < 3 * limit + Duration::from_secs(5),
            "it took {time:?}, with a time limit of {limit:?}"
        );
    }
    comm.barrier()?;
    Ok(())
}

/// Starts and finishes an exchange in which a neighbour takes no part. The error has `name` in it.
fn unheard<D: Device>(
    ring: &mut RankRing<D>,
    device: &D,
    stream: &D::Stream,
    told: &mpsc::Receiver<Result<(), String>>,
    name: &str,
) -> Result<(), Failure> {
    ring.exchange.start_on(stream)?.finish_on(stream)?;
    // Returns in time: the gate is opened all the same.
    device.synchronize(stream)?;
    let told = told.recv_timeout(Duration::from_secs(60))?;
    ensure!(told.as_ref().is_err_and(|error| error.contains(name)), "the callback was told {told:?}");
    let error = ring.exchange.synchronize();
    ensure!(
        matches!(&error, Err(ExchangeError::Poisoned(why)) if why.contains(name)),
        "synchronize gave {error:?}, expected an error that names {name}"
    );
    Ok(())
}

/// Collective: the first rank starts and finishes an exchange, and then drops memory of every kind before its neighbours
/// begin, and another exchange. Neither end hangs. The device has gates. `dropped` is false at first and afterwards.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn memory_dropped_in_flight<D: Device>(
    comm: &Communicator,
    device: &D,
    options: BindOptions,
    dropped: &AtomicBool,
) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut ring = RankRing::with_options(comm, device, options, CELLS)?;
    let other = RankRing::new(comm, device, DataPath::Messages, CELLS)?;
    let memory = [
        device.allocate(CELLS, MemoryKind::Device)?,
        device.allocate(CELLS, MemoryKind::Pinned)?,
        match device.memory_export() {
            Some(export) => export.allocate_exportable(CELLS)?,
            None => device.allocate(CELLS, MemoryKind::Device)?,
        },
    ];
    ring.write(1, &stream)?;
    comm.barrier()?;
    if comm.rank() != 0 {
        wait_until_set(dropped);
    }
    ring.exchange.start_on(&stream)?.finish_on(&stream)?;
    ring.look(&stream)?;
    drop(memory);
    dropped.store(true, Ordering::SeqCst);
    drop(other);
    ring.exchange.synchronize()?;
    ring.verify(1, &stream)?;
    comm.barrier()?;
    dropped.store(false, Ordering::SeqCst);
    comm.barrier()?;
    Ok(())
}

/// Collective: the last rank ends after it has bound its exchange. The others get an error that names it, or a
/// neighbour that sent nothing for that reason. Halos have 8 KiB.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn neighbour_that_ends<D: Device>(
    comm: &Communicator,
    device: &D,
    options: BindOptions,
) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut ring = RankRing::with_options(comm, device, options, CELLS)?;
    if comm.rank() + 1 == comm.size() {
        return Ok(());
    }
    let mut ended = Ok(());
    for _ in 0..2 {
        let started = ring.exchange.start_on(&stream);
        ended = started.and_then(|pending| pending.finish_on(&stream));
        device.synchronize(&stream)?;
        ended = ended.and_then(|()| ring.exchange.synchronize());
        if ended.is_err() {
            break;
        }
    }
    let named = ended.as_ref().is_err_and(|error| error.to_string().contains("rank "));
    ensure!(named, "an exchange without its neighbour gave {ended:?}");
    Ok(())
}
