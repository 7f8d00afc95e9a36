//! A rank that is killed or stopped during exchanges, and the errors of its neighbours.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use haloport_core::comm::FREE_TAGS;
use haloport_core::transport::Incoming;
use haloport_core::{BindOptions, Communicator, DataPath, Exchange, Field, Grid, Halo, IndexBox, Pattern};
use haloport_cpu::CpuDevice;
use haloport_mpi::MpiSession;

use crate::{Failure, Outcome};

/// The time limit of the ranks.
const LIMIT: Duration = Duration::from_secs(1);

/// The longest time until an error, with a reserve for busy machines.
const MOST: Duration = Duration::from_secs(8);

/// The paths to the neighbour, each with an exchange of its own.
const PATHS: [DataPath; 3] = [DataPath::Direct, DataPath::Shared, DataPath::Messages];

/// The lost rank, the neighbour of both others.
const LOST: usize = 1;

type Exchanges = [Exchange<Field<f64, CpuDevice>>; 3];

/// Sends `signal` to the middle one of 3 ranks during exchanges on every path. Each other rank gets an error that names
/// it, on each path and within the limit; then they end the job with code 3.
pub(crate) fn lose(session: &MpiSession, signal: i32) -> Outcome {
    let comm = session.world()?;
    if comm.size() != 3 {
        return Err("this takes 3 ranks".into());
    }
    let mut exchanges = exchanges(&comm)?;
    comm.barrier()?;
    if comm.rank() == LOST {
        signal_oneself_soon(signal);
    }
    comm.set_time_limit(Some(LIMIT));
    let found = errors(&mut exchanges)?;
    if comm.rank() == LOST {
        return Err(format!("the other ranks were lost: {found}").into());
    }
    drop(exchanges);
    report(&comm, found)?;
    session.abort(3)
}

/// One exchange for each path, of slabs in a row.
fn exchanges(comm: &Communicator) -> Result<Exchanges, Failure> {
    let (planes, row) = (4, 100);
    let grid = Grid::new([3 * planes, row])?;
    let lower = (planes * comm.rank()) as i64;
    let mine = IndexBox::new([lower, 0], [lower + planes as i64, row as i64]);
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
    let device = CpuDevice::with_threads(1)?;
    let bind = |path| -> Result<_, Failure> {
        let field = Field::<f64, _>::new(&device, &pattern)?;
        Ok(pattern.bind_with(field, BindOptions::default().prefer(path))?)
    };
    let exchanges = [bind(PATHS[0])?, bind(PATHS[1])?, bind(PATHS[2])?];
    if comm.is_near(if comm.rank() == LOST { 0 } else { LOST }) {
        let traffic = exchanges.each_ref().map(|exchange| exchange.traffic());
        let bytes = [traffic[0].direct_bytes, traffic[1].shared_bytes, traffic[2].message_bytes];
        assert!(!bytes.contains(&0), "not every path is taken: {traffic:?}");
    } else if comm.rank() == 0 {
        println!("these ranks share no memory: all paths use messages");
    }
    Ok(exchanges)
}

/// Sends `signal` to this process at a random moment of an exchange.
fn signal_oneself_soon(signal: i32) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let soon = Duration::from_micros(20_000 + u64::from(now.subsec_micros()) % 50_000);
    thread::spawn(move || {
        thread::sleep(soon);
        // SAFETY: the process may be ended or stopped at any point.
        unsafe { libc::kill(libc::getpid(), signal) };
    });
}

/// Exchanges on all paths until each has failed, and returns their errors, which name the lost rank.
fn errors(exchanges: &mut Exchanges) -> Result<String, Failure> {
    let mut errors = [const { None::<String> }; PATHS.len()];
    while errors.contains(&None) {
        for ((exchange, error), path) in exchanges.iter_mut().zip(&mut errors).zip(PATHS) {
            if error.is_some() {
                continue;
            }
            let began = Instant::now();
            let Err(found) = exchange.run_blocking() else { continue };
            let (found, took) = (found.to_string(), began.elapsed());
            if !found.contains(&format!("rank {LOST}")) || took > MOST {
                return Err(format!("{path}, after {took:?}: {found}").into());
            }
            *error = Some(format!("{path}: {found}"));
        }
    }
    Ok(errors.into_iter().flatten().collect::<Vec<_>>().join("\n  "))
}

/// Rank 0 waits for the errors of the last rank, prints both, and ends the last rank.
fn report(comm: &Communicator, found: String) -> Outcome {
    // SAFETY: no exchange lives on this rank, and no exchange has this tag.
    let transport = unsafe { comm.raw_transport() };
    let tag = FREE_TAGS.start;
    if comm.rank() != 0 {
        transport.send_message(0, tag, found.into_bytes())?;
        let began = Instant::now();
        while began.elapsed() < 4 * MOST {
            transport.unreceived(tag)?;
            thread::sleep(Duration::from_millis(1));
        }
        return Err("rank 0 did not end the job".into());
    }
    println!("rank 0:\n  {found}");
    let began = Instant::now();
    while began.elapsed() < 3 * MOST {
        if let Incoming::Message { sender, bytes } = transport.receive_message(tag)? {
            println!("rank {sender}:\n  {}", String::from_utf8_lossy(&bytes));
            println!("found on every path that rank {LOST} is missing");
            // A launcher that ends a job may lose its last lines.
            thread::sleep(Duration::from_millis(500));
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err("no message of the last rank".into())
}
