//! Random exchanges on folded grids against an oracle that knows only where points lie.
//!
//! A point lies at the place of its cell, and half a cell further along an axis if its kind says so. Beyond the fold,
//! places are turned by 180° about a pivot. Of all points at one place, the first in the order of rows, and within a row
//! along x, is the owner; the others hold its value, with the sign of vectors changed if the place was turned.

use std::collections::HashMap;

use haloport_core::device::Device;
use haloport_core::{BlockLayout, Communicator, Connectivity, Grid, Halo, IndexBox, Pattern, Pivot, Points};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::splits::{on_some_ranks, split};
use super::structured::{FieldCase, is_exchanged, owns};
use crate::Failure;
use crate::oracle::{CaseOptions, Name, Oracle, Rounds, name_of};

/// A random folded grid, split, halo and set of fields.
#[derive(Debug, Clone)]
pub struct Case {
    extents: Vec<usize>,
    periodic: Vec<bool>,
    y: usize,
    x: usize,
    pivot: Pivot,
    points: Points,
    widths: Vec<(usize, usize)>,
    connectivity: Connectivity,
    /// The domains of each rank.
    domains: Vec<Vec<IndexBox>>,
    pub(super) rounds: Rounds<FieldCase>,
}

impl Case {
    /// The case with this number for this number of ranks. Cases grow with `size` (1 is tiny, 10 is large).
    pub fn new(number: u64, ranks: usize, size: usize) -> Case {
        let mut random = StdRng::seed_from_u64(number.wrapping_mul(0xA24B_AED4_963E_E407) ^ ranks as u64);
        let mut order: Vec<usize> = (0..random.random_range(2..=3)).collect();
        order.shuffle(&mut random);
        let (y, x) = (order[0], order[1]);
        let mut extents: Vec<usize> = order.iter().map(|_| random.random_range(1..=3)).collect();
        extents[x] = 2 * random.random_range(1..=(1 + size).min(8));
        extents[y] = random.random_range(2..=(2 + size).min(9));
        let pivot = if random.random_bool(0.5) { Pivot::Cell } else { Pivot::Corner };
        let points = [Points::Cells, Points::EastEdges, Points::NorthEdges, Points::Corners]
            [random.random_range(0..4)];
        let mut periodic: Vec<bool> = order.iter().map(|_| random.random_bool(0.5)).collect();
        (periodic[y], periodic[x]) = (false, true);
        let mut widths: Vec<(usize, usize)> =
            order.iter().map(|_| (random.random_range(0..=3), random.random_range(0..=3))).collect();
        widths[y].1 = widths[y].1.min(extents[y] - 2);
        let other = (0..order.len()).find(|axis| *axis != y && *axis != x).unwrap_or(x);
        let choices: [&[usize]; 5] = [&[], &[x], &[y], &[y, x], &[x, other, y, x]];
        let fields = (0..random.random_range(1..=3))
            .map(|_| FieldCase::new(&mut random, order.len()).with_vector(&mut random, &choices));
        Case {
            rounds: Rounds {
                number,
                fields: fields.collect(),
                options: CaseOptions::random(&mut random),
                count: random.random_range(1..=2),
            },
            domains: split(&mut random, &extents, ranks),
            connectivity: if random.random_bool(0.7) { Connectivity::All } else { Connectivity::Faces },
            extents,
            periodic,
            y,
            x,
            pivot,
            points,
            widths,
        }
    }

