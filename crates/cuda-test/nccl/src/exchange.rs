//! What a stream does for a group of messages.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::Arc;

use crate::communicator::Communicator;
use crate::driver::{Driver, driver};
use crate::links::Kind;
use crate::status::{CUDA_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, Status};

/// A message to or from another rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) is_sent: bool,
    pub(crate) address: u64,
    pub(crate) bytes: usize,
    pub(crate) peer: usize,
}

/// A group of messages in a stream.
struct Exchange {
    communicator: Arc<Communicator>,
    /// The number of exchanges before.
    number: u64,
    /// Those that were not sent, or have not arrived.
    messages: Vec<Message>,
    /// The number of messages that each peer has to take from this rank until this exchange is done.
    to_be_taken: BTreeMap<usize, u64>,
}

/// Puts messages into a stream.
pub(crate) fn put(
    communicator: &Arc<Communicator>,
    messages: Vec<Message>,
    stream: usize,
) -> Result<(), Status> {
    let peers: BTreeSet<usize> = messages.iter().map(|message| message.peer).collect();
    communicator.connect(&peers)?;
    let (number, context) = (communicator.next(), communicator.context);
    let communicator = Arc::clone(communicator);
    let own = Arc::clone(&communicator);
    let to_be_taken = BTreeMap::new();
    let exchange = Box::into_raw(Box::new(Exchange { communicator, number, messages, to_be_taken }));
    // SAFETY: the exchange lives until `serve` has returned something else than 1.
    unsafe { driver()?.serve(context, stream, serve, exchange.cast()) }.inspect_err(|_| {
        // SAFETY: the stream has refused the exchange, so it has no other owner.
        drop(unsafe { Box::from_raw(exchange) });
        own.end_exchange();
    })
}

/// Goes on with an exchange. Returns 1 if it waits.
unsafe extern "C" fn serve(served: *mut c_void, exchange: *mut c_void) -> u32 {
    let exchange: *mut Exchange = exchange.cast();
    // SAFETY: the exchange lives, and this stream alone has it.
    let own = unsafe { &mut *exchange };
    let is_done = match driver() {
        Ok(driver) if !own.communicator.is_aborted() => {
            // SAFETY: the driver has passed this for the time of the call.
            unsafe { own.advance(driver, served) }.unwrap_or_else(|status| {
                own.communicator.fail(status);
                true
            })
        }
        _ => true,
    };
    if !is_done {
        return 1;
    }
    own.communicator.end_exchange();
    // SAFETY: the exchange is not used any more.
    drop(unsafe { Box::from_raw(exchange) });
    0
}

impl Exchange {
    /// Returns whether all messages have arrived at both ends.
    ///
    /// # Safety
    /// `served` is what the driver has passed for the call under way.
    unsafe fn advance(&mut self, driver: &Driver, served: *mut c_void) -> Result<bool, Status> {
        if self.communicator.done() < self.number {
            return Ok(false);
        }
        let place = |message: &Message| {
            // SAFETY: the caller's promise.
            let place = unsafe { driver.memory(served, message.address, message.bytes, !message.is_sent) };
            if place.is_null() { Err(CUDA_ERROR) } else { Ok(place) }
        };
        let communicator = &self.communicator;
        // Read before the messages are looked for: if a peer has ended, all that it has sent is in the inbox.
        let peers: BTreeSet<usize> = self.messages.iter().map(|message| message.peer).collect();
        let is_lost = |peer: &usize| communicator.link(*peer).is_some_and(|link| link.inbox().is_closed);
        let lost: BTreeSet<usize> =
            peers.iter().chain(self.to_be_taken.keys()).copied().filter(is_lost).collect();
        for message in self.messages.extract_if(.., |message| message.is_sent) {
            // SAFETY: the place has that many bytes, and the driver lets them be read.
            let bytes = unsafe { std::slice::from_raw_parts(place(&message)?, message.bytes) };
            let link = communicator.link(message.peer).ok_or(INVALID_ARGUMENT)?;
            self.to_be_taken.insert(message.peer, link.send_message(bytes));
        }
        // Messages of a rank arrive in order.
        let mut late = BTreeSet::new();
        for message in std::mem::take(&mut self.messages) {
            let link = communicator.link(message.peer).ok_or(INVALID_ARGUMENT)?;
            let arrived = if late.contains(&message.peer) { None } else { link.inbox().messages.pop_front() };
            let Some(bytes) = arrived else {
                late.insert(message.peer);
                self.messages.push(message);
                continue;
            };
            if bytes.len() != message.bytes {
                let [rank, peer] = [communicator.rank, message.peer];
                let [found, expected] = [bytes.len(), message.bytes];
                eprintln!(
                    "the NCCL for tests: {found} bytes from rank {peer}, where rank {rank} expects {expected}"
                );
                return Err(INVALID_USAGE);
            }
            // SAFETY: the place has that many bytes, and the driver lets them be written.
            unsafe { place(&message)?.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            link.send(Kind::Taken, &[]);
        }
        let mut is_done = self.messages.is_empty();
        let mut waits_for_lost = late.iter().any(|peer| lost.contains(peer));
        for (peer, number) in &self.to_be_taken {
            let link = communicator.link(*peer).ok_or(INVALID_ARGUMENT)?;
            let is_taken = link.inbox().taken >= *number;
            is_done &= is_taken;
            waits_for_lost |= !is_taken && lost.contains(peer);
        }
        if waits_for_lost {
            // The stream waits all the same.
            communicator.fail(REMOTE_ERROR);
        }
        Ok(is_done)
    }
}
