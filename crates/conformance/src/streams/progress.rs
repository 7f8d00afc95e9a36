//! The thread that makes progress for all ranks of a process.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use haloport_core::device::{Device, Priority};
use haloport_core::{BindOptions, Communicator, DataPath, Exchange, Field, Pattern, Progress};

use super::gate::{TimedGate, gate};
use super::ring::RankRing;
use crate::{Failure, ensure};

const CELLS: usize = 64;

/// In each of them, the thread of the process may come before the rank that waits, or after it.
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

/// Collective, on three ranks that are threads: rank 0 has finished two exchanges on one stream, and the second one fails while
/// the first one waits for its neighbour. So the thread that ends the second one does not wait for the stream before the gate of the
/// first one is open. On devices without such gates, does nothing.
///
/// # Errors
/// The second exchange does not fail, a wrong halo, or the error of a call.
pub fn an_exchange_fails_behind_a_gate<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    if !has_gates_of_ranks(device) {
        return Ok(());
    }
    let stream = device.create_stream(Priority::Normal)?;
    // A cell for each of two ranks, and that of the other one behind it.
    let bind = |other: usize| -> Result<Exchange<Field<i64, D>>, Failure> {
        let neighbour = [if comm.rank() == 0 { other } else { 0 }];
        let neighbours = if [0, other].contains(&comm.rank()) { &neighbour[..] } else { &[] };
        let list = |cell: u32| neighbours.iter().map(|rank| (*rank, [cell])).collect::<Vec<_>>();
        let pattern = Pattern::from_lists(comm, 2, &list(0), &list(1))?;
        let mut field = Field::<i64, D>::new(device, &pattern)?;
        field.copy_from(0, &[7 + comm.rank() as i64, 0])?;
        Ok(pattern.bind_with(field, BindOptions::default().path(DataPath::Messages))?)
    };
    let (mut failing, mut waiting) = (bind(2)?, bind(1)?);
    match comm.rank() {
        0 => {
            let second = failing.start_on(&stream)?;
            let first = waiting.start_on(&stream)?;
            first.finish_on(&stream)?;
            second.finish_on(&stream)?;
            comm.barrier()?;
            device.synchronize(&stream)?;
            let failed = failing.synchronize();
            ensure!(failed.is_err(), "an exchange whose neighbour has dropped it has not failed");
        }
        1 => {
            comm.barrier()?;
            thread::sleep(10 * WAITED);
            waiting.run_on(&stream)?;
        }
        _ => {
            comm.barrier()?;
            drop(failing);
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
