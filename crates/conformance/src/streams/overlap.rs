//! Steps by `overlap`, one after the other in a stream. The host waits for the last one alone.

use haloport_core::device::{Buffer, Device, MemoryKind, Priority};
use haloport_core::exchange::CopiedBy;
use haloport_core::{BindOptions, Communicator, DataPath, Field, Grid, Halo, Pattern, Split};

use crate::{Failure, ensure};

/// Cells that a rank owns, and that its left neighbour sends to it.
const CELLS: usize = 512;
const BYTES: usize = CELLS * size_of::<i64>();

const STEPS: usize = 13;

/// The paths by which halos are filled.
pub const PATHS: [fn() -> BindOptions; 5] = [
    BindOptions::default,
    in_messages,
    || in_messages().staging_copy(0),
    || BindOptions::default().prefer(DataPath::Direct).copied_by(CopiedBy::Receiver),
    || BindOptions::default().prefer(DataPath::Direct).copied_by(CopiedBy::Sender),
];

/// In messages of the transport.
pub fn in_messages() -> BindOptions {
    BindOptions::default().path(DataPath::Messages)
}

/// Collective: each step copies the owned cells while halos travel, then the halo, and then fills the owned cells with
/// other values. All copies are compared with what they must hold: with the values of the step, although neighbours begin
/// the next one at once. On a stream of its own and on the default stream.
///
/// # Errors
/// A wrong cell, or the error of a call.
pub fn steps_in_a_row<D: Device>(
    comm: &Communicator,
    device: &D,
    options: fn() -> BindOptions,
) -> Result<(), Failure> {
    for stream in [device.create_stream(Priority::Normal)?, device.default_stream()] {
        steps_on(comm, device, options(), &stream).map_err(|error| format!("on {stream:?}: {error}"))?;
    }
    Ok(())
}

fn steps_on<D: Device>(
    comm: &Communicator,
    device: &D,
    options: BindOptions,
    stream: &D::Stream,
) -> Result<(), Failure> {
    let grid = Grid::new([CELLS * comm.size()])?.periodic([true])?;
    let domain = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("no part")?;
    let pattern = Pattern::structured(comm, &grid, &[domain], &Halo::per_side([(CELLS, 0)]))?;
    let field = Field::<i64, _>::new(device, &pattern)?;
    let (halo, seen) = (field.pointer(0)?, device.allocate(STEPS * 2 * BYTES, MemoryKind::Device)?);
    let owned = halo.offset(BYTES as isize);
    let mut exchange = pattern.bind_with(field, options)?;
    let value = |step: usize, rank: usize| (1_000_000 * step + 1000 * rank + 1) as i64;
    let fill = |step: usize| -> Result<(), Failure> {
        let element = value(step, comm.rank()).to_ne_bytes();
        // SAFETY: the field has that many cells, and lives until the stream is synchronised.
        Ok(unsafe { device.fill(owned, &element, CELLS, stream) }?)
    };
    fill(0)?;
    for step in 0..STEPS {
        let copies = seen.pointer().offset((2 * step * BYTES) as isize);
        exchange.overlap_on(
            stream,
            &mut (),
            // SAFETY: both are that long, and live until the stream is synchronised.
            |_, ()| Ok(unsafe { device.copy(owned, copies.offset(BYTES as isize), BYTES, stream) }?),
            |_, ()| {
                // SAFETY: as above.
                unsafe { device.copy(halo, copies, BYTES, stream) }?;
                fill(step + 1)
            },
        )?;
    }
    exchange.synchronize()?;
    let mut found = vec![0_i64; STEPS * 2 * CELLS];
    // SAFETY: the buffer is that long, and nothing else uses it any more.
    unsafe { device.read(seen.pointer(), bytemuck::cast_slice_mut(&mut found), stream)? };
    let left = (comm.rank() + comm.size() - 1) % comm.size();
    for (step, copies) in found.chunks(2 * CELLS).enumerate() {
        for (cell, found) in copies.iter().enumerate() {
            let expected = value(step, if cell < CELLS { left } else { comm.rank() });
            ensure!(*found == expected, "in step {step}, cell {cell} holds {found}, expected {expected}");
        }
    }
    comm.barrier()?;
    Ok(())
}
