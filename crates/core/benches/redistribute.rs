//! Measures a transpose: a redistribution from slabs across the slowest axis to slabs across the fastest one, beside plain
//! loops that copy the same cells.
//!
//! Two ranks, as threads. Every round runs each contestant once: plain loops over the target, from one array that both ranks
//! read; a redistribution of fields that own their memory, which is copied straight; and one in messages. The target has the
//! axis order of the source, or the reverse one. Prints the medians of rank 0 and their ratios; the targets are compared at
//! the end. Run it with `cargo bench -p haloport-core --bench redistribute`.
#![allow(missing_docs, reason = "a benchmark has no users")]

use std::time::Instant;

use haloport_core::{
    BindOptions, DataPath, Error, Exchange, Field, Grid, Halo, Pattern, SourceTarget, Split, run_ranks,
};
use haloport_cpu::CpuDevice;

type Numbers = Field<f64, CpuDevice>;
type Bound = Exchange<SourceTarget<Numbers, Numbers>>;

const RANKS: usize = 2;

fn main() -> Result<(), Error> {
    println!(
        "| cells | axis order of the target | plain loops, ms | straight ÷ plain | in messages ÷ plain |"
    );
    println!("| --- | --- | --- | --- | --- |");
    for (cells, rounds) in [(64, 200), (128, 60), (256, 15)] {
        run(cells, [0, 1, 2], rounds)?;
        run(cells, [2, 1, 0], rounds)?;
    }
    Ok(())
}

fn run(cells: usize, order: [usize; 3], rounds: usize) -> Result<(), Error> {
    let whole: Vec<f64> = (0..cells.pow(3)).map(|cell| cell as f64).collect();
    let medians = run_ranks(RANKS, |comm| {
        let grid = Grid::new([cells; 3])?;
        let cut = |parts: [usize; 3]| -> Result<Pattern, Error> {
            let mine = Split::even(&grid, parts)?.part(comm.rank()).ok_or("no such part")?;
            Ok(Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(0))?)
        };
        compete(&whole, (&cut([RANKS, 1, 1])?, &cut([1, 1, RANKS])?), order, rounds)
    })?;
    let [plain, straight, messages] = medians[0];
    let (straight, messages) = (straight / plain, messages / plain);
    println!("| {cells}³ | {order:?} | {plain:.2} | {straight:.2} | {messages:.2} |");
    Ok(())
}

/// The medians of the contestants, in milliseconds.
fn compete(
    whole: &[f64],
    (from, to): (&Pattern, &Pattern),
    order: [usize; 3],
    rounds: usize,
) -> Result<[f64; 3], Error> {
    let device = CpuDevice::with_threads(1)?;
    let cells = from.grid().map_or(0, |grid| grid.extent(0));
    let redistribution = from.redistribute(to)?;
    let bind = |path: DataPath| -> Result<Bound, Error> {
        let mut source = Numbers::new(&device, from)?;
        source.view_mut(0)?.fill_with(|cell, _| whole[at(cell, cells)]);
        let target = Numbers::builder(to).axis_order(order).build(&device)?;
        Ok(redistribution.bind_with(SourceTarget { source, target }, BindOptions::default().path(path))?)
    };
    let mut bound = [bind(DataPath::Direct)?, bind(DataPath::Messages)?];
    let mut target = vec![0.0; cells.pow(3) / RANKS];
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..rounds {
        for turn in 0..3 {
            let contestant = (round + turn) % 3;
            from.comm().barrier()?;
            let began = Instant::now();
            match contestant {
                0 => plain(whole, &mut target, cells, from.comm().rank(), order),
                other => bound[other - 1].run_blocking()?,
            }
            times[contestant].push(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    for exchange in &bound {
        if exchange.fields().target.to_vec(0)? != target {
            return Err("the contestants disagree".into());
        }
    }
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}

/// The place of a cell in the whole array.
fn at(cell: &[i64], cells: usize) -> usize {
    (cell[0] as usize * cells + cell[1] as usize) * cells + cell[2] as usize
}

/// Fills `target` of this rank, in sequence, from the whole array.
fn plain(whole: &[f64], target: &mut [f64], cells: usize, rank: usize, order: [usize; 3]) {
    let wide = cells / RANKS;
    let first = rank * wide;
    if order == [0, 1, 2] {
        for (row, target) in target.chunks_mut(wide).enumerate() {
            target.copy_from_slice(&whole[row * cells + first..][..wide]);
        }
        return;
    }
    for (row, target) in target.chunks_mut(cells).enumerate() {
        let (k, j) = (first + row / cells, row % cells);
        for (i, value) in target.iter_mut().enumerate() {
            *value = whole[(i * cells + j) * cells + k];
        }
    }
}
