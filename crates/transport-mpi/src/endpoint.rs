//! What a transport holds, and the door to it: every call of MPI is made by somebody who has entered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use haloport_core::TransportError;
use haloport_core::transport::{Channel, TransportInfo};

use crate::channels::Channels;
use crate::finalize;
use crate::ghosts::{Ghost, Ghosts, Keep};
use crate::messages::Messages;
use crate::node::Node;
use crate::raw::{self, Comm, Permit};
use crate::session::require_running;
use crate::threads::Threads;
use crate::waiting::Waiting;

/// How long `MPI_Finalize` is held up by messages that are still under way.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// The one end of a communicator that this rank has.
pub(crate) struct Endpoint {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) tag_bound: u32,
    pub(crate) info: TransportInfo,
    /// The other ranks of this node with which memory can be shared.
    near: Vec<usize>,
    pub(crate) waiting: Waiting,
    /// For channels, which may use every tag.
    pub(crate) channels: Comm,
    /// For collectives, and for messages to ranks that need not know of them.
    pub(crate) setup: Comm,
    threads: Threads,
    state: Mutex<State>,
}

/// What changes.
pub(crate) struct State {
    pub(crate) channels: Channels,
    pub(crate) messages: Messages,
    ghosts: Ghosts,
    /// Messages may still lie in the communicators, which are therefore never freed: their successors could find them.
    littered: bool,
    /// A collective was given up halfway.
    broken: bool,
    /// MPI is about to be finalised, or the transport was dropped.
    closed: bool,
    /// Changes with every sparse exchange.
    pub(crate) odd_round: bool,
}

/// Proof of having entered. Nobody else is inside meanwhile.
pub(crate) struct Entry<'e> {
    pub(crate) state: MutexGuard<'e, State>,
    pub(crate) permit: Permit,
    _serial: Option<MutexGuard<'static, ()>>,
}

impl Endpoint {
    /// Collective: duplicates `comm` and asks all that there is to know.
    ///
    /// # Safety
    /// `comm` is a handle of this MPI library: null, or of a communicator that nobody frees before this returns. MPI is
    /// not finalised before this returns.
    pub(crate) unsafe fn new(comm: Comm) -> Result<Arc<Endpoint>, TransportError> {
        require_running("MPI_Comm_dup")?;
        let threads = Threads::ask()?;
        let _serial = threads.serialize();
        // SAFETY: MPI is running, as was just asked, and stays so by the caller's promise; the level allows this
        // thread, and the others are kept out where they must.
        let permit = unsafe { Permit::new() };
        if comm.is_null() {
            return Err(layer(
                "MPI_Comm_dup",
                "the communicator is null: this rank is in no group of its split",
            ));
        }
        if comm.is_inter(&permit)? {
            return Err(layer("MPI_Comm_dup", "the communicator joins two groups: merge them first"));
        }
        let device_memory = takes_device_memory(&permit)?;
        let channels = comm.duplicate(&permit)?;
        let setup = comm.duplicate(&permit)?;
        let (rank, size) = (setup.rank(&permit)?, setup.size(&permit)?);
        let node = setup.split_by_node(&permit)?;
        let asked =
            Node::find(&permit, node, rank).and_then(|found| Ok((found, Waiting::new(&permit, node)?)));
        node.free(&permit);
        let (Node { near, reach }, waiting) = asked?;
        let endpoint = Arc::new(Endpoint {
            rank,
            size,
            tag_bound: raw::tag_bound(&permit)?,
            info: TransportInfo {
                name: "mpi",
                implementation: raw::version(),
                reach,
                device_memory,
                any_thread: threads.any(),
            },
            near,
            waiting,
            channels,
            setup,
            threads,
            state: Mutex::new(State {
                channels: Channels::new(rank),
                messages: Messages::default(),
                ghosts: Ghosts::default(),
                littered: false,
                broken: false,
                closed: false,
                odd_round: false,
            }),
        });
        finalize::register(&permit, &endpoint)?;
        Ok(endpoint)
    }

    /// Whether memory can be shared with `peer`.
    pub(crate) fn is_near(&self, peer: usize) -> bool {
        self.near.contains(&peer)
    }

    pub(crate) fn has_near_ranks(&self) -> bool {
        !self.near.is_empty()
    }

