//! Heat in a block with a hot wall, in three dimensions: the interior is computed while halos travel.
//!
//! ```sh
//! cargo run --release --example heat         # four ranks, as threads,
//! mpirun -n 4 target/release/examples/heat   # or as processes
//! ```

use haloport::cpu::CpuDevice;
use haloport::domain::Connectivity;
use haloport::field::FieldError;
use haloport::{Communicator, Error, Field, Grid, Halo, IndexBox, Pattern, Reduction, Split, View, ViewMut};

/// The numbers of cells along z, y and x. Cells along the last axis lie side by side in memory.
const EXTENTS: [usize; 3] = [32, 40, 48];
const STEPS: usize = 200;

fn main() -> Result<(), Error> {
    if haloport::comm::launched_by().is_none() {
        haloport::run_ranks(4, |comm| heat(&comm))?;
        return Ok(());
    }
    haloport::mpi::install_abort_hook();
    let session = haloport::mpi::initialize()?;
    let done = session.world().map_err(Error::from).and_then(|comm| heat(&comm));
    if let Err(error) = done {
        // Without this, the other ranks would wait for one that has ended.
        eprintln!("{error}");
        session.abort(1);
    }
    Ok(())
}

fn heat(comm: &Communicator) -> Result<(), Error> {
    let grid = Grid::new(EXTENTS)?; // not periodic: a wall on every side
    let mine = Split::balanced(&grid, comm.size())?.part(comm.rank()).ok_or("more ranks than cells")?;
    let halo = Halo::uniform(1).with_connectivity(Connectivity::Faces);
    let pattern = Pattern::structured(comm, &grid, &[mine], &halo)?;
    let device = CpuDevice::with_threads(1)?; // one core for each rank

    // No exchange touches the halo cells beyond the walls: the program fills them, once. The wall below is hot.
    let walls = |cell: &[i64], _: usize| if cell[0] < 0 { 1.0 } else { 0.0 };
    let bind = || -> Result<_, Error> {
        let mut field = Field::<f64, _>::new(&device, &pattern)?;
        field.view_mut(0)?.fill_with(walls);
        Ok(pattern.bind(field)?)
    };
    let (mut now, mut next) = (bind()?, bind()?);

    let regions = pattern.regions(0).ok_or("this rank has no domain")?;
    for _ in 0..STEPS {
        now.overlap(
            &mut next.fields_mut().view_mut(0)?,
            |pending, next| {
                let now = pending.owned(|field| field, 0)?;
                Ok(regions.interior.iter().try_for_each(|cells| step(cells, &now, next))?)
            },
            |field, next| {
                let now = field.view(0)?;
                Ok(regions.boundary.iter().try_for_each(|cells| step(cells, &now, next))?)
            },
        )?;
        std::mem::swap(&mut now, &mut next);
    }

    // The mean of each rank's uppermost layer shows how far the heat has come.
    let view = now.fields().view(0)?;
    let top = mine.with_axis(0, mine.upper()[0] - 1, mine.upper()[0]);
    let sum: f64 = view.rows(2, &top)?.flatten().sum();
    let means = comm.gather(0, &(top, sum / top.cells() as f64))?; // on rank 0
    for (rank, (cells, mean)) in means.into_iter().flatten().enumerate() {
        println!("rank {rank}: mean of {cells}: {mean:.6}");
    }
    let hottest = view.rows(2, &mine)?.flatten().copied().fold(0.0, f64::max);
    let hottest = comm.all_reduce(hottest, Reduction::Max)?;
    let near_wall = (0.8..1.0).contains(&hottest); // the wall has 1
    if near_wall { Ok(()) } else { Err(format!("the hottest cell has {hottest}, expected 0.8 to 1").into()) }
}

/// Computes one step for a box of cells, row by row.
fn step(cells: &IndexBox, now: &View<'_, f64>, next: &mut ViewMut<'_, f64>) -> Result<(), FieldError> {
    let offsets = [[0, 0, 0], [-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 1]];
    let around = now.rows_around(2, cells, offsets)?;
    for (next, [here, below, above, south, north, west, east]) in next.rows_mut(2, cells)?.zip(around) {
        let next = &mut next[..here.len()]; // checks the length once, not for each cell
        for k in 0..here.len() {
            let around = below[k] + above[k] + south[k] + north[k] + west[k] + east[k];
            next[k] = here[k] + 0.15 * (around - 6.0 * here[k]);
        }
    }
    Ok(())
}
