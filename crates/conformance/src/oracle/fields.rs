//! Fields of a case, of any element type, which fill and verify themselves: in their own memory or in memory that is lent.

use haloport_core::device::{Device, Pointer};
use haloport_core::{
    AnyField, BlockLayout, BorrowedField, Element, FieldError, FieldLayout, FieldSet, SourceTarget, View,
    ViewMut,
};

use super::truth::{Described, Filled};
use super::values::{UNTOUCHED, compare, for_each_cell, image, value};
use crate::Failure;

/// A field of a case, of any element type.
pub(crate) trait CaseField: FieldSet {
    /// Fills owned cells with the values of the round and everything else with [`UNTOUCHED`].
    fn prepare(&mut self, round: u64) -> Result<(), Failure>;
    /// Compares every element in memory with what it must be, before the exchange of a round or after it.
    fn verify(&self, round: u64, after: bool) -> Result<(), Failure>;
}

/// The fields of a case on one rank.
pub(crate) type CaseFields<'m> = Vec<Box<dyn CaseField + 'm>>;

/// The fields of a case on one rank, for a plan to which addresses are passed.
pub(crate) type PlacedFields<'m> = Vec<Box<dyn PlacedField + 'm>>;

pub(super) struct Owned<'m, D: Device> {
    pub(super) described: Described<'m>,
    pub(super) field: AnyField<D>,
}

/// A field of a case whose memory is passed to a plan by its addresses.
pub(crate) trait PlacedField: CaseField {
    fn field_layout(&self, vector: &[usize]) -> Result<FieldLayout, FieldError>;
    /// The address of each block.
    fn addresses(&self) -> Result<Vec<Pointer>, FieldError>;
}

pub(super) struct Borrowed<'m, T: Element, D> {
    pub(super) described: Described<'m>,
    pub(super) field: BorrowedField<'m, T, D>,
    pub(super) layouts: Vec<BlockLayout>,
}

/// A field whose cells are read and another one that they arrive in, and what the latter holds.
pub(super) struct Paired<'m, D: Device> {
    pub(super) described: Described<'m>,
    pub(super) fields: SourceTarget<AnyField<D>, AnyField<D>>,
}

/// A field of one pattern whose cells are read, and a field of another pattern that they fill.
pub(super) struct Moved<'m, D: Device> {
    pub(super) source: Described<'m>,
    pub(super) target: Described<'m>,
    pub(super) fields: SourceTarget<AnyField<D>, AnyField<D>>,
}

haloport_core::field_set!(impl['m, D: Device] for Moved<'m, D> { fields });
haloport_core::field_set!(impl['m, D: Device] for Owned<'m, D> { field });
haloport_core::field_set!(impl['m, D: Device] for Paired<'m, D> { fields });
haloport_core::field_set!(impl['m, T: Element, D: Device] for Borrowed<'m, T, D> { field });

impl<D: Device> PlacedField for Owned<'_, D> {
    fn field_layout(&self, vector: &[usize]) -> Result<FieldLayout, FieldError> {
        field_layout(&self.field)?.with_vector(vector)
    }

    fn addresses(&self) -> Result<Vec<Pointer>, FieldError> {
        addresses(&self.field)
    }
}

impl<D: Device> PlacedField for Paired<'_, D> {
    fn field_layout(&self, vector: &[usize]) -> Result<FieldLayout, FieldError> {
        pair_layout(&self.fields, vector)
    }

    fn addresses(&self) -> Result<Vec<Pointer>, FieldError> {
        pair_addresses(&self.fields)
    }
}

impl<D: Device> PlacedField for Moved<'_, D> {
    fn field_layout(&self, vector: &[usize]) -> Result<FieldLayout, FieldError> {
        pair_layout(&self.fields, vector)
    }

    fn addresses(&self) -> Result<Vec<Pointer>, FieldError> {
        pair_addresses(&self.fields)
    }
}

impl<D: Device> CaseField for Moved<'_, D> {
    fn prepare(&mut self, round: u64) -> Result<(), Failure> {
        prepare(&mut self.fields.source, &self.source, round)?;
        prepare(&mut self.fields.target, &self.target, round)
    }

    fn verify(&self, round: u64, after: bool) -> Result<(), Failure> {
        verify(&self.fields.source, &self.source, round, false)
            .map_err(|error| format!("of a source: {error}"))?;
        verify(&self.fields.target, &self.target, round, after)
            .map_err(|error| format!("of a target: {error}").into())
    }
}

impl<D: Device> CaseField for Owned<'_, D> {
    fn prepare(&mut self, round: u64) -> Result<(), Failure> {
        prepare(&mut self.field, &self.described, round)
    }

    fn verify(&self, round: u64, after: bool) -> Result<(), Failure> {
        verify(&self.field, &self.described, round, after)
    }
}

