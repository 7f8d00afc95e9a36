//! An exchange that was started and not yet finished.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::options::{ExchangeError, Schedule};
use super::run::bound::Bound;
use crate::device::Device;
use crate::domain::IndexBox;
use crate::element::Element;
use crate::field::{BlockLayout, Field, FieldError, View, ViewMut};
use crate::pattern::Pattern;

/// An exchange in flight, of an [`Exchange`](super::Exchange) or a [`Plan`](super::Plan). It borrows either, and the fields,
/// until it is finished.
///
/// Dropping it completes the exchange first, within the time limit; while its thread is panicking the exchange is
/// given up instead, and poisoned. Forgetting it (`std::mem::forget`) is safe: the fields say that they are in
/// flight until [`Exchange::complete`](super::Exchange::complete) or [`Plan::complete`](super::Plan::complete) is called.
#[must_use = "dropping a pending exchange waits for it; call `finish`"]
pub struct Pending<'e, F> {
    bound: &'e Bound,
    /// What tells the fields from others.
    identities: &'e [usize],
    fields: PendingFields<'e, F>,
    open: bool,
}

/// The fields of a pending exchange.
pub(super) enum PendingFields<'e, F> {
    /// Those of an exchange that owns them.
    Bound(&'e mut F),
    /// Those that were passed at the start.
    Passed(F),
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
            PendingFields::Bound(fields) => fields,
            PendingFields::Passed(fields) => fields,
        }
    }
}

