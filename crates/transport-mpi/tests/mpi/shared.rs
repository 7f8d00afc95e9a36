//! Exchanges through memory that the ranks of one node share.

use std::time::{Duration, Instant};

use haloport_core::transport::Reduction;
use haloport_core::{
    Communicator, ExchangeError, Field, Grid, Halo, Pattern, Schedule, Split, TransportError,
};
use haloport_cpu::CpuDevice;

use crate::Outcome;

/// Once an exchange is bound its files in shared memory have no names any more; and a neighbour that has gone is known
/// at once, by everybody who would wait for it.
pub(crate) fn gone_neighbour(comm: &Communicator) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let grid = Grid::new([4 * size])?.periodic([true])?;
    let mine = Split::even(&grid, [size])?.part(rank).ok_or("every rank has a part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
    let mut exchange = pattern.bind(Field::<f64, _>::new(&CpuDevice::with_threads(1)?, &pattern)?)?;
    assert!(names_of_shared_files().is_empty(), "{:?}", names_of_shared_files());

    let mut shared = [exchange.traffic().shared_bytes as u64];
    comm.all_reduce(&mut shared, Reduction::Min)?;
    if shared[0] == 0 {
        if rank == 0 && size > 1 {
            println!("skipped: these ranks share no memory");
        }
        return Ok(());
    }
    let first = 4 * rank as i64;
    let value = |cell: i64| cell.rem_euclid(4 * size as i64) as f64;
    exchange
        .fields_mut()
        .view_mut(0)?
        .fill_with(|cell, _| if (first..first + 4).contains(&cell[0]) { value(cell[0]) } else { -1.0 });
    exchange.exchange(Schedule::Blocking)?;
    for cell in [first - 1, first + 4] {
        assert_eq!(exchange.fields().view(0)?.get(&[cell]), Some(value(cell)));
    }

    let exchange = Some(exchange).filter(|_| rank + 1 < size);
    comm.barrier()?;
    if let Some(mut exchange) = exchange {
        let began = Instant::now();
        let outcome = exchange.exchange(Schedule::Blocking);
        let neighbours = [(rank + 1) % size, (rank + size - 1) % size];
        let gone = matches!(&outcome, Err(ExchangeError::Transport(TransportError::PeerGaveUp { peer }))
            if neighbours.contains(peer));
        // Who is no neighbour of the rank that has gone learns of it, if at all, from those who are.
        assert!(gone || outcome.is_ok() && !neighbours.contains(&(size - 1)), "{outcome:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
    }
    comm.barrier()?;
    Ok(())
}

/// The files of shared memory that this process has mapped and that still have a name.
fn names_of_shared_files() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let ours = maps.lines().filter(|line| line.contains("/dev/shm/haloport-"));
    ours.filter(|line| !line.ends_with("(deleted)")).map(ToString::to_string).collect()
}
