//! An exchange that was started and is not yet finished.

use std::fmt;
use std::sync::Arc;

use super::agree::{Binder, FieldSet};
use super::options::{ExchangeError, Schedule};
use super::part::Bound;
use crate::device::Device;
use crate::domain::IndexBox;
use crate::element::Element;
use crate::field::{BlockLayout, Field, FieldError, View, ViewMut};
use crate::log;
use crate::pattern::Pattern;
use crate::transport::TransportError;

/// An exchange in flight. Until it is finished, it borrows the [`Exchange`](super::Exchange) and the fields.
///
/// Dropping it completes the exchange, within the time limit; if its thread is panicking, the exchange is abandoned and
/// poisoned instead. Forgetting it (`std::mem::forget`) is safe: access to the fields returns an error until
/// [`Exchange::complete`](super::Exchange::complete) is called.
#[must_use = "dropping a pending exchange waits for it; call `finish`"]
pub struct Pending<'e, F> {
    bound: &'e Bound,
    fields: PendingFields<'e, F>,
    open: bool,
}

/// The fields of a pending exchange.
pub(super) enum PendingFields<'e, F> {
    /// The fields of an exchange, which owns them.
    Bound(&'e mut OwnedFields<F>),
    /// The fields that were passed to the start, and the numbers that tell them from all others.
    Passed(F, &'e [usize]),
}

impl<F: fmt::Debug> fmt::Debug for Pending<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("status", &self.bound.flight.status())
            .field("fields", self.fields.as_ref())
            .finish_non_exhaustive()
    }
}

impl<F> PendingFields<'_, F> {
    fn as_ref(&self) -> &F {
        match self {
            PendingFields::Bound(fields) => fields.get(),
            PendingFields::Passed(fields, _) => fields,
        }
    }

    fn identities(&self) -> &[usize] {
        match self {
            PendingFields::Bound(fields) => &fields.identities,
            PendingFields::Passed(_, identities) => identities,
        }
    }
}

impl<'e, F> Pending<'e, F> {
    pub(super) fn new(bound: &'e Bound, fields: PendingFields<'e, F>) -> Pending<'e, F> {
        Pending { bound, fields, open: true }
    }

    /// Finishes the exchange, in order with the default stream. On the CPU, the halos are in place when it returns;
    /// otherwise they are in place for work that is put into the stream afterwards.
    ///
    /// Once every neighbour has started its exchange, `finish` waits for nothing more of it: a neighbour may compute, or
    /// wait for this rank by other means, before its own `finish`. Exceptions: halos that are filled
    /// [axis by axis](crate::HaloOrder::AxisByAxis) on request, and neighbours on asynchronous devices without a thread
    /// that makes [`Progress`](crate::Progress); their messages need calls of the neighbour.
    ///
    /// On an asynchronous device, it puts the end into the stream and returns; the host does not wait if a thread makes
    /// [`Progress`](crate::Progress). Exception: if ranks are threads of one process and this stream is the default
    /// stream, which they share, the host waits for the neighbours' messages; use a stream of its own for each rank. Ranks that
    /// share another stream can wait for each other there until the [time limit](crate::Communicator::set_time_limit).
    ///
    /// # Errors
    /// [`ExchangeError`]; the exchange is poisoned. An error after `finish` has returned is reported by the next call
    /// of the exchange, such as [`synchronize`](super::Exchange::synchronize), and by its completion callback.
    pub fn finish(mut self) -> Result<(), ExchangeError> {
        self.end(Schedule::DefaultStream)
    }

    /// As [`finish`](Pending::finish), in order with a stream, or as a [`Schedule`] says.
    ///
    /// # Errors
    /// As for [`finish`](Pending::finish).
    pub fn finish_on<'s>(mut self, order: impl Into<Schedule<'s>>) -> Result<(), ExchangeError> {
        self.end(order.into())
    }

    /// As [`finish`](Pending::finish), and returns when the halos are in place, also for the host.
    ///
    /// # Errors
    /// As for [`finish`](Pending::finish).
    pub fn finish_blocking(mut self) -> Result<(), ExchangeError> {
        self.end(Schedule::Blocking)
    }

    /// As [`finish`](Pending::finish), for a caller that needs the fields afterwards.
    pub(super) fn end(&mut self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        self.open = false;
        self.bound.end(schedule)
    }

    /// The fields, for writing; call it only after [`end`](Pending::end).
    pub(super) fn fields_mut(&mut self) -> &mut F {
        match &mut self.fields {
            PendingFields::Bound(fields) => fields.get_mut(),
            PendingFields::Passed(fields, _) => fields,
        }
    }

    /// Makes progress, and returns whether [`finish`](Pending::finish) would return without waiting for a neighbour;
    /// also `true` if the exchange has failed. Does not block.
    pub fn is_ready(&self) -> bool {
        self.bound.is_ready()
    }

    /// The cells that a domain of a field owns, for reading from the host while halos travel: those of
    /// [`Pattern::owned`](crate::Pattern::owned), and the field's cells beyond sides at which no exchange fills cells,
    /// such as the ends of a grid that is not periodic. This includes all cells that a stencil as wide as the halo
    /// reads for [`Regions::interior`](crate::Regions::interior). A [redistribution](crate::Redistribution) lends no cells.
    /// `field` selects the field. On asynchronous devices, blocks until earlier exchanges have written their halos.
    ///
    /// # Errors
    /// [`FieldError::NotHostAccessible`], [`FieldError::NoSuchDomain`], [`FieldError::NotInExchange`] if `field`
    /// returns a field of another exchange, and [`FieldError::Device`].
    pub fn owned<T: Element, D: Device>(
        &self,
        field: impl FnOnce(&F) -> &Field<T, D>,
        domain: usize,
    ) -> Result<View<'_, T>, FieldError> {
        let field = self.one_of_these(field(self.fields.as_ref()))?;
        let pattern = self.pattern_of(field);
        let owned = untouched(pattern, field.layout(domain)?, domain, Pattern::owned);
        // SAFETY: the field belongs to this exchange, which until `finish` writes halo cells alone, or, if it is one of a
        // redistribution, lends no cells; a view that writes other cells takes `&mut self`.
        unsafe { field.view_in_flight(domain, owned) }
    }

    /// The cells of a domain that no neighbour reads, for writing from the host while halos travel: those of
    /// [`Pattern::interior`](crate::Pattern::interior), and the field's cells beyond sides at which no exchange fills
    /// cells. `field` selects the field. On asynchronous devices, blocks as [`owned`](Pending::owned) does.
    ///
    /// # Errors
    /// As for [`owned`](Pending::owned).
    pub fn interior_mut<T: Element, D: Device>(
        &mut self,
        field: impl FnOnce(&F) -> &Field<T, D>,
        domain: usize,
    ) -> Result<ViewMut<'_, T>, FieldError> {
        let field = self.one_of_these(field(self.fields.as_ref()))?;
        let pattern = self.pattern_of(field);
        let interior = untouched(pattern, field.layout(domain)?, domain, Pattern::interior);
        // SAFETY: the field belongs to this exchange, which neither reads nor writes the interior, in either direction;
        // other views take `&self`.
        unsafe { field.view_mut_in_flight(domain, interior) }
    }

    /// Returns an error unless the field belongs to this exchange: a closure may return any field that it can reach,
    /// but only those of this exchange are borrowed by it.
    fn one_of_these<'f, T: Element, D: Device>(
        &self,
        field: &'f Field<T, D>,
    ) -> Result<&'f Field<T, D>, FieldError> {
        if self.fields.identities().contains(&field.identity()) {
            Ok(field)
        } else {
            Err(FieldError::NotInExchange)
        }
    }

    /// The pattern of a field of this exchange.
    fn pattern_of<T: Element, D: Device>(&self, field: &Field<T, D>) -> &Pattern {
        let place = self.fields.identities().iter().position(|identity| *identity == field.identity());
        self.bound.pattern_of(place.unwrap_or(0))
    }
}

