//! The transport among MPI processes. Run it on any number of ranks:
//!
//! ```text
//! export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="timeout 120 mpirun --oversubscribe -n 3"
//! cargo test -p haloport-mpi --test mpi
//! ```
//!
//! With the argument `funneled` or `serialized`, the test initialises MPI itself, with that thread level.

mod channels;
mod collectives;
mod halos;

use std::sync::Arc;

use haloport_core::Communicator;
use haloport_mpi::MpiTransport;
use haloport_mpi::mpi::Threading;
use haloport_mpi::mpi::topology::{Color, SimpleCommunicator};
use haloport_mpi::mpi::traits::{AsRaw, Communicator as _};

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Outcome = Result<(), Failure>;

fn main() {
    haloport_mpi::install_abort_hook();
    let argument = std::env::args().nth(1);
    let outcome = match argument.as_deref() {
        None => alone(),
        Some("funneled") => within(Threading::Funneled),
        Some("serialized") => within(Threading::Serialized),
        Some(other) => Err(format!("no thread level `{other}`").into()),
    };
    if let Err(error) = outcome {
        // A panic ends all ranks.
        panic!("{error}");
    }
}

/// With MPI initialised by the crate.
fn alone() -> Outcome {
    let session = haloport_mpi::initialize()?;
    assert!(haloport_mpi::initialize().is_err(), "MPI cannot be initialised twice");
    run(&session.world()?)
}

/// With MPI initialised by its user.
fn within(threading: Threading) -> Outcome {
    let (universe, _) =
        haloport_mpi::mpi::initialize_with_threading(threading).ok_or("MPI is initialised already")?;
    let transport = MpiTransport::from_communicator(&universe.world())?;
    run(&Communicator::new(Arc::new(transport)))
}

fn run(comm: &Communicator) -> Outcome {
    if comm.rank() == 0 {
        println!("{:?}", comm.info());
    }
    suite(comm)?;

    // Two groups of ranks, each of which runs on its own, at its own pace.
    let world = SimpleCommunicator::world();
    let colour = Color::with_value((comm.rank() % 2) as i32);
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
    // SAFETY: the world lives until MPI is finalised, after this.
    let second = unsafe { MpiTransport::from_raw(world.as_raw())? };
    suite(&Communicator::new(Arc::new(second)))?;
    suite(comm)?;
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
