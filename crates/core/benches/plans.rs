//! Measures the cost of passing fields at each start: plans beside bound exchanges, all of lent memory.
//!
//! Two ranks, as threads, exchange halos one cell wide. Every round runs each contestant once: a bound exchange and a
//! plan with one set of fields, then two bound exchanges and one plan with two sets of fields in turn, so that the
//! copies of that plan move at every start. Prints the medians of rank 0 and their ratios; the halos are compared at
//! the end. Run it with `cargo bench -p haloport-core --bench plans`.
#![allow(missing_docs, reason = "a benchmark has no users")]

use std::time::Instant;

use haloport_core::{
    BlockLayout, BorrowedField, Error, Exchange, Field, Grid, Halo, Passed, Pattern, Split, run_ranks,
};
use haloport_cpu::CpuDevice;

type Lent<'m, const N: usize> = [BorrowedField<'m, f64, CpuDevice>; N];

const CONTESTANTS: usize = 4;

fn main() -> Result<(), Error> {
    println!("| cells of a rank | fields | bound, µs | plan ÷ bound | two bound, µs | plan ÷ two bound |");
    println!("| --- | --- | --- | --- | --- | --- |");
    run::<1>(32, 20_000)?;
    run::<4>(32, 10_000)?;
    run::<20>(32, 2_000)?;
    run::<1>(128, 4_000)?;
    run::<4>(128, 1_000)
}

fn run<const N: usize>(cells: usize, rounds: usize) -> Result<(), Error> {
    let medians = run_ranks(2, |comm| {
        let grid = Grid::new([2 * cells, cells, cells])?.periodic([true; 3])?;
        let mine = Split::even(&grid, [2, 1, 1])?.part(comm.rank()).ok_or("no such part")?;
        compete::<N>(&Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?, rounds)
    })?;
    let [bound, plan, two, moving] = medians[0];
    let (same, other) = (plan / bound, moving / two);
    println!("| {cells}³ | {N} | {bound:.1} | {same:.3} | {two:.1} | {other:.3} |");
    Ok(())
}

/// The medians of the contestants, in microseconds.
fn compete<const N: usize>(pattern: &Pattern, rounds: usize) -> Result<[f64; CONTESTANTS], Error> {
    let device = CpuDevice::with_threads(1)?;
    let layout = Field::<f64, _>::new(&device, pattern)?.layout(0)?.clone();
    let memory = || -> [Vec<f64>; N] {
        std::array::from_fn(|_| vec![pattern.comm().rank() as f64; layout.span().1 as usize])
    };
    let mut sets: [[Vec<f64>; N]; 6] = std::array::from_fn(|_| memory());
    let [one, two, three, passed, fifth, sixth] = &mut sets;
    let mut bound = pattern.bind(lend(&device, &layout, one)?)?;
    let mut bound_in_turn =
        [pattern.bind(lend(&device, &layout, two)?)?, pattern.bind(lend(&device, &layout, three)?)?];
    let mut plan = pattern.plan(lend(&device, &layout, passed)?)?;
    let mut moving = pattern.plan(lend(&device, &layout, fifth)?)?;
    let passed_in_turn = [fifth, sixth];
    let exchange = |plan: &mut Exchange<Passed>, memory: &mut [Vec<f64>; N]| -> Result<(), Error> {
        Ok(plan.run_blocking(lend(&device, &layout, memory)?)?)
    };
    let mut times: [Vec<f64>; CONTESTANTS] = Default::default();
    for round in 0..rounds {
        for turn in 0..CONTESTANTS {
            let contestant = (round + turn) % CONTESTANTS;
            pattern.comm().barrier()?;
            let began = Instant::now();
            match contestant {
                0 => bound.run_blocking()?,
                1 => exchange(&mut plan, passed)?,
                2 => bound_in_turn[round % 2].run_blocking()?,
                _ => exchange(&mut moving, passed_in_turn[round % 2])?,
            }
            times[contestant].push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    drop((bound, bound_in_turn));
    if sets.iter().any(|set| set != &sets[0]) {
        return Err("the contestants disagree".into());
    }
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}

fn lend<'m, const N: usize>(
    device: &CpuDevice,
    layout: &BlockLayout,
    memory: &'m mut [Vec<f64>; N],
) -> Result<Lent<'m, N>, Error> {
    // As a program does it that knows its memory to be long enough.
    Ok(memory.each_mut().map(|values| {
        BorrowedField::new(device, [(&mut values[..], layout.clone())]).expect("memory of this layout")
    }))
}
