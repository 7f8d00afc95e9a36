//! Measures the size from which waking the pool saves time: the basis of `COPY_INLINE_BYTES` and
//! `KERNEL_INLINE_INDICES`.
//!
//! The same work is timed on one thread and on all threads, alternating; the results are medians. Run it with
//! `cargo bench -p haloport-cpu`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark ends by panicking")]

use std::time::Instant;

use haloport_core::device::{BoxCopy, CopyAxis, Pointer};
use rayon::prelude::*;

fn main() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let woken = median(|| pool.install(|| (0..4 * threads).into_par_iter().with_max_len(1).for_each(|_| {})));
    println!("{threads} threads; waking and joining the pool: {woken:.1} µs\n");
    println!("| copy of rows of | bytes | one thread, µs | {threads} threads, µs | ratio |");
    println!("| --- | --- | --- | --- | --- |");
    for row in [8usize, 24, 1024] {
        for bytes in (14..=23).map(|power| 1usize << power) {
            let (one, all) = copies(&pool, threads, row, bytes);
            println!("| {row} B | {bytes} | {one:.1} | {all:.1} | {:.2} |", all / one);
        }
    }
    println!("\n| kernel of | indices | one thread, µs | {threads} threads, µs | ratio |");
    println!("| --- | --- | --- | --- | --- |");
    for (name, kernel) in
        [("1 multiply and add", saxpy as Kernel), ("1 square root and division", roots as Kernel)]
    {
        for indices in (10..=20).map(|power| 1usize << power) {
            let (one, all) = kernels(&pool, threads, kernel, indices);
            println!("| {name} | {indices} | {one:.1} | {all:.1} | {:.2} |", all / one);
        }
    }
}

/// Medians in µs of packing rows that lie twice their length apart.
fn copies(pool: &rayon::ThreadPool, threads: usize, row: usize, bytes: usize) -> (f64, f64) {
    let rows = bytes / row;
    let mut source = vec![1u8; 2 * bytes];
    let mut target = vec![0u8; bytes];
    let axes = [CopyAxis { extent: rows, source_stride: 2 * row as isize, target_stride: row as isize }];
    let whole =
        BoxCopy::new(Pointer::new(source.as_mut_ptr()), Pointer::new(target.as_mut_ptr()), row, &axes)
            .unwrap();
    let pieces = whole.split(4 * threads);
    both(|| run(&whole), || pool.install(|| pieces.par_iter().with_max_len(1).for_each(run)))
}

fn run(copy: &BoxCopy) {
    let Some(axis) = copy.axes().first() else { return };
    for k in 0..axis.extent as isize {
        let from = copy.source().offset(k * axis.source_stride).as_ptr();
        let to = copy.target().offset(k * axis.target_stride).as_ptr();
        // SAFETY: the copy lies in live buffers; pieces do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to, copy.run_bytes()) };
    }
}

type Kernel = fn(&[f64], &mut [f64]);

fn saxpy(x: &[f64], y: &mut [f64]) {
    x.iter().zip(y).for_each(|(x, y)| *y += 1.5 * x);
}

fn roots(x: &[f64], y: &mut [f64]) {
    x.iter().zip(y).for_each(|(x, y)| *y = (*y / (1.0 + x)).sqrt());
}

fn kernels(pool: &rayon::ThreadPool, threads: usize, kernel: Kernel, indices: usize) -> (f64, f64) {
    let x = vec![1.0; indices];
    let (mut y, mut z) = (vec![2.0; indices], vec![2.0; indices]);
    let piece = indices.div_ceil(4 * threads);
    both(
        || kernel(&x, &mut y),
        || pool.install(|| x.par_chunks(piece).zip(z.par_chunks_mut(piece)).for_each(|(x, z)| kernel(x, z))),
    )
}

/// The medians of both in µs, measured in turn.
fn both(mut one: impl FnMut(), mut all: impl FnMut()) -> (f64, f64) {
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..101 {
        times.0.push(time(&mut one));
        times.1.push(time(&mut all));
    }
    (middle(times.0), middle(times.1))
}

fn median(mut work: impl FnMut()) -> f64 {
    middle((0..501).map(|_| time(&mut work)).collect())
}

fn time(work: &mut impl FnMut()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1e6
}

fn middle(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
