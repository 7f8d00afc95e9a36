//! Steps that are recorded once and replayed, compared with the same steps by `overlap` and with a whole grid on the
//! host.

mod solver;

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haloport_core::device::{Device, Priority};
use haloport_core::exchange::CopiedBy;
use haloport_core::{BindOptions, Communicator, DataPath, Schedule, run_ranks};

use super::gate::wait_until_set;
use crate::setting::drawn;
use crate::{Failure, ensure};
pub(crate) use solver::KERNELS;
use solver::{Solver, verify};

/// How often a step is replayed.
const STEPS: usize = 13;

/// How the exchange of a step is bound.
type Options = fn() -> BindOptions;

/// Data paths by name.
const PATHS: [(&str, Options); 5] = [
    ("by the quickest path", BindOptions::default),
    ("in messages", in_messages),
    ("in messages that are moved by a copy", || in_messages().staging_copy(0)),
    ("straight from fields", || BindOptions::default().path(DataPath::Direct).copied_by(CopiedBy::Receiver)),
    ("straight to halos", || BindOptions::default().path(DataPath::Direct).copied_by(CopiedBy::Sender)),
];

fn in_messages() -> BindOptions {
    BindOptions::default().path(DataPath::Messages)
}

/// Collective: replayed steps equal those of `overlap` bit for bit, on both kinds of streams and by every data path; in the
/// default set of tests, on the default stream by one of them ([`drawn`]).
/// They do so too if the host reads the field in between, if two exchanges are replayed in turns, if a step is recorded
/// anew, and if it is dropped or forgotten with a replay in flight. If recording or replaying fails, the exchange can
/// still be used. Returns the number of steps that were captured.
///
/// # Errors
/// A wrong cell, or the error of a call.
pub fn suite<D: Device>(comm: &Communicator, device: &D) -> Result<usize, Failure> {
    let own = device.create_stream(Priority::Normal)?;
    let default = device.default_stream();
    let mut captured = 0;
    let on_default = drawn(&PATHS);
    for (path, options) in PATHS {
        let is_drawn = on_default.iter().any(|&(other, _)| other == path);
        for stream in [Some(&own), is_drawn.then_some(&default)].into_iter().flatten() {
            let named = |what: &str, error: Failure| format!("{what}, {path}, on {stream:?}: {error}");
            captured += usize::from(
                many_replays(comm, device, options, stream).map_err(|error| named("many replays", error))?,
            );
            two_in_turns(comm, device, options, stream).map_err(|error| named("two in turns", error))?;
            ends(comm, device, options, stream).map_err(|error| named("ends", error))?;
            failures(comm, device, options, stream).map_err(|error| named("failures", error))?;
        }
    }
    Ok(captured)
}

/// Collective, for a device that captures work: it captures steps on a stream that was made, if halos come in messages.
/// Other steps name a reason.
///
/// # Errors
/// A step that is captured and should not be, or the other way round.
pub fn capturing<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    let own = device.create_stream(Priority::Normal)?;
    let default = device.default_stream();
    let mut solver = Solver::new(comm, device, in_messages, &own)?;
    let step = solver.record(&own)?;
    // Ranks that share a device and the queues of its hardware capture nothing, and no rank where launches wait.
    let cannot = |why: &str| match device.info().capabilities.capture {
        true => comm.size() > 1 && why.contains("share queues"),
        false => why.contains("does not capture"),
    };
    let why = step.fallback_reason().unwrap_or_default();
    ensure!(step.is_captured() && why.is_empty() || cannot(why), "not captured: {why}");
    drop(step);
    for (schedule, word) in [(Schedule::Blocking, "Blocking"), (Schedule::On(&default), "default stream")] {
        let step = solver.record(schedule)?;
        let why = step.fallback_reason().unwrap_or("it is captured");
        ensure!(!step.is_captured() && (why.contains(word) || cannot(why)), "{schedule:?}: {why}");
    }
    drop(solver);
    let mut direct = Solver::new(comm, device, || BindOptions::default().path(DataPath::Direct), &own)?;
    let step = direct.record(&own)?;
    let why = step.fallback_reason().unwrap_or_default();
    ensure!(
        step.is_captured() || why.contains("neighbours lend") || cannot(why),
        "with memory of neighbours: {why}"
    );
    Ok(())
}

/// Runs the suite on these numbers of ranks, on a device that captures steps or on one that does not.
///
/// # Errors
/// As for [`suite`]; and steps that are captured and should not be, or none that are.
pub fn suite_on_ranks<D: Device>(
    device: &D,
    counts: RangeInclusive<usize>,
    captures: bool,
) -> Result<(), Failure> {
    for ranks in counts {
        let captured = run_ranks(ranks, |comm| suite(&comm, device))?;
        println!("{ranks} ranks: {captured:?} ways of a step were captured");
        // Ranks that share a device and its queues capture none.
        let info = device.info();
        let captures = captures && info.capabilities.capture && (ranks == 1 || !info.shared_queues);
        ensure!(
            captured.iter().all(|count| (*count > 0) == captures),
            "{ranks} ranks: {captured:?} ways of a step were captured, on a device that captures: {captures}"
        );
    }
    Ok(())
}

