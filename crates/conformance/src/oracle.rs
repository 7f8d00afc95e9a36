//! Fields of any element type against an oracle that knows what every element in memory must be.

use std::time::Duration;

use haloport_core::device::{Buffer, Device, MemoryKind, Priority};
use haloport_core::{
    BindOptions, BlockLayout, BorrowedField, DataPath, Element, ElementType, Exchange, Field, FieldSet,
    HaloOrder, IndexBox, Pattern, Schedule, Trial,
};
use num_complex::Complex;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::{Failure, ensure};

/// A byte that memory is filled with before an exchange, to see what was touched.
const UNTOUCHED: u8 = 0xA5;

/// Knows what this rank's memory holds.
pub(crate) trait Oracle {
    /// What names the value of `cell` of `domain` in the global array, before an exchange or after it; `None` for a cell
    /// that nothing was put in.
    fn name(&self, domain: usize, layout: &BlockLayout, cell: &[i64], after: bool) -> Option<Vec<i64>>;
    /// From which component of the named cell a component of `cell` comes, and whether its sign is changed.
    fn component(&self, _field: usize, _cell: &[i64], component: usize) -> (usize, bool) {
        (component, false)
    }
    /// A number that tells the global array of a field in one round from others.
    fn seed(&self, field: usize, round: u64) -> u64;
}

/// Describes a field of a case.
pub(crate) trait FieldMaker {
    fn element(&self) -> ElementType;
    /// On which ranks its memory is somebody else's.
    fn lenders(&self) -> Lenders;
    /// The kind of memory on devices that have several.
    fn memory(&self) -> MemoryKind;
    /// The axes that its components point along; none for scalars.
    fn vector(&self) -> &[usize] {
        &[]
    }
    fn build<T: Element, D: Device>(
        &self,
        device: &D,
        pattern: &Pattern,
        memory: MemoryKind,
    ) -> Result<Field<T, D>, Failure>;
}

/// The ranks on which the memory of a field is somebody else's: none, all, or some of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lenders(u64);

impl Lenders {
    /// None.
    pub(crate) const NONE: Lenders = Lenders(0);

    pub(crate) fn random(random: &mut StdRng) -> Lenders {
        Lenders(match random.random_range(0..8) {
            0 => u64::MAX,
            1 | 2 => random.random(),
            _ => 0,
        })
    }

    fn contain(self, rank: usize) -> bool {
        self.0 >> (rank % 64) & 1 == 1
    }
}

/// A field of any element type, as the oracle sees it.
pub(crate) trait CaseField: FieldSet {
    /// Fills owned cells with the values of the round and everything else with [`UNTOUCHED`].
    fn prepare(&mut self, round: u64) -> Result<(), Failure>;
    /// Compares every element in memory with what it should be, before the exchange of a round or after it.
    fn verify(&self, round: u64, after: bool) -> Result<(), Failure>;
}

/// The memory of borrowed fields: one list for each domain.
pub(crate) type Memory = Vec<Vec<u128>>;

/// Makes one field; `memory` is what a borrowed one borrows.
pub(crate) fn make_field<'m, O: Oracle, D: Device>(
    device: &D,
    pattern: &Pattern,
    oracle: &'m O,
    maker: &impl FieldMaker,
    number: usize,
    memory: &'m mut Memory,
) -> Result<Box<dyn CaseField + 'm>, Failure> {
    if !maker.lenders().contain(pattern.comm().rank()) {
        return make_owned(device, pattern, oracle, maker, number);
    }
    for_type!(maker.element(), T => {
        // An owned field of the same kind has made the layouts.
        let model = maker.build::<T, D>(device, pattern, MemoryKind::Device)?;
        let layouts = (0..model.domains()).map(|domain| model.layout(domain).cloned()).collect::<Result<Vec<_>, _>>()?;
        if !device.info().runs_on_host() {
            let field = field_at_addresses::<T, D>(device, layouts, memory_of(device, maker))?;
            return Ok(Box::new(Owned { number, oracle, field: field.with_vector(maker.vector())? }));
        }
        *memory = layouts
            .iter()
            .map(|layout| vec![u128::from_ne_bytes([UNTOUCHED; 16]); (layout.span().1 as usize * size_of::<T>()).div_ceil(16)])
            .collect();
        let blocks = memory
            .iter_mut()
            .zip(&layouts)
            .map(|(memory, layout)| (bytemuck::cast_slice_mut::<u128, T>(memory), layout.clone()))
            .collect();
        let field = BorrowedField::new(device, blocks)?.with_vector(maker.vector())?;
        Ok(Box::new(Borrowed { number, oracle, field, layouts }))
    })
}

