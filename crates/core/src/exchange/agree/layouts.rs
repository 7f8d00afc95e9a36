//! The layouts of fields without their memory, for plans.

use std::ptr;
use std::sync::Arc;

use super::passed::{ExpectedField, PassedFields};
use crate::device::{Device, DeviceId, Pointer};
use crate::element::ElementType;
use crate::exchange::ways::fields::{PartDevice, PartFields};
use crate::field::{BlockLayout, BoundField, FieldError, FieldRef, SourceField, VectorAxes};

/// The device, the element type and the layouts of a field, without its memory: what
/// [`Pattern::plan_layouts`](crate::Pattern::plan_layouts) needs to know of it.
#[derive(Debug, Clone)]
pub struct FieldLayout {
    device: Arc<dyn PartDevice>,
    element: ElementType,
    vector: VectorAxes,
    blocks: Vec<BlockLayout>,
    source: Option<Box<FieldLayout>>,
}

impl FieldLayout {
    /// The layout of a field on `device`, with one block for each domain of the rank.
    /// [`FieldBuilder::layouts`](crate::FieldBuilder::layouts) returns those of a new field,
    /// [`BlockLayout::of_array`] that of an array.
    pub fn new<D: Device>(device: &D, element: ElementType, blocks: Vec<BlockLayout>) -> FieldLayout {
        let (device, vector) = (Arc::new(device.clone()), VectorAxes::default());
        FieldLayout { device, element, vector, blocks, source: None }
    }

    /// Declares vector components, as [`Field::with_vector`](crate::Field::with_vector) does.
    ///
    /// # Errors
    /// As there.
    pub fn with_vector(mut self, axes: impl AsRef<[usize]>) -> Result<FieldLayout, FieldError> {
        self.vector = VectorAxes::new(axes.as_ref(), self.element, &mut self.blocks.iter())?;
        Ok(self)
    }

    /// Lets cells be read from another field, which has this layout; they arrive in the halo of this one. Both have the
    /// same device and element type. At each start of a plan, the source is passed before its target: as
    /// [`SourceTarget`](crate::SourceTarget), or as addresses.
    #[must_use]
    pub fn with_source(mut self, source: FieldLayout) -> FieldLayout {
        self.source = Some(Box::new(source));
        self
    }

    /// The device.
    pub fn device(&self) -> DeviceId {
        self.device.info().id
    }

    /// The element type.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// The layout of each domain.
    pub fn blocks(&self) -> &[BlockLayout] {
        &self.blocks
    }
}

/// The layouts of the fields of a plan.
#[derive(Default)]
pub(crate) struct LayoutSet {
    /// The fields by device. Each copy is anchored to blocks, which are numbered across all fields.
    pub(crate) parts: Vec<PartFields>,
    expected: Vec<ExpectedField>,
    blocks: u32,
}

impl LayoutSet {
    pub(crate) fn of(fields: &[FieldLayout]) -> LayoutSet {
        let mut set = LayoutSet::default();
        for field in fields {
            let source = field.source.as_ref().map(|source| (source, set.expect(source.expected())));
            let mut bound = set.expect(field.expected());
            if let Some((source, from)) = source {
                let nested = source.source.is_some().then(|| "has a source with a source of its own".into());
                let misfit = field.untyped().misfit_of(&source.untyped(), field.device() == source.device());
                let misfit = nested.or(misfit);
                bound = joined(from, bound, misfit);
            }
            PartFields::add(&mut set.parts, Arc::clone(&field.device), set.expected.len() - 1, bound);
        }
        set
    }

    /// Adds the layout of a field.
    pub(crate) fn add<D: Device>(&mut self, device: &D, field: &FieldRef<'_>) {
        let bound = self.expect(expected(device.id(), field));
        PartFields::add(&mut self.parts, Arc::new(device.clone()), self.expected.len() - 1, bound);
    }

    /// Adds the layouts of a field and of the field from which its cells are read.
    pub(crate) fn add_pair<D: Device>(
        &mut self,
        device: &D,
        source: (DeviceId, &FieldRef<'_>),
        target: &FieldRef<'_>,
    ) {
        let misfit = target.misfit_of(source.1, device.id() == source.0);
        let from = self.expect(expected(source.0, source.1));
        let to = self.expect(expected(device.id(), target));
        let number = self.expected.len() - 1;
        PartFields::add(&mut self.parts, Arc::new(device.clone()), number, joined(from, to, misfit));
    }

    /// What fields must be like when the plan is started.
    pub(crate) fn expected(self) -> (Vec<PartFields>, PassedFields) {
        (self.parts, PassedFields::new(self.expected))
    }

    /// Expects a field at each start, and returns it with blocks of its own, whose addresses count from their begins.
    fn expect(&mut self, field: ExpectedField) -> BoundField {
        let ExpectedField { element, alignment, vector, layouts, .. } = &field;
        let blocks = layouts.iter().map(|layout| (Pointer::new(ptr::null_mut()), layout.clone())).collect();
        let bound = BoundField {
            element: *element,
            alignment: *alignment,
            vector: vector.clone(),
            storage: None,
            anchor: Some(self.blocks),
            blocks,
            source: None,
        };
        self.blocks += layouts.len() as u32;
        self.expected.push(field);
        bound
    }
}

impl FieldLayout {
    /// The field, without blocks.
    fn untyped(&self) -> FieldRef<'_> {
        let (element, vector) = (self.element, &self.vector);
        FieldRef { element, alignment: element.alignment(), vector, storage: None, blocks: &[] }
    }

    fn expected(&self) -> ExpectedField {
        ExpectedField {
            device: self.device(),
            element: self.element,
            alignment: self.element.alignment(),
            vector: self.vector.clone(),
            layouts: self.blocks.clone(),
        }
    }
}

fn expected(device: DeviceId, field: &FieldRef<'_>) -> ExpectedField {
    ExpectedField {
        device,
        element: field.element,
        alignment: field.alignment,
        vector: field.vector.clone(),
        layouts: field.blocks.iter().map(|(_, layout)| layout.clone()).collect(),
    }
}

/// `target`, with cells that are read from `source`.
fn joined(source: BoundField, target: BoundField, misfit: Option<String>) -> BoundField {
    let BoundField { anchor, blocks, .. } = source;
    let source = SourceField { anchor, blocks, storages: Vec::new(), misfit };
    BoundField { source: Some(source), ..target }
}
