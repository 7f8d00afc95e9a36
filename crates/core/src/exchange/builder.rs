//! The steps of binding, for the fields of any device.

use std::sync::Arc;

use super::DataPath;
use super::bind::bind;
use super::fields::{BuildError, PartBuilder, PartFields};
use super::fingerprint::describe;
use super::fits::{FieldShape, FieldSignature, misfit, shape};
use super::kept_halos::{KeptHalos, keep_halos};
use super::offer::{Accepted, Answer, Offer, Settled, Windows};
use super::part::Part;
use super::traced::ExchangeTrace;
use crate::device::{Device, DeviceError};
use crate::field::{BoundField, Storage};
use crate::pattern::Pattern;
use crate::transport::{TransportError, Window};

impl<D: Device> PartBuilder for PartFields<D> {
    fn signature(&self) -> Vec<FieldSignature> {
        self.fields.iter().map(|(number, field)| (*number, field.element, field.vector.clone())).collect()
    }

    fn shapes(&self, pattern: &Pattern) -> Vec<(usize, Option<FieldShape>)> {
        let first = |field: &BoundField| field.blocks.first().map(|(_, layout)| shape(pattern, layout));
        self.fields.iter().map(|(number, field)| (*number, first(field))).collect()
    }

    fn storages(&self) -> Vec<Arc<Storage>> {
        self.fields.iter().filter_map(|(_, field)| field.storage.clone()).collect()
    }

    fn goes_on_alone(&self) -> bool {
        self.device.info().runs_on_host() && self.fields.iter().all(|(_, field)| field.storage.is_some())
    }

    fn misfit(&self, pattern: &Pattern) -> Option<String> {
        self.fields.iter().find_map(|(number, field)| misfit(pattern, *number, field))
    }

    fn offer(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        path: DataPath,
    ) -> Result<(Offer, Option<Arc<Window>>), TransportError> {
        self.offer(pattern, peer, tag, path)
    }

    fn accept(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        wanted: (DataPath, usize),
        offer: &Offer,
    ) -> Result<Accepted, TransportError> {
        self.accept(pattern, peer, tag, wanted, offer)
    }

    fn lend(
        &self,
        pattern: &Pattern,
        peer: usize,
        answer: &Answer,
        published: Option<Arc<Window>>,
    ) -> Result<Option<Windows>, TransportError> {
        self.lend(pattern, peer, answer, published)
    }

    fn build(
        &self,
        pattern: &Pattern,
        tag: u32,
        settled: Settled,
        trace: Option<&ExchangeTrace>,
    ) -> Result<Box<dyn Part>, BuildError> {
        let fields = PartFields { device: self.device.clone(), fields: self.fields.clone() };
        bind(fields, pattern, tag, settled, trace)
    }

    fn runs_on_host(&self) -> bool {
        self.device.info().runs_on_host()
    }

    fn keep_halos(&self, pattern: &Pattern) -> Result<Box<dyn KeptHalos>, DeviceError> {
        keep_halos(&self.device, &self.fields, pattern)
    }

    fn describe(&self, pattern: &Pattern) -> Result<Vec<u8>, TransportError> {
        describe(self.device.info(), &self.fields, pattern)
    }
}
