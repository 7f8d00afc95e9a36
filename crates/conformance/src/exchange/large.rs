//! A field above 4 GiB, messages above 2 GiB, and more indices for one neighbour than 16 or 19 bits can count.

use haloport_core::device::{Device, MemoryKind};
use haloport_core::{
    BindOptions, Communicator, DataPath, Field, Grid, Halo, HaloCells, IndexBox, IndexSet, Pattern,
};

use crate::transport::bare::{bare, until};
use crate::transport::messages::next_message;
use crate::{Failure, ensure};

/// Cells of one byte that the first rank owns: more than 4 GiB.
const OWNED: i64 = 4_500_000_001;

/// Halo cells of the second rank, and bytes of the message that fills them: more than 2 GiB.
const HALO: usize = 2_200_000_003;

/// Halo cells of the second rank in [`check_indices`]: more than 2^19.
const INDICES: usize = 600_011;

/// The number of levels with which the message of [`check_indices`] is above 2 GiB.
pub const LEVELS: usize = 3_700;

/// The most bytes of memory that [`check`], and [`check_indices`] with [`LEVELS`], touch. The fields of `check` are
/// larger, but mostly never written.
pub const TOUCHED_BYTES: u64 = 9_000_000_000;

/// Collective, on two ranks and a device whose memory the host can access: one exchange with 64-bit sizes by each data
/// path, then a message that its receiver does not expect.
///
/// # Errors
/// The first cell that is wrong on this rank, or the error of a call.
pub fn check<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    ensure!(comm.size() == 2, "the test is for 2 ranks, found {}", comm.size());
    let all = OWNED + 16;
    let grid = Grid::new([all as usize])?;
    let domain = if comm.rank() == 0 { IndexBox::new([0], [OWNED]) } else { IndexBox::new([OWNED], [all]) };
    let pattern = Pattern::structured(comm, &grid, &[domain], &Halo::per_side([(HALO, 1)]))?;
    for path in [DataPath::Messages, DataPath::Shared, DataPath::Direct] {
        let field = Field::<u8, D>::new(device, &pattern)?;
        let mut exchange = pattern.bind_with(field, BindOptions::default().prefer(path))?;
        let samples = || (OWNED - HALO as i64..OWNED).step_by(999_983).chain([OWNED - 1]);
        let value = |cell: i64| (cell % 251) as u8 | 1;
        if comm.rank() == 0 {
            let mut view = exchange.fields_mut().view_mut(0)?;
            for cell in samples() {
                view[[cell]] = value(cell);
            }
        }
        exchange.run_blocking()?;
        let traffic = exchange.traffic();
        if comm.rank() == 0 && path == DataPath::Messages {
            ensure!(traffic.message_bytes > 1 << 31, "the message has only {} bytes", traffic.message_bytes);
        }
        if comm.rank() == 1 {
            let view = exchange.fields().view(0)?;
            for cell in samples() {
                let found = view.get(&[cell]);
                ensure!(found == Some(value(cell)), "cell {cell}: found {found:?}, expected {}", value(cell));
            }
        }
    }
    message(comm)
}

/// A message of [`HALO`] bytes from the first rank to the second.
fn message(comm: &Communicator) -> Result<(), Failure> {
    const TAG: u32 = 80;
    let samples = || (0..HALO).step_by(999_983).chain([HALO - 1]);
    let value = |position: usize| (position % 251) as u8 | 1;
    if comm.rank() == 0 {
        let mut bytes = vec![0; HALO];
        samples().for_each(|position| bytes[position] = value(position));
        bare(comm).send_message(1, TAG, bytes)?;
        let received = || Ok(bare(comm).unreceived(TAG)?.is_empty());
        until(comm, "a large message to be received", received)?;
    } else {
        let (sender, bytes) = next_message(comm, TAG)?;
        ensure!((sender, bytes.len()) == (0, HALO), "rank {sender} sent {} bytes", bytes.len());
        ensure!(samples().all(|position| bytes[position] == value(position)), "a byte is wrong");
    }
    comm.barrier()?;
    Ok(())
}

/// Collective, on two ranks and a device with memory that the host can access: an exchange of more than 2^19 cells for
/// one neighbour, in another order and with ids above 2^32, each with `levels` values of one byte.
///
/// # Errors
/// The first cell that is wrong on this rank, or the error of a call.
pub fn check_indices<D: Device>(comm: &Communicator, device: &D, levels: usize) -> Result<(), Failure> {
    ensure!(comm.size() == 2, "the test is for 2 ranks, found {}", comm.size());
    let id = |number: usize| (1 << 40) + 3 * number as i64;
    let set = if comm.rank() == 0 {
        let owned: Vec<i64> = (0..INDICES).map(id).collect();
        IndexSet::new(&owned, &[id(INDICES)])
    } else {
        // 600,011 is prime, so this takes every cell once.
        let halo: Vec<i64> = (0..INDICES).map(|position| id(position * 1_009 % INDICES)).collect();
        IndexSet::new(&[id(INDICES)], &halo)
    };
    let pattern = Pattern::unstructured(comm, &[set], &HaloCells::All)?;
    let cells = (0..INDICES as i64).step_by(if levels == 1 { 1 } else { 9_973 }).chain([INDICES as i64 - 1]);
    let samples = || {
        cells.clone().flat_map(|cell| [0, levels as i64 / 2, levels as i64 - 1].map(|level| [cell, level]))
    };
    let value = |cell: i64, level: i64| ((31 * cell + level) % 251) as u8 | 1;
    for path in [DataPath::Messages, DataPath::Shared, DataPath::Direct] {
        let memory = if device.info().host_accessible { MemoryKind::Device } else { MemoryKind::Shared };
        let field = Field::<u8, D>::builder(&pattern).levels(levels).memory(memory).build(device)?;
        let mut exchange = pattern.bind_with(field, BindOptions::default().prefer(path))?;
        if comm.rank() == 0 {
            let mut view = exchange.fields_mut().view_mut(0)?;
            // Halo cell `position` is owned cell `position * 1_009 % INDICES`.
            for [position, level] in samples() {
                let cell = position * 1_009 % INDICES as i64;
                view[[cell, level]] = value(cell, level);
            }
        }
        exchange.run_blocking()?;
        let bytes = exchange.traffic().message_bytes;
        if comm.rank() == 0 && path == DataPath::Messages {
            ensure!(
                bytes == INDICES * levels,
                "the message has {bytes} bytes, expected {}",
                INDICES * levels
            );
        }
        if comm.rank() == 1 {
            let view = exchange.fields().view(0)?;
            for [position, level] in samples() {
                let (found, cell) = (view.get(&[position + 1, level]), position * 1_009 % INDICES as i64);
                let expected = value(cell, level);
                ensure!(
                    found == Some(expected),
                    "cell {cell}, level {level}: found {found:?}, expected {expected}"
                );
            }
        }
    }
    Ok(())
}
