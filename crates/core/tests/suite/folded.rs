//! Folded grids: rows that ocean models know, cells in flight, and refusals.

use crate::common::*;
use haloport_core::*;
use haloport_cpu::CpuDevice;

const KINDS: [Points; 4] = [Points::Cells, Points::EastEdges, Points::NorthEdges, Points::Corners];

/// Eight points along x, four along y, in two domains side by side on each of two ranks.
fn pattern(comm: &Communicator, pivot: Pivot, points: Points) -> Result<Pattern, Failure> {
    let grid = Grid::new([4, 8])?.folded([0, 1], pivot)?.at(points)?;
    let split = Split::even(&grid, [1, 4])?;
    let mine =
        (0..2).map(|k| split.part(2 * comm.rank() + k).ok_or("no part")).collect::<Result<Vec<_>, _>>()?;
    Ok(Pattern::structured(comm, &grid, &mine, &Halo::per_axis([1, 0]))?)
}

/// The last row and the halo row after an exchange of points that held 10 j + i, except for duplicates, which held -99.
fn last_rows(pivot: Pivot, points: Points, vector: bool) -> [Vec<f64>; 2] {
    let rows = run_ranks(2, |comm| -> Result<_, Failure> {
        let pattern = pattern(&comm, pivot, points)?;
        let field = Field::<f64, CpuDevice>::builder(&pattern);
        let mut field = field.vector(if vector { &[1][..] } else { &[] }).build(&device()?)?;
        for domain in 0..2 {
            let duplicates: Vec<IndexBox> = (pattern.receives().values().flatten())
                .filter(|piece| piece.target_domain == domain)
                .filter_map(|piece| piece.target.as_box().copied())
                .collect();
            field.view_mut(domain)?.fill_with(|cell, _| {
                let is_duplicate = duplicates.iter().any(|cells| cells.contains(cell));
                if is_duplicate { -99.0 } else { (10 * cell[0] + cell[1]) as f64 }
            });
        }
        let mut exchange = pattern.bind(field)?;
        exchange.run_blocking()?;
        let mut rows: [Vec<f64>; 2] = Default::default();
        for domain in 0..2 {
            let view = exchange.fields().view(domain)?;
            for (row, j) in rows.iter_mut().zip([3, 4]) {
                row.extend((0..2).map(|k| view[[j, 4 * comm.rank() as i64 + 2 * domain as i64 + k]]));
            }
        }
        Ok(rows)
    })
    .unwrap();
    [0, 1].map(|row| rows.iter().flat_map(|rows| rows[row].clone()).collect())
}

#[test]
fn rows_beyond_the_fold_are_those_of_ocean_models() {
    let rows = |pivot, points| last_rows(pivot, points, false);
    let straight = [30., 31., 32., 33., 34., 35., 36., 37.];
    // T points fold onto the row below the last one, about the points 0 and 4.
    let [line, halo] = rows(Pivot::Cell, Points::Cells);
    assert_eq!(line, [30., 31., 32., 33., 34., 33., 32., 31.]);
    assert_eq!(halo, [20., 27., 26., 25., 24., 23., 22., 21.]);
    let [line, halo] = rows(Pivot::Cell, Points::EastEdges);
    assert_eq!(line, [30., 31., 32., 33., 33., 32., 31., 30.]);
    assert_eq!(halo, [27., 26., 25., 24., 23., 22., 21., 20.]);
    // The last row of V and F points lies beyond the fold.
    let [line, halo] = rows(Pivot::Cell, Points::NorthEdges);
    assert_eq!(line, [20., 27., 26., 25., 24., 23., 22., 21.]);
    assert_eq!(halo, [10., 17., 16., 15., 14., 13., 12., 11.]);
    let [line, halo] = rows(Pivot::Cell, Points::Corners);
    assert_eq!(line, [27., 26., 25., 24., 23., 22., 21., 20.]);
    assert_eq!(halo, [17., 16., 15., 14., 13., 12., 11., 10.]);
    // About corners, T and U points have no duplicates.
    let [line, halo] = rows(Pivot::Corner, Points::Cells);
    assert_eq!((&line[..], &halo[..]), (&straight[..], &[37., 36., 35., 34., 33., 32., 31., 30.][..]));
    let [line, halo] = rows(Pivot::Corner, Points::EastEdges);
    assert_eq!((&line[..], &halo[..]), (&straight[..], &[36., 35., 34., 33., 32., 31., 30., 37.][..]));
    let [line, halo] = rows(Pivot::Corner, Points::NorthEdges);
    assert_eq!(line, [30., 31., 32., 33., 33., 32., 31., 30.]);
    assert_eq!(halo, [27., 26., 25., 24., 23., 22., 21., 20.]);
    // The corners 3 and 7 are the pivots.
    let [line, halo] = rows(Pivot::Corner, Points::Corners);
    assert_eq!(line, [30., 31., 32., 33., 32., 31., 30., 37.]);
    assert_eq!(halo, [26., 25., 24., 23., 22., 21., 20., 27.]);
}

