//! The collective calls of a communicator.
//!
//! Each call begins with one reduction of the same length on every rank, whatever the call. It compares a word that
//! stands for the call, so ranks with different calls all notice at once and stay in step. It also has room for a few
//! values: barriers, agreements, and the largest or smallest of up to [`INLINE_VALUES`] values need nothing else. A
//! call of several steps, such as the binding of fields, compares once, at its beginning.

use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::{CollectiveCall, Collectives};
use super::communicator::{BlockingWait, Communicator, decode, encode};
use super::reducible::{Number, Reducible};
use super::wait::Missing;
use crate::callback;
use crate::element::Element;
use crate::transport::{Idle, Reduction, Transport, TransportError};

/// The most values that are reduced together with the word of a call.
const INLINE_VALUES: usize = 6;

/// The most words in one reduction of a sum in the order of the ranks, unless there are more ranks: 512 KiB.
const MOST_WORDS: usize = 1 << 16;

/// Guards a call of several steps: as long as it lives, this rank makes no other call.
#[derive(Debug)]
pub(crate) struct MultiStepCall<'c> {
    comm: &'c Communicator,
    number: u32,
    /// Whether it is a step of another call.
    is_part: bool,
}

impl MultiStepCall<'_> {
    /// The number of this call among those of its kind on the communicator, from 1; the same on every rank.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for MultiStepCall<'_> {
    fn drop(&mut self) {
        if self.is_part {
            return;
        }
        let mut state = self.comm.collectives().lock().unwrap_or_else(PoisonError::into_inner);
        state.within = None;
        if thread::panicking() {
            let why = "this rank panicked within a collective call".into();
            state.failed.get_or_insert(TransportError::Broken(why));
        }
    }
}

impl Communicator {
    /// Collective: waits until every rank has called it.
    ///
    /// # Errors
    /// [`TransportError::OutOfStep`], [`TransportError::TimeLimit`], [`TransportError::PeerFailed`],
    /// [`TransportError::PeerEnded`], [`TransportError::Busy`], [`TransportError::Broken`], and the errors of the layer
    /// below.
    pub fn barrier(&self) -> Result<(), TransportError> {
        self.step(CollectiveCall::Barrier, |step| step.check_and_reduce(&mut [], Reduction::Max))
    }

    /// Collective: reduces each of the values over all ranks, and returns the results, the same bit for bit on every
    /// rank. All ranks bring the same number of values of the same type.
    ///
    /// ```
    /// use haloport::{Reduction, run_ranks};
    ///
    /// run_ranks(4, |comm| {
    ///     let mine = comm.rank() as f64;
    ///     let [sum, count] = comm.all_reduce([0.5 + mine, 1.0], Reduction::Sum)?;
    ///     let largest = comm.all_reduce(mine, Reduction::Max)?;
    ///     assert_eq!((sum / count, largest), (2.0, 3.0));
    ///
    ///     let mut cells = vec![10u64, 20];
    ///     comm.all_reduce(&mut cells, Reduction::Sum)?; // in place
    ///     assert_eq!(cells, [40, 80]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), haloport::comm::RanksError>(())
    /// ```
    ///
    /// - The sum of floats is taken in the order of the ranks, `((v0 + v1) + v2) + …`, so it is also the same in every
    ///   run. The sum of integers is modulo 2^64.
    /// - If any rank brings a NaN, the result is a NaN, whatever the reduction. -0.0 is smaller than 0.0.
    ///
    /// # Cost
    /// The largest or smallest of up to 6 values take one reduction of the transport, all else takes two. In a sum of
    /// floats, the second one has [`size`](Communicator::size) times as many words of 8 bytes, which go in pieces of
    /// 512 KiB: on 1024 ranks, one value makes 8 KiB, and 1000 values make 16 pieces.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier). After [`TransportError::OutOfStep`], as where the types or numbers of
    /// values differ, values behind a `&mut` are as they were; after any other error they may be partly reduced.
    pub fn all_reduce<V: Reducible>(&self, mut values: V, reduction: Reduction) -> Result<V, TransportError> {
        let numbers = values.numbers();
        let call = CollectiveCall::Reduction {
            reduction,
            element: <V::Number as Element>::TYPE,
            values: numbers.len(),
        };
        self.reduce_in(call, numbers, reduction)?;
        Ok(values)
    }

