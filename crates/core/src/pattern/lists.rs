//! Patterns of lists that the program has made itself.

use std::collections::{BTreeMap, BTreeSet, TryReserveError};
use std::sync::{Arc, OnceLock};

use super::id_directory::exchange_tables;
use super::{
    Cells, Description, Domains, Pattern, PatternError, Piece, SetupCost, agree, agree_on_findings,
    check_sends,
};
use crate::comm::{CollectiveCall, Communicator};
use crate::domain::{IndexSet, Orientation};

/// The bytes of memory that the domain of a pattern takes for each cell: its id, and whether it is owned.
const CELL_BYTES: usize = size_of::<i64>() + size_of::<bool>();

/// The lists of one direction, by rank.
type Lists<'l> = BTreeMap<usize, &'l [u32]>;

/// Collective: see [`Pattern::from_lists`].
pub(super) fn make<L: AsRef<[u32]>>(
    comm: &Communicator,
    cells: usize,
    sends: &[(usize, L)],
    receives: &[(usize, L)],
) -> Result<Pattern, PatternError> {
    let steps = comm.enter(CollectiveCall::Pattern)?;
    let lists = check(comm, cells, sends, receives);
    let complaint = lists.as_ref().err().cloned();
    agree(comm, &Ok(Description::Lists), complaint)?;
    let Checked { sends, receives, owned, room } = lists.map_err(PatternError::Refused)?;
    drop(room);
    let ids: Arc<[i64]> = (0..cells as i64).collect();
    let domain = IndexSet::in_order(ids, owned);

    let mut cost = SetupCost::default();
    cost.count_table(cells);
    // The receiver alone says how cells are ordered on the way; it copies straight from the sender's cells if it can.
    let messages = sends.iter().map(|(&peer, &list)| (peer, list.to_vec())).collect();
    let sources: BTreeMap<usize, Vec<u32>> =
        exchange_tables(comm, messages, &mut cost)?.into_iter().collect();
    agree_on_findings(comm, misfit(comm, &sources, &receives))?;
    let received: BTreeMap<usize, Vec<Piece>> = sources
        .into_iter()
        .filter_map(|(peer, sources)| Some((peer, vec![piece(&sources, receives.get(&peer)?)])))
        .collect();
    let requests: Vec<(usize, Vec<Piece>)> =
        received.iter().map(|(&peer, pieces)| (peer, pieces.clone())).collect();
    cost.messages += requests.iter().filter(|(peer, _)| *peer != comm.rank()).count();
    let sent: BTreeMap<usize, Vec<Piece>> = comm.sparse_exchange(&requests)?.into_iter().collect();
    check_sends(&sent, |piece| {
        let is_owned = |index: &u32| domain.owned().get(*index as usize).is_some_and(|owned| *owned);
        piece.source_domain == 0 && piece.source.as_list().is_some_and(|list| list.iter().all(is_owned))
    })?;
    let domains = Domains::Unstructured { sets: vec![domain], runs: OnceLock::new() };
    Ok(Pattern::new((comm, steps.number()), domains, received, sent, cost))
}

/// The arguments of one rank, without empty lists.
struct Checked<'l> {
    sends: Lists<'l>,
    receives: Lists<'l>,
    /// For each cell whether it is not received.
    owned: Vec<bool>,
    /// Memory for the domain, which is held until all ranks have agreed.
    room: Vec<u8>,
}

/// Checks the arguments of this rank.
///
/// # Errors
/// The text of the first error.
fn check<'l, L: AsRef<[u32]>>(
    comm: &Communicator,
    cells: usize,
    sends: &'l [(usize, L)],
    receives: &'l [(usize, L)],
) -> Result<Checked<'l>, String> {
    if u32::try_from(cells).is_err() {
        return Err(format!("the domain has {cells} cells, expected fewer than 2^32"));
    }
    let sends = by_rank(comm, cells, sends, "send to")?;
    let receives = by_rank(comm, cells, receives, "receive from")?;
    let (mut owned, room) = reserve(cells).map_err(|_| no_memory(cells))?;
    owned.resize(cells, true);
    for (&peer, &list) in &receives {
        for &cell in list {
            let Some(owned) = owned.get_mut(cell as usize).filter(|owned| **owned) else {
                return Err(format!(
                    "the cell {cell} is received twice, the second time from rank {peer}; list each received cell once"
                ));
            };
            *owned = false;
        }
    }
    for (&peer, &list) in &sends {
        if let Some(cell) = list.iter().find(|cell| !owned[**cell as usize]) {
            return Err(format!(
                "the cell {cell} is sent to rank {peer} and also received; send only cells that this rank owns"
            ));
        }
    }
    Ok(Checked { sends, receives, owned, room })
}

/// Reserves the memory for `cells` cells, whose number is a mere claim of the caller: the marks of owned cells, and as
/// much as their domain takes.
fn reserve(cells: usize) -> Result<(Vec<bool>, Vec<u8>), TryReserveError> {
    let (mut owned, mut room) = (Vec::new(), Vec::new());
    owned.try_reserve_exact(cells)?;
    room.try_reserve_exact(cells.saturating_mul(CELL_BYTES))?;
    Ok((owned, room))
}

fn no_memory(cells: usize) -> String {
    format!(
        "there is no memory for the domain of {cells} cells, which takes {} bytes; pass the number of cells that this \
         rank has, with its halo",
        cells.saturating_mul(CELL_BYTES + size_of::<bool>())
    )
}

/// The lists of one direction by rank, without empty ones.
fn by_rank<'l, L: AsRef<[u32]>>(
    comm: &Communicator,
    cells: usize,
    lists: &'l [(usize, L)],
    direction: &str,
) -> Result<Lists<'l>, String> {
    let mut by_rank = Lists::new();
    for (peer, list) in lists {
        let list = list.as_ref();
        if *peer >= comm.size() {
            let last = comm.size() - 1;
            return Err(format!("there are cells to {direction} rank {peer}, expected ranks 0 to {last}"));
        }
        if let Some(cell) = list.iter().find(|cell| **cell as usize >= cells) {
            return Err(format!(
                "the cells to {direction} rank {peer} include {cell}, but the domain has {cells} cells"
            ));
        }
        if by_rank.insert(*peer, list).is_some() {
            return Err(format!("there are two lists of cells to {direction} rank {peer}, expected one"));
        }
    }
    by_rank.retain(|_, list| !list.is_empty());
    Ok(by_rank)
}

/// The text of the error for the first list that has another length at its other end.
fn misfit(comm: &Communicator, sources: &BTreeMap<usize, Vec<u32>>, receives: &Lists<'_>) -> Option<String> {
    let peers: BTreeSet<&usize> = sources.keys().chain(receives.keys()).collect();
    peers.into_iter().find_map(|peer| {
        let sent = sources.get(peer).map_or(0, Vec::len);
        let expected = receives.get(peer).map_or(0, |list| list.len());
        let me = comm.rank();
        (sent != expected).then(|| {
            format!(
                "rank {peer} sends {sent} cells to rank {me}, which expects {expected} from it; pass lists of the same \
                 length on both ranks"
            )
        })
    })
}

/// The cells `sources` of the sender, which fill the cells `targets`, in the order of the targets.
fn piece(sources: &[u32], targets: &[u32]) -> Piece {
    let mut pairs: Vec<(u32, u32)> = targets.iter().copied().zip(sources.iter().copied()).collect();
    pairs.sort_unstable();
    let (targets, sources): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
    Piece {
        source_domain: 0,
        source: Cells::List(sources.into()),
        target_domain: 0,
        target: Cells::List(targets.into()),
        orientation: Orientation::default(),
    }
}
