//! Warnings of exchanges for which no thread waits: the progress thread logs them, so this test has a process of its
//! own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haloport_conformance::queued::Queued;
use haloport_conformance::scheduled;
use haloport_core::{BindOptions, DataPath, run_ranks};
use haloport_cpu::CpuDevice;

/// The log.
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

#[test]
fn an_exchange_behind_gates_warns_once_and_names_its_neighbour() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).init();
    let device = Queued::new(&CpuDevice::with_threads(1).unwrap()).unwrap();
    let told = AtomicBool::new(false);
    run_ranks(2, |comm| {
        comm.set_warn_after(Some(Duration::from_millis(50)));
        let options = BindOptions::default().path(DataPath::Messages).staging_chunk(usize::MAX);
        scheduled::silent_neighbour(&comm, &device, options, Duration::from_millis(300), &told)
    })
    .unwrap();
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("rank 0 has waited")).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(warnings[0].contains("from rank 1") && warnings[0].ends_with("it gives up after 0.3 s"), "{log}");
}
