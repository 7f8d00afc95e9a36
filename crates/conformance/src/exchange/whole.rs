//! All cells as one array on one rank, and back, of random domains and fields. What each element holds follows from its place in the
//! array.

use std::time::Duration;

use haloport_core::device::Device;
use haloport_core::{
    BlockLayout, Communicator, ComponentPlace, Element, Field, Grid, Halo, HaloCells, IndexBox, Pattern,
    run_ranks,
};
use num_complex::Complex;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::random_cells::{deal, random_domains, random_ids, random_list};
use super::splits::on_some_ranks;
use crate::streams::faults::{Faults, MADE_TO_FAIL};
use crate::test_devices::altered::with_calls;
use crate::{Failure, ensure};

/// The elements of a field that neither owns nor fills.
const UNTOUCHED: u64 = u64::MAX;

/// Collective: scatters an array from one rank to a field of random domains of this number, and gathers it again, in slabs of random size:
/// boxes and lists in turn, of several types of elements.
///
/// # Errors
/// The first element that is wrong on this rank, or the error of a call.
pub fn check<D: Device>(comm: &Communicator, device: &D, number: u64, size: usize) -> Result<(), Failure> {
    let random = &mut StdRng::seed_from_u64(number << 8 | comm.size() as u64);
    let cells = if number.is_multiple_of(2) {
        boxes(comm, random, 2 + size)?
    } else {
        lists(comm, random, 10 * size)?
    };
    let case = Case::new(random, comm.size(), cells);
    let of_rank = StdRng::seed_from_u64(number << 16 | comm.rank() as u64);
    let run = match number / 2 % 6 {
        0 => case.run::<u8, D>(device, of_rank),
        1 => case.run::<i16, D>(device, of_rank),
        2 => case.run::<f32, D>(device, of_rank),
        3 => case.run::<f64, D>(device, of_rank),
        4 => case.run::<Complex<f64>, D>(device, of_rank),
        _ => case.run::<u128, D>(device, of_rank),
    };
    run.map_err(|error| format!("whole arrays, case {number}: {error}\n{case:?}").into())
}

/// On three ranks that are threads, makes every call of the last rank's device fail in turn, while an array is scattered and gathered
/// in two slabs. That rank gets the error of the call and the others one that names a rank, or the array is right; no rank hangs.
/// Returns the number of calls.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn every_call_fails_once<D: Device>(device: &D) -> Result<u64, Failure> {
    let mut number = 1;
    while call_fails(device, number).map_err(|error| format!("call {number} fails: {error}"))? {
        number += 1;
    }
    Ok(number - 1)
}

/// Makes a call of the last rank fail; returns `false` if there are fewer calls.
fn call_fails<D: Device>(device: &D, number: u64) -> Result<bool, Failure> {
    let failed = run_ranks(3, |comm| {
        comm.set_time_limit(Some(Duration::from_secs(10)));
        let faults = Faults::default();
        let pattern = Pattern::on_grid(&comm, [4, 6]).build()?;
        let mut field = Field::<f64, _>::new(&with_calls(device, faults.clone()), &pattern)?;
        comm.barrier()?;
        if comm.rank() == 2 {
            faults.fail_at(number);
        }
        let limit = 2 * 6 * size_of::<f64>();
        let scattered = pattern.scatter_with(&[1.0; 24], &mut field, 0, limit);
        let ended = scattered.and_then(|()| pattern.gather_with(&field, 0, limit));
        let failed = faults.has_failed();
        let text = ended.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let all = comm.gather(0, &(failed, text))?.unwrap_or_default();
        let is_error = |(failed, text): &(bool, String)| match failed {
            true => text.contains(MADE_TO_FAIL),
            false => text.contains("rank "),
        };
        // A device can do without some calls, such as those that free memory or make it quicker.
        let is_right = matches!(&ended, Ok(Some(whole)) if whole.values == [1.0; 24]);
        let right = all.iter().all(is_error) || is_right && all.iter().all(|(_, text)| text.is_empty());
        ensure!(right || comm.rank() > 0, "the ranks ended with {all:?}");
        Ok::<_, Failure>(failed)
    })?;
    Ok(failed.contains(&true))
}

