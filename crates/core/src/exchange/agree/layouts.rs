//! The layouts of the fields of a plan, without their memory; and fields that are passed to it at each start: they are compared
//! with those layouts, and their addresses collected. After the first start, that allocates nothing.

use std::ptr;
use std::sync::Arc;

use crate::device::{Device, DeviceId, Pointer};
use crate::element::ElementType;
use crate::exchange::options::ExchangeError;
use crate::exchange::ways::{PartDevice, PartFields, part_device};
use crate::field::{BlockLayout, BoundField, FieldError, FieldRef, SourceField, Storage, VectorAxes};

/// The device, the element type and the layouts of a field, without its memory: what
/// [`Pattern::plan_layouts`](crate::Pattern::plan_layouts) needs to know of it.
#[derive(Debug, Clone)]
pub struct FieldLayout {
    device: Arc<dyn PartDevice>,
    element: ElementType,
    vector: VectorAxes,
    blocks: Vec<BlockLayout>,
    source: Option<Box<FieldLayout>>,
    pattern: usize,
}

impl FieldLayout {
    /// The layout of a field on `device`, with one block for each domain of the rank.
    /// [`FieldBuilder::layouts`](crate::FieldBuilder::layouts) returns those of a new field,
    /// [`BlockLayout::of_array`] that of an array.
    pub fn new<D: Device>(device: &D, element: ElementType, blocks: Vec<BlockLayout>) -> FieldLayout {
        let (device, vector) = (part_device(device), VectorAxes::default());
        FieldLayout { device, element, vector, blocks, source: None, pattern: 0 }
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

    /// Says to which pattern of a [`PatternSet`](crate::PatternSet) the field belongs, by its number from 0, the default.
    #[must_use]
    pub fn of_pattern(mut self, number: usize) -> FieldLayout {
        self.pattern = number;
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
            bound.pattern = field.pattern;
            PartFields::add(&mut set.parts, Arc::clone(&field.device), set.expected.len() - 1, bound);
        }
        set
    }

    /// Adds the layouts of a field of the pattern with this number in a set.
    pub(crate) fn add<D: Device>(&mut self, device: &D, field: &FieldRef<'_>, pattern: usize) {
        let bound = BoundField { pattern, ..self.expect(expected(device.id(), field)) };
        PartFields::add(&mut self.parts, part_device(device), self.expected.len() - 1, bound);
    }

    /// Adds the layouts of a field and of the field from which its cells are read.
    pub(crate) fn add_pair<D: Device>(
        &mut self,
        device: &D,
        source: (DeviceId, &FieldRef<'_>),
        target: &FieldRef<'_>,
        pattern: usize,
    ) {
        let misfit = target.misfit_of(source.1, device.id() == source.0);
        let from = self.expect(expected(source.0, source.1));
        let to = self.expect(expected(device.id(), target));
        let number = self.expected.len() - 1;
        let bound = BoundField { pattern, ..joined(from, to, misfit) };
        PartFields::add(&mut self.parts, part_device(device), number, bound);
    }

    /// What fields must be like when the plan is started.
    pub(crate) fn expected(self) -> (Vec<PartFields>, PassedFields) {
        (self.parts, PassedFields::new(self.expected))
    }

    /// Expects a field at each start, and returns it with blocks of its own, whose addresses count from their beginnings.
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
            pattern: 0,
            first: 0,
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
    let BoundField { anchor, blocks, vector, .. } = source;
    let source = SourceField { anchor, blocks, storage: None, vector, misfit };
    BoundField { source: Some(source), ..target }
}

/// The properties that a plan expects of one of its fields.
#[derive(Debug)]
pub(crate) struct ExpectedField {
    pub(crate) device: DeviceId,
    pub(crate) element: ElementType,
    /// Of its elements, in bytes.
    pub(crate) alignment: usize,
    pub(crate) vector: VectorAxes,
    pub(crate) layouts: Vec<BlockLayout>,
}

/// The fields of one start.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassedFields {
    expected: Arc<[ExpectedField]>,
    /// A number for each field that differs from those of all other live fields.
    pub(crate) identities: Vec<usize>,
    /// The addresses of the blocks of all fields.
    pub(crate) addresses: Vec<Pointer>,
    /// The memory of the fields that own theirs.
    pub(crate) storages: Vec<Arc<Storage>>,
    misfit: Option<ExchangeError>,
}

