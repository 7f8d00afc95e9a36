//! The layouts of fields without their memory, for plans.

use std::ptr;
use std::sync::Arc;

use super::fields::{PartDevice, PartFields};
use super::passed::{ExpectedField, PassedFields};
use crate::device::{Device, DeviceId, Pointer};
use crate::element::ElementType;
use crate::field::{BlockLayout, BoundField, FieldError, FieldRef, VectorAxes};

/// The device, the element type and the layouts of a field, without its memory: what
/// [`Pattern::plan_layouts`](crate::Pattern::plan_layouts) needs to know of it.
#[derive(Debug, Clone)]
pub struct FieldLayout {
    device: Arc<dyn PartDevice>,
    element: ElementType,
    vector: VectorAxes,
    blocks: Vec<BlockLayout>,
}

impl FieldLayout {
    /// The layout of a field on `device`, with one block for each domain of the rank.
    /// [`FieldBuilder::layouts`](crate::FieldBuilder::layouts) returns those of a new field,
    /// [`BlockLayout::of_array`] that of an array.
    pub fn new<D: Device>(device: &D, element: ElementType, blocks: Vec<BlockLayout>) -> FieldLayout {
        FieldLayout { device: Arc::new(device.clone()), element, vector: VectorAxes::default(), blocks }
    }

    /// Declares vector components, as [`Field::with_vector`](crate::Field::with_vector) does.
    ///
    /// # Errors
    /// As there.
    pub fn with_vector(mut self, axes: impl AsRef<[usize]>) -> Result<FieldLayout, FieldError> {
        self.vector = VectorAxes::new(axes.as_ref(), self.element, self.blocks.iter())?;
        Ok(self)
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
            let FieldLayout { device, element, vector, blocks } = field.clone();
            set.push(device, element, element.alignment(), vector, blocks);
        }
        set
    }

    /// Adds the layout of a field.
    pub(crate) fn add<D: Device>(&mut self, device: &D, field: &FieldRef<'_>) {
        let blocks = field.blocks.iter().map(|(_, layout)| layout.clone()).collect();
        let device: Arc<dyn PartDevice> = Arc::new(device.clone());
        self.push(device, field.element, field.alignment, field.vector.clone(), blocks);
    }

    /// What fields must be like when the plan is started.
    pub(crate) fn expected(self) -> (Vec<PartFields>, PassedFields) {
        (self.parts, PassedFields::new(self.expected))
    }

    fn push(
        &mut self,
        device: Arc<dyn PartDevice>,
        element: ElementType,
        alignment: usize,
        vector: VectorAxes,
        layouts: Vec<BlockLayout>,
    ) {
        let (number, anchor) = (self.expected.len(), Some(self.blocks));
        self.blocks += layouts.len() as u32;
        let id = device.info().id;
        // Addresses count from the begin of each block.
        let blocks = layouts.iter().map(|layout| (Pointer::new(ptr::null_mut()), layout.clone())).collect();
        let bound = BoundField { element, alignment, vector: vector.clone(), storage: None, anchor, blocks };
        PartFields::add(&mut self.parts, device, number, bound);
        self.expected.push(ExpectedField { device: id, element, alignment, vector, layouts });
    }
}
