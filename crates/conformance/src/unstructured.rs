//! Random exchanges of unstructured domains against a global oracle.
//!
//! A [`Case`] is made from a number alone, as those of [`exchange`]. [`check`] runs it: every halo
//! cell that is to be filled must hold what belongs to its id, and every other element in memory (owned cells, halo
//! cells that are not listed, levels that are not exchanged, padding) must be untouched.

use std::collections::HashSet;

use haloport_core::device::{Device, MemoryKind};
use haloport_core::{
    BlockLayout, Communicator, ComponentPlace, Element, ElementType, Exchange, Field, HaloCells, IndexSet,
    Pattern,
};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

use crate::oracle::{
    CaseField, FieldMaker, FieldSetOf, Lenders, Memory, Name, Oracle, Ways, make_field, make_owned, name_of,
    order_of_rank, random_element, random_memory, run_interleaved, run_passed, run_rounds,
};
use crate::{Failure, ensure, exchange};

/// Random ids, owners, halos and fields.
#[derive(Debug, Clone)]
pub struct Case {
    number: u64,
    /// The domains of each rank.
    ranks: Vec<Vec<Domain>>,
    /// For each rank the ids that its exchange fills; all if there is no list.
    listed: Vec<Option<Vec<i64>>>,
    fields: Vec<FieldCase>,
    ways: Ways,
    rounds: u64,
}

#[derive(Debug, Clone)]
struct Domain {
    ids: Vec<i64>,
    owned: Vec<bool>,
    /// The owners of the cells of the halo, where they are named.
    owners: Option<Vec<usize>>,
}

#[derive(Debug, Clone)]
struct FieldCase {
    element: ElementType,
    further_axes: Vec<usize>,
    levels: Option<std::ops::Range<usize>>,
    components: usize,
    place: ComponentPlace,
    order: Vec<usize>,
    padding: Vec<usize>,
    lenders: Lenders,
    memory: MemoryKind,
}

impl Case {
    /// The case with this number for this many ranks. Cases grow with `size` (1 is tiny, 10 is large), which keeps
    /// the first failure of a run small.
    pub fn new(number: u64, ranks: usize, size: usize) -> Case {
        let seed = number.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ ranks as u64;
        let random = &mut StdRng::seed_from_u64(seed);
        let cells = random.random_range(0..=20 * size);
        let ids = random_ids(random, cells);
        let (owner_of, domains) = deal(random, cells, ranks);
        let ranks = random_domains(random, &ids, &owner_of, &domains, ranks);
        let listed = ranks.iter().map(|domains| random_list(random, domains)).collect();
        let all_listed = random.random_bool(0.5);
        Case {
            number,
            listed: if all_listed { listed } else { vec![None; ranks.len()] },
            ranks,
            fields: (0..random.random_range(1..=4)).map(|_| FieldCase::new(random)).collect(),
            ways: Ways::random(random),
            rounds: random.random_range(1..=3),
        }
    }

    /// The same case, in messages, and in chunks of at most so many bytes where they are staged.
    pub fn in_chunks(self, bytes: usize) -> Case {
        Case { ways: self.ways.in_chunks(bytes), ..self }
    }

    /// Collective: binds the first field, in memory of its own.
    fn bind_one<'m, D: Device>(
        &self,
        comm: &Communicator,
        device: &D,
        here: &'m Here,
    ) -> Result<Exchange<Box<dyn CaseField + 'm>>, Failure> {
        let pattern = self.pattern(comm, here)?;
        let field = make_owned(device, &pattern, here, &self.fields[0], 0)?;
        Ok(pattern.bind_with(field, self.ways.options())?)
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

    fn here(&self, rank: usize) -> Here {
        Here {
            number: self.number,
            domains: self.ranks[rank].clone(),
            listed: self.listed[rank].clone(),
            known: self.listed[rank].iter().flatten().copied().collect(),
        }
    }
}

