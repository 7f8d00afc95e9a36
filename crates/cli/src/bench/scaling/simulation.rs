//! Runs thousands of ranks, one after the other.
//!
//! While they set up, ranks communicate by collectives alone. So each rank runs until it reaches a collective whose
//! outcome is not known yet, leaves its part there, and is stopped by an error. When all have reached it, the outcome
//! is computed, and all ranks run again from the beginning, one collective further. The actions of a rank depend only
//! on its number and the outcomes, so they are the same each time. No rank waits, and at any time only as many ranks
//! as there are cores hold memory of their own.

use std::mem;
use std::panic::resume_unwind;
use std::thread;

use haloport::{Communicator, Reduction};

use super::transport::{Collective, Log, Simulated};
use crate::command::failure::Failure;
use crate::command::launch::cores;

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
    loop {
        let (mut parts, mut results) = (Vec::with_capacity(ranks), Vec::with_capacity(ranks));
        for (transport, end) in transports.iter().zip(run_all(&transports, &body)) {
            let mut state = transport.state();
            match state.part.take() {
                Some(part) => parts.push(part),
                None => results.push((end?, mem::take(&mut state.log))),
            }
        }
        if parts.is_empty() {
            return Ok(results);
        }
        if !results.is_empty() {
            let (waiting, ended) = (parts.len(), results.len());
            return Err(Failure::Run(format!(
                "{waiting} simulated ranks are at a collective that {ended} did not reach"
            )));
        }
        for (transport, outcome) in transports.iter().zip(outcomes(parts)?) {
            transport.state().outcomes.push(outcome);
        }
    }
}

/// Runs all ranks until each is stopped or ends, on all cores.
fn run_all<T: Send>(
    transports: &[Simulated],
    body: &(impl Fn(&Communicator) -> Result<T, Failure> + Sync),
) -> Vec<Result<T, Failure>> {
    let run = |transport: &Simulated| {
        transport.state().log = Log::default();
        body(&Communicator::new(transport.clone()))
    };
    thread::scope(|scope| {
        let shares: Vec<_> = transports
            .chunks(transports.len().div_ceil(cores()))
            .map(|share| scope.spawn(move || share.iter().map(run).collect::<Vec<_>>()))
            .collect();
        let ends =
            shares.into_iter().flat_map(|share| share.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ends.collect()
    })
}

/// Computes the outcome of a collective for each rank.
fn outcomes(parts: Vec<Collective>) -> Result<Vec<Collective>, Failure> {
    let ranks = parts.len();
    let different = || Failure::Run("simulated ranks are at different collectives".into());
    match &parts[0] {
        Collective::Broadcast(root, _) => match parts.get(*root) {
            Some(told @ Collective::Broadcast(..)) => Ok(vec![told.clone(); ranks]),
            _ => Err(different()),
        },
        Collective::Reduce(first, reduction) => {
            let reduced: fn(u64, u64) -> u64 = match reduction {
                Reduction::Max => u64::max,
                Reduction::Min => u64::min,
                Reduction::Sum => u64::wrapping_add,
            };
            let mut all = first.clone();
            for part in &parts[1..] {
                match part {
                    Collective::Reduce(values, _) if values.len() == all.len() => {
                        all.iter_mut().zip(values).for_each(|(all, &mine)| *all = reduced(*all, mine));
                    }
                    _ => return Err(different()),
                }
            }
            Ok(vec![Collective::Reduce(all, *reduction); ranks])
        }
        Collective::Messages(_) => {
            let mut received = vec![Vec::new(); ranks];
            for (sender, part) in parts.into_iter().enumerate() {
                let Collective::Messages(messages) = part else { return Err(different()) };
                messages.into_iter().for_each(|(receiver, bytes)| received[receiver].push((sender, bytes)));
            }
            Ok(received.into_iter().map(Collective::Messages).collect())
        }
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
