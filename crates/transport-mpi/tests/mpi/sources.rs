//! The sources of redistributions in memory that other processes of the node map.

use haloport_core::exchange::{BindOptions, SourceTarget};
use haloport_core::transport::{Reach, Reduction};
use haloport_core::{Communicator, DataPath, Field, Grid, Halo, Pattern, Split};
use haloport_cpu::CpuDevice;

use crate::{Failure, Outcome};

/// Rows of each rank, and columns: a field of a rank has 4 MiB, too much to be shared as a whole without being asked.
const ROWS: usize = 512;
const COLUMNS: usize = 1024;

/// Of a large field, ranks copy the columns that they receive straight if the field was made as a source of that redistribution.
pub(crate) fn large_sources(comm: &Communicator) -> Outcome {
    let apart = !matches!(comm.info().reach, Reach::Node { apart: None, .. });
    if comm.all_reduce(u64::from(apart), Reduction::Max)? > 0 {
        if comm.rank() == 0 && comm.size() > 1 {
            println!("skipped: large sources of redistributions: these ranks share no memory");
        }
        return Ok(());
    }
    let grid = Grid::new([ROWS * comm.size(), COLUMNS])?;
    let cut = |parts: [usize; 2]| -> Result<Pattern, Failure> {
        let mine = Split::even(&grid, parts)?.part(comm.rank()).ok_or("every rank has a part")?;
        Ok(Pattern::structured(comm, &grid, &[mine], &Halo::uniform(0))?)
    };
    let (rows, columns) = (cut([comm.size(), 1])?, cut([1, comm.size()])?);
    let (to_columns, back) = (rows.redistribute(&columns)?, columns.redistribute(&rows)?);
    let device = CpuDevice::with_threads(1)?;
    let builder = || Field::<f64, _>::builder(&rows);

    let plain = builder().build(&device)?;
    let own = builder().source_of(&to_columns).build(&device)?;
    let asked = || BindOptions::default().prefer(DataPath::Direct);
    for (source, path) in [(plain, DataPath::Shared), (own, DataPath::Direct)] {
        let target = Field::<f64, _>::new(&device, &columns)?;
        let mut exchange = to_columns.bind_with(SourceTarget { source, target }, asked())?;
        let routes = exchange.describe().routes;
        // To and from each other rank.
        assert_eq!(routes.len(), 2 * (comm.size() - 1));
        assert!(routes.iter().all(|route| route.path == path), "{path}: {routes:?}");
        for round in 0..2 {
            let value = |row: i64, column: i64| (row * COLUMNS as i64 + column + round) as f64;
            exchange.fields_mut().source.view_mut(0)?.fill_with(|cell, _| value(cell[0], cell[1]));
            exchange.run_blocking()?;
            let view = exchange.fields().target.view(0)?;
            let region = view.region();
            for row in region.lower()[0]..region.upper()[0] {
                for column in region.lower()[1]..region.upper()[1] {
                    assert_eq!(view.get(&[row, column]), Some(value(row, column)), "{path}, round {round}");
                }
            }
        }
    }

    let refused =
        builder().source_of(&back).build(&device).map(|_| ()).err().ok_or("it was not refused")?.to_string();
    let expected =
        format!("expected pattern {}, that of the field, found pattern {}", rows.number(), columns.number());
    assert!(refused.contains(&expected), "{refused}");
    Ok(())
}
