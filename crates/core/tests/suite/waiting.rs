//! Waits of ranks: warnings that name neighbours, and the limits of options and of the environment.

use std::io::{self, Write};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use haloport_core::comm::{DEFAULT_TIME_LIMIT, DEFAULT_WARN_AFTER};
use haloport_core::line::Payloads;
use haloport_core::*;

/// The logged bytes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the lines that `body` logs on this thread.
fn logged(body: impl FnOnce() -> Result<(), Failure>) -> Result<Vec<String>, Failure> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    tracing::subscriber::with_default(subscriber, body)?;
    let bytes = log.0.lock().unwrap().clone();
    Ok(String::from_utf8(bytes)?.lines().map(ToString::to_string).collect())
}

const SHORT: Duration = Duration::from_millis(30);
const LATE: Duration = Duration::from_millis(200);

#[test]
fn a_rank_that_waits_long_warns_once_and_names_its_neighbour() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        comm.set_warn_after(Some(SHORT));
        comm.set_time_limit(Some(DEFAULT_TIME_LIMIT));
        let mut exchange = bound(&comm, DataPath::Messages)?;
        if comm.rank() == 1 {
            std::thread::sleep(LATE);
            exchange.run()?;
            std::thread::sleep(LATE);
            comm.barrier()?;
            return Ok(());
        }
        for (what, lines) in [
            ("from rank 1", logged(|| Ok(exchange.run()?))?),
            ("for rank 1 to come to a barrier", logged(|| Ok(comm.barrier()?))?),
        ] {
            let [line] = &lines[..] else { return Err(format!("one warning expected: {lines:?}").into()) };
            assert!(
                line.contains("WARN") && line.contains("rank 0 has waited") && line.contains(what),
                "{line}"
            );
            assert!(line.contains("it gives up after 1800.0 s"), "{line}");
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_rank_that_is_to_warn_never_does_not() {
    run_ranks(2, |comm| -> Result<(), Failure> {
        comm.set_warn_after(None);
        if comm.rank() == 1 {
            std::thread::sleep(LATE);
            comm.barrier()?;
            return Ok(());
        }
        assert_eq!(logged(|| Ok(comm.barrier()?))?, [""; 0]);
        Ok(())
    })
    .unwrap();
}

/// Rank 0 of four calls `wait`, which ends at the time limit; the others call only `prepare`.
fn at_the_limit<T: Send>(
    prepare: impl Fn(&Communicator) -> Result<T, Failure> + Sync,
    wait: impl Fn(&Communicator, T) -> Result<(), Failure> + Sync,
) {
    let over = Over::default();
    run_ranks(4, |comm| {
        let prepared = prepare(&comm)?;
        comm.set_time_limit(Some(SHORT));
        if comm.rank() == 0 {
            return over.after(|| wait(&comm, prepared));
        }
        over.wait();
        Ok(())
    })
    .unwrap();
}

#[test]
fn the_error_at_the_time_limit_has_the_missing_ranks() {
    at_the_limit(
        |_| Ok(()),
        |comm, ()| {
            let Err(TransportError::TimeLimit { what, ranks, limit }) = comm.barrier() else {
                return Err("no time limit".into());
            };
            assert_eq!(what, "the ranks 1, 2, 3 to come to a barrier");
            assert_eq!((ranks, limit), (vec![1, 2, 3], SHORT));
            Ok(())
        },
    );
    // The neighbours on a periodic line.
    for path in [DataPath::Direct, DataPath::Messages] {
        at_the_limit(
            |comm| bound(comm, path),
            |_, mut exchange| match exchange.run() {
                Err(ExchangeError::TimeLimit { missing, ranks, .. }) => {
                    assert!(missing.contains("rank 1") && missing.contains("rank 3"), "{missing}");
                    assert_eq!(ranks, [1, 3]);
                    Ok(())
                }
                other => Err(format!("{other:?}").into()),
            },
        );
    }
    at_the_limit(
        |comm| {
            let mut field = Numbers::new(&device()?, &line(comm)?)?;
            Ok((line(comm)?.plan(&mut field)?, field))
        },
        |_, (mut plan, mut field)| {
            let ended = plan.run(&mut field);
            assert!(
                matches!(&ended, Err(ExchangeError::TimeLimit { ranks, .. }) if *ranks == [1, 3]),
                "{ended:?}"
            );
            Ok(())
        },
    );
    at_the_limit(
        |comm| Ok(LineExchange::new(&Line::even(comm, 8)?)?),
        |_, mut exchange| {
            let ended = exchange.pass(Payloads { right: Some(vec![1]), left: None });
            assert!(
                matches!(&ended, Err(SparseError::TimeLimit { ranks, .. }) if *ranks == [1]),
                "{ended:?}"
            );
            Ok(())
        },
    );
}

#[test]
fn limits_are_those_of_the_environment() {
    for (name, value, expected) in [
        ("HALOPORT_TIME_LIMIT", "0.25", "Some(250ms) Some(60s)"),
        ("HALOPORT_TIME_LIMIT", "none", "None Some(60s)"),
        ("HALOPORT_WARN_AFTER", "5", "Some(1800s) Some(5s)"),
        ("HALOPORT_WARN_AFTER", "none", "Some(1800s) None"),
        ("NO_SUCH_VARIABLE", "none", "Some(1800s) Some(60s)"),
        ("HALOPORT_TIME_LIMIT", "soon", "refused"),
        ("HALOPORT_WARN_AFTER", "-1", "refused"),
        ("HALOPORT_TIME_LIMIT", "", "refused"),
    ] {
        let out = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "waiting::another_process", "--nocapture", "--test-threads=1"])
            .env_remove("HALOPORT_TIME_LIMIT")
            .env_remove("HALOPORT_WARN_AFTER")
            .env("HALOPORT_TEST_ROLE", "limits")
            .env(name, value)
            .output()
            .unwrap();
        let out = String::from_utf8(out.stdout).unwrap();
        assert!(out.contains(&format!("limits: {expected}")), "{name}={value}: {out}");
        if expected == "refused" {
            let named = format!(
                "the environment variable {name} is `{value}`, expected a number of seconds above 0, or `none`"
            );
            assert!(out.contains(&named), "{name}={value}: {out}");
        }
    }
    assert_eq!(DEFAULT_TIME_LIMIT, Duration::from_secs(30 * 60));
    assert_eq!(DEFAULT_WARN_AFTER, Duration::from_secs(60));
}

