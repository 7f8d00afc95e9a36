//! Bound exchanges: what is done every time, from start to finish.
//!
//! From the top down:
//! - here: a bound exchange: starting it, waiting for it, abandoning it; and the course of one on a device with streams;
//! - `flight`: one exchange, shared with the engine that polls it; `flight_state`: what it keeps behind its lock, and its
//!   status: idle, travelling, arrived, gated or poisoned;
//! - the parts, one for each device: `host`, of a device that has done its work when a call returns; `stream` with
//!   `stream_phases`, of a device with streams, whose course is chosen at the start;
//! - `build`: makes the part of a device, once.

mod build;
pub(super) mod flight;
pub(super) mod flight_state;
pub(super) mod host;
mod stream;
mod stream_phases;

use std::sync::Arc;

use super::options::{ExchangeError, Schedule};
use super::work::trace::HostWaits;
use crate::comm::{Missing, Served as _, Tags};
use crate::log;
use crate::pattern::Pattern;
use crate::transport::TransportError;
use flight::Flight;
use flight_state::Status;

/// A flight and the ranks that take part in it. Dropping it ends the exchange.
pub(crate) struct Bound {
    pub(crate) pattern: Pattern,
    /// Of a set of patterns, the numbers of the fields, which ascend, each with that of its pattern; else none.
    pub(crate) patterns: Arc<[(usize, usize)]>,
    pub(crate) flight: Arc<Flight>,
    pub(crate) waits: HostWaits,
    pub(crate) tags: Vec<Tags>,
}

impl Bound {
    /// The pattern of a field, by the place of its identity among those of the fields.
    pub(crate) fn pattern_of(&self, place: usize) -> &Pattern {
        let found = self.patterns.iter().find(|(number, _)| *number >= place);
        found.and_then(|(_, pattern)| self.pattern.in_set(*pattern)).unwrap_or(&self.pattern)
    }

    /// Packs, sends and returns. On asynchronous devices it merely puts that into streams; the progress thread does the
    /// rest, so that neighbours need no later call of this rank.
    pub(crate) fn start(&self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        self.begin(schedule, false)
    }

    /// As [`start`](Bound::start), of a caller that calls [`end`](Bound::end) next.
    pub(crate) fn start_to_end(&self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        self.begin(schedule, true)
    }

    /// `to_end`: the caller calls [`end`](Bound::end) next.
    fn begin(&self, schedule: Schedule<'_>, to_end: bool) -> Result<(), ExchangeError> {
        let comm = self.pattern.comm();
        comm.check_start()?;
        let (engine, transport) = (comm.engine(), &**comm.transport());
        engine.add(&self.flight);
        let is_blocking = matches!(schedule, Schedule::Blocking);
        let watched = !is_blocking && comm.may_be_driven();
        if let Err(error) = self.flight.start(transport, &schedule, watched) {
            engine.remove(&self.flight);
            return Err(error);
        }
        let is_asynchronous = self.flight.is_asynchronous();
        if is_asynchronous || !to_end {
            self.flight.poll(transport, engine);
        }
        // The progress thread polls the exchange of an asynchronous device, or any if the program asks for that.
        if is_asynchronous && !(to_end && is_blocking) {
            comm.drive();
        } else if !(to_end && is_blocking) {
            comm.drive_if_asked();
        }
        Ok(())
    }

    /// Finishes the exchange: behind gates, without blocking, where that is possible; otherwise blocks until everything
    /// has arrived.
    pub(crate) fn end(&self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        let comm = self.pattern.comm();
        if let Some(finished) = self.end_at_once(&schedule) {
            comm.engine().remove(&self.flight);
            return finished;
        }
        let may_be_gated = self.flight.is_asynchronous() && !matches!(schedule, Schedule::Blocking);
        let is_needed = || self.flight.is_asynchronous() && !comm.engine().has_one();
        let driven = (may_be_gated || is_needed()) && comm.drive();
        if may_be_gated && driven {
            // If this fails, so does `finish`.
            self.flight.finish_behind_gates(&**comm.transport(), &schedule, comm.limits());
        }
        let finishing = self.flight.finishing(driven);
        self.wait_until("finish", |flight| !flight.is_waited_for());
        let (finished, is_settled) = self.flight.finish(&**comm.transport(), &schedule, finishing);
        if is_settled {
            comm.engine().remove(&self.flight);
        }
        finished
    }

