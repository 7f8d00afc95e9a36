//! Joining a group of ranks, and exchanges of messages in streams.

use std::ffi::{c_char, c_int};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use cudarc::nccl::sys::ncclUniqueId;
use haloport_core::device::{DeviceError, MemoryKind, Priority, StreamGroup, StreamMessage, StreamMessages};

use crate::driver::raw_stream::RawStream;
use crate::memory::allocation::Allocation;
use crate::nccl::communicator::{CLOSING_LIMIT, Communicator, Pace};
use crate::nccl::library::nccl;
use crate::opened::Opened;
use crate::streams::event::CudaEvent;
use crate::streams::stream::CudaStream;

/// The length of a token: that of the identifier by which ranks find each other.
const TOKEN_BYTES: usize = size_of::<ncclUniqueId>();

/// A group of ranks that this one has joined.
pub(crate) struct CudaMessages {
    opened: Arc<Opened>,
    rank: usize,
    /// The ranks that it is connected to.
    peers: Vec<usize>,
    /// `None` if it was aborted.
    communicator: Mutex<Option<Communicator>>,
    /// Set before the communicator is aborted, so that no thread keeps it for long.
    is_aborted: AtomicBool,
}

/// Makes a token for a new group.
pub(crate) fn token(opened: &Opened) -> Result<Vec<u8>, DeviceError> {
    let nccl = nccl()?;
    let mut id = ncclUniqueId { internal: [0; TOKEN_BYTES] };
    // SAFETY: the call writes to a local variable.
    nccl.checked("ncclGetUniqueId", unsafe { (nccl.ncclGetUniqueId)(&raw mut id) }, opened.id())?;
    Ok(id.internal.map(|byte| byte as u8).to_vec())
}

impl CudaMessages {
    /// Joins a group and connects to the peers; see
    /// [`join_stream_messages`](haloport_core::device::StreamMessaging::join_stream_messages).
    pub(crate) fn join(opened: &Arc<Opened>, group: &StreamGroup<'_>) -> Result<CudaMessages, DeviceError> {
        let end = Instant::now().checked_add(group.time_limit);
        let (id, rank, ranks) = members(group)?;
        let mut peers = group.peers.to_vec();
        peers.sort_unstable();
        peers.dedup();
        let connection = Arc::new(Connection::new(opened, peers.len())?);
        let mut communicator = Communicator::begin(nccl()?, opened, (id, rank, ranks))?;
        communicator.keep(Some(Arc::clone(&connection) as _));
        let missing = |what| {
            let message = format!(
                "rank {} of {} waited {:?} for the other ranks; check that all have called it and that NCCL finds the \
                 network (NCCL_DEBUG=WARN, NCCL_SOCKET_IFNAME)",
                group.rank, group.ranks, group.time_limit
            );
            DeviceError::Driver { call: what, device: opened.id(), message }
        };
        let joined = wait(end, || communicator.is_ready())
            .and_then(|ready| ready.then_some(()).ok_or_else(|| missing("ncclCommInitRankConfig")))
            // SAFETY: the connection is new, and the communicator keeps it.
            .and_then(|()| unsafe { connect(&communicator, &peers, &connection, end) })
            .and_then(|done| done.then_some(()).ok_or_else(|| missing("connecting ranks by NCCL")));
        match joined {
            Ok(()) => {
                communicator.keep(None);
                let (communicator, is_aborted) = (Mutex::new(Some(communicator)), AtomicBool::new(false));
                let opened = Arc::clone(opened);
                Ok(CudaMessages { opened, rank: group.rank, peers, communicator, is_aborted })
            }
            Err(error) => {
                communicator.abort();
                Err(error)
            }
        }
    }

    fn communicator(&self) -> MutexGuard<'_, Option<Communicator>> {
        self.communicator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of a call for a group that is gone.
    #[cold]
    fn gone(&self) -> DeviceError {
        DeviceError::invalid("a group of ranks", "one that this rank has not left", "one that was aborted")
    }

    /// Checks that messages have peers to which this rank is connected.
    fn check_peers(&self, messages: &[StreamMessage]) -> Result<(), DeviceError> {
        match messages.iter().find(|message| self.peers.binary_search(&message.peer).is_err()) {
            None => Ok(()),
            Some(message) => Err(DeviceError::invalid(
                "the other rank of a message in a stream",
                format!("one of {:?}, with which rank {} has joined", self.peers, self.rank),
                message.peer,
            )),
        }
    }
}

