//! The negotiation of the way of each field.
//!
//! It takes three steps for each part of an exchange and each neighbour: the sender makes an offer, the receiver
//! accepts it and allocates the memory that the two share, and the sender maps that memory and lends its windows.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::exchange::cells::packed::{MessageSet, PieceCells, in_place, sources, targets};
use crate::exchange::cells::side::Side;
use crate::exchange::options::{CopiedBy, DataPath, Way};
use crate::exchange::ways::fields::{DeviceMemory, PartFields, WORD_BYTES};
use crate::exchange::ways::memory::exported::{Exported, Imported, free_released};
use crate::exchange::ways::memory::mapping::MappedField;
use crate::exchange::ways::memory::segment::{KeptMessage, Segment};
use crate::exchange::ways::offer::{
    Acceptance, Answer, AnsweredCopies, AnsweredWord, FieldOffer, LentBlock, LentFields, Offer, PartWays,
    PeerWindows, ReceiveWays, SendWays, kept_message, lent_blocks, lent_word,
};
use crate::exchange::ways::stream_messages::join::StreamGroups;
use crate::exchange::ways::words::windows::StreamWord;
use crate::field::{BoundField, End, Load};
use crate::log;
use crate::pattern::Pattern;
use crate::transport::{Lease, Reduction, TransportError, Window};

/// Minimum size in bytes of a piece that is sent or received in place, without packing. Packing a smaller one takes
/// less time than sending one more message.
const MIN_PIECE_BYTES: usize = 16 << 10;

/// What the options ask for.
pub(crate) struct Asked {
    pub(crate) path: DataPath,
    pub(crate) copied_by: CopiedBy,
    /// Maximum size of a staged message in bytes.
    pub(crate) chunk: usize,
}

/// The result of the negotiation about all parts.
#[derive(Default)]
pub(crate) struct Negotiated {
    pub(crate) parts: Vec<PartWays>,
    /// Names of shared memory, to be kept until all ranks have mapped it.
    pub(crate) names: Vec<Box<dyn Any + Send + Sync>>,
    /// The largest number of chunks of any message of any rank; 0 if none is split.
    pub(crate) chunks: usize,
}