/// On two ranks, rank 1 does not replay until the time limit has passed: the stream of rank 0 goes on, and its next call
/// names rank 1.
///
/// # Errors
/// What went otherwise.
pub fn silent_neighbour<D: Device>(device: &D) -> Result<(), Failure> {
    let told = AtomicBool::new(false);
    run_ranks(2, |comm| waits_for_a_replay(&comm, device, &told))?;
    Ok(())
}

/// Rank 0 replays a step, the others do not. Sets `told` when rank 0 has its error.
fn waits_for_a_replay<D: Device>(comm: &Communicator, device: &D, told: &AtomicBool) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut solver = Solver::new(comm, device, in_messages, &stream)?;
    let mut step = solver.record(&stream)?;
    comm.barrier()?;
    comm.set_time_limit(Some(Duration::from_millis(300)));
    if comm.rank() != 0 {
        wait_until_set(told);
        return Ok(());
    }
    let replayed = step.replay();
    // Returns in time: what holds the stream back is opened all the same.
    let synchronised = device.synchronize(&stream);
    let ended = replayed.and_then(|()| Ok(step.synchronize()?));
    told.store(true, Ordering::SeqCst);
    synchronised?;
    let text = ended.as_ref().err().map(ToString::to_string).unwrap_or_default();
    ensure!(text.contains("rank "), "a step without its neighbour gave {ended:?}");
    ensure!(step.replay().is_err(), "a poisoned step was replayed");
    Ok(())
}

/// Returns whether the step was captured.
fn many_replays<D: Device>(
    comm: &Communicator,
    device: &D,
    options: Options,
    stream: &D::Stream,
) -> Result<bool, Failure> {
    let mut overlapped = Solver::new(comm, device, options, stream)?;
    (0..STEPS).try_for_each(|_| overlapped.overlap_on(stream))?;
    device.synchronize(stream)?;
    overlapped.verify(STEPS)?;

    let mut solver = Solver::new(comm, device, options, stream)?;
    let mut step = solver.record(stream)?;
    let captured = step.is_captured();
    comm.barrier()?;
    for number in 1..=STEPS {
        step.replay()?;
        if number % 5 == 0 {
            // Access from the host waits for all of a captured step, but only for the halos of another one.
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
    // The exchange can be used without the step, and recorded anew.
    (0..2).try_for_each(|_| solver.overlap_on(stream))?;
    comm.barrier()?;
    let mut step = solver.record(stream)?;
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
    options: Options,
    stream: &D::Stream,
) -> Result<(), Failure> {
    let mut solvers =
        [Solver::new(comm, device, options, stream)?, Solver::new(comm, device, options, stream)?];
    {
        let [one, two] = &mut solvers;
        let mut steps = [one.record(stream)?, two.record(stream)?];
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

/// Steps that are dropped or forgotten with a replay in flight.
fn ends<D: Device>(
    comm: &Communicator,
    device: &D,
    options: Options,
    stream: &D::Stream,
) -> Result<(), Failure> {
    let mut solver = Solver::new(comm, device, options, stream)?;
    for is_forgotten in [false, true] {
        let mut step = solver.record(stream)?;
        comm.barrier()?;
        step.replay()?;
        if is_forgotten {
            std::mem::forget(step);
        }
    }
    solver.exchange.synchronize()?;
    solver.overlap_on(stream)?;
    device.synchronize(stream)?;
    solver.verify(3)?;
    // The exchange is dropped as well; it waits for the work that it has put into streams itself.
    let mut step = solver.record(stream)?;
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

/// Work that fails when it is recorded or, if it is not captured, when it is replayed.
fn failures<D: Device>(
    comm: &Communicator,
    device: &D,
    options: Options,
    stream: &D::Stream,
) -> Result<(), Failure> {
    let mut solver = Solver::new(comm, device, options, stream)?;
    for fails_inside in [true, false] {
        let calls = Cell::new(0);
        let fail = |now: bool| -> Result<(), Failure> {
            calls.set(calls.get() + 1);
            if now { Err("it was made to fail".into()) } else { Ok(()) }
        };
        // SAFETY: nothing is put into streams.
        let recorded = unsafe {
            solver.exchange.record(stream, (), |_, ()| fail(fails_inside), |_, ()| fail(!fails_inside))
        };
        let text = match recorded.and_then(|mut step| step.replay()) {
            Ok(()) => "nothing".into(),
            Err(error) => error.to_string(),
        };
        ensure!(text == "it was made to fail", "work that fails gave {text}");
        ensure!(
            calls.get() == if fails_inside { 1 } else { 2 },
            "the functions were called {} times",
            calls.get()
        );
    }
    comm.barrier()?;
    solver.overlap_on(stream)?;
    device.synchronize(stream)?;
    solver.verify(1)?;
    comm.barrier()?;
    Ok(())
}
