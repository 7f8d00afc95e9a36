//! Halo exchange from end to end.

use haloport_core::field::ComponentPlace;
use haloport_core::{Communicator, Field, Grid, Halo, Pattern, Schedule, Split};
use haloport_cpu::CpuDevice;

use crate::Outcome;

pub(crate) fn structured(comm: &Communicator) -> Outcome {
    let grid = Grid::new([18, 14])?.periodic([true, false])?;
    let split = Split::balanced(&grid, comm.size())?;
    let mine = split.part(comm.rank()).ok_or("every rank has a part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(2))?;
    let device = CpuDevice::with_threads(1)?;
    let first = Field::<f64, _>::new(&device, &pattern)?;
    let second = Field::<i16, _>::builder(&pattern)
        .components(3, ComponentPlace::Slowest)
        .axis_order([1, 0])
        .build(&device)?;
    let mut exchange = pattern.bind((first, second))?;
    let value = |i: i64, j: i64| (i.rem_euclid(18) * 100 + j) as f64;
    for round in 0..20 {
        let shift = f64::from(round);
        let (first, second) = exchange.fields_mut();
        first.view_mut(0)?.fill_with(|index, _| {
            if mine.contains(index) { value(index[0], index[1]) + shift } else { -1.0 }
        });
        second.view_mut(0)?.fill_with(|index, component| {
            if mine.contains(index) { value(index[0], index[1]) as i16 + component as i16 } else { -1 }
        });
        exchange.start(Schedule::DefaultStream)?.finish(Schedule::DefaultStream)?;
        let (first, second) = exchange.fields();
        let (first, second) = (first.view(0)?, second.view(0)?);
        let all = first.region();
        for i in all.lower()[0]..all.upper()[0] {
            for j in all.lower()[1]..all.upper()[1] {
                let inside = (0..14).contains(&j);
                let expected = if inside { value(i, j) + shift } else { -1.0 };
                assert_eq!(first.get(&[i, j]), Some(expected), "{i} {j}");
                let expected = if inside { value(i, j) as i16 + 2 } else { -1 };
                assert_eq!(second.component(&[i, j], 2), Some(expected), "{i} {j}");
            }
        }
    }
    Ok(())
}
