//! Random exchanges on cubed spheres against an oracle that knows only geometry.
//!
//! A halo cell beyond the edge of a tile is a cell of the neighbour whose edge runs through the same points of the
//! sphere, at the same distance from that edge. A component of a vector there is the neighbour's component that points
//! the same way.

use haloport_core::device::Device;
use haloport_core::domain::cubed_sphere::TILES;
use haloport_core::{BlockLayout, Communicator, Connectivity, Grid, Halo, IndexBox, Pattern, Split};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::splits::{on_some_ranks, split};
use super::structured::{FieldCase, is_exchanged, owns};
use crate::Failure;
use crate::oracle::{CaseOptions, Name, Oracle, Rounds, name_of};

/// A random cubed sphere, split, halo and set of fields.
#[derive(Debug, Clone)]
pub struct Case {
    cells: usize,
    levels: Option<usize>,
    /// Whether the levels are periodic.
    periodic: bool,
    widths: Vec<(usize, usize)>,
    connectivity: Connectivity,
    /// The domains of each rank.
    domains: Vec<Vec<IndexBox>>,
    pub(super) rounds: Rounds<FieldCase>,
}

impl Case {
    /// The case with this number for this number of ranks. Cases grow with `size` (1 is tiny, 10 is large).
    ///
    /// # Errors
    /// The error of a grid or a split that cannot be made.
    pub fn new(number: u64, ranks: usize, size: usize) -> Result<Case, Failure> {
        let mut random = StdRng::seed_from_u64(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ranks as u64);
        let cells = random.random_range(1..=(1 + size).min(7));
        let levels = random.random_bool(0.4).then(|| random.random_range(1..=3));
        let mut widths = vec![(0, 0)];
        widths.extend(levels.map(|_| (random.random_range(0..=2), random.random_range(0..=2))));
        let mut width = || if random.random_bool(0.2) { 0 } else { random.random_range(0..=cells) };
        widths.extend([(width(), width()), (width(), width())]);
        let axes = widths.len();

        let mut extents = vec![cells; axes];
        extents[0] = TILES.len();
        extents[1] = levels.unwrap_or(cells);
        let domains = if random.random_bool(0.5) {
            tiles(&mut random, &Grid::new(&extents)?, ranks)?
        } else {
            split(&mut random, &extents, ranks)
        };
        let (y, x) = (axes - 2, axes - 1);
        let choices: [&[usize]; 5] = [&[], &[y, x], &[x, y], &[x, y, y, x], &[1, y, x]];
        // The last one has a component along the levels, so the grid must have levels.
        let choices = &choices[..choices.len() - usize::from(axes == 3)];
        let fields = (0..random.random_range(1..=3))
            .map(|_| FieldCase::new(&mut random, axes).with_vector(&mut random, choices))
            .collect();
        Ok(Case {
            cells,
            levels,
            periodic: levels.is_some() && random.random_bool(0.3),
            widths,
            connectivity: if random.random_bool(0.7) { Connectivity::All } else { Connectivity::Faces },
            domains,
            rounds: Rounds {
                number,
                fields,
                options: CaseOptions::random(&mut random),
                count: random.random_range(1..=2),
            },
        })
    }

    /// A case of the same cells and fields, cut and laid out in another way, on some of the ranks. `salt` tells it from others.
    pub(super) fn again(&self, salt: u64) -> Case {
        let number = self.rounds.number;
        let mut random = StdRng::seed_from_u64(number.wrapping_mul(0x8CB9_2BA7_2F3D_8DD7) ^ salt);
        let mut extents = vec![TILES.len()];
        extents.extend(self.levels);
        extents.extend([self.cells; 2]);
        Case {
            connectivity: if random.random_bool(0.7) { Connectivity::All } else { Connectivity::Faces },
            domains: on_some_ranks(&mut random, &extents, self.domains.len()),
            rounds: self.rounds.with_fields(|field| field.in_another_layout(&mut random)),
            ..self.clone()
        }
    }

    /// The same case, in messages; staged ones in chunks of at most `bytes`.
    pub fn in_chunks(self, bytes: usize) -> Case {
        Case { rounds: self.rounds.in_chunks(bytes), ..self }
    }

