//! The state of a transport, and the lock under which every call of MPI is made.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use haloport_core::TransportError;
use haloport_core::transport::{Channel, TransportInfo};

use crate::error::failed;
use crate::node::reach::Node;
use crate::raw::{self, Comm, Mpi, Permit, Progress, Request};
use crate::requests::abandoned::{AbandonedRequest, AbandonedRequests, MemoryOwner};
use crate::requests::channels::Channels;
use crate::requests::messages::Messages;
use crate::threads::Threads;
use crate::waiting::Waiting;

/// The longest time for which `MPI_Finalize` waits for messages that are still under way.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// This rank's end of a communicator.
pub(crate) struct Endpoint {
    mpi: &'static Mpi,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) tag_bound: u32,
    pub(crate) info: TransportInfo,
    /// The other ranks with which this one shares memory: both have mapped memory of the other.
    near: Vec<usize>,
    pub(crate) waiting: Waiting,
    /// The communicator for channels, which may use every tag.
    pub(crate) channels: Comm,
    /// The communicator for collectives, and for messages to ranks that need not expect them.
    pub(crate) setup: Comm,
    threads: Threads,
    state: Mutex<State>,
}

/// The part that changes.
pub(crate) struct State {
    pub(crate) channels: Channels,
    pub(crate) messages: Messages,
    abandoned: AbandonedRequests,
    /// Whether messages may remain in the communicators, which are therefore never freed: later ones could receive
    /// them.
    messages_remain: bool,
    /// Whether a collective was given up before it was complete.
    broken: bool,
    /// Whether MPI is about to be finalised, or the transport was dropped.
    closed: bool,
    /// Changes with every sparse exchange.
    pub(crate) odd_round: bool,
}

/// A locked endpoint, with the permit to call MPI.
pub(crate) struct Locked<'e> {
    pub(crate) state: MutexGuard<'e, State>,
    pub(crate) permit: Permit,
    _serial: Option<MutexGuard<'static, ()>>,
}

/// A request on the communicator for setup, with the memory that it uses. If it is dropped before it is complete, also
/// by a panic, the endpoint keeps the memory alive.
pub(crate) struct OwnedRequest<'e, M: Send + Sync + 'static> {
    endpoint: &'e Endpoint,
    pending: Option<(Request, M)>,
}

impl Endpoint {
    /// Collective: duplicates `comm`, and asks MPI for everything that the transport needs to know.
    ///
    /// # Safety
    /// `comm` is a handle of this MPI library: null, or of a communicator that is not freed before this returns. MPI is
    /// not finalised before this returns.
    pub(crate) unsafe fn new(mpi: &'static Mpi, comm: Comm) -> Result<Arc<Endpoint>, TransportError> {
        mpi.require_running("MPI_Comm_dup")?;
        let threads = Threads::ask(mpi)?;
        let _serial = threads.serialize();
        // SAFETY: MPI is running, as was just checked, and stays so by the caller's promise; the thread level allows
        // this thread, and the serial lock keeps other threads out if it must.
        let permit = unsafe { Permit::new(mpi) };
        if comm.is_null(mpi) {
            return Err(failed(
                "MPI_Comm_dup",
                "the communicator is null: it was freed, or this rank is in no group of its split",
            ));
        }
        if comm.is_inter(&permit)? {
            return Err(failed("MPI_Comm_dup", "the communicator joins two groups: merge them first"));
        }
        let device_memory = device_memory(&permit)?;
        let channels = comm.duplicate(&permit)?;
        let setup = comm.duplicate(&permit)?;
        let (rank, size) = (setup.rank(&permit)?, setup.size(&permit)?);
        let node = setup.split_by_node(&permit)?;
        let found = Node::find(&permit, node, rank)
            .and_then(|Node { near, reach, bells }| Ok((near, reach, Waiting::new(&permit, node, bells)?)));
        node.free(&permit);
        let (near, reach, waiting) = found?;
        let tag_bound = raw::tag_bound(&permit)?;
        Ok(Arc::new(Endpoint {
            mpi,
            rank,
            size,
            tag_bound,
            info: TransportInfo {
                name: "mpi",
                implementation: mpi.version.clone(),
                reach,
                device_memory,
                any_thread: threads.any(),
                crowded: waiting.crowded,
            },
            near,
            waiting,
            channels,
            setup,
            threads,
            state: Mutex::new(State {
                channels: Channels::new(rank),
                messages: Messages::new(rank, tag_bound),
                abandoned: AbandonedRequests::default(),
                messages_remain: false,
                broken: false,
                closed: false,
                odd_round: false,
            }),
        }))
    }

    /// The number of ranks of the job.
    pub(crate) fn world_size(&self) -> Result<usize, TransportError> {
        let Locked { permit, .. } = &self.lock()?;
        Comm::world(self.mpi).size(permit)
    }

    pub(crate) fn is_near(&self, peer: usize) -> bool {
        self.near.contains(&peer)
    }

    pub(crate) fn has_near_ranks(&self) -> bool {
        !self.near.is_empty()
    }

    /// Returns an error on a thread that may not call MPI.
    pub(crate) fn check_thread(&self) -> Result<(), TransportError> {
        self.threads.check()
    }

