//! Children that a process forks: they see its shared memory as it was, and what they write there is theirs alone.
//!
//! Without this, a child (a worker of `multiprocessing`, a loader of training data) that changes what it takes for its
//! copy of an array changes the array of its parent. In the child, before anything else runs there, memory of its own with
//! the same content takes the place of the shared pages.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use super::mapping::make_private;

/// Shared pages of this process, of which children get copies as long as this exists.
#[derive(Debug)]
pub(super) struct CopiedInChildren {
    /// Where they begin, in `PAGES`.
    begins: Vec<usize>,
}

/// The addresses of pages that children copy: where they begin and end.
static PAGES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// The lock of `PAGES`, held by a thread that forks.
    static HELD: RefCell<Option<MutexGuard<'static, BTreeMap<usize, usize>>>> = const { RefCell::new(None) };
}

impl CopiedInChildren {
    /// Children copy these parts of the memory at `begin`, which are whole pages in ascending order. Must be dropped before they
    /// are unmapped.
    pub(super) fn new(parts: &[Range<usize>], begin: usize) -> CopiedInChildren {
        register();
        pages().extend(parts.iter().map(|part| (begin + part.start, begin + part.end)));
        CopiedInChildren { begins: parts.iter().map(|part| begin + part.start).collect() }
    }
}

impl Drop for CopiedInChildren {
    fn drop(&mut self) {
        let mut pages = pages();
        for begin in &self.begins {
            pages.remove(begin);
        }
    }
}

fn pages() -> MutexGuard<'static, BTreeMap<usize, usize>> {
    PAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the functions below called at each fork. If the system has no memory for that, children share the pages.
fn register() {
    static ONCE: Once = Once::new();
    // SAFETY: the functions have the right type, and exist as long as the code of this crate does. One thread runs in
    // the child, and it holds the lock of the list, so the list is complete there.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child));
    });
}

/// Keeps other threads from changing the list while this one forks.
unsafe extern "C" fn before() {
    // A thread that is ending has no such variable any more; its children share the pages.
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some(pages()));
}

unsafe extern "C" fn after_in_parent() {
    let _ = HELD.try_with(|held| held.borrow_mut().take());
}

unsafe extern "C" fn after_in_child() {
    let Ok(Some(pages)) = HELD.try_with(|held| held.borrow_mut().take()) else { return };
    for (begin, end) in pages.iter() {
        // Without memory for a copy, they stay shared.
        // SAFETY: the pages are mapped and readable: their owner removes them from the list before it unmaps them. No other
        // thread runs in a child.
        let _ = unsafe { make_private(&(*begin..*end)) };
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::process::Command;

    use crate::node::segment;

    /// A child process that writes to shared memory of its parent, between and behind pages that are not shared.
    #[test]
    fn a_child_changes_its_own_copy() {
        const PAGE: usize = 1 << 16;
        let lease = segment::make(5 * PAGE, &[0..8, 2 * PAGE..3 * PAGE, 5 * PAGE - 8..5 * PAGE]).unwrap();
        let dropped = segment::make(PAGE, std::slice::from_ref(&(0..PAGE))).unwrap();
        drop(dropped);
        let begin = lease.memory.pointer().as_ptr();
        let places = [0, 2 * PAGE, 3 * PAGE - 1, 4 * PAGE, 5 * PAGE - 1];
        // SAFETY: the places are in the memory, which is mapped, and nothing else uses it. The child calls nothing but
        // `_exit`; its parent waits for it.
        let (seen, code) = unsafe {
            places.iter().for_each(|place| begin.add(*place).write_volatile(7));
            match libc::fork() {
                0 => {
                    let before = places.iter().all(|place| begin.add(*place).read_volatile() == 7);
                    places.iter().for_each(|place| begin.add(*place).write_volatile(9));
                    let after = places.iter().all(|place| begin.add(*place).read_volatile() == 9);
                    libc::_exit(if before && after { 3 } else { 4 });
                }
                child => {
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &mut status, 0), child);
                    let seen: Vec<u8> =
                        places.iter().map(|place| begin.add(*place).read_volatile()).collect();
                    (seen, libc::WEXITSTATUS(status))
                }
            }
        };
        assert_eq!((&seen[..], code), (&[7; 5][..], 3));
    }

    /// The same where UCX has put its functions in the place of those of the C library, as in programs that are
    /// linked to an MPI that uses UCX.
    #[test]
    fn a_child_changes_its_own_copy_beside_ucx() {
        const UCX: &CStr = c"libucs.so.0";
        // SAFETY: the library's constructors have no conditions; it stays loaded.
        if unsafe { libc::dlopen(UCX.as_ptr(), libc::RTLD_LAZY) }.is_null() {
            println!("skipped: {UCX:?} is not installed (Debian's package libucx0)");
            return;
        }
        let test = "node::forks::tests::a_child_changes_its_own_copy";
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env("LD_PRELOAD", UCX.to_str().unwrap())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && printed.contains("1 passed"), "{printed}{run:?}");
    }
}