/// Collective: negotiates with every neighbour the way of each field. `tags` are those of the first part's windows on
/// fields, and on halos; the tags of the other parts follow. `groups` have streams that exchange messages.
pub(crate) fn negotiate(
    pattern: &Pattern,
    parts: &[PartFields],
    asked: &Asked,
    tags: [u32; 2],
    groups: &StreamGroups,
) -> Result<Negotiated, TransportError> {
    free_released();
    let &Asked { path, chunk, .. } = asked;
    let tags = |number: usize| tags.map(|first| first + number as u32);
    let comm = pattern.comm();
    let others = |peer: &&usize| **peer != comm.rank();
    let mut published: BTreeMap<usize, Vec<Option<Arc<Window>>>> = BTreeMap::new();
    let mut offers: Vec<(usize, Vec<Offer>)> = Vec::new();
    for &peer in pattern.sends().keys().filter(others) {
        let made = parts
            .iter()
            .enumerate()
            .map(|(number, part)| part.offer(pattern, peer, tags(number)[0], path))
            .collect::<Result<Vec<_>, _>>()?;
        let (to_send, windows) = made.into_iter().unzip();
        offers.push((peer, to_send));
        published.insert(peer, windows);
    }
    let mut negotiated = Negotiated::default();
    negotiated.parts.extend(parts.iter().map(|_| PartWays { chunk, ..PartWays::default() }));
    let mut answers: Vec<(usize, Vec<Answer>)> = Vec::new();
    for (peer, offers) in comm.sparse_exchange(&offers)? {
        let mut answer = Vec::with_capacity(offers.len());
        for (number, offer) in offers.into_iter().enumerate() {
            let asked = Asked { path: groups.path_from(number, pattern, peer, path), ..*asked };
            let accepted = parts[number].accept(pattern, peer, tags(number), &asked, &offer)?;
            let Acceptance { answer: part_answer, chunks, windows, names } = accepted;
            negotiated.names.extend(names);
            negotiated.chunks = negotiated.chunks.max(chunks);
            let ways = part_answer.ways.clone();
            answer.push(part_answer);
            negotiated.parts[number].receives.insert(peer, ReceiveWays { offer, ways, windows });
        }
        answers.push((peer, answer));
    }
    // For each neighbour, the parts whose shared memory cannot be mapped here.
    let mut refused: Vec<(usize, Vec<usize>)> = Vec::new();
    for (peer, answers) in comm.sparse_exchange(&answers)? {
        let published = published.remove(&peer).unwrap_or_default();
        let mut unmapped = Vec::new();
        for (number, (answer, published)) in answers.into_iter().zip(published).enumerate() {
            let lent = parts[number].lend(pattern, peer, tags(number)[1], &answer, published)?;
            let mut ways = answer.ways;
            let windows = lent.unwrap_or_else(|| {
                unmapped.push(number);
                in_messages(&mut ways)
            });
            negotiated.parts[number].sends.insert(peer, SendWays { ways, windows });
        }
        if !unmapped.is_empty() {
            refused.push((peer, unmapped));
        }
    }
    let mut largest = [u64::from(!refused.is_empty()), negotiated.chunks as u64];
    if path != DataPath::Messages || chunk < usize::MAX {
        comm.all_reduce(&mut largest, Reduction::Max)?;
    }
    let [any_refused, chunks] = largest;
    negotiated.chunks = chunks as usize;
    if any_refused > 0 {
        for (peer, unmapped) in comm.sparse_exchange(&refused)? {
            for number in unmapped {
                let receive = negotiated.parts.get_mut(number).and_then(|part| part.receives.get_mut(&peer));
                if let Some(ReceiveWays { ways, windows, .. }) = receive {
                    *windows = in_messages(ways);
                }
            }
        }
    }
    Ok(negotiated)
}

/// Sends all fields in the message: both ends do so if the sender cannot map the memory that the receiver shares.
fn in_messages(ways: &mut [Way]) -> PeerWindows {
    ways.fill(Way::Message);
    PeerWindows::default()
}

impl PartFields {
    /// Returns this rank's offer to `peer`, and the window that it has published.
    pub(crate) fn offer(
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
        let has_words = self.device.info().capabilities.stream_words;
        let offer = Offer { packs, is_staged: self.is_staged(pattern), has_words, fields: fields.collect() };
        Ok((offer, published))
    }

