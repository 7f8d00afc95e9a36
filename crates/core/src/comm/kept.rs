//! A value for each device, which all exchanges of a communicator on that device share.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::DeviceId;

/// One value for each device, kept as long as the communicator.
#[derive(Default)]
pub(crate) struct KeptByDevice(Mutex<BTreeMap<DeviceId, Arc<dyn Any + Send + Sync>>>);

impl KeptByDevice {
    /// The value of `device`; `None` if there is none of this type.
    pub(crate) fn get<T: Any + Send + Sync>(&self, device: DeviceId) -> Option<Arc<T>> {
        let kept = self.lock().get(&device).cloned();
        kept.and_then(|kept| kept.downcast().ok())
    }

    /// Replaces the value of `device`.
    pub(crate) fn set<T: Any + Send + Sync>(&self, device: DeviceId, value: Arc<T>) {
        let before = self.lock().insert(device, value);
        // Dropped without the lock: that may take long.
        drop(before);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<DeviceId, Arc<dyn Any + Send + Sync>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
