//! Words of shared memory by which the ranks of a node wake each other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use haloport_core::transport::SharedMemory;

/// The words of this rank and of the ranks that share memory with it.
#[derive(Debug)]
pub(crate) struct Bells {
    mine: Bell,
    theirs: HashMap<usize, Bell>,
}

/// The word of one rank, in memory of that rank which the others have mapped.
#[derive(Debug)]
struct Bell {
    memory: SharedMemory,
}

/// The states of the word.
const AWAKE: u32 = 0;
/// The rank sleeps, or polls for the last time before it sleeps. A call that finds this state sets the other one.
const ASLEEP: u32 = 1;

impl Bells {
    /// In memory that ranks use for nothing else: that of this rank, and of the others by rank. `None` if there is no room
    /// for a word.
    pub(crate) fn new(mine: SharedMemory, theirs: Vec<(usize, SharedMemory)>) -> Option<Bells> {
        let theirs = theirs.into_iter().map(|(rank, memory)| Some((rank, Bell::new(memory)?)));
        Some(Bells { mine: Bell::new(mine)?, theirs: theirs.collect::<Option<_>>()? })
    }

    /// Sleeps until the next call of this rank, but at most for `nap`. The first time, and the first time after each
    /// call, it returns at once: what happened before the word was set is found by the poll that follows, and what
    /// happens later resets it.
    pub(crate) fn sleep(&self, nap: Duration) {
        self.mine.sleep(nap);
    }

    /// Wakes a rank, after the change that it waits for. Does nothing for ranks that share no memory with this one.
    pub(crate) fn call(&self, rank: usize) {
        if let Some(bell) = self.theirs.get(&rank) {
            bell.call();
        }
    }
}

impl Bell {
    fn new(memory: SharedMemory) -> Option<Bell> {
        memory.covers(0..size_of::<AtomicU32>()).then_some(Bell { memory })
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the memory is aligned, was initialised with 0 and is mapped as long as it is owned here; every process
        // accesses the word as an atomic alone.
        unsafe { AtomicU32::from_ptr(self.memory.pointer().as_ptr().cast()) }
    }

    fn sleep(&self, nap: Duration) {
        if self.word().swap(ASLEEP, Ordering::SeqCst) == ASLEEP {
            wait(self.word(), ASLEEP, nap);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    fn call(&self) {
        fence(Ordering::SeqCst);
        // Most ranks are awake: a read alone leaves the line in their caches.
        if self.word().load(Ordering::SeqCst) == ASLEEP && self.word().swap(AWAKE, Ordering::SeqCst) == ASLEEP
        {
            wake(self.word());
        }
    }
}

/// Sleeps while the word has this value, until it is woken, but at most for `nap`.
#[cfg(target_os = "linux")]
fn wait(word: &AtomicU32, value: u32, nap: Duration) {
    // Less than a second.
    let nap = libc::timespec { tv_sec: 0, tv_nsec: nap.subsec_nanos().into() };
    // SAFETY: the word and the time are valid; the system writes neither.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const nap) };
}

/// Wakes all threads that wait for this word, in any process.
#[cfg(target_os = "linux")]
fn wake(word: &AtomicU32) {
    // SAFETY: the word is valid; the system does not write it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Other systems have no memory that processes share.
#[cfg(not(target_os = "linux"))]
fn wait(_word: &AtomicU32, _value: u32, nap: Duration) {
    std::thread::sleep(nap);
}

#[cfg(not(target_os = "linux"))]
fn wake(_word: &AtomicU32) {}
