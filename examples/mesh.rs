//! A mesh whose fields lie in the program's own memory, with two exchanges in flight at once.
//!
//! ```sh
//! cargo run --release --example mesh
//! ```

use haloport::cpu::CpuDevice;
use haloport::field::{BlockLayout, FieldError};
use haloport::{BorrowedField, Error, Field, HaloCells, IndexSet, Pattern, run_ranks};

/// The mesh: rows and columns of hexagons on a torus.
const ROWS: i64 = 30;
const COLUMNS: i64 = 40;
const LEVELS: usize = 10;
const STEPS: usize = 50;

fn main() -> Result<(), Error> {
    let sums = run_ranks(4, |comm| {
        // The global ids of this rank's cells, and of the cells of other ranks beside them.
        let (rank, ranks) = (comm.rank() as i64, comm.size() as i64);
        let owned: Vec<i64> = (rank * ROWS * COLUMNS / ranks..(rank + 1) * ROWS * COLUMNS / ranks).collect();
        let mut halo: Vec<i64> = owned.iter().flat_map(|&cell| neighbours(cell)).collect();
        halo.sort_unstable();
        halo.dedup();
        halo.retain(|cell| !owned.contains(cell));
        let cells = IndexSet::new(&owned, &halo);
        let local = |id: i64| cells.ids().iter().position(|&other| other == id).unwrap_or(usize::MAX);
        let beside: Vec<[usize; 6]> = owned.iter().map(|&cell| neighbours(cell).map(local)).collect();
        let pattern = Pattern::unstructured(&comm, std::slice::from_ref(&cells), &HaloCells::All)?;

        // The layout of a field with levels: the levels of a cell lie side by side. The values lie in vectors of the program.
        let device = CpuDevice::with_threads(1)?;
        let layout = Field::<f64, _>::builder(&pattern).levels(LEVELS).build(&device)?.layout(0)?.clone();
        let value = |id: i64| (0..LEVELS).map(move |level| ((id * 37 + level as i64) % 101) as f64);
        let mut heat: Vec<f64> = cells.ids().iter().copied().flat_map(value).collect();
        let mut salt: Vec<f64> = heat.iter().map(|value| 100.0 - value).collect();

        // A plan is made of layouts, once. The memory is lent at each start, and belongs to the program in between.
        let mut move_heat = pattern.plan(lend(&device, &layout, &mut heat)?)?;
        let mut move_salt = pattern.plan(lend(&device, &layout, &mut salt)?)?;
        for _ in 0..STEPS {
            let first = move_heat.start(lend(&device, &layout, &mut heat)?)?;
            let second = move_salt.start(lend(&device, &layout, &mut salt)?)?;
            first.finish()?;
            mix(&beside, &mut heat);
            second.finish()?;
            mix(&beside, &mut salt);
        }
        let own = owned.len() * LEVELS;
        Ok((heat[..own].iter().sum::<f64>(), salt[..own].iter().sum::<f64>()))
    })?;
    // Mixing keeps the sums, and so does the exchange.
    let (heat, salt) = sums.iter().fold((0.0, 0.0), |all, part| (all.0 + part.0, all.1 + part.1));
    let count = (ROWS * COLUMNS * LEVELS as i64) as f64;
    println!("mean heat {:.9}, mean salt {:.9}", heat / count, salt / count);
    if (heat / count + salt / count - 100.0).abs() > 1e-9 {
        return Err("the means do not add up to 100".into());
    }
    Ok(())
}

fn lend<'m>(
    device: &CpuDevice,
    layout: &BlockLayout,
    values: &'m mut [f64],
) -> Result<BorrowedField<'m, f64, CpuDevice>, FieldError> {
    BorrowedField::new(device, [(values, layout.clone())])
}

/// Returns the global ids of the six cells beside a hexagon.
fn neighbours(cell: i64) -> [i64; 6] {
    let (row, column) = (cell / COLUMNS, cell % COLUMNS);
    [[0, -1], [0, 1], [-1, 0], [1, 0], [-1, 1], [1, -1]]
        .map(|[down, right]| (row + down).rem_euclid(ROWS) * COLUMNS + (column + right).rem_euclid(COLUMNS))
}

/// Moves every owned cell towards the mean of the cells beside it, level by level.
fn mix(beside: &[[usize; 6]], values: &mut [f64]) {
    let old = values.to_vec();
    for (cell, beside) in beside.iter().enumerate() {
        for level in 0..LEVELS {
            let at = |cell: usize| old[cell * LEVELS + level];
            values[cell * LEVELS + level] +=
                0.1 * (beside.iter().map(|&other| at(other)).sum::<f64>() - 6.0 * at(cell));
        }
    }
}