/// The cells, as they are cut into domains.
#[derive(Debug)]
struct CellsOfRanks {
    pattern: Pattern,
    /// The number of cells along each axis of the array.
    extents: Vec<usize>,
    /// All ids, ascending; none on a grid.
    ids: Vec<i64>,
}

#[derive(Debug)]
struct Case {
    cells: CellsOfRanks,
    further: Vec<usize>,
    components: usize,
    root: usize,
    limit: usize,
}

fn boxes(comm: &Communicator, random: &mut StdRng, most: usize) -> Result<CellsOfRanks, Failure> {
    let axes = random.random_range(1..=3);
    let extents: Vec<usize> = (0..axes).map(|_| random.random_range(1..=most)).collect();
    let periodic: Vec<bool> = extents.iter().map(|_| random.random_bool(0.5)).collect();
    let grid = Grid::new(&extents)?.periodic(periodic)?;
    let domains = on_some_ranks(random, &extents, comm.size());
    let halo = Halo::uniform(random.random_range(0..=2));
    let pattern = Pattern::structured(comm, &grid, &domains[comm.rank()], &halo)?;
    Ok(CellsOfRanks { pattern, extents, ids: Vec::new() })
}

fn lists(comm: &Communicator, random: &mut StdRng, most: usize) -> Result<CellsOfRanks, Failure> {
    let ranks = comm.size();
    let count = random.random_range(0..=most);
    let mut ids = random_ids(random, count);
    let (owner_of, rank_of) = deal(random, ids.len(), ranks);
    let domains = random_domains(random, &ids, &owner_of, &rank_of, ranks);
    let filled: Vec<_> = domains.iter().map(|domains| random_list(random, domains)).collect();
    let sets: Vec<_> = domains[comm.rank()].iter().map(super::random_cells::Domain::index_set).collect();
    let halo = filled[comm.rank()].clone().map_or(HaloCells::All, HaloCells::Ids);
    let pattern = Pattern::unstructured(comm, &sets, &halo)?;
    ids.sort_unstable();
    Ok(CellsOfRanks { pattern, extents: vec![ids.len()], ids })
}

impl Case {
    fn new(random: &mut StdRng, ranks: usize, cells: CellsOfRanks) -> Case {
        let most = 4 - cells.extents.len();
        let further = random.random_range(0..=most.min(2));
        let further: Vec<usize> = (0..further).map(|_| random.random_range(1..=4)).collect();
        let limit = match random.random_range(0..4) {
            0 => 1,
            1 => usize::MAX,
            _ => random.random_range(0..2000),
        };
        let (components, root) = (random.random_range(1..=3), random.random_range(0..ranks));
        Case { cells, further, components, root, limit }
    }

    fn run<T: Element, D: Device>(&self, device: &D, mut of_rank: StdRng) -> Result<(), Failure> {
        let pattern = &self.cells.pattern;
        let is_root = pattern.comm().rank() == self.root;
        let elements = self.shape().into_iter().product::<usize>();
        let whole: Vec<T> = (0..elements as u64).map(value).collect();

        let mut field = self.field::<T, D>(device, &mut of_rank)?;
        for domain in 0..field.domain_count() {
            let (low, high) = field.layout(domain)?.span();
            field.copy_from(domain, &vec![value(UNTOUCHED); (high - low) as usize])?;
        }
        // Other ranks pass anything.
        let passed = if is_root { &whole[..] } else { &whole[..elements / 2] };
        pattern.scatter_with(passed, &mut field, self.root, self.limit)?;
        for domain in 0..field.domain_count() {
            self.verify(domain, field.layout(domain)?, &field.to_vec(domain)?)?;
        }

        let found = pattern.gather_with(&field, self.root, self.limit)?;
        ensure!(found.is_some() == is_root, "an array on rank {}", pattern.comm().rank());
        if let Some(found) = found {
            ensure!(found.shape == self.shape(), "the shape is {:?}", found.shape);
            ensure!(found.ids == self.cells.ids, "the ids are {:?}", found.ids);
            let wrong = (0..elements).find(|&place| bytes(&found.values[place]) != bytes(&whole[place]));
            ensure!(wrong.is_none(), "the array is wrong at {wrong:?} of {elements}");
        }
        Ok(())
    }

