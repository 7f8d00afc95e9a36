//! Rust's side of `calls.py`: the time of exchanges of fields, without Python. Prints a line for each round: the time of a call
//! in each case, in seconds.
//!
//! The cases, batches and addresses are those of `calls.py`. Without a launcher one rank exchanges with itself, a round for
//! each line that it reads, so that rounds of both sides take turns. Under a launcher, the ranks exchange fields that their
//! node shares. The halos are checked at the end.
#![allow(missing_docs, reason = "a benchmark has no users")]

use std::time::Instant;

use haloport::cpu::CpuDevice;
use haloport::device::Pointer;
use haloport::exchange::{ExchangeError, FieldLayout};
use haloport::field::BlockLayout;
use haloport::{BindOptions, Communicator, ElementType, Error, Field, Grid, Halo, Pattern, Schedule, Split};

/// Rounds under a launcher, and the most without one. In a round each case runs two batches, of which the second counts.
const ROUNDS: usize = 200;
/// Calls of a batch.
const CALLS: usize = 50;
/// How far arrays at new addresses move from call to call, in elements.
const STEP: usize = 8;

/// Runs a batch; returns how many seconds it took.
type Batch<'a> = Box<dyn FnMut() -> Result<f64, Error> + 'a>;

fn main() -> Result<(), Error> {
    if haloport::comm::launched_by().is_none() {
        haloport::run_ranks(1, |comm| alone(&comm))?;
        return Ok(());
    }
    haloport::mpi::install_abort_hook();
    let session = haloport::mpi::initialize()?;
    let done = session.world().map_err(Error::from).and_then(|comm| together(&comm));
    if let Err(error) = done {
        eprintln!("{error}");
        session.abort(1);
    }
    Ok(())
}

/// Measures plans, of one rank.
fn alone(comm: &Communicator) -> Result<(), Error> {
    let pattern = pattern(comm, 4)?;
    let device = CpuDevice::with_threads(1)?;
    let layouts = Field::<f64, CpuDevice>::builder(&pattern).layouts()?;
    let layout = &layouts[0];
    let elements = layout.span().1 as usize;
    let plan = |fields: usize| {
        let described = vec![FieldLayout::new(&device, ElementType::F64, layouts.clone()); fields];
        pattern.plan_layouts(&described, BindOptions::default())
    };
    let (mut four, mut twenty, mut moving) = (plan(4)?, plan(20)?, plan(20)?);

    let mut memory = vec![vec![0.0; elements]; 20];
    let mut moved = vec![vec![0.0; elements + STEP * (2 * ROUNDS * CALLS + 1)]; 20];
    memory.iter_mut().for_each(|values| fill(layout, values));
    let known: Vec<Pointer> = memory.iter_mut().map(|values| address(values, 0)).collect();
    let mut shift = 0;
    let mut cases: [Batch<'_>; 3] = [
        // SAFETY: the memory has the layout of the plan, and nothing uses it during the exchange.
        Box::new(|| repeat(|_| unsafe { four.run_at(&known[..4], Schedule::Blocking) })),
        // SAFETY: as above.
        Box::new(|| repeat(|_| unsafe { twenty.run_at(&known, Schedule::Blocking) })),
        Box::new(|| {
            let set = |call| moved.iter_mut().map(|values| address(values, STEP * call)).collect();
            let sets: Vec<Vec<Pointer>> = (shift..shift + CALLS).map(set).collect();
            shift += CALLS;
            // SAFETY: as above.
            repeat(|call| unsafe { moving.run_at(&sets[call], Schedule::Blocking) })
        }),
    ];
    for line in std::io::stdin().lines().take(ROUNDS) {
        line?;
        round(comm, &mut cases)?;
    }
    drop(cases);
    let last = STEP * 2 * ROUNDS * CALLS;
    moved.iter_mut().for_each(|values| fill(layout, &mut values[last..]));
    let set: Vec<Pointer> = moved.iter_mut().map(|values| address(values, last)).collect();
    // SAFETY: as above.
    unsafe { moving.run_at(&set, Schedule::Blocking)? };
    let mut all = memory.iter().map(|values| &values[..]).chain(moved.iter().map(|values| &values[last..]));
    all.try_for_each(|values| check(layout, values, 4))
}