    /// Collective: gives rank `root` the values of all ranks, in the order of the ranks; other ranks get `None`.
    ///
    /// The root receives one message from each rank and holds all values; the others send one message.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier), [`TransportError::NoSuchRank`] and [`TransportError::Malformed`].
    pub fn gather<T: Serialize + DeserializeOwned>(
        &self,
        root: usize,
        value: &T,
    ) -> Result<Option<Vec<T>>, TransportError> {
        self.check_rank(root)?;
        let message = (root, encode(value, self.rank())?);
        let received = self.step(CollectiveCall::Gather { root }, |step| {
            step.begin()?;
            step.run(|transport, idle| transport.sparse_exchange(vec![message], idle))
        })?;
        if self.rank() != root {
            return Ok(None);
        }
        received.iter().map(|(sender, bytes)| decode(*sender, bytes)).collect::<Result<_, _>>().map(Some)
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
        self.check_rank(root)?;
        let mut bytes = if self.rank() == root { encode(value, root)? } else { Vec::new() };
        self.step(CollectiveCall::Broadcast { root }, |step| {
            step.begin()?;
            step.run(|transport, idle| transport.broadcast(root, &mut bytes, idle))
        })?;
        decode(root, &bytes)
    }

    /// Collective: sends each message to the rank paired with it, and returns the messages for this rank, paired with
    /// their senders and in the order of the senders. Receivers need not know the senders.
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

    /// Collective: as [`sparse_exchange`](Communicator::sparse_exchange), without encoding.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier), and [`TransportError::NoSuchRank`].
    pub fn sparse_exchange_bytes(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError> {
        messages.iter().try_for_each(|&(peer, _)| self.check_rank(peer))?;
        self.step(CollectiveCall::Messages, |step| {
            step.begin()?;
            step.run(|transport, idle| transport.sparse_exchange(messages, idle))
        })
    }

    /// Collective: returns the same result on every rank: `Ok` if no rank has a complaint, otherwise the complaint of
    /// the lowest rank that has one.
    ///
    /// # Errors
    /// As for [`barrier`](Communicator::barrier). The inner result is the one that all ranks share.
    pub fn agree(&self, complaint: Option<String>) -> Result<Result<(), String>, TransportError> {
        let rank = self.rank();
        self.step(CollectiveCall::Agreement, |step| {
            let mut lowest = [if complaint.is_some() { rank as u64 } else { u64::MAX }];
            step.check_and_reduce(&mut lowest, Reduction::Min)?;
            if lowest[0] == u64::MAX {
                return Ok(Ok(()));
            }
            let text = step.text_of(lowest[0] as usize, complaint.unwrap_or_default())?;
            Ok(Err(format!("rank {}: {text}", lowest[0])))
        })
    }

    /// Collective: as [`all_reduce`](Communicator::all_reduce), in a call of another kind.
    pub(crate) fn reduce_in<T: Number>(
        &self,
        call: CollectiveCall,
        values: &mut [T],
        reduction: Reduction,
    ) -> Result<(), TransportError> {
        self.step(call, |step| step.reduce(values, reduction))
    }

    /// Collective: begins a call of several steps, which ends when the guard is dropped. Until then the collective
    /// calls of this thread are its steps; those of other threads are refused.
    pub(crate) fn enter(&self, call: CollectiveCall) -> Result<MultiStepCall<'_>, TransportError> {
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
        Ok(MultiStepCall { comm: self, number, is_part })
    }

    fn check_rank(&self, peer: usize) -> Result<(), TransportError> {
        let size = self.size();
        if peer < size { Ok(()) } else { Err(TransportError::NoSuchRank { peer, size }) }
    }

