//! Command lists.

use std::sync::{Arc, Mutex};

use super::event::Event;
use super::job::{Job, Work};
use super::lane::Lane;
use crate::lock::locked;
use crate::status::{INVALID_ARGUMENT, INVALID_COMMAND_LIST_TYPE, Status};

/// A command list.
#[derive(Debug)]
pub(crate) struct List {
    in_order: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Immediate { lane: Lane, synchronous: bool },
    Regular(Mutex<Recorded>),
}

/// The commands of a list for queues.
#[derive(Debug, Default)]
struct Recorded {
    jobs: Vec<Arc<Job>>,
    closed: bool,
    /// Whether a queue has been given them before.
    executed: bool,
}

impl List {
    /// A list with a queue of its own. If `synchronous`, a command has been done when the call returns.
    pub(crate) fn immediate(in_order: bool, synchronous: bool) -> List {
        List { in_order, kind: Kind::Immediate { lane: Lane::new(), synchronous } }
    }

    pub(crate) fn regular(in_order: bool) -> List {
        List { in_order, kind: Kind::Regular(Mutex::default()) }
    }

    /// The queue of an immediate list.
    pub(crate) fn lane(&self) -> Result<&Lane, Status> {
        match &self.kind {
            Kind::Immediate { lane, .. } => Ok(lane),
            Kind::Regular(_) => Err(INVALID_COMMAND_LIST_TYPE),
        }
    }

    /// Appends a command. `ordered` ones are barriers.
    pub(crate) fn append(
        &self,
        work: Work,
        ordered: bool,
        waits: &[Arc<Event>],
        signal: Option<&Event>,
    ) -> Result<(), Status> {
        // First: the command may wait for an earlier meaning of the event that it signals.
        let waits = waits.iter().map(|event| event.point()).collect();
        let signal = signal.map(Event::signal);
        let job = Arc::new(Job { work, ordered: ordered || self.in_order, waits, signal });
        match &self.kind {
            Kind::Immediate { lane, synchronous } => {
                lane.push(job);
                if *synchronous {
                    lane.wait(u64::MAX)?;
                }
            }
            Kind::Regular(recorded) => {
                let mut recorded = locked(recorded);
                if recorded.closed {
                    return Err(INVALID_ARGUMENT);
                }
                recorded.jobs.push(job);
            }
        }
        Ok(())
    }

    pub(crate) fn close(&self) -> Result<(), Status> {
        self.recorded(|recorded| {
            recorded.closed = true;
            Ok(())
        })
    }

    pub(crate) fn reset(&self) -> Result<(), Status> {
        self.recorded(|recorded| {
            *recorded = Recorded::default();
            Ok(())
        })
    }

    /// Gives the commands of a closed list to a queue.
    pub(crate) fn execute(&self, lane: &Lane) -> Result<(), Status> {
        self.recorded(|recorded| {
            if !recorded.closed {
                return Err(INVALID_ARGUMENT);
            }
            if std::mem::replace(&mut recorded.executed, true) {
                // What the commands signalled before is to be waited for again.
                recorded.jobs.iter().filter_map(|job| job.signal.as_ref()).for_each(|point| point.leave());
            }
            recorded.jobs.iter().for_each(|job| lane.push(Arc::clone(job)));
            Ok(())
        })
    }

    fn recorded(&self, act: impl FnOnce(&mut Recorded) -> Result<(), Status>) -> Result<(), Status> {
        match &self.kind {
            Kind::Immediate { .. } => Err(INVALID_COMMAND_LIST_TYPE),
            Kind::Regular(recorded) => act(&mut locked(recorded)),
        }
    }
}
