//! Where ways to do an exchange are tried out, in turns.

use std::time::{Duration, Instant};

use super::agree::{Agreement, refuse};
use super::bound::Bound;
use super::choice::Candidate;
use super::kept_halos::KeptHalos;
use super::options::Trial;
use super::{BindError, DataPath, ExchangeError, HaloOrder, Schedule, Traffic};
use crate::transport::Reduction;

/// How long a turn should be: long beside the time in which ranks leave a collective one after the other.
const TURN_NS: u64 = 100_000;

/// The most exchanges of one turn.
const MOST_PER_TURN: u64 = 64;

/// A device may try out how to write what others read in the first runs of a list of copies, of which there are two for two
/// messages: so many exchanges settle that,
const SETTLING: u64 = 16;

/// and are made where they take at most this time.
const SETTLING_NS: u64 = 10_000_000;

/// Who took so much longer than the quickest by its median, in all turns, drops out;
const DROPS_OUT: f64 = 1.3;

/// and before the first round, when one turn may have met with something else, so much.
const DROPS_OUT_AT_ONCE: f64 = 3.0;

/// Where ways are tried out.
pub(super) struct Ring<'p> {
    agreement: &'p Agreement,
    trial: Trial,
    begin: Instant,
    /// What has failed on this rank. It then runs nothing more, but comes to all meetings.
    failed: Option<String>,
}

