//! The atomics and the waiting of windows. In a model they are loom's, which tries every order of the two ends.

#[cfg(loom)]
pub(super) use model::*;
#[cfg(not(loom))]
pub(super) use real::*;

#[cfg(not(loom))]
mod real {
    use std::hint;
    pub(in super::super) use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    /// The rounds before the thread yields its core.
    const SPINS: u32 = 100;

    /// The longest wait for a process that may have ended.
    const LONG_WAIT: Duration = Duration::from_millis(100);

    /// A wait for the other end of a window.
    pub(in super::super) struct Wait {
        began: Instant,
        rounds: u32,
    }

    impl Wait {
        pub(in super::super) fn begin() -> Wait {
            Wait { began: Instant::now(), rounds: 0 }
        }

        pub(in super::super) fn pause(&mut self) {
            self.rounds = self.rounds.saturating_add(1);
            if self.rounds < SPINS { hint::spin_loop() } else { thread::yield_now() }
        }

        /// Whether it has taken longer than a running process needs.
        pub(in super::super) fn is_long(&self) -> bool {
            self.rounds > SPINS && self.began.elapsed() > LONG_WAIT
        }
    }

    /// Returns the atomic at this address.
    ///
    /// # Safety
    /// The address is valid, initialised, aligned, and accessed as an atomic alone, as long as the reference is used.
    pub(in super::super) unsafe fn word_at<'a>(address: *mut u8) -> &'a AtomicU32 {
        // SAFETY: the caller's promise.
        unsafe { AtomicU32::from_ptr(address.cast()) }
    }
}

#[cfg(loom)]
mod model {
    pub(in super::super) use loom::sync::atomic::{AtomicU32, Ordering};

    /// The rounds of a long wait: no time passes in a model, but the other end has had as many turns.
    const LONG_WAIT: u32 = 2;

    pub(in super::super) struct Wait {
        rounds: u32,
    }

    impl Wait {
        pub(in super::super) fn begin() -> Wait {
            Wait { rounds: 0 }
        }

        pub(in super::super) fn pause(&mut self) {
            self.rounds += 1;
            loom::thread::yield_now();
        }

        pub(in super::super) fn is_long(&self) -> bool {
            self.rounds >= LONG_WAIT
        }
    }

    /// Returns the atomic at this address.
    ///
    /// # Safety
    /// It exists as long as the reference is used.
    pub(in super::super) unsafe fn word_at<'a>(address: *mut u8) -> &'a AtomicU32 {
        // SAFETY: the caller's promise.
        unsafe { &*address.cast() }
    }
}