/// Makes one field that owns its memory.
pub(crate) fn make_owned<'m, O: Oracle, D: Device>(
    device: &D,
    pattern: &Pattern,
    oracle: &'m O,
    maker: &impl FieldMaker,
    number: usize,
) -> Result<Box<dyn CaseField + 'm>, Failure> {
    let memory = memory_of(device, maker);
    for_type!(maker.element(), T => {
        Ok(Box::new(Owned { number, oracle, field: maker.build::<T, D>(device, pattern, memory)? }))
    })
}

/// A field in memory that a program allocated itself on the device, by address.
fn field_at_addresses<T: Element, D: Device>(
    device: &D,
    layouts: Vec<BlockLayout>,
    kind: MemoryKind,
) -> Result<Field<T, D>, Failure> {
    let bytes = |layout: &BlockLayout| layout.span().1 as usize * size_of::<T>();
    let buffers =
        layouts.iter().map(|layout| device.allocate(bytes(layout), kind)).collect::<Result<Vec<_>, _>>()?;
    let host_accessible = buffers.iter().all(Buffer::host_accessible);
    let blocks = buffers.iter().map(Buffer::pointer).zip(layouts).collect();
    // SAFETY: the blocks are buffers of their own, as long as the layouts, which have no negative strides, say, zeroed,
    // and owned by the field alone.
    Ok(unsafe { Field::from_raw(device, blocks, host_accessible, Box::new(buffers)) })
}

/// The kind of memory that a field has: that of the case, where the device has it.
fn memory_of<D: Device>(device: &D, maker: &impl FieldMaker) -> MemoryKind {
    let wanted = maker.memory();
    if device.allocate(1, wanted).is_ok() { wanted } else { MemoryKind::Device }
}

/// Runs rounds of one exchange, each by another schedule, and verifies each.
pub(crate) fn run_rounds<'m, D: Device>(
    device: &D,
    mut exchange: Exchange<Vec<Box<dyn CaseField + 'm>>>,
    number: u64,
    rounds: u64,
) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    for round in 0..rounds {
        for field in exchange.fields_mut() {
            field.prepare(round)?;
        }
        let schedules = [Schedule::Blocking, Schedule::DefaultStream, Schedule::On(&stream)];
        match (number + round) % 3 {
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
            field.verify(round, true)?;
        }
    }
    Ok(())
}

/// Runs rounds of several exchanges in flight at once, started and finished in an order of its own on every rank.
pub(crate) fn run_interleaved<'m>(
    mut bound: Vec<Exchange<Box<dyn CaseField + 'm>>>,
    mut random: StdRng,
) -> Result<(), Failure> {
    for round in 0..5 {
        bound.shuffle(&mut random);
        let mut pending = Vec::new();
        for exchange in &mut bound {
            exchange.fields_mut().prepare(round)?;
            pending.push(exchange.start(Schedule::DefaultStream)?);
        }
        pending.shuffle(&mut random);
        for exchange in pending {
            // Some are dropped, which finishes them as well.
            if random.random_bool(0.8) {
                exchange.finish(Schedule::Blocking)?;
            }
        }
        for exchange in &bound {
            exchange.fields().verify(round, true)?;
        }
    }
    Ok(())
}

