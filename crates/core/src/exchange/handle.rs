//! The type of an exchange, and what it has whether it owns its fields or not.

use std::fmt;
use std::sync::Arc;

use super::agree::{Binder, FieldSet};
use super::options::{Choice, Description, ExchangeError, Route, Traffic};
use super::turns::{Ticket, Turns};
use crate::pattern::Pattern;

/// A pattern bound to fields. Binding lays out messages, allocates buffers and binds copies, once; running the exchange
/// does none of that again.
///
/// There are two kinds:
///
/// | | `Exchange<F>`, from [`Pattern::bind`] | [`Exchange<Passed>`](super::Passed), from [`Pattern::plan`] |
/// | --- | --- | --- |
/// | the fields | are owned by the exchange | are passed to each start, and may be others each time |
/// | between ranks that share memory | are copied straight from the neighbour | are packed |
///
/// An exchange is started and finished in one call ([`run`](Exchange::run)), or in two, with work between them
/// ([`start`](Exchange::start) and [`finish`](super::Pending::finish)). These calls are in order with the default stream
/// of each device; those that end in `_on` with another [`Schedule`](super::Schedule), such as a stream. Programs that
/// cannot hold a borrow call [`start_detached`](Exchange::start_detached) and [`finish`](Exchange::finish).
pub struct Exchange<F> {
    /// Dropped before the fields.
    pub(super) turns: Turns,
    pub(super) fields: OwnedFields<F>,
}

impl<F: fmt::Debug> fmt::Debug for Exchange<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("statuses", &self.turns.statuses())
            .field("fields", self.fields.get())
            .finish_non_exhaustive()
    }
}

impl<F> Exchange<F> {
    /// Makes progress, and returns whether [`finish`](Exchange::finish) would return without waiting for a neighbour; also
    /// `true` if the exchange of this ticket has ended or failed, or is one of another `Exchange`. Does not block.
    pub fn is_ready(&self, ticket: Ticket) -> bool {
        self.turns.is_ready(ticket)
    }

    /// The pattern.
    pub fn pattern(&self) -> &Pattern {
        self.turns.pattern()
    }

    /// The amount of data that one exchange moves on this rank.
    pub fn traffic(&self) -> Traffic {
        self.turns.traffic()
    }

    /// The path and the order of this exchange.
    pub fn choice(&self) -> &Choice {
        self.turns.choice()
    }

    /// How each field gets to and from each other rank, and why not by a quicker path: first those that come to this rank,
    /// then those that leave it, by rank and field.
    pub fn routes(&self) -> &[Route] {
        self.turns.routes()
    }

    /// All of this together, which programs can write as a text.
    pub fn describe(&self) -> Description {
        let (choice, traffic, routes) = (*self.choice(), self.traffic(), self.routes().to_vec());
        Description { choice, traffic, routes }
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

    pub(super) fn identities(&self) -> &[usize] {
        &self.identities
    }

    pub(super) fn into_inner(self) -> F {
        self.fields
    }
}