    /// A field of zeros, in any layout.
    fn field<T: Element, D: Device>(&self, device: &D, random: &mut StdRng) -> Result<Field<T, D>, Failure> {
        let place = if random.random_bool(0.5) { ComponentPlace::Fastest } else { ComponentPlace::Slowest };
        let mut builder = Field::builder(&self.cells.pattern)
            .further_axes(&self.further)
            .components(self.components, place);
        let mut order: Vec<usize> = (0..self.cells.extents.len() + self.further.len()).collect();
        order.shuffle(random);
        if self.cells.pattern.grid().is_some() {
            builder = builder.axis_order(order).wider_margin(random.random_range(0..=1));
        } else if random.random_bool(0.5) {
            builder = builder.blocked(random.random_range(1..=5));
        } else {
            builder = builder.axis_order(order);
        }
        // Levels that are not exchanged move, too.
        if let Some(&levels) = self.further.last() {
            builder = builder.exchanged_levels(levels / 2..levels);
        }
        Ok(builder.build(device)?)
    }

    fn shape(&self) -> Vec<usize> {
        let components = (self.components > 1).then_some(self.components);
        self.cells.extents.iter().chain(&self.further).copied().chain(components).collect()
    }

    fn verify<T: Element>(&self, domain: usize, layout: &BlockLayout, block: &[T]) -> Result<(), Failure> {
        let mut expected = vec![UNTOUCHED; block.len()];
        for cell in indices(&layout.allocated()) {
            for component in 0..self.components {
                let place = layout.offset(&cell, component).ok_or("a cell without a place")?;
                let of_cell = self.place(domain, &cell);
                expected[(place - layout.span().0) as usize] =
                    of_cell.map_or(UNTOUCHED, |place| (place * self.components + component) as u64);
            }
        }
        let right = |(found, place): (&T, &u64)| bytes(found) == bytes(&value::<T>(*place));
        let wrong = block.iter().zip(&expected).position(|pair| !right(pair));
        ensure!(wrong.is_none(), "domain {domain} is wrong at {wrong:?}, expected {expected:?}");
        Ok(())
    }

    /// The place of a cell of this rank in the array, counted in cells; `None` if the domain does not own it.
    fn place(&self, domain: usize, cell: &[i64]) -> Option<usize> {
        let CellsOfRanks { pattern, extents, ids } = &self.cells;
        let mut index = cell.to_vec();
        if let Some(owned) = pattern.boxes().get(domain) {
            owned.contains(&cell[..extents.len()]).then_some(())?;
        }
        if let Some(set) = pattern.index_sets().get(domain) {
            let local = cell[0] as usize;
            set.owned()[local].then_some(())?;
            index[0] = ids.binary_search(&set.ids()[local]).ok()? as i64;
        }
        let along = extents.iter().chain(&self.further).zip(index);
        Some(along.fold(0, |place, (extent, index)| place * extent + index as usize))
    }
}

/// All indices of a box.
fn indices(cells: &IndexBox) -> Vec<Vec<i64>> {
    (0..cells.axes()).fold(vec![Vec::new()], |indices, axis| {
        let along = cells.lower()[axis]..cells.upper()[axis];
        indices.iter().flat_map(|index| along.clone().map(|next| [&index[..], &[next]].concat())).collect()
    })
}

/// The element at a place of the array: other bits at each place, as far as its type has enough.
fn value<T: Element>(place: u64) -> T {
    let mixed = place.wrapping_add(2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let words = [mixed.rotate_left(24) ^ mixed, mixed];
    bytemuck::pod_read_unaligned(&bytemuck::cast_slice::<u64, u8>(&words)[..size_of::<T>()])
}

fn bytes<T: Element>(value: &T) -> &[u8] {
    bytemuck::bytes_of(value)
}
