//! Work beside exchanges on grids with ends: the cells beyond the ends, which the program fills, may be read meanwhile.

use crate::common::*;
use haloport_core::*;

const EXTENTS: [usize; 2] = [13, 11];
const STEPS: usize = 8;

/// The value of a cell beyond an end of the grid in a step.
fn wall(cell: &[i64], step: usize) -> f64 {
    (cell[0] * 31 + cell[1] * 17 + step as i64 * 7) as f64 / 64.0
}

fn first(cell: &[i64]) -> f64 {
    ((cell[0] * 5 + cell[1] * 3) % 7) as f64
}

/// The next value of a cell: a stencil that reaches `width` cells along each axis.
fn next(at: impl Fn(i64, i64) -> f64, width: i64) -> f64 {
    let around = (1..=width).map(|w| (at(-w, 0) + at(w, 0) + at(0, -w) + at(0, w)) / (8 * w) as f64);
    0.25 * at(0, 0) + around.sum::<f64>()
}

/// All cells of the grid after all steps, computed on one array.
fn oracle(width: i64, periodic: [bool; 2]) -> Vec<f64> {
    let [nx, ny] = EXTENTS.map(|extent| extent as i64);
    let mut now: Vec<f64> = (0..nx * ny).map(|cell| first(&[cell / ny, cell % ny])).collect();
    for step in 0..STEPS {
        let at = |mut i: i64, mut j: i64| {
            if periodic[0] {
                i = i.rem_euclid(nx);
            }
            if periodic[1] {
                j = j.rem_euclid(ny);
            }
            let inside = (0..nx).contains(&i) && (0..ny).contains(&j);
            if inside { now[(i * ny + j) as usize] } else { wall(&[i, j], step) }
        };
        now = (0..nx * ny).map(|cell| next(|i, j| at(cell / ny + i, cell % ny + j), width)).collect();
    }
    now
}

/// The cells of this rank after all steps, with the interior computed while halos travel.
fn solve(
    comm: &Communicator,
    grid: &Grid,
    counts: [usize; 2],
    width: usize,
    options: BindOptions,
) -> Result<Vec<(usize, f64)>, Error> {
    let mine = Split::even(grid, counts)?.part(comm.rank()).ok_or("no part")?;
    let pattern = Pattern::structured(comm, grid, &[mine], &Halo::uniform(width))?;
    let mut next_field = Numbers::new(&device()?, &pattern)?;
    let mut now = pattern.bind_with(Numbers::new(&device()?, &pattern)?, options)?;
    now.fields_mut().view_mut(0)?.fill_with(|cell, _| first(cell));
    let regions = pattern.regions(0).ok_or("no domain")?;
    for step in 0..STEPS {
        let mut view = now.fields_mut().view_mut(0)?;
        let beyond = view.region().minus(&grid.bounds());
        for cell in beyond.iter().flat_map(cells).filter(|cell| is_wall(grid, cell)) {
            view[cell] = wall(&cell, step);
        }
        let compute = |region: &IndexBox, now: &View<'_, f64>, next_field: &mut ViewMut<'_, f64>| {
            for [i, j] in cells(region) {
                next_field[[i, j]] = next(|di, dj| now[[i + di, j + dj]], width as i64);
            }
        };
        now.overlap(
            &mut next_field.view_mut(0)?,
            |pending, next| {
                let now = pending.owned(|field| field, 0)?;
                regions.interior.iter().for_each(|cells| compute(cells, &now, next));
                Ok(())
            },
            |field, next| {
                let now = field.view(0)?;
                regions.boundary.iter().for_each(|cells| compute(cells, &now, next));
                Ok(())
            },
        )?;
        let new = next_field.view(0)?;
        let mut old = now.fields_mut().view_mut(0)?;
        cells(&mine).into_iter().for_each(|cell| old[cell] = new[cell]);
    }
    let view = now.fields().view(0)?;
    Ok(cells(&mine).into_iter().map(|[i, j]| (i as usize * EXTENTS[1] + j as usize, view[[i, j]])).collect())
}

fn is_wall(grid: &Grid, cell: &[i64; 2]) -> bool {
    (0..2).any(|axis| !grid.is_periodic(axis) && !(0..EXTENTS[axis] as i64).contains(&cell[axis]))
}

fn cells(of: &IndexBox) -> Vec<[i64; 2]> {
    let rows = of.lower()[0]..of.upper()[0];
    rows.flat_map(|i| (of.lower()[1]..of.upper()[1]).map(move |j| [i, j])).collect()
}

#[test]
fn heat_between_walls_is_that_of_one_array() {
    for periodic in [[false, false], [false, true], [true, false]] {
        let grid = Grid::new(EXTENTS).unwrap().periodic(periodic).unwrap();
        for width in [1, 2] {
            let expected = oracle(width as i64, periodic);
            for counts in [[1, 1], [2, 1], [1, 2], [3, 1], [1, 3], [4, 1], [1, 4], [2, 2]] {
                for order in [HaloOrder::AllNeighbours, HaloOrder::AxisByAxis] {
                    let ranks = counts[0] * counts[1];
                    let options = || BindOptions::default().order(order);
                    let parts = run_ranks(ranks, |comm| solve(&comm, &grid, counts, width, options()));
                    let mut found = vec![f64::NAN; expected.len()];
                    parts.unwrap().into_iter().flatten().for_each(|(at, value)| found[at] = value);
                    let is_same = found.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(is_same, "{counts:?} ranks, halo {width}, periodic {periodic:?}, {order:?}");
                }
            }
        }
    }
}