#[test]
fn vectors_change_their_signs_beyond_the_fold() {
    let [line, halo] = last_rows(Pivot::Cell, Points::EastEdges, true);
    assert_eq!(line, [30., 31., 32., 33., -33., -32., -31., -30.]);
    assert_eq!(halo, [-27., -26., -25., -24., -23., -22., -21., -20.]);
}

#[test]
fn views_in_flight_have_no_duplicates() {
    for pivot in [Pivot::Cell, Pivot::Corner] {
        for points in KINDS {
            run_ranks(2, |comm| -> Result<(), Failure> {
                let pattern = pattern(&comm, pivot, points)?;
                let has_duplicates =
                    pivot == Pivot::Cell || !matches!(points, Points::Cells | Points::EastEdges);
                for domain in 0..2 {
                    let all = pattern.boxes()[domain];
                    let filled: Vec<IndexBox> = (pattern.receives().values().flatten())
                        .filter(|piece| piece.target_domain == domain)
                        .filter_map(|piece| piece.target.as_box().copied())
                        .collect();
                    let (owned, interior) = (pattern.owned(domain), pattern.interior(domain));
                    for cells in owned.iter().chain(&interior) {
                        assert!(all.encloses(cells));
                        assert!(filled.iter().all(|filled| filled.intersection(cells).is_none()), "{cells}");
                    }
                    let regions = pattern.regions(domain).ok_or("no domain")?;
                    let interior = regions.interior.ok_or("no interior")?;
                    assert_eq!(interior.upper()[0], if has_duplicates { 2 } else { 3 });
                    let cells: u128 = regions.boundary.iter().map(IndexBox::cells).sum();
                    assert_eq!(interior.cells() + cells, all.cells());
                    let reads = interior.grown_along(0, 1, 1);
                    assert!(filled.iter().all(|filled| filled.intersection(&reads).is_none()), "{reads}");
                }
                Ok(())
            })
            .unwrap();
        }
    }
}

#[test]
fn folds_that_cannot_be_are_refused() {
    let folded = |extents: [usize; 2], axes: [usize; 2]| Grid::new(extents)?.folded(axes, Pivot::Cell);
    let text = |made: Result<Grid, GridError>| made.unwrap_err().to_string();
    assert_eq!(
        text(folded([4, 7], [0, 1])),
        "the fold of the grid joins 7 cells along axis 1, expected an even number"
    );
    assert!(text(folded([1, 8], [0, 1])).contains("which has 1 cell, expected at least 2"));
    assert!(text(folded([4, 8], [0, 2])).contains("expected two of the 2 axes of the grid"));
    assert!(text(folded([4, 8], [1, 1])).contains("the axes 1 and 1"));
    let periodic = Grid::new([4, 8]).unwrap().periodic([true, true]).unwrap();
    assert!(text(periodic.folded([0, 1], Pivot::Cell)).contains("along which the grid is periodic"));
    let fold = folded([4, 8], [0, 1]).unwrap();
    assert!(fold.is_periodic(1) && fold.periodic([false, true]).is_ok());
    assert!(text(fold.periodic([false, false])).contains("periodic along axis 1 and not along axis 0"));
    assert!(text(Grid::cubed_sphere(4).unwrap().folded([1, 2], Pivot::Cell)).contains("a cubed sphere"));
    assert!(text(Grid::new([4, 8]).unwrap().at(Points::Corners)).contains("call `folded` first"));
    run_ranks(2, |comm| -> Result<(), Failure> {
        let mine = Split::even(&fold, [1, 2])?.part(comm.rank()).ok_or("no part")?;
        let wide = Pattern::structured(&comm, &fold, &[mine], &Halo::per_side([(0, 4), (0, 0)])).unwrap_err();
        assert!(
            wide.to_string().contains("the halo along axis 0 is 4 cells wide, expected at most 3"),
            "{wide}"
        );
        let other = fold.at(KINDS[comm.rank()])?;
        let error = Pattern::structured(&comm, &other, &[mine], &Halo::uniform(1)).unwrap_err().to_string();
        assert!(
            error.contains(
                "the points EastEdges here and the axes 0 and 1, the pivot Cell and the points Cells"
            )
        );
        Ok(())
    })
    .unwrap();
}
