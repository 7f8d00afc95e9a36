//! Contestants, and how they are timed.
//!
//! Contestants take turns, sample by sample, so that other load on the machine affects all of them alike. A sample is
//! a batch of exchanges between two barriers, from the first rank's begin to the last rank's end.

use std::sync::OnceLock;
use std::time::Instant;

use haloport::{Communicator, Reduction};

use super::boundary::Boundary;
use crate::command::failure::Failure;
use crate::command::launch::ranks_here;

/// A way to do a halo exchange, or a part of one.
pub(super) trait Contestant {
    /// Collective: makes `batch` exchanges, one after the other.
    ///
    /// # Errors
    /// [`Failure::Run`].
    fn run(&mut self, batch: usize) -> Result<(), Failure>;

    /// Rewrites the owned cells near the halo, as a step of a model does before an exchange. Not collective. The default does
    /// nothing, for contestants without fields.
    ///
    /// # Errors
    /// [`Failure::Run`].
    fn write(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Collective: makes one exchange into halos that hold a sentinel, and checks every halo cell. The default does
    /// nothing, for contestants that fill no halo.
    ///
    /// # Errors
    /// [`Failure::Run`].
    fn verify(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// A contestant, or the name of one that cannot take part.
pub(super) struct Entry<'a> {
    name: &'static str,
    contestant: Option<Box<dyn Contestant + 'a>>,
}

/// The samples of one contestant.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) name: &'static str,
    /// Exchanges in one sample.
    pub(super) batch: usize,
    /// Microseconds per exchange, with what is written before it, in the order of the rounds; empty if the contestant did not take
    /// part.
    pub(super) microseconds: Vec<f64>,
    /// Microseconds to write owned cells, without an exchange; empty if that was not asked for.
    pub(super) writing: Vec<f64>,
}

/// The duration of a sample, roughly: long beside a barrier, short beside other load on the machine.
const SAMPLE_SECONDS: f64 = 1.5e-3;

/// The same for ranks that take turns on cores: a sample counts the time until all of them have begun, and from the first one's end to
/// the last one's. With 8 ranks on 2 cores, an exchange took 90 (threads) and 106 µs (processes) in samples of 1.5 ms, 84 and 85 µs
/// in those of 10 ms.
const SAMPLE_SECONDS_IN_TURNS: f64 = 10e-3;

impl<'a> Entry<'a> {
    pub(super) fn new(name: &'static str, contestant: Option<Box<dyn Contestant + 'a>>) -> Entry<'a> {
        Entry { name, contestant }
    }

    /// Collective: see [`Contestant::verify`].
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(super) fn verify(&mut self) -> Result<(), Failure> {
        self.contestant.as_mut().map_or(Ok(()), |contestant| contestant.verify())
    }
}

/// Collective: times `samples` samples of each contestant, in turns.
///
/// # Errors
/// [`Failure::Run`] if a contestant fails, or the ranks cannot communicate.
pub(super) fn measure(
    comm: &Communicator,
    entries: &mut [Entry<'_>],
    samples: usize,
    boundary: Boundary,
) -> Result<Vec<Samples>, Failure> {
    let mut results: Vec<Samples> = entries
        .iter()
        .map(|entry| Samples { name: entry.name, batch: 0, microseconds: Vec::new(), writing: Vec::new() })
        .collect();
    // Twice: ranks that have just started may share a core until the system moves them apart.
    for _pass in 0..2 {
        for (entry, result) in entries.iter_mut().zip(&mut results) {
            if let Some(contestant) = &mut entry.contestant {
                result.batch = calibrate(comm, &mut **contestant, boundary)?;
                tracing::info!(rank = comm.rank(), contestant = entry.name, result.batch, "calibrated");
            }
        }
    }
    for _round in 0..samples {
        for (entry, result) in entries.iter_mut().zip(&mut results) {
            if let Some(contestant) = &mut entry.contestant {
                let each = 1e6 / result.batch as f64;
                result.microseconds.push(each * sample(comm, &mut **contestant, result.batch, boundary)?);
                if boundary == Boundary::Written {
                    result.writing.push(each * writing(comm, &mut **contestant, result.batch)?);
                }
            }
        }
    }
    Ok(results)
}

/// Collective: the number of exchanges in a sample, the same on every rank.
fn calibrate(
    comm: &Communicator,
    contestant: &mut dyn Contestant,
    boundary: Boundary,
) -> Result<usize, Failure> {
    let whole = if comm.info().crowded { SAMPLE_SECONDS_IN_TURNS } else { SAMPLE_SECONDS };
    let mut batch = 1;
    let mut seconds = quickest(comm, contestant, batch, boundary)?;
    while seconds < whole / 2.0 && batch < 1 << 20 {
        batch *= 2;
        seconds = quickest(comm, contestant, batch, boundary)?;
    }
    let right = (batch as f64 * whole / seconds.max(1e-9)).round() as usize;
    Ok(right.clamp(1, 1 << 20))
}

/// Collective: the quickest of a few samples, undisturbed by first accesses to pages and by other programs.
fn quickest(
    comm: &Communicator,
    contestant: &mut dyn Contestant,
    batch: usize,
    boundary: Boundary,
) -> Result<f64, Failure> {
    (0..5).try_fold(f64::INFINITY, |best, _| Ok(sample(comm, contestant, batch, boundary)?.min(best)))
}

/// Collective: the seconds of a batch of exchanges, with what is written before them.
fn sample(
    comm: &Communicator,
    contestant: &mut dyn Contestant,
    batch: usize,
    boundary: Boundary,
) -> Result<f64, Failure> {
    timed(comm, || match boundary {
        Boundary::Unchanged => contestant.run(batch),
        Boundary::Written => (0..batch).try_for_each(|_| {
            contestant.write()?;
            contestant.run(1)
        }),
    })
}

/// Collective: the seconds in which a batch is written, without exchanges.
fn writing(comm: &Communicator, contestant: &mut dyn Contestant, batch: usize) -> Result<f64, Failure> {
    timed(comm, || (0..batch).try_for_each(|_| contestant.write()))
}

/// Collective: the seconds from the time when the first rank starts until the last rank ends.
///
/// The longest time of any rank would be wrong: if two ranks take turns on one core, each may be quick by its own
/// clock.
fn timed(comm: &Communicator, run: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
    comm.barrier()?;
    let clock = Clock::new(comm);
    let begin = clock.seconds();
    run()?;
    let end = clock.seconds();
    Ok(comm.all_reduce(end, Reduction::Max)? - comm.all_reduce(begin, Reduction::Min)?)
}

/// A clock that all ranks share if they are threads of one process; otherwise it begins with each sample.
struct Clock(Instant);

impl Clock {
    fn new(comm: &Communicator) -> Clock {
        static FIRST_USE: OnceLock<Instant> = OnceLock::new();
        if ranks_here(comm) == comm.size() {
            Clock(*FIRST_USE.get_or_init(Instant::now))
        } else {
            Clock(Instant::now())
        }
    }

    fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
