//! The collective calls of a communicator.
//!
//! Each call begins with one reduction of the same length on every rank, whatever the call. It carries a word that says
//! what the call is about, so that ranks which come to different calls all notice, at once and in step; and, where there
//! is room, the few values of the call itself: barriers, agreements, and the largest or smallest of up to
//! [`RIDERS`] values need nothing else. A call of several steps, such as the binding of fields, begins so once, and its
//! steps go on without.

use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::{Call, Collectives};
use super::communicator::{Communicator, Waiting, decode, encode};
use crate::callback;
use crate::transport::{Idle, Reduction, Transport, TransportError};

/// The most values that travel with the word of a call.
const RIDERS: usize = 6;

/// A call of several steps, as long as this lives: no other call of this rank comes between them.
#[derive(Debug)]
pub(crate) struct Steps<'c> {
    comm: &'c Communicator,
    number: u32,
    /// Whether it is part of another call.
    is_part: bool,
}

impl Steps<'_> {
    /// How many calls of this kind there were on the communicator, with this one: the same on every rank.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        if self.is_part {
            return;
        }
        let mut state = self.comm.collectives().lock().unwrap_or_else(PoisonError::into_inner);
        state.within = None;
        if thread::panicking() {
            let why = "a rank panicked in the midst of a collective call".into();
            state.failed.get_or_insert(TransportError::Broken(why));
        }
    }
}

impl Communicator {
    /// Collective: waits until every rank has come here.
    ///
    /// # Errors
    /// [`TransportError::OutOfStep`], [`TransportError::TimeLimit`], [`TransportError::PeerFailed`],
    /// [`TransportError::Busy`], [`TransportError::Broken`], and what the layer below says.
    pub fn barrier(&self) -> Result<(), TransportError> {
        self.step(Call::Barrier, |step| step.meet(&mut [], Reduction::Max))
    }