impl Domain {
    fn index_set(&self) -> IndexSet {
        let first = self.owned.iter().take_while(|owned| **owned).count();
        let set = if self.owned[first..].contains(&true) {
            IndexSet::in_order(self.ids.clone(), self.owned.clone())
        } else {
            IndexSet::new(&self.ids[..first], &self.ids[first..])
        };
        match &self.owners {
            Some(owners) => set.with_owners(owners.clone()),
            None => set,
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
        let mut order: Vec<usize> = (0..=further).collect();
        if random.random_bool(0.5) {
            order.shuffle(random);
        }
        FieldCase {
            element: random_element(random),
            levels,
            components: if random.random_bool(0.7) { 1 } else { random.random_range(2..=3) },
            place: if random.random_bool(0.5) { ComponentPlace::Fastest } else { ComponentPlace::Slowest },
            padding: order
                .iter()
                .map(|_| if random.random_bool(0.7) { 0 } else { random.random_range(0..3) })
                .collect(),
            order,
            further_axes,
            lenders: Lenders::random(random),
            memory: random_memory(random),
        }
    }
}

/// Ids that are not negative, each once, as a list in which neighbours belong together.
fn random_ids(random: &mut StdRng, cells: usize) -> Vec<i64> {
    let count = cells as i64;
    match random.random_range(0..6) {
        0 => (0..count).collect(),
        1 => (0..count).map(|cell| (1 << 33) + cell).collect(),
        2 => (0..count).map(|cell| i64::MAX - cell).collect(),
        3 => (0..count).map(|cell| cell << 40).collect(),
        kind => {
            let bound = if kind == 4 { 1 << 62 } else { 4 * count + 1 };
            let mut ids = Vec::with_capacity(cells);
            let mut known = HashSet::new();
            while ids.len() < cells {
                let id = random.random_range(0..bound);
                if known.insert(id) {
                    ids.push(id);
                }
            }
            if random.random_bool(0.5) {
                ids.sort_unstable();
            }
            ids
        }
    }
}

/// The domain that owns each cell, and the rank of each domain: domains of very different sizes, some that own
/// nothing, ranks with several of them or none.
fn deal(random: &mut StdRng, cells: usize, ranks: usize) -> (Vec<usize>, Vec<usize>) {
    let count = random.random_range(1..=2 * ranks);
    let place = |number: usize, random: &mut StdRng| {
        if number < ranks && random.random_bool(0.8) { number } else { random.random_range(0..ranks) }
    };
    let rank_of = (0..count).map(|number| place(number, random)).collect();
    let owner_of = if random.random_bool(0.3) {
        (0..cells).map(|_| random.random_range(0..count)).collect()
    } else {
        // Intervals, whose ends crowd at the beginning.
        let mut ends: Vec<usize> = (1..count)
            .map(|_| (random.random::<f64>().powi(2) * (cells + 1) as f64) as usize)
            .chain([cells])
            .collect();
        ends.sort_unstable();
        (0..cells).map(|cell| ends.partition_point(|&end| end <= cell)).collect()
    };
    (owner_of, rank_of)
}

fn random_domains(
    random: &mut StdRng,
    ids: &[i64],
    owner_of: &[usize],
    rank_of: &[usize],
    ranks: usize,
) -> Vec<Vec<Domain>> {
    // Owners are named by all domains, by some, or by none.
    let named = [0.0, 0.0, 0.5, 1.0][random.random_range(0..4)];
    let scattered = random.random_bool(0.3);
    let reach = random.random_range(1..=4);
    let mut made = vec![Vec::new(); ranks];
    for (domain, &rank) in rank_of.iter().enumerate() {
        let owned: Vec<usize> = (0..ids.len()).filter(|&cell| owner_of[cell] == domain).collect();
        let mut cells: Vec<(usize, bool)> = owned.iter().map(|&cell| (cell, true)).collect();
        let halo = if ids.is_empty() || random.random_bool(0.1) {
            0
        } else {
            random.random_range(0..=1 + ids.len() / 2)
        };
        for _ in 0..halo {
            let cell = match owned.choose(random) {
                Some(&near) if !scattered => {
                    let last = ids.len() - 1;
                    let near = if random.random_bool(0.5) { owned[0] } else { near };
                    random.random_range(near.saturating_sub(reach)..=(near + reach).min(last))
                }
                _ => random.random_range(0..ids.len()),
            };
            // Cells of one's own are seldom in a halo; ids stand there several times.
            if owner_of[cell] != domain || random.random_bool(0.1) {
                cells.push((cell, false));
            }
        }
        match random.random_range(0..3) {
            0 => cells.shuffle(random),
            1 => {
                let run = random.random_range(1..=5);
                let mut runs: Vec<_> = cells.chunks(run).map(<[_]>::to_vec).collect();
                runs.shuffle(random);
                cells = runs.concat();
            }
            _ => {}
        }
        let owners = cells.iter().filter(|(_, owned)| !owned).map(|(cell, _)| rank_of[owner_of[*cell]]);
        made[rank].push(Domain {
            ids: cells.iter().map(|(cell, _)| ids[*cell]).collect(),
            owned: cells.iter().map(|(_, owned)| *owned).collect(),
            owners: random.random_bool(named).then(|| owners.collect()),
        });
    }
    made
}

/// A list of some ids of the halos, some of them twice; now and then none, or no list.
fn random_list(random: &mut StdRng, domains: &[Domain]) -> Option<Vec<i64>> {
    if random.random_bool(0.2) {
        return None;
    }
    let share = random.random_range(0.0..1.0);
    let halo =
        domains.iter().flat_map(|domain| domain.ids.iter().zip(&domain.owned)).filter(|(_, owned)| !**owned);
    let mut list: Vec<i64> = halo.map(|(id, _)| *id).filter(|_| random.random_bool(share)).collect();
    list.shuffle(random);
    Some(list)
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
    run(comm, device, other, case)
        .map_err(|error| format!("unstructured case {}: {error}\n{case:?}", case.number).into())
}

fn run<D: Device, E: Device>(comm: &Communicator, device: &D, other: &E, case: &Case) -> Result<(), Failure> {
    let here = case.here(comm.rank());
    let pattern = case.pattern(comm, &here)?;
    let make = |memory| -> Result<FieldSetOf<'_>, Failure> {
        let fields = case.fields.iter().zip(memory).enumerate();
        let made = fields.map(|(number, (field, memory))| match number % 2 {
            0 => make_field(device, &pattern, &here, field, number, memory),
            _ => make_field(other, &pattern, &here, field, number, memory),
        });
        made.collect()
    };
    let mut memories: [Vec<Memory>; 3] = std::array::from_fn(|_| vec![Memory::new(); case.fields.len()]);
    let [bound, first, second] = &mut memories;
    let exchange = case.ways.bind(&pattern, make(bound)?)?;
    run_rounds(device, exchange, case.number, case.rounds)?;
    let mut sets = [make(first)?, make(second)?];
    let plan = case.ways.plan(&pattern, &mut sets[0])?;
    run_passed(device, plan, sets, case.number, case.rounds)
}

