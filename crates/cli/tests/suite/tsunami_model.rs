//! The scheme: exact invariants, and known solutions.

use std::ops::Range;

use haloport_conformance::{drawn, usual};
use haloport_demos::tsunami::model::SHIPPED;
use haloport_demos::tsunami::model::block::{Block, BlockError, Fields, MARGIN, State, Walls, fill_walls};
use haloport_demos::tsunami::model::metric::Metric;
use haloport_demos::tsunami::model::relief::Relief;
use haloport_demos::tsunami::model::scheme::{Physics, Stage, Workspace, max_rate, stage_rows};
use haloport_demos::tsunami::model::survey::{Survey, raise_largest};
use haloport_demos::tsunami::model::uplift::{Uplift, initial_state};

/// A hump that reaches the coast within minutes and floods it.
const FLOOD: Uplift = Uplift {
    longitude: 234.9,
    latitude: 48.72,
    height: 8.0,
    length: 20_000.0,
    width: 10_000.0,
    strike: 310.0,
};

#[test]
fn lake_at_rest_stays_exactly_at_rest() {
    let relief = shipped(1);
    let calm = Uplift { height: 0.0, ..Uplift::default() };
    let mut run = Run::whole(&relief, Physics::default(), &calm);
    let start = run.fields.clone();
    run.until(usual(600.0, 3600.0));
    run.walls();
    assert_owned_equal(&run.block, &run.fields, &start);
}

#[test]
fn raised_lake_with_flooded_shores_stays_at_rest() {
    let relief = shipped(1);
    let mut run = Run::whole(&relief, Physics::default(), &Uplift::default());
    let level = 37.3;
    for (h, bed) in run.fields.h.iter_mut().zip(&run.block.bed) {
        *h = (level - bed).max(0.0);
    }
    let before = run.survey();
    run.until(usual(600.0, 3600.0));
    let after = run.survey();
    assert!(after.max_speed < 1e-10, "{after:?}");
    assert!((after.volume / before.volume - 1.0).abs() < 1e-12);
}

#[test]
fn volume_is_conserved_and_depths_stay_positive_while_the_coast_floods_and_dries() {
    let relief = shipped(1);
    for physics in drawn(&[Physics::default(), Physics { courant: 1.0, drag: 0.0, ..Physics::default() }]) {
        let mut run = Run::whole(&relief, *physics, &FLOOD);
        let before = run.survey();
        let mut flooded = false;
        while run.time < usual(1800.0, 3600.0) {
            run.step();
            let now = run.survey();
            assert!(now.min_depth >= 0.0, "{} s: {now:?}", run.time);
            let drift = now.volume / before.volume - 1.0;
            assert!(drift.abs() < 1e-12, "{} s: drift {drift:e}", run.time);
            let mut cells = run.fields.h.iter().zip(&run.block.bed);
            flooded |= cells.any(|(&h, &bed)| bed > 0.0 && h > 0.5);
        }
        assert!(flooded, "no land was flooded");
    }
}

#[test]
fn blocks_and_ranges_change_no_bit() {
    let relief = shipped(1);
    let (nx, ny) = (relief.nx(), relief.ny());
    let mut reference = Run::whole(&relief, Physics::default(), &FLOOD);
    for _ in 0..usual(60, 150) {
        reference.step();
    }
    let mut whole = vec![0.0; nx * ny];
    for cuts in drawn(&[
        (&[0, 57, nx][..], &[0, ny][..]),
        (&[0, nx], &[0, 2, 40, ny]),
        (&[0, 33, 35, nx], &[0, 44, ny]),
    ]) {
        let mut ranks = Ranks::new(&relief, *cuts, &FLOOD);
        for _ in 0..usual(60, 150) {
            ranks.step();
        }
        for (name, field) in [("h", 0), ("hu", 1), ("hv", 2), ("largest", 3)] {
            let pick =
                |run: &Run| [&run.fields.h, &run.fields.hu, &run.fields.hv, &run.largest][field].clone();
            gather(&reference.block, &pick(&reference), &mut whole, nx);
            let expected: Vec<u64> = whole.iter().map(|value| value.to_bits()).collect();
            for run in &ranks.runs {
                gather(&run.block, &pick(run), &mut whole, nx);
            }
            let found: Vec<u64> = whole.iter().map(|value| value.to_bits()).collect();
            assert!(found == expected, "{name} differs");
        }
    }
}

/// Copies the owned cells of a block into an array of the whole grid.
fn gather(block: &Block, field: &[f64], whole: &mut [f64], nx: usize) {
    for (row, values) in block.owned(field).chunks(block.nx()).enumerate() {
        let to = (block.rows.start + row) * nx + block.columns.start;
        whole[to..to + block.nx()].copy_from_slice(values);
    }
}

