//! Warnings of exchanges for which no thread waits: the progress thread logs them, so they are looked for in a process of
//! its own.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haloport_conformance::backend::printed_by;
use haloport_conformance::queued::Queued;
use haloport_conformance::scheduled;
use haloport_core::{BindOptions, DataPath, run_ranks};
use haloport_cpu::CpuDevice;

#[test]
fn an_exchange_behind_gates_warns_once_and_names_its_neighbour() {
    let log = printed_by("logs_an_exchange_behind_gates", "HALOPORT_TEST_ALONE", "1").unwrap();
    // On a busy machine, ranks warn of each other before that as well, while they make the pattern.
    let of_exchange = |line: &&str| line.contains("rank 0 has waited") && !line.contains("to come to");
    let warnings: Vec<&str> = log.lines().filter(of_exchange).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(warnings[0].contains("from rank 1") && warnings[0].ends_with("it gives up after 0.3 s"), "{log}");
}

#[test]
#[ignore = "logs, for the test of warnings"]
fn logs_an_exchange_behind_gates() {
    tracing_subscriber::fmt().with_ansi(false).init();
    let device = Queued::new(&CpuDevice::with_threads(1).unwrap()).unwrap();
    let told = AtomicBool::new(false);
    run_ranks(2, |comm| {
        comm.set_warn_after(Some(Duration::from_millis(50)));
        let options = BindOptions::default().path(DataPath::Messages).staging_chunk(usize::MAX);
        scheduled::silent_neighbour(&comm, &device, options, Duration::from_millis(300), &told)
    })
    .unwrap();
}