    /// Collective: the largest `value` of all ranks, in the order of [`f64::total_cmp`].
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier).
    pub fn all_max(&self, value: f64) -> Result<f64, TransportError> {
        let mut ordered = [ordered_from(value)];
        self.all_reduce(&mut ordered, Reduction::Max)?;
        Ok(float_from(ordered[0]))
    }

    /// Collective: replaces each value by its reduction over all ranks. The lists have the same length on every rank.
    ///
    /// The largest or smallest of up to 6 values take one reduction of the transport, and all else takes two.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier). After [`TransportError::OutOfStep`], as where the lengths differ, the
    /// values are as they were.
    pub fn all_reduce(&self, values: &mut [u64], reduction: Reduction) -> Result<(), TransportError> {
        self.reduce_in(Call::Reduction { reduction, values: values.len() }, values, reduction)
    }

    /// Collective: gives every rank the value of rank `root`.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier), and [`TransportError::NoSuchRank`].
    pub fn broadcast<T: Serialize + DeserializeOwned>(
        &self,
        root: usize,
        value: &T,
    ) -> Result<T, TransportError> {
        if root >= self.size() {
            return Err(TransportError::NoSuchRank { peer: root, size: self.size() });
        }
        let mut bytes = if self.rank() == root { encode(value, root)? } else { Vec::new() };
        self.step(Call::Broadcast { root }, |step| {
            step.begin()?;
            step.run(|transport, idle| transport.broadcast(root, &mut bytes, idle))
        })?;
        decode(root, &bytes)
    }

    /// Collective: sends each message to the rank beside it, and returns the messages for this rank with their
    /// senders, in the order of the senders. Receivers need not know who sends.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier), [`TransportError::NoSuchRank`] and [`TransportError::Malformed`].
    pub fn sparse_exchange<T: Serialize + DeserializeOwned>(
        &self,
        messages: &[(usize, T)],
    ) -> Result<Vec<(usize, T)>, TransportError> {
        let me = self.rank();
        let encoded = messages.iter().map(|(peer, message)| Ok((*peer, encode(message, me)?)));
        let received = self.sparse_exchange_bytes(encoded.collect::<Result<_, TransportError>>()?)?;
        received.iter().map(|(sender, bytes)| Ok((*sender, decode(*sender, bytes)?))).collect()
    }

    /// Collective: as [`sparse_exchange`](Communicator::sparse_exchange), of bytes as they are.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier), and [`TransportError::NoSuchRank`].
    pub fn sparse_exchange_bytes(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError> {
        let size = self.size();
        if let Some(&(peer, _)) = messages.iter().find(|(peer, _)| *peer >= size) {
            return Err(TransportError::NoSuchRank { peer, size });
        }
        self.step(Call::Messages, |step| {
            step.begin()?;
            step.run(|transport, idle| transport.sparse_exchange(messages, idle))
        })
    }

    /// Collective: ends with the same result on every rank: `Ok` where all ranks are content, else the complaint of
    /// the lowest rank that has one.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier). The inner result is the agreed one.
    pub fn agree(&self, complaint: Option<String>) -> Result<Result<(), String>, TransportError> {
        let rank = self.rank();
        self.step(Call::Agreement, |step| {
            let mut lowest = [if complaint.is_some() { rank as u64 } else { u64::MAX }];
            step.meet(&mut lowest, Reduction::Min)?;
            if lowest[0] == u64::MAX {
                return Ok(Ok(()));
            }
            let text = step.text_of(lowest[0] as usize, complaint.unwrap_or_default())?;
            Ok(Err(format!("rank {}: {text}", lowest[0])))
        })
    }

    /// Collective: as [`all_reduce`](Communicator::all_reduce), as part of what `call` is about.
    pub(crate) fn reduce_in(
        &self,
        call: Call,
        values: &mut [u64],
        reduction: Reduction,
    ) -> Result<(), TransportError> {
        self.step(call, |step| {
            if values.len() <= RIDERS && reduction != Reduction::Sum {
                return step.meet(values, reduction);
            }
            step.begin()?;
            step.run(|transport, idle| transport.all_reduce(values, reduction, idle))
        })
    }

    /// Collective: begins a call of several steps. All that this thread calls until it ends are its steps; calls of
    /// other threads are refused.
    pub(crate) fn enter(&self, call: Call) -> Result<Steps<'_>, TransportError> {
        let (number, is_part) = self.step(call, |step| {
            step.begin()?;
            let count = &mut step.state.counts[call.kind()];
            *count += 1;
            let number = *count;
            if !step.is_part {
                step.state.within = Some(thread::current().id());
            }
            Ok((number, step.is_part))
        })?;
        Ok(Steps { comm: self, number, is_part })
    }

    /// Does what is done in one step.
    fn step<R>(
        &self,
        call: Call,
        work: impl FnOnce(&mut Step<'_>) -> Result<R, TransportError>,
    ) -> Result<R, TransportError> {
        if callback::is_running() {
            return Err(TransportError::Busy);
        }
        let state = match self.collectives().try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(TransportError::Busy),
        };
        if let Some(error) = &state.failed {
            return Err(TransportError::Broken(error.to_string()));
        }
        let is_part = match state.within {
            Some(thread) if thread != thread::current().id() => return Err(TransportError::Busy),
            within => within.is_some(),
        };
        let mut step = Step { comm: self, call, is_part, state };
        let outcome = match self.trace().recording() {
            Some(recording) => recording.wait(call.all_ranks(), None, || work(&mut step), Result::is_err),
            None => work(&mut step),
        };
        if let Err(error) = &outcome
            && !leaves_in_step(error)
        {
            step.state.failed = Some(error.clone());
        }
        outcome
    }
}

/// Whether ranks may go on after an error: all have got it, or the call never came to the others.
fn leaves_in_step(error: &TransportError) -> bool {
    use TransportError::{NoSuchRank, OutOfStep, WrongThread};
    matches!(error, WrongThread { .. } | NoSuchRank { .. } | OutOfStep { .. })
}

/// One step of a rank, with the state that it has locked.
struct Step<'c> {
    comm: &'c Communicator,
    call: Call,
    /// Whether it is a step of another call, on which the ranks have agreed.
    is_part: bool,
    state: MutexGuard<'c, Collectives>,
}

