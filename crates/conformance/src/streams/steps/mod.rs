//! Steps that are recorded once and replayed, held against the same steps with `overlap`, and against a whole
//! grid on the host.

mod solver;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haloport_core::device::{Device, Priority};
use haloport_core::{Communicator, DataPath, Schedule};

use crate::{Failure, ensure};
pub(crate) use solver::KERNELS;
use solver::{Solver, verify};

/// How often a step is replayed.
const STEPS: usize = 13;

/// Collective: steps replayed many times on streams of either kind, by every way of data, are those of
/// `overlap` bit for bit; also when the host looks at the field in between, when another exchange goes on
/// beside it in turns, when they are recorded anew, and when they are dropped or forgotten with a replay in
/// flight. What fails when it is recorded or replayed leaves an exchange that goes on. Gives the number of
/// those that were captured.
///
/// # Errors
/// A wrong cell, or the error of a call.
pub fn suite<D: Device>(comm: &Communicator, device: &D) -> Result<usize, Failure> {
    let own = device.create_stream(Priority::Normal)?;
    let default = device.default_stream();
    let mut captured = 0;
    for path in [DataPath::Quickest, DataPath::Messages, DataPath::Direct] {
        for stream in [&own, &default] {
            let named = |what: &str, error: Failure| format!("{what}, {path}, on {stream:?}: {error}");
            captured += usize::from(
                many_replays(comm, device, path, stream).map_err(|error| named("many replays", error))?,
            );
            two_in_turns(comm, device, path, stream).map_err(|error| named("two in turns", error))?;
            ends(comm, device, path, stream).map_err(|error| named("ends", error))?;
            failures(comm, device, path, stream).map_err(|error| named("failures", error))?;
        }
    }
    Ok(captured)
}

/// Collective: what a device that captures work captures: steps on a stream that was made, whose halos come
/// in messages. For the others there is a reason.
///
/// # Errors
/// What is captured and should not be, or the other way round.
pub fn capturing<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    let own = device.create_stream(Priority::Normal)?;
    let default = device.default_stream();
    let mut solver = Solver::new(comm, device, DataPath::Messages, &own)?;
    let step = solver.record(Schedule::On(&own))?;
    ensure!(
        step.is_captured() && step.fallback_reason().is_none(),
        "not captured: {:?}",
        step.fallback_reason()
    );
    drop(step);
    for (schedule, word) in [(Schedule::Blocking, "Blocking"), (Schedule::On(&default), "default stream")] {
        let step = solver.record(schedule)?;
        let why = step.fallback_reason().unwrap_or("it is captured");
        ensure!(!step.is_captured() && why.contains(word), "{schedule:?}: {why}");
    }
    drop(solver);
    let mut direct = Solver::new(comm, device, DataPath::Direct, &own)?;
    let step = direct.record(Schedule::On(&own))?;
    let why = step.fallback_reason().unwrap_or_default();
    ensure!(step.is_captured() || why.contains("neighbours lend"), "with memory of neighbours: {why}");
    Ok(())
}

/// Collective: a neighbour that does not replay, for so long as the time limit of this communicator is: the
/// stream of rank 0 goes on, and its next call names the neighbour. Leaves ranks with different counts of
/// exchanges, so that nothing else is done with `comm` afterwards.
///
/// # Errors
/// What went otherwise.
pub fn silent_neighbour<D: Device>(
    comm: &Communicator,
    device: &D,
    told: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut solver = Solver::new(comm, device, DataPath::Messages, &stream)?;
    let mut step = solver.record(Schedule::On(&stream))?;
    comm.barrier()?;
    if comm.rank() != 0 {
        let begin = Instant::now();
        while !told.load(Ordering::SeqCst) && begin.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        return Ok(());
    }
    let replayed = step.replay();
    // Not for ever: what holds it back is opened all the same.
    let synchronised = device.synchronize(&stream);
    let ended = replayed.and_then(|()| Ok(step.synchronize()?));
    told.store(true, Ordering::SeqCst);
    synchronised?;
    let said = ended.as_ref().err().map(ToString::to_string).unwrap_or_default();
    ensure!(said.contains("rank "), "a step without its neighbour gave {ended:?}");
    let again = step.replay();
    ensure!(again.is_err(), "a poisoned step was replayed");
    Ok(())
}

