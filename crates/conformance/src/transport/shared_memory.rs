//! Memory that ranks of one node share, whole or in parts.

use haloport_core::comm::Communicator;
use haloport_core::transport::Reach;

use super::bare::bare;
use crate::{Failure, ensure};

/// Every rank makes memory for every rank that it can share memory with; what one writes the other reads.
pub(super) fn shared_memory(comm: &Communicator) -> Result<(), Failure> {
    let transport = bare(comm);
    let others: Vec<usize> = (0..comm.size()).filter(|&peer| peer != comm.rank()).collect();
    let bytes_for = |peer: usize| 1000 * (peer + 1);
    let word = |owner: usize, peer: usize| (owner * comm.size() + peer + 1) as u64;
    let mut leases = Vec::new();
    ensure!(!transport.is_near(comm.rank()), "a rank is near itself");
    let near = others.iter().filter(|peer| transport.is_near(**peer)).count();
    let reach = comm.info().reach;
    let as_said = match &reach {
        Reach::Process => near == 0,
        Reach::Node { ranks, .. } => near > 0 && *ranks == near + 1,
        Reach::Own { reason } => near == 0 && !reason.is_empty(),
    };
    ensure!(as_said, "{near} ranks are near, and the transport says {reach:?}");
    for &peer in others.iter().filter(|peer| transport.is_near(**peer)) {
        if let Some(lease) = transport.share(bytes_for(peer)) {
            ensure!(lease.memory.bytes() >= bytes_for(peer), "{} bytes for {peer}", lease.memory.bytes());
            let pointer = lease.memory.pointer().as_ptr();
            ensure!(pointer.addr().is_multiple_of(128), "shared memory is not aligned: {pointer:?}");
            // SAFETY: the memory is initialised and as long as was asked for; no rank writes it now.
            let all = unsafe { std::slice::from_raw_parts(pointer, bytes_for(peer)) };
            ensure!(all.iter().all(|byte| *byte == 0), "shared memory is not 0 at first");
            leases.push((peer, lease));
        }
    }
    let tokens: Vec<(usize, Vec<u8>)> =
        leases.iter().map(|(peer, lease)| (*peer, lease.token.clone())).collect();
    let tokens = comm.sparse_exchange(&tokens)?;
    let mut mapped = Vec::new();
    for (owner, token) in &tokens {
        let memory = transport.map(*owner, token)?.ok_or("shared memory cannot be mapped")?;
        ensure!(memory.bytes() >= bytes_for(comm.rank()), "{} bytes of rank {owner}", memory.bytes());
        mapped.push((*owner, memory));
    }
    comm.barrier()?;
    // The tokens are withdrawn, the memory stays.
    let leases: Vec<_> = leases.into_iter().map(|(peer, lease)| (peer, lease.memory)).collect();
    comm.barrier()?;
    for (owner, token) in &tokens {
        ensure!(transport.map(*owner, token)?.is_none(), "a withdrawn token still works");
    }
    for (peer, memory) in &leases {
        // SAFETY: the memory is long enough and aligned; the peer reads after the barrier.
        unsafe { memory.pointer().as_ptr().cast::<u64>().write(word(comm.rank(), *peer)) };
    }
    comm.barrier()?;
    for (owner, memory) in &mapped {
        // SAFETY: the memory is long enough, aligned and initialised; its owner wrote before the barrier.
        let found = unsafe { memory.pointer().as_ptr().cast::<u64>().read() };
        let expected = word(*owner, comm.rank());
        ensure!(found == expected, "rank {owner} wrote {expected}, found {found}");
    }
    ensure!(transport.map(0, b"no token of ours")?.is_none(), "a token that no rank made works");
    comm.barrier()?;
    Ok(())
}

/// Every rank makes memory of which it shares two parts. Its peers find those shared, and nothing else.
pub(super) fn shared_parts(comm: &Communicator) -> Result<(), Failure> {
    let transport = bare(comm);
    let bytes = 5_000_000;
    let parts = [3_000_000..3_000_008, 700_000..900_000];
    let gaps = [0..8, 600_000..700_008, 1_500_000..1_500_008, 800_000..3_000_004, 4_999_000..5_000_000];
    let value = |owner: usize, at: usize| (at * 31 + owner) as u8;
    let near: Vec<usize> = (0..comm.size()).filter(|&peer| transport.is_near(peer)).collect();
    let lease = transport.share_parts(bytes, &parts).filter(|_| !near.is_empty());
    if let Some(lease) = &lease {
        ensure!(lease.memory.bytes() >= bytes, "{} bytes, expected {bytes}", lease.memory.bytes());
        let pointer = lease.memory.pointer().as_ptr();
        ensure!(pointer.addr().is_multiple_of(128), "shared memory is not aligned: {pointer:?}");
        // SAFETY: the memory is initialised and as long as was asked for, also between the parts, and no other rank has
        // it.
        let all = unsafe { std::slice::from_raw_parts_mut(pointer, bytes) };
        ensure!(all.iter().all(|byte| *byte == 0), "shared memory is not 0 at first");
        all.iter_mut().enumerate().for_each(|(at, byte)| *byte = value(comm.rank(), at));
        ensure!(parts.iter().all(|part| lease.memory.covers(part.clone())), "{:?}", lease.memory);
    }
    let token = lease.iter().flat_map(|lease| near.iter().map(|peer| (*peer, lease.token.clone())));
    let tokens = comm.sparse_exchange(&token.collect::<Vec<_>>())?;
    for (owner, token) in &tokens {
        let memory = transport.map(*owner, token)?.ok_or("shared memory cannot be mapped")?;
        ensure!(memory.bytes() >= bytes, "{} bytes of rank {owner}", memory.bytes());
        for part in &parts {
            ensure!(memory.covers(part.clone()), "{part:?} is not shared: {memory:?}");
            for at in part.clone() {
                // SAFETY: the byte is shared, and its owner wrote it before it sent the token.
                let found = unsafe { memory.pointer().as_ptr().add(at).read() };
                ensure!(found == value(*owner, at), "byte {at} of rank {owner} is {found}");
            }
        }
        let wrong = gaps.iter().find(|gap| memory.covers((*gap).clone()));
        ensure!(wrong.is_none(), "{wrong:?} is shared: {memory:?}");
    }
    let beyond = bytes - 1..bytes + 1;
    ensure!(
        transport.share_parts(bytes, &[parts[0].clone(), beyond]).is_none(),
        "a part beyond the end is shared"
    );
    comm.barrier()?;
    drop(lease);
    Ok(())
}