impl Step<'_> {
    /// Agrees that all ranks are at this call, unless they have agreed on one that it is part of.
    fn begin(&mut self) -> Result<(), TransportError> {
        if self.is_part { Ok(()) } else { self.meet(&mut [], Reduction::Max) }
    }

    /// Agrees that all ranks are at this call, and reduces up to [`RIDERS`] values to the largest or smallest. Blocks
    /// until all ranks have come.
    fn meet(&mut self, values: &mut [u64], reduction: Reduction) -> Result<(), TransportError> {
        // The smallest is the complement of the largest complement.
        let flip = if reduction == Reduction::Min { u64::MAX } else { 0 };
        let word = self.call.word();
        let mut packet = [0; 2 + RIDERS];
        packet[..2].copy_from_slice(&[word, !word]);
        packet[2..].iter_mut().zip(&*values).for_each(|(rider, value)| *rider = value ^ flip);
        self.run(|transport, idle| transport.all_reduce(&mut packet, Reduction::Max, idle))?;
        if packet[0] != !packet[1] {
            return Err(self.out_of_step()?);
        }
        values.iter_mut().zip(&packet[2..]).for_each(|(value, rider)| *value = rider ^ flip);
        Ok(())
    }

    /// Ranks are at different calls, as all of them know: agrees on the error.
    fn out_of_step(&mut self) -> Result<TransportError, TransportError> {
        let (rank, mine) = (self.comm.rank(), self.call.to_string());
        let first = self.text_of(0, mine.clone())?;
        let mut lowest = [if mine == first { u64::MAX } else { rank as u64 }];
        self.run(|transport, idle| transport.all_reduce(&mut lowest, Reduction::Min, idle))?;
        let rank = lowest[0].min(self.comm.size() as u64 - 1) as usize;
        let call = self.text_of(rank, mine)?;
        Ok(TransportError::OutOfStep { rank, call, first })
    }

    /// The text of rank `root`.
    fn text_of(&mut self, root: usize, mine: String) -> Result<String, TransportError> {
        let mut bytes = mine.into_bytes();
        self.run(|transport, idle| transport.broadcast(root, &mut bytes, idle))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Does what blocks, within the time limit, and serves the pending exchanges meanwhile.
    fn run<R>(
        &self,
        work: impl FnOnce(&dyn Transport, Idle<'_>) -> Result<R, TransportError>,
    ) -> Result<R, TransportError> {
        let (comm, transport) = (self.comm, &**self.comm.transport());
        let mut waiting = Waiting::new(comm);
        work(transport, &mut || {
            comm.engine().serve(transport);
            waiting.round(|| self.missing())
        })
    }

    /// Who is waited for, in words.
    fn missing(&self) -> String {
        let missing = self.comm.transport().missing_ranks();
        let named: Vec<String> = missing.iter().take(MOST_NAMED).map(ToString::to_string).collect();
        let named = named.join(", ");
        match missing.len() {
            0 => format!("other ranks to come to {}", self.call),
            1 => format!("rank {named} to come to {}", self.call),
            count if count <= MOST_NAMED => format!("the ranks {named} to come to {}", self.call),
            count => format!("the ranks {named} and {} more to come to {}", count - MOST_NAMED, self.call),
        }
    }
}

/// The most ranks that a text names.
const MOST_NAMED: usize = 8;

/// An integer that is ordered as the float is by [`f64::total_cmp`].
fn ordered_from(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn float_from(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_keep_their_order_as_integers() {
        let values = [f64::NEG_INFINITY, -2.5, -0.0, 0.0, f64::MIN_POSITIVE, 1.0, 1e300, f64::INFINITY];
        for pair in values.windows(2) {
            assert!(ordered_from(pair[0]) < ordered_from(pair[1]), "{pair:?}");
        }
        for value in values {
            assert_eq!(float_from(ordered_from(value)).to_bits(), value.to_bits());
        }
    }
}
