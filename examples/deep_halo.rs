//! A halo of four cells and one exchange for every four steps: fewer messages, but some cells are computed twice.
//!
//! ```sh
//! cargo run --release --example deep_halo
//! ```

use haloport::cpu::CpuDevice;
use haloport::field::FieldError;
use haloport::{Communicator, Error, Field, Grid, Halo, IndexBox, Pattern, Split, run_ranks};

const EXTENTS: [usize; 2] = [60, 72];
const STEPS: usize = 48;

fn main() -> Result<(), Error> {
    let [shallow, deep] = [1, 4].map(|width| run_ranks(4, |comm| life(&comm, width)));
    let (shallow, deep) = (shallow?, deep?);
    let alive = |ranks: &[(Vec<u8>, usize)]| -> usize {
        ranks.iter().flat_map(|(cells, _)| cells).map(|&cell| usize::from(cell)).sum()
    };
    println!("halo 1: {} cells alive after {STEPS} steps, {} exchanges", alive(&shallow), shallow[0].1);
    println!("halo 4: {} cells alive after {STEPS} steps, {} exchanges", alive(&deep), deep[0].1);
    if shallow.iter().zip(&deep).any(|(shallow, deep)| shallow.0 != deep.0) {
        return Err("the results depend on the width of the halo".into());
    }
    Ok(())
}

/// Plays Conway's game of life. Returns the cells of this rank after all steps, and the number of exchanges.
fn life(comm: &Communicator, width: usize) -> Result<(Vec<u8>, usize), Error> {
    let grid = Grid::new(EXTENTS)?.periodic([true, true])?;
    let mine = Split::balanced(&grid, comm.size())?.part(comm.rank()).ok_or("more ranks than cells")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(width))?;
    let device = CpuDevice::with_threads(1)?;
    let (mut now, mut next) =
        (Field::<u8, _>::new(&device, &pattern)?, Field::<u8, _>::new(&device, &pattern)?);
    now.view_mut(0)?
        .fill_with(|cell, _| u8::from((cell[0] * cell[0] + 3 * cell[0] * cell[1] + cell[1]) % 5 < 2));

    // The two fields change places, so they are passed to the exchange each time.
    let mut plan = pattern.plan(&mut now)?;
    let mut exchanges = 0;
    for step in 0..STEPS {
        // After an exchange all but the outermost halo cells can be computed; then one layer less at each step.
        let layers = width - 1 - step % width;
        if layers + 1 == width {
            plan.run(&mut now)?;
            exchanges += 1;
        }
        let cells = mine.grown(layers);
        step_of_life(&cells, &now, &mut next)?;
        std::mem::swap(&mut now, &mut next);
    }
    let cells = now.view(0)?.rows(1, &mine)?.flatten().copied().collect();
    Ok((cells, exchanges))
}

fn step_of_life(
    cells: &IndexBox,
    now: &Field<u8, CpuDevice>,
    next: &mut Field<u8, CpuDevice>,
) -> Result<(), FieldError> {
    let around = [[-1, -1], [-1, 0], [-1, 1], [0, -1], [0, 1], [1, -1], [1, 0], [1, 1], [0, 0]];
    let (now, mut next) = (now.view(0)?, next.view_mut(0)?);
    for (next, rows) in next.rows_mut(1, cells)?.zip(now.rows_around(1, cells, around)?) {
        for (k, next) in next.iter_mut().enumerate() {
            let beside: u8 = rows[..8].iter().map(|row| row[k]).sum();
            *next = u8::from(beside == 3 || beside == 2 && rows[8][k] == 1);
        }
    }
    Ok(())
}
