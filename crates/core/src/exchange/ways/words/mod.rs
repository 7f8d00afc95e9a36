//! Cells that are copied straight from fields or into halos, handed over by the streams of the two ends.
//!
//! Every time: `windows`, and `stop`, which gives an exchange up. Here: what is done once for windows on halos, into which the
//! sender writes: the receiver lends its fields, and the sender copies to them, with the roles of the two ends exchanged.

mod stop;
pub(crate) mod windows;

use std::any::Any;
use std::sync::Arc;

use super::memory::Segment;
use super::memory::mapping::{Exported, Imported, MappedField};
use super::offer::{AnsweredWord, FieldHandle, LentFields, Offer, lent_blocks, lent_word};
use super::{PartFields, WORD_BYTES};
use crate::exchange::cells::Neighbour;
use crate::exchange::options::{CopiedBy, Way};
use crate::field::End;
use crate::transport::{Lease, TransportError, Window};
use windows::StreamWord;

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
        let window = Arc::new(Window::new(self.lent(End::Target)));
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
            Way::Direct => self.field_handle(field, End::Target, to.received()).map(Some),
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
