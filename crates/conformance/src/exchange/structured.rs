//! Random exchanges of structured domains against a global oracle.
//!
//! A [`Case`] is made from a number alone, so every rank makes the same one, and a failure can be run again. [`check`]
//! runs it: every halo cell must hold the value of the global array, and every other element in memory (owned cells,
//! margins, padding, cells beyond the ends of the grid) must be untouched.

use std::ops::Range;

use haloport_core::device::{Device, MemoryKind};
use haloport_core::field::FieldBuilder;
use haloport_core::{
    AnyField, BlockLayout, Communicator, ComponentPlace, Connectivity, ElementType, Exchange, Grid, Halo,
    IndexBox, Pattern,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::splits::{in_slabs, on_some_ranks, product, split};
use crate::Failure;
use crate::oracle::{
    CaseField, CaseOptions, FieldMaker, Lenders, Name, Oracle, Rounds, name_of, random_element,
    random_memory, run_interleaved,
};

/// A random grid, split, halo and set of fields.
#[derive(Debug, Clone)]
pub struct Case {
    pub(super) extents: Vec<usize>,
    periodic: Vec<bool>,
    widths: Vec<(usize, usize)>,
    connectivity: Connectivity,
    /// The domains of each rank.
    domains: Vec<Vec<IndexBox>>,
    pub(super) rounds: Rounds<FieldCase>,
}

/// A random field on a grid.
#[derive(Debug, Clone)]
pub(crate) struct FieldCase {
    pub(crate) element: ElementType,
    pub(crate) components: usize,
    place: ComponentPlace,
    pub(super) further_axes: Vec<usize>,
    pub(super) levels: Option<Range<usize>>,
    order: Vec<usize>,
    padding: Vec<usize>,
    wider: usize,
    pub(crate) lenders: Lenders,
    pub(crate) memory: MemoryKind,
    /// The axes along which the first components point.
    pub(crate) vector: Vec<usize>,
}

impl Case {
    /// The case with this number for this number of ranks. Cases grow with `size` (1 is tiny, 10 is large), so that the
    /// first failure of a run is small.
    pub fn new(number: u64, ranks: usize, size: usize) -> Case {
        let mut random = StdRng::seed_from_u64(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ranks as u64);
        let axes = random.random_range(1..=4);
        let longest = [24, 10, 6, 4][axes - 1].min(1 + 3 * size);
        let extents: Vec<usize> = (0..axes).map(|_| random.random_range(1..=longest)).collect();
        let widest = [6, 3, 3, 2][axes - 1];
        let width =
            |random: &mut StdRng| if random.random_bool(0.3) { 0 } else { random.random_range(0..=widest) };
        let widths = (0..axes).map(|_| (width(&mut random), width(&mut random))).collect();
        let cut = if random.random_bool(0.4) { product } else { split };
        let domains = cut(&mut random, &extents, ranks);
        let fields = (0..random.random_range(1..=3)).map(|_| FieldCase::new(&mut random, axes)).collect();
        Case {
            periodic: (0..axes).map(|_| random.random_bool(0.5)).collect(),
            widths,
            connectivity: if random.random_bool(0.7) { Connectivity::All } else { Connectivity::Faces },
            domains,
            rounds: Rounds {
                number,
                fields,
                options: CaseOptions::random(&mut random),
                count: random.random_range(1..=3),
            },
            extents,
        }
    }

    /// The case with this number for this number of ranks whose first field has some MiB on each rank, in slabs across
    /// its slowest axis. Of such a field, ranks of a node share only the ends of the slabs.
    pub fn slabs(number: u64, ranks: usize) -> Case {
        let mut random = StdRng::seed_from_u64(number.wrapping_mul(0xA24B_AED4_963E_E407) ^ ranks as u64);
        let mut fields: Vec<FieldCase> = (0..2).map(|_| FieldCase::without_levels(&mut random, 3)).collect();
        fields[0].lenders = Lenders::NONE;
        // Fields with smaller elements, or a second one with more of them, would take too long to verify.
        while fields[0].element.bytes() < 8 {
            fields[0].element = random_element(&mut random);
        }
        while fields[1].components > fields[0].components {
            fields[1] = FieldCase::without_levels(&mut random, 3);
        }
        let (slowest, fastest) = (fields[0].order[0], fields[0].order[2]);
        let per_rank = random.random_range(1..=2);
        let (slabs, thickness) = (ranks * per_rank, random.random_range(20..60));
        let mut extents = vec![random.random_range(60..120); 3];
        let cells = (5 << 20) / (fields[0].element.bytes() * fields[0].components);
        extents[fastest] = 1 + cells / (per_rank * thickness * extents[fastest]);
        extents[slowest] = slabs * thickness;
        let domains = in_slabs(&extents, slowest, thickness, ranks);
        let mut widths: Vec<(usize, usize)> =
            (0..3).map(|_| (random.random_range(0..=2), random.random_range(0..=2))).collect();
        widths[slowest].0 += 1;
        Case {
            periodic: vec![true; 3],
            widths,
            connectivity: Connectivity::All,
            domains,
            rounds: Rounds { number, fields, options: CaseOptions::random(&mut random), count: 2 },
            extents,
        }
    }

    /// The case with this number for this number of ranks with thin slabs, whose planes are large enough to be parts of
    /// their own of a message. In some fields, on all ranks or on some, planes have no gaps.
    pub fn planes(number: u64, ranks: usize) -> Case {
        let mut random = StdRng::seed_from_u64(number.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ ranks as u64);
        let mut fields: Vec<FieldCase> =
            (0..random.random_range(1..=3)).map(|_| FieldCase::without_levels(&mut random, 3)).collect();
        let slowest = fields[0].order[0];
        for field in &mut fields {
            if random.random_bool(0.7) {
                let others = [(slowest + 1) % 3, (slowest + 2) % 3];
                field.order = vec![slowest, others[0], others[1]];
                field.place = ComponentPlace::Fastest;
                (field.padding, field.wider) = (vec![0; 3], 0);
            }
        }
        let per_rank = random.random_range(1..=2);
        let (slabs, thickness) = (ranks * per_rank, 3);
        let mut extents: Vec<usize> = (0..3).map(|_| random.random_range(40..56)).collect();
        extents[slowest] = slabs * thickness;
        let domains = in_slabs(&extents, slowest, thickness, ranks);
        let across = random.random_bool(0.5);
        let mut width = |axis| if axis == slowest || across { random.random_range(1..=2) } else { 0 };
        let widths = (0..3).map(|axis| (width(axis), width(axis))).collect();
        Case {
            periodic: (0..3).map(|_| random.random_bool(0.8)).collect(),
            widths,
            connectivity: Connectivity::All,
            domains,
            rounds: Rounds {
                number,
                fields,
                options: CaseOptions::in_messages(&mut random, across),
                count: 2,
            },
            extents,
        }
    }

    /// A case of the same cells and fields, cut and laid out in another way, on some of the ranks. `salt` tells it from others.
    pub(super) fn again(&self, salt: u64) -> Case {
        let seed = self.rounds.number.wrapping_mul(0x8CB9_2BA7_2F3D_8DD7) ^ salt;
        let (mut random, axes) = (StdRng::seed_from_u64(seed), self.extents.len());
        Case {
            extents: self.extents.clone(),
            periodic: (0..axes).map(|_| random.random_bool(0.5)).collect(),
            widths: (0..axes).map(|_| (random.random_range(0..=2), random.random_range(0..=2))).collect(),
            connectivity: if random.random_bool(0.7) { Connectivity::All } else { Connectivity::Faces },
            domains: on_some_ranks(&mut random, &self.extents, self.domains.len()),
            rounds: self.rounds.with_fields(|field| field.in_another_layout(&mut random)),
        }
    }

    /// The same case, in messages; staged ones in chunks of at most `bytes`.
    pub fn in_chunks(self, bytes: usize) -> Case {
        Case { rounds: self.rounds.in_chunks(bytes), ..self }
    }

    /// The same case, in messages that streams send and receive.
    pub fn by_streams(self) -> Case {
        Case { rounds: self.rounds.by_streams(), ..self }
    }

    /// The same case; staged messages are moved by a copy from `bytes` on.
    pub fn moved_from(self, bytes: usize) -> Case {
        Case { rounds: self.rounds.moved_from(bytes), ..self }
    }

    /// The cell of the grid that an exchange puts at `cell` of the block of `owned`; `None` if it puts nothing there.
    fn source(&self, owned: &IndexBox, cell: &[i64]) -> Option<Name> {
        let mut outside = 0;
        let mut source = name_of(cell);
        for (axis, &index) in cell[..self.extents.len()].iter().enumerate() {
            let (lower, upper) = (owned.lower()[axis], owned.upper()[axis]);
            let (below, above) = self.widths[axis];
            if index < lower - below as i64 || index >= upper + above as i64 {
                return None;
            }
            outside += usize::from(index < lower || index >= upper);
            let extent = self.extents[axis] as i64;
            if !self.periodic[axis] && !(0..extent).contains(&index) {
                return None;
            }
            source[axis] = index.rem_euclid(extent);
        }
        let filled = match self.connectivity {
            Connectivity::All => outside >= 1,
            Connectivity::Faces => outside == 1,
        };
        filled.then_some(source)
    }
}

impl FieldCase {
    /// A field on a grid of `axes` axes; some have levels and further axes.
    pub(crate) fn new(random: &mut StdRng, axes: usize) -> FieldCase {
        let further = if random.random_bool(0.5) { 0 } else { random.random_range(0..=4 - axes) };
        let extents =
            (0..further).map(|_| if random.random_bool(0.05) { 0 } else { random.random_range(1..=3) });
        let further_axes: Vec<usize> = extents.collect();
        let levels = further_axes.last().filter(|_| random.random_bool(0.4)).map(|&levels| {
            let begin = random.random_range(0..=levels);
            begin..random.random_range(begin..=levels)
        });
        FieldCase { further_axes, levels, ..FieldCase::without_levels(random, axes + further) }
    }

    /// A field with these axes, all of which are exchanged.
    fn without_levels(random: &mut StdRng, axes: usize) -> FieldCase {
        let mut order: Vec<usize> = (0..axes).collect();
        order.shuffle(random);
        FieldCase {
            element: random_element(random),
            components: if random.random_bool(0.6) { 1 } else { random.random_range(2..=3) },
            place: if random.random_bool(0.5) { ComponentPlace::Fastest } else { ComponentPlace::Slowest },
            further_axes: Vec::new(),
            levels: None,
            order,
            padding: (0..axes)
                .map(|_| if random.random_bool(0.7) { 0 } else { random.random_range(0..3) })
                .collect(),
            wider: if random.random_bool(0.7) { 0 } else { 1 },
            lenders: Lenders::random(random),
            memory: random_memory(random),
            vector: Vec::new(),
        }
    }

    /// A field with the same cells and elements, which lie in another way in memory.
    pub(super) fn in_another_layout(&self, random: &mut StdRng) -> FieldCase {
        let made = FieldCase::without_levels(random, self.order.len());
        let FieldCase { place, order, padding, wider, memory, .. } = made;
        FieldCase { place, order, padding, wider, memory, ..self.clone() }
    }

    /// The same, with components along the axes of one of `choices` if its elements have a sign.
    pub(super) fn with_vector(mut self, random: &mut StdRng, choices: &[&[usize]]) -> FieldCase {
        let signed = self.element.sign_change().is_some();
        self.vector = choices[if signed { random.random_range(0..choices.len()) } else { 0 }].to_vec();
        if !self.vector.is_empty() {
            self.components = self.vector.len() + random.random_range(0..=1);
        }
        self
    }

    pub(crate) fn builder<D: Device>(&self, pattern: &Pattern) -> FieldBuilder<u8, D> {
        let builder = AnyField::builder(pattern)
            .further_axes(&self.further_axes)
            .components(self.components, self.place)
            .axis_order(&self.order)
            .padding(&self.padding)
            .wider_margin(self.wider)
            .vector(&self.vector);
        self.levels.iter().fold(builder, |builder, levels| builder.exchanged_levels(levels.clone()))
    }
}

/// Whether a domain that owns `owned`, on a grid of `axes` axes, owns a cell, at any level.
pub(crate) fn owns(owned: &IndexBox, axes: usize, cell: &[i64]) -> bool {
    (0..axes).all(|axis| (owned.lower()[axis]..owned.upper()[axis]).contains(&cell[axis]))
}

/// Whether the level of a cell is exchanged.
pub(crate) fn is_exchanged(owned: &IndexBox, axes: usize, cell: &[i64]) -> bool {
    (axes..cell.len()).all(|axis| (owned.lower()[axis]..owned.upper()[axis]).contains(&cell[axis]))
}

/// Collective: runs a case on all ranks.
///
/// # Errors
/// The first cell that is wrong on this rank, or the error of a call.
pub fn check<D: Device>(comm: &Communicator, device: &D, case: &Case) -> Result<(), Failure> {
    check_on(comm, device, device, case)
}

/// Collective: as [`check`], with every second field on another device.
///
/// # Errors
/// As there.
pub fn check_on<D: Device, E: Device>(
    comm: &Communicator,
    device: &D,
    other: &E,
    case: &Case,
) -> Result<(), Failure> {
    let run = || case.rounds.run(device, other, &case.pattern(comm)?, case);
    run().map_err(|error| format!("case {}: {error}\n{case:?}", case.rounds.number).into())
}

/// Collective: ranks take unequal times between `start` and `finish`, and meet in `outside`, a communicator of the same
/// ranks, before `finish` or after it.
///
/// # Errors
/// The first cell that is wrong on this rank, or the error of a call.
pub fn uneven<D: Device>(
    comm: &Communicator,
    outside: &Communicator,
    device: &D,
    number: u64,
) -> Result<(), Failure> {
    let case = Case::new(number, comm.size(), 4);
    let run = || case.rounds.run_uneven(device, &case.pattern(comm)?, &case, outside);
    run().map_err(|error| format!("case {number}, unevenly: {error}\n{case:?}").into())
}

/// Collective: several exchanges in flight at once, started and finished in a different order on every rank.
///
/// # Errors
/// The first cell that is wrong on this rank, or the error of a call.
pub fn interleaved<D: Device>(comm: &Communicator, device: &D, number: u64) -> Result<(), Failure> {
    let cases: Vec<Case> = (0..4).map(|k| Case::new(number * 4 + k, comm.size(), 4)).collect();
    let bound = cases.iter().map(|case| case.bind_first(comm, device)).collect::<Result<_, _>>()?;
    run_interleaved(bound, number, comm.rank())
}

impl Case {
    /// Collective: binds the first field, in its own memory.
    pub(crate) fn bind_first<'m, D: Device>(
        &'m self,
        comm: &Communicator,
        device: &D,
    ) -> Result<Exchange<Box<dyn CaseField + 'm>>, Failure> {
        self.rounds.bind_first(device, &self.pattern(comm)?, self)
    }

    pub(super) fn pattern(&self, comm: &Communicator) -> Result<Pattern, Failure> {
        let grid = Grid::new(&self.extents)?.periodic(&self.periodic)?;
        let halo = Halo::per_side(&self.widths).with_connectivity(self.connectivity);
        let halo = if self.rounds.number % 3 == 1 { halo.clipped() } else { halo };
        Ok(Pattern::structured(comm, &grid, &self.domains[comm.rank()], &halo)?)
    }
}

impl Oracle for Case {
    fn name(&self, _domain: usize, layout: &BlockLayout, cell: &[i64], after: bool) -> Option<Name> {
        let (owned, axes) = (layout.owned(), self.extents.len());
        if owns(&owned, axes, cell) {
            return Some(name_of(cell));
        }
        if after && is_exchanged(&owned, axes, cell) { self.source(&owned, cell) } else { None }
    }

    fn seed(&self, field: usize, round: u64) -> u64 {
        self.rounds.number ^ round << 32 ^ (field as u64) << 48
    }
}

impl FieldMaker for FieldCase {
    fn element(&self) -> ElementType {
        self.element
    }

    fn with_element(&self, element: ElementType) -> FieldCase {
        FieldCase { element, ..self.clone() }
    }

    fn lenders(&self) -> Lenders {
        self.lenders
    }

    fn vector(&self) -> &[usize] {
        &self.vector
    }

    fn memory(&self) -> MemoryKind {
        self.memory
    }

    fn build<D: Device>(
        &self,
        device: &D,
        pattern: &Pattern,
        memory: MemoryKind,
    ) -> Result<AnyField<D>, Failure> {
        Ok(self.builder(pattern).memory(memory).build_any(device, self.element)?)
    }
}
