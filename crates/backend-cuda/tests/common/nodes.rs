//! A transport as between nodes, for ranks that are threads: none reaches the memory of another.

use std::sync::Arc;

use haloport_core::comm::Communicator;
use haloport_core::transport::{Idle, Reach, Transport, TransportError, TransportInfo};

/// Passes messages on to the transport within.
#[derive(Debug)]
struct Nodes {
    inner: Arc<dyn Transport>,
    device_memory: bool,
}

/// A communicator of the same ranks, each as if on a node of its own. `device_memory`: it says that it takes memory of
/// devices, which it does not.
pub(crate) fn apart(comm: &Communicator, device_memory: bool) -> Communicator {
    // SAFETY: meanwhile the tests use the communicator within for nothing else.
    let inner = Arc::clone(unsafe { comm.raw_transport() });
    Communicator::new(Nodes { inner, device_memory })
}

// SAFETY: the transport within keeps the promises.
unsafe impl Transport for Nodes {
    haloport_conformance::unaltered_messages!();
    haloport_conformance::unaltered_channels!();

    fn info(&self) -> TransportInfo {
        let reach = Reach::Own { reason: "nodes are tested".into() };
        let device_memory = if self.device_memory { vec!["cuda"] } else { Vec::new() };
        TransportInfo { device_memory, reach, ..self.inner.info() }
    }

    fn sparse_exchange(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
        idle: Idle<'_>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError> {
        self.inner.sparse_exchange(messages, idle)
    }
}
