//! Waiting: a rank spins if it has a core of its own; if ranks outnumber cores, it then sleeps until another one wakes it.

use std::time::Duration;

use haloport_core::TransportError;

use crate::node::bell::Bells;
use crate::raw::{Comm, Permit};

/// The numbers of rounds in which a rank with a core of its own spins, and then yields, for other programs. A round takes
/// about 0.1 µs.
const OWN_CORE: (u32, u32) = (2_000, 38_000);
/// The same for ranks that share cores: a rank that spins delays the others.
const SHARED_CORE: (u32, u32) = (4, 200);
/// The time for which a rank then sleeps in each round, unless another rank wakes it; the system adds about as much. Not
/// longer: large messages of MPI move on only while ranks poll.
const NAP: Duration = Duration::from_micros(50);

/// How this rank waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The numbers of rounds in which it spins, and then yields.
    spins: u32,
    yields: u32,
    /// The bells by which ranks that share cores wake each other.
    bells: Option<Bells>,
    /// Whether the ranks of the node outnumber its cores.
    pub(crate) crowded: bool,
}

impl Waiting {
    /// Collective among the ranks of a node: checks whether they outnumber its cores.
    pub(crate) fn new(permit: &Permit, node: Comm, bells: Option<Bells>) -> Result<Waiting, TransportError> {
        let crowded = is_crowded(permit, node)?;
        let (spins, yields) = if crowded { SHARED_CORE } else { OWN_CORE };
        Ok(Waiting { spins, yields, bells: bells.filter(|_| crowded), crowded })
    }

    /// Waits a little; see [`relax`](haloport_core::transport::Transport::relax).
    pub(crate) fn relax(&self, round: u32) {
        if round < self.spins {
            std::hint::spin_loop();
        } else if round - self.spins < self.yields {
            std::thread::yield_now();
        } else {
            match &self.bells {
                Some(bells) => bells.sleep(NAP),
                None => std::thread::sleep(NAP),
            }
        }
    }

    /// Wakes a rank that may wait for what this one has just done. If that rank has a core of its own or is on another
    /// node, does nothing: it polls.
    pub(crate) fn wake(&self, rank: usize) {
        if let Some(bells) = &self.bells {
            bells.call(rank);
        }
    }
}

/// Whether the ranks of `node` outnumber the cores that they may use. A launcher often binds each rank to some cores,
/// so the cores of all ranks count together.
fn is_crowded(permit: &Permit, node: Comm) -> Result<bool, TransportError> {
    let mine = my_cores();
    let all = node.or(permit, &mine)?;
    let together = all.iter().map(|word| word.count_ones() as usize).sum::<usize>();
    // A quota can be smaller than the number of cores. If ranks are bound to different cores, the quota of one says
    // nothing.
    let quota = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = if mine == all { quota } else { together };
    Ok(node.size(permit)? > cores)
}

/// The cores that this process may use, as bits; no bits if they are unknown.
#[cfg(target_os = "linux")]
fn my_cores() -> [u64; 16] {
    let mut cores = [0u64; 16];
    // SAFETY: the set of the calling thread is written into memory of the given size.
    let _ = unsafe { libc::sched_getaffinity(0, size_of_val(&cores), cores.as_mut_ptr().cast()) };
    cores
}

/// The cores that this process may use, as bits; no bits if they are unknown.
#[cfg(not(target_os = "linux"))]
fn my_cores() -> [u64; 16] {
    [0; 16]
}