    /// Chooses the way of each field of an offer, and allocates the memory that it needs.
    pub(crate) fn accept(
        &self,
        pattern: &Pattern,
        peer: usize,
        [tag, halo_tag]: [u32; 2],
        &Asked { path, copied_by, chunk }: &Asked,
        offer: &Offer,
    ) -> Result<Acceptance, TransportError> {
        let transport = pattern.comm().transport();
        let attached = transport.attach(peer, tag)?.filter(|window| self.reaches_all(window));
        let near = transport.is_near(peer);
        let packs = offer.packs && near && self.device.info().runs_on_host();
        let mut mapped = Vec::new();
        let mut reachable = Vec::new();
        for (position, ((_, field), offered)) in self.fields.iter().zip(&offer.fields).enumerate() {
            let handle = offered.handle.as_ref().filter(|_| near && field.storage.is_some());
            let field = match handle {
                Some(handle) => self.map_field(pattern, peer, position, handle)?,
                None => None,
            };
            reachable.push(field.is_some());
            mapped.extend(field);
        }
        // Not direct to borrowed memory: only `start` and `finish` may touch it, which may come late, and the neighbour
        // would have to wait for them until its field is free.
        let choose = |near: bool| -> Vec<Way> {
            let fields = self.fields.iter().zip(&offer.fields).zip(&reachable);
            let ways = fields.map(|(((_, field), offered), reachable)| {
                let same_process = field.storage.is_some() && offered.published && attached.is_some();
                path.choose(same_process || near && *reachable, near && packs, &offered.load)
            });
            ways.collect()
        };
        let mut ways = choose(near);
        let mut windows = PeerWindows::default();
        let (mut token, mut names) = (None, Vec::new());
        let (mut word, mut copied) = (AnsweredWord::None, AnsweredCopies::ByReceiver);
        let between_processes = attached.is_none() && ways.contains(&Way::Direct);
        if between_processes || ways.contains(&Way::Shared) {
            let bytes = |way: Way| {
                let order = |position: usize| offer.fields[position].order;
                MessageSet::of_way(peer, (&ways, way), &self.fields, order, targets(pattern, peer)).bytes
            };
            let may_keep = between_processes && offer.packs;
            let kept = if may_keep { Segment::kept_room(bytes(Way::Direct)) } else { 0 };
            match transport.share(Segment::bytes_for(bytes(Way::Shared), kept)) {
                Some(lease) => {
                    let segment = Segment::new(lease.memory, kept);
                    windows.messages = segment.messages().filter(|_| ways.contains(&Way::Shared));
                    if between_processes {
                        let name;
                        (word, windows.word, name) = self.accept_word(pattern, offer);
                        names.extend(name);
                        if windows.word.is_some() && self.prefers_sender(copied_by, None) {
                            let exported = self.export_halos(pattern, peer, &ways, &segment);
                            if let Some((window, handles)) = exported {
                                (windows.halos, copied) = (Some(window), AnsweredCopies::ToExported(handles));
                            }
                        }
                    }
                    if between_processes && windows.halos.is_none() {
                        let (blocks, owners): (Vec<_>, Vec<_>) =
                            mapped.into_iter().map(|MappedField { blocks, owner }| (blocks, owner)).unzip();
                        let (memory, offset) = segment.direct();
                        let direct = segment.release_flag().and_then(|flag| {
                            let blocks = blocks.into_iter().flatten().collect();
                            let owners = vec![Arc::new(Imported::new(owners, flag)) as _];
                            let lent = LentFields { blocks, _owners: owners, ..LentFields::default() };
                            Window::between_processes(memory, offset, lent)
                        });
                        windows.direct = direct.map(Arc::new);
                        windows.kept = segment.kept();
                    }
                    token = Some(lease.token);
                    names.push(lease.name);
                }
                None => ways = choose(false),
            }
        }
        if let Some(window) = attached.filter(|_| !between_processes && ways.contains(&Way::Direct)) {
            windows.word = self.published_word(&window);
            if windows.word.is_some() {
                word = AnsweredWord::Published;
                if self.prefers_sender(copied_by, Some(&window))
                    && let Some((halos, word)) = self.publish_halos(pattern, peer, halo_tag)?
                {
                    (windows.halos, windows.word) = (Some(halos), Some(word));
                    copied = AnsweredCopies::ToPublished;
                }
            }
            if windows.halos.is_none() {
                windows.direct = Some(window);
            }
        }
        self.choose_pieces(pattern, peer, offer, &mut ways);
        let chunks = self.set_chunks(pattern, peer, chunk, offer, &mut ways);
        Ok(Acceptance { answer: Answer { ways, token, word, copied }, chunks, windows, names })
    }

    /// The word of a window that a sender in this process lends; `None` if streams of both devices do not write and await
    /// it.
    fn published_word(&self, window: &Window) -> Option<StreamWord> {
        let own = self.device.info();
        let same_backend = || lent_blocks(window).iter().all(|block| block.device.backend == own.id.backend);
        lent_word(window).filter(|_| own.capabilities.stream_words && same_backend()).cloned()
    }