    /// The same case; staged messages are moved by a copy from `bytes` on.
    pub fn moved_from(self, bytes: usize) -> Case {
        Case { rounds: self.rounds.moved_from(bytes), ..self }
    }

    pub(super) fn oracle(&self) -> impl Oracle + '_ {
        let steps = steps(self.cells);
        let opposite = steps.iter().map(|step| opposite(&steps, step)).collect();
        Globe { case: self, steps, opposite }
    }

    pub(super) fn pattern(&self, comm: &Communicator) -> Result<Pattern, Failure> {
        let grid = match self.levels {
            None => Grid::cubed_sphere(self.cells)?,
            Some(levels) => Grid::cubed_sphere_with_levels(self.cells, levels)?.periodic([
                false,
                self.periodic,
                false,
                false,
            ])?,
        };
        let halo = Halo::per_side(&self.widths).with_connectivity(self.connectivity);
        let halo = if self.rounds.number % 3 == 1 { halo.clipped() } else { halo };
        Ok(Pattern::structured(comm, &grid, &self.domains[comm.rank()], &halo)?)
    }
}

/// Whole tiles, several of them or quarters, dealt to the ranks in turn.
fn tiles(random: &mut StdRng, grid: &Grid, ranks: usize) -> Result<Vec<Vec<IndexBox>>, Failure> {
    let mut parts = vec![1; grid.axes()];
    parts[0] = if random.random_bool(0.6) { 6 } else { [1, 2, 3][random.random_range(0..3)] };
    if random.random_bool(0.4) {
        let y = grid.axes() - 2;
        parts[y..].fill(2);
    }
    let split = Split::even(grid, parts)?;
    let mut domains = vec![Vec::new(); ranks];
    for part in 0..split.parts() {
        domains[part % ranks].extend(split.part(part));
    }
    Ok(domains)
}

/// Collective: runs a case on all ranks.
///
/// # Errors
/// The first cell that is wrong on this rank, or the error of a call.
pub fn check<D: Device>(comm: &Communicator, device: &D, case: &Case) -> Result<(), Failure> {
    let globe = case.oracle();
    let run = || case.rounds.run(device, device, &case.pattern(comm)?, &globe);
    run().map_err(|error| format!("case {}: {error}\n{case:?}", case.rounds.number).into())
}

/// The oracle: knows where every cell is on the sphere.
struct Globe<'c> {
    case: &'c Case,
    /// In the order of [`number_of`].
    steps: Vec<Step>,
    /// For each step the same one from the other side, if there is one and no other.
    opposite: Vec<Option<usize>>,
}

/// The piece of a tile's edge beside one cell: a step from the tile into the next.
#[derive(Debug, Clone, Copy)]
struct Step {
    tile: usize,
    /// The axis across the edge: 0 for y, 1 for x.
    across: usize,
    /// Whether the edge is the upper end of that axis.
    upper: bool,
    /// The index along the edge.
    position: usize,
    /// The middle of the piece, on the unit sphere.
    middle: [f64; 3],
    /// For both axes, the direction at the middle in which their indices grow.
    directions: [[f64; 3]; 2],
}

fn steps(cells: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    for (number, tile) in TILES.iter().enumerate() {
        for (across, upper) in [(0, false), (0, true), (1, false), (1, true)] {
            for position in 0..cells {
                let mut point = [(position as f64 + 0.5) / cells as f64; 2];
                point[across] = if upper { 1.0 } else { 0.0 };
                let directions = [0, 1].map(|axis| {
                    let (mut below, mut above) = (point, point);
                    below[axis] -= 1e-5;
                    above[axis] += 1e-5;
                    minus(tile.point(above[0], above[1]), tile.point(below[0], below[1]))
                });
                let middle = tile.point(point[0], point[1]);
                steps.push(Step { tile: number, across, upper, position, middle, directions });
            }
        }
    }
    steps
}

/// The number of the step with these members, of tiles with that many cells along an edge.
fn number_of(cells: usize, tile: usize, across: usize, upper: bool, position: usize) -> usize {
    ((tile * 2 + across) * 2 + usize::from(upper)) * cells + position
}