    /// Finishes the exchange if all has arrived, or arrives within a few looks; `None` if not. Spares small exchanges most of
    /// the locks of a longer wait.
    fn end_at_once(&self, schedule: &Schedule<'_>) -> Option<Result<(), ExchangeError>> {
        let comm = self.pattern.comm();
        let (engine, transport) = (comm.engine(), &**comm.transport());
        // A wait on another thread is an error, and one in a time line has a span.
        if comm.check_thread().is_err() || self.waits.are_recorded() {
            return None;
        }
        engine.guard(&*self.flight, transport, || self.flight.finish_at_once(transport, schedule)).flatten()
    }

    /// Completes an exchange in flight. Blocks until all its gates are open.
    pub(crate) fn complete(&self) -> Result<(), ExchangeError> {
        if matches!(self.flight.status(), Status::Travelling | Status::Arrived) {
            self.end(Schedule::DefaultStream)?;
        }
        if self.flight.status() == Status::Gated {
            self.wait_until("start", |flight| !flight.is_under_way());
        }
        match self.flight.status() {
            Status::Poisoned(error) => Err(ExchangeError::Poisoned(error.to_string())),
            _ => Ok(()),
        }
    }

    /// Blocks until the halos of the last exchange are in place.
    pub(crate) fn synchronize(&self) -> Result<(), ExchangeError> {
        self.waits.during("synchronize", || !self.flight.is_asynchronous(), || self.flight.synchronize())
    }

    /// Blocks until `done`, in the call `name`. Abandons the exchange if that takes too long.
    fn wait_until(&self, name: &'static str, done: impl Fn(&Flight) -> bool) {
        let wait = || self.pattern.comm().wait(|| self.flight.missing(), || Ok(done(&self.flight)));
        let waited = self.waits.during(name, || done(&self.flight), wait);
        if let Err(error) = waited {
            self.give_up(match error {
                TransportError::TimeLimit { what, ranks, limit } => {
                    ExchangeError::TimeLimit { missing: what, ranks, limit }
                }
                other => other.into(),
            });
        }
    }

    /// On asynchronous devices, blocks until no exchange of this rank holds back a stream by a gate. While one does,
    /// memory must not be allocated or freed.
    pub(crate) fn wait_for_gates(&self) -> Result<(), ExchangeError> {
        let comm = self.pattern.comm();
        if self.flight.is_asynchronous() {
            comm.wait(
                || Missing::new("the gates of exchanges that are finished", Vec::new()),
                || Ok(!comm.engine().is_gated()),
            )?;
        }
        Ok(())
    }

    /// Makes progress, and returns whether `end` would not wait for a neighbour. Does not block.
    pub(crate) fn is_ready(&self) -> bool {
        self.pattern.comm().progress();
        self.flight.status() != Status::Travelling
    }

    /// Abandons the exchange and poisons it with `error`.
    pub(crate) fn give_up(&self, error: ExchangeError) {
        let comm = self.pattern.comm();
        self.flight.abandon(&**comm.transport(), error);
        comm.engine().remove(&self.flight);
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let is_under_way = || {
            // What was put off is not done by polls once the engine has let the exchange go.
            self.flight.is_settled(&**self.pattern.comm().transport());
            self.flight.is_under_way()
        };
        if !std::thread::panicking() && is_under_way() {
            // Neighbours receive the messages that they wait for. Here, only unpacking that is already in streams is
            // done: the fields may have other owners by now.
            let flight = &self.flight;
            match self.pattern.comm().wait(|| flight.missing(), || Ok(!flight.is_under_way())) {
                // The program has ended the wait, and knows.
                Ok(()) | Err(TransportError::Interrupted { .. }) => {}
                Err(error) => {
                    log::error(format_args!("an exchange failed while it was dropped in flight: {error}"));
                }
            }
        }
        let exchanges = self.flight.completed();
        self.tags.iter_mut().for_each(|tags| tags.end(exchanges));
        self.give_up(ExchangeError::Poisoned("it was dropped".into()));
        self.flight.release();
    }
}

