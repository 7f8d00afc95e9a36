//! Measures what it costs to pass fields at each start: a plan beside a bound exchange, both of memory that is lent.
//!
//! Two ranks, as threads, exchange halos one cell wide. In every round each contestant has its turn: the bound exchange, the
//! plan with the same memory as always, and the plan with the memory of two sets in turn. Given are the medians of rank 0
//! and their ratios; the halos are compared at the end. Run it with `cargo bench -p haloport-core --bench plans`.
#![allow(missing_docs, reason = "a benchmark has no users")]

use std::time::Instant;

use haloport_core::{
    BlockLayout, BorrowedField, Error, Exchange, Field, Grid, Halo, Pattern, Plan, Schedule, Split, run_ranks,
};
use haloport_cpu::CpuDevice;

type Lent<'m> = Vec<BorrowedField<'m, f64, CpuDevice>>;

const ROUNDS: usize = 2001;

fn main() -> Result<(), Error> {
    println!("| cells of a rank | fields | bound, µs | plan ÷ bound | plan of other memory ÷ bound |");
    println!("| --- | --- | --- | --- | --- |");
    for (cells, fields) in [(32, 1), (32, 4), (32, 20), (128, 1), (128, 4)] {
        let medians = run_ranks(2, |comm| {
            let grid = Grid::new([2 * cells, cells, cells])?.periodic([true; 3])?;
            let mine = Split::even(&grid, [2, 1, 1])?.part(comm.rank()).ok_or("no such part")?;
            let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
            compete(&pattern, fields)
        })?;
        let [bound, plan, moving] = medians[0];
        let (plan, moving) = (plan / bound, moving / bound);
        println!("| {cells}³ | {fields} | {bound:.1} | {plan:.3} | {moving:.3} |");
    }
    Ok(())
}

/// The medians of the contestants, in microseconds.
fn compete(pattern: &Pattern, fields: usize) -> Result<[f64; 3], Error> {
    let device = CpuDevice::with_threads(1)?;
    let layout = Field::<f64, _>::new(&device, pattern)?.layout(0)?.clone();
    let memory = || vec![vec![pattern.comm().rank() as f64; layout.span().1 as usize]; fields];
    let (mut first, mut second, mut third) = (memory(), memory(), memory());
    let mut bound: Exchange<Lent<'_>> = pattern.bind(lend(&device, &layout, &mut first)?)?;
    let mut plan: Plan = pattern.plan(lend(&device, &layout, &mut second)?)?;
    let mut moving: Plan = pattern.plan(lend(&device, &layout, &mut third)?)?;
    let mut fourth = memory();
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..ROUNDS {
        let mut clock = |contestant: usize, work: &mut dyn FnMut() -> Result<(), Error>| {
            pattern.comm().barrier()?;
            let began = Instant::now();
            work()?;
            times[contestant].push(began.elapsed().as_secs_f64() * 1e6);
            Ok::<(), Error>(())
        };
        let exchange = |plan: &mut Plan, memory: &mut Vec<Vec<f64>>| -> Result<(), Error> {
            Ok(plan.exchange(lend(&device, &layout, memory)?, Schedule::Blocking)?)
        };
        let other = if round % 2 == 0 { &mut third } else { &mut fourth };
        for turn in 0..3 {
            match (round + turn) % 3 {
                0 => clock(0, &mut || Ok(bound.exchange(Schedule::Blocking)?))?,
                1 => clock(1, &mut || exchange(&mut plan, &mut second))?,
                _ => clock(2, &mut || exchange(&mut moving, other))?,
            }
        }
    }
    drop(bound);
    if [&first, &second, &third, &fourth].into_iter().any(|memory| memory != &first) {
        return Err("the contestants disagree".into());
    }
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}

fn lend<'m>(device: &CpuDevice, layout: &BlockLayout, memory: &'m mut [Vec<f64>]) -> Result<Lent<'m>, Error> {
    let lent =
        memory.iter_mut().map(|values| BorrowedField::new(device, [(&mut values[..], layout.clone())]));
    Ok(lent.collect::<Result<_, _>>()?)
}
