//! Exchanges of the fields of several patterns.

use super::agree::{Binder, FieldLayout, FieldSet, LayoutSet};
use super::handle::Exchange;
use super::options::{BindError, BindOptions};
use super::passed::Passed;
use crate::pattern::{Pattern, PatternSet};

/// The exchange of a set fills the halos of the fields of all its patterns, and is an [`Exchange`] as any other: options,
/// accumulation, streams and several in flight. Its [`pattern`](Exchange::pattern) is pattern 0. Fields of pattern 0 are bound as they are, those of the others as
/// [`OfPattern`](crate::exchange::OfPattern). Halos are filled from all neighbours at once.
impl PatternSet {
    /// Collective: binds the set to fields.
    ///
    /// # Errors
    /// See [`BindError`]; every rank gets the same error. Fields that do not fit their pattern are refused.
    pub fn bind<F: FieldSet>(&self, fields: F) -> Result<Exchange<F>, BindError> {
        self.bind_with(fields, BindOptions::default())
    }

    /// As [`bind`](PatternSet::bind), with options; the [order](BindOptions::order) is without effect.
    ///
    /// # Errors
    /// As for [`bind`](PatternSet::bind).
    pub fn bind_with<F: FieldSet>(&self, fields: F, options: BindOptions) -> Result<Exchange<F>, BindError> {
        Exchange::bound(self.pattern(), self.first(), fields, options)
    }

    /// Collective: makes a plan, to which fields like these are passed at each start. See [`Passed`].
    ///
    /// # Errors
    /// As for [`bind`](PatternSet::bind).
    pub fn plan<F: FieldSet>(&self, fields: F) -> Result<Exchange<Passed>, BindError> {
        self.plan_with(fields, BindOptions::default())
    }

    /// As [`plan`](PatternSet::plan), with options.
    ///
    /// # Errors
    /// As for [`bind_with`](PatternSet::bind_with).
    pub fn plan_with<F: FieldSet>(
        &self,
        fields: F,
        options: BindOptions,
    ) -> Result<Exchange<Passed>, BindError> {
        Exchange::made(self.pattern(), self.first(), Binder::collect_layouts(&fields), options)
    }

    /// Collective: as [`plan_with`](PatternSet::plan_with), from layouts alone, each [of its pattern](FieldLayout::of_pattern).
    ///
    /// # Errors
    /// As for [`bind_with`](PatternSet::bind_with).
    pub fn plan_layouts(
        &self,
        fields: &[FieldLayout],
        options: BindOptions,
    ) -> Result<Exchange<Passed>, BindError> {
        Exchange::made(self.pattern(), self.first(), LayoutSet::of(fields), options)
    }

    /// The pattern that exchanges name as their own.
    fn first(&self) -> &Pattern {
        self.patterns().first().unwrap_or(self.pattern())
    }
}
