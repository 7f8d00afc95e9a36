//! Runs thousands of ranks, one after the other.
//!
//! While they set up, ranks communicate by collectives alone. So each rank runs until it reaches a collective whose
//! outcome is not known yet, leaves its part there, and is stopped by an error. When all have reached it, the outcome
//! is computed, and all ranks run again from the beginning, one collective further. The actions of a rank depend only
//! on its number and the outcomes, so they are the same each time. No rank waits, and at any time only as many ranks
//! as there are cores hold memory of their own.

use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use haloport::comm::TransportError;
use haloport::{Communicator, Reduction};

use super::loggp::Message;
use super::transport::{Outcome, Part, Simulated};
use crate::command::failure::Failure;

/// The messages of one rank.
#[derive(Debug, Clone, Default)]
pub(super) struct Log {
    /// The messages of one exchange to other ranks: the channels opened for sending.
    pub(super) sends: Vec<Message>,
    /// Messages to other ranks during set-up.
    pub(super) setup_messages: usize,
    /// Their bytes.
    pub(super) setup_bytes: usize,
    /// Messages from other ranks during set-up.
    pub(super) setup_received: usize,
    /// Collectives during set-up, including sparse exchanges.
    pub(super) collectives: usize,
}

/// Runs `body`, which sets up patterns and exchanges but runs none, on each of `ranks` ranks. Returns its results and
/// the messages of each rank, in the order of ranks. Calls `body` several times.
///
/// # Errors
/// The error of the lowest rank that ends with one; [`Failure::Run`] if ranks reach different collectives.
pub(super) fn simulate<T: Send>(
    ranks: usize,
    body: impl Fn(&Communicator) -> Result<T, Failure> + Sync,
) -> Result<Vec<(T, Log)>, Failure> {
    let transports: Vec<_> = (0..ranks).map(|rank| Simulated::new(rank, ranks)).collect();
    let mut logs = vec![Log::default(); ranks];
    loop {
        let ends = run_all(&transports, &body);
        let mut parts = Vec::with_capacity(ranks);
        let mut results = Vec::with_capacity(ranks);
        for (transport, end) in transports.iter().zip(ends) {
            match transport.take_part() {
                Some(part) => parts.push(part),
                None => results.push(end?),
            }
        }
        if parts.is_empty() {
            logs.iter_mut().zip(&transports).for_each(|(log, transport)| log.sends = transport.take_sends());
            return Ok(results.into_iter().zip(logs).collect());
        }
        if !results.is_empty() {
            let (waiting, ended) = (parts.len(), results.len());
            return Err(Failure::Run(format!(
                "{waiting} simulated ranks are at a collective that {ended} did not reach"
            )));
        }
        let outcomes = outcomes(parts, &mut logs)?;
        transports.iter().zip(outcomes).for_each(|(transport, outcome)| transport.learn(outcome));
    }
}

