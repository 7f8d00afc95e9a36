//! Measures a 7-point stencil on 128³ cells of `f64` through each kind of access that a view offers, and over a plain
//! slice.
//!
//! They take turns on one thread. Prints medians and their ratios to the plain slice. The results are compared bit for
//! bit. Run it with `cargo bench -p haloport-core --features ndarray --bench views`. With the name of one kind of
//! access behind `--`, only that one runs, once: `valgrind --tool=callgrind --toggle-collect='*rows_of_views*'` and the
//! like then count its instructions, which other work on the machine does not change.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark ends by panicking")]

use std::hint::black_box;
use std::time::Instant;

use haloport_core::{Error, Field, Grid, Halo, IndexBox, Pattern, Split, View, ViewMut, run_ranks};
use haloport_cpu::CpuDevice;
use ndarray::{Ix3, Zip, s};

const EXTENT: usize = 128;
const PITCH: usize = EXTENT + 2;
const ROUNDS: usize = 101;

type Stencil = fn(&IndexBox, &View<'_, f64>, &mut ViewMut<'_, f64>) -> Result<(), Error>;

const WAYS: [(&str, Stencil); 7] = [
    ("plain slice, rows", plain_slice),
    ("plain slice, cell by cell", plain_cells),
    ("rows of views", rows_of_views),
    ("arrays of ndarray, rows", ndarray_rows),
    ("arrays of ndarray, Zip", ndarray_zip),
    ("view[[i, j, k]]", indexed),
    ("get and set", by_get),
];