    /// A case of the same cells and fields, cut and laid out in another way, on some of the ranks. `salt` tells it from others.
    pub(super) fn again(&self, salt: u64) -> Case {
        let number = self.rounds.number;
        let mut random = StdRng::seed_from_u64(number.wrapping_mul(0x8CB9_2BA7_2F3D_8DD7) ^ salt);
        let mut widths: Vec<(usize, usize)> =
            self.widths.iter().map(|_| (random.random_range(0..=2), random.random_range(0..=2))).collect();
        widths[self.y].1 = widths[self.y].1.min(self.extents[self.y] - 2);
        Case {
            widths,
            connectivity: if random.random_bool(0.7) { Connectivity::All } else { Connectivity::Faces },
            domains: on_some_ranks(&mut random, &self.extents, self.domains.len()),
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
        Ocean { case: self, owners: self.owners() }
    }

    pub(super) fn pattern(&self, comm: &Communicator) -> Result<Pattern, Failure> {
        let grid = Grid::new(&self.extents)?.folded([self.y, self.x], self.pivot)?.at(self.points)?;
        let halo = Halo::per_side(&self.widths).with_connectivity(self.connectivity);
        let halo = if self.rounds.number % 3 == 1 { halo.clipped() } else { halo };
        Ok(Pattern::structured(comm, &grid.periodic(&self.periodic)?, &self.domains[comm.rank()], &halo)?)
    }

    /// The place of a point along y and x, in half cells; x goes round.
    fn place(&self, j: i64, i: i64) -> [i64; 2] {
        let (north, east) = match self.points {
            Points::Cells => (0, 0),
            Points::EastEdges => (0, 1),
            Points::NorthEdges => (1, 0),
            Points::Corners => (1, 1),
        };
        [2 * j + north, (2 * i + east).rem_euclid(2 * self.extents[self.x] as i64)]
    }

    /// The same place, turned about the pivot.
    fn turned(&self, [j, i]: [i64; 2]) -> [i64; 2] {
        let last = 2 * (self.extents[self.y] as i64 - 1);
        let pivot = match self.pivot {
            Pivot::Cell => [last, 0],
            Pivot::Corner => [last + 1, -1],
        };
        [2 * pivot[0] - j, (2 * pivot[1] - i).rem_euclid(2 * self.extents[self.x] as i64)]
    }

    /// The owner of each place in the grid, along y and x.
    fn owners(&self) -> HashMap<[i64; 2], [i64; 2]> {
        let mut owners = HashMap::new();
        for j in 0..self.extents[self.y] as i64 {
            for i in 0..self.extents[self.x] as i64 {
                let here = self.place(j, i);
                if !owners.contains_key(&here) && !owners.contains_key(&self.turned(here)) {
                    owners.insert(here, [j, i]);
                }
            }
        }
        owners
    }
}

/// Collective: runs a case on all ranks.
///
/// # Errors
/// The first cell that is wrong on this rank, or the error of a call.
pub fn check<D: Device>(comm: &Communicator, device: &D, case: &Case) -> Result<(), Failure> {
    let ocean = case.oracle();
    let run = || case.rounds.run(device, device, &case.pattern(comm)?, &ocean);
    run().map_err(|error| format!("case {}: {error}\n{case:?}", case.rounds.number).into())
}

/// The oracle: knows where every point lies.
struct Ocean<'c> {
    case: &'c Case,
    owners: HashMap<[i64; 2], [i64; 2]>,
}

impl Ocean<'_> {
    /// The owner of the point at the place of `cell`, and whether the place is turned; `None` outside of the grid.
    fn owner(&self, cell: &[i64]) -> Option<(Name, bool)> {
        let Case { extents, periodic, y, x, .. } = self.case;
        let here = self.case.place(cell[*y], cell[*x]);
        let turned = self.case.turned(here);
        let (owner, is_turned) = match self.owners.get(&here) {
            Some(owner) => (owner, false),
            None => (self.owners.get(&turned)?, true),
        };
        let mut name = name_of(cell);
        [name[*y], name[*x]] = *owner;
        for axis in (0..extents.len()).filter(|axis| axis != y && axis != x) {
            let extent = extents[axis] as i64;
            if !periodic[axis] && !(0..extent).contains(&cell[axis]) {
                return None;
            }
            name[axis] = cell[axis].rem_euclid(extent);
        }
        Some((name, is_turned))
    }

    /// Whether an exchange fills a cell of the block of `owned`: a duplicate, or a cell within the halo.
    fn is_filled(&self, owned: &IndexBox, cell: &[i64], is_duplicate: bool) -> bool {
        let mut outside = 0;
        for (axis, &(below, above)) in self.case.widths.iter().enumerate() {
            let (index, lower, upper) = (cell[axis], owned.lower()[axis], owned.upper()[axis]);
            if index < lower - below as i64 || index >= upper + above as i64 {
                return false;
            }
            outside += usize::from(index < lower || index >= upper);
        }
        match self.case.connectivity {
            _ if outside == 0 => is_duplicate,
            Connectivity::All => true,
            Connectivity::Faces => outside == 1,
        }
    }
}

impl Oracle for Ocean<'_> {
    fn name(&self, _domain: usize, layout: &BlockLayout, cell: &[i64], after: bool) -> Option<Name> {
        let (owned, axes) = (layout.owned(), self.case.widths.len());
        let (owner, is_turned) = self.owner(cell)?;
        if owns(&owned, axes, cell) && !is_turned {
            return Some(owner);
        }
        (after && is_exchanged(&owned, axes, cell) && self.is_filled(&owned, cell, is_turned))
            .then_some(owner)
    }

    fn component(&self, field: usize, cell: &[i64], component: usize) -> (usize, bool) {
        let along = self.case.rounds.fields[field].vector.get(component);
        let turns = along.is_some_and(|axis| *axis == self.case.y || *axis == self.case.x);
        (component, turns && self.owner(cell).is_some_and(|(_, is_turned)| is_turned))
    }

    fn seed(&self, field: usize, round: u64) -> u64 {
        self.case.rounds.number ^ round << 32 ^ (field as u64) << 48
    }
}
