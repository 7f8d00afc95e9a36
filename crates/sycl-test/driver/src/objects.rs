//! Handles, and the objects that they stand for.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use crate::lock::locked;
use crate::module::{Kernel, Module};
use crate::status::{INVALID_NULL_HANDLE, Status};
use crate::work::event::{Event, Point};
use crate::work::lane::Lane;
use crate::work::list::List;

/// A handle of any object.
pub(crate) type Handle = *mut c_void;

/// The only driver.
pub(crate) const DRIVER: usize = 0x10;
/// The only device.
pub(crate) const DEVICE: usize = 0x20;

pub(crate) static CONTEXTS: LazyLock<Table<()>> = LazyLock::new(Table::default);
pub(crate) static QUEUES: LazyLock<Table<Lane>> = LazyLock::new(Table::default);
pub(crate) static LISTS: LazyLock<Table<List>> = LazyLock::new(Table::default);
pub(crate) static FENCES: LazyLock<Table<Point>> = LazyLock::new(Table::default);
pub(crate) static POOLS: LazyLock<Table<Pool>> = LazyLock::new(Table::default);
pub(crate) static EVENTS: LazyLock<Table<Event>> = LazyLock::new(Table::default);
pub(crate) static MODULES: LazyLock<Table<Module>> = LazyLock::new(Table::default);
pub(crate) static LOGS: LazyLock<Table<String>> = LazyLock::new(Table::default);
pub(crate) static KERNELS: LazyLock<Table<Kernel>> = LazyLock::new(Table::default);

/// A pool of events.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Whether its events need no reset: a command that signals one gives it a new meaning.
    pub(crate) counts: bool,
    pub(crate) events: u32,
}

/// The objects of a kind that exist. A handle is not used again.
#[derive(Debug)]
pub(crate) struct Table<T>(Mutex<HashMap<usize, Arc<T>>>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table(Mutex::default())
    }
}

impl<T> Table<T> {
    pub(crate) fn insert(&self, object: T) -> Handle {
        static NEXT: AtomicUsize = AtomicUsize::new(0x1000);

        let handle = NEXT.fetch_add(16, Ordering::Relaxed);
        locked(&self.0).insert(handle, Arc::new(object));
        ptr::without_provenance_mut(handle)
    }

    pub(crate) fn get(&self, handle: Handle) -> Result<Arc<T>, Status> {
        locked(&self.0).get(&handle.addr()).cloned().ok_or(INVALID_NULL_HANDLE)
    }

    pub(crate) fn remove(&self, handle: Handle) -> Result<Arc<T>, Status> {
        locked(&self.0).remove(&handle.addr()).ok_or(INVALID_NULL_HANDLE)
    }
}

/// Refuses a handle that is not the driver's.
pub(crate) fn driver(handle: Handle) -> Result<(), Status> {
    if handle.addr() == DRIVER { Ok(()) } else { Err(INVALID_NULL_HANDLE) }
}

/// Refuses a handle that is not the device's.
pub(crate) fn device(handle: Handle) -> Result<(), Status> {
    if handle.addr() == DEVICE { Ok(()) } else { Err(INVALID_NULL_HANDLE) }
}