fn main() {
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    run_ranks(1, |comm| {
        let grid = Grid::new([EXTENT; 3])?;
        let mine = Split::even(&grid, [1, 1, 1])?.part(0).ok_or("no part")?;
        let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
        let device = CpuDevice::with_threads(1)?;
        let mut next = Field::<f64, _>::new(&device, &pattern)?;
        let mut now = Field::<f64, _>::new(&device, &pattern)?;
        now.view_mut(0)?.fill_with(|cell, _| ((cell[0] * 7 + cell[1] * 5 + cell[2] * 3) % 101) as f64 / 7.0);
        let mut exchange = pattern.bind(now)?;
        // The access while halos travel.
        let pending = exchange.start()?;
        let now = pending.owned(|field| field, 0)?;
        let mut run = |way: Stencil| -> Result<f64, Error> {
            let mut next = next.view_mut(0)?;
            let began = Instant::now();
            way(black_box(&mine), black_box(&now), black_box(&mut next))?;
            Ok(began.elapsed().as_secs_f64() * 1e3)
        };
        if let Some(only) = &only {
            let (_, way) = WAYS.iter().find(|(name, _)| name == only).ok_or("no such way")?;
            run(*way)?;
            return Ok(());
        }
        let mut times = vec![Vec::new(); WAYS.len()];
        let rounds = if cfg!(debug_assertions) { 3 } else { ROUNDS };
        for _ in 0..rounds {
            for (times, (_, way)) in times.iter_mut().zip(WAYS) {
                times.push(run(way)?);
            }
        }
        // Each kind of access by itself, after the next field was cleared.
        let mut results: Vec<Vec<f64>> = Vec::new();
        for (_, way) in WAYS {
            next.view_mut(0)?.fill_with(|_, _| 0.0);
            way(&mine, &now, &mut next.view_mut(0)?)?;
            results.push(next.to_vec(0)?);
        }
        println!("| a stencil of 7 points on {EXTENT}³ cells | median, ms | ratio |");
        println!("| --- | --- | --- |");
        let medians: Vec<f64> = times.into_iter().map(median).collect();
        for (((name, _), median), result) in WAYS.iter().zip(&medians).zip(&results) {
            let differing =
                result.iter().zip(&results[0]).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
            assert_eq!(differing, 0, "values of `{name}` that differ");
            println!("| {name} | {median:.2} | {:.2} |", median / medians[0]);
        }
        Ok(())
    })
    .unwrap();
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[inline(always)]
fn heat([here, north, south, west, east, below, above]: [f64; 7]) -> f64 {
    here + 0.1 * (north + south + west + east + below + above - 6.0 * here)
}

#[inline(always)]
fn heat_row(next: &mut [f64], [here, north, south, west, east, below, above]: [&[f64]; 7]) {
    let next = &mut next[..here.len()];
    for k in 0..here.len() {
        next[k] = heat([here[k], north[k], south[k], west[k], east[k], below[k], above[k]]);
    }
}

#[inline(never)]
fn plain_slice(_: &IndexBox, now: &View<'_, f64>, next: &mut ViewMut<'_, f64>) -> Result<(), Error> {
    let (now, next) = (now.as_slice().ok_or("gaps")?, next.as_mut_slice().ok_or("gaps")?);
    for i in 1..=EXTENT {
        for j in 1..=EXTENT {
            let at = (i * PITCH + j) * PITCH + 1;
            let row = |at: usize| &now[at..at + EXTENT];
            let (plane, line) = (PITCH * PITCH, PITCH);
            let offsets = [at, at - plane, at + plane, at - line, at + line, at - 1, at + 1];
            heat_row(&mut next[at..at + EXTENT], offsets.map(row));
        }
    }
    Ok(())
}

#[inline(never)]
fn plain_cells(_: &IndexBox, now: &View<'_, f64>, next: &mut ViewMut<'_, f64>) -> Result<(), Error> {
    let (now, next) = (now.as_slice().ok_or("gaps")?, next.as_mut_slice().ok_or("gaps")?);
    for i in 1..=EXTENT {
        for j in 1..=EXTENT {
            for k in 1..=EXTENT {
                let at = (i * PITCH + j) * PITCH + k;
                let (plane, line) = (PITCH * PITCH, PITCH);
                let offsets = [at, at - plane, at + plane, at - line, at + line, at - 1, at + 1];
                next[at] = heat(offsets.map(|at| now[at]));
            }
        }
    }
    Ok(())
}

const AROUND: [[i64; 3]; 7] =
    [[0, 0, 0], [-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 1]];

#[inline(never)]
fn rows_of_views(cells: &IndexBox, now: &View<'_, f64>, next: &mut ViewMut<'_, f64>) -> Result<(), Error> {
    for (next, rows) in next.rows_mut(2, cells)?.zip(now.rows_around(2, cells, AROUND)?) {
        heat_row(next, rows);
    }
    Ok(())
}

#[inline(never)]
fn ndarray_rows(_: &IndexBox, now: &View<'_, f64>, next: &mut ViewMut<'_, f64>) -> Result<(), Error> {
    let (now, mut next) = (now.array::<Ix3>()?, next.array_mut::<Ix3>()?);
    for i in 1..=EXTENT {
        for j in 1..=EXTENT {
            let row = |di: usize, dj: usize, dk: usize| {
                let row = now.slice_move(s![i + di - 1, j + dj - 1, dk..dk + EXTENT]);
                row.to_slice().ok_or("a stride")
            };
            let rows = [
                row(1, 1, 1)?,
                row(0, 1, 1)?,
                row(2, 1, 1)?,
                row(1, 0, 1)?,
                row(1, 2, 1)?,
                row(1, 1, 0)?,
                row(1, 1, 2)?,
            ];
            let mut next = next.slice_mut(s![i, j, 1..=EXTENT]);
            heat_row(next.as_slice_mut().ok_or("a stride")?, rows);
        }
    }
    Ok(())
}

#[inline(never)]
fn ndarray_zip(_: &IndexBox, now: &View<'_, f64>, next: &mut ViewMut<'_, f64>) -> Result<(), Error> {
    let (now, mut next) = (now.array::<Ix3>()?, next.array_mut::<Ix3>()?);
    let next = next.slice_mut(s![1..=EXTENT, 1..=EXTENT, 1..=EXTENT]);
    Zip::from(next).and(now.windows([3, 3, 3])).for_each(|next, cells| {
        let offsets = [[1, 1, 1], [0, 1, 1], [2, 1, 1], [1, 0, 1], [1, 2, 1], [1, 1, 0], [1, 1, 2]];
        *next = heat(offsets.map(|at| cells[at]));
    });
    Ok(())
}

#[inline(never)]
fn indexed(cells: &IndexBox, now: &View<'_, f64>, next: &mut ViewMut<'_, f64>) -> Result<(), Error> {
    let (lower, upper) = (cells.lower(), cells.upper());
    for i in lower[0]..upper[0] {
        for j in lower[1]..upper[1] {
            for k in lower[2]..upper[2] {
                let (here, north, south) = (now[[i, j, k]], now[[i - 1, j, k]], now[[i + 1, j, k]]);
                let (west, east) = (now[[i, j - 1, k]], now[[i, j + 1, k]]);
                let (below, above) = (now[[i, j, k - 1]], now[[i, j, k + 1]]);
                next[[i, j, k]] = heat([here, north, south, west, east, below, above]);
            }
        }
    }
    Ok(())
}

#[inline(never)]
fn by_get(cells: &IndexBox, now: &View<'_, f64>, next: &mut ViewMut<'_, f64>) -> Result<(), Error> {
    let (lower, upper) = (cells.lower(), cells.upper());
    for i in lower[0]..upper[0] {
        for j in lower[1]..upper[1] {
            for k in lower[2]..upper[2] {
                let mut values = [0.0; 7];
                for (value, [di, dj, dk]) in values.iter_mut().zip(AROUND) {
                    *value = now.get(&[i + di, j + dj, k + dk]).ok_or("outside")?;
                }
                if !next.set(&[i, j, k], heat(values)) {
                    return Err("outside".into());
                }
            }
        }
    }
    Ok(())
}
