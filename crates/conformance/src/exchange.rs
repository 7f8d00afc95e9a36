//! Random exchanges against a global oracle.
//!
//! A [`Case`] is made from a number alone, so every rank of a communicator makes the same one and a failure can be
//! run again. [`check`] runs it: every halo cell must hold what the global array has there, and every other element
//! in memory (owned cells, margins, padding, cells beyond the ends of the grid) must be untouched.

use haloport_core::device::Device;
use haloport_core::{
    BindOptions, BlockLayout, BorrowedField, Communicator, ComponentPlace, Element, ElementType, Field,
    FieldSet, Grid, Halo, IndexBox, Neighbours, Pattern, Schedule,
};
use num_complex::Complex;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::{Failure, ensure};

/// A byte that memory is filled with before an exchange, to see what was touched.
const UNTOUCHED: u8 = 0xA5;

/// A random grid, split, halo and set of fields.
#[derive(Debug, Clone)]
pub struct Case {
    number: u64,
    extents: Vec<usize>,
    periodic: Vec<bool>,
    widths: Vec<(usize, usize)>,
    neighbours: Neighbours,
    /// The domains of each rank.
    domains: Vec<Vec<IndexBox>>,
    fields: Vec<FieldCase>,
    direct: bool,
    rounds: u64,
}

#[derive(Debug, Clone)]
struct FieldCase {
    element: ElementType,
    components: usize,
    place: ComponentPlace,
    order: Vec<usize>,
    padding: Vec<usize>,
    wider: usize,
    borrowed: bool,
}

impl Case {
    /// The case with this number for this many ranks. Cases grow with `size` (1 is tiny, 10 is large), which keeps
    /// the first failure of a run small.
    pub fn new(number: u64, ranks: usize, size: usize) -> Case {
        let mut random = StdRng::seed_from_u64(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ranks as u64);
        let axes = random.random_range(1..=4);
        let longest = [24, 10, 6, 4][axes - 1].min(1 + 3 * size);
        let extents: Vec<usize> = (0..axes).map(|_| random.random_range(1..=longest)).collect();
        let widest = [6, 3, 3, 2][axes - 1];
        let width =
            |random: &mut StdRng| if random.random_bool(0.3) { 0 } else { random.random_range(0..=widest) };
        let widths = (0..axes).map(|_| (width(&mut random), width(&mut random))).collect();
        let domains = split(&mut random, &extents, ranks);
        let fields = (0..random.random_range(1..=3)).map(|_| FieldCase::new(&mut random, axes)).collect();
        Case {
            number,
            periodic: (0..axes).map(|_| random.random_bool(0.5)).collect(),
            widths,
            neighbours: if random.random_bool(0.7) { Neighbours::All } else { Neighbours::Faces },
            domains,
            fields,
            direct: random.random_bool(0.7),
            rounds: random.random_range(1..=3),
            extents,
        }
    }