impl StreamMessages<CudaStream> for CudaMessages {
    unsafe fn exchange(
        &self,
        sends: &[StreamMessage],
        receives: &[StreamMessage],
        stream: &CudaStream,
    ) -> Result<(), DeviceError> {
        self.check_peers(sends)?;
        self.check_peers(receives)?;
        if stream.stream.is_of_thread() {
            let expected = "one that is the same in all threads: a thread of NCCL uses it";
            let found = "the default stream of the thread";
            return Err(DeviceError::invalid("a stream for messages", expected, found));
        }
        if sends.iter().chain(receives).all(|message| message.bytes == 0) {
            return Ok(());
        }
        let communicator = self.communicator();
        let communicator = communicator.as_ref().ok_or_else(|| self.gone())?;
        // SAFETY: the caller's promise; the peers are ranks of the group.
        unsafe { communicator.put(sends, receives, stream) }?;
        let (mut pace, mut end) = (Pace::default(), None);
        while !communicator.is_ready()? {
            // Waits even after an abort: a thread of NCCL may be about to put the group into the stream, which waits
            // for no rank. After this call, NCCL puts nothing more there.
            if self.is_aborted.load(Ordering::Acquire)
                && Instant::now() >= *end.get_or_insert_with(|| Instant::now() + CLOSING_LIMIT)
            {
                return Err(self.gone());
            }
            pace.wait();
        }
        Ok(())
    }

    fn check(&self) -> Result<(), DeviceError> {
        self.communicator().as_ref().ok_or_else(|| self.gone())?.is_ready().map(drop)
    }

    fn abort(&self) {
        self.is_aborted.store(true, Ordering::Release);
        let communicator = self.communicator().take();
        if let Some(communicator) = communicator {
            communicator.abort();
        }
    }
}

impl fmt::Debug for CudaMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaMessages(rank {} on {})", self.rank, self.opened.id())
    }
}

/// The identifier of a group, the rank, and the number of ranks, as NCCL takes them.
fn members(group: &StreamGroup<'_>) -> Result<(ncclUniqueId, c_int, c_int), DeviceError> {
    let bytes: [u8; TOKEN_BYTES] = group.token.try_into().map_err(|_| {
        let expected = format!("{TOKEN_BYTES} bytes from `stream_messages_token`");
        DeviceError::invalid(
            "the token of a group of ranks",
            expected,
            format!("{} bytes", group.token.len()),
        )
    })?;
    let ranks = c_int::try_from(group.ranks)
        .map_err(|_| DeviceError::invalid("the number of ranks in a group", c_int::MAX, group.ranks))?;
    if group.rank >= group.ranks {
        let expected = format!("one below {}, their number", group.ranks);
        return Err(DeviceError::invalid("a rank of a group", expected, group.rank));
    }
    if let Some(peer) = group.peers.iter().find(|&&peer| peer >= group.ranks || peer == group.rank) {
        let expected = format!("other ranks than {}, below {}", group.rank, group.ranks);
        return Err(DeviceError::invalid("the peers of a rank", expected, peer));
    }
    Ok((ncclUniqueId { internal: bytes.map(|byte| byte as c_char) }, group.rank as c_int, ranks))
}

/// The resources for connecting to peers.
struct Connection {
    /// Two bytes for each peer.
    bytes: Allocation,
    event: CudaEvent,
    stream: CudaStream,
}

impl Connection {
    fn new(opened: &Arc<Opened>, peers: usize) -> Result<Connection, DeviceError> {
        let bytes = Allocation::new(opened, 2 * peers, MemoryKind::Device)?;
        let event = CudaEvent::new(&opened.context, false)?;
        let stream = RawStream::new(&opened.context, Priority::Normal, opened.offers.priorities)?;
        Ok(Connection { bytes, event, stream: CudaStream::new(opened, stream) })
    }
}

/// Sends a byte to each peer and receives one: NCCL connects ranks in their first exchange, and waits there. Returns
/// whether all are connected, which is false at the time `end`.
///
/// # Safety
/// Nothing else uses the connection until this returns true or the communicator has ended.
unsafe fn connect(
    communicator: &Communicator,
    peers: &[usize],
    Connection { bytes, event, stream }: &Connection,
    end: Option<Instant>,
) -> Result<bool, DeviceError> {
    if peers.is_empty() {
        return Ok(true);
    }
    let messages = |first: usize| {
        let byte = |at| bytes.pointer().offset((first + at) as isize);
        let numbered = peers.iter().enumerate();
        numbered.map(|(at, &peer)| StreamMessage { pointer: byte(at), bytes: 1, peer }).collect::<Vec<_>>()
    };
    // SAFETY: the memory has a byte for each message, and the caller promised that nothing else uses it.
    unsafe { communicator.put(&messages(0), &messages(peers.len()), stream) }?;
    if !wait(end, || communicator.is_ready())? {
        return Ok(false);
    }
    event.record(stream)?;
    wait(end, || Ok(communicator.is_ready()? && event.is_reached()?))
}

/// Polls until `is_done` returns true. Returns false at the time `end`.
fn wait(
    end: Option<Instant>,
    mut is_done: impl FnMut() -> Result<bool, DeviceError>,
) -> Result<bool, DeviceError> {
    let mut pace = Pace::default();
    loop {
        if is_done()? {
            return Ok(true);
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(false);
        }
        pace.wait();
    }
}
