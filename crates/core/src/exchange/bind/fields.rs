//! The fields of one device, before they are bound.

use std::any::Any;
use std::sync::Arc;

use super::fits::{FieldShape, FieldSignature, misfit, shape};
use super::offer::PartWays;
use crate::device::{DeviceError, DeviceId, DeviceInfo, Pointer};
use crate::exchange::run::part::Part;
use crate::exchange::run::trace::ExchangeTrace;
use crate::field::{BoundField, Storage};
use crate::pattern::Pattern;
use crate::transport::TransportError;

/// The fields of one device, before they are bound.
pub(crate) struct PartFields {
    pub(crate) device: Box<dyn PartDevice>,
    /// Each with its number within the exchange.
    pub(crate) fields: Vec<(usize, BoundField)>,
}

/// What binding needs of a device, whatever its type.
pub(crate) trait PartDevice {
    fn info(&self) -> &DeviceInfo;

    /// As [`Device::reaches`](crate::device::Device::reaches).
    fn reaches(&self, other: DeviceId) -> Result<bool, DeviceError>;

    /// As [`Device::import`](crate::device::Device::import).
    ///
    /// # Safety
    /// As for [`Device::import`](crate::device::Device::import).
    unsafe fn import(&self, token: &[u8]) -> Result<ImportedMemory, DeviceError>;

    /// Binds all copies of `fields`, and opens their channels.
    fn build(
        &self,
        fields: &[(usize, BoundField)],
        pattern: &Pattern,
        tag: u32,
        ways: PartWays,
        trace: Option<&ExchangeTrace>,
    ) -> Result<Box<dyn Part>, BuildError>;
}

/// Memory of a device of another process.
pub(crate) struct ImportedMemory {
    pub(crate) pointer: Pointer,
    pub(crate) bytes: usize,
    pub(crate) owner: Arc<dyn Any + Send + Sync>,
}

/// Why this rank could not build a part.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl PartFields {
    /// What must be the same on all ranks.
    pub(crate) fn signature(&self) -> Vec<FieldSignature> {
        self.fields.iter().map(|(number, field)| (*number, field.element, field.vector.clone())).collect()
    }

    /// The number and the shape of each field; `None` on a rank that has no block of it.
    pub(crate) fn shapes(&self, pattern: &Pattern) -> Vec<(usize, Option<FieldShape>)> {
        let first = |field: &BoundField| field.blocks.first().map(|(_, layout)| shape(pattern, layout));
        self.fields.iter().map(|(number, field)| (*number, first(field))).collect()
    }

    /// The memory of the fields, where it is not merely lent.
    pub(crate) fn storages(&self) -> impl Iterator<Item = Arc<Storage>> {
        self.fields.iter().filter_map(|(_, field)| field.storage.clone())
    }

    /// Whether an exchange can go from one step to the next whenever it is polled.
    pub(crate) fn goes_on_alone(&self) -> bool {
        self.device.info().runs_on_host() && self.fields.iter().all(|(_, field)| field.storage.is_some())
    }

    /// What does not fit the pattern, in words.
    pub(crate) fn misfit(&self, pattern: &Pattern) -> Option<String> {
        self.fields.iter().find_map(|(number, field)| misfit(pattern, *number, field))
    }
}
