//! Handing file descriptors over to other processes of the same user.
//!
//! A process that offers descriptors listens on a Unix socket in the abstract namespace, which leaves no file behind. One
//! thread answers there, as long as something is offered: it sends the descriptor with the number that the other process
//! asks for (`SCM_RIGHTS`). Both ends check that the other one is of their own user.
//!
//! The other way, `pidfd_getfd`, needs no thread, but the permission to trace the owner: Yama denies it to ranks, which
//! are siblings (`kernel.yama.ptrace_scope=1`, as on Ubuntu), unless their processes lift that for all processes of the
//! user; and the usual filter of system calls in containers denies it without `CAP_SYS_PTRACE`.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, recvmsg, send, sendmsg, shutdown,
};
use rustix::process::geteuid;

use crate::memory::token::Place;

/// How long a process waits for the descriptor that it has asked for.
const WAIT: Duration = Duration::from_secs(10);

/// How long the thread waits for the number that a process asks for.
const WAIT_FOR_NUMBER: Duration = Duration::from_secs(1);

/// A file descriptor that other processes can get until this is dropped.
#[derive(Debug)]
pub(crate) struct Offered {
    server: Arc<Server>,
    number: u64,
}

/// The socket of this process. Its thread ends when this is dropped.
#[derive(Debug)]
struct Server {
    /// The process that has started it. A forked process starts another one.
    process: u32,
    key: u64,
    shared: Arc<Shared>,
}

/// The state that the thread and its owner share.
#[derive(Debug)]
struct Shared {
    listener: UnixListener,
    offers: Mutex<Offers>,
}

#[derive(Debug, Default)]
struct Offers {
    /// The number of the latest offer.
    latest: u64,
    descriptors: HashMap<u64, OwnedFd>,
}

impl Offered {
    /// Offers a descriptor. The first offer of the process starts its thread.
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Offered> {
        let server = Server::of_process()?;
        let mut offers = server.shared.offers();
        offers.latest += 1;
        let number = offers.latest;
        offers.descriptors.insert(number, descriptor);
        drop(offers);
        Ok(Offered { server, number })
    }

    pub(crate) fn place(&self) -> Place {
        Place { process: self.server.process, key: self.server.key, number: self.number }
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        self.server.shared.offers().descriptors.remove(&self.number);
    }
}

/// Gets a descriptor from the process that offers it. Waits at most 10 s.
///
/// # Errors
/// The process, its socket or its offer is gone, is of another user, or does not answer.
pub(crate) fn fetch(place: &Place) -> io::Result<OwnedFd> {
    let stream = UnixStream::connect_addr(&address(place.process, place.key)?)?;
    check_user(&stream)?;
    stream.set_read_timeout(Some(WAIT))?;
    let number = place.number.to_le_bytes();
    retry_on_intr(|| send(&stream, &number, SendFlags::NOSIGNAL))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut messages = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    retry_on_intr(|| {
        recvmsg(&stream, &mut [IoSliceMut::new(&mut byte)], &mut messages, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = messages.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptors.next().ok_or_else(|| io::Error::new(ErrorKind::NotFound, "the memory has been freed"))
}

/// The name of a process's socket.
pub(crate) fn name(process: u32, key: u64) -> String {
    format!("haloport-cuda-{process}-{key:016x}")
}

fn address(process: u32, key: u64) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name(process, key))
}

/// Checks that the process at the other end is of the same user.
fn check_user(stream: &UnixStream) -> io::Result<()> {
    let user = socket_peercred(stream)?.uid;
    if user == geteuid() {
        return Ok(());
    }
    let text = format!("the other process is of user {}", user.as_raw());
    Err(io::Error::new(ErrorKind::PermissionDenied, text))
}

impl Server {
    /// That of the process, started if there is none.
    fn of_process() -> io::Result<Arc<Server>> {
        static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut known = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some(server) = known.upgrade().filter(|server| server.process == process) {
            return Ok(server);
        }
        let key = RandomState::new().build_hasher().finish();
        let listener = UnixListener::bind_addr(&address(process, key)?)?;
        let shared = Arc::new(Shared { listener, offers: Mutex::default() });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new().name("haloport-share".into()).spawn(move || of_thread.answer())?;
        let server = Arc::new(Server { process, key, shared });
        *known = Arc::downgrade(&server);
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The socket of a parent goes on.
        if self.process != std::process::id() {
            return;
        }
        // Makes the thread's `accept` return an error. The thread may outlive this for a moment; it uses no driver.
        let _ = shutdown(&self.shared.listener, Shutdown::Both);
    }
}

impl Shared {
    fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers until the listener is shut down.
    fn answer(&self) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    // If it fails, the other process gets no descriptor, and says so.
                    if let Err(error) = self.hand_over(&stream) {
                        tracing::debug!(%error, "handing over no file descriptor");
                    }
                }
                // It is shut down.
                Err(error) if error.kind() == ErrorKind::InvalidInput => return,
                // For example, the process has opened as many files as it may, which may be temporary.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn hand_over(&self, stream: &UnixStream) -> io::Result<()> {
        check_user(stream)?;
        stream.set_read_timeout(Some(WAIT_FOR_NUMBER))?;
        let mut number = [0; 8];
        io::Read::read_exact(&mut &*stream, &mut number)?;
        let offers = self.offers();
        let Some(descriptor) = offers.descriptors.get(&u64::from_le_bytes(number)) else { return Ok(()) };
        let descriptors = [descriptor.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut messages = SendAncillaryBuffer::new(&mut space);
        messages.push(SendAncillaryMessage::ScmRights(&descriptors));
        // One byte, which a new connection has room for: nothing blocks.
        retry_on_intr(|| sendmsg(stream, &[IoSlice::new(&[1])], &mut messages, SendFlags::NOSIGNAL))?;
        Ok(())
    }
}
