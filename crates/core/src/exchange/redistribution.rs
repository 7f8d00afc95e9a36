//! Exchanges that take cells from the fields of one pattern to those of another.

use super::agree::{Binder, FieldLayout, FieldSet, LayoutSet};
use super::handle::Exchange;
use super::options::{BindError, BindOptions};
use super::passed::Passed;
use crate::pattern::Redistribution;

/// The exchange of a redistribution reads the owned cells of a field of the source, and fills those of a field of the target.
/// The two have the same element type, components, levels and device, and any layouts: other orders of axes make it a
/// transpose. It is an [`Exchange`] as any other: started and finished, in order with streams, several plans in flight.
///
/// - Cells that stay on their rank are copied straight, as are those for ranks that are threads, if both fields own their memory
///   and cells that lie together have 64 bytes or more. Other cells are packed: all fields for one rank travel in one message.
/// - From `start` to the end of `finish`, the program writes no owned cells of the source, and leaves the target as it is.
///   A [`Pending`](crate::Pending) exchange lends none of these cells.
impl Redistribution {
    /// Collective: binds the redistribution to pairs of fields, each a [`SourceTarget`](crate::SourceTarget): one, or a tuple,
    /// an array or a vector of them. The source is a field of [`source`](Redistribution::source), the target one of
    /// [`target`](Redistribution::target). A rank that owns nothing on one side has a field without blocks there.
    ///
    /// # Errors
    /// See [`BindError`]; every rank gets the same error. Fields that are not pairs are refused.
    pub fn bind<F: FieldSet>(&self, fields: F) -> Result<Exchange<F>, BindError> {
        self.bind_with(fields, BindOptions::default())
    }

    /// As [`bind`](Redistribution::bind), with options; the [order](BindOptions::order) is without effect.
    ///
    /// # Errors
    /// See [`BindError`]. [`accumulate`](BindOptions::accumulate) is refused.
    pub fn bind_with<F: FieldSet>(&self, fields: F, options: BindOptions) -> Result<Exchange<F>, BindError> {
        Exchange::bound(self.pattern(), self.target(), fields, options)
    }

    /// Collective: makes a plan, to which pairs of fields like these are passed at each start. See [`Passed`].
    ///
    /// # Errors
    /// As for [`bind`](Redistribution::bind).
    pub fn plan<F: FieldSet>(&self, fields: F) -> Result<Exchange<Passed>, BindError> {
        self.plan_with(fields, BindOptions::default())
    }

    /// As [`plan`](Redistribution::plan), with options.
    ///
    /// # Errors
    /// As for [`bind_with`](Redistribution::bind_with).
    pub fn plan_with<F: FieldSet>(
        &self,
        fields: F,
        options: BindOptions,
    ) -> Result<Exchange<Passed>, BindError> {
        Exchange::made(self.pattern(), self.target(), Binder::collect_layouts(&fields), options)
    }

    /// Collective: as [`plan_with`](Redistribution::plan_with), from layouts alone: those of the target, each
    /// [with its source](FieldLayout::with_source).
    ///
    /// # Errors
    /// As for [`bind_with`](Redistribution::bind_with).
    pub fn plan_layouts(
        &self,
        fields: &[FieldLayout],
        options: BindOptions,
    ) -> Result<Exchange<Passed>, BindError> {
        Exchange::made(self.pattern(), self.target(), LayoutSet::of(fields), options)
    }
}