    /// Locks the endpoint for calls of MPI. Other threads wait meanwhile, so the lock must be short.
    pub(crate) fn lock(&self) -> Result<Locked<'_>, TransportError> {
        self.threads.check()?;
        let serial = self.threads.serialize();
        let state = self.state();
        if state.closed {
            return Err(failed("the MPI transport", "MPI was finalised"));
        }
        // SAFETY: `MPI_Finalize` begins by closing this state, for which it needs the lock that is held here. This
        // thread may call MPI, and the serial lock keeps other threads out if it must.
        Ok(Locked { state, permit: unsafe { Permit::new(self.mpi) }, _serial: serial })
    }

    /// Locks the endpoint for a collective.
    pub(crate) fn lock_for_collective(&self) -> Result<Locked<'_>, TransportError> {
        let locked = self.lock()?;
        if locked.state.broken {
            return Err(failed(
                "the MPI transport",
                "an earlier collective was given up before it was complete",
            ));
        }
        Ok(locked)
    }

    /// Closes a channel. `owner` is dropped when MPI no longer uses the memory.
    pub(crate) fn close(&self, channel: Channel, owner: MemoryOwner) {
        {
            let mut state = self.state();
            let Some((requests, any_active)) = state.channels.close(channel, owner) else { return };
            state.abandoned.add(requests);
            state.messages_remain |= any_active;
        }
        self.sweep();
    }

    /// Abandons the messages with this tag that are under way.
    pub(crate) fn discard_messages(&self, tag: u32) {
        {
            let mut state = self.state();
            let requests = state.messages.remove(tag);
            state.abandoned.add(requests);
        }
        self.sweep();
    }

    /// Frees the abandoned requests that are complete.
    pub(crate) fn sweep(&self) {
        // A thread that may not call MPI leaves the requests to the next thread that may.
        let Ok(mut locked) = self.lock() else { return };
        let complete = locked.take_complete();
        drop(locked);
        drop(complete);
    }

    /// Ends what can be ended when the transport is dropped, and returns whether nothing is left.
    pub(crate) fn retire(&self) -> bool {
        let Ok(mut locked) = self.lock() else { return self.state().closed };
        let complete = locked.abandon_all();
        let nothing_left = locked.state.abandoned.is_empty();
        if nothing_left {
            self.free_communicators(&mut locked);
        }
        drop(locked);
        drop(complete);
        nothing_left
    }

    /// Ends everything that is under way, for `MPI_Finalize`.
    pub(crate) fn shut(&self) {
        let Ok(mut locked) = self.lock() else { return };
        let mut complete = locked.abandon_all();
        let began = Instant::now();
        while !locked.state.abandoned.is_empty() && began.elapsed() < LAST_WAIT {
            complete.extend(locked.take_complete());
            std::thread::yield_now();
        }
        let Locked { state, permit, .. } = &mut locked;
        state.messages_remain |= !state.abandoned.is_empty();
        state.abandoned.leak(permit);
        self.free_communicators(&mut locked);
        drop(locked);
        drop(complete);
    }

    fn free_communicators(&self, locked: &mut Locked<'_>) {
        locked.state.closed = true;
        if !locked.state.messages_remain {
            self.channels.free(&locked.permit);
            self.setup.free(&locked.permit);
        }
    }

    /// Locks the state even after a panic elsewhere: no panic leaves it half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Locked<'_> {
    fn take_complete(&mut self) -> Vec<AbandonedRequest> {
        self.state.abandoned.take_complete(&self.permit)
    }

    /// Abandons all requests, and removes those that are complete.
    fn abandon_all(&mut self) -> Vec<AbandonedRequest> {
        let state = &mut *self.state;
        for (requests, any_active) in state.channels.close_all() {
            state.abandoned.add(requests);
            state.messages_remain |= any_active;
        }
        state.abandoned.add(state.messages.remove_all());
        self.take_complete()
    }
}

impl<'e, M: Send + Sync + 'static> OwnedRequest<'e, M> {
    pub(crate) fn new(endpoint: &'e Endpoint, request: Request, memory: M) -> OwnedRequest<'e, M> {
        OwnedRequest { endpoint, pending: Some((request, memory)) }
    }

    /// Whether it was not complete when it was last polled.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Makes progress, and returns the memory when the request is complete; `None` before that, and after the memory
    /// was returned.
    pub(crate) fn poll(&mut self) -> Result<Option<M>, TransportError> {
        let Some((request, _)) = &mut self.pending else { return Ok(None) };
        let locked = self.endpoint.lock()?;
        match request.test(&locked.permit)? {
            Progress::Pending => Ok(None),
            Progress::Done(_) => Ok(self.pending.take().map(|(_, memory)| memory)),
            Progress::Truncated(_, message) => Err(failed("MPI_Test", message)),
        }
    }
}

impl<M: Send + Sync + 'static> Drop for OwnedRequest<'_, M> {
    fn drop(&mut self) {
        if let Some((request, memory)) = self.pending.take() {
            let owner = Some(Arc::new(memory) as _);
            let mut state = self.endpoint.state();
            state.broken = true;
            state.messages_remain = true;
            state.abandoned.add([AbandonedRequest { request, persistent: false, cancel: false, owner }]);
        }
    }
}

/// The backends whose device memory channels may use: as the library says, and of CUDA as `HALOPORT_MPI_CUDA` (`0` or
/// `1`) says if it is set.
fn device_memory(permit: &Permit) -> Result<Vec<&'static str>, TransportError> {
    const CUDA: &str = "cuda";
    let mut taken = raw::device_memory(permit);
    let value = std::env::var_os("HALOPORT_MPI_CUDA").unwrap_or_default();
    match value.to_str() {
        Some("") => {}
        Some("0") => taken.retain(|backend| *backend != CUDA),
        Some("1") if taken.contains(&CUDA) => {}
        Some("1") => taken.push(CUDA),
        _ => {
            let message = format!("HALOPORT_MPI_CUDA: expected 0 or 1, found `{}`", value.display());
            return Err(failed("the set-up of MPI", message));
        }
    }
    Ok(taken)
}
