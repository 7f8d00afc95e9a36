//! The thread that makes progress for all ranks of a process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use haloport_core::device::{Device, Priority};
use haloport_core::{BindOptions, Communicator, DataPath, Exchange, Field, Pattern, Progress};

use super::gate::{TimedGate, gate};
use super::ring::RankRing;
use crate::{Failure, ensure};

const CELLS: usize = 64;

/// The number of rounds: in each, the thread of the process may come before the rank that waits, or after it.
const ROUNDS: i64 = 100;

/// How long rank 0 has waited in `finish` before its message is sent.
const WAITED: Duration = Duration::from_millis(2);

/// A gate that one rank closes and another one opens.
#[derive(Default)]
pub struct HandedGate(Mutex<Option<TimedGate>>);

impl HandedGate {
    fn hand(&self, gate: TimedGate) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(gate);
    }

    fn take(&self) -> Result<TimedGate, Failure> {
        let gate = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(gate.ok_or("rank 0 has closed no gate")?)
    }
}

/// Whether ranks that are threads can hold back their streams by gates without holding back each other. If not, says so.
fn has_gates_of_ranks<D: Device>(device: &D) -> bool {
    let has = device.gates().is_some() && !device.info().shared_queues;
    if !has {
        println!("skipped: {} has no gates, or ranks that are threads share its queues", device.id());
    }
    has
}

/// Collective, on two ranks that are threads: rank 0 waits in `finish` for a stream that rank 1 holds back until a stream
/// of its own has passed a gate of an exchange. So the thread that opens that gate does not wait for rank 0's stream; nor does
/// rank 0 itself, if `progress` says that it alone sends its messages. On devices without such gates, does nothing.
///
/// # Errors
/// The gate stays closed, a wrong halo, or the error of a call.
pub fn gates_open_while_a_rank_waits<D: Device>(
    comm: &Communicator,
    device: &D,
    handed: &HandedGate,
    progress: Progress,
) -> Result<(), Failure> {
    if !has_gates_of_ranks(device) {
        return Ok(());
    }
    if comm.rank() == 0 {
        comm.set_progress(progress)?;
    }
    let options = || BindOptions::default().path(DataPath::Messages);
    // Polled in this order.
    let mut passing = RankRing::with_options(comm, device, options(), CELLS)?;
    let mut held = RankRing::with_options(comm, device, options(), CELLS)?;
    let (first, second) = (device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?);
    for round in 1..=ROUNDS {
        passing.write(round, &first)?;
        held.write(round, &second)?;
        device.synchronize(&first)?;
        if comm.rank() == 0 {
            let open = gate(device, &first)?;
            handed.hand(TimedGate::new(gate(device, &second)?));
            let pending = passing.exchange.start_on(&first)?;
            let waited_for = held.exchange.start_on(&second)?;
            comm.barrier()?;
            let opener = thread::spawn(move || {
                thread::sleep(WAITED);
                open();
            });
            waited_for.finish_blocking()?;
            pending.finish_on(&first)?;
            opener.join().map_err(|_| "the thread that opens a gate panicked")?;
        } else {
            let pending = passing.exchange.start_on(&first)?;
            let held_back = held.exchange.start_on(&second)?;
            comm.barrier()?;
            pending.finish_on(&first)?;
            device.synchronize(&first)?;
            let was_closed = handed.take()?.open()?;
            held_back.finish_on(&second)?;
            ensure!(was_closed, "in round {round}, rank 1's stream has waited for the device of rank 0");
        }
        for (ring, stream) in [(&mut passing, &first), (&mut held, &second)] {
            ring.look(stream)?;
            ring.verify(round, stream)?;
            ring.exchange.synchronize()?;
        }
        comm.barrier()?;
    }
    Ok(())
}

/// Collective, on two ranks or more: rank 0 forgets an exchange whose messages are missing. The next start completes it, or a call
/// of `complete`.
///
/// # Errors
/// A wrong halo, or the error of a call.
pub fn forgotten_exchanges_are_completed<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    let mut ring =
        RankRing::with_options(comm, device, BindOptions::default().path(DataPath::Messages), CELLS)?;
    let stream = device.create_stream(Priority::Normal)?;
    for round in 1..=4 {
        ring.write(round, &stream)?;
        if comm.rank() == 0 {
            std::mem::forget(ring.exchange.start_on(&stream)?);
            if round % 2 == 0 {
                ring.exchange.complete()?;
            }
        } else {
            thread::sleep(5 * WAITED);
            ring.exchange.run_on(&stream)?;
        }
        ring.exchange.run_on(&stream)?;
        ring.look(&stream)?;
        ring.verify(round, &stream)?;
        ring.exchange.synchronize()?;
    }
    Ok(())
}

/// The ranks that have come to a point, where they wait without a call of the library.
#[derive(Default)]
pub struct Meeting(AtomicUsize);

