//! The calls between `ncclGroupStart` and `ncclGroupEnd`, of each thread.

use std::cell::RefCell;
use std::sync::Arc;

use crate::communicator::Communicator;
use crate::exchange::{Message, put};
use crate::status::{IN_PROGRESS, INVALID_USAGE, SUCCESS, Status};

/// The calls of a thread.
#[derive(Default)]
struct Calls {
    /// The number of groups that were begun and not ended.
    depth: usize,
    messages: Vec<(Arc<Communicator>, usize, Message)>,
    /// The first error of a call.
    error: Option<Status>,
}

thread_local!(static CALLS: RefCell<Calls> = RefCell::default());

/// Begins a group.
pub(crate) fn start() {
    CALLS.with_borrow_mut(|calls| calls.depth += 1);
}

/// Adds a message to the group of this thread.
pub(crate) fn add(
    communicator: Arc<Communicator>,
    stream: usize,
    message: Result<Message, Status>,
) -> Result<(), Status> {
    CALLS.with_borrow_mut(|calls| match message {
        Ok(message) => {
            calls.messages.push((communicator, stream, message));
            Ok(())
        }
        Err(status) => {
            calls.error.get_or_insert(status);
            Err(status)
        }
    })
}

/// Ends a group: its messages are put into their stream.
pub(crate) fn end() -> Status {
    let calls = CALLS.with_borrow_mut(|calls| {
        calls.depth = calls.depth.checked_sub(1)?;
        Some(if calls.depth == 0 {
            std::mem::take(calls)
        } else {
            Calls { depth: calls.depth, ..Calls::default() }
        })
    });
    let Some(calls) = calls else { return INVALID_USAGE };
    if let Some(status) = calls.error {
        return status;
    }
    let Some((communicator, stream, _)) = calls.messages.first() else { return SUCCESS };
    let (communicator, stream) = (Arc::clone(communicator), *stream);
    let is_other = |(of, its_stream, _): &(Arc<Communicator>, usize, Message)| {
        !Arc::ptr_eq(of, &communicator) || *its_stream != stream
    };
    // NCCL takes several; the backend needs one.
    if calls.messages.iter().any(is_other) {
        return INVALID_USAGE;
    }
    let messages = calls.messages.into_iter().map(|(_, _, message)| message).collect();
    let own = Arc::clone(&communicator);
    communicator.go_on(move |_| put(&own, messages, stream));
    IN_PROGRESS
}
