//! Ranks of one node in several containers: each shares memory with those in its own.

use std::os::unix::fs::MetadataExt;

use haloport_core::Communicator;
use haloport_core::transport::{Reach, Reduction};

use crate::Outcome;

/// Checks which ranks are near, and the reason for the others. Some ranks must be in other namespaces.
pub(crate) fn check(comm: &Communicator) -> Outcome {
    let mut namespaces = vec![0u64; comm.size()];
    namespaces[comm.rank()] = std::fs::metadata("/proc/self/ns/pid")?.ino();
    comm.all_reduce(&mut namespaces, Reduction::Sum)?;
    let mine = namespaces[comm.rank()];
    let near = |peer: &usize| *peer != comm.rank() && namespaces[*peer] == mine;
    let ranks: Vec<usize> = (0..comm.size()).collect();
    for peer in &ranks {
        assert_eq!(comm.is_near(*peer), near(peer), "rank {} and rank {peer} of {namespaces:?}", comm.rank());
    }
    let other =
        ranks.iter().find(|peer| namespaces[**peer] != mine).ok_or("all ranks are in one namespace")?;
    let (Reach::Node { apart: Some(reason), .. } | Reach::Own { reason }) = comm.info().reach else {
        return Err(format!("no reason: {:?}", comm.info().reach).into());
    };
    let expected = format!("rank {other} is in another namespace of processes");
    assert!(reason.starts_with(&expected), "expected `{expected}`, found `{reason}`");
    let count = ranks.iter().filter(|peer| near(peer)).count();
    assert_eq!(matches!(comm.info().reach, Reach::Node { ranks, .. } if ranks == count + 1), count > 0);
    Ok(())
}
