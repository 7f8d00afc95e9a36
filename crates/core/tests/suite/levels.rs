//! Levels and further axes of fields on grids.

use crate::common::*;
use haloport_core::*;
use haloport_cpu::CpuDevice;

fn pattern(comm: &Communicator) -> Result<Pattern, Failure> {
    let grid = Grid::new([4 * comm.size(), 3])?.periodic([true, true])?;
    let mine = Split::even(&grid, [comm.size(), 1])?.part(comm.rank()).ok_or("no part")?;
    Ok(Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?)
}

#[test]
fn all_levels_of_a_halo_are_filled_in_any_order_of_axes() {
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        run_ranks(3, |comm| -> Result<(), Failure> {
            let pattern = pattern(&comm)?;
            let rows = 4 * comm.size() as i64;
            let value =
                |cell: &[i64]| (100 * cell[0].rem_euclid(rows) + 10 * cell[1].rem_euclid(3) + cell[2]) as f64;
            let owned = pattern.boxes()[0].with_further_axis(0, 5);
            let builder = Field::<f64, CpuDevice>::builder(&pattern).levels(5).exchanged_levels(1..5);
            let mut field = builder.axis_order(order).build(&device()?)?;
            field.view_mut(0)?.fill_with(|cell, _| if owned.contains(cell) { value(cell) } else { -1.0 });
            let mut exchange = pattern.bind(field)?;
            exchange.overlap(
                &mut (),
                |pending, _| {
                    let view = pending.owned(|field| field, 0)?;
                    assert_eq!(view.region(), owned, "all levels of the cells that the domain owns");
                    let regions = pattern.regions(0).ok_or("no domain")?;
                    let interior = regions.interior.ok_or("no interior")?.with_further_axis(0, 5);
                    assert!(owned.encloses(&interior.grown_along(0, 1, 1)));
                    let sides = [[-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0], [0, 0, 0]];
                    let along = order[2];
                    assert!(view.rows_around(along, &interior, sides).is_ok());
                    Ok(())
                },
                |field, _| {
                    let view = field.view(0)?;
                    for i in view.region().lower()[0]..view.region().upper()[0] {
                        for j in -1..4 {
                            for level in 0..5 {
                                let cell = [i, j, level];
                                let filled = owned.contains(&cell) || level > 0;
                                let expected = if filled { value(&cell) } else { -1.0 };
                                assert_eq!(view[cell], expected, "{cell:?}");
                            }
                        }
                    }
                    Ok(())
                },
            )?;
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn axes_beyond_four_are_refused() {
    run_ranks(1, |comm| -> Result<(), Failure> {
        let builder = Field::<f64, CpuDevice>::builder(&pattern(&comm)?).further_axes([2, 3, 4]);
        let error = builder.build(&device()?).unwrap_err().to_string();
        assert_eq!(
            error,
            "the further axes of a field: expected at most 2 beside the 2 of the pattern; components are one more, \
             found [2, 3, 4]"
        );
        Ok(())
    })
    .unwrap();
}

#[test]
fn ranks_with_other_levels_are_refused() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        let pattern = pattern(&comm)?;
        let levels = 4 + comm.rank();
        let field = Field::<f64, CpuDevice>::builder(&pattern).levels(levels).build(&device()?)?;
        let error = pattern.bind(field).unwrap_err().to_string();
        assert!(error.contains("4 exchanged levels along axis 2 here and 5 on another rank"), "{error}");
        Ok(())
    })
    .unwrap();
}
