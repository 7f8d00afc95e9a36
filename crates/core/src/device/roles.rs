//! Optional abilities of devices: a trait for each role, which [`Device`](super::Device) hands out.

use std::any::Any;
use std::sync::Arc;

use super::{
    CombineItem, DeviceError, DeviceId, Pointer, Stream, StreamGroup, StreamMessages, StreamMessagesOffer,
    WordOperation,
};

/// Streams whose work the calling thread does. For asynchronous devices only.
pub trait ImmediateStreams<S: Stream> {
    /// Makes a stream whose work the calling thread does alone, before the call returns, so that no thread of the
    /// device has to wake up. A wait for an event in it blocks the host.
    ///
    /// # Errors
    /// Errors of the driver.
    fn create_immediate_stream(&self) -> Result<S, DeviceError>;
}

/// Points in streams that the host opens.
pub trait Gates<S: Stream> {
    /// Puts a gate into `stream`: later work waits until the host calls or drops the returned function. While a gate
    /// is closed, the host makes no call that waits for the device or allocates, and [frees
    /// nothing](super::Device::defer_frees).
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] for an immediate stream, or if the driver refuses it there; errors of the driver.
    fn gate(&self, stream: &S) -> Result<Box<dyn FnOnce() + Send>, DeviceError>;

    /// Makes arrived writes of a network adapter to memory of this device visible to work that is already in streams,
    /// behind gates. Callers call it after the host has learnt of the arrival, and before they open these gates. Work
    /// that is put into streams later sees such writes in any case. Does not wait for work in streams. By default
    /// does nothing.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if that is impossible: then callers put no work that reads such memory behind
    /// gates. Errors of the driver.
    fn flush_remote_writes(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// Words that streams write and await, and copies that a word stops. They are in memory of the kind
/// [`MemoryKind::Pinned`](super::MemoryKind::Pinned), or in memory that is registered. `C` is the type of the
/// device's lists of copies.
pub trait StreamWords<S: Stream, C> {
    /// Makes memory of the host, such as memory that processes share, usable for
    /// [`put_words`](StreamWords::put_words) on this device until the result is dropped. `memory` is a multiple of
    /// 4096, as is `bytes`. Memory of the kind [`MemoryKind::Pinned`](super::MemoryKind::Pinned) is usable without
    /// this. May block.
    ///
    /// # Safety
    /// The memory stays mapped as long as `owner` lives, which the device drops when the memory is not registered any
    /// more, and which owns no memory of a device. It is registered once at a time in this process.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] for memory that the driver refuses; errors of the driver.
    unsafe fn register_words(
        &self,
        memory: Pointer,
        bytes: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Box<dyn Any + Send + Sync>, DeviceError>;

    /// Puts operations on words into `stream`, in this order. The driver does not know the order that words give. So
    /// while a stream awaits a word, the host makes no call that waits for the device or allocates memory, and [frees
    /// none](super::Device::defer_frees). If streams [share queues](super::DeviceInfo::shared_queues), the word is
    /// not written by work that this process puts into any stream of the device after the wait. Does not block.
    ///
    /// # Safety
    /// The words are in pinned memory of any device of this backend, or registered for this one, until the work is
    /// done. All others access them as atomics.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the driver refuses them in this stream; errors of the driver.
    unsafe fn put_words(&self, operations: &[WordOperation], stream: &S) -> Result<(), DeviceError>;

    /// As [`Device::run_copies`](super::Device::run_copies), but copies nothing if the word at `stop` is not 0 when
    /// the device gets there: the device then accesses no source and no target.
    ///
    /// # Safety
    /// As for [`Device::run_copies`](super::Device::run_copies), while the word is 0. The word is one for
    /// [`put_words`](StreamWords::put_words). Until this run is done, the list runs in no other stream.
    ///
    /// # Errors
    /// Errors of the driver.
    unsafe fn run_copies_unless(
        &self,
        stop: Pointer,
        copies: &C,
        bases: &[Pointer],
        stream: &S,
    ) -> Result<(), DeviceError>;
}

/// Copies that combine what they read with what is at their targets, for halos that are accumulated. `C` is the type of the
/// device's lists of copies.
pub trait Combining<C> {
    /// As [`Device::bind_copies`](super::Device::bind_copies), of copies that combine: a list that
    /// [`Device::run_copies`](super::Device::run_copies) runs. Its copies have no order among themselves, and no target
    /// overlaps another target or a source. Each target is read and written once: to run the list, targets are readable, too,
    /// and both ends are aligned for their elements.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for elements that cannot be combined so, for [`Combine::Replace`](super::Combine), which
    /// ordinary copies do, for runs of bytes that are no whole number of
    /// them, and as for
    /// [`Device::bind_copies`](super::Device::bind_copies).
    fn bind_combining(&self, items: Vec<CombineItem>) -> Result<C, DeviceError>;
}

/// Memory that other processes of the node reach.
pub trait MemoryExport<B> {
    /// Allocates device memory as [`Device::allocate`](super::Device::allocate) does, for data that other processes
    /// will map. The mapping holds no other memory of this process, so the size may be whole pages, such as 2 MiB.
    /// May block.
    ///
    /// # Errors
    /// As for [`Device::allocate`](super::Device::allocate).
    fn allocate_exportable(&self, bytes: usize) -> Result<B, DeviceError>;

    /// A token by which another process of this node finds the memory of `buffer`. Moves nothing.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] for a buffer that was imported or is not device memory from
    /// [`Device::allocate`](super::Device::allocate) or [`allocate_exportable`](MemoryExport::allocate_exportable);
    /// errors of the driver.
    fn export(&self, buffer: &B) -> Result<Vec<u8>, DeviceError>;

    /// The memory that a device of the same backend has [exported](MemoryExport::export) in another process, mapped
    /// until the returned buffer is dropped. May block.
    ///
    /// # Safety
    /// The other process keeps its buffer for as long.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for anything but such a token; [`DeviceError::NotFound`] if the other process
    /// does not hand the memory over; errors of the driver.
    unsafe fn import(&self, token: &[u8]) -> Result<B, DeviceError>;
}

/// Messages between ranks that streams send and receive.
pub trait StreamMessaging<S: Stream> {
    /// The processor and the library of this rank, for the ranks that are to form a group. All ranks exchange their
    /// offers, and form a group only if each has one and [`StreamMessagesOffer::reason_against_group`] finds no
    /// reason against it. Loads the library that moves the messages. May block, but waits for no rank.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] if the library is missing or too old; errors of the driver and the library.
    fn offer_stream_messages(&self) -> Result<StreamMessagesOffer, DeviceError>;

    /// Makes the token of a new group. One rank makes it, and gives it to all others. A token is for one group.
    ///
    /// # Errors
    /// As for [`offer_stream_messages`](StreamMessaging::offer_stream_messages).
    fn stream_messages_token(&self) -> Result<Vec<u8>, DeviceError>;

    /// Joins a group, together with all its other ranks, and connects to the peers. Blocks until they have done the
    /// same, at most until the time limit.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for a token, a rank or a peer that cannot be; errors of the driver and the
    /// library, also if ranks are missing at the time limit. One rank may get an error while others get none: the
    /// caller then aborts on all ranks.
    fn join_stream_messages(
        &self,
        group: &StreamGroup<'_>,
    ) -> Result<Box<dyn StreamMessages<S>>, DeviceError>;
}

/// Returns the role that a device hands out, or the error of a device that does not have it. `what` names the role.
///
/// # Errors
/// [`DeviceError::Unsupported`].
pub fn offered<'d, R: ?Sized>(
    role: Option<&'d R>,
    what: &'static str,
    device: DeviceId,
) -> Result<&'d R, DeviceError> {
    role.ok_or(DeviceError::Unsupported { what, device })
}