    /// Makes a word in shared memory for a sender in another process, if streams of both devices write and await words.
    /// Also returns the name of its memory.
    fn accept_word(
        &self,
        pattern: &Pattern,
        offer: &Offer,
    ) -> (AnsweredWord, Option<StreamWord>, Option<Box<dyn Any + Send + Sync>>) {
        let have_words = offer.has_words && self.device.info().capabilities.stream_words;
        let lease = have_words.then(|| pattern.comm().transport().share(WORD_BYTES)).flatten();
        let Some(Lease { memory, token, name }) = lease else { return (AnsweredWord::None, None, None) };
        match self.device.shared_stream_word(memory) {
            Ok(word) => (AnsweredWord::Shared(token), Some(word), Some(name)),
            Err(error) => {
                tracing::info!(%error, "hosts hand fields over: no word in shared memory");
                (AnsweredWord::None, None, None)
            }
        }
    }

    /// Chooses [`Way::PieceByPiece`] for fields in messages whose pieces lie without gaps at one end, if the pieces are
    /// large or the message has only one.
    fn choose_pieces(&self, pattern: &Pattern, peer: usize, offer: &Offer, ways: &mut [Way]) {
        let reached = self.reached(pattern);
        let single = targets(pattern, peer).count() == 1
            && ways.iter().filter(|way| **way == Way::Message).count() == 1;
        let fields = self.fields.iter().zip(&offer.fields).zip(ways);
        for (((_, field), offered), way) in fields.filter(|(_, way)| **way == Way::Message) {
            let mut targets = targets(pattern, peer);
            let one_end_in_place = offered.in_place
                || reached && targets.clone().all(|piece| in_place(field, piece, &offered.order).is_some());
            let large = targets.all(|PieceCells { domain, cells, end, .. }| {
                let elements = Side::of_field(field, end, domain, cells).elements();
                elements * field.element.bytes() >= MIN_PIECE_BYTES
            });
            if one_end_in_place && (single || large) {
                *way = Way::PieceByPiece;
            }
        }
    }

    /// Whether the transport can reach fields of this device, so that messages can lie in them.
    fn reached(&self, pattern: &Pattern) -> bool {
        let device = self.device.info();
        device.host_accessible || pattern.comm().info().takes_memory_of(&device.id)
    }