#[test]
fn dam_break_on_a_wet_bed_follows_stoker() {
    let error = |cells: usize| {
        let time = 30.0;
        let run = dam_break(cells, 1.0, time);
        mean_error(&run, |x| stoker(x / time, 10.0, 1.0))
    };
    let (coarse, fine) = (error(100), error(400));
    assert!(fine < 0.02, "mean error {fine} m of 10 m");
    assert!(fine < 0.4 * coarse, "{coarse} m on 100 cells, {fine} m on 400");
}

#[test]
fn dam_break_on_a_dry_bed_follows_ritter() {
    let error = |cells: usize| {
        let time = 20.0;
        let run = dam_break(cells, 0.0, time);
        mean_error(&run, |x| ritter(x / time, 10.0))
    };
    let (coarse, fine) = (error(100), error(400));
    assert!(fine < 0.03, "mean error {fine} m of 10 m");
    assert!(fine < 0.5 * coarse, "{coarse} m on 100 cells, {fine} m on 400");
}

#[test]
fn the_order_of_a_smooth_wave_is_two() {
    // Small enough not to break: a wave of gravity waves to both sides, d'Alembert.
    let error = |cells: usize| {
        let mut run = channel(cells, 4000.0, |x| 100.0 + 1e-4 * (-x * x / 8e4).exp());
        let speed = (GRAVITY * 100.0).sqrt();
        run.until(30.0);
        let time = run.time;
        let half = |x: f64| 0.5e-4 * (-x * x / 8e4).exp();
        mean_error(&run, |x| 100.0 + half(x - speed * time) + half(x + speed * time))
    };
    let (coarse, fine) = (error(100), error(200));
    assert!(fine < 0.35 * coarse, "{coarse:e} on 100 cells, {fine:e} on 200");
}

#[test]
fn a_symmetric_wave_stays_symmetric() {
    let mut run = channel(64, 1000.0, |x| 10.0 + 2.0 * (-x * x / 1e4).exp());
    run.until(20.0);
    let row = &run.fields.h[run.block.index(1, 0)..][..64];
    for (west, east) in row.iter().zip(row.iter().rev()) {
        assert!((west - east).abs() < 1e-10, "{west} {east}");
    }
}

#[test]
fn errors_say_what_was_expected_and_found() {
    let relief = shipped(1);
    let message = |columns, pitch| Block::new(&relief, columns, 0..9, pitch).unwrap_err().to_string();
    assert_eq!(message(5..6, 99), "a block needs at least 2 of the grid's 120 columns, found 5..6");
    assert_eq!(message(110..121, 99), "a block needs at least 2 of the grid's 120 columns, found 110..121");
    assert_eq!(message(0..10, 13), "the row pitch must be at least 14 elements, found 13");
    assert!(matches!(Block::new(&relief, 0..9, 91..91, 99), Err(BlockError::Extent { axis: "rows", .. })));
    let refused = |physics: Physics| physics.checked().unwrap_err().to_string();
    let physics = Physics::default();
    assert_eq!(
        refused(Physics { courant: 1.5, ..physics }),
        "the Courant number must be above 0 and at most 1, found 1.5"
    );
    assert_eq!(
        refused(Physics { drag: -1.0, ..physics }),
        "the drag coefficient must be 0 or more, found -1"
    );
    assert_eq!(refused(Physics { dry: f64::NAN, ..physics }), "the dry depth must be above 0 m, found NaN");
    assert!(physics.checked().is_ok());
}

const GRAVITY: f64 = haloport_demos::tsunami::model::face::GRAVITY;

fn shipped(factor: usize) -> Relief {
    Relief::from_bytes(SHIPPED).unwrap().refine(factor).unwrap()
}

/// One block and its buffers.
struct Run {
    block: Block,
    physics: Physics,
    fields: Fields,
    next: Fields,
    largest: Vec<f64>,
    work: Workspace,
    time: f64,
}

impl Run {
    fn new(block: Block, physics: Physics, fields: Fields) -> Self {
        let mut next = Fields::dry(&block);
        for field in [&mut next.h, &mut next.hu, &mut next.hv] {
            field.fill(f64::NAN);
        }
        Self {
            physics,
            fields,
            next,
            largest: vec![0.0; block.len()],
            work: Workspace::default(),
            time: 0.0,
            block,
        }
    }

    fn whole(relief: &Relief, physics: Physics, uplift: &Uplift) -> Self {
        let block = Block::whole(relief).unwrap();
        let fields = initial_state(&block, relief, uplift);
        Self::new(block, physics, fields)
    }

    fn until(&mut self, end: f64) {
        while self.time < end {
            self.step();
        }
    }