impl Meeting {
    /// Waits until all ranks have come; at most a minute.
    fn come(&self, comm: &Communicator) {
        self.0.fetch_add(1, Ordering::SeqCst);
        let begin = Instant::now();
        while self.0.load(Ordering::SeqCst) < comm.size() && begin.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Collective: an exchange between the ranks of each of these pairs. Cell 0 is this rank's, each of the others that of one neighbour.
fn between<D: Device>(
    comm: &Communicator,
    device: &D,
    path: DataPath,
    pairs: &[[usize; 2]],
) -> Result<Exchange<Field<i64, D>>, Failure> {
    let rank = comm.rank();
    let other = |pair: &[usize; 2]| pair.contains(&rank).then(|| pair[0] + pair[1] - rank);
    let neighbours: Vec<usize> = pairs.iter().filter_map(other).collect();
    let sends: Vec<_> = neighbours.iter().map(|rank| (*rank, [0])).collect();
    let receives: Vec<_> = (1..).zip(&neighbours).map(|(cell, rank)| (*rank, [cell])).collect();
    let pattern = Pattern::from_lists(comm, 1 + neighbours.len(), &sends, &receives)?;
    let mut field = Field::<i64, D>::new(device, &pattern)?;
    let mut cells = vec![0; 1 + neighbours.len()];
    cells[0] = 7 + rank as i64;
    field.copy_from(0, &cells)?;
    Ok(pattern.bind_with(field, BindOptions::default().path(path))?)
}

/// Collective, on three ranks that are threads: rank 0 has finished two exchanges on one stream, and the second one fails while
/// the first one waits for its neighbour. So the thread that ends the second one does not wait for the stream before the gate of the
/// first one is open. On devices without such gates, does nothing.
///
/// # Errors
/// The second exchange does not fail, a wrong halo, or the error of a call.
pub fn an_exchange_fails_behind_a_gate<D: Device>(
    comm: &Communicator,
    device: &D,
    [started, dropped]: [&Meeting; 2],
) -> Result<(), Failure> {
    if !has_gates_of_ranks(device) {
        return Ok(());
    }
    let stream = device.create_stream(Priority::Normal)?;
    let mut failing = between(comm, device, DataPath::Messages, &[[0, 2]])?;
    let mut waiting = between(comm, device, DataPath::Messages, &[[0, 1]])?;
    match comm.rank() {
        0 => {
            let second = failing.start_on(&stream)?;
            let first = waiting.start_on(&stream)?;
            first.finish_on(&stream)?;
            second.finish_on(&stream)?;
            started.come(comm);
            dropped.come(comm);
            device.synchronize(&stream)?;
            let failed = failing.synchronize();
            ensure!(failed.is_err(), "an exchange whose neighbour has dropped it has not failed");
        }
        1 => {
            started.come(comm);
            dropped.come(comm);
            thread::sleep(10 * WAITED);
            waiting.run_on(&stream)?;
        }
        _ => {
            started.come(comm);
            drop(failing);
            dropped.come(comm);
        }
    }
    if comm.rank() < 2 {
        waiting.synchronize()?;
        let found = waiting.fields().to_vec(0)?[1];
        ensure!(found == 8 - comm.rank() as i64, "the halo holds {found}");
    }
    comm.barrier()?;
    Ok(())
}

/// Collective, on three ranks that are threads: rank 2 drops two exchanges which others have finished on their streams; that of
/// rank 0 is held back until rank 1's stream has passed both. So exchanges that fail tell their neighbours before they wait for a stream.
/// On devices without such gates, does nothing.
///
/// # Errors
/// The stream of rank 1 waits for rank 0, an exchange that does not fail, or the error of a call.
pub fn exchanges_fail_at_once<D: Device>(
    comm: &Communicator,
    device: &D,
    handed: &HandedGate,
    [started, dropped]: [&Meeting; 2],
) -> Result<(), Failure> {
    if !has_gates_of_ranks(device) {
        return Ok(());
    }
    let stream = device.create_stream(Priority::Normal)?;
    let mut of_all = between(comm, device, DataPath::Direct, &[[0, 1], [0, 2]])?;
    let mut of_two = between(comm, device, DataPath::Direct, &[[1, 2]])?;
    match comm.rank() {
        0 => {
            handed.hand(TimedGate::new(gate(device, &stream)?));
            of_all.start_on(&stream)?.finish_on(&stream)?;
            started.come(comm);
            dropped.come(comm);
            device.synchronize(&stream)?;
        }
        1 => {
            let (first, second) = (of_all.start_on(&stream)?, of_two.start_on(&stream)?);
            first.finish_on(&stream)?;
            second.finish_on(&stream)?;
            started.come(comm);
            dropped.come(comm);
            device.synchronize(&stream)?;
            ensure!(handed.take()?.open()?, "rank 1's stream has waited for that of rank 0");
            ensure!(of_two.synchronize().is_err(), "an exchange of two ranks has not failed");
        }
        _ => {
            started.come(comm);
            drop((of_all, of_two));
            dropped.come(comm);
            return Ok(comm.barrier()?);
        }
    }
    ensure!(of_all.synchronize().is_err(), "an exchange of all ranks has not failed");
    comm.barrier()?;
    Ok(())
}
