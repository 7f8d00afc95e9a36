//! A field above 4 GiB, and messages above 2 GiB.

use haloport_core::device::Device;
use haloport_core::{BindOptions, Communicator, Field, Grid, Halo, IndexBox, Pattern, Schedule};

use crate::{Failure, ensure};

/// Cells, of one byte each, that the first rank owns: more than 4 GiB.
const OWNED: i64 = 4_500_000_001;

/// Cells of the second rank's halo, and bytes of the message that fills it: more than 2 GiB.
const HALO: usize = 2_200_000_003;

/// Bytes of memory that [`check`] touches; its fields are larger, but mostly never written.
pub const TOUCHED_BYTES: u64 = 7_500_000_000;

/// Collective, on two ranks and a device that the host can access: one exchange with 64-bit sizes everywhere, once
/// by message and, where the ranks share memory, once directly; then a message that its receiver knows nothing of.
///
/// # Errors
/// The first cell that is wrong on this rank, or the error of a call.
pub fn check<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    ensure!(comm.size() == 2, "the test is for 2 ranks, found {}", comm.size());
    let all = OWNED + 16;
    let grid = Grid::new([all as usize])?;
    let domain = if comm.rank() == 0 { IndexBox::new([0], [OWNED]) } else { IndexBox::new([OWNED], [all]) };
    let pattern = Pattern::structured(comm, &grid, &[domain], &Halo::per_side([(HALO, 1)]))?;
    for direct in [false, true] {
        let field = Field::<u8, D>::new(device, &pattern)?;
        let mut exchange = pattern.bind_with(field, BindOptions::default().direct(direct))?;
        let samples = || (OWNED - HALO as i64..OWNED).step_by(999_983).chain([OWNED - 1]);
        let value = |cell: i64| (cell % 251) as u8 | 1;
        if comm.rank() == 0 {
            let mut view = exchange.fields_mut().view_mut(0)?;
            for cell in samples() {
                view.set(&[cell], value(cell));
            }
        }
        exchange.exchange(Schedule::Blocking)?;
        let traffic = exchange.traffic();
        if comm.rank() == 0 && !(direct && comm.info().shares_memory) {
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
    const TAG: u32 = 10_000;
    let samples = || (0..HALO).step_by(999_983).chain([HALO - 1]);
    let value = |place: usize| (place % 251) as u8 | 1;
    if comm.rank() == 0 {
        let mut bytes = vec![0; HALO];
        samples().for_each(|place| bytes[place] = value(place));
        comm.transport().send_message(1, TAG, bytes)?;
        let received = || Ok(comm.transport().unreceived(TAG)?.is_empty());
        crate::transport::until(comm, "a large message to be received", received)?;
    } else {
        let (sender, bytes) = crate::transport::messages::next_message(comm, TAG)?;
        ensure!((sender, bytes.len()) == (0, HALO), "rank {sender} sent {} bytes", bytes.len());
        ensure!(samples().all(|place| bytes[place] == value(place)), "a byte is wrong");
    }
    comm.barrier()?;
    Ok(())
}
