//! Ranks as threads of this process.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use super::communicator::Communicator;
use super::wait::WaitLimits;
use crate::Error;
use crate::callback::panic_text;
use crate::error::write_with_causes;
use crate::lock::lock;
#[cfg(doc)]
use crate::transport::TransportError;
use crate::transport::{InProcess, World};

/// Why [`run_ranks`] or [`threads`] failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RanksError {
    /// A rank returned an error, before any other failed.
    #[error("rank {rank}: {error}")]
    Failed {
        /// The rank.
        rank: usize,
        /// Its error.
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A rank panicked, before any other failed.
    #[error("rank {rank} panicked: {message}")]
    Panicked {
        /// The rank.
        rank: usize,
        /// The message of the panic.
        message: String,
    },
    /// The ranks could not be started.
    #[error("{0}")]
    Start(String),
}

/// The text and its causes: what is printed if `main` returns the error.
impl fmt::Debug for RanksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_causes(self, f)
    }
}

/// The most ranks that may be threads of one process.
pub const MOST_RANKS: usize = 1 << 16;

/// Runs `body` on `ranks` ranks, each a thread of this process, and returns their results in the order of the ranks.
/// Blocks until all have ended.
///
/// If a rank panics or returns an error, the waits of all other ranks end with [`TransportError::PeerFailed`], which names
/// it. Within `body`, `?` takes any error: see [`Error`]. A rank that returns `Ok` has ended, as described at [`threads`].
///
/// [`threads`] makes the ranks for threads that the program starts itself.
///
/// ```
/// use haloport::{Reduction, run_ranks};
///
/// let sums = run_ranks(4, |comm| {
///     Ok(comm.all_reduce(comm.rank() as u64, Reduction::Sum)?)
/// })?;
/// assert_eq!(sums, [6, 6, 6, 6]);
/// # Ok::<(), haloport::comm::RanksError>(())
/// ```
///
/// # Errors
/// [`RanksError::Failed`] or [`Panicked`](RanksError::Panicked) for the rank that failed first;
/// [`Start`](RanksError::Start) if threads cannot be started, or if an environment variable with a limit of waiting
/// ([`Communicator`]) cannot be read.
pub fn run_ranks<T, F>(ranks: usize, body: F) -> Result<Vec<T>, RanksError>
where
    T: Send,
    F: Fn(Communicator) -> Result<T, Error> + Sync,
{
    run_with_results(ranks, &body)
}

/// The part of [`run_ranks`] that depends on the type of the results alone: programs have more bodies than types.
fn run_with_results<T: Send>(
    ranks: usize,
    body: &(dyn Fn(Communicator) -> Result<T, Error> + Sync),
) -> Result<Vec<T>, RanksError> {
    let (world, limits) = start(ranks)?;
    let results: Vec<Mutex<Option<T>>> = (0..ranks).map(|_| Mutex::default()).collect();
    run_threads(ranks, world, limits, &|comm| {
        let rank = comm.rank();
        let result = body(comm)?;
        *lock(&results[rank]) = Some(result);
        Ok(())
    })?;
    // All have returned one.
    Ok(results.into_iter().filter_map(|result| lock(&result).take()).collect())
}

/// The part that does not depend on types, which is compiled once.
fn run_threads(
    ranks: usize,
    world: Arc<World>,
    limits: WaitLimits,
    body: &(dyn Fn(Communicator) -> Result<(), Error> + Sync),
) -> Result<(), RanksError> {
    let ends = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(ranks);
        for rank in 0..ranks {
            let world_of_rank = Arc::clone(&world);
            let thread = std::thread::Builder::new()
                .name(format!("rank {rank}"))
                .spawn_scoped(scope, move || run_one(rank, world_of_rank, limits, body));
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    let why = format!("the thread of rank {rank} of {ranks} could not be started: {error}");
                    world.fail(rank, why.clone());
                    return Err(RanksError::Start(why));
                }
            }
        }
        // `run_one` catches the panics of `body`, so a join fails by a panic of `run_one` itself.
        Ok(threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| End::Panicked(panic_text(&*panic))))
            .collect::<Vec<_>>())
    })?;
    let first = world.failure().map(|(rank, _)| *rank);
    let mut failures = Vec::new();
    for (rank, end) in ends.into_iter().enumerate() {
        match end {
            End::Returned => {}
            End::Failed(error) => {
                failures.push((rank, RanksError::Failed { rank, error: error.into_inner() }))
            }
            End::Panicked(message) => failures.push((rank, RanksError::Panicked { rank, message })),
        }
    }
    let culprit = failures.iter().position(|(rank, _)| Some(*rank) == first).unwrap_or(0);
    if failures.is_empty() { Ok(()) } else { Err(failures.swap_remove(culprit).1) }
}

