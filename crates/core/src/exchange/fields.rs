//! The fields of one device, before they are bound.

use std::any::Any;
use std::sync::Arc;

use super::fits::{FieldShape, FieldSignature};
use super::kept_halos::KeptHalos;
use super::offer::{Accepted, Answer, Offer, Settled, Windows};
use super::part::Part;
use super::path::DataPath;
use super::traced::ExchangeTrace;
use crate::device::{Device, DeviceError};
use crate::field::{BoundField, Storage};
use crate::pattern::Pattern;
use crate::transport::{TransportError, Window};

/// The fields of one device, before they are bound.
pub(crate) struct PartFields<D: Device> {
    pub(crate) device: D,
    /// Each with its number within the exchange.
    pub(crate) fields: Vec<(usize, BoundField)>,
}

/// The fields of one device, before they are bound, whatever the device.
pub(crate) trait PartBuilder: Any {
    fn signature(&self) -> Vec<FieldSignature>;
    /// The number and the shape of each field; `None` on a rank that has no block of it.
    fn shapes(&self, pattern: &Pattern) -> Vec<(usize, Option<FieldShape>)>;
    fn storages(&self) -> Vec<Arc<Storage>>;
    /// Whether an exchange can go from one step to the next whenever it is polled.
    fn goes_on_alone(&self) -> bool;
    /// What does not fit the pattern, in words.
    fn misfit(&self, pattern: &Pattern) -> Option<String>;
    /// See [`PartFields::offer`].
    fn offer(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        path: DataPath,
    ) -> Result<(Offer, Option<Arc<Window>>), TransportError>;
    /// Chooses the way of each field of an offer, by the path that is wanted and the most bytes of a chunk, and makes what it
    /// needs.
    fn accept(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        wanted: (DataPath, usize),
        offer: &Offer,
    ) -> Result<Accepted, TransportError>;
    /// The windows on what the receiver has made for us, which it finds by `token`.
    fn lend(
        &self,
        pattern: &Pattern,
        peer: usize,
        answer: &Answer,
        published: Option<Arc<Window>>,
    ) -> Result<Option<Windows>, TransportError>;
    fn build(
        &self,
        pattern: &Pattern,
        tag: u32,
        settled: Settled,
        trace: Option<&ExchangeTrace>,
    ) -> Result<Box<dyn Part>, BuildError>;
    /// Whether its copies are done when a call returns.
    fn runs_on_host(&self) -> bool;
    /// A copy of the halos, not made yet.
    fn keep_halos(&self, pattern: &Pattern) -> Result<Box<dyn KeptHalos>, DeviceError>;
    /// What the quickest way may depend on.
    fn describe(&self, pattern: &Pattern) -> Result<Vec<u8>, TransportError>;
}

/// Why this rank could not build a part.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Transport(#[from] TransportError),
}
