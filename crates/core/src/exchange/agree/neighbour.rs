//! The negotiation with one neighbour: the sender makes an offer, the receiver chooses the way of each field, and the sender
//! lends its windows for the answer.

use std::sync::Arc;

use super::Asked;
use crate::exchange::cells::Neighbour;
use crate::exchange::cells::packed::{MessageSet, in_place};
use crate::exchange::options::{CopiedBy, DataPath, Obstacle, Way};
use crate::exchange::ways::PartFields;
use crate::exchange::ways::memory::Segment;
use crate::exchange::ways::memory::mapping::{MappedField, window_on};
use crate::exchange::ways::offer::{
    Acceptance, Answer, AnsweredCopies, AnsweredWord, FieldOffer, LentFields, Offer, PeerWindows,
    kept_message, lent_word,
};
use crate::exchange::ways::words::windows::StreamWord;
use crate::field::{BoundField, End, Handover, Load, PAST_CACHES, SCATTERED};
use crate::log;
use crate::pattern::Pattern;
use crate::transport::{Reach, TransportError, Window};

impl PartFields {
    /// Returns this rank's offer to a neighbour, and the window that it has published.
    pub(super) fn offer(
        &self,
        to: Neighbour<'_>,
        tag: u32,
        path: DataPath,
    ) -> Result<(Offer, Option<Arc<Window>>), TransportError> {
        let Neighbour { pattern, peer } = to;
        let lends = self.shares_memory(pattern);
        let direct = lends && matches!(path, DataPath::Quickest | DataPath::Direct);
        let on_host = self.device.info().runs_on_host();
        let publishes = direct || lends && on_host && path == DataPath::Shared;
        let mut published = None;
        if publishes && pattern.comm().has_threads() {
            let window = Arc::new(Window::new(self.lent(End::Source)));
            published = to.transport().publish(peer, tag, &window)?.then_some(window);
        }
        let (near, pieces) = (to.is_near(), to.sent());
        let reached = self.reached(pattern);
        let can_send_in_place = |field: &BoundField| {
            let order = field.memory_order();
            reached && to.sources().all(|piece| in_place(field, piece, &order).is_some())
        };
        let fields = self.fields.iter().map(|(_, field)| FieldOffer {
            order: field.memory_order(),
            published: published.is_some() && field.storage_at(End::Source).is_some(),
            handle: if near && direct && to.shares_cells_of(field, End::Source) {
                self.field_handle(field, End::Source, pieces)
            } else {
                None
            },
            in_place: can_send_in_place(field),
            load: Load::of(
                pieces,
                (field.first, field.at(End::Source).0.iter().map(|(_, it)| it)),
                field.element,
            ),
        });
        let fields: Vec<FieldOffer> = fields.collect();
        let packs = lends && self.packs(to);
        let straight = fields.iter().filter(|offer| offer.handle.is_some() || offer.published);
        let load: Load = straight.map(|offer| offer.load).sum();
        let past_caches = load.bytes() >= PAST_CACHES;
        let offer = Offer {
            shares: lends,
            packs,
            is_staged: self.is_staged(pattern),
            has_words: self.device.has_words(),
            counts_distance: on_host
                && path == DataPath::Quickest
                && (past_caches || load.scattered_lines() >= SCATTERED),
            past_caches,
            fields,
        };
        Ok((offer, published))
    }

    /// Whether cells of the pattern may go through memory that ranks share. Those that are combined do so only on devices that
    /// have done their work when a call returns.
    fn shares_memory(&self, pattern: &Pattern) -> bool {
        pattern.reversal().is_none() || self.device.info().runs_on_host()
    }

    /// Returns the windows that are lent for an answer. Maps the memory of the answer's token; `None` if it cannot be
    /// mapped.
    pub(super) fn lend(
        &self,
        to: Neighbour<'_>,
        halo_tag: u32,
        answer: &Answer,
        published: Option<Arc<Window>>,
    ) -> Result<Option<PeerWindows>, TransportError> {
        if matches!(answer.copied, AnsweredCopies::ToPublished) {
            let attached = self.attach_halos(to, halo_tag)?;
            return Ok(attached.map(|(halos, word)| {
                let (halos, word) = (Some(halos), Some(word));
                PeerWindows { halos, word, ..Default::default() }
            }));
        }
        match &answer.token {
            None => Ok(Some(self.lend_published(to, answer, published))),
            Some(token) => self.lend_shared(to, answer, token),
        }
    }

