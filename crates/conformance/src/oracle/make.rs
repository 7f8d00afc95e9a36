//! Makes the fields of a case: owned, borrowed, or in memory named by its address.

use haloport_core::device::{Buffer, Device, MemoryKind, Pointer};
use haloport_core::{AnyField, BlockLayout, BorrowedField, Element, ElementType, Pattern, SourceTarget};
use rand::RngExt;
use rand::rngs::StdRng;

use super::element_types::for_type;
use super::fields::{Borrowed, CaseField, Moved, Owned, Paired, PlacedField};
use super::truth::{Described, Oracle};
use super::values::UNTOUCHED;
use crate::Failure;

/// Describes a field of a case.
pub(crate) trait FieldMaker {
    fn element(&self) -> ElementType;
    /// The same with elements of another type.
    #[must_use]
    fn with_element(&self, element: ElementType) -> Self;
    /// The ranks on which its memory is lent.
    fn lenders(&self) -> Lenders;
    /// The kind of memory, on devices that have several.
    fn memory(&self) -> MemoryKind;
    /// The axes along which its components point; none for scalars.
    fn vector(&self) -> &[usize] {
        &[]
    }
    fn build<D: Device>(
        &self,
        device: &D,
        pattern: &Pattern,
        memory: MemoryKind,
    ) -> Result<AnyField<D>, Failure>;
}

/// The ranks on which the memory of a field is lent: none, all or some of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lenders(u64);

impl Lenders {
    /// No rank.
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

/// The memory that a borrowed field borrows: one list for each domain.
pub(super) type Memory = Vec<Vec<u128>>;

/// Makes one field; if it is borrowed, it borrows `memory`.
pub(super) fn make_field<'m, D: Device>(
    device: &D,
    pattern: &Pattern,
    oracle: &'m dyn Oracle,
    maker: &impl FieldMaker,
    number: usize,
    memory: &'m mut Memory,
) -> Result<Box<dyn CaseField + 'm>, Failure> {
    if !maker.lenders().contain(pattern.comm().rank()) {
        return Ok(Box::new(make_owned(device, pattern, oracle, maker, number)?));
    }
    let element = maker.element();
    let described = Described { oracle, number, element };
    // An owned field of the same shape makes the layouts.
    let model = maker.build(device, pattern, MemoryKind::Device)?;
    let layouts = (0..model.domain_count()).map(|domain| model.layout(domain).cloned());
    let layouts = layouts.collect::<Result<Vec<_>, _>>()?;
    if !device.info().runs_on_host() || matches!(element, ElementType::Bytes(_)) {
        let field = field_at_addresses(device, element, layouts, memory_of(device, maker))?;
        return Ok(Box::new(Owned { described, field: field.with_vector(maker.vector())? }));
    }
    for_type!(element, T => make_lent::<T, D>(device, layouts, described, maker.vector(), memory))
}

/// Makes one field that borrows `memory`.
fn make_lent<'m, T: Element, D: Device>(
    device: &D,
    layouts: Vec<BlockLayout>,
    described: Described<'m>,
    vector: &[usize],
    memory: &'m mut Memory,
) -> Result<Box<dyn CaseField + 'm>, Failure> {
    let blocks = lend::<T>(&layouts, memory);
    let field = BorrowedField::new(device, blocks)?.with_vector(vector)?;
    Ok(Box::new(Borrowed { described, field, layouts }))
}

/// Makes the memory of blocks, and lends it.
fn lend<'m, T: Element>(layouts: &[BlockLayout], memory: &'m mut Memory) -> Vec<(&'m mut [T], BlockLayout)> {
    let untouched = u128::from_ne_bytes([UNTOUCHED; 16]);
    let words = |layout: &BlockLayout| (layout.span().1 as usize * size_of::<T>()).div_ceil(16);
    *memory = layouts.iter().map(|layout| vec![untouched; words(layout)]).collect();
    let slices = memory.iter_mut().map(|memory| bytemuck::cast_slice_mut::<u128, T>(memory));
    slices.zip(layouts.iter().cloned()).collect()
}

/// Makes one field that owns its memory.
pub(super) fn make_owned<'m, D: Device>(
    device: &D,
    pattern: &Pattern,
    oracle: &'m dyn Oracle,
    maker: &impl FieldMaker,
    number: usize,
) -> Result<Owned<'m, D>, Failure> {
    let memory = memory_of(device, maker);
    let described = Described { oracle, number, element: maker.element() };
    let field = maker.build(device, pattern, memory)?;
    // On hosts, which have one kind of memory, the other kind is that of the program.
    let is_program = device.info().runs_on_host() && maker.memory() != MemoryKind::Device;
    Ok(Owned {
        described,
        field: if is_program {
            in_program_memory(device, field)?.with_vector(maker.vector())?
        } else {
            field
        },
    })
}