    fn step(&mut self) {
        let dt = self.physics.time_step(self.max_rate());
        for stage in [Stage::Predict, Stage::Correct] {
            let input = if stage == Stage::Predict { &mut self.fields } else { &mut self.next };
            fill_walls(&self.block, &mut input.h, &mut input.hu, &mut input.hv);
            self.stage(stage, dt, 0..self.block.ny(), 0..self.block.nx());
        }
        self.raise_largest();
        self.time += dt;
    }

    fn stage(&mut self, stage: Stage, dt: f64, rows: Range<usize>, columns: Range<usize>) {
        let (input, mut output) = match stage {
            Stage::Predict => (self.fields.view(), self.next.rows_mut(&self.block, &rows)),
            Stage::Correct => (self.next.view(), self.fields.rows_mut(&self.block, &rows)),
        };
        stage_rows(
            self.block.view(),
            &self.physics,
            stage,
            dt,
            rows,
            columns,
            &input,
            &mut output,
            &mut self.work,
        );
    }

    fn walls(&mut self) {
        let fields = &mut self.fields;
        fill_walls(&self.block, &mut fields.h, &mut fields.hu, &mut fields.hv);
    }

    fn max_rate(&self) -> f64 {
        let (block, state) = (self.block.view(), self.fields.view());
        let rates =
            (0..self.block.ny()).map(|row| max_rate(block, &self.physics, row, 0..self.block.nx(), state));
        rates.fold(0.0, f64::max)
    }

    fn raise_largest(&mut self) {
        for row in 0..self.block.ny() {
            let cells = self.block.index(row, 0)..self.block.index(row, self.block.nx());
            let (h, bed) = (&self.fields.h[cells.clone()], &self.block.bed[cells.clone()]);
            raise_largest(h, bed, &mut self.largest[cells]);
        }
    }

    fn survey(&self) -> Survey {
        let owned = |field: &[f64]| self.block.owned(field);
        let (h, hu, hv) = (owned(&self.fields.h), owned(&self.fields.hu), owned(&self.fields.hv));
        let area = &self.block.metric.area[MARGIN..][..self.block.ny()];
        let state = State { h: &h, hu: &hu, hv: &hv };
        Survey::new(area, &self.physics, state)
    }
}

/// Several blocks of one grid, exchanging margins through the whole grid's arrays.
struct Ranks {
    runs: Vec<Run>,
    nx: usize,
    ny: usize,
}

impl Ranks {
    /// Blocks between the given cuts of columns and rows.
    fn new(relief: &Relief, (columns, rows): (&[usize], &[usize]), uplift: &Uplift) -> Self {
        let mut runs = Vec::new();
        for (n, rows) in rows.windows(2).enumerate() {
            for columns in columns.windows(2) {
                let (columns, rows) = (columns[0]..columns[1], rows[0]..rows[1]);
                let pitch = columns.len() + 2 * MARGIN + 3 * n;
                let block = Block::new(relief, columns, rows, pitch).unwrap();
                let fields = initial_state(&block, relief, uplift);
                runs.push(Run::new(block, Physics::default(), fields));
            }
        }
        Self { runs, nx: relief.nx(), ny: relief.ny() }
    }

    fn step(&mut self) {
        let rate = self.runs.iter().map(Run::max_rate).fold(0.0, f64::max);
        for stage in [Stage::Predict, Stage::Correct] {
            self.exchange(stage);
            for run in &mut self.runs {
                let dt = run.physics.time_step(rate);
                let (nx, ny) = (run.block.nx(), run.block.ny());
                // The interior, in two groups of rows, then the frame around it.
                let (inner_x, inner_y) =
                    (2.min(nx)..nx.saturating_sub(2).max(2.min(nx)), 2..ny.saturating_sub(2).max(2));
                let middle = (inner_y.start + inner_y.end) / 2;
                for rows in [inner_y.start..middle, middle..inner_y.end] {
                    run.stage(stage, dt, rows, inner_x.clone());
                }
                run.stage(stage, dt, 0..inner_y.start, 0..nx);
                run.stage(stage, dt, inner_y.end..ny, 0..nx);
                run.stage(stage, dt, inner_y.clone(), 0..inner_x.start);
                run.stage(stage, dt, inner_y, inner_x.end..nx);
            }
        }
        self.runs.iter_mut().for_each(Run::raise_largest);
    }