#[test]
fn cells_beyond_an_end_may_be_written_while_halos_travel() {
    run_ranks(2, |comm| {
        let grid = Grid::new([8, 6])?.periodic([false, true])?;
        let mine = Split::even(&grid, [2, 1])?.part(comm.rank()).ok_or("no part")?;
        let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(2))?;
        let field = Field::<i32, _>::builder(&pattern).build(&device()?)?;
        let mut exchange = pattern.bind(field)?;
        let mut pending = exchange.start()?;
        // Two planes go to the other rank, and two columns around the periodic axis to the rank itself.
        let (readable, writable) = match comm.rank() {
            0 => ([-2, 4], [-2, 2]),
            _ => ([4, 10], [6, 10]),
        };
        let rows =
            |[lower, upper]: [i64; 2], [left, right]: [i64; 2]| IndexBox::new([lower, left], [upper, right]);
        assert_eq!(pending.owned(|field| field, 0)?.region(), rows(readable, [0, 6]));
        let mut interior = pending.interior_mut(|field| field, 0)?;
        assert_eq!(interior.region(), rows(writable, [2, 4]));
        let beyond = if comm.rank() == 0 { [-1, 3] } else { [8, 3] };
        interior[beyond] = 7;
        pending.finish()?;
        assert_eq!(exchange.fields().view(0)?[beyond], 7);
        Ok(())
    })
    .unwrap();
}

/// A clipped halo has no cells beyond the ends of the grid, and holds the same values as another one where both have cells.
#[test]
fn clipped_halos_end_at_the_ends_of_the_grid() {
    for connectivity in [Connectivity::All, Connectivity::Faces] {
        run_ranks(4, |comm| -> Result<(), Failure> {
            let grid = Grid::new(EXTENTS)?.periodic([false, true])?;
            let mine = Split::even(&grid, [2, 2])?.part(comm.rank()).ok_or("no part")?;
            let halo = Halo::per_side([(2, 3), (1, 2)]).with_connectivity(connectivity);
            let [whole, clipped] = [halo.clone(), halo.clipped()].map(|halo| {
                let pattern = Pattern::structured(&comm, &grid, &[mine], &halo)?;
                let mut field = Numbers::new(&device()?, &pattern)?;
                field.view_mut(0)?.fill_with(|cell, _| if mine.contains(cell) { first(cell) } else { -1.0 });
                let mut exchange = pattern.bind(field)?;
                exchange.run()?;
                Ok::<_, Failure>(exchange.into_fields()?)
            });
            let (whole, clipped) = (whole?, clipped?);
            let (there, here) = (whole.layout(0)?.allocated(), clipped.layout(0)?.allocated());
            let [lower, upper] = [there.lower()[0].max(0), there.upper()[0].min(EXTENTS[0] as i64)];
            assert_eq!(here, there.with_axis(0, lower, upper));
            for cell in cells(&here) {
                assert_eq!(clipped.view(0)?[cell], whole.view(0)?[cell], "{cell:?}");
            }
            Ok(())
        })
        .unwrap();
    }
}

/// The nodes of a staggered grid, one more along each axis than its cells, are cut as the cells are.
#[test]
fn nodes_are_cut_as_cells_are() {
    run_ranks(6, |comm| -> Result<(), Failure> {
        let grid = Grid::new(EXTENTS)?;
        let mine = Split::even(&grid, [3, 2])?.part(comm.rank()).ok_or("no part")?;
        let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(2))?;
        let nodes = Grid::new(EXTENTS.map(|extent| extent + 1))?;
        let boxes = pattern.boxes_on(&nodes)?;
        let end = |axis: usize| mine.upper()[axis] + i64::from(mine.upper()[axis] == EXTENTS[axis] as i64);
        assert_eq!(boxes, [IndexBox::new(mine.lower(), [end(0), end(1)])]);
        let of_nodes = Pattern::structured(&comm, &nodes, &boxes, &Halo::uniform(2).clipped())?;
        let mut field = Numbers::new(&device()?, &of_nodes)?;
        field.view_mut(0)?.fill_with(|cell, _| if boxes[0].contains(cell) { first(cell) } else { -1.0 });
        let mut exchange = of_nodes.bind(field)?;
        exchange.run()?;
        let view = exchange.fields().view(0)?;
        assert!(nodes.bounds().encloses(&view.region()));
        assert!(cells(&view.region()).into_iter().all(|cell| view[cell] == first(&cell)));

        // The last part is empty, and stays so.
        let sizes = Split::sizes(&grid, &[vec![EXTENTS[0]], vec![1, 2, 0, EXTENTS[1] - 3, 0, 0]])?;
        let mine = sizes.part(comm.rank()).ok_or("no part")?;
        let uneven = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
        assert_eq!(uneven.boxes_on(&nodes)?[0].is_empty(), mine.is_empty());
        Pattern::structured(&comm, &nodes, &uneven.boxes_on(&nodes)?, &Halo::uniform(1))?;

        let error = |other: &Grid| pattern.boxes_on(other).unwrap_err().to_string();
        assert!(error(&Grid::new([5])?).contains("entries, expected one for each"));
        let few = Grid::new([2, EXTENTS[1]])?;
        assert_eq!(pattern.boxes_on(&few).is_ok(), mine.upper()[0] <= 2);
        Ok(())
    })
    .unwrap();
}
