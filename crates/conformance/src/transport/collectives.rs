//! Collective calls.

use haloport_core::comm::Communicator;
use haloport_core::transport::{Direction, Reduction, TransportError};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::bare::{Memory, bare};
use crate::{Failure, ensure};

pub(super) fn ranks(comm: &Communicator) -> Result<(), Failure> {
    ensure!(comm.rank() < comm.size(), "rank {} of {}", comm.rank(), comm.size());
    let mut all = [1u64 << comm.rank()];
    comm.all_reduce(&mut all, Reduction::Sum)?;
    ensure!(all[0] == (1 << comm.size()) - 1, "the ranks are {:b}", all[0]);
    Ok(())
}

pub(super) fn barriers(comm: &Communicator) -> Result<(), Failure> {
    for _ in 0..20 {
        comm.barrier()?;
    }
    Ok(())
}

pub(super) fn reductions(comm: &Communicator) -> Result<(), Failure> {
    let (rank, size) = (comm.rank() as u64, comm.size() as u64);
    for round in 0..20 {
        let mut values = [rank + round, 100 - rank, u64::MAX];
        comm.all_reduce(&mut values, Reduction::Max)?;
        ensure!(values == [size - 1 + round, 100, u64::MAX], "the largest are {values:?}");
        let mut values = [rank + round, 100 - rank];
        comm.all_reduce(&mut values, Reduction::Min)?;
        ensure!(values == [round, 101 - size], "the smallest are {values:?}");
        let mut values = [rank, u64::MAX];
        comm.all_reduce(&mut values, Reduction::Sum)?;
        ensure!(values == [size * (size - 1) / 2, 0u64.wrapping_sub(size)], "the sums are {values:?}");
    }
    let largest = comm.all_reduce(-1.5 - rank as f64, Reduction::Max)?;
    ensure!(largest == -1.5, "the largest float is {largest}");
    // Each of these is lost beside 1e16, but not their sum.
    let sum = comm.all_reduce(if rank + 1 == size { 1e16 } else { 1.0 }, Reduction::Sum)?;
    ensure!(sum == (size - 1) as f64 + 1e16, "the sum of the floats is {sum}");
    Ok(())
}

pub(super) fn gathers(comm: &Communicator) -> Result<(), Failure> {
    for root in 0..comm.size() {
        let gathered = comm.gather(root, &vec![root; comm.rank()])?;
        let expected: Vec<Vec<usize>> = (0..comm.size()).map(|rank| vec![root; rank]).collect();
        let expected = (comm.rank() == root).then_some(expected);
        ensure!(gathered == expected, "rank {root} has gathered {gathered:?}");
    }
    Ok(())
}

pub(super) fn broadcasts(comm: &Communicator) -> Result<(), Failure> {
    for root in 0..comm.size() {
        for length in [0usize, 1, 1000, 300_000] {
            let mine = vec![comm.rank() as u8; length + comm.rank()];
            let got = comm.broadcast(root, &mine)?;
            ensure!(got == vec![root as u8; length + root], "{length} bytes from rank {root}");
        }
    }
    Ok(())
}

/// Random senders, receivers and lengths, with empty messages and messages to the sender itself.
pub(super) fn sparse_exchanges(comm: &Communicator) -> Result<(), Failure> {
    let size = comm.size();
    for round in 0..30u64 {
        // Every rank knows what all ranks send.
        let mut random = StdRng::seed_from_u64(round);
        let mut expected = Vec::new();
        let mut mine = Vec::new();
        for sender in 0..size {
            for _ in 0..random.random_range(0..4) {
                let receiver = random.random_range(0..size);
                let length = if random.random_bool(0.1) { 100_000 } else { random.random_range(0..50) };
                let message: Vec<u8> = (0..length).map(|_| random.random()).collect();
                if receiver == comm.rank() {
                    expected.push((sender, message.clone()));
                }
                if sender == comm.rank() {
                    mine.push((receiver, message));
                }
            }
        }
        let got = comm.sparse_exchange(&mine)?;
        ensure!(got == expected, "round {round}: got {} messages, expected {}", got.len(), expected.len());
        let bytes = comm.sparse_exchange_bytes(mine)?;
        ensure!(bytes == expected, "round {round}, bytes: got {} messages", bytes.len());
    }
    Ok(())
}

pub(super) fn agreement(comm: &Communicator) -> Result<(), Failure> {
    ensure!(comm.agree(None)?.is_ok(), "no rank complains, but there is a complaint");
    let last = comm.size() - 1;
    let complaint = (comm.rank() == last).then(|| "too hot".to_string());
    let agreed = comm.agree(complaint)?;
    ensure!(agreed == Err(format!("rank {last}: too hot")), "agreed on {agreed:?}");
    Ok(())
}

pub(super) fn wrong_ranks(comm: &Communicator) -> Result<(), Failure> {
    let peer = comm.size();
    let expected = TransportError::NoSuchRank { peer, size: peer };
    let error = comm.sparse_exchange(&[(peer, 1u8)]).err();
    ensure!(error.as_ref() == Some(&expected), "a message to rank {peer} gives {error:?}");
    let error = comm.broadcast(peer, &1u8).err();
    ensure!(error.as_ref() == Some(&expected), "a broadcast from rank {peer} gives {error:?}");
    let error = comm.gather(peer, &1u8).err();
    ensure!(error.as_ref() == Some(&expected), "a gather to rank {peer} gives {error:?}");
    let buffer = Memory::new(8);
    // SAFETY: the call is refused.
    let opened = unsafe { bare(comm).open(Direction::Send, peer, 1, buffer.range(0, 8)) };
    ensure!(opened.as_ref().err() == Some(&expected), "a channel to rank {peer} gives {opened:?}");
    Ok(())
}
