//! Reductions and broadcasts, which call `idle` while they wait.

use std::ops::Range;

use haloport_core::TransportError;
use haloport_core::transport::{Idle, Reduction};

use crate::endpoint::{Endpoint, OwnedRequest};
use crate::raw::{Comm, Permit, Request};

/// Maximum size of one broadcast in bytes: MPICH 4.0 fails with more than 2 GiB.
const PIECE: usize = 1 << 30;

impl Endpoint {
    pub(crate) fn all_reduce(
        &self,
        values: &mut [u64],
        reduction: Reduction,
        idle: Idle<'_>,
    ) -> Result<(), TransportError> {
        // MPICH 4.0 compares unsigned integers as if they were signed: map them to signed integers in the same order.
        let shift = if reduction == Reduction::Sum { 0 } else { 1 << 63 };
        let memory = (values.iter().map(|value| value ^ shift).collect(), vec![0; values.len()]);
        let begin = |permit: &Permit, comm, (from, to): &mut (Vec<u64>, Vec<u64>)| {
            // SAFETY: the vectors have one length, and the request owns them until it is complete.
            unsafe { Request::all_reduce(permit, comm, from, to.as_mut_ptr(), reduction) }
        };
        let (_, reduced) = self.collective(memory, begin, idle)?;
        values.iter_mut().zip(&reduced).for_each(|(value, reduced)| *value = reduced ^ shift);
        Ok(())
    }

    pub(crate) fn broadcast(
        &self,
        root: usize,
        bytes: &mut Vec<u8>,
        idle: Idle<'_>,
    ) -> Result<(), TransportError> {
        let length = (bytes.len() as u64).to_ne_bytes().to_vec();
        let length = self.broadcast_range(root, length, 0..size_of::<u64>(), idle)?;
        let length = length.try_into().map_or(0, u64::from_ne_bytes) as usize;
        let mut content = if self.rank == root { std::mem::take(bytes) } else { vec![0; length] };
        for begin in (0..length).step_by(PIECE) {
            let end = length.min(begin.saturating_add(PIECE));
            content = self.broadcast_range(root, content, begin..end, idle)?;
        }
        *bytes = content;
        Ok(())
    }

    /// Broadcasts the bytes in `range`, which is the same on all ranks.
    fn broadcast_range(
        &self,
        root: usize,
        bytes: Vec<u8>,
        range: Range<usize>,
        idle: Idle<'_>,
    ) -> Result<Vec<u8>, TransportError> {
        let begin = |permit: &Permit, comm, bytes: &mut Vec<u8>| {
            let part = &mut bytes[range];
            // SAFETY: the request owns the vector until it is complete.
            unsafe { Request::broadcast(permit, comm, (part.as_mut_ptr(), part.len()), root) }
        };
        self.collective(bytes, begin, idle)
    }

    /// Begins a collective that uses `memory`, and blocks until it is complete.
    fn collective<M: Send + Sync + 'static>(
        &self,
        memory: M,
        begin: impl FnOnce(&Permit, Comm, &mut M) -> Result<Request, TransportError>,
        idle: Idle<'_>,
    ) -> Result<M, TransportError> {
        let mut memory = memory;
        let locked = self.lock_for_collective()?;
        let request = begin(&locked.permit, self.setup, &mut memory)?;
        drop(locked);
        let mut request = OwnedRequest::new(self, request, memory);
        loop {
            if let Some(memory) = request.poll()? {
                return Ok(memory);
            }
            idle()?;
        }
    }
}
