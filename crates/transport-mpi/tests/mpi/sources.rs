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
    if comm.size() == 1 || comm.all_reduce(u64::from(apart), Reduction::Max)? > 0 {
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
    for (mut source, path) in [(plain, DataPath::Shared), (own, DataPath::Direct)] {
        source.view_mut(0)?.fill_with(|cell, _| (cell[0] * COLUMNS as i64 + cell[1]) as f64);
        let target = Field::<f64, _>::new(&device, &columns)?;
        let mut exchange = to_columns.bind_with(SourceTarget { source, target }, asked())?;
        let routes = exchange.describe().routes;
        assert!(routes.iter().all(|route| route.path == path), "{path}: {routes:?}");
        for _ in 0..2 {
            exchange.run_blocking()?;
        }
        let view = exchange.fields().target.view(0)?;
        let (first, last) = (view.region().lower()[1], view.region().upper()[1] - 1);
        for row in 0..(ROWS * comm.size()) as i64 {
            for column in [first, last] {
                assert_eq!(view.get(&[row, column]), Some((row * COLUMNS as i64 + column) as f64), "{path}");
            }
        }
    }

    let refused =
        builder().source_of(&back).build(&device).map(|_| ()).err().ok_or("it was not refused")?.to_string();
    let (found, expected) = (columns.number(), rows.number());
    assert!(refused.contains(&format!("pattern {expected}, that of the field")), "{refused}");
    assert!(refused.contains(&format!("pattern {found}")), "{refused}");
    Ok(())
}
