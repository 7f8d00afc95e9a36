//! The memory of fields that own it, and whether an exchange is using it.

use std::any::Any;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::device::{Buffer, Device, DeviceError, Pointer, offered};
use crate::transport::{Lease, Transport};

/// The memory of a field, and whether an exchange is using it.
#[derive(Debug)]
pub(crate) struct Storage {
    in_flight: AtomicBool,
    /// The number of parts of abandoned exchanges with messages under way from the memory or to it.
    holds: AtomicUsize,
    /// The work of asynchronous devices that may still be writing the memory.
    writers: Mutex<Vec<Weak<dyn LastWrite>>>,
    pub(super) host_accessible: bool,
    memory: Memory,
}

/// The latest work of a device that writes a field.
pub(crate) trait LastWrite: Debug + Send + Sync {
    /// Blocks the host until the work is done.
    fn wait(&self) -> Result<(), DeviceError>;
}

/// The owner of the memory of a field.
#[derive(Debug)]
pub(super) enum Memory {
    /// Memory that neighbours on this node can map, in part or as a whole.
    Leased(Lease),
    /// Memory that the device has allocated.
    Allocated(Box<dyn Exportable>),
    /// Memory of the caller whose pages may be replaced, so that neighbours on this node can map it; the lease, once they can.
    Movable { lease: OnceLock<Lease>, _owner: Box<dyn Any + Send + Sync> },
    /// Memory of the caller.
    Other { _owner: Box<dyn Any + Send + Sync> },
}

/// Memory that a device has allocated, and may export.
pub(crate) trait Exportable: Debug + Send + Sync {
    /// The first address.
    fn begin(&self) -> Pointer;
    /// See [`MemoryExport::export`](crate::device::MemoryExport::export).
    fn export(&self) -> Result<Vec<u8>, DeviceError>;
}

/// A buffer and its device.
#[derive(Debug)]
pub(super) struct Allocated<D: Device> {
    pub(super) device: D,
    pub(super) buffer: D::Buffer,
}

impl<D: Device> Exportable for Allocated<D> {
    fn begin(&self) -> Pointer {
        self.buffer.pointer()
    }

    fn export(&self) -> Result<Vec<u8>, DeviceError> {
        offered(self.device.memory_export(), "memory that other processes reach", self.device.id())?
            .export(&self.buffer)
    }
}

impl Storage {
    pub(super) fn new(host_accessible: bool, memory: Memory) -> Storage {
        let (in_flight, holds) = (AtomicBool::new(false), AtomicUsize::new(0));
        Storage { in_flight, holds, writers: Mutex::default(), host_accessible, memory }
    }

    /// The memory, if neighbours on this node can map any of it.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        match &self.memory {
            Memory::Leased(lease) => Some(lease),
            Memory::Movable { lease, .. } => lease.get(),
            Memory::Allocated(_) | Memory::Other { .. } => None,
        }
    }

    /// Whether pages of the memory may be replaced.
    pub(crate) fn is_movable(&self) -> bool {
        matches!(self.memory, Memory::Movable { .. })
    }

    /// Lets neighbours on this node map the memory, if its pages may be replaced and were not yet. `ranges` are addresses
    /// and lengths in bytes. Other memory stays as it is.
    ///
    /// # Errors
    /// As for [`Transport::share_in_place`].
    pub(crate) fn share_in_place(
        &self,
        transport: &dyn Transport,
        ranges: impl FnOnce() -> Vec<(Pointer, usize)>,
    ) -> Result<(), String> {
        let Memory::Movable { lease, .. } = &self.memory else { return Ok(()) };
        if lease.get().is_none() {
            // SAFETY: the promise of the caller of `AnyField::from_raw_movable`; the lease is dropped before the owner of the
            // memory.
            if let Some(shared) = unsafe { transport.share_in_place(&ranges())? } {
                // If another thread was first, its lease stays, and this one is dropped.
                let _ = lease.set(shared);
            }
        }
        Ok(())
    }

    /// The memory, if a device has allocated it for the field.
    pub(crate) fn allocated(&self) -> Option<&dyn Exportable> {
        match &self.memory {
            Memory::Allocated(memory) => Some(&**memory),
            Memory::Leased(_) | Memory::Movable { .. } | Memory::Other { .. } => None,
        }
    }

    /// Marks the memory as in flight; `false` if it is already.
    pub(crate) fn take_off(&self) -> bool {
        if self.in_flight.swap(true, Ordering::AcqRel) {
            return false;
        }
        // Holds begin only in flight: if there are none now, there are none until an exchange begins one.
        let held = self.holds.load(Ordering::Acquire) > 0;
        if held {
            self.land();
        }
        !held
    }

    /// Marks the memory as at rest, unless it is held.
    pub(crate) fn land(&self) {
        self.in_flight.store(false, Ordering::Release);
    }

    /// Keeps the memory, which is in flight, in flight until [`release`](Storage::release).
    pub(crate) fn hold(&self) {
        self.holds.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends one hold.
    pub(crate) fn release(&self) {
        self.holds.fetch_sub(1, Ordering::AcqRel);
    }

    /// Makes access from the host wait for `writer` as long as that is alive; it waits itself before it is dropped.
    pub(crate) fn written_by<W: LastWrite + 'static>(&self, writer: &Arc<W>) {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.retain(|writer| writer.strong_count() > 0);
        if !writers.iter().any(|known| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(writer))) {
            let writer: Weak<W> = Arc::downgrade(writer);
            writers.push(writer);
        }
    }

    /// Blocks the host until no device writes the memory.
    pub(super) fn wait_for_writers(&self) -> Result<(), DeviceError> {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.iter().filter_map(Weak::upgrade).try_for_each(|writer| writer.wait())
    }

    pub(super) fn is_in_flight(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) || self.holds.load(Ordering::Acquire) > 0
    }
}
