//! How the exchange of a case is done.

use haloport_core::{BindOptions, DataPath, Exchange, HaloOrder, Pattern, Plan};
use rand::RngExt;
use rand::rngs::StdRng;

use super::{CaseField, FieldSetOf};
use crate::Failure;

/// What a case says about how its exchange is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ways {
    path: DataPath,
    order: HaloOrder,
    /// The most bytes of a message that is staged.
    chunk: Option<usize>,
}

impl Ways {
    /// Half of the cases leave each of the two to the library.
    pub(crate) fn random(random: &mut StdRng) -> Ways {
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
        Ways { path, order, chunk: None }
    }

    /// In messages, and in chunks of at most so many bytes where they are staged.
    pub(crate) fn in_chunks(self, bytes: usize) -> Ways {
        Ways { path: DataPath::Messages, chunk: Some(bytes), ..self }
    }

    /// Most go in messages, and axis by axis where `by_axes` says so.
    pub(crate) fn in_messages(random: &mut StdRng, by_axes: bool) -> Ways {
        let any = Ways::random(random);
        let path = if random.random_bool(0.8) { DataPath::Messages } else { any.path };
        Ways { path, order: if by_axes { HaloOrder::AxisByAxis } else { any.order }, ..any }
    }

    /// Collective: binds fields, and sees that this changes nothing in memory.
    pub(crate) fn bind<'m>(
        &self,
        pattern: &Pattern,
        mut fields: Vec<Box<dyn CaseField + 'm>>,
    ) -> Result<Exchange<Vec<Box<dyn CaseField + 'm>>>, Failure> {
        for field in &mut fields {
            field.prepare(0)?;
        }
        let exchange = pattern.bind_with(fields, self.options())?;
        for field in exchange.fields() {
            field.verify(0, false).map_err(|error| format!("after bind, {error}"))?;
        }
        Ok(exchange)
    }

    /// Collective: makes a plan for fields like these, and sees that this changes nothing in memory.
    pub(crate) fn plan(&self, pattern: &Pattern, fields: &mut FieldSetOf<'_>) -> Result<Plan, Failure> {
        for field in &mut *fields {
            field.prepare(0)?;
        }
        let plan = pattern.plan_with(&mut *fields, self.options())?;
        for field in &*fields {
            field.verify(0, false).map_err(|error| format!("after plan, {error}"))?;
        }
        Ok(plan)
    }

    /// The options with which to bind.
    pub(crate) fn options(&self) -> BindOptions {
        let options = BindOptions::default().path(self.path).order(self.order);
        self.chunk.into_iter().fold(options, BindOptions::staging_chunk)
    }
}