impl<F> Drop for Pending<'_, F> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        if std::thread::panicking() {
            self.bound.give_up(ExchangeError::Panicking);
        } else if let Err(error) = self.bound.end(Schedule::DefaultStream)
            && !matches!(error, ExchangeError::Transport(TransportError::Interrupted { .. }))
        {
            // Not lost: the exchange is poisoned, and its next use returns the error.
            log::error(format_args!("an exchange failed while its pending exchange was dropped: {error}"));
        }
    }
}

/// The fields that an exchange owns.
pub(super) struct OwnedFields<F> {
    fields: F,
    /// Numbers that tell the fields that were bound from all others.
    identities: Arc<[usize]>,
    /// Whether they were lent for writing, and so may have been replaced, since they were last compared.
    lent: bool,
}

impl<F: FieldSet> OwnedFields<F> {
    /// Returns an error if fields were replaced: they are no longer ours to touch.
    pub(super) fn check(&mut self) -> Result<(), ExchangeError> {
        if self.lent {
            if !Binder::is_same(&self.fields, &self.identities) {
                return Err(ExchangeError::FieldsReplaced);
            }
            self.lent = false;
        }
        Ok(())
    }
}

impl<F> OwnedFields<F> {
    pub(super) fn new(fields: F, identities: Arc<[usize]>) -> OwnedFields<F> {
        OwnedFields { fields, identities, lent: false }
    }

    pub(super) fn get(&self) -> &F {
        &self.fields
    }

    pub(super) fn get_mut(&mut self) -> &mut F {
        self.lent = true;
        &mut self.fields
    }

    pub(super) fn into_inner(self) -> F {
        self.fields
    }
}

/// The cells that `region` returns for a domain, and those beside them that no exchange fills, with the whole
/// extent of the block along axes that the pattern does not have. They are cut to the block, which may hold fewer
/// cells than its domain if it exchanges none.
fn untouched(
    pattern: &Pattern,
    layout: &BlockLayout,
    domain: usize,
    region: impl FnOnce(&Pattern, usize) -> Option<IndexBox>,
) -> IndexBox {
    let all = layout.allocated();
    let Some(region) = region(pattern, domain) else {
        return all.with_axis(0, all.lower()[0], all.lower()[0]);
    };
    let region = pattern.with_margins(domain, region, &all);
    (0..region.axes()).fold(all, |cells, axis| {
        let ((first, past), (lower, upper)) = (all.bounds(axis), region.bounds(axis));
        cells.with_axis(axis, lower.max(first), upper.min(past))
    })
}