    /// Runs `work` as one step, which no other call of this rank interrupts.
    fn step<R>(
        &self,
        call: CollectiveCall,
        work: impl FnOnce(&mut CollectiveStep<'_>) -> Result<R, TransportError>,
    ) -> Result<R, TransportError> {
        if callback::is_running() {
            return Err(TransportError::Busy);
        }
        self.check_open()?;
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
        let mut step = CollectiveStep { comm: self, call, is_part, state };
        let outcome = match self.trace().log() {
            Some(log) => log.wait(call.wait_name(), None, || work(&mut step), Result::is_err),
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

/// Whether ranks may go on after an error: either all ranks have it, or the call reached no other rank.
fn leaves_in_step(error: &TransportError) -> bool {
    use TransportError::{NoSuchRank, OutOfStep, WrongThread};
    matches!(error, WrongThread { .. } | NoSuchRank { .. } | OutOfStep { .. })
}

/// One step of a collective call, with the locked state.
struct CollectiveStep<'c> {
    comm: &'c Communicator,
    call: CollectiveCall,
    /// Whether it is within a call of several steps, at which all ranks are.
    is_part: bool,
    state: MutexGuard<'c, Collectives>,
}

impl CollectiveStep<'_> {
    /// Checks that all ranks make this call. Within a call of several steps, they do.
    fn begin(&mut self) -> Result<(), TransportError> {
        if self.is_part { Ok(()) } else { self.check_and_reduce(&mut [], Reduction::Max) }
    }

    /// Checks that all ranks make this call, and reduces up to [`INLINE_VALUES`] values to the largest or smallest.
    /// Blocks until all ranks have called it.
    fn check_and_reduce(&mut self, values: &mut [u64], reduction: Reduction) -> Result<(), TransportError> {
        // The smallest is the complement of the largest complement.
        let flip = if reduction == Reduction::Min { u64::MAX } else { 0 };
        let word = self.call.word();
        let mut packet = [0; 2 + INLINE_VALUES];
        packet[..2].copy_from_slice(&[word, !word]);
        packet[2..].iter_mut().zip(&*values).for_each(|(inline, value)| *inline = value ^ flip);
        self.run(|transport, idle| transport.all_reduce(&mut packet, Reduction::Max, idle))?;
        if packet[0] != !packet[1] {
            return Err(self.out_of_step()?);
        }
        values.iter_mut().zip(&packet[2..]).for_each(|(value, inline)| *value = inline ^ flip);
        Ok(())
    }

    fn reduce<T: Number>(&mut self, values: &mut [T], reduction: Reduction) -> Result<(), TransportError> {
        if let (Reduction::Sum, Some(add)) = (reduction, T::ORDERED_ADDITION) {
            self.begin()?;
            return self.add_in_rank_order(values, add);
        }
        let mut words: Vec<u64> = values.iter().map(|value| value.to_word(reduction)).collect();
        if words.len() <= INLINE_VALUES && reduction != Reduction::Sum {
            self.check_and_reduce(&mut words, reduction)?;
        } else {
            self.begin()?;
            self.run(|transport, idle| transport.all_reduce(&mut words, reduction, idle))?;
        }
        values.iter_mut().zip(words).for_each(|(value, word)| *value = T::from_word(word, reduction));
        Ok(())
    }

    /// Brings the values of all ranks to every rank, piece by piece, and adds them up in the order of the ranks.
    fn add_in_rank_order<T: Number>(
        &self,
        values: &mut [T],
        add: fn(T, T) -> T,
    ) -> Result<(), TransportError> {
        let (rank, size) = (self.comm.rank(), self.comm.size());
        for values in values.chunks_mut((MOST_WORDS / size).max(1)) {
            // The words of each rank in a row, of which the other ranks bring 0.
            let mut words = vec![0; size * values.len()];
            let mine = &mut words[rank * values.len()..];
            mine.iter_mut().zip(&*values).for_each(|(word, value)| *word = value.to_word(Reduction::Sum));
            self.run(|transport, idle| transport.all_reduce(&mut words, Reduction::Sum, idle))?;
            let number = |&word: &u64| T::from_word(word, Reduction::Sum);
            values.iter_mut().zip(&words).for_each(|(sum, word)| *sum = number(word));
            for words in words.chunks(values.len()).skip(1) {
                values.iter_mut().zip(words).for_each(|(sum, word)| *sum = add(*sum, number(word)));
            }
        }
        Ok(())
    }

    /// Agrees on the error of ranks that make different calls. All ranks know already that the calls differ.
    fn out_of_step(&mut self) -> Result<TransportError, TransportError> {
        let (rank, mine) = (self.comm.rank(), self.call.to_string());
        let first = self.text_of(0, mine.clone())?;
        let mut lowest = [if mine == first { u64::MAX } else { rank as u64 }];
        self.run(|transport, idle| transport.all_reduce(&mut lowest, Reduction::Min, idle))?;
        let rank = lowest[0].min(self.comm.size() as u64 - 1) as usize;
        let call = self.text_of(rank, mine)?;
        Ok(TransportError::OutOfStep { rank, call, first })
    }

    /// Returns the text of rank `root`.
    fn text_of(&mut self, root: usize, mine: String) -> Result<String, TransportError> {
        let mut bytes = mine.into_bytes();
        self.run(|transport, idle| transport.broadcast(root, &mut bytes, idle))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Runs `work`, which blocks, within the time limit, and makes progress with all exchanges meanwhile.
    fn run<R>(
        &self,
        work: impl FnOnce(&dyn Transport, Idle<'_>) -> Result<R, TransportError>,
    ) -> Result<R, TransportError> {
        let (comm, transport) = (self.comm, &**self.comm.transport());
        let mut waiting = BlockingWait::new(comm);
        work(transport, &mut || {
            comm.engine().serve(transport);
            waiting.round(|| self.missing())
        })
    }

    /// The missing ranks.
    fn missing(&self) -> Missing {
        let missing = self.comm.transport().missing_ranks();
        let named: Vec<String> = missing.iter().take(MOST_NAMED).map(ToString::to_string).collect();
        let named = named.join(", ");
        let what = match missing.len() {
            0 => format!("other ranks to come to {}", self.call),
            1 => format!("rank {named} to come to {}", self.call),
            count if count <= MOST_NAMED => format!("the ranks {named} to come to {}", self.call),
            count => format!("the ranks {named} and {} more to come to {}", count - MOST_NAMED, self.call),
        };
        Missing::new(what, missing)
    }
}

/// The most ranks that a text names.
const MOST_NAMED: usize = 8;
