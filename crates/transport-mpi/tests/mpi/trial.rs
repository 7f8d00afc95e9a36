//! The choice of a way by trial among processes.

use std::time::{Duration, Instant};

use haloport_core::exchange::{Choice, Origin};
use haloport_core::{
    BindOptions, BorrowedField, Communicator, DataPath, Field, Grid, Halo, HaloOrder, IndexBox, Pattern,
    Schedule, Trial,
};
use haloport_cpu::CpuDevice;

use crate::Outcome;

/// All tests.
pub(crate) fn suite(comm: &Communicator) -> Outcome {
    own_memory(comm)?;
    lent_memory(comm)?;
    in_time(comm)
}

/// Slabs of a periodic grid, of which that of rank 0 is much the largest.
fn slabs(comm: &Communicator) -> Result<Pattern, crate::Failure> {
    let (rank, others) = (comm.rank() as i64, comm.size() as i64 - 1);
    let grid = Grid::new([60 + 2 * others as usize, 30, 30])?.periodic([true; 3])?;
    let (lower, upper) = if rank == 0 { (0, 60) } else { (58 + 2 * rank, 60 + 2 * rank) };
    let mine = IndexBox::new([lower, 0, 0], [upper, 30, 30]);
    Ok(Pattern::structured(comm, &grid, &[mine], &Halo::uniform(2))?)
}

/// What a rank has chosen, which is what rank 0 has.
fn agreed(comm: &Communicator, choice: &Choice) -> Result<Choice, crate::Failure> {
    assert_eq!(&comm.broadcast(0, choice)?, choice);
    Ok(choice.clone())
}

fn own_memory(comm: &Communicator) -> Outcome {
    let pattern = slabs(comm)?;
    let mut field = Field::<f64, _>::new(&CpuDevice::with_threads(1)?, &pattern)?;
    let before: Vec<f64> = (0..field.to_vec(0)?.len()).map(|at| at as f64).collect();
    field.copy_from(0, &before)?;
    let trial = Trial { time: Duration::from_secs(20), rounds: 3 };
    let exchange = pattern.bind_with(field, BindOptions::default().trial(trial))?;
    assert_eq!(exchange.fields().to_vec(0)?, before, "the halos were not put back");
    let choice = agreed(comm, exchange.choice())?;
    assert_eq!(choice.origin, Origin::Trial);
    let near = comm.size() > 1 && (1..comm.size()).all(|peer| comm.rank() != 0 || comm.is_near(peer));
    let paths: Vec<DataPath> = choice.measured.iter().map(|it| it.candidate.path).collect();
    if comm.rank() == 0 && near {
        let all = [DataPath::Direct, DataPath::Shared, DataPath::Messages];
        assert!(all.iter().all(|path| paths.contains(path)), "{choice}");
    }
    // As it was kept.
    let mut kept = choice.clone();
    kept.chosen.path = DataPath::Messages;
    let given = Some(kept).filter(|_| comm.rank() == 0);
    let again = pattern.bind_with(exchange.into_fields()?, BindOptions::default().kept(given))?;
    assert_eq!(agreed(comm, again.choice())?.origin, Origin::Kept);
    assert_eq!(again.traffic().message_bytes > 0, comm.size() > 1);
    Ok(())
}

/// Memory of the caller's is touched by `start` and `finish` alone, so that halos are filled at once.
fn lent_memory(comm: &Communicator) -> Outcome {
    let pattern = slabs(comm)?;
    let device = CpuDevice::with_threads(1)?;
    let layout = Field::<f64, _>::new(&device, &pattern)?.layout(0)?.clone();
    let mut memory: Vec<f64> = (0..layout.span().1).map(|at| at as f64).collect();
    let lent = BorrowedField::new(&device, vec![(&mut memory[..], layout)])?;
    let trial = Trial { time: Duration::from_secs(20), rounds: 3 };
    let mut exchange = pattern.bind_with(lent, BindOptions::default().trial(trial))?;
    let choice = agreed(comm, exchange.choice())?;
    assert!(choice.measured.iter().all(|it| it.candidate.order == HaloOrder::AllNeighbours), "{choice}");
    exchange.exchange(Schedule::Blocking)?;
    Ok(())
}

/// A trial ends in time, also where one rank comes late to it.
fn in_time(comm: &Communicator) -> Outcome {
    let pattern = slabs(comm)?;
    if comm.rank() == 0 {
        std::thread::sleep(Duration::from_millis(50));
    }
    let began = Instant::now();
    let field = Field::<f64, _>::new(&CpuDevice::with_threads(1)?, &pattern)?;
    let trial = Trial { time: Duration::from_millis(100), rounds: usize::MAX };
    let exchange = pattern.bind_with(field, BindOptions::default().trial(trial))?;
    agreed(comm, exchange.choice())?;
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
    Ok(())
}
