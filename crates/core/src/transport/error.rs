//! Errors of transports and of collective calls.

use std::time::Duration;

/// An error of a transport or of a collective call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// A call names a rank that does not exist.
    #[error("there is no rank {peer}: the communicator has {size} ranks, numbered from 0")]
    NoSuchRank {
        /// The rank named.
        peer: usize,
        /// The number of ranks.
        size: usize,
    },
    /// Another rank ended with an error or a panic.
    #[error("rank {rank} has failed: {why}")]
    PeerFailed {
        /// The rank that failed.
        rank: usize,
        /// Its error or the message of its panic.
        why: String,
    },
    /// This rank waits for a rank whose communicator is gone or was [closed](crate::Communicator::close), which can happen to ranks as threads.
    #[error("rank {rank} has ended, and this rank waits for it: its communicator was dropped or closed")]
    PeerEnded {
        /// The rank that ended.
        rank: usize,
    },
    /// A wait took longer than the time limit.
    #[error("waiting for {what} took longer than the time limit of {limit:?}")]
    TimeLimit {
        /// The missing ranks or messages, in words.
        what: String,
        /// The missing ranks, ascending; empty if they are not known, as in collective calls of MPI.
        ranks: Vec<usize>,
        /// The limit.
        limit: Duration,
    },
    /// The program has ended a wait: the function of [`set_interrupt`](crate::Communicator::set_interrupt) has returned
    /// `true`.
    #[error("waiting for {what} was interrupted")]
    Interrupted {
        /// The missing ranks or messages, in words.
        what: String,
    },
    /// The length of a message is not that of its channel.
    #[error(
        "a message from rank {sender} to rank {receiver} has {found} bytes where the receiver expects {expected}"
    )]
    Length {
        /// The sending rank.
        sender: usize,
        /// The receiving rank.
        receiver: usize,
        /// Bytes expected by the receiver.
        expected: usize,
        /// Bytes sent.
        found: usize,
    },
    /// All tags of the transport are taken.
    #[error(
        "{exchanges} exchanges have taken all tags of the transport, of which the largest is {largest}: drop exchanges that \
         are no longer used, on all ranks, or use another communicator"
    )]
    NoTags {
        /// The largest tag.
        largest: u32,
        /// The exchanges of this rank that have tags.
        exchanges: usize,
    },
    /// A call breaks the contract of a channel.
    #[error("{0}")]
    Channel(String),
    /// A collective was called while another one was under way on the same communicator, or within a completion
    /// callback.
    #[error(
        "another collective call is under way on this communicator: make collective calls one after another, \
         and never from a completion callback"
    )]
    Busy,
    /// Ranks made different collective calls. Every rank gets the same error, and no call has an effect; the
    /// communicator can still be used.
    #[error(
        "the ranks are out of step: rank {rank} has come to {call}, and rank 0 to {first}; all ranks make the same \
         collective calls in the same order"
    )]
    OutOfStep {
        /// The lowest rank whose call is not that of rank 0.
        rank: usize,
        /// Its call.
        call: String,
        /// The call of rank 0.
        first: String,
    },
    /// The value of an environment variable cannot be read.
    #[error(
        "the environment variable {name} is `{found}`, expected a number of seconds above 0, or `none`: correct it, \
         or unset it"
    )]
    Variable {
        /// The name.
        name: &'static str,
        /// The value.
        found: String,
    },
    /// This rank has [closed](crate::Communicator::close) the communicator.
    #[error("this rank has closed the communicator: close it after its last use, or make a new one")]
    Closed,
    /// An earlier collective call failed on this rank.
    #[error(
        "an earlier collective call failed, so ranks may be at different calls: {0}; make a new communicator"
    )]
    Broken(String),
    /// The ranks' lists of values in a reduction have different lengths.
    #[error(
        "one rank has {one} values in a reduction and another has {other}: all ranks bring the same number"
    )]
    Lengths {
        /// One rank's number of values.
        one: usize,
        /// Another rank's.
        other: usize,
    },
    /// The peer closed its end of a window or of a channel while this rank waited for it.
    #[error("rank {peer} has given up the exchange")]
    PeerGaveUp {
        /// The rank at the other end.
        peer: usize,
    },
    /// A value from another rank could not be decoded.
    #[error("a value from rank {sender} could not be decoded: {why}")]
    Malformed {
        /// The rank that sent it.
        sender: usize,
        /// The error of the decoder.
        why: String,
    },
    /// A thread called a transport that it may not call.
    #[error("{what}, called from another thread than the one that made it: {advice}")]
    WrongThread {
        /// The transport and its thread level.
        what: String,
        /// The advice to the caller.
        advice: &'static str,
    },
    /// The progress thread may not call the transport.
    #[error(
        "{transport} takes calls of one thread alone, so the progress thread cannot call it: initialise MPI with \
         MPI_THREAD_MULTIPLE, or leave progress to the calls of the program"
    )]
    NoProgressThread {
        /// The transport and what it is made of.
        transport: String,
    },
    /// A launcher has started several processes, but the layer below finds fewer ranks.
    #[error(
        "{library} finds {ranks} rank here, but {variable}={value} says that the launcher has started more: they are \
         of different MPIs, and each process would run alone. Start the program with the launcher of {library}, or \
         set HALOPORT_MPI to the library of the launcher's MPI; if it is meant to run alone, unset {variable}"
    )]
    WrongLauncher {
        /// The layer below and its version.
        library: String,
        /// The ranks that it finds.
        ranks: usize,
        /// The launcher's environment variable with the number of processes.
        variable: &'static str,
        /// Its value.
        value: u64,
    },
    /// A call of the layer below failed.
    #[error("{call} failed: {message}")]
    Layer {
        /// The call.
        call: &'static str,
        /// Its message.
        message: String,
    },
}