    /// Fills walls, then every margin cell but the corners from its owner.
    fn exchange(&mut self, stage: Stage) {
        let (nx, ny) = (self.nx, self.ny);
        for field in 0..3 {
            let mut whole = vec![f64::NAN; nx * ny];
            for run in &mut self.runs {
                let fields = if stage == Stage::Predict { &mut run.fields } else { &mut run.next };
                fill_walls(&run.block, &mut fields.h, &mut fields.hu, &mut fields.hv);
                gather(&run.block, [&fields.h, &fields.hu, &fields.hv][field], &mut whole, nx);
            }
            for run in &mut self.runs {
                let block = &run.block;
                let fields = if stage == Stage::Predict { &mut run.fields } else { &mut run.next };
                let array = [&mut fields.h, &mut fields.hu, &mut fields.hv];
                let array = array.into_iter().nth(field).unwrap();
                for line in 0..block.ny() + 2 * MARGIN {
                    for place in 0..block.nx() + 2 * MARGIN {
                        let own_row = (MARGIN..block.ny() + MARGIN).contains(&line);
                        let own_column = (MARGIN..block.nx() + MARGIN).contains(&place);
                        let row = (block.rows.start + line).wrapping_sub(MARGIN);
                        let column = (block.columns.start + place).wrapping_sub(MARGIN);
                        let cell = &mut array[line * block.pitch + place];
                        if own_row != own_column && row < ny && column < nx {
                            *cell = whole[row * nx + column];
                        } else if !own_row && !own_column {
                            *cell = f64::NAN;
                        }
                    }
                }
            }
        }
    }
}

fn assert_owned_equal(block: &Block, a: &Fields, b: &Fields) {
    for row in 0..block.ny() {
        let cells = block.index(row, 0)..block.index(row, block.nx());
        assert_eq!(a.h[cells.clone()], b.h[cells.clone()]);
        assert!(a.hu[cells.clone()].iter().chain(&a.hv[cells]).all(|&q| q == 0.0));
    }
}

/// A flat frictionless channel of 4 rows, `length` metres long around x = 0.
fn channel(cells: usize, length: f64, depth: impl Fn(f64) -> f64) -> Run {
    let (rows, pitch) = (4, cells + 2 * MARGIN);
    let size = length / cells as f64;
    let block = Block {
        columns: 0..cells,
        rows: 0..rows,
        pitch,
        walls: Walls { west: true, east: true, south: true, north: true },
        bed: vec![0.0; (rows + 2 * MARGIN) * pitch],
        metric: Metric::flat(rows + 2 * MARGIN, size, size),
    };
    let mut fields = Fields::dry(&block);
    for row in 0..rows {
        for column in 0..cells {
            fields.h[block.index(row, column)] = depth(centre(column, cells, length));
        }
    }
    let physics = Physics { courant: 0.5, drag: 0.0, dry: 1e-3 };
    Run::new(block, physics, fields)
}

fn dam_break(cells: usize, low: f64, time: f64) -> Run {
    let mut run = channel(cells, 1200.0, |x| if x < 0.0 { 10.0 } else { low });
    while run.time < time {
        let dt = run.physics.time_step(run.max_rate());
        if run.time + dt > time {
            run.physics.courant *= (time - run.time) / dt;
            run.step();
            break;
        }
        run.step();
    }
    run
}

fn centre(column: usize, cells: usize, length: f64) -> f64 {
    ((column as f64 + 0.5) / cells as f64 - 0.5) * length
}

fn mean_error(run: &Run, exact: impl Fn(f64) -> f64) -> f64 {
    let cells = run.block.nx();
    let length = cells as f64 / run.block.metric.side[0];
    let row = &run.fields.h[run.block.index(1, 0)..][..cells];
    let error = |(column, h): (usize, &f64)| (h - exact(centre(column, cells, length))).abs();
    row.iter().enumerate().map(error).sum::<f64>() / cells as f64
}

/// Depth at `x / t` after a dam of height `high` breaks over a dry bed (Ritter 1892).
fn ritter(speed: f64, high: f64) -> f64 {
    let c = (GRAVITY * high).sqrt();
    if speed < -c {
        high
    } else if speed < 2.0 * c {
        (2.0 * c - speed).powi(2) / (9.0 * GRAVITY)
    } else {
        0.0
    }
}

/// Depth at `x / t` after a dam of height `high` breaks over water of depth `low`
/// (Stoker 1957): a rarefaction, a plateau and a bore.
fn stoker(speed: f64, high: f64, low: f64) -> f64 {
    let c = |h: f64| (GRAVITY * h).sqrt();
    let after = |h: f64| (h - low) * (0.5 * GRAVITY * (h + low) / (h * low)).sqrt();
    let (mut lower, mut upper) = (low, high);
    for _ in 0..100 {
        let middle = 0.5 * (lower + upper);
        if after(middle) < 2.0 * (c(high) - c(middle)) {
            lower = middle;
        } else {
            upper = middle;
        }
    }
    let plateau = lower;
    let bore = plateau * after(plateau) / (plateau - low);
    if speed > bore {
        low
    } else if speed > 2.0 * (c(high) - c(plateau)) - c(plateau) {
        plateau
    } else {
        ritter(speed, high)
    }
}