impl ExpectedField {
    /// Returns the first property in which the field differs from the expected one, the value expected and the value
    /// found.
    fn difference(&self, device: DeviceId, field: &FieldRef<'_>) -> Option<(&'static str, String, String)> {
        if self.device != device {
            return Some(("device", self.device.to_string(), device.to_string()));
        }
        if self.element != field.element {
            return Some(("element type", self.element.to_string(), field.element.to_string()));
        }
        if self.vector != *field.vector {
            return Some(("vector components", self.vector.to_string(), field.vector.to_string()));
        }
        if self.layouts.len() != field.blocks.len() {
            return Some((
                "number of blocks",
                self.layouts.len().to_string(),
                field.blocks.len().to_string(),
            ));
        }
        let found = field.blocks.iter().map(|(_, layout)| layout);
        let (expected, found) = self.layouts.iter().zip(found).find(|(expected, found)| expected != found)?;
        Some(("layout", describe(expected), describe(found)))
    }
}

fn describe(layout: &BlockLayout) -> String {
    let (allocated, owned, strides) = (layout.allocated(), layout.owned(), layout.strides());
    let components = match layout.components() {
        1 => String::new(),
        count => format!(", {count} components {} apart", layout.component_stride()),
    };
    let blocks = layout.blocks().map_or(String::new(), |blocks| {
        format!(", in blocks of {} cells {} apart", blocks.cells, blocks.stride)
    });
    format!("{allocated} ({owned} owned, strides {strides:?}{components}{blocks})")
}

impl PassedFields {
    /// Expects these fields at each start.
    pub(crate) fn new(expected: Vec<ExpectedField>) -> PassedFields {
        PassedFields { expected: expected.into(), ..PassedFields::default() }
    }

    /// Forgets the fields of the last start.
    pub(crate) fn begin(&mut self) {
        self.identities.clear();
        self.addresses.clear();
        self.storages.clear();
        self.misfit = None;
    }

    /// Compares and adds the next field.
    pub(crate) fn take(&mut self, device: DeviceId, identity: usize, field: &FieldRef<'_>) {
        let number = self.identities.len();
        self.identities.push(identity);
        let Some(expected) = self.expected.get(number).filter(|_| self.misfit.is_none()) else { return };
        if let Some((what, expected, found)) = expected.difference(device, field) {
            self.misfit = Some(ExchangeError::FieldDiffers { number, what, expected, found });
            return;
        }
        self.addresses.extend(field.blocks.iter().map(|(pointer, _)| *pointer));
        self.storages.extend(field.storage.cloned());
    }

    /// Whether all fields own their memory.
    pub(crate) fn own_all(&self) -> bool {
        self.storages.len() == self.identities.len()
    }

    /// Takes the addresses of the blocks of all fields.
    ///
    /// # Errors
    /// [`ExchangeError::AddressCount`], and [`ExchangeError::Address`] for memory where a block cannot lie.
    pub(crate) fn take_addresses(&mut self, addresses: &[Pointer]) -> Result<(), ExchangeError> {
        let expected = self.expected.iter().map(|field| field.layouts.len()).sum();
        if addresses.len() != expected {
            return Err(ExchangeError::AddressCount { expected, found: addresses.len() });
        }
        let mut rest = addresses.iter();
        for (number, field) in self.expected.iter().enumerate() {
            for (domain, (layout, found)) in field.layouts.iter().zip(&mut rest).enumerate() {
                let (address, alignment) = (found.as_ptr().addr(), field.alignment);
                if !layout.allocated().is_empty() && (address == 0 || !address.is_multiple_of(alignment)) {
                    return Err(ExchangeError::Address { number, domain, alignment, found: address });
                }
            }
        }
        self.begin();
        self.addresses.extend_from_slice(addresses);
        Ok(())
    }

    /// Returns an error if the fields are not those that the plan expects.
    pub(crate) fn end(&mut self) -> Result<(), ExchangeError> {
        let (expected, found) = (self.expected.len(), self.identities.len());
        match self.misfit.take() {
            Some(misfit) => Err(misfit),
            None if expected == found => Ok(()),
            None => Err(ExchangeError::FieldCount { expected, found }),
        }
    }
}
