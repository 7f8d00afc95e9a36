//! Several domains on each rank, and fields of several types in one exchange: one message carries all to a neighbour.
//!
//! ```sh
//! cargo run --release --example several_fields
//! ```

use haloport::cpu::CpuDevice;
use haloport::field::ComponentPlace;
use haloport::{Error, Field, Grid, Halo, IndexBox, Pattern, field_set, run_ranks};

const EXTENTS: [i64; 2] = [24, 36];

/// The fields of a shallow-water model.
struct Flow {
    depth: Field<f64, CpuDevice>,
    /// Two components for each cell, side by side.
    velocity: Field<f32, CpuDevice>,
    is_land: Field<u8, CpuDevice>,
}

// All of them travel in one exchange.
field_set!(impl for Flow { depth, velocity, is_land });

fn main() -> Result<(), Error> {
    let traffic = run_ranks(3, |comm| {
        let grid = Grid::new([EXTENTS[0] as usize, EXTENTS[1] as usize])?.periodic([true, true])?;
        // Each rank has two domains that do not touch: rank 0 has rows 0 to 3 and 12 to 15, and so on.
        let first = 4 * comm.rank() as i64;
        let mine = [first, first + 12].map(|row| IndexBox::new([row, 0], [row + 4, EXTENTS[1]]));
        let pattern = Pattern::structured(&comm, &grid, &mine, &Halo::per_axis([1, 2]))?;

        let device = CpuDevice::with_threads(1)?;
        let mut flow = Flow {
            depth: Field::new(&device, &pattern)?,
            velocity: Field::<f32, _>::builder(&pattern)
                .components(2, ComponentPlace::Fastest)
                .build(&device)?,
            is_land: Field::new(&device, &pattern)?,
        };
        for (domain, cells) in mine.iter().enumerate() {
            // Only the domain's own cells are filled; the halo is left at 0.
            flow.depth
                .view_mut(domain)?
                .fill_with(|cell, _| if cells.contains(cell) { depth(cell) } else { 0.0 });
            flow.velocity.view_mut(domain)?.fill_with(|cell, component| {
                if cells.contains(cell) { (cell[component] + 1) as f32 } else { 0.0 }
            });
            flow.is_land
                .view_mut(domain)?
                .fill_with(|cell, _| u8::from(cells.contains(cell) && depth(cell) < 5.0));
        }

        let mut exchange = pattern.bind(flow)?;
        exchange.run()?;

        // Every cell of every block, halo included, now holds the value of the cell that it stands for.
        let Flow { depth: depths, velocity, is_land } = exchange.fields();
        for domain in 0..mine.len() {
            let (depths, velocity) = (depths.view(domain)?, velocity.view(domain)?);
            let (is_land, cells) = (is_land.view(domain)?, depths.region());
            for i in cells.lower()[0]..cells.upper()[0] {
                for j in cells.lower()[1]..cells.upper()[1] {
                    let cell = [i.rem_euclid(EXTENTS[0]), j.rem_euclid(EXTENTS[1])];
                    let found = (depths[[i, j]], velocity.component(&[i, j], 1), is_land[[i, j]]);
                    let expected = (depth(&cell), Some((cell[1] + 1) as f32), u8::from(depth(&cell) < 5.0));
                    if found != expected {
                        return Err(format!("cell {i}, {j} holds {found:?}, expected {expected:?}").into());
                    }
                }
            }
        }
        Ok(exchange.traffic())
    })?;
    println!("right in all cells; an exchange of rank 0 moves {:?}", traffic[0]);
    Ok(())
}

fn depth(cell: &[i64]) -> f64 {
    ((7 * cell[0] + 3 * cell[1]) % 31) as f64
}
