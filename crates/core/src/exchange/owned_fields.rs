//! The fields that an exchange owns, and the check that they are those that were bound.

use std::sync::Arc;

use super::agree::{Binder, FieldSet};
use super::options::ExchangeError;

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
