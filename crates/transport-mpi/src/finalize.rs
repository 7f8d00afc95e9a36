//! What happens when the owner of MPI finalises it: all transports are shut first, while MPI still runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haloport_core::TransportError;

use crate::endpoint::Endpoint;
use crate::raw::{self, Permit};

/// All endpoints that `MPI_Finalize` would have to shut.
static REGISTRY: Mutex<Registry> = Mutex::new(Registry { attached: false, endpoints: Vec::new() });

struct Registry {
    /// The callback is set.
    attached: bool,
    endpoints: Vec<Arc<Endpoint>>,
}

/// Has `endpoint` shut before MPI is finalised.
pub(crate) fn register(permit: &Permit, endpoint: &Arc<Endpoint>) -> Result<(), TransportError> {
    let mut registry = lock();
    if !registry.attached {
        raw::set_finalize_callback(permit, shut_all)?;
        registry.attached = true;
    }
    registry.endpoints.push(Arc::clone(endpoint));
    Ok(())
}

/// Forgets an endpoint that needs it no more.
pub(crate) fn unregister(endpoint: &Arc<Endpoint>) {
    lock().endpoints.retain(|other| !Arc::ptr_eq(other, endpoint));
}

/// Called by `MPI_Finalize`.
fn shut_all() {
    let endpoints = std::mem::take(&mut lock().endpoints);
    endpoints.iter().for_each(|endpoint| endpoint.shut());
}

fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}