/// Collective: exchanges of unstructured domains and of boxes in flight at once, started and finished in an order of
/// its own on every rank.
///
/// # Errors
/// The first cell that is wrong on this rank, or the error of a call.
pub fn interleaved<D: Device>(comm: &Communicator, device: &D, number: u64) -> Result<(), Failure> {
    let ranks = comm.size();
    let cases: Vec<Case> = (0..3).map(|k| Case::new(number * 4 + k, ranks, 4)).collect();
    let boxes: Vec<exchange::Case> = (0..2).map(|k| exchange::Case::new(number * 4 + k, ranks, 4)).collect();
    let here: Vec<Here> = cases.iter().map(|case| case.here(comm.rank())).collect();
    let mut bound = Vec::new();
    for (case, here) in cases.iter().zip(&here) {
        bound.push(case.bind_one(comm, device, here)?);
    }
    for case in &boxes {
        bound.push(case.bind_one(comm, device)?);
    }
    run_interleaved(bound, order_of_rank(number, comm.rank()))
}

/// What one rank has of a case.
#[derive(Debug)]
struct Here {
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

    fn lenders(&self) -> Lenders {
        self.lenders
    }

    fn memory(&self) -> MemoryKind {
        self.memory
    }

    fn build<T: Element, D: Device>(
        &self,
        device: &D,
        pattern: &Pattern,
        memory: MemoryKind,
    ) -> Result<Field<T, D>, Failure> {
        let mut builder = Field::<T, D>::builder(pattern)
            .further_axes(&self.further_axes)
            .components(self.components, self.place)
            .axis_order(&self.order)
            .padding(&self.padding)
            .memory(memory);
        if let Some(levels) = &self.levels {
            builder = builder.exchanged_levels(levels.clone());
        }
        Ok(builder.build(device)?)
    }
}
