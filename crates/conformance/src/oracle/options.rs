//! How an exchange of a case is bound.

use haloport_core::exchange::CopiedBy;
use haloport_core::{BindOptions, DataPath, Exchange, HaloOrder, Passed, Pattern};
use rand::RngExt;
use rand::rngs::StdRng;

use super::fields::CaseFields;
use crate::Failure;

/// The options of a case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CaseOptions {
    path: DataPath,
    copied_by: CopiedBy,
    order: HaloOrder,
    /// The most bytes of a staged message.
    chunk: Option<usize>,
    /// The least bytes of staged messages that are moved by a copy.
    moved_from: Option<usize>,
}

impl CaseOptions {
    /// Random options; half of them leave the path, and half the order, to the library.
    pub(crate) fn random(random: &mut StdRng) -> CaseOptions {
        let path = match random.random_range(0..6) {
            0 => DataPath::Direct,
            1 => DataPath::Shared,
            2 => DataPath::Messages,
            _ => DataPath::Quickest,
        };
        let order = match random.random_range(0..4) {
            0 => HaloOrder::AllNeighbours,
            1 => HaloOrder::AxisByAxis,
            _ => HaloOrder::Quickest,
        };
        let copied_by = match random.random_range(0..3) {
            0 => CopiedBy::Receiver,
            1 => CopiedBy::Sender,
            _ => CopiedBy::Quickest,
        };
        CaseOptions { path, copied_by, order, chunk: None, moved_from: None }
    }

    /// The same, in messages; staged ones in chunks of at most `bytes`.
    pub(crate) fn in_chunks(self, bytes: usize) -> CaseOptions {
        CaseOptions { path: DataPath::Messages, chunk: Some(bytes), ..self }
    }

    /// The same, in messages that streams send and receive.
    pub(crate) fn by_streams(self) -> CaseOptions {
        CaseOptions { path: DataPath::StreamMessages, ..self }
    }

    /// The same; staged messages are moved by a copy from `bytes` on.
    pub(crate) fn moved_from(self, bytes: usize) -> CaseOptions {
        CaseOptions { moved_from: Some(bytes), ..self }
    }

    /// The same, axis by axis only if the library chooses it: if a case asks for it, `finish` needs calls of neighbours.
    pub(crate) fn waiting_once(self) -> CaseOptions {
        let order = if self.order == HaloOrder::AxisByAxis { HaloOrder::AllNeighbours } else { self.order };
        CaseOptions { order, ..self }
    }

    /// Random options, most of them in messages; axis by axis if `by_axes`.
    pub(crate) fn in_messages(random: &mut StdRng, by_axes: bool) -> CaseOptions {
        let any = CaseOptions::random(random);
        let path = if random.random_bool(0.8) { DataPath::Messages } else { any.path };
        CaseOptions { path, order: if by_axes { HaloOrder::AxisByAxis } else { any.order }, ..any }
    }

    /// Collective: binds fields, and verifies that this changes nothing in memory.
    pub(super) fn bind<'m>(
        &self,
        pattern: &Pattern,
        mut fields: CaseFields<'m>,
    ) -> Result<Exchange<CaseFields<'m>>, Failure> {
        for field in &mut fields {
            field.prepare(0)?;
        }
        let exchange = pattern.bind_with(fields, self.options())?;
        for field in exchange.fields() {
            field.verify(0, false).map_err(|error| format!("after bind, {error}"))?;
        }
        Ok(exchange)
    }

    /// Collective: makes a plan for fields like these, and verifies that this changes nothing in memory.
    pub(super) fn plan(
        &self,
        pattern: &Pattern,
        fields: &mut CaseFields<'_>,
    ) -> Result<Exchange<Passed>, Failure> {
        for field in &mut *fields {
            field.prepare(0)?;
        }
        let plan = pattern.plan_with(&mut *fields, self.options())?;
        for field in &*fields {
            field.verify(0, false).map_err(|error| format!("after plan, {error}"))?;
        }
        Ok(plan)
    }

    /// The options of the library.
    pub(crate) fn options(&self) -> BindOptions {
        let options = BindOptions::default().prefer(self.path).copied_by(self.copied_by).order(self.order);
        let options = self.chunk.into_iter().fold(options, BindOptions::staging_chunk);
        self.moved_from.into_iter().fold(options, BindOptions::staging_copy)
    }
}
