//! The device layer: streams, events, memory, asynchronous copies and kernels, behind one trait.
//!
//! A backend implements [`Device`] and proves it with the conformance suite. What only some devices can do is in a trait
//! for each role ([`Gates`], [`StreamWords`], …), which a device hands out if it has it. Many of the calls are unsafe, with
//! written contracts; the exchange above them is safe.
//!
//! To read on:
//!
//! - [`BoxCopy`] and [`IndexedCopy`]: the copies that packing, unpacking and copies between fields consist of;
//! - [`KernelSource`], with the prelude and the math functions of [`dialect`]: kernels with one source for all devices;
//! - [`KernelCache`]: compiled kernels on disk, for backends that compile at run time;

mod attached;
mod cache;
mod copy;
pub mod dialect;
mod engine;
mod error;
mod info;
mod interface;
mod kernel;
mod memory;
mod memory_kind;
mod roles;
mod stream;
mod stream_messages;
mod words;

pub use attached::{Attached, Detach};
pub use cache::{KernelCache, KernelKey, KernelParts};
pub use copy::{
    Anchors, BoxCopy, Combine, CombineItem, CopyAxis, CopyItem, CopyRows, IndexedCopy, MAX_COPY_AXES,
    NextReader, SignChange,
};
pub use engine::Engine;
pub use error::DeviceError;
pub use info::{Capabilities, DeviceId, DeviceInfo};
pub use interface::Device;
pub use kernel::{HostKernel, IndexRange, KernelArgument, KernelSource, LaunchConfig, ParameterType};
pub use memory::{Buffer, MemoryRange, Pointer};
pub use memory_kind::MemoryKind;
pub use roles::{Combining, Gates, ImmediateStreams, MemoryExport, StreamMessaging, StreamWords, offered};
pub use stream::{AnyStream, Event, Priority, Stream};
pub use stream_messages::{StreamGroup, StreamMessage, StreamMessages, StreamMessagesOffer};
pub use words::WordOperation;
