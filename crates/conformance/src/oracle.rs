//! Fields of any element type against an oracle that knows what every element in memory must be.

mod element_types;
mod fields;
mod values;
mod ways;

use haloport_core::device::{Buffer, Device, MemoryKind, Priority};
use haloport_core::{
    BlockLayout, BorrowedField, Element, ElementType, Exchange, Field, FieldSet, Pattern, Plan, Schedule,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::Failure;
use element_types::for_type;
use fields::{Borrowed, Owned};
use values::UNTOUCHED;
pub(crate) use ways::Ways;

/// The index of a cell in the global array, or its number and its further indices; 0 along axes that there are not. No more
/// axes are to be had.
pub(crate) type Name = [i64; 4];

/// What names a cell of this index.
pub(crate) fn name_of(index: &[i64]) -> Name {
    std::array::from_fn(|axis| index.get(axis).copied().unwrap_or(0))
}

/// Knows what this rank's memory holds.
pub(crate) trait Oracle {
    /// What names the value of `cell` of `domain` in the global array, before an exchange or after it; `None` for a cell
    /// that nothing was put in.
    fn name(&self, domain: usize, layout: &BlockLayout, cell: &[i64], after: bool) -> Option<Name>;
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

/// A field of a case, and who knows what is in it.
#[derive(Clone, Copy)]
pub(crate) struct Described<'m> {
    oracle: &'m dyn Oracle,
    /// Its number in the case.
    number: usize,
    element: ElementType,
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
pub(crate) fn make_field<'m, D: Device>(
    device: &D,
    pattern: &Pattern,
    oracle: &'m dyn Oracle,
    maker: &impl FieldMaker,
    number: usize,
    memory: &'m mut Memory,
) -> Result<Box<dyn CaseField + 'm>, Failure> {
    if !maker.lenders().contain(pattern.comm().rank()) {
        return make_owned(device, pattern, oracle, maker, number);
    }
    let described = Described { oracle, number, element: maker.element() };
    let kind = memory_of(device, maker);
    for_type!(maker.element(), T => {
        // An owned field of the same kind has made the layouts.
        let model = maker.build::<T, D>(device, pattern, MemoryKind::Device)?;
        make_lent(model, described, maker.vector(), kind, memory)
    })
}

/// Makes one field in memory that is somebody else's, with the layouts of `model`; `memory` is what a borrowed one borrows.
fn make_lent<'m, T: Element, D: Device>(
    model: Field<T, D>,
    described: Described<'m>,
    vector: &[usize],
    kind: MemoryKind,
    memory: &'m mut Memory,
) -> Result<Box<dyn CaseField + 'm>, Failure> {
    let device = model.device();
    let layouts = (0..model.domain_count()).map(|domain| model.layout(domain).cloned());
    let layouts = layouts.collect::<Result<Vec<_>, _>>()?;
    if !device.info().runs_on_host() {
        let field = field_at_addresses::<T, D>(device, layouts, kind)?;
        return Ok(Box::new(Owned { described, field: field.with_vector(vector)? }));
    }
    let untouched = u128::from_ne_bytes([UNTOUCHED; 16]);
    let words = |layout: &BlockLayout| (layout.span().1 as usize * size_of::<T>()).div_ceil(16);
    *memory = layouts.iter().map(|layout| vec![untouched; words(layout)]).collect();
    let blocks = memory
        .iter_mut()
        .zip(&layouts)
        .map(|(memory, layout)| (bytemuck::cast_slice_mut::<u128, T>(memory), layout.clone()));
    let field = BorrowedField::new(device, blocks)?.with_vector(vector)?;
    Ok(Box::new(Borrowed { described, field, layouts }))
}

/// Makes one field that owns its memory.
pub(crate) fn make_owned<'m, D: Device>(
    device: &D,
    pattern: &Pattern,
    oracle: &'m dyn Oracle,
    maker: &impl FieldMaker,
    number: usize,
) -> Result<Box<dyn CaseField + 'm>, Failure> {
    let memory = memory_of(device, maker);
    let described = Described { oracle, number, element: maker.element() };
    for_type!(maker.element(), T => {
        Ok(Box::new(Owned { described, field: maker.build::<T, D>(device, pattern, memory)? }))
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
        match (number + round) % 4 {
            0 => exchange.run(schedules[0])?,
            1 => exchange.start(schedules[1])?.finish(schedules[0])?,
            2 => exchange.start(schedules[0])?.finish(schedules[2])?,
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

/// A set of fields of a case, all of one kind.
pub(crate) type FieldSetOf<'m> = Vec<Box<dyn CaseField + 'm>>;

/// Runs rounds of one plan, to which this rank passes one of two sets of fields, in an order of its own. The set that is not
/// passed stays as it is.
pub(crate) fn run_passed<D: Device>(
    device: &D,
    mut plan: Plan,
    mut sets: [FieldSetOf<'_>; 2],
    number: u64,
    rounds: u64,
) -> Result<(), Failure> {
    let mut random = order_of_rank(number, plan.pattern().comm().rank());
    for round in 0..rounds + 2 {
        let passed = random.random_range(0..2);
        for field in sets.iter_mut().flatten() {
            field.prepare(round)?;
        }
        match (number + round) % 3 {
            0 => plan.run(&mut sets[passed], Schedule::Blocking)?,
            1 => plan.start(&mut sets[passed], Schedule::DefaultStream)?.finish(Schedule::DefaultStream)?,
            _ => {
                let pending = plan.start(&mut sets[passed], Schedule::Blocking)?;
                while !pending.is_ready() {
                    std::thread::yield_now();
                }
                pending.finish(Schedule::DefaultStream)?;
            }
        }
        device.synchronize(&device.default_stream())?;
        for (set, fields) in sets.iter().enumerate() {
            for field in fields {
                field
                    .verify(round, set == passed)
                    .map_err(|error| format!("of a plan, round {round}: {error}"))?;
            }
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

/// A kind of memory: mostly that which the host cannot read.
pub(crate) fn random_memory(random: &mut StdRng) -> MemoryKind {
    [MemoryKind::Device, MemoryKind::Device, MemoryKind::Shared][random.random_range(0..3)]
}