/// The course of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// The host sends messages, and hands over windows, when the device has packed. If there are words of neighbours, too,
    /// the host awaits them, or the part's own stream does.
    Hosted {
        /// Whether the host awaits the words.
        words_by_host: bool,
    },
    /// Streams do all of it, except that the host awaits the words of neighbours.
    WordsByHost,
    /// All of it is in the part's own stream.
    OwnStream,
    /// The same, except for the unpacking to borrowed memory, which `finish` puts into the caller's stream.
    UnpackedInFinish,
}

/// What the choice depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// There are messages of the transport, or windows that hosts hand over; or nothing goes to other ranks.
    pub(crate) is_hosted: bool,
    /// Streams hand windows over by words.
    pub(crate) has_words: bool,
    /// Messages in streams go to borrowed memory.
    pub(crate) unpacks_in_finish: bool,
    /// The schedule names a stream: it is not `Blocking`.
    pub(crate) names_stream: bool,
    /// A thread polls the exchange until it ends.
    pub(crate) is_watched: bool,
    /// A stream that waits could hold back work that its wait depends on: the streams of the device share queues, which
    /// other ranks of this process use, or exchanges that copy late.
    pub(crate) may_hold_back: bool,
}

impl Course {
    pub(crate) fn choose(facts: &Facts) -> Course {
        let Facts { is_hosted, has_words, unpacks_in_finish, names_stream, is_watched, may_hold_back } =
            *facts;
        let words_by_host = has_words && (!names_stream || !is_watched || may_hold_back);
        match (is_hosted, words_by_host, unpacks_in_finish) {
            (true, ..) => Course::Hosted { words_by_host },
            (false, true, _) => Course::WordsByHost,
            (false, false, true) => Course::UnpackedInFinish,
            (false, false, false) => Course::OwnStream,
        }
    }

    /// Whether the host awaits words of neighbours.
    pub(crate) fn awaits_words_on_host(self) -> bool {
        matches!(self, Course::WordsByHost | Course::Hosted { words_by_host: true })
    }

    /// Whether the host sends messages or hands over windows.
    pub(crate) fn is_hosted(self) -> bool {
        matches!(self, Course::Hosted { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_of_facts_has_its_course() {
        use Course::*;

        // hosted, words, unpacks in finish, names a stream, watched, may hold back
        let table = [
            ([1, 0, 0, 1, 1, 0], Hosted { words_by_host: false }),
            ([1, 0, 0, 0, 0, 1], Hosted { words_by_host: false }),
            ([1, 1, 0, 1, 1, 0], Hosted { words_by_host: false }),
            ([1, 1, 0, 1, 1, 1], Hosted { words_by_host: true }),
            ([1, 1, 1, 0, 1, 0], Hosted { words_by_host: true }),
            ([0, 1, 0, 1, 1, 0], OwnStream),
            ([0, 1, 0, 0, 1, 0], WordsByHost),
            ([0, 1, 0, 1, 0, 0], WordsByHost),
            ([0, 1, 0, 1, 1, 1], WordsByHost),
            ([0, 1, 1, 1, 1, 1], WordsByHost),
            ([0, 1, 1, 1, 1, 0], UnpackedInFinish),
            ([0, 0, 1, 1, 1, 0], UnpackedInFinish),
            // Messages in streams are awaited by streams, with and without a thread that watches.
            ([0, 0, 0, 0, 0, 1], OwnStream),
            ([0, 0, 1, 0, 0, 1], UnpackedInFinish),
        ];
        for (facts, expected) in table {
            let [is_hosted, has_words, unpacks_in_finish, names_stream, is_watched, may_hold_back] =
                facts.map(|fact| fact == 1);
            let facts =
                Facts { is_hosted, has_words, unpacks_in_finish, names_stream, is_watched, may_hold_back };
            assert_eq!(Course::choose(&facts), expected, "{facts:?}");
        }
    }
}
