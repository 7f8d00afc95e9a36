//! Requests that nobody waits for any more, and the memory that they still use.

use std::any::Any;
use std::sync::Arc;

use crate::raw::{Permit, Progress, Request};

/// Owns memory until a request is complete.
pub(crate) type Keep = Arc<dyn Any + Send + Sync>;

/// A request that was given up.
pub(crate) struct Ghost {
    pub(crate) request: Request,
    pub(crate) persistent: bool,
    /// Whether it is a message under way that can still be withdrawn.
    pub(crate) cancel: bool,
    /// `None` where the memory's owner has promised that it stays.
    pub(crate) keep: Option<Keep>,
}

/// All requests that were given up and are not complete.
#[derive(Default)]
pub(crate) struct Ghosts(Vec<Ghost>);

impl Ghosts {
    pub(crate) fn add(&mut self, ghost: Ghost) {
        self.0.push(ghost);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out those that are complete. The caller drops them once it holds no lock any more: memory may do
    /// anything when it is dropped.
    #[must_use]
    pub(crate) fn sweep(&mut self, permit: &Permit) -> Vec<Ghost> {
        self.0.extract_if(.., |ghost| ghost.settle(permit)).collect()
    }

    /// Lets go of all that are left. Their memory stays for ever: somebody may still write it.
    pub(crate) fn leak(&mut self, permit: &Permit) {
        for mut ghost in self.0.drain(..) {
            if ghost.persistent {
                // It goes on without its handle; a failure would leave nothing to do.
                let _ = ghost.request.free(permit);
            }
            std::mem::forget(ghost.keep);
        }
    }
}

impl Ghost {
    /// Whether it is complete; its request is freed then.
    fn settle(&mut self, permit: &Permit) -> bool {
        if std::mem::take(&mut self.cancel) {
            // If it cannot be withdrawn it goes on.
            let _ = self.request.cancel(permit);
        }
        // An error ends a request too, and nobody asks any more.
        if matches!(self.request.test(permit), Ok(Progress::Pending)) {
            return false;
        }
        if self.persistent {
            let _ = self.request.free(permit);
        }
        true
    }
}
