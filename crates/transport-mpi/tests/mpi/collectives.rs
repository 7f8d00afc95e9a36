//! Collectives.

use haloport_core::Communicator;
use haloport_core::transport::Reduction;

use crate::Outcome;

pub(crate) fn small(comm: &Communicator) -> Outcome {
    let (rank, size) = (comm.rank() as u64, comm.size() as u64);
    for (reduction, expected) in [
        (Reduction::Sum, [size * (size - 1) / 2, size, u64::MAX.wrapping_mul(size)]),
        (Reduction::Min, [0, 1, u64::MAX]),
        (Reduction::Max, [size - 1, 1, u64::MAX]),
    ] {
        let mut values = [rank, 1, u64::MAX];
        comm.all_reduce(&mut values, reduction)?;
        assert_eq!(values, expected, "{reduction:?}");
    }
    let mut ends = [if rank == 0 { u64::MAX } else { rank }; 2];
    comm.all_reduce(&mut ends[..1], Reduction::Min)?;
    comm.all_reduce(&mut ends[1..], Reduction::Max)?;
    assert_eq!(ends, [if size > 1 { 1 } else { u64::MAX }, u64::MAX], "as unsigned integers");
    comm.all_reduce(&mut [], Reduction::Sum)?;
    for root in 0..comm.size() {
        for length in [0usize, 1, 1_000_000] {
            let mine: Vec<u8> = (0..length).map(|at| (at + comm.rank()) as u8).collect();
            let expected: Vec<u8> = (0..length).map(|at| (at + root) as u8).collect();
            assert!(comm.broadcast(root, &mine)? == expected);
            let mut bytes = mine;
            comm.transport().broadcast(root, &mut bytes, &mut || Ok(()))?;
            assert!(bytes == expected);
        }
    }
    Ok(())
}

pub(crate) fn sparse(comm: &Communicator) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let exchange =
        |messages: Vec<(usize, Vec<u8>)>| comm.transport().sparse_exchange(messages, &mut || Ok(()));
    assert_eq!(exchange(Vec::new())?, []);
    // To oneself, empty and not; several to the next; one large.
    let next = (rank + 1) % size;
    let before = (rank + size - 1) % size;
    let large = |rank: usize| vec![rank as u8; 2_000_000];
    let received = exchange(vec![
        (rank, vec![1]),
        (next, vec![]),
        (rank, vec![]),
        (next, vec![2, 3]),
        (next, large(rank)),
    ])?;
    let mut expected = vec![(rank, vec![1]), (rank, vec![])];
    let from_before = [(before, vec![]), (before, vec![2, 3]), (before, large(before))];
    if before == rank {
        expected =
            vec![(rank, vec![1]), (rank, vec![]), (rank, vec![]), (rank, vec![2, 3]), (rank, large(rank))];
    } else {
        expected.extend(from_before);
        expected.sort_by_key(|(sender, _)| *sender);
    }
    assert!(received == expected);
    // All to rank 0, none to the others.
    let received = exchange(vec![(0, vec![rank as u8]); 3])?;
    let all: Vec<_> = (0..size).flat_map(|sender| vec![(sender, vec![sender as u8]); 3]).collect();
    assert_eq!(received, if rank == 0 { all } else { Vec::new() });
    let stranger = exchange(vec![(size, vec![])]);
    assert!(stranger.is_err());
    Ok(())
}

/// Rounds of sparse exchanges, each between random ranks, without a barrier between them.
pub(crate) fn random_rounds(comm: &Communicator, rounds: u64) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    for round in 0..rounds {
        // Every rank knows what all send.
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
        let received = comm.transport().sparse_exchange(sent_by(rank), &mut || Ok(()))?;
        let expected: Vec<_> = (0..size)
            .flat_map(|sender| sent_by(sender).into_iter().map(move |(to, bytes)| (to, (sender, bytes))))
            .filter(|(to, _)| *to == rank)
            .map(|(_, message)| message)
            .collect();
        assert!(received == expected, "round {round}");
    }
    Ok(())
}

/// The error of one rank, early, becomes that of all.
pub(crate) fn one_rank_complains(comm: &Communicator) -> Outcome {
    let last = comm.size() - 1;
    let agreed = comm.agree((comm.rank() == last).then(|| "I disagree".to_string()))?;
    assert_eq!(agreed, Err(format!("rank {last}: I disagree")));
    assert_eq!(comm.agree(None)?, Ok(()));
    Ok(())
}

/// Where the thread level allows it, another thread may call; else it gets an error.
pub(crate) fn from_threads(comm: &Communicator) -> Outcome {
    let outcome = std::thread::scope(|scope| scope.spawn(|| comm.barrier()).join());
    let outcome = outcome.map_err(|_| "the thread panicked")?;
    if comm.info().any_thread {
        outcome?;
    } else {
        assert!(matches!(outcome, Err(haloport_core::TransportError::WrongThread { .. })), "{outcome:?}");
    }
    Ok(())
}