impl<'e, F> Pending<'e, F> {
    pub(super) fn new(
        bound: &'e Bound,
        identities: &'e [usize],
        fields: PendingFields<'e, F>,
    ) -> Pending<'e, F> {
        Pending { bound, identities, fields, open: true }
    }

    /// While a step is captured: nothing is in flight, and nothing to be finished.
    pub(super) fn of_capture(bound: &'e Bound, identities: &'e [usize], fields: &'e mut F) -> Pending<'e, F> {
        Pending { bound, identities, fields: PendingFields::Bound(fields), open: false }
    }

    /// Ends the exchange. With [`Schedule::Blocking`], and always on the CPU, the halos are in place when it returns;
    /// with the others, for work that is put on the stream afterwards.
    ///
    /// On an asynchronous device the others put the end into the stream and return: the host waits for nobody, as long as
    /// there is a thread that makes [`Progress`](crate::Progress). Ranks that are threads of one process share the default
    /// stream, and wait for neighbours' messages there: each of them wants a stream of its own.
    ///
    /// # Errors
    /// [`ExchangeError`]; the exchange is poisoned. What fails after it has returned comes out of the next call of the
    /// exchange, such as [`synchronize`](super::Exchange::synchronize), and of its completion callback.
    pub fn finish(mut self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        self.end(schedule)
    }

    /// As [`finish`](Pending::finish): nothing is in flight afterwards.
    pub(super) fn end(&mut self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        self.open = false;
        self.bound.end(schedule)
    }

    /// The fields, once nothing is in flight.
    pub(super) fn fields_mut(&mut self) -> &mut F {
        match &mut self.fields {
            PendingFields::Bound(fields) => fields,
            PendingFields::Passed(fields) => fields,
        }
    }

    /// Whether [`finish`](Pending::finish) would return without waiting for a neighbour (also because the exchange
    /// has failed). Makes progress; does not block.
    pub fn is_ready(&self) -> bool {
        self.bound.is_ready()
    }

    /// The cells that a domain of a field owns, for reading from the host while halos travel: those of
    /// [`Pattern::owned`](crate::Pattern::owned), and what the field holds beyond sides at which no exchange fills
    /// anything, such as the ends of a grid that is not periodic. So it holds all that a stencil as wide as the halo reads
    /// for [`Regions::interior`](crate::Regions::interior). `field` picks the field.
    ///
    /// # Errors
    /// [`FieldError::NotHostAccessible`], [`FieldError::NoSuchDomain`], [`FieldError::NotInExchange`],
    /// [`FieldError::Device`]: on asynchronous devices it waits for what earlier exchanges write.
    pub fn owned<T: Element, D: Device>(
        &self,
        field: impl FnOnce(&F) -> &Field<T, D>,
        domain: usize,
    ) -> Result<View<'_, T>, FieldError> {
        let field = self.one_of_these(field(self.fields.as_ref()))?;
        let owned = self.untouched(field.layout(domain)?, domain, Pattern::owned);
        // SAFETY: the field is this exchange's own, which writes halo cells that it fills only, and a view that writes
        // others takes `&mut self`.
        unsafe { field.view_in_flight(domain, owned) }
    }

    /// The cells of a domain that no neighbour reads, for writing from the host while halos travel: those of
    /// [`Pattern::interior`](crate::Pattern::interior), and what the field holds beyond their sides where these are sides
    /// at which no exchange fills anything. `field` picks the field.
    ///
    /// # Errors
    /// As for [`owned`](Pending::owned).
    pub fn interior_mut<T: Element, D: Device>(
        &mut self,
        field: impl FnOnce(&F) -> &Field<T, D>,
        domain: usize,
    ) -> Result<ViewMut<'_, T>, FieldError> {
        let field = self.one_of_these(field(self.fields.as_ref()))?;
        let interior = self.untouched(field.layout(domain)?, domain, Pattern::interior);
        // SAFETY: the field is this exchange's own, which neither reads nor writes the interior, and other views take
        // `&self`.
        unsafe { field.view_mut_in_flight(domain, interior) }
    }

    /// A closure may return any field that it can reach: only those of this exchange are borrowed by it.
    fn one_of_these<'f, T: Element, D: Device>(
        &self,
        field: &'f Field<T, D>,
    ) -> Result<&'f Field<T, D>, FieldError> {
        if self.identities.contains(&field.identity()) { Ok(field) } else { Err(FieldError::NotInExchange) }
    }

    /// The cells that `region` gives for a domain and those beside them that no exchange fills, with all that the block has
    /// along axes that the pattern does not have. A block that exchanges nothing may hold fewer cells than its domain has.
    fn untouched(
        &self,
        layout: &BlockLayout,
        domain: usize,
        region: impl FnOnce(&Pattern, usize) -> Option<IndexBox>,
    ) -> IndexBox {
        let (all, pattern) = (layout.allocated(), &self.bound.pattern);
        let Some(region) = region(pattern, domain) else {
            return all.with_axis(0, all.lower()[0], all.lower()[0]);
        };
        let region = pattern.with_margins(domain, region, &all);
        (0..region.axes()).fold(all, |cells, axis| {
            let ((first, past), (lower, upper)) = (all.bounds(axis), region.bounds(axis));
            cells.with_axis(axis, lower.max(first), upper.min(past))
        })
    }
}

impl<F> Drop for Pending<'_, F> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        if std::thread::panicking() {
            self.bound.give_up(ExchangeError::Panicking);
        } else if let Err(error) = self.bound.end(Schedule::DefaultStream) {
            // Not lost: the exchange is poisoned and says so at its next use.
            tracing::error!(%error, "an exchange failed while its pending exchange was dropped");
        }
    }
}

/// Ends a pending exchange as a future, from `pending.await`.
#[derive(Debug)]
pub struct Finish<'e, F> {
    pending: Option<Pending<'e, F>>,
}

impl<'e, F> IntoFuture for Pending<'e, F> {
    type Output = Result<(), ExchangeError>;
    type IntoFuture = Finish<'e, F>;

    fn into_future(self) -> Finish<'e, F> {
        Finish { pending: Some(self) }
    }
}

// Nothing in it is pinned.
impl<F> Unpin for Finish<'_, F> {}

impl<F> Future for Finish<'_, F> {
    type Output = Result<(), ExchangeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(pending) = self.pending.take() else {
            return Poll::Ready(Ok(()));
        };
        if pending.is_ready() {
            return Poll::Ready(pending.finish(Schedule::DefaultStream));
        }
        self.pending = Some(pending);
        // Nobody else drives the exchange: ask to be polled again.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
