//! A bound exchange allocates nothing after its first call.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::*;
use haloport_core::*;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of all ranks during 100 exchanges that follow a first one.
fn allocations(ranks: usize, path: DataPath, borrowed: bool) -> usize {
    let counts = run_ranks(ranks, |comm| -> Result<usize, Failure> {
        let pattern = line(&comm)?;
        let device = device()?;
        let layout = Numbers::new(&device, &pattern)?.layout(0)?.clone();
        let mut memory = [0.0; 6];
        let owned = (Numbers::new(&device, &pattern)?, Field::<i16, _>::new(&device, &pattern)?);
        let options = BindOptions::default().path(path);
        if borrowed {
            let field = BorrowedField::new(&device, vec![(&mut memory[..], layout)])?;
            count(&comm, &mut pattern.bind_with((owned, field), options)?)
        } else {
            count(&comm, &mut pattern.bind_with(owned, options)?)
        }
    })
    .unwrap();
    counts[0]
}

fn count<F: FieldSet>(comm: &Communicator, exchange: &mut Exchange<F>) -> Result<usize, Failure> {
    exchange.exchange(Schedule::DefaultStream)?;
    // Barriers may allocate, so no rank may be in one while another counts: all are in exchanges, which order them.
    comm.barrier()?;
    exchange.exchange(Schedule::DefaultStream)?;
    exchange.exchange(Schedule::DefaultStream)?;
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    for _ in 0..100 {
        exchange.exchange(Schedule::Blocking)?;
        let pending = exchange.start(Schedule::DefaultStream)?;
        let _ = pending.is_ready();
        pending.finish(Schedule::DefaultStream)?;
    }
    let after = ALLOCATIONS.load(Ordering::SeqCst);
    exchange.exchange(Schedule::DefaultStream)?;
    exchange.exchange(Schedule::DefaultStream)?;
    comm.barrier()?;
    Ok(after - before)
}

#[test]
fn a_bound_exchange_allocates_nothing_after_the_first_call() {
    let nothing = ALLOCATIONS.load(Ordering::SeqCst);
    drop(vec![1u8]);
    assert!(ALLOCATIONS.load(Ordering::SeqCst) > nothing, "the counter does not count");
    for ranks in [1, 2, 3] {
        for (path, borrowed) in
            [(DataPath::Quickest, false), (DataPath::Messages, false), (DataPath::Quickest, true)]
        {
            assert_eq!(
                allocations(ranks, path, borrowed),
                0,
                "{ranks} ranks, path {path:?}, borrowed {borrowed}"
            );
        }
    }
}
