//! The distance of two cores, which an exchange pays for and plain copies of a rank's own cells do not.
//!
//! Virtual machines move their cores while programs run, so a benchmark has to report it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use haloport::{Communicator, Reduction};
use haloport_core::transport::{Lease, SharedMemory};

use crate::command::failure::Failure;
use crate::command::launch::ranks_here;

/// Cache lines that are written and read: more than twice the first level of a cache, less than the second.
const LINES: usize = 1024;
/// Words of 8 bytes in a line.
const WORDS: usize = 8;
const TIMES: usize = 101;

/// The words for ranks that are threads of this process.
static HERE: [AtomicU64; LINES * WORDS] = [const { AtomicU64::new(0) }; LINES * WORDS];

/// Collective: the median time in nanoseconds that rank 0 takes to write a cache line that rank 1 has just read;
/// `None` if they share no memory. Takes a few milliseconds.
///
/// # Errors
/// [`Failure::Run`] if the ranks cannot communicate.
pub(super) fn handover(comm: &Communicator) -> Result<Option<f64>, Failure> {
    if comm.size() < 2 {
        return Ok(None);
    }
    if ranks_here(comm) == comm.size() {
        return among(comm, Some(&HERE));
    }
    // SAFETY: it is used only to share memory.
    let transport = unsafe { comm.raw_transport() };
    let lease = (comm.rank() == 0).then(|| transport.share(size_of_val(&HERE))).flatten();
    let token = lease.as_ref().map(|lease| lease.token.clone()).unwrap_or_default();
    let token = comm.broadcast(0, &token)?;
    let mapped = match comm.rank() {
        1 if !token.is_empty() => transport.map(0, &token)?,
        _ => None,
    };
    let memory = lease.as_ref().map(|Lease { memory, .. }| memory).or(mapped.as_ref());
    among(comm, memory.and_then(words))
}

/// Collective: as [`handover`], on the words of ranks 0 and 1.
fn among(comm: &Communicator, words: Option<&[AtomicU64]>) -> Result<Option<f64>, Failure> {
    let missing = (comm.rank() < 2 && words.is_none()).then(|| "no memory".to_owned());
    if comm.agree(missing)?.is_err() {
        return Ok(None);
    }
    let words = words.unwrap_or_default();
    let mut nanoseconds = Vec::with_capacity(TIMES);
    for time in 1..=TIMES as u64 {
        comm.barrier()?;
        if comm.rank() == 0 {
            let begin = Instant::now();
            words.iter().for_each(|word| word.store(time, Ordering::Relaxed));
            nanoseconds.push(begin.elapsed().as_nanos() as f64 / LINES as f64);
        }
        comm.barrier()?;
        if comm.rank() == 1 {
            words.iter().step_by(WORDS).for_each(|word| {
                std::hint::black_box(word.load(Ordering::Relaxed));
            });
        }
    }
    nanoseconds.sort_by(f64::total_cmp);
    let median = nanoseconds.get(TIMES / 2).copied().unwrap_or(0.0);
    Ok(Some(comm.all_reduce(median, Reduction::Max)?))
}

/// The words in memory that processes share; `None` if it is too short.
fn words(memory: &SharedMemory) -> Option<&[AtomicU64]> {
    let begin = memory.pointer().as_ptr().cast::<AtomicU64>();
    // SAFETY: the length is checked, so the bytes are shared, readable, writable, initialised and aligned as long as
    // the memory lives. Both processes access them only as atomics.
    memory.covers(0..size_of_val(&HERE)).then(|| unsafe { std::slice::from_raw_parts(begin, HERE.len()) })
}