    /// Returns the windows that are lent for an answer. Maps the memory of the answer's token; `None` if it cannot be
    /// mapped.
    pub(crate) fn lend(
        &self,
        pattern: &Pattern,
        peer: usize,
        halo_tag: u32,
        Answer { ways, token, word, copied }: &Answer,
        published: Option<Arc<Window>>,
    ) -> Result<Option<PeerWindows>, TransportError> {
        let direct = ways.contains(&Way::Direct);
        if matches!(copied, AnsweredCopies::ToPublished) {
            let attached = self.attach_halos(pattern, peer, halo_tag)?;
            return Ok(attached.map(|(halos, word)| PeerWindows {
                halos: Some(halos),
                word: Some(word),
                ..PeerWindows::default()
            }));
        }
        let Some(token) = token else {
            let published = published.filter(|_| direct);
            if let Some(window) = &published {
                self.keep_message(pattern, peer, ways, window);
            }
            let by_word = published.as_ref().filter(|_| matches!(word, AnsweredWord::Published));
            let word = by_word.and_then(|window| lent_word(window).cloned());
            let kept = published.as_deref().and_then(kept_message).cloned();
            return Ok(Some(PeerWindows { direct: published, word, kept, ..PeerWindows::default() }));
        };
        let Some(memory) = pattern.comm().transport().map(peer, token)? else { return Ok(None) };
        let may_keep = direct && self.packs(pattern, peer);
        let kept = if may_keep { Segment::kept_room(self.kept_bytes(pattern, peer, ways)) } else { 0 };
        let segment = Segment::new(memory, kept);
        let (memory, offset) = segment.direct();
        let owners = || match segment.release_flag() {
            Some(flag) if !self.device.info().runs_on_host() => {
                vec![Arc::new(Exported::new(self.owners(), flag)) as _]
            }
            // Memory of the host stays valid as long as one of the processes has mapped it.
            _ => self.owners(),
        };
        let word = match word {
            AnsweredWord::Shared(token) => {
                let Some(memory) = pattern.comm().transport().map(peer, token)? else { return Ok(None) };
                match self.device.shared_stream_word(memory) {
                    Ok(word) => Some(word),
                    Err(error) => {
                        log::warning(format_args!(
                            "sending fields to rank {peer} in messages: the device cannot use shared memory: {error}"
                        ));
                        return Ok(None);
                    }
                }
            }
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
        let lent = || LentFields { _owners: owners(), ..LentFields::default() };
        let direct = direct.then(|| Window::between_processes(memory, offset, lent()));
        let direct = direct.flatten().map(Arc::new);
        Ok(Some(PeerWindows { direct, word, messages, kept: segment.kept(), ..PeerWindows::default() }))
    }

    /// Whether this rank can pack into memory that it shares with `peer`, in another process.
    fn packs(&self, pattern: &Pattern, peer: usize) -> bool {
        pattern.comm().transport().is_near(peer) && self.device.info().runs_on_host()
    }

    /// The size of the message in place of the fields that `peer` copies, in bytes.
    fn kept_bytes(&self, pattern: &Pattern, peer: usize, ways: &[Way]) -> usize {
        let order = |position: usize| self.fields[position].1.memory_order();
        MessageSet::of_way(peer, (ways, Way::Direct), &self.fields, order, sources(pattern, peer)).bytes
    }

    /// Allocates the memory for a message in place of the fields that `window` lends to `peer` in this process. On devices
    /// that work asynchronously there is none: a neighbour's progress thread copies from the fields.
    fn keep_message(&self, pattern: &Pattern, peer: usize, ways: &[Way], window: &Window) {
        let Some(lent) = window.lent::<LentFields>().filter(|_| self.device.info().runs_on_host()) else {
            return;
        };
        match self.device.allocate(self.kept_bytes(pattern, peer, ways)) {
            Ok(DeviceMemory { pointer, bytes, owner }) => {
                let _ = lent.kept.set(KeptMessage { pointer, bytes, _owner: owner });
            }
            Err(error) => {
                log::warning(format_args!(
                    "`finish` waits until rank {peer} has copied from our fields: {error}"
                ));
            }
        }
    }

    /// Whether the device reaches all fields that a neighbour in this process lends.
    pub(crate) fn reaches_all(&self, window: &Window) -> bool {
        lent_blocks(window).iter().all(|block| match self.device.reaches(block.device) {
            Ok(reaches) => reaches,
            Err(error) => {
                log::warning(format_args!(
                    "receiving fields of {} in messages: cannot tell if they are reachable: {error}",
                    block.device
                ));
                false
            }
        })
    }

    /// The fields that may be lent: those that own their memory.
    pub(crate) fn lent(&self) -> LentFields {
        let mut blocks = Vec::new();
        for (position, (_, field)) in self.fields.iter().enumerate() {
            if field.storage.is_some() {
                blocks.extend(field.blocks.iter().enumerate().map(|(domain, (pointer, layout))| LentBlock {
                    field: position,
                    domain,
                    device: self.device.info().id,
                    pointer: *pointer,
                    layout: layout.clone(),
                }));
            }
        }
        let word = self.device.stream_word().unwrap_or_else(|error| {
            tracing::info!(%error, "hosts hand fields over: no word for streams");
            None
        });
        LentFields { blocks, word, kept: OnceLock::new(), _owners: self.owners() }
    }

    /// The owners of the memory of the fields.
    pub(crate) fn owners(&self) -> Vec<Arc<dyn Any + Send + Sync>> {
        self.fields
            .iter()
            .filter_map(|(_, field)| field.storage.clone())
            .map(|storage| storage as _)
            .collect()
    }
}