/// Whether it was captured.
fn many_replays<D: Device>(
    comm: &Communicator,
    device: &D,
    path: DataPath,
    stream: &D::Stream,
) -> Result<bool, Failure> {
    let mut overlapped = Solver::new(comm, device, path, stream)?;
    (0..STEPS).try_for_each(|_| overlapped.overlap(Schedule::On(stream)))?;
    device.synchronize(stream)?;
    overlapped.verify(STEPS)?;

    let mut solver = Solver::new(comm, device, path, stream)?;
    let mut step = solver.record(Schedule::On(stream))?;
    let captured = step.is_captured();
    comm.barrier()?;
    for number in 1..=STEPS {
        step.replay()?;
        if number % 5 == 0 {
            // Access from the host waits for all of a captured step, and for no more than the halos of another one.
            if !captured {
                step.synchronize()?;
                device.synchronize(stream)?;
            }
            verify(step.fields(), number)?;
        }
    }
    device.synchronize(stream)?;
    ensure!(
        step.fields().to_vec(0)? == overlapped.exchange.fields().to_vec(0)?,
        "not the field that `overlap` leaves"
    );
    drop(step);
    // The exchange goes on by itself, and is recorded anew.
    (0..2).try_for_each(|_| solver.overlap(Schedule::On(stream)))?;
    comm.barrier()?;
    let mut step = solver.record(Schedule::On(stream))?;
    comm.barrier()?;
    (0..3).try_for_each(|_| step.replay())?;
    drop(step);
    device.synchronize(stream)?;
    solver.verify(STEPS + 5)?;
    comm.barrier()?;
    Ok(captured)
}

/// Two steps of two exchanges in one stream.
fn two_in_turns<D: Device>(
    comm: &Communicator,
    device: &D,
    path: DataPath,
    stream: &D::Stream,
) -> Result<(), Failure> {
    let mut solvers = [Solver::new(comm, device, path, stream)?, Solver::new(comm, device, path, stream)?];
    {
        let [one, two] = &mut solvers;
        let mut steps = [one.record(Schedule::On(stream))?, two.record(Schedule::On(stream))?];
        comm.barrier()?;
        for _ in 0..STEPS {
            steps.iter_mut().try_for_each(|step| step.replay())?;
        }
    }
    device.synchronize(stream)?;
    solvers.iter().try_for_each(|solver| solver.verify(STEPS))?;
    comm.barrier()?;
    Ok(())
}

/// Steps that end with a replay in flight.
fn ends<D: Device>(
    comm: &Communicator,
    device: &D,
    path: DataPath,
    stream: &D::Stream,
) -> Result<(), Failure> {
    let mut solver = Solver::new(comm, device, path, stream)?;
    for is_forgotten in [false, true] {
        let mut step = solver.record(Schedule::On(stream))?;
        comm.barrier()?;
        step.replay()?;
        if is_forgotten {
            std::mem::forget(step);
        }
    }
    solver.exchange.synchronize()?;
    solver.overlap(Schedule::On(stream))?;
    device.synchronize(stream)?;
    solver.verify(3)?;
    // With an exchange, too. It waits for what it has put into streams itself.
    let mut step = solver.record(Schedule::On(stream))?;
    comm.barrier()?;
    step.replay()?;
    if !step.is_captured() {
        device.synchronize(stream)?;
    }
    std::mem::forget(step);
    drop(solver);
    device.synchronize(stream)?;
    comm.barrier()?;
    Ok(())
}

/// Work that fails when it is recorded, or, where it is not captured, when it is replayed.
fn failures<D: Device>(
    comm: &Communicator,
    device: &D,
    path: DataPath,
    stream: &D::Stream,
) -> Result<(), Failure> {
    let mut solver = Solver::new(comm, device, path, stream)?;
    for fails_inside in [true, false] {
        let came = Cell::new(0);
        let fail = |now: bool| -> Result<(), Failure> {
            came.set(came.get() + 1);
            if now { Err("it was made to fail".into()) } else { Ok(()) }
        };
        // SAFETY: nothing is put into streams.
        let recorded = unsafe {
            solver.exchange.record(
                Schedule::On(stream),
                (),
                |_, ()| fail(fails_inside),
                |_, ()| fail(!fails_inside),
            )
        };
        let said = match recorded.and_then(|mut step| step.replay()) {
            Ok(()) => "nothing".into(),
            Err(error) => error.to_string(),
        };
        ensure!(said == "it was made to fail", "work that fails gave {said}");
        ensure!(came.get() == if fails_inside { 1 } else { 2 }, "both functions came {} times", came.get());
    }
    comm.barrier()?;
    solver.overlap(Schedule::On(stream))?;
    device.synchronize(stream)?;
    solver.verify(1)?;
    comm.barrier()?;
    Ok(())
}