/// Runs all ranks until each is stopped or ends, on all cores.
fn run_all<T: Send>(
    transports: &[Simulated],
    body: &(impl Fn(&Communicator) -> Result<T, Failure> + Sync),
) -> Vec<Result<T, Failure>> {
    let run = |transport: &Simulated| {
        transport.begin();
        body(&Communicator::new(transport.clone()))
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let share = transports.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let shares: Vec<_> = transports
            .chunks(share)
            .map(|chunk| scope.spawn(move || chunk.iter().map(run).collect::<Vec<_>>()))
            .collect();
        let joined = shares.into_iter().flat_map(|share| match share.join() {
            Ok(ends) => ends,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    })
}

/// Computes the outcome of a collective for each rank.
fn outcomes(parts: Vec<Part>, logs: &mut [Log]) -> Result<Vec<Outcome>, Failure> {
    let ranks = parts.len();
    logs.iter_mut().for_each(|log| log.collectives += 1);
    let different = || Failure::Run("simulated ranks are at different collectives".into());
    match &parts[0] {
        Part::Broadcast(root, _) => {
            let Some(Part::Broadcast(_, bytes)) = parts.get(*root) else { return Err(different()) };
            Ok(vec![Outcome::Bytes(Arc::from(&**bytes)); ranks])
        }
        Part::Reduce(values, reduction) => {
            let mut all = values.clone();
            for part in &parts[1..] {
                let Part::Reduce(values, _) = part else { return Err(different()) };
                if values.len() != all.len() {
                    let error = TransportError::Lengths { one: all.len(), other: values.len() };
                    return Err(Failure::Run(error.to_string()));
                }
                all.iter_mut().zip(values).for_each(|(all, &mine)| *all = reduced(*all, mine, *reduction));
            }
            Ok(vec![Outcome::Values(all.into()); ranks])
        }
        Part::Messages(_) => {
            let mut received = vec![Vec::new(); ranks];
            for (sender, part) in parts.into_iter().enumerate() {
                let Part::Messages(messages) = part else { return Err(different()) };
                for (receiver, bytes) in messages {
                    if receiver != sender {
                        logs[sender].setup_messages += 1;
                        logs[sender].setup_bytes += bytes.len();
                        logs[receiver].setup_received += 1;
                    }
                    received[receiver].push((sender, bytes));
                }
            }
            Ok(received.into_iter().map(Outcome::Messages).collect())
        }
    }
}

fn reduced(all: u64, mine: u64, reduction: Reduction) -> u64 {
    match reduction {
        Reduction::Max => all.max(mine),
        Reduction::Min => all.min(mine),
        Reduction::Sum => all.wrapping_add(mine),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn every_collective_is_what_real_ranks_get() {
        let body = |comm: &Communicator| -> Result<_, Failure> {
            let (me, size) = (comm.rank(), comm.size());
            comm.barrier()?;
            let mut sums = [me as u64, 1];
            comm.all_reduce(&mut sums, Reduction::Sum)?;
            let largest = comm.all_reduce(-(me as f64), Reduction::Max)?;
            let told = comm.broadcast(size - 1, &format!("from {me}"))?;
            let refused = comm.agree((me == 2).then(|| "no".to_string()))?;
            let messages = [((me + 1) % size, me), (me, 100 + me), (0, 200 + me)];
            Ok((sums, largest, told, refused, comm.sparse_exchange(&messages)?))
        };
        let simulated = simulate(5, body).unwrap();
        let real = haloport::run_ranks(5, |comm| Ok(body(&comm)?)).unwrap();
        let logs: Vec<Log> = simulated.iter().map(|(_, log)| log.clone()).collect();
        assert_eq!(simulated.into_iter().map(|(result, _)| result).collect::<Vec<_>>(), real);
        // A barrier, a sum, a largest value, a broadcast, messages, and the reduction and the broadcast of the refusal;
        // a check that the calls agree comes before some of them.
        assert!(logs.iter().all(|log| log.collectives == 10));
        let counts: Vec<_> = logs.iter().map(|log| (log.setup_messages, log.setup_received)).collect();
        assert_eq!(counts, [(1, 5), (2, 1), (2, 1), (2, 1), (2, 1)]);
    }

    #[test]
    fn ranks_that_do_not_meet_are_an_error() {
        let one_stays_away = simulate(3, |comm| -> Result<(), Failure> {
            if comm.rank() > 0 {
                comm.barrier()?;
            }
            Ok(())
        });
        assert!(matches!(one_stays_away, Err(Failure::Run(text)) if text.contains("1 did not reach")));
        let one_fails = simulate(3, |comm| -> Result<(), Failure> {
            if comm.rank() == 1 {
                return Err(Failure::Run("of its own".into()));
            }
            Ok(comm.barrier()?)
        });
        assert!(matches!(one_fails, Err(Failure::Run(text)) if text == "of its own"));
    }
}