/// A field like `model`, in memory of the program whose pages may be moved.
fn in_program_memory<D: Device>(device: &D, model: AnyField<D>) -> Result<AnyField<D>, Failure> {
    let (mut blocks, mut owners) = (Vec::new(), Vec::new());
    for domain in 0..model.domain_count() {
        let layout = model.layout(domain)?.clone();
        let mut memory = vec![0u128; (layout.span().1 as usize * model.element().bytes()).div_ceil(16)];
        blocks.push((Pointer::new(memory.as_mut_ptr().cast()), layout));
        owners.push(memory);
    }
    // SAFETY: each block is zeroed memory of its own, aligned for every element and as long as its layout, which has no negative
    // strides; the field alone owns and uses it.
    Ok(unsafe { AnyField::from_raw_movable(device, model.element(), blocks, true, Box::new(owners)) })
}

/// Makes a field that owns its memory and, in some cases, another one from which its cells are read.
pub(crate) fn make_placed<'m, D: Device>(
    device: &D,
    pattern: &Pattern,
    oracle: &'m dyn Oracle,
    maker: &impl FieldMaker,
    number: usize,
    paired: bool,
) -> Result<Box<dyn PlacedField + 'm>, Failure> {
    let Owned { described, field } = make_owned(device, pattern, oracle, maker, number)?;
    if !paired {
        return Ok(Box::new(Owned { described, field }));
    }
    let target = make_owned(device, pattern, oracle, maker, number)?.field;
    Ok(Box::new(Paired { described, fields: SourceTarget { source: field, target } }))
}

/// Makes a field of one pattern whose cells are read, and a field of another pattern that they fill.
pub(crate) fn make_moved<'m, D: Device>(
    device: &D,
    (from, to): (&Pattern, &Pattern),
    (source, target): (&'m dyn Oracle, &'m dyn Oracle),
    makers: (&impl FieldMaker, &impl FieldMaker),
    number: usize,
) -> Result<Box<dyn PlacedField + 'm>, Failure> {
    let Owned { described: source, field } = make_owned(device, from, source, makers.0, number)?;
    let Owned { described: target, field: filled } = make_owned(device, to, target, makers.1, number)?;
    Ok(Box::new(Moved { source, target, fields: SourceTarget { source: field, target: filled } }))
}

/// Makes a field in memory that was allocated on the device beforehand, by address.
fn field_at_addresses<D: Device>(
    device: &D,
    element: ElementType,
    layouts: Vec<BlockLayout>,
    kind: MemoryKind,
) -> Result<AnyField<D>, Failure> {
    let bytes = |layout: &BlockLayout| layout.span().1 as usize * element.bytes();
    let buffers =
        layouts.iter().map(|layout| device.allocate(bytes(layout), kind)).collect::<Result<Vec<_>, _>>()?;
    let host_accessible = buffers.iter().all(Buffer::host_accessible);
    let blocks = buffers.iter().map(Buffer::pointer).zip(layouts).collect();
    // SAFETY: each block is a zeroed buffer of its own, as long as its layout, which has no negative strides, and the field
    // alone owns it.
    Ok(unsafe { AnyField::from_raw(device, element, blocks, host_accessible, Box::new(buffers)) })
}

/// The kind of memory of a field: that of the case if the device has it, and otherwise the device's own.
fn memory_of<D: Device>(device: &D, maker: &impl FieldMaker) -> MemoryKind {
    let wanted = maker.memory();
    if device.allocate(1, wanted).is_ok() { wanted } else { MemoryKind::Device }
}

/// A random element type of the suites.
pub(crate) fn random_element(random: &mut StdRng) -> ElementType {
    use ElementType::*;
    if random.random_bool(0.15) {
        let sizes = [1, 3, 6, 12, 20, 24, 40, 72];
        return ElementType::record(sizes[random.random_range(0..sizes.len())]).unwrap_or(U8);
    }
    let elements =
        [I8, I16, I32, I64, I128, U8, U16, U32, U64, U128, F16, Bf16, F32, F64, Complex32, Complex64];
    elements[random.random_range(0..elements.len())]
}

/// A random kind of memory, mostly one that the host cannot read.
pub(crate) fn random_memory(random: &mut StdRng) -> MemoryKind {
    [MemoryKind::Device, MemoryKind::Device, MemoryKind::Shared][random.random_range(0..3)]
}
