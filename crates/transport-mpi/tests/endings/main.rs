//! Ways in which ranks end, chosen by the argument:
//!
//! - none or `finalize-first`: MPI is finalised before its transports are dropped, with messages under way; the job
//!   succeeds.
//! - `time-limit`: rank 1 never starts its exchange; rank 0 names it and ends the job with code 3.
//! - `time-limit-on-stream`: the same on the OpenCL device, if there is one, without a wait in `finish`; the job always
//!   ends with code 3.
//! - `exit`: the last rank exits with 0 while the others wait; the job ends with a code other than 0.
//! - `killed` and `stopped`: the middle one of 3 ranks gets SIGKILL or SIGSTOP during exchanges on every path; the
//!   others name it and end the job with code 3. The launcher must go on after a rank was killed.
//! - `panic`: the last rank panics while the others wait; the job ends with code 101.
//!
//! ```text
//! export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="timeout 120 mpirun --oversubscribe -n 2"
//! cargo test -p haloport-mpi --test endings -- time-limit
//! ```

mod lost;

use std::sync::Arc;
use std::time::Duration;

use haloport_core::device::{Device, DeviceError, DeviceId, MemoryRange, Pointer, Priority};
use haloport_core::transport::Direction;
use haloport_core::{Communicator, Exchange, ExchangeError, Field, Grid, Halo, Pattern, Split};
use haloport_cpu::CpuDevice;
use haloport_mpi::MpiSession;
use haloport_sycl::SyclDevice;

type Failure = haloport_core::Error;
type Outcome = Result<(), Failure>;

fn main() {
    haloport_mpi::install_abort_hook();
    if let Err(error) = run() {
        // A panic ends all ranks.
        panic!("{error}");
    }
}

fn run() -> Outcome {
    let session = haloport_mpi::initialize()?;
    match std::env::args().nth(1).as_deref() {
        None | Some("finalize-first") => finalize_first(session),
        Some("time-limit") => time_limit(&session),
        Some("time-limit-on-stream") => time_limit_on_stream(&session),
        Some("exit") => exit_alone(&session),
        Some("killed") => lost::lose(&session, libc::SIGKILL),
        Some("stopped") => lost::lose(&session, libc::SIGSTOP),
        Some("panic") => panic_alone(&session),
        Some(other) => {
            Err(format!("expected one of the endings in the head of this file, found `{other}`").into())
        }
    }
}

fn finalize_first(session: MpiSession) -> Outcome {
    let comm = session.world()?;
    let mut memory = vec![0u8; 1_000_000];
    let pointer = Pointer::new(memory.as_mut_ptr());
    let range = MemoryRange {
        device: DeviceId { backend: "cpu", index: 0, context: 0 },
        pointer,
        bytes: memory.len(),
    };
    let memory = Arc::new(memory);
    // SAFETY: no exchange exists.
    let transport = Arc::clone(unsafe { comm.raw_transport() });
    let peer = (comm.rank() + 1) % comm.size();
    // SAFETY: nothing else uses the memory, which outlives the channels.
    let (receive, unanswered) = unsafe {
        let receive = transport.open(Direction::Receive, peer, 1, range)?;
        let unanswered = transport.open(Direction::Send, peer, 2, range)?;
        transport.open(Direction::Receive, peer, 3, range)?;
        transport.post(receive)?;
        transport.post(unanswered)?;
        (receive, unanswered)
    };
    // SAFETY: the second argument owns the memory of the channel.
    unsafe { transport.close(unanswered, Arc::clone(&memory) as _) };
    comm.barrier()?;
    let rank = comm.rank();
    drop(session);

    let errors = [
        transport.test(receive).map(drop).err().map(|error| error.to_string()),
        comm.barrier().err().map(|error| error.to_string()),
        comm.sparse_exchange(&[(0, 1u8)]).err().map(|error| error.to_string()),
        haloport_mpi::initialize().err().map(|error| error.to_string()),
    ];
    for error in &errors {
        assert!(error.as_ref().is_some_and(|error| error.contains("finalised")), "{errors:?}");
    }
    // SAFETY: the second argument owns the memory of the channel.
    unsafe { transport.close(receive, memory) };
    drop(transport);
    drop(comm);
    println!("rank {rank}: finalised before dropped");
    Ok(())
}

fn time_limit(session: &MpiSession) -> Outcome {
    let comm = session.world()?;
    comm.set_time_limit(Some(Duration::from_secs(1)));
    if comm.size() != 2 {
        return Err("this takes 2 ranks".into());
    }
    let mut exchange = exchange(&comm, &CpuDevice::with_threads(1)?)?;
    if comm.rank() == 1 {
        // The other rank ends this one.
        std::thread::sleep(Duration::from_secs(60));
        return Ok(());
    }
    match exchange.run_blocking() {
        Err(ExchangeError::TimeLimit { missing, ranks, .. })
            if missing.contains("rank 1") && ranks == [1] =>
        {
            println!("rank 0: missing {missing}");
        }
        other => return Err(format!("expected a time limit, found {other:?}").into()),
    }
    let again = exchange.run_blocking();
    assert!(matches!(again, Err(ExchangeError::Poisoned(_))), "{again:?}");
    drop(exchange);
    session.abort(3)
}

fn time_limit_on_stream(session: &MpiSession) -> Outcome {
    let comm = session.world()?;
    comm.set_time_limit(Some(Duration::from_secs(1)));
    let device = match SyclDevice::new() {
        Err(error @ DeviceError::NotFound { .. }) if std::env::var_os("HALOPORT_SYCL").is_none() => {
            println!("skipped: {error}");
            session.abort(3)
        }
        device => device?,
    };
    let mut exchange = exchange(&comm, &device)?;
    if comm.rank() == 1 {
        // The other rank ends this one.
        std::thread::sleep(Duration::from_secs(60));
        return Ok(());
    }
    let stream = device.create_stream(Priority::Normal)?;
    exchange.start_on(&stream)?.finish_on(&stream)?;
    device.synchronize(&stream)?;
    let error = exchange.synchronize();
    assert!(matches!(&error, Err(ExchangeError::Poisoned(why)) if why.contains("rank 1")), "{error:?}");
    println!("rank 0: {error:?}");
    drop(exchange);
    session.abort(3)
}

fn exit_alone(session: &MpiSession) -> Outcome {
    let comm = session.world()?;
    comm.set_time_limit(Some(Duration::from_secs(5)));
    let mut exchange = exchange(&comm, &CpuDevice::with_threads(1)?)?;
    if comm.rank() + 1 == comm.size() {
        std::process::exit(0);
    }
    exchange.run_blocking()?;
    Err("expected an error: the exchange succeeded without its neighbour".into())
}

fn panic_alone(session: &MpiSession) -> Outcome {
    let comm = session.world()?;
    assert!(comm.rank() + 1 < comm.size(), "this rank panics, as it should");
    comm.barrier()?;
    Ok(())
}

fn exchange<D: Device>(comm: &Communicator, device: &D) -> Result<Exchange<(Field<f64, D>,)>, Failure> {
    let grid = Grid::new([8, 8])?;
    let split = Split::balanced(&grid, comm.size())?;
    let mine = split.part(comm.rank()).ok_or("every rank has a part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
    Ok(pattern.bind((Field::<f64, _>::new(device, &pattern)?,))?)
}
