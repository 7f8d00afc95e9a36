//! Requests: messages and collectives under way.

use std::ffi::c_int;

use haloport_core::TransportError;
use haloport_core::transport::Reduction;

use super::abi::{self, SUCCESS};
use super::comm::Comm;
use super::handle::Handle;
use super::permit::{Permit, check, message};
use super::span::Span;
use crate::error::failed;

/// A handle of a request. It is plain data: a persistent request is freed by [`Request::free`], any other by the test
/// that finds it complete.
///
/// # Safety of the functions that make one
/// The communicator is valid. From the call on, or for a persistent request from each [`Request::start`] on, until the
/// request is complete, the memory is valid; nothing else writes memory that MPI reads, or uses memory that MPI writes.
/// A persistent request is complete before its memory is freed.
#[derive(Debug)]
pub(crate) struct Request(Handle);

/// The progress of a request.
pub(crate) enum Progress {
    Pending,
    Done(Status),
    /// A message was longer than the memory for it.
    Truncated(Status, String),
}

/// The properties of a message that has arrived.
pub(crate) struct Status(abi::Status);

/// A message that was matched and can be received.
pub(crate) struct Arrival {
    message: Handle,
    pub(crate) source: usize,
    pub(crate) bytes: usize,
}

/// The mode of a request to send.
pub(crate) enum SendMode {
    /// Persistent: started by [`Request::start`].
    Persistent,
    /// Begun at once, and complete when its receiver has begun to receive it.
    Synchronous,
}

impl Request {
    /// A request to send.
    ///
    /// # Safety
    /// See [`Request`].
    pub(crate) unsafe fn send(
        permit: &Permit,
        mode: SendMode,
        comm: Comm,
        (from, bytes): (*const u8, usize),
        peer: usize,
        tag: u32,
    ) -> Result<Request, TransportError> {
        let span = Span::new(permit, bytes)?;
        let call = match mode {
            SendMode::Persistent => "MPI_Send_init",
            SendMode::Synchronous => "MPI_Issend",
        };
        Request::make(permit, call, |request| {
            let (from, peer, tag, comm) = (from.cast(), peer as c_int, tag as c_int, comm.handle());
            let functions = permit.functions();
            // SAFETY: MPI is running by the permit; the memory is as long as the span; the caller's promise for it.
            unsafe {
                match mode {
                    SendMode::Persistent => {
                        functions.MPI_Send_init(from, span.count, span.datatype, peer, tag, comm, request)
                    }
                    SendMode::Synchronous => {
                        functions.MPI_Issend(from, span.count, span.datatype, peer, tag, comm, request)
                    }
                }
            }
        })
    }

    /// A persistent request to receive.
    ///
    /// # Safety
    /// See [`Request`].
    pub(crate) unsafe fn receive_init(
        permit: &Permit,
        comm: Comm,
        (to, bytes): (*mut u8, usize),
        peer: usize,
        tag: u32,
    ) -> Result<Request, TransportError> {
        let span = Span::new(permit, bytes)?;
        Request::make(permit, "MPI_Recv_init", |request| {
            let (peer, tag) = (peer as c_int, tag as c_int);
            // SAFETY: as for `send`.
            unsafe {
                permit.functions().MPI_Recv_init(
                    to.cast(),
                    span.count,
                    span.datatype,
                    peer,
                    tag,
                    comm.handle(),
                    request,
                )
            }
        })
    }

    /// Begins to receive a matched message.
    ///
    /// # Safety
    /// See [`Request`]; the memory is as long as the message.
    pub(crate) unsafe fn receive(
        permit: &Permit,
        arrival: Arrival,
        to: *mut u8,
    ) -> Result<Request, TransportError> {
        let span = Span::new(permit, arrival.bytes)?;
        let mut message = arrival.message;
        Request::make(permit, "MPI_Imrecv", |request| {
            // SAFETY: MPI is running by the permit; by the caller's promise the memory is as long as the message.
            unsafe {
                permit.functions().MPI_Imrecv(to.cast(), span.count, span.datatype, &mut message, request)
            }
        })
    }

    /// Collective: begins a barrier.
    pub(crate) fn barrier(permit: &Permit, comm: Comm) -> Result<Request, TransportError> {
        // SAFETY: MPI is running by the permit; the handle is valid.
        Request::make(permit, "MPI_Ibarrier", |request| unsafe {
            permit.functions().MPI_Ibarrier(comm.handle(), request)
        })
    }

    /// Collective: begins to reduce values of all ranks into `to`. The largest and the smallest are those of signed
    /// integers.
    ///
    /// # Safety
    /// See [`Request`]; both ranges are of the same length.
    pub(crate) unsafe fn all_reduce(
        permit: &Permit,
        comm: Comm,
        from: &[u64],
        to: *mut u64,
        reduction: Reduction,
    ) -> Result<Request, TransportError> {
        let too_many = || format!("{} values are more than MPI can count", from.len());
        let count = c_int::try_from(from.len()).map_err(|_| failed("MPI_Iallreduce", too_many()))?;
        let constants = permit.constants();
        let (operation, kind) = match reduction {
            Reduction::Max => (constants.max, constants.int64),
            Reduction::Min => (constants.min, constants.int64),
            Reduction::Sum => (constants.sum, constants.uint64),
        };
        Request::make(permit, "MPI_Iallreduce", |request| {
            let (from, to) = (from.as_ptr().cast(), to.cast());
            // SAFETY: MPI is running by the permit; the caller's promise for the memory.
            unsafe {
                permit.functions().MPI_Iallreduce(from, to, count, kind, operation, comm.handle(), request)
            }
        })
    }