/// An order of this rank's own for [`run_interleaved`].
pub(crate) fn order_of_rank(number: u64, rank: usize) -> StdRng {
    StdRng::seed_from_u64(number ^ (rank as u64) << 40)
}

/// Any element type of the suites.
pub(crate) fn random_element(random: &mut StdRng) -> ElementType {
    use ElementType::*;
    let elements =
        [I8, I16, I32, I64, I128, U8, U16, U32, U64, U128, F16, Bf16, F32, F64, Complex32, Complex64];
    elements[random.random_range(0..elements.len())]
}

struct Owned<'m, O, T, D: Device> {
    number: usize,
    oracle: &'m O,
    field: Field<T, D>,
}

struct Borrowed<'m, O, T, D> {
    number: usize,
    oracle: &'m O,
    field: BorrowedField<'m, T, D>,
    layouts: Vec<BlockLayout>,
}

haloport_core::field_set!(impl['m, O, T: Element, D: Device] for Owned<'m, O, T, D> { field });
haloport_core::field_set!(impl['m, O, T: Element, D: Device] for Borrowed<'m, O, T, D> { field });

impl<O: Oracle, T: Element, D: Device> CaseField for Owned<'_, O, T, D> {
    fn prepare(&mut self, round: u64) -> Result<(), Failure> {
        for domain in 0..self.field.domains() {
            let image = image(self.oracle, self.number, round, domain, self.field.layout(domain)?, false);
            self.field.copy_from(domain, &image)?;
        }
        Ok(())
    }

    fn verify(&self, round: u64, after: bool) -> Result<(), Failure> {
        for domain in 0..self.field.domains() {
            let layout = self.field.layout(domain)?;
            let expected = image::<T>(self.oracle, self.number, round, domain, layout, after);
            compare(&self.field.to_vec(domain)?, &expected, self.number, domain, layout)?;
        }
        Ok(())
    }
}

impl<O: Oracle, T: Element, D: Device> CaseField for Borrowed<'_, O, T, D> {
    fn prepare(&mut self, round: u64) -> Result<(), Failure> {
        let seed = self.oracle.seed(self.number, round);
        for (domain, layout) in self.layouts.iter().enumerate() {
            self.field.view_mut(domain)?.fill_with(|cell, component| {
                let name = self.oracle.name(domain, layout, cell, false);
                name.map_or_else(untouched, |name| value(seed, &name, component))
            });
        }
        Ok(())
    }

    fn verify(&self, round: u64, after: bool) -> Result<(), Failure> {
        for (domain, layout) in self.layouts.iter().enumerate() {
            let view = self.field.view(domain)?;
            let expected = image::<T>(self.oracle, self.number, round, domain, layout, after);
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

/// What the global array holds.
fn value<T: Element>(seed: u64, name: &[i64], component: usize) -> T {
    // Apart from the indices, so that no other cell has the same number in another component.
    let mut hash = seed ^ (component as u64) << 24 ^ 0x5851_F42D_4C95_7F2D;
    for &index in name {
        hash = (hash ^ index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 29;
    }
    let bytes = u128::from(hash) << 64 | u128::from(hash.wrapping_mul(0xD6E8_FEB8_6659_FD93));
    bytemuck::pod_read_unaligned(&bytes.to_ne_bytes()[..size_of::<T>()])
}

/// Minus a value, as the arithmetic of its type has it. Unsigned ones stay what they are.
fn negated<T: Element>(value: T) -> T {
    macro_rules! minus {
        ($number:ty, $minus:expr) => {{
            let minus: fn($number) -> $number = $minus;
            let minus = minus(bytemuck::pod_read_unaligned(bytemuck::bytes_of(&value)));
            bytemuck::pod_read_unaligned(bytemuck::bytes_of(&minus))
        }};
    }
    match T::TYPE {
        ElementType::I8 => minus!(i8, |value| 0i8.wrapping_sub(value)),
        ElementType::I16 => minus!(i16, |value| 0i16.wrapping_sub(value)),
        ElementType::I32 => minus!(i32, |value| 0i32.wrapping_sub(value)),
        ElementType::I64 => minus!(i64, |value| 0i64.wrapping_sub(value)),
        ElementType::I128 => minus!(i128, |value| 0i128.wrapping_sub(value)),
        ElementType::F16 => minus!(half::f16, |value| -value),
        ElementType::Bf16 => minus!(half::bf16, |value| -value),
        ElementType::F32 => minus!(f32, |value| -value),
        ElementType::F64 => minus!(f64, |value| -value),
        ElementType::Complex32 => minus!(Complex<f32>, |value| -value),
        ElementType::Complex64 => minus!(Complex<f64>, |value| -value),
        _ => value,
    }
}

/// The memory of a block before an exchange, or after it.
fn image<T: Element>(
    oracle: &impl Oracle,
    field: usize,
    round: u64,
    domain: usize,
    layout: &BlockLayout,
    after: bool,
) -> Vec<T> {
    let mut image = vec![untouched::<T>(); layout.span().1 as usize];
    let seed = oracle.seed(field, round);
    for_each_cell(&layout.allocated(), |cell| {
        let Some(name) = oracle.name(domain, layout, cell, after) else { return };
        for component in 0..layout.components() {
            if let Some(offset) = layout.offset(cell, component) {
                let (from, negative) = oracle.component(field, cell, component);
                let value = value(seed, &name, from);
                image[offset as usize] = if negative { negated(value) } else { value };
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
use for_type;

/// A kind of memory: mostly that which the host cannot read.
pub(crate) fn random_memory(random: &mut StdRng) -> MemoryKind {
    [MemoryKind::Device, MemoryKind::Device, MemoryKind::Shared][random.random_range(0..3)]
}

/// What a case says about how its exchange is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ways {
    path: DataPath,
    order: HaloOrder,
    trial: Option<Trial>,
}

impl Ways {
    /// Half of the cases leave each of the two to the library, and some have it try them out.
    pub(crate) fn random(random: &mut StdRng) -> Ways {
        let path = match random.random_range(0..6) {
            0 => DataPath::Direct,
            1 => DataPath::Shared,
            2 => DataPath::Messages,
            _ => DataPath::Quickest,
        };
        let order = match random.random_range(0..4) {
            0 => HaloOrder::AllNeighbours,
            1 => HaloOrder::AxisByAxis,
            _ => HaloOrder::Quickest,
        };
        let trial = Trial { time: Duration::from_millis(3), rounds: 2 };
        Ways { path, order, trial: random.random_bool(0.15).then_some(trial) }
    }

    /// Most go in messages, and axis by axis where `by_axes` says so.
    pub(crate) fn in_messages(random: &mut StdRng, by_axes: bool) -> Ways {
        let any = Ways::random(random);
        let path = if random.random_bool(0.8) { DataPath::Messages } else { any.path };
        Ways { path, order: if by_axes { HaloOrder::AxisByAxis } else { any.order }, ..any }
    }

    /// Collective: binds fields, and sees that this changes nothing in memory.
    pub(crate) fn bind<'m>(
        &self,
        pattern: &Pattern,
        mut fields: Vec<Box<dyn CaseField + 'm>>,
    ) -> Result<Exchange<Vec<Box<dyn CaseField + 'm>>>, Failure> {
        for field in &mut fields {
            field.prepare(0)?;
        }
        let exchange = pattern.bind_with(fields, self.options())?;
        for field in exchange.fields() {
            field.verify(0, false).map_err(|error| format!("after bind, {error}"))?;
        }
        Ok(exchange)
    }

    /// The options with which to bind.
    pub(crate) fn options(&self) -> BindOptions {
        let options = BindOptions::default().path(self.path).order(self.order);
        self.trial.into_iter().fold(options, BindOptions::trial)
    }
}
