//! The time lines of all ranks, written to one file.

use std::io::Write;

use super::{CollectiveCall, Communicator};
use crate::trace::{RankTrace, Trace, TraceError, TraceWriter};
use crate::transport::Reduction;

impl Trace {
    /// Collective: writes the time lines of all ranks to `out` on rank 0, as trace events of Chrome in JSON; other
    /// ranks do not use `out`. Rank 0 holds the time line of one rank at a time. Waits for work that is still in
    /// streams.
    ///
    /// In the file, a process is a rank and a thread is a row. The category of an event is its
    /// [`Phase`](crate::trace::Phase), and its bytes are in `args.bytes`. `otherData.dropped` has the number of spans
    /// that each rank has [dropped](Trace::dropped). A rank that has not begun its time line has no events.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn write(&self, comm: &Communicator, out: &mut dyn Write) -> Result<(), TraceError> {
        let _steps = comm.enter(CollectiveCall::WriteTrace)?;
        let part = self.part();
        let first = comm.all_reduce(part.begin(), Reduction::Min)?;
        let mut mine = Some(part);
        let mut writer = TraceWriter::new(out, first);
        let mut written = if comm.rank() == 0 { writer.begin() } else { Ok(()) };
        for rank in 0..comm.size() {
            let sent = mine.take_if(|_| rank == comm.rank());
            let part = if rank == 0 {
                sent
            } else {
                let sent: Vec<(usize, RankTrace)> = sent.into_iter().map(|part| (0, part)).collect();
                comm.sparse_exchange(&sent)?.pop().map(|(_, part)| part)
            };
            if let Some(part) = part.filter(|_| comm.rank() == 0) {
                written = written.and_then(|()| writer.part(rank, part));
            }
        }
        if comm.rank() == 0 {
            written = written.and_then(|()| writer.end());
        }
        let complaint = written.err().map(|error| error.to_string());
        comm.agree(complaint)?.map_err(TraceError::Write)
    }
}
