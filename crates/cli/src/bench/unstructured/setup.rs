//! The time to make the pattern, compared with sorting the rank's own ids and ten small all-to-all rounds.

use std::hint::black_box;

use haloport::{Communicator, HaloCells, IndexSet, Pattern};

use crate::bench::contestant::{Contestant, Entry};
use crate::command::failure::Failure;

/// The contestants: the pattern first.
pub(super) fn entries<'a>(comm: &Communicator, domain: &IndexSet) -> Vec<Entry<'a>> {
    let pattern = MakePattern { comm: comm.clone(), domain: domain.clone() };
    let sort = SortIds { ids: domain.ids().to_vec(), sorted: Vec::with_capacity(domain.len()) };
    vec![
        Entry::new("pattern", Some(Box::new(pattern))),
        Entry::new("sort_ids", Some(Box::new(sort))),
        Entry::new("ten_all_to_all", all_to_all(comm)),
    ]
}

struct MakePattern {
    comm: Communicator,
    domain: IndexSet,
}

impl Contestant for MakePattern {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        for _ in 0..batch {
            black_box(Pattern::unstructured(
                &self.comm,
                std::slice::from_ref(&self.domain),
                &HaloCells::All,
            )?);
        }
        Ok(())
    }
}

/// Sorts a copy of the ids, which are in the order of the rank's cells.
struct SortIds {
    ids: Vec<i64>,
    sorted: Vec<i64>,
}

impl Contestant for SortIds {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        for _ in 0..batch {
            self.sorted.clear();
            self.sorted.extend_from_slice(&self.ids);
            black_box(&mut self.sorted).sort_unstable();
        }
        Ok(())
    }
}

/// Ten rounds of 8 bytes from every rank to every rank; `None` without MPI.
#[cfg(feature = "mpi")]
fn all_to_all<'a>(comm: &Communicator) -> Option<Box<dyn Contestant + 'a>> {
    crate::command::launch::launched_by()?;
    let words = vec![0u64; comm.size()];
    Some(Box::new(AllToAll { sent: words.clone(), received: words }))
}

#[cfg(not(feature = "mpi"))]
fn all_to_all<'a>(_comm: &Communicator) -> Option<Box<dyn Contestant + 'a>> {
    None
}

#[cfg(feature = "mpi")]
struct AllToAll {
    sent: Vec<u64>,
    received: Vec<u64>,
}

#[cfg(feature = "mpi")]
impl Contestant for AllToAll {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        for _ in 0..10 * batch {
            // SAFETY: MPI runs, and this thread has initialised it.
            unsafe { haloport::mpi::plain::all_to_all(&self.sent, &mut self.received)? };
        }
        Ok(())
    }
}
