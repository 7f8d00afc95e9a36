//! Collectives, which call `idle` while they wait.

use std::ops::Range;
use std::sync::Arc;

use haloport_core::TransportError;
use haloport_core::transport::{Idle, Reduction};

use crate::endpoint::Endpoint;
use crate::ghosts::Ghost;
use crate::raw::{Comm, Permit, Progress, Request};

/// The most that one broadcast carries: MPICH 4.0 fails with more than 2 GiB.
const PIECE: usize = 1 << 30;

impl Endpoint {
    pub(crate) fn all_reduce(
        &self,
        values: &mut [u64],
        reduction: Reduction,
        idle: Idle<'_>,
    ) -> Result<(), TransportError> {
        // MPICH 4.0 takes unsigned integers for signed ones when it compares: give it signed ones of the same order.
        let shift = if reduction == Reduction::Sum { 0 } else { 1 << 63 };
        let memory = (values.iter().map(|value| value ^ shift).collect(), vec![0; values.len()]);
        let begin = |permit: &Permit, comm, (from, to): &mut (Vec<u64>, Vec<u64>)| {
            // SAFETY: the collective keeps the vectors, of one length, until it is complete.
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

    /// Gives all ranks the bytes in `range`, which all know.
    fn broadcast_range(
        &self,
        root: usize,
        bytes: Vec<u8>,
        range: Range<usize>,
        idle: Idle<'_>,
    ) -> Result<Vec<u8>, TransportError> {
        let begin = |permit: &Permit, comm, bytes: &mut Vec<u8>| {
            let part = &mut bytes[range];
            // SAFETY: the collective keeps the vector until it is complete.
            unsafe { Request::broadcast(permit, comm, (part.as_mut_ptr(), part.len()), root) }
        };
        self.collective(bytes, begin, idle)
    }

    /// Begins a collective that uses memory of `memory`, and waits until it is complete.
    fn collective<M: Send + Sync + 'static>(
        &self,
        memory: M,
        begin: impl FnOnce(&Permit, Comm, &mut M) -> Result<Request, TransportError>,
        idle: Idle<'_>,
    ) -> Result<M, TransportError> {
        let mut memory = memory;
        let entry = self.enter_setup()?;
        let request = begin(&entry.permit, self.setup, &mut memory)?;
        drop(entry);
        let mut flying = Flying::new(self, request, memory);
        loop {
            if let Some(memory) = flying.poll()? {
                return Ok(memory);
            }
            idle()?;
        }
    }
}

/// A request of setup with the memory that it uses. If it is dropped before it is complete, also by a panic, the
/// endpoint keeps the memory.
pub(crate) struct Flying<'e, M: Send + Sync + 'static> {
    endpoint: &'e Endpoint,
    flight: Option<(Request, M)>,
}

impl<'e, M: Send + Sync + 'static> Flying<'e, M> {
    pub(crate) fn new(endpoint: &'e Endpoint, request: Request, memory: M) -> Flying<'e, M> {
        Flying { endpoint, flight: Some((request, memory)) }
    }

    /// Whether it was not complete when it was last polled.
    pub(crate) fn is_flying(&self) -> bool {
        self.flight.is_some()
    }

    /// Makes progress, and gives the memory back once the request is complete; `None` as long as it is not, and
    /// after it was given back.
    pub(crate) fn poll(&mut self) -> Result<Option<M>, TransportError> {
        let Some((request, _)) = &mut self.flight else { return Ok(None) };
        let entry = self.endpoint.enter()?;
        match request.test(&entry.permit)? {
            Progress::Pending => Ok(None),
            Progress::Done(_) => Ok(self.flight.take().map(|(_, memory)| memory)),
            Progress::Truncated(_, message) => Err(TransportError::Layer { call: "MPI_Test", message }),
        }
    }
}

impl<M: Send + Sync + 'static> Drop for Flying<'_, M> {
    fn drop(&mut self) {
        if let Some((request, memory)) = self.flight.take() {
            let keep = Some(Arc::new(memory) as _);
            self.endpoint.give_up(Ghost { request, persistent: false, cancel: false, keep });
        }
    }
}
