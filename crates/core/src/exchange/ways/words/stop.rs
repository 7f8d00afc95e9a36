//! Giving up an exchange whose fields streams hand over by words.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::windows::{ReachedWords, Stage, StreamWindows};
use crate::comm::drive_meanwhile;
use crate::device::{Device, WordOperation};
use crate::exchange::work::Lane;
use crate::exchange::work::mark::{Patience, words_of};
use crate::transport::Transport;

impl<D: Device> StreamWindows<D> {
    /// Closes all windows for good, and lets the stream go on: it copies nothing any more, and awaits nothing. Blocks
    /// until the stream has done the exchange, or the device has failed, and until no neighbour uses our fields. Returns
    /// `false` if a neighbour in another process, which does not answer, may still write into our halos.
    pub(crate) fn stop(&self, lane: &Lane<'_, D>) -> bool {
        if self.stage == Stage::Put && self.progress[lane.round].copied.load() != 0 {
            // What we have copied is whole.
            for borrowed in &self.borrowed {
                let _ = borrowed.window.end_use();
            }
        }
        for window in self.all() {
            window.window.shut();
            lane.transport.notify(window.peer);
        }
        // After closing: our stream then returns windows without having copied, and their owners see that they were closed.
        self.stop.store(1);
        let is_put = self.stage == Stage::Put || self.stage == Stage::Begun && !self.awaits_on_host;
        if is_put {
            self.release_stream(lane);
        }
        self.abandon_use(lane.transport);
        // If the exchange is over, all borrowers have copied, although their hosts may not know it yet.
        if self.stage == Stage::Over {
            return true;
        }
        // Last: two ranks that wait for each other here have both ended their use. The borrower may be driven by this very
        // thread.
        let mut is_left = true;
        for lent in &self.lent {
            is_left &= lent.window.close(drive_meanwhile) || !lent.on_halo;
        }
        is_left
    }

    /// Writes the numbers that the stream awaits until it has done the exchange. If at most the start of the exchange was put
    /// into the stream, puts the end.
    fn release_stream(&self, lane: &Lane<'_, D>) {
        let Lane { device, stream, .. } = *lane;
        let ReachedWords { begun, done, .. } = &self.progress[lane.round];
        let write_done = WordOperation::Write(done.pointer(), 1);
        // SAFETY: the words live as long as the windows, which outlive the work.
        let put = || words_of(device).and_then(|words| unsafe { words.put_words(&[write_done], stream) });
        let is_end_put = self.stage == Stage::Put || put().is_ok();
        let patience = Patience::default();
        while done.load() == 0 {
            // Again and again: a neighbour may write at the same time.
            self.borrowed.iter().for_each(|it| it.word.atomic().store(1, Ordering::Release));
            self.lent.iter().for_each(|it| it.word.atomic().store(0, Ordering::Release));
            // Without its end, the stream does not say when it goes on: the numbers stay.
            if !is_end_put || patience.is_over() && device.query(&self.never).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
            if begun.load() == 0 {
                // The work before may be behind the gate of another exchange. The copies will do nothing once they run, so
                // no neighbour has to wait for us until then.
                self.abandon_use(lane.transport);
                drive_meanwhile();
            }
        }
    }

    /// Ends the use of the borrowed fields, if it has not ended, as abandoned, and tells the owners.
    fn abandon_use(&self, transport: &dyn Transport) {
        for borrowed in self.borrowed.iter().filter(|borrowed| borrowed.window.abandon_use()) {
            transport.notify(borrowed.peer);
        }
    }
}