    /// Collective: begins to broadcast the bytes of rank `root` to all ranks.
    ///
    /// # Safety
    /// See [`Request`].
    pub(crate) unsafe fn broadcast(
        permit: &Permit,
        comm: Comm,
        (memory, bytes): (*mut u8, usize),
        root: usize,
    ) -> Result<Request, TransportError> {
        let span = Span::new(permit, bytes)?;
        Request::make(permit, "MPI_Ibcast", |request| {
            let root = root as c_int;
            // SAFETY: MPI is running by the permit; the caller's promise for the memory.
            unsafe {
                permit.functions().MPI_Ibcast(
                    memory.cast(),
                    span.count,
                    span.datatype,
                    root,
                    comm.handle(),
                    request,
                )
            }
        })
    }

    /// Starts a persistent request that is not under way.
    ///
    /// # Safety
    /// See [`Request`].
    pub(crate) unsafe fn start(&mut self, permit: &Permit) -> Result<(), TransportError> {
        // SAFETY: MPI is running by the permit; the caller's promise for the memory.
        check(permit, "MPI_Start", unsafe { permit.functions().MPI_Start(&mut self.0) })
    }

    /// Makes progress, and returns how far the request is.
    pub(crate) fn test(&mut self, permit: &Permit) -> Result<Progress, TransportError> {
        let (mut complete, mut status): (c_int, _) = (0, abi::Status::default());
        // SAFETY: MPI is running by the permit; the request is valid, or null once it is complete, which is legal.
        let code = unsafe { permit.functions().MPI_Test(&mut self.0, &mut complete, &mut status) };
        match (code, complete != 0) {
            (SUCCESS, false) => return Ok(Progress::Pending),
            (SUCCESS, true) => return Ok(Progress::Done(Status(status))),
            _ => {}
        }
        let mut class: c_int = 0;
        // SAFETY: MPI is running by the permit; writes one integer.
        unsafe { permit.functions().MPI_Error_class(code, &mut class) };
        if class == permit.constants().err_truncate {
            return Ok(Progress::Truncated(Status(status), message(permit, code)));
        }
        check(permit, "MPI_Test", code).map(|()| Progress::Pending)
    }

    /// Asks MPI to cancel it. It must still be tested until it is complete.
    pub(crate) fn cancel(&mut self, permit: &Permit) -> Result<(), TransportError> {
        // SAFETY: MPI is running by the permit; the request is valid.
        check(permit, "MPI_Cancel", unsafe { permit.functions().MPI_Cancel(&mut self.0) })
    }

    /// Frees a persistent request; one that is under way goes on, and its memory must stay valid for ever. If the
    /// message of the request has failed, Open MPI has freed it already.
    pub(crate) fn free(&mut self, permit: &Permit) -> Result<(), TransportError> {
        if self.0 == permit.constants().request_null {
            return Ok(());
        }
        // SAFETY: MPI is running by the permit; the request is valid, and null afterwards.
        check(permit, "MPI_Request_free", unsafe { permit.functions().MPI_Request_free(&mut self.0) })
    }

    fn make(
        permit: &Permit,
        call: &'static str,
        begin: impl FnOnce(*mut Handle) -> c_int,
    ) -> Result<Request, TransportError> {
        let mut request = permit.constants().request_null;
        check(permit, call, begin(&mut request))?;
        Ok(Request(request))
    }
}

impl Status {
    /// The length of the message.
    pub(crate) fn bytes(&self, permit: &Permit) -> Result<usize, TransportError> {
        let mut count: i64 = 0;
        // SAFETY: MPI is running by the permit; the status is of a receive, or empty.
        let code =
            unsafe { permit.functions().MPI_Get_elements_x(&self.0, permit.constants().byte, &mut count) };
        check(permit, "MPI_Get_elements_x", code)?;
        Ok(usize::try_from(count).unwrap_or(0))
    }
}

impl Arrival {
    /// Takes the next message with this tag, of any rank, if there is one.
    pub(crate) fn probe(permit: &Permit, comm: Comm, tag: u32) -> Result<Option<Arrival>, TransportError> {
        let (mut found, mut status): (c_int, _) = (0, abi::Status::default());
        let (functions, constants) = (permit.functions(), permit.constants());
        let (mut message, any) = (constants.message_null, constants.any_source);
        // SAFETY: MPI is running by the permit; it writes only to local variables.
        let code = unsafe {
            functions.MPI_Improbe(any, tag as c_int, comm.handle(), &mut found, &mut message, &mut status)
        };
        check(permit, "MPI_Improbe", code)?;
        if found == 0 {
            return Ok(None);
        }
        let source = usize::try_from(permit.mpi.abi.source(&status)).unwrap_or(0);
        Ok(Some(Arrival { message, source, bytes: Status(status).bytes(permit)? }))
    }
}
