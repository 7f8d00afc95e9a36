//! Patterns, exchanges and plans that are made and dropped many times: all that they take is given back.

use std::fs;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use haloport_core::comm::Communicator;
use haloport_core::device::{Device, Pointer};
use haloport_core::transport::{Idle, Lease, SharedMemory, Transport, TransportError, TransportInfo, Window};
use haloport_core::{BindOptions, DataPath, Field, Grid, Halo, IndexBox, Pattern, Split};
use rustix::time::{ClockId, clock_gettime};

use crate::{Failure, ensure};

/// The largest tag of an MPI that has as few as the standard allows: enough for some 120 rounds.
const LARGEST_TAG: u32 = (1 << 15) - 1;
/// The number of stages whose memory, open files and time are compared.
const STAGES: usize = 10;
/// The bytes by which memory may grow from the third stage to the last: allocators keep freed memory.
const GROWTH: u64 = 4 << 20;

/// The resources of the process at the end of a stage.
struct Stage {
    resident: u64,
    open_files: usize,
    /// The CPU time of this rank in the quickest of the stage's rounds: other programs delay rounds on a busy machine.
    round: Duration,
}

/// Collective: makes `rounds` patterns of a row of cells, and with each an exchange and a plan, which run once and are
/// dropped, on a transport with 2^15 tags. Prints the stages on rank 0. Nothing else may run in the process meanwhile.
///
/// # Errors
/// A wrong halo; memory, open files or CPU time that grow with the rounds.
pub fn check<D: Device>(comm: &Communicator, device: &D, rounds: usize) -> Result<(), Failure> {
    let comm = Communicator::new(FewTags { inner: Arc::clone(transport(comm)) });
    let grid = Grid::new([4 * comm.size()])?.periodic([true])?;
    let mine = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("no such part")?;
    let mut stages = Vec::with_capacity(STAGES);
    for stage in 0..STAGES {
        let mut quickest = Duration::MAX;
        for _ in 0..rounds.div_ceil(2 * STAGES) {
            let began = cpu_time();
            for path in [DataPath::Quickest, DataPath::Messages] {
                once(&comm, device, (&grid, &mine), path)?;
            }
            quickest = quickest.min((cpu_time() - began) / 2);
        }
        comm.barrier()?;
        stages.push(Stage { round: quickest, ..Stage::now()? });
        if comm.rank() == 0 {
            let Stage { resident, open_files, round } = &stages[stage];
            println!(
                "stage {stage}: {resident} bytes, {open_files} open files, CPU time of a round {round:.1?}"
            );
        }
    }
    let (early, last) = (&stages[2], &stages[STAGES - 1]);
    ensure!(
        last.resident <= early.resident + GROWTH,
        "memory grew from {} to {} bytes",
        early.resident,
        last.resident
    );
    // Ranks that are threads of this process look at the same time, by two files each.
    ensure!(
        last.open_files <= early.open_files + 2 * comm.size(),
        "open files: {} became {}",
        early.open_files,
        last.open_files
    );
    let quickest = |stages: &[Stage]| stages.iter().map(|stage| stage.round).min().unwrap_or_default();
    let (first, end) = (quickest(&stages[..3]), quickest(&stages[STAGES - 3..]));
    ensure!(end < 4 * first, "a round took {first:?} of CPU time, later {end:?}");
    Ok(())
}

/// Makes, runs, verifies and drops an exchange and a plan.
fn once<D: Device>(
    comm: &Communicator,
    device: &D,
    (grid, mine): (&Grid, &IndexBox),
    path: DataPath,
) -> Result<(), Failure> {
    let pattern = Pattern::structured(comm, grid, std::slice::from_ref(mine), &Halo::uniform(1))?;
    let options = || BindOptions::default().prefer(path);
    let mut exchange = pattern.bind_with(filled(device, &pattern)?, options())?;
    exchange.run_blocking()?;
    verify(exchange.fields(), comm.size())?;
    let mut field = filled(device, &pattern)?;
    let mut plan = pattern.plan_with(&mut field, options())?;
    plan.run_blocking(&mut field)?;
    verify(&field, comm.size())
}

fn filled<D: Device>(device: &D, pattern: &Pattern) -> Result<Field<i64, D>, Failure> {
    let mut field = Field::new(device, pattern)?;
    field.view_mut(0)?.fill_with(|cell, _| cell[0]);
    Ok(field)
}

/// Checks both halo cells of a row of 4 cells for each rank.
fn verify<D: Device>(field: &Field<i64, D>, ranks: usize) -> Result<(), Failure> {
    let view = field.view(0)?;
    let (lower, upper) = (view.region().lower()[0], view.region().upper()[0]);
    for cell in lower..upper {
        let expected = cell.rem_euclid(4 * ranks as i64);
        let found = view.get(&[cell]);
        ensure!(found == Some(expected), "cell {cell} holds {found:?}, expected {expected}");
    }
    Ok(())
}

impl Stage {
    fn now() -> Result<Stage, Failure> {
        let status = fs::read_to_string("/proc/self/status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"));
        let kilobytes: u64 = resident.ok_or("no VmRSS in /proc/self/status")?.trim().parse()?;
        let open_files = fs::read_dir("/proc/self/fd")?.count();
        Ok(Stage { resident: kilobytes * 1024, open_files, round: Duration::MAX })
    }
}

/// The CPU time of this thread so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn transport(comm: &Communicator) -> &Arc<dyn Transport> {
    // SAFETY: meanwhile nothing else uses the communicator.
    unsafe { comm.raw_transport() }
}

/// Another transport, whose largest tag is [`LARGEST_TAG`].
#[derive(Debug)]
struct FewTags {
    inner: Arc<dyn Transport>,
}

// SAFETY: every call goes to the transport within.
unsafe impl Transport for FewTags {
    crate::unaltered_messages!();
    crate::unaltered_channels!();

    fn info(&self) -> TransportInfo {
        self.inner.info()
    }

    fn check_thread(&self) -> Result<(), TransportError> {
        self.inner.check_thread()
    }

    fn largest_tag(&self) -> u32 {
        self.inner.largest_tag().min(LARGEST_TAG)
    }

    fn publish(&self, peer: usize, tag: u32, window: &Arc<Window>) -> Result<bool, TransportError> {
        self.inner.publish(peer, tag, window)
    }

    fn attach(&self, peer: usize, tag: u32) -> Result<Option<Arc<Window>>, TransportError> {
        self.inner.attach(peer, tag)
    }

    fn is_near(&self, peer: usize) -> bool {
        self.inner.is_near(peer)
    }

    fn share_parts(&self, bytes: usize, parts: &[Range<usize>]) -> Option<Lease> {
        self.inner.share_parts(bytes, parts)
    }

    unsafe fn share_in_place(&self, ranges: &[(Pointer, usize)]) -> Result<Option<Lease>, String> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.share_in_place(ranges) }
    }

    fn map(&self, peer: usize, token: &[u8]) -> Result<Option<SharedMemory>, TransportError> {
        self.inner.map(peer, token)
    }

    fn missing_ranks(&self) -> Vec<usize> {
        self.inner.missing_ranks()
    }

    fn sparse_exchange(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
        idle: Idle<'_>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError> {
        self.inner.sparse_exchange(messages, idle)
    }
}
