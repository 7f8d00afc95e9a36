//! Cells that are copied straight from fields or into halos, handed over by the streams of the two ends.
//!
//! Every time: `windows`. Here: what is done once for windows on halos, into which the sender writes: the receiver lends its
//! fields, and the sender copies to them, with the roles of the two ends exchanged; and giving an exchange up.

pub(crate) mod windows;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::memory::Segment;
use super::memory::mapping::{Exported, Imported, MappedField};
use super::offer::{AnsweredWord, FieldHandle, LentFields, Offer, lent_blocks, lent_word};
use super::{PartFields, WORD_BYTES};
use crate::comm::drive_meanwhile;
use crate::device::{Device, WordOperation};
use crate::exchange::cells::packed::Neighbour;
use crate::exchange::options::{CopiedBy, Way};
use crate::exchange::work::copy_list::Lane;
use crate::exchange::work::mark::{Patience, words_of};
use crate::transport::{Lease, Transport, TransportError, Window};
use windows::{ReachedWords, Stage, StreamWindows, StreamWord};

impl PartFields {
    /// Receiver: whether the sender shall copy. `fields` is the window that a sender in this process lends; `None` for
    /// another process, which mostly has a device of its own.
    pub(crate) fn prefers_sender(&self, copied_by: CopiedBy, fields: Option<&Window>) -> bool {
        let own = self.device.info().id;
        let differ = |fields: &Window| lent_blocks(fields).iter().any(|block| block.device != own);
        match copied_by {
            CopiedBy::Quickest => fields.is_none_or(differ),
            CopiedBy::Receiver => false,
            CopiedBy::Sender => true,
        }
    }

    /// Receiver: lends the halos to a neighbour in this process, which finds them under `tag`. Also returns their word;
    /// `None` if there is none.
    pub(crate) fn publish_halos(
        &self,
        to: Neighbour<'_>,
        tag: u32,
    ) -> Result<Option<(Arc<Window>, StreamWord)>, TransportError> {
        let window = Arc::new(Window::new(self.lent()));
        let Some(word) = lent_word(&window).cloned() else { return Ok(None) };
        let is_published = to.transport().publish(to.peer, tag, &window)?;
        Ok(is_published.then_some((window, word)))
    }

    /// Sender: takes the halos that a neighbour has published under `tag`, and their word; `None` if the device does not reach
    /// them.
    pub(crate) fn attach_halos(
        &self,
        from: Neighbour<'_>,
        tag: u32,
    ) -> Result<Option<(Arc<Window>, StreamWord)>, TransportError> {
        let attached = from.transport().attach(from.peer, tag)?.filter(|window| self.reaches_all(window));
        Ok(attached.and_then(|window| {
            let word = lent_word(&window)?.clone();
            Some((window, word))
        }))
    }

    /// Receiver: lends the halos to another process, by `segment`. Also returns the handles of the fields that are copied
    /// straight; `None` if one of them cannot be exported.
    pub(crate) fn export_halos(
        &self,
        to: Neighbour<'_>,
        ways: &[Way],
        segment: &Segment,
    ) -> Option<(Arc<Window>, Vec<Option<FieldHandle>>)> {
        let handles = self.fields.iter().zip(ways).map(|((_, field), way)| match way {
            Way::Direct => self.field_handle(field, to.received()).map(Some),
            _ => Some(None),
        });
        let handles = handles.collect::<Option<Vec<_>>>()?;
        let owner = Arc::new(Exported { memory: self.owners(), released: segment.release_flag()? });
        let lent = LentFields { _owners: vec![owner as _], ..LentFields::default() };
        Some((segment.window_on_fields(lent)?, handles))
    }

    /// Sender: maps the halos that a neighbour in another process lends by `segment`; `None` if it cannot.
    pub(crate) fn import_halos(
        &self,
        from: Neighbour<'_>,
        handles: &[Option<FieldHandle>],
        segment: &Segment,
    ) -> Result<Option<Arc<Window>>, TransportError> {
        let Some(released) = segment.release_flag() else { return Ok(None) };
        // If one cannot be mapped, this tells the neighbour that nothing is.
        let mut imported = Imported { memory: Vec::new(), released };
        let mut blocks = Vec::new();
        for (position, handle) in handles.iter().enumerate().take(self.fields.len()) {
            let Some(handle) = handle else { continue };
            let mapped = self.map_field(from, position, handle)?;
            let Some(MappedField { blocks: of_field, owner }) = mapped else { return Ok(None) };
            blocks.extend(of_field);
            imported.memory.push(owner);
        }
        let lent = LentFields { blocks, _owners: vec![Arc::new(imported) as _], ..LentFields::default() };
        Ok(segment.window_on_fields(lent))
    }

    /// The word of a window that a sender in this process lends; `None` if streams of both devices do not write and await
    /// it.
    pub(crate) fn published_word(&self, window: &Window) -> Option<StreamWord> {
        let own = self.device.info();
        let same_backend = || lent_blocks(window).iter().all(|block| block.device.backend == own.id.backend);
        lent_word(window).filter(|_| self.device.has_words() && same_backend()).cloned()
    }

    /// Makes a word in shared memory for a sender in another process, if streams of both devices write and await words.
    /// Also returns the name of its memory.
    pub(crate) fn accept_word(
        &self,
        from: Neighbour<'_>,
        offer: &Offer,
    ) -> (AnsweredWord, Option<StreamWord>, Option<Box<dyn Any + Send + Sync>>) {
        let have_words = offer.has_words && self.device.has_words();
        let lease = have_words.then(|| from.transport().share(WORD_BYTES)).flatten();
        let Some(Lease { memory, token, name }) = lease else { return (AnsweredWord::None, None, None) };
        match self.device.shared_stream_word(memory) {
            Ok(word) => (AnsweredWord::Shared(token), Some(word), Some(name)),
            Err(error) => {
                tracing::info!(%error, "hosts hand fields over: no word in shared memory");
                (AnsweredWord::None, None, None)
            }
        }
    }
}

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