/// In a process of its own, of which no other test takes time.
#[cfg(target_os = "linux")]
#[test]
fn ranks_that_wait_leave_the_cores_to_others() {
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "waiting::another_process", "--nocapture", "--test-threads=1"])
        .env("HALOPORT_TEST_ROLE", "many")
        .output()
        .unwrap();
    let out = String::from_utf8(out.stdout).unwrap();
    let seconds = out.split_once("seconds of the processor: ").unwrap().1.split_whitespace().next().unwrap();
    // They wait for two seconds. Sleeps of a millisecond take all of two cores.
    let cores = std::thread::available_parallelism().unwrap().get() as f64;
    assert!(seconds.parse::<f64>().unwrap() < 0.7 * 2.0 * cores, "{out}");
}

/// More ranks than cores wait for one, for two seconds.
#[cfg(target_os = "linux")]
fn many_ranks_wait() {
    let late = |comm: Communicator| {
        if comm.rank() == 0 {
            std::thread::sleep(Duration::from_secs(2));
        }
        Ok(comm.barrier()?)
    };
    run_ranks(512, late).unwrap();
    // Behind the name, which may hold spaces, the 12th and the 13th word: hundredths of a second, as all systems of today count.
    let status = std::fs::read_to_string("/proc/self/stat").unwrap();
    let words = status.rsplit_once(')').unwrap().1.split_whitespace();
    let hundredths: u64 = words.skip(11).take(2).map(|word| word.parse::<u64>().unwrap()).sum();
    println!("seconds of the processor: {}", hundredths as f64 / 100.0);
}

/// The body of the other processes; in the process that cargo starts it does nothing.
#[test]
fn another_process() {
    let Some(role) = std::env::var_os("HALOPORT_TEST_ROLE") else { return };
    #[cfg(target_os = "linux")]
    if role == "many" {
        return many_ranks_wait();
    }
    assert_eq!(role, "limits");
    let limits = run_ranks(1, |comm| Ok((comm.time_limit(), comm.warn_after())));
    match limits {
        Ok(limits) => println!("limits: {:?} {:?}", limits[0].0, limits[0].1),
        Err(error) => println!("limits: refused: {error}"),
    }
}
