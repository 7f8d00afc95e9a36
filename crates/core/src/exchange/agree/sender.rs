//! The sender's side of the negotiation with one neighbour: what it offers, and what it lends for the answer.

use std::sync::Arc;

use crate::exchange::cells::packed::{in_place, sources};
use crate::exchange::options::{DataPath, Way};
use crate::exchange::ways::fields::PartFields;
use crate::exchange::ways::memory::segment::Segment;
use crate::exchange::ways::offer::{
    Answer, AnsweredCopies, AnsweredWord, FieldOffer, LentFields, Offer, PeerWindows, kept_message, lent_word,
};
use crate::exchange::ways::words::windows::StreamWord;
use crate::field::{BoundField, End, Load};
use crate::log;
use crate::pattern::Pattern;
use crate::transport::{TransportError, Window};

impl PartFields {
    /// Returns this rank's offer to `peer`, and the window that it has published.
    pub(super) fn offer(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        path: DataPath,
    ) -> Result<(Offer, Option<Arc<Window>>), TransportError> {
        let transport = pattern.comm().transport();
        let direct = matches!(path, DataPath::Quickest | DataPath::Direct);
        let mut published = None;
        if direct && pattern.comm().has_threads() {
            let window = Arc::new(Window::new(self.lent()));
            published = transport.publish(peer, tag, &window)?.then_some(window);
        }
        let near = transport.is_near(peer);
        let pieces = pattern.sends().get(&peer).map_or(&[][..], Vec::as_slice);
        let reached = self.reached(pattern);
        let can_send_in_place = |field: &BoundField| {
            let order = field.memory_order();
            reached && sources(pattern, peer).all(|piece| in_place(field, piece, &order).is_some())
        };
        let fields = self.fields.iter().map(|(_, field)| FieldOffer {
            order: field.memory_order(),
            published: published.is_some() && field.storage.is_some(),
            handle: if near && direct { self.field_handle(field, pieces) } else { None },
            in_place: can_send_in_place(field),
            load: Load::of(pieces, field.at(End::Source).0.iter().map(|(_, it)| it), field.element),
        });
        let packs = self.packs(pattern, peer);
        let has_words = self.device.has_words();
        let offer = Offer { packs, is_staged: self.is_staged(pattern), has_words, fields: fields.collect() };
        Ok((offer, published))
    }

    /// Returns the windows that are lent for an answer. Maps the memory of the answer's token; `None` if it cannot be
    /// mapped.
    pub(super) fn lend(
        &self,
        pattern: &Pattern,
        peer: usize,
        halo_tag: u32,
        answer: &Answer,
        published: Option<Arc<Window>>,
    ) -> Result<Option<PeerWindows>, TransportError> {
        if matches!(answer.copied, AnsweredCopies::ToPublished) {
            let attached = self.attach_halos(pattern, peer, halo_tag)?;
            return Ok(attached.map(|(halos, word)| PeerWindows {
                halos: Some(halos),
                word: Some(word),
                ..PeerWindows::default()
            }));
        }
        match &answer.token {
            None => Ok(Some(self.lend_published(pattern, peer, answer, published))),
            Some(token) => self.lend_shared(pattern, peer, answer, token),
        }
    }

    /// The window that was published, if the answer takes it: to a rank of this process.
    fn lend_published(
        &self,
        pattern: &Pattern,
        peer: usize,
        Answer { ways, word, .. }: &Answer,
        published: Option<Arc<Window>>,
    ) -> PeerWindows {
        let published = published.filter(|_| ways.contains(&Way::Direct));
        if let Some(window) = &published {
            self.keep_message(pattern, peer, ways, window);
        }
        let by_word = published.as_ref().filter(|_| matches!(word, AnsweredWord::Published));
        let word = by_word.and_then(|window| lent_word(window).cloned());
        let kept = published.as_deref().and_then(kept_message).cloned();
        PeerWindows { direct: published, word, kept, ..PeerWindows::default() }
    }

    /// The windows in memory that the receiver, another process, shares by `token`; `None` if it cannot be mapped.
    fn lend_shared(
        &self,
        pattern: &Pattern,
        peer: usize,
        Answer { ways, word, copied, .. }: &Answer,
        token: &[u8],
    ) -> Result<Option<PeerWindows>, TransportError> {
        let direct = ways.contains(&Way::Direct);
        let Some(memory) = pattern.comm().transport().map(peer, token)? else { return Ok(None) };
        let may_keep = direct && self.packs(pattern, peer);
        let kept = if may_keep { Segment::kept_room(self.kept_bytes(pattern, peer, ways)) } else { 0 };
        let segment = Segment::new(memory, kept);
        let word = match word {
            AnsweredWord::Shared(token) => match self.map_word(pattern, peer, token)? {
                Some(word) => Some(word),
                None => return Ok(None),
            },
            AnsweredWord::None | AnsweredWord::Published => None,
        };
        let messages = segment.messages().filter(|_| ways.contains(&Way::Shared));
        if let AnsweredCopies::ToExported(handles) = copied {
            let halos = self.import_halos(pattern, peer, handles, &segment)?;
            return Ok(halos.map(|halos| PeerWindows {
                halos: Some(halos),
                word,
                messages,
                ..PeerWindows::default()
            }));
        }
        let (memory, offset) = segment.direct();
        let lent = || LentFields { _owners: self.owners_until_released(&segment), ..LentFields::default() };
        let direct = direct.then(|| Window::between_processes(memory, offset, lent()));
        let direct = direct.flatten().map(Arc::new);
        Ok(Some(PeerWindows { direct, word, messages, kept: segment.kept(), ..PeerWindows::default() }))
    }

    /// The word in memory that the receiver shares by `token`; `None` if the device cannot use it.
    fn map_word(
        &self,
        pattern: &Pattern,
        peer: usize,
        token: &[u8],
    ) -> Result<Option<StreamWord>, TransportError> {
        let Some(memory) = pattern.comm().transport().map(peer, token)? else { return Ok(None) };
        match self.device.shared_stream_word(memory) {
            Ok(word) => Ok(Some(word)),
            Err(error) => {
                log::warning(format_args!(
                    "sending fields to rank {peer} in messages: the device cannot use shared memory: {error}"
                ));
                Ok(None)
            }
        }
    }
}
