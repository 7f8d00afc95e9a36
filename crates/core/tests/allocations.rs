//! Exchanges allocate nothing after their first call.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::*;
use haloport_core::device::{Combine, Pointer};
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

/// Allocations of all ranks during 100 exchanges after a first one.
fn allocations(ranks: usize, path: DataPath, borrowed: bool) -> usize {
    let counts = run_ranks(ranks, |comm| -> Result<usize, Failure> {
        let pattern = line(&comm)?;
        let device = device()?;
        let layout = Numbers::new(&device, &pattern)?.layout(0)?.clone();
        let mut memory = [0.0; 6];
        let owned = (Numbers::new(&device, &pattern)?, Field::<i16, _>::new(&device, &pattern)?);
        let options = BindOptions::default().prefer(path);
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
    exchange.run()?;
    // Barriers may allocate, so no rank may be in a barrier while another one counts. Exchanges order the ranks here.
    comm.barrier()?;
    exchange.run()?;
    exchange.run()?;
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    for _ in 0..100 {
        exchange.run_blocking()?;
        let pending = exchange.start()?;
        let _ = pending.is_ready();
        pending.finish()?;
    }
    let after = ALLOCATIONS.load(Ordering::SeqCst);
    exchange.run()?;
    exchange.run()?;
    comm.barrier()?;
    Ok(after - before)
}

/// Allocations of all ranks during 100 exchanges that add halos to their owners.
fn allocations_of_accumulation(ranks: usize, path: DataPath) -> usize {
    let counts = run_ranks(ranks, |comm| -> Result<usize, Failure> {
        let pattern = line(&comm)?;
        let device = device()?;
        let fields = (Numbers::new(&device, &pattern)?, Field::<i16, _>::new(&device, &pattern)?);
        let options = BindOptions::default().accumulate(Combine::Sum).zero_halo(true).prefer(path);
        count(&comm, &mut pattern.bind_with(fields, options)?)
    })
    .unwrap();
    counts[0]
}

/// Allocations of all ranks during 100 exchanges of a plan, to which fields and memory change at each start.
fn allocations_of_plans(ranks: usize) -> usize {
    let counts = run_ranks(ranks, |comm| -> Result<usize, Failure> {
        let pattern = line(&comm)?;
        let device = device()?;
        let (mut u, mut v) = (Numbers::new(&device, &pattern)?, Numbers::new(&device, &pattern)?);
        let layout = u.layout(0)?.clone();
        let mut memory = [[0.0; 6]; 2];
        let mut plan =
            pattern.plan((&mut u, BorrowedField::new(&device, [(&mut memory[0][..], layout.clone())])?))?;
        let mut exchange = |round: usize| -> Result<(), Failure> {
            let lent = BorrowedField::new(&device, [(&mut memory[round % 2][..], layout.clone())])?;
            plan.start((&mut u, lent))?.finish()?;
            std::mem::swap(&mut u, &mut v);
            Ok(())
        };
        exchange(0)?;
        comm.barrier()?;
        exchange(1)?;
        exchange(2)?;
        let before = ALLOCATIONS.load(Ordering::SeqCst);
        (3..103).try_for_each(&mut exchange)?;
        let after = ALLOCATIONS.load(Ordering::SeqCst);
        exchange(103)?;
        exchange(104)?;
        comm.barrier()?;
        Ok(after - before)
    })
    .unwrap();
    counts[0]
}

/// Allocations of all ranks during 100 exchanges of a plan to which other addresses are passed each time, two in flight.
fn allocations_of_plans_at_addresses(ranks: usize) -> usize {
    let counts = run_ranks(ranks, |comm| -> Result<usize, Failure> {
        let pattern = line(&comm)?;
        let field = FieldLayout::new(&device()?, ElementType::F64, Numbers::builder(&pattern).layouts()?);
        let mut plan = pattern.plan_layouts(&[field], BindOptions::default().in_flight(2))?;
        let mut memory = [[0.0_f64; 6]; 4];
        let mut exchange = |round: usize| -> Result<(), Failure> {
            let mut start = |number: usize| {
                let values =
                    [Pointer::new(memory[(round + comm.rank() + 2 * number) % 4].as_mut_ptr().cast())];
                // SAFETY: the values have the layout of the plan, and are not used before the exchange is finished.
                unsafe { plan.start_at(&values, Schedule::DefaultStream) }
            };
            let tickets = [start(0)?, start(1)?];
            tickets.into_iter().try_for_each(|ticket| plan.finish(ticket, Schedule::DefaultStream))?;
            Ok(())
        };
        exchange(0)?;
        comm.barrier()?;
        exchange(1)?;
        exchange(2)?;
        let before = ALLOCATIONS.load(Ordering::SeqCst);
        (3..103).try_for_each(&mut exchange)?;
        let after = ALLOCATIONS.load(Ordering::SeqCst);
        exchange(103)?;
        exchange(104)?;
        comm.barrier()?;
        Ok(after - before)
    })
    .unwrap();
    counts[0]
}

/// Allocations of all ranks during 100 redistributions from rows to columns.
fn allocations_of_redistributions(ranks: usize) -> usize {
    let counts = run_ranks(ranks, |comm| -> Result<usize, Failure> {
        let grid = Grid::new([12, 12])?;
        let cut = |parts: [usize; 2]| -> Result<Pattern, Failure> {
            let mine = Split::even(&grid, parts)?.part(comm.rank()).ok_or("no part")?;
            Ok(Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?)
        };
        let (rows, columns) = (cut([comm.size(), 1])?, cut([1, comm.size()])?);
        let (source, target) = (Numbers::new(&device()?, &rows)?, Numbers::new(&device()?, &columns)?);
        let pair = SourceTarget { source, target };
        count(&comm, &mut rows.redistribute_with_halo(&columns)?.bind(pair)?)
    })
    .unwrap();
    counts[0]
}

#[test]
fn exchanges_allocate_nothing_after_the_first_call() {
    let nothing = ALLOCATIONS.load(Ordering::SeqCst);
    drop(vec![1u8]);
    assert!(ALLOCATIONS.load(Ordering::SeqCst) > nothing, "the counter does not count");
    for ranks in [1, 2, 3] {
        assert_eq!(allocations_of_plans(ranks), 0, "plans of {ranks} ranks");
        assert_eq!(allocations_of_plans_at_addresses(ranks), 0, "plans at addresses of {ranks} ranks");
        assert_eq!(allocations_of_redistributions(ranks), 0, "redistributions of {ranks} ranks");
        for path in [DataPath::Direct, DataPath::Shared, DataPath::Messages] {
            assert_eq!(allocations_of_accumulation(ranks, path), 0, "sums of {ranks} ranks, path {path:?}");
        }
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