/// Makes the communicators of `ranks` ranks, in the order of the ranks, for threads that the program starts itself: it
/// moves each to a thread of its own. Does not wait for the threads.
///
/// ```
/// use haloport::comm::threads;
/// use haloport::Reduction;
///
/// let ranks = threads(4)?.into_iter().map(|comm| {
///     std::thread::spawn(move || comm.all_reduce(comm.rank() as u64, Reduction::Sum))
/// });
/// let ranks: Vec<_> = ranks.collect(); // all run before the first is joined
/// for rank in ranks {
///     assert_eq!(rank.join().unwrap()?, 6);
/// }
/// # Ok::<(), haloport::Error>(())
/// ```
///
/// # When a rank ends
/// A rank ends when the last handle to its communicator is dropped: clones, patterns, lines, exchanges, plans and
/// inserters hold one. Dropping an exchange in flight completes it first. What the rank has sent before is still
/// received. Later waits for it, and those under way, end with an error that names it:
///
/// - a collective call, which needs every rank, with [`TransportError::PeerEnded`];
/// - an exchange of halos with [`TransportError::PeerGaveUp`], if the rank is a neighbour;
/// - a round of a sparse exchange with [`SparseError::GivenUp`](crate::SparseError::GivenUp), if its neighbours are not
///   fixed, or if the rank is one of them.
///
/// Ranks that do not wait for it go on. If the thread of a rank panics, its communicator is dropped by the unwinding.
///
/// # Errors
/// [`RanksError::Start`], as for [`run_ranks`].
pub fn threads(ranks: usize) -> Result<Vec<Communicator>, RanksError> {
    let (world, limits) = start(ranks)?;
    let make = |rank| Communicator::with_limits(InProcess::new(rank, Arc::clone(&world)), limits);
    Ok((0..ranks).map(make).collect())
}

/// Makes what ranks as threads share, and reads their limits of waiting.
fn start(ranks: usize) -> Result<(Arc<World>, WaitLimits), RanksError> {
    if ranks == 0 || ranks > MOST_RANKS {
        return Err(RanksError::Start(format!("cannot start {ranks} ranks: expected 1 to {MOST_RANKS}")));
    }
    let limits = WaitLimits::from_environment().map_err(|error| RanksError::Start(error.to_string()))?;
    Ok((Arc::new(World::new(ranks)), limits))
}

/// How a rank ended.
enum End {
    Returned,
    Failed(Error),
    Panicked(String),
}

fn run_one(
    rank: usize,
    world: Arc<World>,
    limits: WaitLimits,
    body: &(dyn Fn(Communicator) -> Result<(), Error> + Sync),
) -> End {
    let comm = Communicator::with_limits(InProcess::new(rank, Arc::clone(&world)), limits);
    // The rank ends after its failure is known, so that others get the reason.
    let _held = comm.clone();
    // Unwind safe: of a body that panics, other ranks see `PeerFailed` alone.
    match catch_unwind(AssertUnwindSafe(|| body(comm))) {
        Ok(Ok(())) => End::Returned,
        Ok(Err(error)) => {
            world.fail(rank, error.to_string());
            End::Failed(error)
        }
        Err(panic) => {
            let message = panic_text(&*panic);
            world.fail(rank, format!("it panicked: {message}"));
            End::Panicked(message)
        }
    }
}