    /// The window that was published, if the answer takes it: to a rank of this process.
    fn lend_published(
        &self,
        to: Neighbour<'_>,
        Answer { ways, word, .. }: &Answer,
        published: Option<Arc<Window>>,
    ) -> PeerWindows {
        let published = published.filter(|_| ways.contains(&Way::Direct));
        if let Some(window) = &published {
            self.keep_message(to, ways, window);
        }
        let by_word = published.as_ref().filter(|_| matches!(word, AnsweredWord::Published));
        let word = by_word.and_then(|window| lent_word(window).cloned());
        let kept = published.as_deref().and_then(kept_message).cloned();
        PeerWindows { direct: published, word, kept, ..Default::default() }
    }

    /// The windows in memory that the receiver, another process, shares by `token`; `None` if it cannot be mapped.
    fn lend_shared(
        &self,
        to: Neighbour<'_>,
        Answer { ways, word, copied, .. }: &Answer,
        token: &[u8],
    ) -> Result<Option<PeerWindows>, TransportError> {
        let direct = ways.contains(&Way::Direct);
        let Some(memory) = to.transport().map(to.peer, token)? else { return Ok(None) };
        let may_keep = direct && self.packs(to);
        let kept = if may_keep { Segment::kept_room(self.kept_bytes(to, ways)) } else { 0 };
        let segment = Segment::new(memory, kept);
        let word = match word {
            AnsweredWord::Shared(token) => match self.map_word(to, token)? {
                Some(word) => Some(word),
                None => return Ok(None),
            },
            AnsweredWord::None | AnsweredWord::Published => None,
        };
        let messages = segment.messages().filter(|_| ways.contains(&Way::Shared));
        if let AnsweredCopies::ToExported(handles) = copied {
            let halos = self.import_halos(to, handles, &segment)?;
            let windows = |halos| PeerWindows { halos: Some(halos), word, messages, ..Default::default() };
            return Ok(halos.map(windows));
        }
        let lent = || LentFields { _owners: self.owners_until_released(&segment), ..LentFields::default() };
        let direct = direct.then(|| segment.window_on_fields(lent())).flatten();
        Ok(Some(PeerWindows { direct, word, messages, kept: segment.kept(), ..Default::default() }))
    }

    /// The word in memory that the receiver shares by `token`; `None` if the device cannot use it.
    fn map_word(&self, to: Neighbour<'_>, token: &[u8]) -> Result<Option<StreamWord>, TransportError> {
        let Some(memory) = to.transport().map(to.peer, token)? else { return Ok(None) };
        match self.device.shared_stream_word(memory) {
            Ok(word) => Ok(Some(word)),
            Err(error) => {
                log::warning(format_args!(
                    "sending fields to rank {} in messages: the device cannot use shared memory: {error}",
                    to.peer
                ));
                Ok(None)
            }
        }
    }
}

/// The cells that come from one neighbour, as it offers them.
#[derive(Clone, Copy)]
struct Offered<'a> {
    from: Neighbour<'a>,
    offer: &'a Offer,
}

impl PartFields {
    /// Chooses the way of each field of an offer, and allocates the memory that it needs.
    pub(super) fn accept(
        &self,
        from: Neighbour<'_>,
        [tag, halo_tag]: [u32; 2],
        &Asked { path, by_program, copied_by, chunk }: &Asked,
        offer: &Offer,
    ) -> Result<Acceptance, TransportError> {
        let (offered, near) = (Offered { from, offer }, from.is_near());
        let path = if self.shares_memory(from.pattern) { path } else { DataPath::Messages };
        let published = from.transport().attach(from.peer, tag)?.filter(|window| self.reaches_all(window));
        let mapped =
            if near { self.map_fields(offered)? } else { self.fields.iter().map(|_| None).collect() };
        let reachable: Vec<bool> = mapped.iter().map(Option::is_some).collect();
        let choose = |near: bool| self.choose(path, offered, published.is_some(), near, &reachable);
        let mut accepted = Acceptance::new(choose(near));
        let between_processes = published.is_none() && accepted.takes(Way::Direct);
        if between_processes || accepted.takes(Way::Shared) {
            let mapped = between_processes.then(|| mapped.into_iter().flatten().collect());
            if !self.share(&mut accepted, offered, copied_by, mapped) {
                accepted.answer.ways = choose(false);
            }
        }
        if let Some(window) = published.filter(|_| accepted.takes(Way::Direct)) {
            self.borrow_published(&mut accepted, offered, halo_tag, copied_by, window)?;
            accepted.answer.left = self.prefers_left(path, offered) && accepted.windows.word.is_none();
        }
        accepted.answer.obstacles = self.obstacles(by_program, offered, &accepted.answer, &reachable);
        self.choose_pieces(from, offer, &mut accepted.answer.ways);
        accepted.chunks = self.set_chunks(from, chunk, offer, &mut accepted.answer.ways);
        Ok(accepted)
    }

