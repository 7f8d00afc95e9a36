//! A group of ranks whose streams send each other messages. All exchanges of a communicator on one device share it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::{Device, DeviceError, StreamMessage, StreamMessages};

/// A group that this rank has joined with a device of type `D`.
pub(crate) struct SharedGroup<D: Device> {
    messages: Box<dyn StreamMessages<D::Stream>>,
    /// Set before the group is aborted, and so before the streams that wait in it go on.
    is_aborted: AtomicBool,
}

/// A [`SharedGroup`], independent of the device's type.
pub(crate) trait AnyGroup: Send + Sync {
    fn is_aborted(&self) -> bool;
    /// Ends all exchanges of the group, those of other flights, too. Does not block.
    fn abort(&self);
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<D: Device> SharedGroup<D> {
    pub(crate) fn new(messages: Box<dyn StreamMessages<D::Stream>>) -> SharedGroup<D> {
        SharedGroup { messages, is_aborted: AtomicBool::new(false) }
    }

    /// As [`StreamMessages::exchange`].
    ///
    /// # Safety
    /// As for [`StreamMessages::exchange`].
    pub(crate) unsafe fn exchange(
        &self,
        sends: &[StreamMessage],
        receives: &[StreamMessage],
        stream: &D::Stream,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller guarantees it.
        unsafe { self.messages.exchange(sends, receives, stream) }
    }

    /// Returns the first error of all exchanges of the group. Does not block.
    pub(crate) fn check(&self) -> Result<(), DeviceError> {
        self.messages.check()
    }
}

impl<D: Device> AnyGroup for SharedGroup<D> {
    fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::Acquire)
    }

    fn abort(&self) {
        self.is_aborted.store(true, Ordering::Release);
        self.messages.abort();
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl<D: Device> fmt::Debug for SharedGroup<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedGroup { messages, is_aborted } = self;
        f.debug_struct("SharedGroup").field("messages", messages).field("is_aborted", is_aborted).finish()
    }
}