    /// Enters, which must be short: other threads wait outside.
    pub(crate) fn enter(&self) -> Result<Entry<'_>, TransportError> {
        self.threads.check()?;
        let serial = self.threads.serialize();
        let state = self.state();
        if state.closed {
            return Err(layer("the MPI transport", "MPI was finalised"));
        }
        // SAFETY: `MPI_Finalize` begins by closing this state, for which it needs the lock that we hold. The thread
        // may call MPI, and the others are kept out where they must.
        Ok(Entry { state, permit: unsafe { Permit::new() }, _serial: serial })
    }

    /// Enters for a collective.
    pub(crate) fn enter_setup(&self) -> Result<Entry<'_>, TransportError> {
        let entry = self.enter()?;
        if entry.state.broken {
            return Err(layer("the MPI transport", "an earlier collective was given up halfway"));
        }
        Ok(entry)
    }

    /// Closes a channel. `keep` stays until nobody uses the memory any more.
    pub(crate) fn close(&self, channel: Channel, keep: Keep) {
        {
            let mut state = self.state();
            let Some(ghosts) = state.channels.close(channel, keep) else { return };
            for (ghost, active) in ghosts {
                state.ghosts.add(ghost);
                state.littered |= active;
            }
        }
        self.sweep();
    }

    /// Keeps what a collective that is given up still uses.
    pub(crate) fn give_up(&self, ghost: Ghost) {
        let mut state = self.state();
        state.broken = true;
        state.littered = true;
        state.ghosts.add(ghost);
    }

    /// Keeps the messages that `remove` takes out until they are complete. They need not be withdrawn: a receiver may
    /// still want them.
    pub(crate) fn give_up_messages(&self, remove: impl FnOnce(&mut Messages) -> Vec<Ghost>) {
        let mut state = self.state();
        let ghosts = remove(&mut state.messages);
        ghosts.into_iter().for_each(|ghost| state.ghosts.add(ghost));
    }

    /// Frees what was given up and is complete by now.
    pub(crate) fn sweep(&self) {
        // A thread that may not call MPI leaves it to the next one that may.
        let Ok(mut entry) = self.enter() else { return };
        let done = entry.sweep();
        drop(entry);
        drop(done);
    }

    /// The transport is dropped: `true` if nothing is left to be done for it.
    pub(crate) fn retire(&self) -> bool {
        let Ok(mut entry) = self.enter() else { return self.state().closed };
        let done = entry.close_all();
        let gone = entry.state.ghosts.is_empty();
        if gone {
            entry.state.closed = true;
            if !entry.state.littered {
                self.channels.free(&entry.permit);
                self.setup.free(&entry.permit);
            }
        }
        drop(entry);
        drop(done);
        gone
    }

    /// `MPI_Finalize` was called: nothing of this transport may be under way any longer.
    pub(crate) fn shut(&self) {
        let Ok(mut entry) = self.enter() else { return };
        let mut done = entry.close_all();
        let began = Instant::now();
        while !entry.state.ghosts.is_empty() && began.elapsed() < LAST_WAIT {
            done.extend(entry.sweep());
            std::thread::yield_now();
        }
        let Entry { state, permit, .. } = &mut entry;
        state.littered |= !state.ghosts.is_empty();
        state.ghosts.leak(permit);
        state.closed = true;
        if !state.littered {
            self.channels.free(permit);
            self.setup.free(permit);
        }
        drop(entry);
        drop(done);
    }

    /// Locks even after a panic elsewhere: what the lock guards is never left half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry<'_> {
    fn sweep(&mut self) -> Vec<Ghost> {
        self.state.ghosts.sweep(&self.permit)
    }

    fn close_all(&mut self) -> Vec<Ghost> {
        for (ghost, active) in self.state.channels.close_all().collect::<Vec<_>>() {
            self.state.ghosts.add(ghost);
            self.state.littered |= active;
        }
        let messages = self.state.messages.remove_all();
        messages.into_iter().for_each(|ghost| self.state.ghosts.add(ghost));
        self.sweep()
    }
}

/// Whether channels may name device memory: what `HALOPORT_MPI_CUDA` says (`0` or `1`), else what the library says.
fn takes_device_memory(permit: &Permit) -> Result<bool, TransportError> {
    let value = std::env::var_os("HALOPORT_MPI_CUDA").unwrap_or_default();
    match value.to_str() {
        Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some("") => Ok(raw::cuda_support(permit)),
        _ => {
            let found = value.display();
            let message = format!("HALOPORT_MPI_CUDA: expected 0 or 1, found `{found}`");
            Err(layer("the set-up of MPI", &message))
        }
    }
}

pub(crate) fn layer(call: &'static str, message: &str) -> TransportError {
    TransportError::Layer { call, message: message.into() }
}