/// Measures fields that the node of several ranks shares.
fn together(comm: &Communicator) -> Result<(), Error> {
    let device = CpuDevice::with_threads(1)?;
    let bound = |cells: usize, count: usize| -> Result<_, Error> {
        let pattern = pattern(comm, cells)?;
        let made = (0..count).map(|_| {
            let mut field = Field::<f64, _>::builder(&pattern).node_shared(true).build(&device)?;
            let layout = field.layout(0)?.clone();
            fill(&layout, field.view_mut(0)?.as_mut_slice().ok_or("cells with gaps")?);
            Ok::<_, Error>(field)
        });
        Ok(pattern.bind(made.collect::<Result<Vec<_>, _>>()?)?)
    };
    let mut exchanges = [bound(4, 20)?, bound(32, 4)?, bound(64, 4)?];
    let mut cases =
        exchanges.each_mut().map(|exchange| Box::new(|| repeat(|_| exchange.run_blocking())) as Batch<'_>);
    for _ in 0..ROUNDS {
        round(comm, &mut cases)?;
    }
    drop(cases);
    exchanges.iter().flat_map(|exchange| exchange.fields()).try_for_each(|field| {
        let layout = field.layout(0)?;
        let extent = comm.size() * layout.owned().extent(0);
        check(layout, field.view(0)?.as_slice().ok_or("cells with gaps")?, extent as i64)
    })
}

fn pattern(comm: &Communicator, cells: usize) -> Result<Pattern, Error> {
    let grid = Grid::new([comm.size() * cells, cells, cells])?.periodic([true; 3])?;
    let mine = Split::even(&grid, [comm.size(), 1, 1])?.part(comm.rank()).ok_or("no such part")?;
    Ok(Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?)
}

fn address(values: &mut [f64], first: usize) -> Pointer {
    Pointer::new(values[first..].as_mut_ptr().cast())
}

/// Runs the calls of a batch; returns how many seconds they took.
fn repeat(mut call: impl FnMut(usize) -> Result<(), ExchangeError>) -> Result<f64, Error> {
    let began = Instant::now();
    for number in 0..CALLS {
        call(number)?;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Runs the cases in turns, and prints the times of a call on rank 0.
fn round(comm: &Communicator, cases: &mut [Batch<'_>]) -> Result<(), Error> {
    let mut times = Vec::new();
    for batch in cases {
        comm.barrier()?;
        batch()?;
        times.push((batch()? / CALLS as f64).to_string());
    }
    if comm.rank() == 0 {
        println!("{}", times.join(" "));
    }
    Ok(())
}

/// Fills an array: owned cells with their values, the others with -1.
fn fill(layout: &BlockLayout, values: &mut [f64]) {
    for cell in cells(layout) {
        let value = if layout.owned().contains(&cell) { value(cell) } else { -1.0 };
        layout.offset(&cell, 0).into_iter().for_each(|place| values[place as usize] = value);
    }
}

/// Fails unless all cells of an array have their values.
fn check(layout: &BlockLayout, values: &[f64], extent: i64) -> Result<(), Error> {
    let filled = cells(layout).all(|[z, y, x]| {
        let [_, rows, row] = [0, 1, 2].map(|axis| layout.owned().extent(axis) as i64);
        let wrapped = [z.rem_euclid(extent), y.rem_euclid(rows), x.rem_euclid(row)];
        layout.offset(&[z, y, x], 0).is_some_and(|place| values[place as usize] == value(wrapped))
    });
    if filled { Ok(()) } else { Err("cells have wrong values".into()) }
}

/// The value of a cell of the grid.
fn value([z, y, x]: [i64; 3]) -> f64 {
    ((z * 128 + y) * 128 + x) as f64
}

fn cells(layout: &BlockLayout) -> impl Iterator<Item = [i64; 3]> {
    let cells = layout.allocated();
    let range = |axis: usize| cells.lower()[axis]..cells.upper()[axis];
    let (z, y, x) = (range(0), range(1), range(2));
    z.flat_map(move |z| {
        let x = x.clone();
        y.clone().flat_map(move |y| x.clone().map(move |x| [z, y, x]))
    })
}
