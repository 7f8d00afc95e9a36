//! The end of MPI: when its owner finalises it, all transports are shut first, while MPI still runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haloport_core::TransportError;

use crate::endpoint::Endpoint;
use crate::raw;

/// All endpoints that must be shut before MPI is finalised.
static REGISTRY: Mutex<Registry> = Mutex::new(Registry { attached: false, endpoints: Vec::new() });

struct Registry {
    /// Whether the callback is set.
    attached: bool,
    endpoints: Vec<Arc<Endpoint>>,
}

/// Arranges that `endpoint` is shut before MPI is finalised.
pub(crate) fn register(endpoint: &Arc<Endpoint>) -> Result<(), TransportError> {
    let locked = endpoint.lock()?;
    let mut registry = registry();
    if !registry.attached {
        raw::set_finalize_callback(&locked.permit, shut_all)?;
        registry.attached = true;
    }
    registry.endpoints.push(Arc::clone(endpoint));
    Ok(())
}

/// Removes an endpoint for which nothing is left to do.
pub(crate) fn unregister(endpoint: &Arc<Endpoint>) {
    registry().endpoints.retain(|other| !Arc::ptr_eq(other, endpoint));
}

/// Called by `MPI_Finalize`.
fn shut_all() {
    let endpoints = std::mem::take(&mut registry().endpoints);
    endpoints.iter().for_each(|endpoint| endpoint.shut());
}

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}
