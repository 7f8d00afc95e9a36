//! A group of ranks, as NCCL holds it.

use std::any::Any;
use std::ffi::c_int;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use cudarc::nccl::sys::{ncclComm_t, ncclConfig_t, ncclDataType_t, ncclUniqueId};
use haloport_core::device::{DeviceError, StreamMessage};

use crate::nccl::library::{IN_PROGRESS, Nccl, NcclStatus, SUCCESS};
use crate::opened::Opened;
use crate::streams::stream::CudaStream;

/// Maximum time that a dropped communicator waits for its work before it is aborted, and that the caller waits for this.
pub(crate) const CLOSING_LIMIT: Duration = Duration::from_secs(2);

/// A non-blocking communicator. After it is dropped, it ends when its work is done, or at a limit.
///
/// Calls of NCCL for one communicator, even an abort, must not run at the same time. So it is not `Sync`.
pub(crate) struct Communicator {
    pub(crate) opened: Arc<Opened>,
    nccl: &'static Nccl,
    /// Null if NCCL refused to begin.
    raw: ncclComm_t,
    /// Whether it was aborted: then the drop does not wait for its work.
    is_aborted: bool,
    /// Objects that its work uses, dropped when the communicator has ended.
    kept: Option<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: a communicator belongs to no thread, as long as one thread uses it at a time.
unsafe impl Send for Communicator {}

impl Communicator {
    /// Begins to join a group; see [`is_ready`](Communicator::is_ready). Blocks for no rank.
    pub(crate) fn begin(
        nccl: &'static Nccl,
        opened: &Arc<Opened>,
        (id, rank, ranks): (ncclUniqueId, c_int, c_int),
    ) -> Result<Communicator, DeviceError> {
        const UNDEFINED: c_int = c_int::MIN;

        let mut config = ncclConfig_t {
            size: size_of::<ncclConfig_t>(),
            magic: 0xcafe_beef,
            // The version of the structure, not of the library.
            version: 22_200,
            blocking: 0,
            cgaClusterSize: UNDEFINED,
            minCTAs: UNDEFINED,
            maxCTAs: UNDEFINED,
            netName: std::ptr::null(),
            splitShare: UNDEFINED,
        };
        let mut raw = std::ptr::null_mut();
        let entered = opened.context.enter()?;
        // SAFETY: the context of the device is current. The call reads the configuration, which has the size that it
        // names, and writes to a local variable.
        let status = unsafe { (nccl.ncclCommInitRankConfig)(&raw mut raw, ranks, id, rank, &raw mut config) };
        drop(entered);
        let communicator =
            Communicator { opened: Arc::clone(opened), nccl, raw, is_aborted: false, kept: None };
        match communicator.checked("ncclCommInitRankConfig", status) {
            Ok(()) => Ok(communicator),
            Err(error) => {
                communicator.abort();
                Err(error)
            }
        }
    }

    /// Whether NCCL has done what was begun: joined, or put the last group of messages into the stream. Until then, no
    /// messages may be put into streams. Returns errors of messages that are under way, too. Does not block.
    pub(crate) fn is_ready(&self) -> Result<bool, DeviceError> {
        let mut state = SUCCESS;
        // SAFETY: the communicator is live, and used by this thread alone; the call writes to a local variable.
        let status = unsafe { (self.nccl.ncclCommGetAsyncError)(self.raw, &raw mut state) };
        self.checked("ncclCommGetAsyncError", status)?;
        self.checked("a call of NCCL that goes on in the background", state)?;
        Ok(state == SUCCESS)
    }

    /// Puts messages into a stream, as one group, so that they run at once. Their ranks are those of the group. The
    /// group is in the stream when [`is_ready`](Communicator::is_ready) says so.
    ///
    /// # Safety
    /// As for [`exchange`](haloport_core::device::StreamMessages::exchange).
    pub(crate) unsafe fn put(
        &self,
        sends: &[StreamMessage],
        receives: &[StreamMessage],
        stream: &CudaStream,
    ) -> Result<(), DeviceError> {
        const BYTES: ncclDataType_t = ncclDataType_t::ncclInt8;

        let (nccl, raw) = (self.nccl, self.raw);
        let _entered = self.opened.context.enter()?;
        let moved =
            |messages: &[StreamMessage], call: &'static str, each: &dyn Fn(&StreamMessage) -> NcclStatus| {
                let mut some = messages.iter().filter(|message| message.bytes > 0);
                some.try_for_each(|message| self.checked(call, each(message)))
            };
        // SAFETY: the communicator and the stream are live, and this thread alone uses the communicator; the context of
        // the device is current; the messages are the caller's promise.
        unsafe {
            self.checked("ncclGroupStart", (nccl.ncclGroupStart)())?;
            let queue = stream.raw().cast();
            let put = moved(sends, "ncclSend", &|&StreamMessage { pointer, bytes, peer }| {
                (nccl.ncclSend)(pointer.as_ptr().cast(), bytes, BYTES, peer as c_int, raw, queue)
            })
            .and_then(|()| {
                moved(receives, "ncclRecv", &|&StreamMessage { pointer, bytes, peer }| {
                    (nccl.ncclRecv)(pointer.as_ptr().cast(), bytes, BYTES, peer as c_int, raw, queue)
                })
            });
            // Also after an error: the thread would stay in the group.
            let ended = self.checked("ncclGroupEnd", (nccl.ncclGroupEnd)());
            put.and(ended)
        }
    }

