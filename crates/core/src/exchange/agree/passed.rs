//! Fields that are passed to a plan at each start: they are compared with those of the plan, and their addresses
//! collected.
//!
//! After the first start, this allocates nothing.

use std::sync::Arc;

use crate::device::{DeviceId, Pointer};
use crate::element::ElementType;
use crate::exchange::options::ExchangeError;
use crate::field::{BlockLayout, FieldRef, Storage, VectorAxes};

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
