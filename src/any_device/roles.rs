//! The roles of `AnyDevice`: it has those that the device inside has.

use std::any::Any;
use std::sync::Arc;

use haloport_core::device::{
    self, CombineItem, Combining, Device, DeviceError, Gates, ImmediateStreams, MemoryExport, Pointer,
    StreamGroup, StreamMessage, StreamMessages, StreamMessagesOffer, StreamMessaging, StreamWords,
    WordOperation, offered,
};

use super::device::{inside_all, wrapped};
use super::values::inside;
use super::{AnyDevice, Buffer, Copies, Stream};

impl ImmediateStreams<Stream> for AnyDevice {
    fn create_immediate_stream(&self) -> Result<Stream, DeviceError> {
        let what = "streams whose work the calling thread does";
        Ok(wrapped!(self, Stream, |device| {
            offered(device.immediate_streams(), what, device.id())?.create_immediate_stream()?
        }))
    }
}

impl Gates<Stream> for AnyDevice {
    fn gate(&self, stream: &Stream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
        inside_all!(self, stream: Stream => |device| offered(device.gates(), GATES, device.id())?.gate(stream))
    }

    fn flush_remote_writes(&self) -> Result<(), DeviceError> {
        inside!(self, |device| offered(device.gates(), GATES, device.id())?.flush_remote_writes())
    }
}

impl StreamWords<Stream, Copies> for AnyDevice {
    unsafe fn register_words(
        &self,
        memory: Pointer,
        bytes: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Box<dyn Any + Send + Sync>, DeviceError> {
        inside!(self, |device| {
            let words = offered(device.stream_words(), WORDS, device.id())?;
            // SAFETY: the caller's promise, which is about the device inside.
            unsafe { words.register_words(memory, bytes, owner) }
        })
    }

    unsafe fn put_words(&self, operations: &[WordOperation], stream: &Stream) -> Result<(), DeviceError> {
        inside_all!(self, stream: Stream => |device| {
            let words = offered(device.stream_words(), WORDS, device.id())?;
            // SAFETY: as for `register_words`.
            unsafe { words.put_words(operations, stream) }
        })
    }

    unsafe fn run_copies_unless(
        &self,
        stop: Pointer,
        copies: &Copies,
        bases: &[Pointer],
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        inside_all!(self, copies: Copies, stream: Stream => |device| {
            let words = offered(device.stream_words(), WORDS, device.id())?;
            // SAFETY: as for `register_words`.
            unsafe { words.run_copies_unless(stop, copies, bases, stream) }
        })
    }
}

impl Combining<Copies> for AnyDevice {
    fn bind_combining(&self, items: Vec<CombineItem>) -> Result<Copies, DeviceError> {
        Ok(wrapped!(self, Copies, |device| {
            offered(device.combining(), "copies that combine", device.id())?.bind_combining(items)?
        }))
    }
}

impl MemoryExport<Buffer> for AnyDevice {
    fn allocate_exportable(&self, bytes: usize) -> Result<Buffer, DeviceError> {
        Ok(wrapped!(self, Buffer, |device| {
            offered(device.memory_export(), EXPORT, device.id())?.allocate_exportable(bytes)?
        }))
    }

    fn export(&self, buffer: &Buffer) -> Result<Vec<u8>, DeviceError> {
        inside_all!(self, buffer: Buffer => |device| {
            offered(device.memory_export(), EXPORT, device.id())?.export(buffer)
        })
    }

    unsafe fn import(&self, token: &[u8]) -> Result<Buffer, DeviceError> {
        Ok(wrapped!(self, Buffer, |device| {
            let export = offered(device.memory_export(), EXPORT, device.id())?;
            // SAFETY: the caller's promise, which is about the device inside.
            unsafe { export.import(token)? }
        }))
    }
}

impl StreamMessaging<Stream> for AnyDevice {
    fn offer_stream_messages(&self) -> Result<StreamMessagesOffer, DeviceError> {
        inside!(self, |device| {
            offered(device.stream_messaging(), MESSAGES, device.id())?.offer_stream_messages()
        })
    }

    fn stream_messages_token(&self) -> Result<Vec<u8>, DeviceError> {
        inside!(self, |device| {
            offered(device.stream_messaging(), MESSAGES, device.id())?.stream_messages_token()
        })
    }

    fn join_stream_messages(
        &self,
        group: &StreamGroup<'_>,
    ) -> Result<Box<dyn StreamMessages<Stream>>, DeviceError> {
        inside!(self, |device| {
            let joined =
                offered(device.stream_messaging(), MESSAGES, device.id())?.join_stream_messages(group)?;
            Ok(Box::new(Inside(joined)))
        })
    }
}

const GATES: &str = "gates in streams";
const WORDS: &str = "words in streams";
const EXPORT: &str = "memory that other processes reach";
const MESSAGES: &str = "messages in streams";

/// A group of a device inside, whose streams are of type `S`.
#[derive(Debug)]
struct Inside<S>(Box<dyn StreamMessages<S>>);

impl<S: device::Stream> StreamMessages<Stream> for Inside<S> {
    unsafe fn exchange(
        &self,
        sends: &[StreamMessage],
        receives: &[StreamMessage],
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let Some(stream) = S::of_any(device::Stream::as_any(stream)) else {
            let found = device::Stream::device(stream);
            return Err(DeviceError::invalid("stream", "one of the backend of the group", found));
        };
        // SAFETY: the caller's promise, which is about the group inside.
        unsafe { self.0.exchange(sends, receives, &stream) }
    }

    fn check(&self) -> Result<(), DeviceError> {
        self.0.check()
    }

    fn abort(&self) {
        self.0.abort();
    }
}