    /// Maps the fields for which the neighbour, another process of this node, offers a handle; `None` for the others, and
    /// for those that cannot be reached.
    fn map_fields(
        &self,
        Offered { from, offer }: Offered<'_>,
    ) -> Result<Vec<Option<MappedField>>, TransportError> {
        let fields = self.fields.iter().zip(&offer.fields).enumerate();
        let mapped = fields.map(|(position, ((_, field), offered))| {
            match offered.handle.as_ref().filter(|_| field.storage.is_some()) {
                Some(handle) => self.map_field(from, position, handle),
                None => Ok(None),
            }
        });
        mapped.collect()
    }

    /// The way of each field. `published`: the neighbour, in this process, has a window that this rank reaches; `near`: it
    /// is on this node, and its fields are `reachable`.
    fn choose(
        &self,
        path: DataPath,
        Offered { from, offer }: Offered<'_>,
        published: bool,
        near: bool,
        reachable: &[bool],
    ) -> Vec<Way> {
        let handover = Self::handover(from, offer);
        let packs = near && offer.packs && self.device.info().runs_on_host();
        let in_turns = self.packed_in_turns(path, from);
        let fields = self.fields.iter().zip(&offer.fields).zip(reachable);
        // Not direct to borrowed memory: only `start` and `finish` may touch it, which may come late, and the neighbour
        // would have to wait for them until its field is free.
        let ways = fields.map(|(((_, field), offered), reachable)| {
            if !from.shares_cells_of(field, End::Target) {
                return Way::Message;
            }
            let lent = field.storage.is_some() && offered.published && published;
            let packed = in_turns.is_some_and(|most| offered.load.bytes() <= most) && (packs || !near);
            let direct = !packed && (lent || near && *reachable);
            path.choose(direct, packs, &offered.load, handover)
        });
        ways.collect()
    }

    /// How long lines take that come back from the neighbour, if that counts.
    fn handover(from: Neighbour<'_>, offer: &Offer) -> Handover {
        let time = offer.counts_distance.then(|| from.pattern.comm().handovers().of(from.peer)).flatten();
        let combined = from.pattern.reversal().is_some();
        Handover { time, past_caches: offer.past_caches, combined }
    }

    /// If this rank and a neighbour take turns on the cores with others, and the program asks for no path: the most bytes of a
    /// field that are packed in place of lending it.
    fn packed_in_turns(&self, path: DataPath, neighbour: Neighbour<'_>) -> Option<usize> {
        let info = neighbour.transport().info();
        let takes_turns = path == DataPath::Quickest && self.device.info().runs_on_host() && info.crowded;
        takes_turns.then(|| Load::most_in_turns(info.reach == Reach::Process))
    }

    /// Whether a neighbour in this process had better leave a message in place of the fields that it has published, or the
    /// program asks for it.
    fn prefers_left(&self, path: DataPath, Offered { from, offer }: Offered<'_>) -> bool {
        let load =
            || offer.fields.iter().filter(|field| field.published).map(|field| field.load).sum::<Load>();
        let is_better = || {
            let handover = Self::handover(from, offer);
            handover.time.is_some() && load().is_better_packed(handover)
        };
        self.device.info().runs_on_host() && (path == DataPath::Shared || is_better())
    }

