//! Collectives, and calls from other threads.

use haloport_core::{Communicator, SparseError, SparseExchange, TransportError};

use crate::{Outcome, bare};

/// Rounds of sparse exchanges, each between random ranks, without a barrier between them.
pub(crate) fn random_rounds(comm: &Communicator, rounds: u64) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    for round in 0..rounds {
        // Every rank computes the messages of all.
        let sent_by = |sender: usize| -> Vec<(usize, Vec<u8>)> {
            let mut state = round * 1_000 + sender as u64 + 1;
            let mut random = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as usize % below
            };
            (0..random(5))
                .map(|_| {
                    let (to, length) = (random(size), [0, 3, 100, 10_000][random(4)]);
                    (to, vec![(round as usize + sender) as u8; length])
                })
                .collect()
        };
        let received = bare(comm).sparse_exchange(sent_by(rank), &mut || Ok(()))?;
        let expected: Vec<_> = (0..size)
            .flat_map(|sender| sent_by(sender).into_iter().map(move |(to, bytes)| (to, (sender, bytes))))
            .filter(|(to, _)| *to == rank)
            .map(|(_, message)| message)
            .collect();
        assert!(received == expected, "round {round}");
    }
    Ok(())
}

/// If the thread level allows it, another thread may call; else it gets an error.
pub(crate) fn from_threads(comm: &Communicator) -> Outcome {
    let outcome = std::thread::scope(|scope| scope.spawn(|| comm.barrier()).join());
    let outcome = outcome.map_err(|_| "the thread panicked")?;
    if comm.info().any_thread {
        outcome?;
    } else {
        assert!(matches!(outcome, Err(TransportError::WrongThread { .. })), "{outcome:?}");
    }
    Ok(())
}

/// If a thread that may not call MPI asks for a message, no message is lost.
pub(crate) fn messages_from_threads(comm: &Communicator) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    for mut exchange in [SparseExchange::between(comm, &[before], &[next])?, SparseExchange::new(comm)?] {
        let round = exchange.begin()?;
        round.send(next, [rank as u8])?;
        let tried = std::thread::scope(|scope| scope.spawn(|| round.try_next()).join());
        let tried = tried.map_err(|_| "the thread panicked")?;
        if !comm.info().any_thread {
            let refused = matches!(tried, Err(SparseError::Transport(TransportError::WrongThread { .. })));
            assert!(refused, "{tried:?}");
        }
        let mut received: Vec<_> = tried.ok().flatten().into_iter().collect();
        received.extend(round.wait()?);
        assert_eq!(received, [(before, vec![before as u8])]);
    }
    Ok(())
}
