//! The cubed sphere: one edge by hand, the places of cells, and refusals.

use crate::common::*;
use haloport_core::*;
use haloport_cpu::CpuDevice;

const CELLS: i64 = 4;

/// Beyond the upper edge in y of tile 0 lies the left column of tile 2, top down: its x continues y, and its y is x
/// reversed.
#[test]
fn a_vector_arrives_in_the_axes_of_the_tile_that_it_arrives_in() {
    for ranks in [1, 2, 3, 6, 12] {
        run_ranks(ranks, |comm| -> Result<(), Failure> {
            let grid = Grid::cubed_sphere(CELLS as usize)?;
            let mine = Split::balanced(&grid, ranks)?.part(comm.rank()).ok_or("no part")?;
            let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(2))?;
            let wind = Field::<f64, CpuDevice>::builder(&pattern)
                .components(3, ComponentPlace::Fastest)
                .vector([1, 2])
                .build(&device()?)?;
            let mut exchange = pattern.bind(wind)?;
            let number = |cell: [i64; 3]| (100 * cell[0] + 10 * cell[1] + cell[2]) as f64;
            // A component along y, one along x, and a scalar.
            exchange.fields_mut().view_mut(0)?.fill_with(|cell, component| {
                let owned = mine.contains(cell);
                if owned { 1000.0 * component as f64 + number([cell[0], cell[1], cell[2]]) } else { -1.0 }
            });
            exchange.run_blocking()?;
            let view = exchange.fields().view(0)?;
            if !mine.contains(&[0, CELLS - 1, CELLS - 1]) {
                return Ok(());
            }
            for x in mine.lower()[2]..CELLS {
                for beyond in 0..2 {
                    let cell = [0, CELLS + beyond, x];
                    let from = number([2, CELLS - 1 - x, beyond]);
                    let found = [0, 1, 2].map(|component| view.component(&cell, component));
                    assert_eq!(found, [Some(1000.0 + from), Some(-from), Some(2000.0 + from)], "{cell:?}");
                }
            }
            // Three tiles meet at the corner: nothing lies beyond it.
            assert_eq!(view.component(&[0, CELLS, CELLS], 0), Some(-1.0));
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn points_of_cells_are_on_the_sphere_where_the_tiles_are() {
    let grid = Grid::cubed_sphere_with_levels(5, 3).unwrap();
    assert_eq!(grid.face_axes(), Some([2, 3]));
    let close = |found: Option<[f64; 3]>, expected: [f64; 3]| {
        let found = found.unwrap();
        assert!((0..3).all(|k| (found[k] - expected[k]).abs() < 1e-15), "{found:?}, expected {expected:?}");
    };
    close(grid.point_on_sphere(&[0, 1, 2, 2]), [1.0, 0.0, 0.0]);
    close(grid.point_on_sphere(&[2, 0, 2, 2]), [0.0, 0.0, 1.0]);
    // Equiangular: one cell to the east is 90/5 degrees.
    let angle = std::f64::consts::PI / 10.0;
    close(grid.point_on_sphere(&[0, 1, 2, 3]), [angle.cos(), angle.sin(), 0.0]);
    assert_eq!(grid.point_on_sphere(&[0, 1, 2, 5]), None);
    assert_eq!(Grid::new([6, 5, 5]).unwrap().point_on_sphere(&[0, 1, 1]), None);
}

#[test]
fn whole_tiles_are_dealt_out_first() {
    let grid = Grid::cubed_sphere(48).unwrap();
    let parts = |ranks: usize| Split::balanced(&grid, ranks).unwrap().parts_per_axis();
    assert_eq!(parts(2), [2, 1, 1]);
    assert_eq!(parts(6), [6, 1, 1]);
    assert_eq!(parts(8), [2, 2, 2]);
    assert_eq!(parts(24), [6, 2, 2]);
    assert_eq!(parts(5), [1, 5, 1]);
}

/// The tile of each rank.
fn tiles(comm: &Communicator, halo: &Halo) -> Result<Pattern, Failure> {
    let grid = Grid::cubed_sphere(CELLS as usize)?;
    let mine = Split::even(&grid, [comm.size(), 1, 1])?.part(comm.rank()).ok_or("no part")?;
    Ok(Pattern::structured(comm, &grid, &[mine], halo)?)
}

#[test]
fn halos_that_a_cubed_sphere_has_not_are_refused() {
    let text = refused(2, |comm| tiles(comm, &Halo::per_axis([1, 1, 1])).map(drop));
    assert_eq!(text, "rank 0: the halo along axis 0 is 1 cells wide, expected at most 0");
    let text = refused(3, |comm| tiles(comm, &Halo::uniform(5)).map(drop));
    assert_eq!(text, "rank 0: the halo along axis 1 is 5 cells wide, expected at most 4");
    let error = Grid::cubed_sphere(4).unwrap().periodic([false, false, true]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "axis 2 of a cubed sphere cannot be periodic: the edges of its tiles are joined already"
    );
    let levels = Grid::cubed_sphere_with_levels(4, 3).unwrap();
    assert!(levels.periodic([false, true, false, false]).is_ok());
    let text = refused(2, |comm| {
        let grid = if comm.rank() == 0 { Grid::cubed_sphere(4)? } else { Grid::new([6, 4, 4])? };
        let halo = Halo::per_axis([0, 1, 1]);
        let domains = [grid.bounds()];
        Pattern::structured(comm, &grid, &domains[comm.rank()..], &halo)?;
        Ok(())
    });
    assert!(
        text.starts_with(
            "rank 1: the grid is 0..6 × 0..4 × 0..4 (periodic: [false, false, false]) here and a cubed"
        ),
        "{text}"
    );
}

#[test]
fn vectors_that_cannot_be_turned_are_refused() {
    let text = refused(2, |comm| {
        let pattern = tiles(comm, &Halo::uniform(1))?;
        let builder = Field::<u16, CpuDevice>::builder(&pattern).components(2, ComponentPlace::Slowest);
        builder.vector([1, 2]).build(&device()?)?;
        Ok(())
    });
    assert_eq!(
        text,
        "the elements of a vector field: expected numbers with a sign: across some edges components change \
         theirs, found 16-bit unsigned integers"
    );
    let vector = |comm: &Communicator, axes: &[usize]| -> Result<(), Failure> {
        let pattern = tiles(comm, &Halo::uniform(1))?;
        let builder = Field::<f32, CpuDevice>::builder(&pattern).components(2, ComponentPlace::Slowest);
        pattern.bind(builder.vector(axes).build(&device()?)?)?;
        Ok(())
    };
    for axes in [&[1, 2, 1][..], &[1, 3]] {
        let text = refused(3, |comm| vector(comm, axes));
        assert_eq!(
            text,
            format!(
                "the axes that components point along: expected at most 2, one for each component, below 3, \
                 found {axes:?}"
            )
        );
    }
    for axes in [&[2][..], &[1, 1], &[0, 0]] {
        let text = refused(2, |comm| vector(comm, axes));
        assert_eq!(
            text,
            format!(
                "rank 0: field 0 has components along the axes {axes:?} of a cubed sphere, expected as many along \
                 axis 1 as along axis 2, and none along axis 0"
            )
        );
    }
    let text = refused(3, |comm| vector(comm, if comm.rank() == 1 { &[2, 1] } else { &[1, 2] }));
    assert_eq!(
        text,
        "rank 1: the fields are [32-bit floats with components along the axes [2, 1] (device 0)] here and \
         [32-bit floats with components along the axes [1, 2] (device 0)] on rank 0; bind the same fields on every rank"
    );
}
