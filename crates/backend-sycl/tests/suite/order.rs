//! The order of exchanges and work in streams, on the device under test.

use haloport_conformance::{Failure, ensure, ordering};
use haloport_core::device::{Buffer, Device, MemoryKind, Pointer};
use haloport_core::{BindOptions, DataPath, Field, Grid, Halo, Pattern, Schedule, Split, run_ranks};
use haloport_sycl::SyclDevice;

use crate::common::program::Queue;

#[test]
fn exchanges_are_ordered_with_the_work_around_them() {
    let Some(device) = crate::common::device_of_program() else { return };
    for ranks in [1, 2, 3] {
        run_ranks(ranks, |comm| {
            let queue = Queue::out_of_order(&device);
            // SAFETY: the queue outlives the stream.
            let borrowed = unsafe { device.borrow_stream(queue.handle()) }?;
            ordering::suite(&comm, &device, Some(&borrowed))
        })
        .unwrap();
    }
}

/// In a queue that is out of order, a command of another program after `finish` sees the halos, without waiting for an
/// event.
#[test]
fn the_next_command_of_somebody_else_sees_the_halos() {
    let Some(device) = crate::common::device_of_program() else { return };
    [DataPath::Messages, DataPath::Direct].into_iter().for_each(|path| next_command_sees(&device, path));
}

fn next_command_sees(device: &SyclDevice, path: DataPath) {
    const CELLS: usize = 2 << 20;
    run_ranks(2, |comm| -> Result<(), Failure> {
        let queue = Queue::out_of_order(device);
        // SAFETY: the queue outlives the stream.
        let borrowed = unsafe { device.borrow_stream(queue.handle()) }?;
        let grid = Grid::new([2 * CELLS])?.periodic([true])?;
        let domain = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no part")?;
        let pattern = Pattern::structured(&comm, &grid, &[domain], &Halo::per_side([(CELLS, 0)]))?;
        let field = Field::<i64, _>::new(device, &pattern)?;
        let mut exchange = pattern.bind_with(field, BindOptions::default().prefer(path))?;
        let seen = device.allocate(8, MemoryKind::Shared)?;
        for round in 1..=5 {
            let value = |rank: usize| 10 * round + rank as i64;
            exchange.fields_mut().copy_from(0, &vec![value(comm.rank()); 2 * CELLS])?;
            exchange.start_on(Schedule::Blocking)?.finish_on(&borrowed)?;
            let last: Pointer = exchange.fields().pointer(0)?.offset(8 * (CELLS as isize - 1));
            // SAFETY: both ends are 8 bytes that live until the queue is empty.
            unsafe { queue.copy(last, seen.pointer(), 8, None) };
            device.synchronize(&borrowed)?;
            // SAFETY: the host may read shared memory that nothing writes any more.
            let found = unsafe { seen.pointer().as_ptr().cast::<i64>().read() };
            ensure!(found == value(1 - comm.rank()), "round {round}: found {found}");
        }
        Ok(())
    })
    .unwrap();
}
