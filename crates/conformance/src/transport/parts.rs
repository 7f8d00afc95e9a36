//! Channels whose messages are gathered from several parts of memory.

use haloport_core::comm::Communicator;
use haloport_core::transport::Direction;

use super::bare::{Memory, bare, close, wait};
use crate::{Failure, ensure};

/// Bytes of each buffer.
const ALL: usize = 300_000;

/// The parts: bytes, and the offsets at the sender and at the receiver.
const PARTS: [(usize, usize, usize); 4] = [(8, 40, 0), (100_000, 1000, 200_000), (0, 0, 0), (5, 3, 100_000)];

/// Each part arrives at its offset, and nothing beside it is written; also if there is one part, an empty one or none.
pub(super) fn channels_in_parts(comm: &Communicator) -> Result<(), Failure> {
    let (rank, size, transport) = (comm.rank(), comm.size(), bare(comm));
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    for (tag, count) in [(76, PARTS.len()), (78, 1), (79, 0)] {
        let parts = &PARTS[..count];
        let (mut out, mut into) = (Memory::new(ALL), Memory::new(ALL));
        let sent: Vec<_> = parts.iter().map(|&(bytes, here, _)| out.range(here, bytes)).collect();
        let received: Vec<_> = parts.iter().map(|&(bytes, _, there)| into.range(there, bytes)).collect();
        // SAFETY: both buffers live until the channels are closed, after their messages are complete.
        let (send, receive) = unsafe {
            (
                transport.open_parts(Direction::Send, next, tag, &sent)?,
                transport.open_parts(Direction::Receive, previous, tag, &received)?,
            )
        };
        for round in 1..4 {
            into.fill(0);
            out.fill(255);
            for (number, &(bytes, here, _)) in parts.iter().enumerate() {
                out.fill_range(here, bytes, round * 16 + number as u8);
            }
            // SAFETY: earlier messages are complete; nothing touches the buffers until these are.
            unsafe {
                transport.post(receive)?;
                transport.post(send)?;
            }
            wait(comm, &[send, receive])?;
            for (number, &(bytes, _, there)) in parts.iter().enumerate() {
                let value = round * 16 + number as u8;
                ensure!(
                    into.all_range(there, bytes, value),
                    "round {round}: part {number} is not all {value}"
                );
                into.fill_range(there, bytes, 0);
            }
            ensure!(into.all(0), "round {round}: bytes beside the parts were written");
        }
        close(comm, send, &out);
        close(comm, receive, &into);
    }
    comm.barrier()?;
    Ok(())
}