/// The number of the step of another tile with the same middle, unless there are several.
fn opposite(steps: &[Step], here: &Step) -> Option<usize> {
    let mut found = None;
    for (number, there) in steps.iter().enumerate() {
        let gap = minus(there.middle, here.middle);
        if there.tile != here.tile && dot(gap, gap) < 1e-16 && found.replace(number).is_some() {
            return None;
        }
    }
    found
}

fn minus(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

impl Globe<'_> {
    /// For a cell beyond one edge: the step out of the tile, the same step from the other side, and the distance of the
    /// cell from the edge (0 for the first). `None` for a cell within the tile, and for one beyond two edges.
    fn step(&self, cell: &[i64]) -> Option<(&Step, &Step, i64)> {
        let cells = self.case.cells as i64;
        let y = self.case.widths.len() - 2;
        let face = [cell[y], cell[y + 1]];
        let across = (0..2).find(|&axis| !(0..cells).contains(&face[axis]))?;
        let upper = face[across] >= cells;
        let depth = if upper { face[across] - cells } else { -1 - face[across] };
        if !(0..cells).contains(&face[1 - across]) || !(0..TILES.len() as i64).contains(&cell[0]) {
            return None;
        }
        let number = number_of(self.case.cells, cell[0] as usize, across, upper, face[1 - across] as usize);
        Some((&self.steps[number], &self.steps[self.opposite[number]?], depth))
    }

    /// The cell that an exchange puts at `cell` of the block of `owned`; `None` if it puts nothing there.
    fn source(&self, owned: &IndexBox, cell: &[i64]) -> Option<Name> {
        let mut outside = 0;
        for (axis, &(below, above)) in self.case.widths.iter().enumerate() {
            let (index, lower, upper) = (cell[axis], owned.lower()[axis], owned.upper()[axis]);
            if index < lower - below as i64 || index >= upper + above as i64 {
                return None;
            }
            outside += usize::from(index < lower || index >= upper);
        }
        let filled = match self.case.connectivity {
            Connectivity::All => outside >= 1,
            Connectivity::Faces => outside == 1,
        };
        let mut source = name_of(cell);
        if let Some(levels) = self.case.levels {
            let levels = levels as i64;
            if !self.case.periodic && !(0..levels).contains(&cell[1]) {
                return None;
            }
            source[1] = cell[1].rem_euclid(levels);
        }
        let cells = self.case.cells as i64;
        let y = self.case.widths.len() - 2;
        if cell[y..y + 2].iter().any(|index| !(0..cells).contains(index)) {
            let (_, there, depth) = self.step(cell)?;
            source[0] = there.tile as i64;
            source[y + there.across] = if there.upper { cells - 1 - depth } else { depth };
            source[y + 1 - there.across] = there.position as i64;
        }
        filled.then_some(source)
    }
}

impl Oracle for Globe<'_> {
    fn name(&self, _domain: usize, layout: &BlockLayout, cell: &[i64], after: bool) -> Option<Name> {
        let (owned, axes) = (layout.owned(), self.case.widths.len());
        if owns(&owned, axes, cell) {
            return Some(name_of(cell));
        }
        if after && is_exchanged(&owned, axes, cell) { self.source(&owned, cell) } else { None }
    }

    fn component(&self, field: usize, cell: &[i64], component: usize) -> (usize, bool) {
        let vector = &self.case.rounds.fields[field].vector;
        let y = self.case.widths.len() - 2;
        let axis = vector.get(component).and_then(|axis| axis.checked_sub(y));
        let (Some(axis), Some((here, there, _))) = (axis, self.step(cell)) else { return (component, false) };
        let along = here.directions[1 - here.across];
        let (source, direction) = if axis == here.across {
            // Directions across the edge are compared without their component along it, since axes bend at the edge.
            let across = there.directions[there.across];
            let share = dot(across, along) / dot(along, along);
            (there.across, minus(across, along.map(|part| share * part)))
        } else {
            (1 - there.across, there.directions[1 - there.across])
        };
        let number = vector[..component].iter().filter(|&&other| other == y + axis).count();
        let from = (0..vector.len()).filter(|&other| vector[other] == y + source).nth(number);
        (from.unwrap_or(component), dot(here.directions[axis], direction) < 0.0)
    }

    fn seed(&self, field: usize, round: u64) -> u64 {
        self.case.rounds.number ^ round << 32 ^ (field as u64) << 48
    }
}
