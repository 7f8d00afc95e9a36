//! Requests that were abandoned before they were complete, and the memory that MPI still uses for them.

use std::any::Any;
use std::sync::Arc;

use crate::raw::{Permit, Progress, Request};

/// The owner of memory that a request uses.
pub(crate) type MemoryOwner = Arc<dyn Any + Send + Sync>;

/// A request that no caller waits for any more.
pub(crate) struct AbandonedRequest {
    pub(crate) request: Request,
    pub(crate) persistent: bool,
    /// Whether it is a receive under way, which can still be cancelled.
    pub(crate) cancel: bool,
    /// `None` if the caller has promised that the memory stays valid.
    pub(crate) owner: Option<MemoryOwner>,
}

/// The abandoned requests that are not complete.
#[derive(Default)]
pub(crate) struct AbandonedRequests(Vec<AbandonedRequest>);

impl AbandonedRequests {
    pub(crate) fn add(&mut self, abandoned: impl IntoIterator<Item = AbandonedRequest>) {
        self.0.extend(abandoned);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the requests that are complete. The caller drops them when it holds no lock: dropping memory may run any
    /// code.
    #[must_use]
    pub(crate) fn take_complete(&mut self, permit: &Permit) -> Vec<AbandonedRequest> {
        self.0.extract_if(.., |abandoned| abandoned.complete(permit)).collect()
    }

    /// Gives up all requests that are left. Their memory is never freed, since MPI may still write to it.
    pub(crate) fn leak(&mut self, permit: &Permit) {
        for mut abandoned in self.0.drain(..) {
            if abandoned.persistent {
                // The request goes on without its handle. If that fails, nothing can be done.
                let _ = abandoned.request.free(permit);
            }
            std::mem::forget(abandoned.owner);
        }
    }
}

impl AbandonedRequest {
    /// Frees the request if it is complete, and returns whether it was.
    fn complete(&mut self, permit: &Permit) -> bool {
        if std::mem::take(&mut self.cancel) {
            // If it cannot be cancelled, it goes on.
            let _ = self.request.cancel(permit);
        }
        // An error ends a request, too. It is dropped: no caller waits for this request.
        if matches!(self.request.test(permit), Ok(Progress::Pending)) {
            return false;
        }
        if self.persistent {
            let _ = self.request.free(permit);
        }
        true
    }
}