    /// What the global array of a field holds at a cell, in every round.
    fn value<T: Element>(&self, field: usize, round: u64, cell: &[i64], component: usize) -> T {
        let mut hash = self.number ^ round << 32 ^ (field as u64) << 48 ^ component as u64;
        for &index in cell {
            hash = (hash ^ index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            hash ^= hash >> 29;
        }
        let bytes = u128::from(hash) << 64 | u128::from(hash.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        bytemuck::pod_read_unaligned(&bytes.to_ne_bytes()[..size_of::<T>()])
    }

    /// The cell of the grid that an exchange puts at `cell` of the block of `owned`; `None` where it puts nothing.
    fn source(&self, owned: &IndexBox, cell: &[i64]) -> Option<Vec<i64>> {
        let mut outside = 0;
        let mut source = Vec::with_capacity(cell.len());
        for (axis, &index) in cell.iter().enumerate() {
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
            source.push(index.rem_euclid(extent));
        }
        let filled = match self.neighbours {
            Neighbours::All => outside >= 1,
            Neighbours::Faces => outside == 1,
        };
        filled.then_some(source)
    }
}

impl FieldCase {
    fn new(random: &mut StdRng, axes: usize) -> FieldCase {
        use ElementType::*;
        let elements =
            [I8, I16, I32, I64, I128, U8, U16, U32, U64, U128, F16, Bf16, F32, F64, Complex32, Complex64];
        let mut order: Vec<usize> = (0..axes).collect();
        order.shuffle(random);
        FieldCase {
            element: elements[random.random_range(0..elements.len())],
            components: if random.random_bool(0.6) { 1 } else { random.random_range(2..=3) },
            place: if random.random_bool(0.5) { ComponentPlace::Fastest } else { ComponentPlace::Slowest },
            order,
            padding: (0..axes)
                .map(|_| if random.random_bool(0.7) { 0 } else { random.random_range(0..3) })
                .collect(),
            wider: if random.random_bool(0.7) { 0 } else { 1 },
            borrowed: random.random_bool(0.25),
        }
    }
}

/// Cuts the grid at random into boxes and deals them to the ranks; some ranks may get none, some several.
fn split(random: &mut StdRng, extents: &[usize], ranks: usize) -> Vec<Vec<IndexBox>> {
    let upper: Vec<i64> = extents.iter().map(|&extent| extent as i64).collect();
    let mut boxes = vec![IndexBox::new(vec![0; upper.len()], upper)];
    let wanted = random.random_range(1..=2 * ranks);
    for _ in 0..wanted * 3 {
        if boxes.len() >= wanted {
            break;
        }
        let number = random.random_range(0..boxes.len());
        let axis = random.random_range(0..extents.len());
        let whole = boxes[number];
        let (lower, upper) = (whole.lower()[axis], whole.upper()[axis]);
        // Now and then a cut at the end leaves an empty domain.
        let cut = if upper - lower > 1 && random.random_bool(0.95) {
            random.random_range(lower + 1..upper)
        } else {
            upper
        };
        boxes[number] = whole.with_axis(axis, lower, cut);
        boxes.push(whole.with_axis(axis, cut, upper));
    }
    let mut domains = vec![Vec::new(); ranks];
    for (number, domain) in boxes.into_iter().enumerate() {
        let rank =
            if number < ranks && random.random_bool(0.8) { number } else { random.random_range(0..ranks) };
        domains[rank].push(domain);
    }
    domains
}

/// Collective: runs a case on all ranks.
///
/// # Errors
/// The first cell that is wrong on this rank, or the error of a call.
pub fn check<D: Device>(comm: &Communicator, device: &D, case: &Case) -> Result<(), Failure> {
    run(comm, device, case).map_err(|error| format!("case {}: {error}\n{case:?}", case.number).into())
}

fn run<D: Device>(comm: &Communicator, device: &D, case: &Case) -> Result<(), Failure> {
    let grid = Grid::new(&case.extents)?.periodic(&case.periodic)?;
    let halo = Halo::per_side(&case.widths).with_neighbours(case.neighbours);
    let pattern = Pattern::structured(comm, &grid, &case.domains[comm.rank()], &halo)?;
    let mut memory: Vec<Vec<Vec<u128>>> = case.fields.iter().map(|_| Vec::new()).collect();
    let fields = case
        .fields
        .iter()
        .zip(&mut memory)
        .enumerate()
        .map(|(number, (field, memory))| make_field(device, &pattern, field, number, memory))
        .collect::<Result<Vec<_>, _>>()?;
    let mut exchange = pattern.bind_with(fields, BindOptions::default().direct(case.direct))?;
    let stream = device.create_stream(haloport_core::device::Priority::Normal)?;
    for round in 0..case.rounds {
        for field in exchange.fields_mut() {
            field.prepare(case, round)?;
        }
        let schedules = [Schedule::Blocking, Schedule::DefaultStream, Schedule::On(&stream)];
        match (case.number + round) % 3 {
            0 => exchange.exchange(schedules[0])?,
            1 => exchange.start(schedules[1])?.finish(schedules[0])?,
            _ => {
                let pending = exchange.start(schedules[2])?;
                while !pending.is_ready() {
                    std::thread::yield_now();
                }
                pending.finish(schedules[2])?;
            }
        }
        device.synchronize(&stream)?;
        for field in exchange.fields() {
            field.verify(case, round)?;
        }
    }
    Ok(())
}

/// Collective: several exchanges in flight at once, started and finished in an order of its own on every rank.
///
/// # Errors
/// The first cell that is wrong on this rank, or the error of a call.
pub fn interleaved<D: Device>(comm: &Communicator, device: &D, number: u64) -> Result<(), Failure> {
    let cases: Vec<Case> = (0..4).map(|k| Case::new(number * 4 + k, comm.size(), 4)).collect();
    let mut bound = Vec::new();
    for case in &cases {
        let grid = Grid::new(&case.extents)?.periodic(&case.periodic)?;
        let halo = Halo::per_side(&case.widths).with_neighbours(case.neighbours);
        let pattern = Pattern::structured(comm, &grid, &case.domains[comm.rank()], &halo)?;
        let field = make_owned(device, &pattern, &case.fields[0], 0)?;
        bound.push((case, pattern.bind_with(field, BindOptions::default().direct(case.direct))?));
    }
    let mut random = StdRng::seed_from_u64(number ^ (comm.rank() as u64) << 40);
    for round in 0..5 {
        bound.shuffle(&mut random);
        let mut pending = Vec::new();
        for (case, exchange) in &mut bound {
            exchange.fields_mut().prepare(case, round)?;
            pending.push(exchange.start(Schedule::DefaultStream)?);
        }
        pending.shuffle(&mut random);
        for exchange in pending {
            // Some are dropped, which finishes them as well.
            if random.random_bool(0.8) {
                exchange.finish(Schedule::Blocking)?;
            }
        }
        for (case, exchange) in &bound {
            exchange.fields().verify(case, round)?;
        }
    }
    Ok(())
}

/// A field of any element type, as the oracle sees it.
trait CaseField: FieldSet {
    /// Fills owned cells with the values of the round and everything else with [`UNTOUCHED`].
    fn prepare(&mut self, case: &Case, round: u64) -> Result<(), Failure>;
    /// Compares every element in memory with what it should be.
    fn verify(&self, case: &Case, round: u64) -> Result<(), Failure>;
}

struct Owned<T, D: Device> {
    number: usize,
    field: Field<T, D>,
}

struct Borrowed<'m, T, D> {
    number: usize,
    field: BorrowedField<'m, T, D>,
    layouts: Vec<BlockLayout>,
}

haloport_core::field_set!(impl[T: Element, D: Device] for Owned<T, D> { field });
haloport_core::field_set!(impl['m, T: Element, D: Device] for Borrowed<'m, T, D> { field });

impl<T: Element, D: Device> CaseField for Owned<T, D> {
    fn prepare(&mut self, case: &Case, round: u64) -> Result<(), Failure> {
        for domain in 0..self.field.domains() {
            let image = image(case, self.number, round, self.field.layout(domain)?, false);
            self.field.copy_from(domain, &image)?;
        }
        Ok(())
    }

    fn verify(&self, case: &Case, round: u64) -> Result<(), Failure> {
        for domain in 0..self.field.domains() {
            let layout = self.field.layout(domain)?;
            let expected = image::<T>(case, self.number, round, layout, true);
            compare(&self.field.to_vec(domain)?, &expected, self.number, domain, layout)?;
        }
        Ok(())
    }
}

impl<T: Element, D: Device> CaseField for Borrowed<'_, T, D> {
    fn prepare(&mut self, case: &Case, round: u64) -> Result<(), Failure> {
        for (domain, layout) in self.layouts.iter().enumerate() {
            let owned = layout.owned();
            let number = self.number;
            self.field.view_mut(domain)?.fill_with(|cell, component| {
                if owned.contains(cell) { case.value(number, round, cell, component) } else { untouched() }
            });
        }
        Ok(())
    }

    fn verify(&self, case: &Case, round: u64) -> Result<(), Failure> {
        for (domain, layout) in self.layouts.iter().enumerate() {
            let view = self.field.view(domain)?;
            let expected = image::<T>(case, self.number, round, layout, true);
            let mut found = vec![untouched::<T>(); expected.len()];
            for_each_cell(&layout.allocated(), |cell| {
                for component in 0..layout.components() {
                    if let (Some(offset), Some(value)) =
                        (layout.offset(cell, component), view.component(cell, component))
                    {
                        found[offset as usize] = value;
                    }
                }
            });
            compare(&found, &expected, self.number, domain, layout)?;
        }
        Ok(())
    }
}

/// The memory of a block before an exchange, or after it.
fn image<T: Element>(case: &Case, field: usize, round: u64, layout: &BlockLayout, after: bool) -> Vec<T> {
    let mut image = vec![untouched::<T>(); layout.span().1 as usize];
    let owned = layout.owned();
    for_each_cell(&layout.allocated(), |cell| {
        let source = if owned.contains(cell) {
            Some(cell.to_vec())
        } else if after {
            case.source(&owned, cell)
        } else {
            None
        };
        let Some(source) = source else { return };
        for component in 0..layout.components() {
            if let Some(offset) = layout.offset(cell, component) {
                image[offset as usize] = case.value(field, round, &source, component);
            }
        }
    });
    image
}

fn compare<T: Element>(
    found: &[T],
    expected: &[T],
    field: usize,
    domain: usize,
    layout: &BlockLayout,
) -> Result<(), Failure> {
    let bytes = |values: &[T]| bytemuck::cast_slice::<T, u8>(values).to_vec();
    if bytes(found) == bytes(expected) {
        return Ok(());
    }
    let at = (0..expected.len()).find(|&k| bytes(&found[k..=k]) != bytes(&expected[k..=k])).unwrap_or(0);
    let mut cell = None;
    for_each_cell(&layout.allocated(), |index| {
        for component in 0..layout.components() {
            if layout.offset(index, component) == Some(at as isize) {
                cell = Some((index.to_vec(), component));
            }
        }
    });
    ensure!(
        false,
        "field {field}, domain {domain} ({}), element {at} (cell and component {cell:?}): found {:?}, expected {:?}",
        layout.owned(),
        found[at],
        expected[at]
    );
    Ok(())
}

fn untouched<T: Element>() -> T {
    bytemuck::pod_read_unaligned(&[UNTOUCHED; 16][..size_of::<T>()])
}

fn for_each_cell(region: &IndexBox, mut visit: impl FnMut(&[i64])) {
    let extents: Vec<i64> =
        region.lower().iter().zip(region.upper()).map(|(low, up)| (up - low).max(0)).collect();
    let count: i64 = extents.iter().product();
    for number in 0..count {
        let mut rest = number;
        let cell: Vec<i64> = extents
            .iter()
            .zip(region.lower())
            .map(|(extent, lower)| {
                let index = lower + rest % extent;
                rest /= extent;
                index
            })
            .collect();
        visit(&cell);
    }
}

macro_rules! for_type {
    ($element:expr, $T:ident => $body:expr) => {
        match $element {
            ElementType::I8 => {
                type $T = i8;
                $body
            }
            ElementType::I16 => {
                type $T = i16;
                $body
            }
            ElementType::I32 => {
                type $T = i32;
                $body
            }
            ElementType::I64 => {
                type $T = i64;
                $body
            }
            ElementType::I128 => {
                type $T = i128;
                $body
            }
            ElementType::U8 => {
                type $T = u8;
                $body
            }
            ElementType::U16 => {
                type $T = u16;
                $body
            }
            ElementType::U32 => {
                type $T = u32;
                $body
            }
            ElementType::U64 => {
                type $T = u64;
                $body
            }
            ElementType::U128 => {
                type $T = u128;
                $body
            }
            ElementType::F16 => {
                type $T = half::f16;
                $body
            }
            ElementType::Bf16 => {
                type $T = half::bf16;
                $body
            }
            ElementType::F32 => {
                type $T = f32;
                $body
            }
            ElementType::F64 => {
                type $T = f64;
                $body
            }
            ElementType::Complex32 => {
                type $T = Complex<f32>;
                $body
            }
            ElementType::Complex64 => {
                type $T = Complex<f64>;
                $body
            }
            other => return Err(format!("the suite does not know the element type {other}").into()),
        }
    };
}

fn make_owned<D: Device>(
    device: &D,
    pattern: &Pattern,
    case: &FieldCase,
    number: usize,
) -> Result<Box<dyn CaseField>, Failure> {
    for_type!(case.element, T => Ok(Box::new(Owned { number, field: build::<T, D>(device, pattern, case)? })))
}

fn make_field<'m, D: Device>(
    device: &D,
    pattern: &Pattern,
    case: &FieldCase,
    number: usize,
    memory: &'m mut Vec<Vec<u128>>,
) -> Result<Box<dyn CaseField + 'm>, Failure> {
    if !case.borrowed || !device.info().host_accessible {
        return make_owned(device, pattern, case, number);
    }
    for_type!(case.element, T => {
        // An owned field of the same kind has made the layouts.
        let model = build::<T, D>(device, pattern, case)?;
        let layouts = (0..model.domains()).map(|domain| model.layout(domain).cloned()).collect::<Result<Vec<_>, _>>()?;
        *memory = layouts
            .iter()
            .map(|layout| vec![u128::from_ne_bytes([UNTOUCHED; 16]); (layout.span().1 as usize * size_of::<T>()).div_ceil(16)])
            .collect();
        let blocks = memory
            .iter_mut()
            .zip(&layouts)
            .map(|(memory, layout)| (bytemuck::cast_slice_mut::<u128, T>(memory), layout.clone()))
            .collect();
        Ok(Box::new(Borrowed { number, field: BorrowedField::new(device, blocks)?, layouts }))
    })
}

fn build<T: Element, D: Device>(
    device: &D,
    pattern: &Pattern,
    case: &FieldCase,
) -> Result<Field<T, D>, Failure> {
    let builder = Field::<T, D>::builder(pattern)
        .components(case.components, case.place)
        .axis_order(&case.order)
        .padding(&case.padding)
        .wider_margin(case.wider);
    Ok(builder.build(device)?)
}
