//! Exchanges whose messages a network adapter reads from and writes to device memory, on the driver for tests. It shows
//! the work in streams what such an adapter writes only when that is ordered, as `HALOPORT_DRIVER_RDMA` says.
#![cfg(target_os = "linux")]

#[path = "../common/network.rs"]
mod transport;

use std::process::Command;
use std::time::Duration;

use haloport_conformance::{ordering, overlap};
use haloport_core::device::{Buffer, Device, MemoryKind, Pointer, Priority};
use haloport_core::{
    BindOptions, Communicator, DataPath, Exchange, Field, Grid, Halo, Pattern, Progress, Split, run_ranks,
};
use haloport_cuda::{CudaBuffer, CudaDevice, CudaStream};

use transport::Network;

type Failure = haloport_core::Error;

const CELLS: usize = 512;

/// Set in the processes with the driver's settings.
const SETTING: &str = "HALOPORT_DRIVER_RDMA";
const SETTINGS: [&str; 4] = ["ordered", "wait", "host", "never"];

/// A ring of ranks, each on a device of its own: the halo of a rank are all cells of the rank before it.
struct Ring {
    exchange: Exchange<Field<i64, CudaDevice>>,
    device: CudaDevice,
    stream: CudaStream,
    /// Gets a copy of all cells, in the stream behind the exchange.
    seen: CudaBuffer,
    rank: i64,
    ranks: i64,
}

impl Ring {
    fn new(comm: &Communicator) -> Result<Ring, Failure> {
        let device = CudaDevice::select(&format!("cuda:{}", comm.rank()))?;
        let grid = Grid::new([CELLS * comm.size()])?.periodic([true])?;
        let domain = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("no part")?;
        let pattern = Pattern::structured(comm, &grid, &[domain], &Halo::per_side([(CELLS, 0)]))?;
        let field = Field::new(&device, &pattern)?;
        let stream = device.create_stream(Priority::Normal)?;
        let exchange = pattern.bind_with(field, BindOptions::default().path(DataPath::Messages))?;
        let seen = device.allocate(2 * CELLS * size_of::<i64>(), MemoryKind::Device)?;
        Ok(Ring { exchange, device, stream, seen, rank: comm.rank() as i64, ranks: comm.size() as i64 })
    }

    /// The halo, then the cells that the rank owns, in this round.
    fn values(&self, round: i64) -> Vec<i64> {
        let of = |rank: i64| (0..CELLS as i64).map(move |cell| 1_000_000 * round + 1000 * rank + cell);
        of((self.rank + self.ranks - 1) % self.ranks).chain(of(self.rank)).collect()
    }

    fn write(&mut self, round: i64) -> Result<(), Failure> {
        let mut values = self.values(round);
        values[..CELLS].fill(-1);
        Ok(self.exchange.fields_mut().copy_from(0, &values)?)
    }

    /// Puts a copy of all cells of the field, which begins at `field`, into the stream.
    fn look(device: &CudaDevice, field: Pointer, seen: Pointer, stream: &CudaStream) -> Result<(), Failure> {
        // SAFETY: both are that long, and live until the stream is synchronised.
        Ok(unsafe { device.copy(field, seen, 2 * CELLS * size_of::<i64>(), stream) }?)
    }

    /// Compares all cells that were seen. First waits without a call of the driver, which would show what has arrived.
    fn verify(&self, round: i64) -> Result<(), Failure> {
        std::thread::sleep(Duration::from_millis(30));
        let mut found = vec![0; 2 * CELLS * size_of::<i64>()];
        // SAFETY: the buffer is that long.
        unsafe { self.device.read(self.seen.pointer(), &mut found, &self.stream)? };
        let (found, expected) = (bytemuck::cast_slice::<u8, i64>(&found), self.values(round));
        let wrong = found.iter().zip(&expected).filter(|(found, expected)| found != expected).count();
        match wrong {
            0 => Ok(()),
            wrong => Err(format!("rank {}, round {round}: {wrong} cells are wrong", self.rank).into()),
        }
    }
}

/// Runs a test in a process for each of these settings of the driver.
fn with_settings(name: &str, settings: &[&str], test: impl Fn(&Communicator) -> Result<(), Failure> + Sync) {
    if crate::common::device().is_none() {
        return;
    }
    if std::env::var_os(SETTING).is_some() {
        let ran = run_ranks(2, |comm| match Network::around(&comm) {
            Some((network, moved)) => {
                test(&network)?;
                assert!(moved.load(std::sync::atomic::Ordering::Relaxed) > 0, "no message");
                Ok(comm.barrier()?)
            }
            None => {
                eprintln!("skipped: the driver is not the one for tests");
                Ok::<_, Failure>(())
            }
        });
        ran.unwrap();
        return;
    }
    for setting in settings {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([&format!("network::{name}"), "--exact", "--nocapture", "--test-threads=1"])
            .env(SETTING, setting)
            .env("HALOPORT_DRIVER_DEVICES", "2")
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{setting}: {}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn halos_from_the_network_are_seen() {
    with_settings("halos_from_the_network_are_seen", &SETTINGS, |comm| {
        for progress in [Progress::Thread, Progress::Caller] {
            comm.set_progress(progress)?;
            let mut ring = Ring::new(comm)?;
            for round in 1..=4 {
                ring.write(round)?;
                comm.barrier()?;
                let stream = ring.stream.clone();
                // The first rank is late, so that the other closes a gate.
                if comm.rank() == 0 {
                    std::thread::sleep(Duration::from_millis(10));
                }
                ring.exchange.start_on(&stream)?.finish_on(&stream)?;
                let field = ring.exchange.fields().pointer(0)?;
                Ring::look(&ring.device, field, ring.seen.pointer(), &stream)?;
                ring.verify(round)?;
            }
        }
        Ok(())
    });
}

#[test]
fn exchanges_over_a_network_are_ordered_with_the_work_around_them() {
    with_settings("exchanges_over_a_network_are_ordered_with_the_work_around_them", &SETTINGS[..1], |comm| {
        let device = CudaDevice::select(&format!("cuda:{}", comm.rank()))?;
        ordering::suite(comm, &device, None)
    });
}

#[test]
fn steps_in_a_row_over_a_network_are_right() {
    with_settings("steps_in_a_row_over_a_network_are_right", &SETTINGS, |comm| {
        let device = CudaDevice::select(&format!("cuda:{}", comm.rank()))?;
        overlap::steps_in_a_row(comm, &device, overlap::in_messages)
    });
}
