//! Measures the ways to start an exchange beside each other: fields of types known at run time beside typed ones,
//! exchanges that borrow nothing beside those that do, and a plan at new addresses beside plans at known ones.
//!
//! One or two ranks, as threads, exchange halos one cell wide of fields of 20 each, or of one. Every round runs each
//! contestant once, in turns. Prints the medians of rank 0, in microseconds, and how they differ; the halos are
//! compared at the end. Run it with `cargo bench -p haloport-core --bench starts`.
#![allow(missing_docs, reason = "a benchmark has no users")]

use std::time::Instant;

use haloport_core::device::Pointer;
use haloport_core::{
    AnyField, BindOptions, Communicator, ElementType, Error, Exchange, Field, FieldLayout, Grid, Halo,
    Passed, Pattern, Schedule, Split, run_ranks,
};
use haloport_cpu::CpuDevice;

const CONTESTANTS: usize = 6;
const BLOCKING: Schedule<'static> = Schedule::Blocking;

type Typed = Vec<Field<f64, CpuDevice>>;

fn main() -> Result<(), Error> {
    println!(
        "| ranks | cells of a rank | fields | typed | types at run time, ratio | without a borrow, difference | \
         at known addresses | at new addresses, difference |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for ranks in [1, 2] {
        for (cells, fields, rounds) in
            [(4, 1, 40_000), (4, 20, 20_000), (32, 1, 20_000), (32, 20, 2_000), (128, 1, 2_000)]
        {
            run(ranks, cells, fields, rounds)?;
        }
    }
    Ok(())
}

fn run(ranks: usize, cells: usize, fields: usize, rounds: usize) -> Result<(), Error> {
    let medians = run_ranks(ranks, |comm| {
        let grid = Grid::new([ranks * cells, cells, cells])?.periodic([true; 3])?;
        let mine = Split::even(&grid, [ranks, 1, 1])?.part(comm.rank()).ok_or("no such part")?;
        let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
        compete(&comm, &pattern, fields, rounds)
    })?;
    let [typed, any, started, detached, known, new] = medians[0];
    println!(
        "| {ranks} | {cells}³ | {fields} | {typed:.2} | {:.3} | {:+.2} | {known:.2} | {:+.2} |",
        any / typed,
        detached - started,
        new - known
    );
    Ok(())
}

/// The medians of the contestants, in microseconds.
fn compete(
    comm: &Communicator,
    pattern: &Pattern,
    fields: usize,
    rounds: usize,
) -> Result<[f64; CONTESTANTS], Error> {
    let device = CpuDevice::with_threads(1)?;
    let typed = || -> Result<Exchange<Typed>, Error> {
        let made = (0..fields).map(|_| {
            let mut field = Field::<f64, _>::new(&device, pattern)?;
            field.view_mut(0)?.fill_with(|cell, _| value(comm, cell));
            Ok::<_, Error>(field)
        });
        Ok(pattern.bind(made.collect::<Result<_, _>>()?)?)
    };
    let (mut one, mut two, mut three) = (typed()?, typed()?, typed()?);
    let any = typed()?.into_fields()?.into_iter().map(AnyField::from).collect::<Vec<_>>();
    let mut any = pattern.bind(any)?;

    let layout = Field::<f64, CpuDevice>::builder(pattern).layouts()?;
    let described = vec![FieldLayout::new(&device, ElementType::F64, layout.clone()); fields];
    let plan = || pattern.plan_layouts(&described, BindOptions::default());
    let (mut first, mut second, mut moving) = (plan()?, plan()?, plan()?);
    let memory = || -> Vec<Vec<f64>> {
        let first = one.fields().iter().map(|field| field.to_vec(0));
        first.collect::<Result<_, _>>().unwrap_or_default()
    };
    let mut sets = [memory(), memory(), memory(), memory()];
    let addresses = sets.each_mut().map(|set| -> Vec<Pointer> {
        set.iter_mut().map(|values| Pointer::new(values.as_mut_ptr().cast())).collect()
    });
    // SAFETY: the sets have the layout of the plans, and nothing uses them before the last exchange.
    let run_at = |plan: &mut Exchange<Passed>, set: usize| unsafe { plan.run_at(&addresses[set], BLOCKING) };

    let mut times: [Vec<f64>; CONTESTANTS] = Default::default();
    for round in 0..rounds {
        for turn in 0..CONTESTANTS {
            let contestant = (round + turn) % CONTESTANTS;
            comm.barrier()?;
            let began = Instant::now();
            match contestant {
                0 => one.run_blocking()?,
                1 => any.run_blocking()?,
                2 => two.start_on(BLOCKING)?.finish_blocking()?,
                3 => {
                    let ticket = three.start_detached(BLOCKING)?;
                    three.finish(ticket, BLOCKING)?;
                }
                4 if round % 2 == 0 => run_at(&mut first, 0)?,
                4 => run_at(&mut second, 1)?,
                _ => run_at(&mut moving, 2 + round % 2)?,
            }
            times[contestant].push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    let expected = one.fields()[0].to_vec(0)?;
    let bytes: Vec<u8> = expected.iter().flat_map(|value| value.to_ne_bytes()).collect();
    if sets.iter().flatten().any(|values| *values != expected) || any.fields()[0].to_bytes(0)? != bytes {
        return Err("the contestants disagree".into());
    }
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}

fn value(comm: &Communicator, cell: &[i64]) -> f64 {
    cell.iter().fold(comm.rank() as f64, |hash, index| 31.0 * hash + *index as f64)
}
