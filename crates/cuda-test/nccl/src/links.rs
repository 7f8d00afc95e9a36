//! The connections between the ranks of a group: a socket for each pair, and a thread for each end that reads it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::settings::settings;
use crate::status::{INVALID_USAGE, REMOTE_ERROR, SYSTEM_ERROR, Status};

/// The connections of a rank, by the other rank.
#[derive(Debug)]
pub(crate) struct Links(Vec<Option<Link>>);

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    socket: Mutex<UnixStream>,
    /// The number of messages that were sent.
    sent: AtomicU64,
    inbox: Arc<Mutex<Inbox>>,
    reader: Mutex<Option<JoinHandle<()>>>,
}

/// The messages from the other rank, and its state.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) messages: VecDeque<Vec<u8>>,
    /// The number of messages that the other rank has taken.
    pub(crate) taken: u64,
    /// Whether it has begun its first exchange with this rank.
    pub(crate) has_connected: bool,
    /// Whether nothing more comes.
    pub(crate) is_closed: bool,
}

/// The kinds of packets that ranks send each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    /// A message was taken.
    Taken,
    /// The first exchange begins.
    Connect,
}

/// How long a thread sleeps before it looks again.
pub(crate) const PAUSE: Duration = Duration::from_micros(100);

impl Links {
    /// Connects all ranks of the group `name`. Gives up when `is_aborted` says so.
    pub(crate) fn new(
        name: &str,
        [rank, ranks]: [usize; 2],
        device: i32,
        is_aborted: impl Fn() -> bool,
    ) -> Result<Links, Status> {
        let address = |of: usize| match &settings().folder {
            Some(folder) => SocketAddr::from_pathname(folder.join(format!("{name}-{of}"))),
            None => SocketAddr::from_abstract_name(format!("{name}-{of}")),
        };
        let mut devices = vec![None; ranks];
        let mut sockets: Vec<Option<UnixStream>> = (0..ranks).map(|_| None).collect();
        let mut join = || -> io::Result<()> {
            let listener = UnixListener::bind_addr(&address(rank)?)?;
            listener.set_nonblocking(true)?;
            for other in 0..rank {
                let socket = until(&is_aborted, || UnixStream::connect_addr(&address(other)?))?;
                hello(socket, rank, device, &mut devices, &mut sockets)?;
            }
            for _ in rank + 1..ranks {
                let socket = until(&is_aborted, || listener.accept())?.0;
                socket.set_nonblocking(false)?;
                hello(socket, rank, device, &mut devices, &mut sockets)?;
            }
            Ok(())
        };
        match join() {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(REMOTE_ERROR),
            Err(_) => return Err(SYSTEM_ERROR),
        }
        if devices.contains(&Some(device)) {
            return Err(INVALID_USAGE);
        }
        let link = |socket: Option<UnixStream>| socket.map(Link::new).transpose();
        sockets.into_iter().map(link).collect::<io::Result<_>>().map(Links).map_err(|_| SYSTEM_ERROR)
    }

    /// The connection to another rank.
    pub(crate) fn to(&self, rank: usize) -> Option<&Link> {
        self.0.get(rank)?.as_ref()
    }

    /// Leaves the group, and waits until all others have left it.
    pub(crate) fn leave(&self) {
        for link in self.0.iter().flatten() {
            // The other rank may be gone.
            let _ = link.socket().shutdown(Shutdown::Write);
        }
        for link in self.0.iter().flatten() {
            let reader = link.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
            // A thread that has panicked has ended, too.
            let _ = reader.map(JoinHandle::join);
        }
    }
}

impl Link {
    fn new(socket: UnixStream) -> io::Result<Link> {
        let inbox = Arc::<Mutex<Inbox>>::default();
        let (of_reader, mut from) = (Arc::clone(&inbox), socket.try_clone()?);
        let read = move || {
            while let Ok((kind, bytes)) = receive(&mut from) {
                let mut inbox = lock(&of_reader);
                match kind {
                    Kind::Message => inbox.messages.push_back(bytes),
                    Kind::Taken => inbox.taken += 1,
                    Kind::Connect => inbox.has_connected = true,
                }
            }
            lock(&of_reader).is_closed = true;
        };
        let reader = std::thread::Builder::new().name("link".into()).spawn(read)?;
        Ok(Link {
            socket: Mutex::new(socket),
            sent: AtomicU64::new(0),
            inbox,
            reader: Mutex::new(Some(reader)),
        })
    }

    /// Sends something to the other rank. If that is gone, its inbox says so.
    pub(crate) fn send(&self, kind: Kind, bytes: &[u8]) {
        let mut frame = vec![kind as u8];
        frame.extend((bytes.len() as u64).to_le_bytes());
        frame.extend(bytes);
        let _ = self.socket().write_all(&frame);
    }

    /// Sends a message; returns the number of messages that were sent until then.
    pub(crate) fn send_message(&self, bytes: &[u8]) -> u64 {
        self.send(Kind::Message, bytes);
        self.sent.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        lock(&self.inbox)
    }

    fn socket(&self) -> MutexGuard<'_, UnixStream> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tries until it succeeds; an interruption if `is_aborted` says so.
fn until<T>(is_aborted: impl Fn() -> bool, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match act() {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionRefused | ErrorKind::NotFound | ErrorKind::WouldBlock
                ) =>
            {
                if is_aborted() {
                    return Err(ErrorKind::Interrupted.into());
                }
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

/// Sends the rank and its device to the other end of a socket, and keeps the socket by the rank of the other end.
fn hello(
    mut socket: UnixStream,
    rank: usize,
    device: i32,
    devices: &mut [Option<i32>],
    sockets: &mut [Option<UnixStream>],
) -> io::Result<()> {
    socket.write_all(&(rank as u64).to_le_bytes())?;
    socket.write_all(&device.to_le_bytes())?;
    let (mut other, mut its_device) = ([0; 8], [0; 4]);
    socket.read_exact(&mut other)?;
    socket.read_exact(&mut its_device)?;
    let other = u64::from_le_bytes(other) as usize;
    *devices.get_mut(other).ok_or(ErrorKind::InvalidData)? = Some(i32::from_le_bytes(its_device));
    sockets[other] = Some(socket);
    Ok(())
}

/// Reads one thing that the other rank has sent.
fn receive(from: &mut UnixStream) -> io::Result<(Kind, Vec<u8>)> {
    let mut head = [0; 9];
    from.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let kinds = [Kind::Message, Kind::Taken, Kind::Connect];
    let kind = kinds.into_iter().find(|known| *known as u8 == kind).ok_or(ErrorKind::InvalidData)?;
    let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
    from.read_exact(&mut bytes)?;
    Ok((kind, bytes))
}