impl<D: Device> CaseField for Paired<'_, D> {
    fn prepare(&mut self, round: u64) -> Result<(), Failure> {
        prepare(&mut self.fields.source, &self.described, round)?;
        let filled = Filled(self.described.oracle);
        prepare(&mut self.fields.target, &Described { oracle: &filled, ..self.described }, round)
    }

    fn verify(&self, round: u64, after: bool) -> Result<(), Failure> {
        verify(&self.fields.source, &self.described, round, false)
            .map_err(|error| format!("of a source: {error}"))?;
        let filled = Filled(self.described.oracle);
        verify(&self.fields.target, &Described { oracle: &filled, ..self.described }, round, after)
            .map_err(|error| format!("of a target: {error}").into())
    }
}

fn field_layout<D: Device>(field: &AnyField<D>) -> Result<FieldLayout, FieldError> {
    let domains = 0..field.domain_count();
    let layouts = domains.map(|domain| field.layout(domain).cloned()).collect::<Result<_, _>>()?;
    Ok(FieldLayout::new(field.device(), field.element(), layouts))
}

fn pair_layout<D: Device>(
    SourceTarget { source, target }: &SourceTarget<AnyField<D>, AnyField<D>>,
    vector: &[usize],
) -> Result<FieldLayout, FieldError> {
    let source = field_layout(source)?.with_vector(vector)?;
    Ok(field_layout(target)?.with_vector(vector)?.with_source(source))
}

fn pair_addresses<D: Device>(
    SourceTarget { source, target }: &SourceTarget<AnyField<D>, AnyField<D>>,
) -> Result<Vec<Pointer>, FieldError> {
    Ok([addresses(source)?, addresses(target)?].concat())
}

fn addresses<D: Device>(field: &AnyField<D>) -> Result<Vec<Pointer>, FieldError> {
    (0..field.domain_count()).map(|domain| field.pointer(domain)).collect()
}

fn prepare<D: Device>(field: &mut AnyField<D>, described: &Described<'_>, round: u64) -> Result<(), Failure> {
    for domain in 0..field.domain_count() {
        let image = image(described, round, domain, field.layout(domain)?, false);
        field.copy_from_bytes(domain, &image)?;
    }
    Ok(())
}

fn verify<D: Device>(
    field: &AnyField<D>,
    described: &Described<'_>,
    round: u64,
    after: bool,
) -> Result<(), Failure> {
    for domain in 0..field.domain_count() {
        let layout = field.layout(domain)?;
        let expected = image(described, round, domain, layout, after);
        compare(described, &field.to_bytes(domain)?, &expected, domain, layout)?;
    }
    Ok(())
}

impl<T: Element, D: Device> CaseField for Borrowed<'_, T, D> {
    fn prepare(&mut self, round: u64) -> Result<(), Failure> {
        for (domain, layout) in self.layouts.iter().enumerate() {
            prepare_view(self.field.view_mut(domain)?, &self.described, round, domain, layout);
        }
        Ok(())
    }

    fn verify(&self, round: u64, after: bool) -> Result<(), Failure> {
        for (domain, layout) in self.layouts.iter().enumerate() {
            let expected = image(&self.described, round, domain, layout, after);
            let found = image_of_view(self.field.view(domain)?, layout, expected.len());
            compare(&self.described, &found, &expected, domain, layout)?;
        }
        Ok(())
    }
}

fn prepare_view<T: Element>(
    mut view: ViewMut<'_, T>,
    described: &Described<'_>,
    round: u64,
    domain: usize,
    layout: &BlockLayout,
) {
    let Described { oracle, number, .. } = *described;
    let seed = oracle.seed(number, round);
    view.fill_with(|cell, component| {
        let name = oracle.name(domain, layout, cell, false);
        let value = name.map_or([UNTOUCHED; 16], |name| value(seed, &name, component));
        bytemuck::pod_read_unaligned(&value[..size_of::<T>()])
    });
}

/// The memory of a block, of that many bytes, as its view shows it.
fn image_of_view<T: Element>(view: View<'_, T>, layout: &BlockLayout, bytes: usize) -> Vec<u8> {
    let size = size_of::<T>();
    let mut image = vec![UNTOUCHED; bytes];
    for_each_cell(&layout.allocated(), |cell| {
        for component in 0..layout.components() {
            if let (Some(offset), Some(value)) =
                (layout.offset(cell, component), view.component(cell, component))
            {
                image[offset as usize * size..][..size].copy_from_slice(bytemuck::bytes_of(&value));
            }
        }
    });
    image
}
