//! The attachment of a thread to a device, kept for several calls.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The attachment of the calling thread to a device, from [`Device::attach`](super::Device::attach), until it is dropped.
/// Drop several in the reverse order of their creation. The default one attaches nothing.
#[must_use = "the thread is attached only until this is dropped"]
#[derive(Default)]
pub struct Attached {
    end: Option<(Arc<dyn Detach>, usize)>,
    /// Not `Send`: it belongs to the thread.
    of_this_thread: PhantomData<*const ()>,
}

/// The end of an attachment, for authors of backends.
pub trait Detach: Send + Sync {
    /// Ends the attachment of this thread. `state` is the number that was passed to [`Attached::new`]. Does not panic.
    fn detach(&self, state: usize);
}

impl Attached {
    /// An attachment that calls [`Detach::detach`] with `state` when it is dropped. Allocates nothing.
    pub fn new(end: Arc<dyn Detach>, state: usize) -> Attached {
        Attached { end: Some((end, state)), of_this_thread: PhantomData }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some((end, state)) = &self.end {
            end.detach(*state);
        }
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("ends", &self.end.is_some()).finish()
    }
}
