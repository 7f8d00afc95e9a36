//! Transports of tests that do what another one does, but for an alteration.

#[doc(no_inline)]
pub use haloport_core::device::MemoryRange;
#[doc(no_inline)]
pub use haloport_core::transport::{Channel, Direction, Idle, Incoming, Reduction, TransportError};

/// Writes, within an implementation of [`Transport`](haloport_core::transport::Transport) for a structure with a transport
/// `inner`, the ranks, the messages without channels and the collectives but for `sparse_exchange`, all as that transport has
/// them.
#[macro_export]
macro_rules! unaltered_messages {
    () => {
        fn rank(&self) -> usize {
            self.inner.rank()
        }

        fn size(&self) -> usize {
            self.inner.size()
        }

        fn notify(&self, peer: usize) {
            self.inner.notify(peer);
        }

        fn send_message(
            &self,
            peer: usize,
            tag: u32,
            bytes: Vec<u8>,
        ) -> Result<(), $crate::test_transports::TransportError> {
            self.inner.send_message(peer, tag, bytes)
        }

        fn receive_message(
            &self,
            tag: u32,
        ) -> Result<$crate::test_transports::Incoming, $crate::test_transports::TransportError> {
            self.inner.receive_message(tag)
        }

        fn unreceived(&self, tag: u32) -> Result<Vec<usize>, $crate::test_transports::TransportError> {
            self.inner.unreceived(tag)
        }

        fn discard_messages(&self, tag: u32) {
            self.inner.discard_messages(tag);
        }

        fn relax(&self, round: u32) -> Result<(), $crate::test_transports::TransportError> {
            self.inner.relax(round)
        }

        fn ended_ranks(&self) -> Vec<usize> {
            self.inner.ended_ranks()
        }

        fn all_reduce(
            &self,
            values: &mut [u64],
            reduction: $crate::test_transports::Reduction,
            idle: $crate::test_transports::Idle<'_>,
        ) -> Result<(), $crate::test_transports::TransportError> {
            self.inner.all_reduce(values, reduction, idle)
        }

        fn broadcast(
            &self,
            root: usize,
            bytes: &mut Vec<u8>,
            idle: $crate::test_transports::Idle<'_>,
        ) -> Result<(), $crate::test_transports::TransportError> {
            self.inner.broadcast(root, bytes, idle)
        }
    };
}

/// Writes the channels in the same way.
#[macro_export]
macro_rules! unaltered_channels {
    () => {
        unsafe fn open_parts(
            &self,
            direction: $crate::test_transports::Direction,
            peer: usize,
            tag: u32,
            parts: &[$crate::test_transports::MemoryRange],
        ) -> Result<$crate::test_transports::Channel, $crate::test_transports::TransportError> {
            // SAFETY: the caller's promise.
            unsafe { self.inner.open_parts(direction, peer, tag, parts) }
        }

        unsafe fn post(
            &self,
            channel: $crate::test_transports::Channel,
        ) -> Result<(), $crate::test_transports::TransportError> {
            // SAFETY: the caller's promise.
            unsafe { self.inner.post(channel) }
        }

        fn test(
            &self,
            channel: $crate::test_transports::Channel,
        ) -> Result<bool, $crate::test_transports::TransportError> {
            self.inner.test(channel)
        }

        unsafe fn close(
            &self,
            channel: $crate::test_transports::Channel,
            keep: std::sync::Arc<dyn std::any::Any + Send + Sync>,
        ) {
            // SAFETY: the caller's promise.
            unsafe { self.inner.close(channel, keep) }
        }
    };
}