    /// Why each field takes no quicker way than the chosen one.
    fn obstacles(
        &self,
        path: DataPath,
        Offered { from, offer }: Offered<'_>,
        Answer { ways, left, .. }: &Answer,
        reachable: &[bool],
    ) -> Vec<Option<Obstacle>> {
        let threads = from.transport().info().reach == Reach::Process;
        let apart = !threads && !from.is_near();
        let packs = offer.packs && self.device.info().runs_on_host();
        let in_turns = self.packed_in_turns(path, from);
        let shared = offer.shares && self.shares_memory(from.pattern);
        let fields = self.fields.iter().zip(&offer.fields).zip(ways.iter().zip(reachable));
        let obstacles =
            fields.map(|(((_, field), offered), (way, reachable))| match (way.path(*left), path) {
                (DataPath::Direct, _) => None,
                _ if !shared => Some(Obstacle::Accumulated),
                (taken, asked) if taken == asked => Some(Obstacle::Asked),
                _ if apart => Some(Obstacle::Apart),
                (DataPath::Messages, DataPath::Shared) if threads => Some(Obstacle::Threads),
                (DataPath::Shared, _) if *reachable || threads => Some(Obstacle::Quicker),
                (DataPath::Messages, _) if !threads && (packs || *reachable) => Some(Obstacle::Refused),
                (DataPath::Messages, DataPath::Shared) => Some(Obstacle::Device),
                _ => match self.no_direct_copies(field, offered, threads) {
                    Obstacle::Device if in_turns.is_some_and(|most| offered.load.bytes() <= most) => {
                        Some(Obstacle::Quicker)
                    }
                    obstacle => Some(obstacle),
                },
            });
        obstacles.collect()
    }

    /// Shares memory with the neighbour, another process of this node: for messages, and for the windows on fields, if
    /// there are `mapped` ones. Returns `false` if there is no memory to share.
    fn share(
        &self,
        accepted: &mut Acceptance,
        Offered { from, offer }: Offered<'_>,
        copied_by: CopiedBy,
        mapped: Option<Vec<MappedField>>,
    ) -> bool {
        let Acceptance { answer, windows, names, .. } = accepted;
        let bytes = |way: Way| {
            let order = |position: usize| offer.fields[position].order;
            MessageSet::of_way(from.peer, (&answer.ways, way), &self.fields, order, from.targets()).bytes
        };
        let may_keep = mapped.is_some() && offer.packs;
        let kept = if may_keep { Segment::kept_room(bytes(Way::Direct)) } else { 0 };
        let bytes = Segment::bytes_for(bytes(Way::Shared), kept);
        let Some(lease) = from.transport().share(bytes) else { return false };
        let segment = Segment::new(lease.memory, kept);
        windows.messages = segment.messages().filter(|_| answer.ways.contains(&Way::Shared));
        if let Some(mapped) = mapped {
            let name;
            (answer.word, windows.word, name) = self.accept_word(from, offer);
            names.extend(name);
            if windows.word.is_some()
                && self.prefers_sender(copied_by, None)
                && let Some((window, handles)) = self.export_halos(from, &answer.ways, &segment)
            {
                (windows.halos, answer.copied) = (Some(window), AnsweredCopies::ToExported(handles));
            } else {
                windows.direct = window_on(&segment, mapped);
                windows.kept = segment.kept();
            }
        }
        answer.token = Some(lease.token);
        names.push(lease.name);
        true
    }

    /// Borrows fields that the neighbour, in this process, has published in `window`; or lends it the halos, if it is to
    /// copy.
    fn borrow_published(
        &self,
        accepted: &mut Acceptance,
        Offered { from, .. }: Offered<'_>,
        halo_tag: u32,
        copied_by: CopiedBy,
        window: Arc<Window>,
    ) -> Result<(), TransportError> {
        let Acceptance { answer, windows, .. } = accepted;
        windows.word = self.published_word(&window);
        if windows.word.is_some() {
            answer.word = AnsweredWord::Published;
            if self.prefers_sender(copied_by, Some(&window))
                && let Some((halos, word)) = self.publish_halos(from, halo_tag)?
            {
                (windows.halos, windows.word) = (Some(halos), Some(word));
                answer.copied = AnsweredCopies::ToPublished;
                return Ok(());
            }
        }
        windows.direct = Some(window);
        Ok(())
    }

    /// Why a field is not copied straight from the one that is `offered`, although the two ranks share memory.
    fn no_direct_copies(&self, field: &BoundField, offered: &FieldOffer, threads: bool) -> Obstacle {
        if field.anchor.is_some() {
            Obstacle::Passed
        } else if field.storage.is_none() {
            Obstacle::ReceiverMemory
        } else if !offered.published && offered.handle.is_none() && (threads || self.may_reach_others()) {
            Obstacle::SenderMemory
        } else {
            Obstacle::Device
        }
    }

    /// Whether the device may reach memory of other processes.
    fn may_reach_others(&self) -> bool {
        self.device.info().runs_on_host() || self.device.exports_memory()
    }
}