    /// Keeps what work uses until the communicator has ended, or drops what was kept.
    pub(crate) fn keep(&mut self, kept: Option<Arc<dyn Any + Send + Sync>>) {
        self.kept = kept;
    }

    /// Ends all work of the communicator soon, also exchanges that wait for other ranks. Does not block.
    pub(crate) fn abort(mut self) {
        self.is_aborted = true;
    }

    /// An error unless a call has succeeded or goes on.
    fn checked(&self, call: &'static str, status: NcclStatus) -> Result<(), DeviceError> {
        let fine = if status == IN_PROGRESS { SUCCESS } else { status };
        self.nccl.checked(call, fine, self.opened.id())
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if self.raw.is_null() {
            return;
        }
        let (opened, kept) = (Arc::clone(&self.opened), self.kept.take());
        let ending = Ending { _kept: kept, opened, nccl: self.nccl, raw: self.raw };
        let (in_thread, is_aborted) = (ending.clone(), self.is_aborted);
        let (sender, ended) = mpsc::channel();
        let run = move || {
            in_thread.run(is_aborted);
            // The receiver may have gone.
            let _ = sender.send(());
        };
        let thread = std::thread::Builder::new().name("haloport-nccl".into()).spawn(run);
        match (thread, is_aborted) {
            // After the limit the thread goes on by itself.
            (Ok(_), false) => drop(ended.recv_timeout(CLOSING_LIMIT)),
            (Ok(_), true) => {}
            // Without a thread, the call may wait for other ranks, but the streams go on.
            (Err(_), _) => ending.run(true),
        }
    }
}

/// The end of a communicator, in a thread of its own: NCCL frees what a communicator has when other ranks of the node
/// end theirs, and its calls wait for that, even an abort (`ncclCommDestroy` in the "NCCL User Guide").
#[derive(Clone)]
struct Ending {
    _kept: Option<Arc<dyn Any + Send + Sync>>,
    opened: Arc<Opened>,
    nccl: &'static Nccl,
    raw: ncclComm_t,
}

// SAFETY: as for the communicator, which nothing else uses any more.
unsafe impl Send for Ending {}

impl Ending {
    /// Ends the communicator; waits for its work unless it is aborted.
    fn run(&self, is_aborted: bool) {
        // On a lost device the context cannot be made current; the communicator is destroyed all the same.
        let _entered = self.opened.context.enter();
        let is_done = !is_aborted && self.is_done();
        // SAFETY: the communicator is live, used by this thread alone, and destroyed once. An error needs no action.
        unsafe {
            if is_done {
                (self.nccl.ncclCommDestroy)(self.raw);
            } else {
                (self.nccl.ncclCommAbort)(self.raw);
            }
        }
    }

    /// Waits for all work, until a limit. Returns whether it is done.
    fn is_done(&self) -> bool {
        let end = Instant::now() + CLOSING_LIMIT;
        let mut pace = Pace::default();
        // SAFETY: the communicator is live, and used by this thread alone.
        let mut state = unsafe { (self.nccl.ncclCommFinalize)(self.raw) };
        while matches!(state, SUCCESS | IN_PROGRESS) && Instant::now() < end {
            // SAFETY: as above; the call writes to a local variable.
            let status = unsafe { (self.nccl.ncclCommGetAsyncError)(self.raw, &raw mut state) };
            match (status, state) {
                (SUCCESS, SUCCESS) => return true,
                (SUCCESS, _) => pace.wait(),
                _ => return false,
            }
        }
        false
    }
}

/// The pace at which the host polls: often at first, because most calls take microseconds, then seldom.
#[derive(Debug, Default)]
pub(crate) struct Pace(u32);

impl Pace {
    pub(crate) fn wait(&mut self) {
        self.0 = self.0.saturating_add(1);
        match self.0 {
            ..200 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
    }
}