impl<'p> Ring<'p> {
    pub(super) fn new(agreement: &'p Agreement, trial: Trial) -> Ring<'p> {
        Ring { agreement, trial, begin: Instant::now(), failed: None }
    }

    /// Collective: binds the ways that differ, and lets them take turns.
    pub(super) fn compete(&mut self) -> Result<Vec<Contender>, BindError> {
        let mut contenders = Vec::new();
        for candidate in self.agreement.candidates() {
            self.add(&mut contenders, candidate)?;
        }
        self.take_turns(&mut contenders)?;
        Ok(contenders)
    }

    /// Collective: binds a candidate and lets it warm up, if there is time left and it does not come to the same as one
    /// before.
    fn add(&mut self, contenders: &mut Vec<Contender>, mut candidate: Candidate) -> Result<(), BindError> {
        if !self.meet(&mut [])? && !contenders.is_empty() {
            return Ok(());
        }
        let bound = match self.agreement.bind(candidate) {
            // There may be no memory for one more.
            Err(BindError::Refused(_)) if !contenders.is_empty() => return Ok(()),
            bound => bound?,
        };
        let traffic = bound.flight.traffic();
        let differs = |contender: &Contender| u64::from(contender.bound.flight.traffic() != traffic);
        let mut found: Vec<u64> = contenders.iter().map(differs).collect();
        let Traffic { direct_bytes, shared_bytes, message_bytes, .. } = traffic;
        found.extend([direct_bytes, shared_bytes, message_bytes].map(|bytes| bytes as u64));
        self.meet(&mut found)?;
        let (differs, bytes) = found.split_at(contenders.len());
        if differs.contains(&0) {
            return Ok(());
        }
        // It is named after what it has come to.
        let named = [DataPath::Direct, DataPath::Shared, DataPath::Messages].into_iter().zip(bytes);
        let mut taken = named.filter(|(_, bytes)| **bytes > 0).map(|(path, _)| path);
        if let (Some(path), None) = (taken.next(), taken.next()) {
            candidate.path = path;
        }
        if traffic.steps == 1 {
            candidate.order = HaloOrder::AllNeighbours;
        }
        let mut contender = Contender { candidate, bound, first: u64::MAX, rounds: Vec::new() };
        // The first two exchanges touch memory for the first time: there are two messages, used in turn. The last turn is of
        // as many as there is time for.
        for warm_up in 0..4 {
            let exchanges = match warm_up {
                0 | 1 => 1,
                2 => contender.exchanges_to_settle(),
                _ => contender.exchanges_per_turn(),
            };
            let mut first = [self.turn(&contender, exchanges)];
            self.meet(&mut first)?;
            contender.first = first[0];
        }
        contenders.push(contender);
        Ok(())
    }

    /// Collective: lets contenders take turns until the rounds or the time are over.
    fn take_turns(&mut self, contenders: &mut [Contender]) -> Result<(), BindError> {
        for round in 0..self.trial.rounds {
            let quickest = quickest(&*contenders);
            let mut left: Vec<&mut Contender> =
                contenders.iter_mut().filter(|contender| contender.stays(quickest)).collect();
            if left.len() < 2 {
                break;
            }
            let mut times = vec![0; left.len()];
            for turn in 0..left.len() {
                // Each begins a round now and then.
                let turn = (turn + round) % left.len();
                if !self.meet(&mut [])? {
                    return Ok(());
                }
                times[turn] = self.turn(left[turn], left[turn].exchanges_per_turn());
            }
            self.meet(&mut times)?;
            left.iter_mut().zip(times).for_each(|(contender, time)| contender.rounds.push(time));
        }
        Ok(())
    }

    /// Makes some exchanges; the nanoseconds that each took this rank.
    fn turn(&mut self, contender: &Contender, exchanges: u64) -> u64 {
        let begin = Instant::now();
        for _ in 0..exchanges {
            if self.failed.is_none() {
                let bound = &contender.bound;
                let made = bound.start(Schedule::Blocking).and_then(|()| bound.end(Schedule::Blocking));
                self.failed = made.err().map(|error| error.to_string());
            }
        }
        nanoseconds(begin.elapsed()) / exchanges
    }

    /// Collective: waits for all ranks, and agrees that nothing has failed and on the largest of all `values`. Whether
    /// there is time left.
    pub(super) fn meet(&mut self, values: &mut [u64]) -> Result<bool, BindError> {
        let comm = self.agreement.pattern.comm();
        let mut all = vec![u64::from(self.failed.is_some()), nanoseconds(self.begin.elapsed())];
        all.extend_from_slice(values);
        comm.all_reduce(&mut all, Reduction::Max)?;
        if all[0] > 0 {
            refuse(comm.agree(self.failed.take())?)?;
        }
        values.copy_from_slice(&all[2..]);
        Ok(all[1] < nanoseconds(self.trial.time))
    }

    /// Collective: keeps what the halos hold.
    pub(super) fn save_halos(&mut self) -> Result<Vec<Box<dyn KeptHalos>>, BindError> {
        let storages = self.agreement.storages();
        let taken = storages.iter().position(|storage| !storage.take_off());
        let mut halos = Vec::new();
        if taken.is_some() {
            self.failed = Some(ExchangeError::InFlightElsewhere.to_string());
        } else {
            for part in &self.agreement.builders {
                let kept = part.keep_halos(&self.agreement.pattern).and_then(|kept| {
                    // SAFETY: the fields are to be bound, and borrowed exclusively or owned until then; none of them is
                    // in flight.
                    unsafe { kept.save()? };
                    Ok(kept)
                });
                match kept {
                    Ok(kept) => halos.push(kept),
                    Err(error) => self.failed = Some(error.to_string()),
                }
            }
        }
        storages[..taken.unwrap_or(storages.len())].iter().for_each(|storage| storage.land());
        self.meet(&mut [])?;
        Ok(halos)
    }

    /// Puts back what the halos held.
    pub(super) fn restore(&mut self, halos: &[Box<dyn KeptHalos>]) {
        for kept in halos {
            // SAFETY: as for `save`. What was not chosen has been given up, what was chosen is not in flight: no rank has
            // left the last meeting before the exchanges of all were complete, or has given up.
            if let Err(error) = unsafe { kept.restore() } {
                self.failed = Some(error.to_string());
            }
        }
    }
}

/// A way that takes part, the same on every rank.
pub(super) struct Contender {
    pub(super) candidate: Candidate,
    pub(super) bound: Bound,
    /// Nanoseconds per exchange before the first round.
    first: u64,
    /// Nanoseconds per exchange in each round.
    pub(super) rounds: Vec<u64>,
}

impl Contender {
    pub(super) fn median(&self) -> f64 {
        let mut sorted = self.rounds.clone();
        sorted.sort_unstable();
        match sorted.len() {
            0 => self.first as f64,
            count => (sorted[(count - 1) / 2] + sorted[count / 2]) as f64 / 2.0,
        }
    }

    /// Whether it may still be the quickest, if that takes `quickest`.
    fn stays(&self, quickest: f64) -> bool {
        match self.rounds.iter().min() {
            Some(&best) => best as f64 <= DROPS_OUT * quickest,
            None => self.first as f64 <= DROPS_OUT_AT_ONCE * quickest,
        }
    }

    fn exchanges_to_settle(&self) -> u64 {
        if self.first.saturating_mul(SETTLING) <= SETTLING_NS { SETTLING } else { 1 }
    }

    fn exchanges_per_turn(&self) -> u64 {
        (TURN_NS / self.first.max(1)).clamp(1, MOST_PER_TURN)
    }
}

pub(super) fn quickest<'c>(contenders: impl IntoIterator<Item = &'c Contender>) -> f64 {
    contenders.into_iter().map(Contender::median).fold(f64::INFINITY, f64::min)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
