//! Measures the time of packing a buffer that another core reads each time: written through the caches, and written in
//! the way that the list chooses by timing (`src/copies/choice.rs`), through the caches or past them.
//!
//! Two threads take turns: one packs rows picked by index, the other copies the buffer. Both ways alternate, each with
//! a buffer of its own; the results are medians. Run it with `cargo bench -p haloport-cpu --bench stores`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark ends by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use haloport_core::device::{
    BoxCopy, Buffer, CopyItem, CopyRows, Device, IndexedCopy, MemoryKind, NextReader,
};
use haloport_cpu::{CpuBuffer, CpuCopies, CpuDevice};

const ROUNDS: usize = 401;

fn main() {
    println!("| rows of | bytes | through the caches, µs | chosen by timing, µs | ratio |");
    println!("| --- | --- | --- | --- | --- |");
    for row in [8usize, 24, 72, 640] {
        for bytes in (10..=22).step_by(2).map(|power| 1usize << power) {
            let [through, chosen] = packing(row, bytes);
            println!("| {row} B | {bytes} | {through:.1} | {chosen:.1} | {:.2} |", chosen / through);
        }
    }
}

/// Microseconds from the start of packing until the other thread has read the last byte, for both ways.
fn packing(row: usize, bytes: usize) -> [f64; 2] {
    let device = CpuDevice::with_threads(1).unwrap();
    let rows = bytes.div_ceil(row);
    let field = device.allocate(4 * rows * row, MemoryKind::Device).unwrap();
    let ways: Vec<(CpuCopies, CpuBuffer)> = [NextReader::Here, NextReader::Elsewhere]
        .map(|reader| {
            let buffer = device.allocate(rows * row, MemoryKind::Device).unwrap();
            let one = BoxCopy::new(field.pointer(), buffer.pointer(), row, &[]).unwrap();
            // Scattered, each once: 7919 is a prime that does not divide the number of rows of the field.
            let indices = (0..rows).map(|position| (position * 7919 % (4 * rows)) as u32).collect();
            let source = CopyRows { stride: row as isize, indices: Some(indices) };
            let target = CopyRows { stride: row as isize, indices: None };
            let copy = IndexedCopy::new(one, rows, source, target).unwrap();
            (device.bind_copies(vec![CopyItem::Indexed(copy)], reader).unwrap(), buffer)
        })
        .into();
    let turn = AtomicUsize::new(0);
    let mut times = [Vec::new(), Vec::new()];
    thread::scope(|scope| {
        let (ways, turn) = (&ways, &turn);
        let addresses: Vec<usize> = ways.iter().map(|(_, buffer)| buffer.pointer().as_ptr().addr()).collect();
        scope.spawn(move || {
            let mut copy = vec![0u8; rows * row];
            for round in 0..2 * ROUNDS {
                wait(turn, 2 * round + 1);
                let from = addresses[round % 2] as *const u8;
                // SAFETY: the buffer has that length and is alive, and the other thread waits.
                unsafe { std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), rows * row) };
                turn.store(2 * round + 2, Ordering::Release);
            }
        });
        let stream = device.default_stream();
        for round in 0..2 * ROUNDS {
            let began = Instant::now();
            // SAFETY: the copies lie in buffers that are alive, and the other thread waits.
            unsafe { device.run_copies(&ways[round % 2].0, &[], &stream).unwrap() };
            turn.store(2 * round + 1, Ordering::Release);
            wait(turn, 2 * round + 2);
            times[round % 2].push(began.elapsed().as_secs_f64() * 1e6);
        }
    });
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

fn wait(turn: &AtomicUsize, until: usize) {
    let mut rounds = 0u32;
    while turn.load(Ordering::Acquire) != until {
        rounds += 1;
        if rounds < 100_000 { std::hint::spin_loop() } else { thread::yield_now() }
    }
}
