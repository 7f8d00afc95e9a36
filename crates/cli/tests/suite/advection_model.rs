//! The advection model: exact invariants, and the exact solution.

use std::f64::consts::PI;

use haloport::cpu::CpuDevice;
use haloport::run_ranks;
use haloport_conformance::drawn;
use haloport_demos::advection::model::norms::{Level, Norms, areas};
use haloport_demos::advection::model::solver::{Model, Solver};
use haloport_demos::advection::model::stencil::{flows, neighbours};
use haloport_demos::advection::model::tracer::{Shape, Tracer};
use haloport_demos::advection::model::wind::{PERIOD, Wind};
use haloport_demos::common::numbers::differing;
use haloport_mesh::sphere::{arc, difference, norm};
use haloport_mesh::{Mesh, Partition, Surface};

/// The arguments of a run.
struct Case<'c> {
    model: Model<'c>,
    partition: Partition,
    threads: usize,
    days: f64,
}

impl<'c> Case<'c> {
    fn new(mesh: &'c Mesh, levels: usize, days: f64) -> Case<'c> {
        let model = Model { mesh, wind: Wind::tilted(PI / 4.0), levels, limited: false, overlap: true };
        Case { model, partition: Partition::by_curve(mesh, 1).unwrap(), threads: 1, days }
    }

    fn on(mut self, partition: Partition) -> Case<'c> {
        self.partition = partition;
        self
    }

    /// The whole field in the end, and the number of steps.
    fn run(&self, start: impl Fn(usize, usize) -> f64 + Sync) -> Result<(Vec<f64>, usize), String> {
        let steps = (self.days / self.model.longest_step()).ceil() as usize;
        let fields = run_ranks(self.partition.parts(), |comm| {
            let device = CpuDevice::with_threads(self.threads)?;
            let step = self.days / steps as f64;
            let mut solver = Solver::new(&comm, &device, &self.model, &self.partition, step)?;
            solver.set_tracer(&start)?;
            for _ in 0..steps {
                solver.step()?;
            }
            solver.gather()
        });
        let fields = fields.map_err(|error| error.to_string())?;
        assert!(fields[1..].iter().all(Option::is_none), "rank 0 alone has the whole field");
        Ok((fields.into_iter().next().flatten().unwrap(), steps))
    }
}

