//! The transport among MPI processes. Run it on any number of ranks:
//!
//! ```text
//! export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="timeout 120 mpirun --oversubscribe -n 3"
//! cargo test -p haloport-mpi --test mpi
//! ```

mod channels;
mod collectives;
mod halos;

use haloport_core::Communicator;
use haloport_mpi::MpiTransport;
use haloport_mpi::mpi::traits::{AsRaw, Communicator as _};
use std::sync::Arc;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Outcome = Result<(), Failure>;

fn main() -> Outcome {
    haloport_mpi::install_abort_hook();
    let session = haloport_mpi::initialize()?;
    let outcome = run(&session);
    if let Err(error) = &outcome {
        eprintln!("{error}");
        session.abort(1);
    }
    outcome
}

fn run(session: &haloport_mpi::MpiSession) -> Outcome {
    let comm = session.world()?;
    assert!(haloport_mpi::initialize().is_err(), "MPI cannot be initialised twice");
    if comm.rank() == 0 {
        println!("{:?}", comm.info());
    }
    suite(&comm)?;

    // Two groups of ranks, each of which runs on its own, at its own pace.
    let world = haloport_mpi::mpi::topology::SimpleCommunicator::world();
    let colour = haloport_mpi::mpi::topology::Color::with_value((comm.rank() % 2) as i32);
    let half = world.split_by_color_with_key(colour, -(comm.rank() as i32));
    let half = half.ok_or("every rank has a colour")?;
    let transport = MpiTransport::from_communicator(&half)?;
    drop(half);
    let half = Communicator::new(Arc::new(transport));
    assert_eq!(half.size(), (comm.size() + 1 - comm.rank() % 2) / 2);
    suite(&half)?;
    drop(half);
    comm.barrier()?;

    // A second transport of the same ranks beside the first, from a raw handle.
    // SAFETY: the world lives until MPI is finalised, at the end of `main`.
    let second = unsafe { MpiTransport::from_raw(world.as_raw())? };
    suite(&Communicator::new(Arc::new(second)))?;
    suite(&comm)?;
    if comm.rank() == 0 {
        println!("{} ranks: passed", comm.size());
    }
    Ok(())
}

fn suite(comm: &Communicator) -> Outcome {
    channels::messages(comm)?;
    channels::misuse(comm)?;
    channels::wrong_lengths(comm)?;
    channels::close_unmatched(comm)?;
    channels::close_sending(comm)?;
    collectives::small(comm)?;
    collectives::sparse(comm)?;
    collectives::random_rounds(comm, 100)?;
    collectives::one_rank_complains(comm)?;
    collectives::from_threads(comm)?;
    halos::structured(comm)?;
    comm.barrier()?;
    Ok(())
}
