//! Random exchanges of unstructured domains against a global oracle.
//!
//! A [`Case`] is made from a number alone, as those of [`structured`]. [`check`] runs it: every halo cell that is to be
//! filled must hold the value of its id, and every other element in memory (owned cells, halo cells that are not
//! listed, levels that are not exchanged, padding) must be untouched.

use std::collections::HashSet;

use haloport_core::device::{Device, MemoryKind};
use haloport_core::{
    AnyField, BlockLayout, Communicator, ComponentPlace, ElementType, Exchange, HaloCells, IndexSet, Pattern,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::random_cells::{self, Domain};
use super::{splits, structured};
use crate::oracle::{
    CaseField, CaseOptions, FieldMaker, Lenders, Name, Oracle, Rounds, name_of, random_element,
    random_memory, run_interleaved,
};
use crate::{Failure, ensure};

/// Random ids, owners, halos and fields.
#[derive(Debug, Clone)]
pub struct Case {
    /// The domains of each rank.
    ranks: Vec<Vec<Domain>>,
    /// For each rank, the ids that its exchange fills; all if there is no list.
    listed: Vec<Option<Vec<i64>>>,
    pub(super) rounds: Rounds<FieldCase>,
}

#[derive(Debug, Clone)]
pub(super) struct FieldCase {
    element: ElementType,
    further_axes: Vec<usize>,
    levels: Option<std::ops::Range<usize>>,
    /// The number of cells of each block, if the cells lie in blocks.
    blocked: Option<usize>,
    components: usize,
    place: ComponentPlace,
    order: Vec<usize>,
    padding: Vec<usize>,
    lenders: Lenders,
    memory: MemoryKind,
}

impl Case {
    /// The case with this number for this number of ranks. Cases grow with `size` (1 is tiny, 10 is large), so that the
    /// first failure of a run is small.
    pub fn new(number: u64, ranks: usize, size: usize) -> Case {
        let seed = number.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ ranks as u64;
        let random = &mut StdRng::seed_from_u64(seed);
        let cells = random.random_range(0..=20 * size);
        let ids = random_cells::random_ids(random, cells);
        let (owner_of, domains) = random_cells::deal(random, cells, ranks);
        let ranks = random_cells::random_domains(random, &ids, &owner_of, &domains, ranks);
        let listed = ranks.iter().map(|domains| random_cells::random_list(random, domains)).collect();
        let all_listed = random.random_bool(0.5);
        Case {
            listed: if all_listed { listed } else { vec![None; ranks.len()] },
            ranks,
            rounds: Rounds {
                number,
                fields: (0..random.random_range(1..=4)).map(|_| FieldCase::new(random)).collect(),
                options: CaseOptions::random(random),
                count: random.random_range(1..=3),
            },
        }
    }

    /// A case of the same cells and fields, dealt and laid out in another way, to some of the ranks. `salt` tells it from
    /// others.
    pub(super) fn again(&self, salt: u64) -> Case {
        let all = self.ranks.iter().flatten().flat_map(|domain| domain.ids.iter().zip(&domain.owned));
        let ids: Vec<i64> = all.filter(|(_, owned)| **owned).map(|(id, _)| *id).collect();
        let random = &mut random_of(self.rounds.number, salt);
        let rounds = self.rounds.with_fields(|field| field.in_another_layout(random));
        Case::dealt(random, ids, self.ranks.len(), rounds)
    }

    /// A case of the cells of a grid, by their numbers in it, and of fields with the same values, on some of the ranks.
    pub(super) fn of_grid(grid: &structured::Case, ranks: usize, salt: u64) -> Case {
        let cells: usize = grid.extents.iter().product();
        let random = &mut random_of(grid.rounds.number, salt);
        let rounds = grid.rounds.with_fields(|field| FieldCase::like(field, random));
        Case::dealt(random, (0..cells as i64).collect(), ranks, rounds)
    }

    /// A case of these ids, dealt to some of the ranks.
    fn dealt(random: &mut StdRng, mut ids: Vec<i64>, ranks: usize, rounds: Rounds<FieldCase>) -> Case {
        if random.random_bool(0.5) {
            ids.sort_unstable();
        }
        let (owner_of, mut domains) = random_cells::deal(random, ids.len(), ranks);
        let owners = splits::owners(random, ranks);
        domains.iter_mut().for_each(|rank| *rank = owners[*rank % owners.len()]);
        let dealt = random_cells::random_domains(random, &ids, &owner_of, &domains, ranks);
        let listed = dealt.iter().map(|domains| random_cells::random_list(random, domains)).collect();
        Case {
            listed: if random.random_bool(0.5) { listed } else { vec![None; ranks] },
            ranks: dealt,
            rounds,
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

    /// Collective: binds the first field, in its own memory.
    fn bind_first<'m, D: Device>(
        &self,
        comm: &Communicator,
        device: &D,
        here: &'m Here,
    ) -> Result<Exchange<Box<dyn CaseField + 'm>>, Failure> {
        self.rounds.bind_first(device, &self.pattern(comm, here)?, here)
    }

    pub(super) fn whole_pattern(&self, comm: &Communicator) -> Result<Pattern, Failure> {
        self.pattern(comm, &self.here(comm.rank()))
    }

    fn pattern(&self, comm: &Communicator, here: &Here) -> Result<Pattern, Failure> {
        let sets: Vec<IndexSet> = here.domains.iter().map(Domain::index_set).collect();
        let halo = here.listed.clone().map_or(HaloCells::All, HaloCells::Ids);
        let pattern = Pattern::unstructured(comm, &sets, &halo)?;
        let wanted = (0..here.domains.len())
            .map(|domain| (0..sets[domain].len()).filter(|&cell| here.is_filled(domain, cell)).count());
        let (wanted, found) = (wanted.sum::<usize>(), pattern.halo_cells());
        ensure!(found == wanted as u128, "the pattern fills {found} cells, expected {wanted}");
        Ok(pattern)
    }

    pub(super) fn here(&self, rank: usize) -> Here {
        Here {
            number: self.rounds.number,
            domains: self.ranks[rank].clone(),
            listed: self.listed[rank].clone(),
            known: self.listed[rank].iter().flatten().copied().collect(),
        }
    }
}

impl FieldCase {
    fn new(random: &mut StdRng) -> FieldCase {
        let further = [0, 1, 1, 1, 2, 3][random.random_range(0..6)];
        let longest = [0, 9, 4, 3][further];
        let extents = (0..further).map(|_| random.random_range(0..=longest).max(random.random_range(0..=1)));
        let further_axes: Vec<usize> = extents.collect();
        let levels = further_axes.last().filter(|_| random.random_bool(0.4)).map(|&levels| {
            let begin = random.random_range(0..=levels);
            begin..random.random_range(begin..=levels)
        });
        let blocked = random.random_bool(0.4).then(|| random.random_range(1..=12));
        let mut order: Vec<usize> = (0..=further).chain(blocked.map(|_| 0)).collect();
        if random.random_bool(0.5) {
            order.shuffle(random);
        }
        FieldCase {
            element: random_element(random),
            levels,
            blocked,
            components: if random.random_bool(0.7) { 1 } else { random.random_range(2..=3) },
            place: if random.random_bool(0.5) { ComponentPlace::Fastest } else { ComponentPlace::Slowest },
            padding: (0..=further)
                .map(|_| if random.random_bool(0.7) { 0 } else { random.random_range(0..3) })
                .collect(),
            order,
            further_axes,
            lenders: Lenders::random(random),
            memory: random_memory(random),
        }
    }

    /// A field with the same elements, components and levels as one on a grid.
    fn like(field: &structured::FieldCase, random: &mut StdRng) -> FieldCase {
        let made = FieldCase {
            element: field.element,
            further_axes: field.further_axes.clone(),
            levels: field.levels.clone(),
            components: field.components,
            ..FieldCase::new(random)
        };
        made.in_another_layout(random)
    }

    /// A field with the same cells and elements, which lie in another way in memory.
    fn in_another_layout(&self, random: &mut StdRng) -> FieldCase {
        let further = self.further_axes.len();
        let blocked = random.random_bool(0.4).then(|| random.random_range(1..=12));
        let mut order: Vec<usize> = (0..=further).chain(blocked.map(|_| 0)).collect();
        order.shuffle(random);
        FieldCase {
            blocked,
            order,
            place: if random.random_bool(0.5) { ComponentPlace::Fastest } else { ComponentPlace::Slowest },
            padding: (0..=further).map(|_| random.random_range(0..3)).collect(),
            memory: random_memory(random),
            ..self.clone()
        }
    }
}

fn random_of(number: u64, salt: u64) -> StdRng {
    StdRng::seed_from_u64(number.wrapping_mul(0x8CB9_2BA7_2F3D_8DD7) ^ salt)
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
    let here = case.here(comm.rank());
    let run = || case.rounds.run(device, other, &case.pattern(comm, &here)?, &here);
    run().map_err(|error| format!("unstructured case {}: {error}\n{case:?}", case.rounds.number).into())
}

/// Collective: as [`structured::uneven`], with unstructured domains.
///
/// # Errors
/// As there.
pub fn uneven<D: Device>(
    comm: &Communicator,
    outside: &Communicator,
    device: &D,
    number: u64,
) -> Result<(), Failure> {
    let case = Case::new(number, comm.size(), 4);
    let here = case.here(comm.rank());
    let run = || case.rounds.run_uneven(device, &case.pattern(comm, &here)?, &here, outside);
    run().map_err(|error| format!("unstructured case {number}, unevenly: {error}\n{case:?}").into())
}

/// Collective: exchanges of unstructured and structured domains in flight at once, started and finished in a different
/// order on every rank.
///
/// # Errors
/// The first cell that is wrong on this rank, or the error of a call.
pub fn interleaved<D: Device>(comm: &Communicator, device: &D, number: u64) -> Result<(), Failure> {
    let ranks = comm.size();
    let cases: Vec<Case> = (0..3).map(|k| Case::new(number * 4 + k, ranks, 4)).collect();
    let boxes: Vec<structured::Case> =
        (0..2).map(|k| structured::Case::new(number * 4 + k, ranks, 4)).collect();
    let here: Vec<Here> = cases.iter().map(|case| case.here(comm.rank())).collect();
    let mut bound = Vec::new();
    for (case, here) in cases.iter().zip(&here) {
        bound.push(case.bind_first(comm, device, here)?);
    }
    for case in &boxes {
        bound.push(case.bind_first(comm, device)?);
    }
    run_interleaved(bound, number, comm.rank())
}

/// The part of a case that one rank has.
#[derive(Debug)]
pub(super) struct Here {
    number: u64,
    domains: Vec<Domain>,
    listed: Option<Vec<i64>>,
    /// The ids of the list.
    known: HashSet<i64>,
}

impl Here {
    /// Whether an exchange fills a cell.
    fn is_filled(&self, domain: usize, cell: usize) -> bool {
        let Domain { ids, owned, .. } = &self.domains[domain];
        !owned[cell] && (self.listed.is_none() || self.known.contains(&ids[cell]))
    }
}

impl Oracle for Here {
    fn name(&self, domain: usize, layout: &BlockLayout, cell: &[i64], after: bool) -> Option<Name> {
        let Domain { ids, owned, .. } = &self.domains[domain];
        let index = cell[0] as usize;
        let exchanged = layout.owned().contains(cell);
        let holds = owned[index] || after && exchanged && self.is_filled(domain, index);
        holds.then(|| {
            let mut name = name_of(cell);
            name[0] = ids[index];
            name
        })
    }

    fn seed(&self, field: usize, round: u64) -> u64 {
        !self.number ^ round << 32 ^ (field as u64) << 48
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

    fn memory(&self) -> MemoryKind {
        self.memory
    }

    fn build<D: Device>(
        &self,
        device: &D,
        pattern: &Pattern,
        memory: MemoryKind,
    ) -> Result<AnyField<D>, Failure> {
        let mut builder = AnyField::builder(pattern)
            .further_axes(&self.further_axes)
            .components(self.components, self.place)
            .axis_order(&self.order)
            .padding(&self.padding)
            .memory(memory);
        if let Some(cells) = self.blocked {
            builder = builder.blocked(cells);
        }
        if let Some(levels) = &self.levels {
            builder = builder.exchanged_levels(levels.clone());
        }
        Ok(builder.build_any(device, self.element)?)
    }
}