/// Scattered numbers from 0 to 1.
fn random(seed: usize) -> f64 {
    let mut bits = (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((bits ^ (bits >> 27)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[test]
fn ranks_partitions_threads_and_overlap_change_no_bit() {
    let mesh = Mesh::icosahedral(6).unwrap();
    let cells = mesh.cells();
    let start = |cell: usize, level: usize| random(cell * 100 + level);
    for levels in [1, 11] {
        let (alone, _) = Case::new(&mesh, levels, 1.0).run(start).unwrap();
        let moved = (0..cells * levels).filter(|&at| alone[at] != start(at / levels, at % levels)).count();
        assert_eq!(moved, cells * levels);
        for ranks in [2, 3, 4, 8] {
            let scattered = (0..cells).map(|cell| (random(cell) * ranks as f64) as usize).collect();
            // Rank 1 owns nothing, the last one nearly all.
            let lopsided = (0..cells).map(|cell| if cell == 700 { 0 } else { ranks - 1 }).collect();
            for partition in [
                Partition::by_curve(&mesh, ranks),
                Partition::given(&mesh, scattered, ranks),
                Partition::with_empty_parts(&mesh, lopsided, ranks),
            ] {
                let (together, _) = Case::new(&mesh, levels, 1.0).on(partition.unwrap()).run(start).unwrap();
                assert_eq!(differing(&alone, &together), 0, "{ranks} ranks, {levels} levels");
            }
        }
        let threads = Case { threads: 3, ..Case::new(&mesh, levels, 1.0) };
        assert_eq!(differing(&alone, &threads.run(start).unwrap().0), 0);
        let mut in_turn = Case::new(&mesh, levels, 1.0).on(Partition::by_curve(&mesh, 3).unwrap());
        in_turn.model.overlap = false;
        assert_eq!(
            differing(&alone, &in_turn.run(start).unwrap().0),
            0,
            "nothing computed while halos travel"
        );
    }
}

#[test]
fn every_level_is_computed_alike() {
    let mesh = Mesh::icosahedral(4).unwrap();
    let start = |cell: usize, level: usize| random(cell * 100 + level);
    let one = |level: usize| Case::new(&mesh, 1, 1.0).run(|cell, _| start(cell, level)).unwrap().0;
    let alone: Vec<Vec<f64>> = (0..19).map(one).collect();
    for levels in [2, 8, 19] {
        let (many, _) = Case::new(&mesh, levels, 1.0).run(start).unwrap();
        for (level, alone) in alone.iter().take(levels).enumerate() {
            let values: Vec<f64> = Level { field: &many, levels, level }.values().collect();
            assert_eq!(differing(alone, &values), 0, "level {level} of {levels}");
        }
    }
}

#[test]
fn mass_is_conserved_and_a_constant_stays_constant() {
    let mesh = Mesh::icosahedral(10).unwrap();
    let areas = areas(&mesh);
    let mass = |field: &[f64]| Level { field, levels: 1, level: 0 }.mass(&areas);
    for &limited in drawn(&[false, true]) {
        let mut case = Case::new(&mesh, 1, PERIOD).on(Partition::by_curve(&mesh, 2).unwrap());
        case.model.limited = limited;
        let start: Vec<f64> = (0..mesh.cells()).map(random).collect();
        let (end, steps) = case.run(|cell, _| start[cell]).unwrap();
        let drift = mass(&end) / mass(&start) - 1.0;
        assert!(steps > 100 && drift.abs() < 1e-13, "{drift:e} after {steps} steps");
        assert!(end.iter().all(|value| value.is_finite()) && differing(&start, &end) == mesh.cells());

        let (end, _) = case.run(|_, _| 3.25).unwrap();
        let off = end.iter().map(|value| (value / 3.25 - 1.0).abs()).fold(0.0, f64::max);
        assert!(off < 1e-12, "{off:e}");
    }
}

#[test]
fn errors_fall_with_the_square_of_the_cells_size_whatever_the_tilt() {
    for &alpha in drawn(&[0.0, PI / 4.0, PI / 2.0]) {
        let errors = [8, 16].map(|divisions| {
            let mesh = Mesh::icosahedral(divisions).unwrap();
            let tracer = Tracer { shape: Shape::Gaussian, levels: 2, wind: Wind::tilted(alpha) };
            let mut case = Case::new(&mesh, 2, PERIOD / 4.0).on(Partition::by_curve(&mesh, 2).unwrap());
            case.model.wind = tracer.wind;
            let (found, _) = case.run(|cell, level| tracer.mean(&mesh, cell, level, 0.0)).unwrap();
            let exact = tracer.means(&mesh, case.days);
            let norms = [0, 1].map(|level| {
                let of = |field| Level { field, levels: 2, level };
                of(&found).norms(&of(&exact), &areas(&mesh))
            });
            (norms[0].max(norms[1]), mesh.cells())
        });
        let [(coarse, many), (fine, more)] = errors;
        let order: Norms = coarse.order(fine, [many, more]);
        assert!(order.l1 > 1.8 && order.l2 > 1.8 && order.linf > 1.7, "{alpha}: {order:?}");
        assert!(fine.l2 < 0.01 && fine.linf < 0.01, "{alpha}: {fine:?}");
    }
}

#[test]
fn with_the_limiter_nothing_becomes_negative_or_grows() {
    let mesh = Mesh::icon(2, 3).unwrap();
    let tracer = Tracer { shape: Shape::CosineBell, levels: 1, wind: Wind::tilted(PI / 4.0) };
    let extremes = |limited: bool| {
        let mut case = Case::new(&mesh, 1, PERIOD / 4.0);
        case.model.limited = limited;
        let (end, _) = case.run(|cell, _| tracer.mean(&mesh, cell, 0, 0.0)).unwrap();
        let fold = |start: f64, pick: fn(f64, f64) -> f64| end.iter().copied().fold(start, pick);
        (fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max))
    };
    let highest = tracer.means(&mesh, 0.0).into_iter().fold(0.0, f64::max);
    let (low, high) = extremes(true);
    assert!(low >= -1e-15 && high > 0.3 && high < highest, "{low:e} to {high}");
    let (low, _) = extremes(false);
    assert!(low < -0.01, "without it the bell has troughs beside it: {low}");
}

#[test]
fn what_leaves_a_cell_enters_the_next_and_adds_up_to_nothing() {
    let mesh = Mesh::icosahedral(5).unwrap();
    let wind = Wind::tilted(1.0);
    for cell in 0..mesh.cells() {
        let flows_here = flows(&mesh, &wind, cell);
        let sum: f64 = flows_here.iter().map(|flow| flow.flux).sum();
        assert!(sum.abs() < 1e-15, "{sum:e}");
        for (k, other) in mesh.cell_neighbours(cell).enumerate() {
            let (here, other) = (flows_here[k], other.unwrap());
            let edge = mesh.cell_edges(cell)[k];
            let back = mesh.cell_edges(other).iter().position(|&it| it == edge).unwrap();
            let there = flows(&mesh, &wind, other)[back];
            assert_eq!(here.flux, -there.flux);
            assert_eq!((here.upwind, here.offset), (there.upwind, there.offset));
            assert!(here.flux == 0.0 || here.upwind == if here.flux > 0.0 { cell } else { other });
        }
    }
}

#[test]
fn gradients_of_straight_slopes_are_exact() {
    let mesh = Mesh::icosahedral(7).unwrap();
    for cell in 0..mesh.cells() {
        let around = neighbours(&mesh, cell);
        assert_eq!(around.map(|it| Some(it.cell)).to_vec(), mesh.cell_neighbours(cell).collect::<Vec<_>>());
        for axis in 0..3 {
            // A coordinate of space is a slope in the plane that touches the sphere, and its gradient has the length
            // of the axis as seen in that plane.
            let rise = |at: [f64; 3]| difference(at, mesh.cell_centre(cell))[axis];
            let slope = |k: usize| -> f64 {
                around.iter().map(|it| it.weights[k] * rise(mesh.cell_centre(it.cell))).sum()
            };
            let centre = mesh.cell_centre(cell)[axis];
            let expected = (1.0 - centre * centre).sqrt();
            // The neighbours lie a little below the plane, by the square of the cell's size.
            assert!((norm([slope(0), slope(1), 0.0]) - expected).abs() < 0.02, "{cell} {axis}");
        }
    }
}

#[test]
fn the_wind_goes_round_once_and_hills_have_their_mass() {
    let mesh = Mesh::icosahedral(16).unwrap();
    let areas = areas(&mesh);
    for (alpha, shape) in [(0.0, Shape::Gaussian), (0.7, Shape::CosineBell), (PI / 2.0, Shape::Gaussian)] {
        let tracer = Tracer { shape, levels: 4, wind: Wind::tilted(alpha) };
        for level in 0..4 {
            let start = tracer.top(level, 0.0);
            assert!(arc(start, tracer.top(level, PERIOD)) < 1e-14);
            assert!((arc(start, tracer.top(level, PERIOD / 4.0)) - PI / 2.0).abs() < 1e-14);
            assert!(arc(tracer.top(level, PERIOD / 4.0), tracer.top((level + 1) % 4, 0.0)) < 1e-14);
        }
        let half = shape.half_width();
        let aside = tracer.wind.carried([0.0, -1.0, 0.0], half / (2.0 * PI) * PERIOD);
        assert!((shape.value([0.0, -1.0, 0.0], aside) - 0.5).abs() < 1e-12);
        let field = tracer.means(&mesh, 1.0);
        let mass = Level { field: &field, levels: 4, level: 2 }.mass(&areas);
        // The integral over the sphere: with the height m above the middle, d² = 2 (1 - m).
        let exact = match shape {
            Shape::Gaussian => 2.0 * PI * (1.0 - (-20.0_f64).exp()) / 10.0,
            // The integral of (1 + cos(3 π d)) / 2 sin(d) from 0 to 1/3, times 2 π.
            Shape::CosineBell => {
                let (end, turns) = (1.0_f64 / 3.0, 3.0 * PI);
                let wave = (1.0 + end.cos()) / (1.0 - turns * turns);
                PI * (1.0 - end.cos() + wave)
            }
        };
        assert!((mass / exact - 1.0).abs() < 1e-4, "{shape}: {mass} and {exact}");
    }
}

#[test]
fn meshes_and_partitions_that_do_not_fit_are_refused() {
    let mesh = Mesh::icosahedral(2).unwrap();
    let refused = |mesh: &Mesh, parts: usize, ranks: usize| {
        let partition = Partition::by_curve(mesh, parts).unwrap();
        let failed = run_ranks(ranks, |comm| {
            let device = CpuDevice::with_threads(1)?;
            let model = Model { mesh, wind: Wind::tilted(0.0), levels: 1, limited: false, overlap: true };
            Solver::new(&comm, &device, &model, &partition, 0.1).map(drop)
        });
        failed.unwrap_err().to_string()
    };
    assert!(refused(&mesh, 3, 2).contains("the partition has 3 parts; expected one for each of the 2 ranks"));
    let square = vec![[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]];
    let flat = Mesh::new(Surface::Flat, square, [[0, 1, 2], [0, 2, 3]]).unwrap();
    assert!(refused(&flat, 1, 1).contains("must be a closed sphere, found 4 edges at a boundary on Flat"));
    let side = 1.0 / 3.0_f64.sqrt();
    let corner = |bits: usize| [0, 1, 2].map(|axis| if bits >> axis & 1 == 1 { side } else { -side });
    let faces = [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]];
    let cube = Mesh::new(Surface::UnitSphere, (0..8).map(corner).collect(), faces).unwrap();
    assert!(refused(&cube, 1, 1).contains("cell 0 of the mesh has 4 vertices; expected triangles"));
}
