//! How ranks settle the way of each field.
//!
//! Each part of an exchange goes through three steps with each neighbour: the sender offers, the receiver accepts and makes
//! the memory that the two share, and the sender lends its end of that.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::exported::{Exported, Imported, free_released};
use super::fields::PartFields;
use super::offer::{
    Accepted, Answer, FieldOffer, LentBlock, LentFields, Offer, PartWays, PeerWindows, lent_blocks,
};
use crate::device::MAX_COPY_AXES;
use crate::domain::Orientation;
use crate::exchange::layout::messages::{in_place, packed_bytes};
use crate::exchange::layout::segment::Segment;
use crate::exchange::layout::side::Side;
use crate::exchange::options::{DataPath, Way};
use crate::field::{BoundField, Load};
use crate::pattern::Pattern;
use crate::transport::{Reduction, TransportError, Window};

/// From so many bytes on, a piece that lies in a field without gaps goes in a part of its own of a message. Shorter ones
/// are packed sooner than one more message is sent.
const APART_BYTES: usize = 16 << 10;

/// What was settled about all parts.
#[derive(Default)]
pub(crate) struct Negotiated {
    pub(crate) parts: Vec<PartWays>,
    /// Kept until all ranks have what they need.
    pub(crate) names: Vec<Box<dyn Any + Send + Sync>>,
    /// The most chunks that any message of any rank has; 0 where all go whole.
    pub(crate) chunks: usize,
}

/// Settles with every neighbour how each field gets there. What is staged goes in chunks of at most `chunk` bytes.
pub(crate) fn negotiate(
    pattern: &Pattern,
    parts: &[PartFields],
    tag: u32,
    path: DataPath,
    chunk: usize,
) -> Result<Negotiated, TransportError> {
    free_released();
    let comm = pattern.comm();
    let others = |peer: &&usize| **peer != comm.rank();
    let mut published: BTreeMap<usize, Vec<Option<Arc<Window>>>> = BTreeMap::new();
    let mut offers: Vec<(usize, Vec<Offer>)> = Vec::new();
    for &peer in pattern.sends().keys().filter(others) {
        let made = parts
            .iter()
            .enumerate()
            .map(|(number, part)| part.offer(pattern, peer, tag + number as u32, path))
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
            let (tag, wanted) = (tag + number as u32, (path, chunk));
            let accepted = parts[number].accept(pattern, peer, tag, wanted, &offer)?;
            let Accepted { ways, chunks, windows, token, name } = accepted;
            negotiated.names.extend(name);
            negotiated.chunks = negotiated.chunks.max(chunks);
            answer.push((ways.clone(), token));
            negotiated.parts[number].borrowed.insert(peer, (offer, ways, windows));
        }
        answers.push((peer, answer));
    }
    // The parts for which memory that a neighbour shares with us cannot be mapped here.
    let mut refused: Vec<(usize, Vec<usize>)> = Vec::new();
    for (peer, answers) in comm.sparse_exchange(&answers)? {
        let published = published.remove(&peer).unwrap_or_default();
        let mut unmapped = Vec::new();
        for (number, ((mut ways, token), published)) in answers.into_iter().zip(published).enumerate() {
            let lent = parts[number].lend(pattern, peer, &(ways.clone(), token), published)?;
            let windows = lent.unwrap_or_else(|| {
                unmapped.push(number);
                in_messages(&mut ways)
            });
            negotiated.parts[number].lent.insert(peer, (ways, windows));
        }
        if !unmapped.is_empty() {
            refused.push((peer, unmapped));
        }
    }
    let mut most = [u64::from(!refused.is_empty()), negotiated.chunks as u64];
    if path != DataPath::Messages || chunk < usize::MAX {
        comm.all_reduce(&mut most, Reduction::Max)?;
    }
    let [any_refused, chunks] = most;
    negotiated.chunks = chunks as usize;
    if any_refused > 0 {
        for (peer, unmapped) in comm.sparse_exchange(&refused)? {
            for number in unmapped {
                let borrowed = negotiated.parts.get_mut(number).and_then(|part| part.borrowed.get_mut(&peer));
                if let Some((_, ways, windows)) = borrowed {
                    *windows = in_messages(ways);
                }
            }
        }
    }
    Ok(negotiated)
}

/// Has all fields go in the message, as both ends do where one cannot map what the other shares.
fn in_messages(ways: &mut [Way]) -> PeerWindows {
    ways.fill(Way::Message);
    PeerWindows::default()
}

impl PartFields {
    /// What this rank can send, and the window that it has published.
    pub(crate) fn offer(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        path: DataPath,
    ) -> Result<(Offer, Option<Arc<Window>>), TransportError> {
        let transport = pattern.comm().transport();
        let window = Arc::new(Window::new(self.lent()));
        let direct = matches!(path, DataPath::Quickest | DataPath::Direct);
        let published = direct && transport.publish(peer, tag, &window)?;
        let near = transport.is_near(peer);
        let pieces = pattern.sends().get(&peer).map_or(&[][..], Vec::as_slice);
        let reached = self.reached(pattern);
        let unturned = Orientation::default();
        let lies = |field: &BoundField, order: &[u8; MAX_COPY_AXES]| {
            let mut sources = pieces.iter().map(|piece| (piece.source_domain, &piece.source, unturned));
            reached && sources.all(|cells| in_place(field, cells, order).is_some())
        };
        let fields = self.fields.iter().map(|(_, field)| FieldOffer {
            order: field.memory_order(),
            published: published && field.storage.is_some(),
            place: if near && direct { self.field_place(field, pieces) } else { None },
            in_place: lies(field, &field.memory_order()),
            load: Load::of(pieces, field.blocks.iter().map(|(_, it)| it), field.element),
        });
        let packs = near && self.device.info().runs_on_host();
        let offer = Offer { packs, stages: self.stages(pattern), fields: fields.collect() };
        Ok((offer, published.then_some(window)))
    }

    /// Chooses the way of each field of an offer, and makes what it needs.
    pub(crate) fn accept(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        (path, chunk): (DataPath, usize),
        offer: &Offer,
    ) -> Result<Accepted, TransportError> {
        let transport = pattern.comm().transport();
        let attached = transport.attach(peer, tag)?.filter(|window| self.reaches_all(window));
        let near = transport.is_near(peer);
        let packs = offer.packs && near && self.device.info().runs_on_host();
        let mut mapped = Vec::new();
        let mut reachable = Vec::new();
        for (position, ((_, field), offered)) in self.fields.iter().zip(&offer.fields).enumerate() {
            let place = offered.place.as_ref().filter(|_| near && field.storage.is_some());
            let regions = match place {
                Some(place) => self.map_field(pattern, peer, position, place)?,
                None => None,
            };
            reachable.push(regions.is_some());
            mapped.extend(regions);
        }
        // Memory that somebody lent us is touched by `start` and `finish` alone, which may be late: its neighbours' fields
        // must not wait for that.
        let choose = |near: bool| -> Vec<Way> {
            let fields = self.fields.iter().zip(&offer.fields).zip(&reachable);
            let ways = fields.map(|(((_, field), offered), reachable)| {
                let here = field.storage.is_some() && offered.published && attached.is_some();
                path.choose(here || near && *reachable, near && packs, &offered.load)
            });
            ways.collect()
        };
        let mut ways = choose(near);
        let mut windows = PeerWindows::default();
        let (mut token, mut name) = (None, None);
        let between_processes = attached.is_none() && ways.contains(&Way::Direct);
        if between_processes || ways.contains(&Way::Shared) {
            let orders: Vec<_> = offer.fields.iter().map(|field| field.order).collect();
            let message = packed_bytes(&self.fields, pattern, peer, &orders, &ways);
            match transport.share(Segment::bytes_for(message)) {
                Some(lease) => {
                    let segment = Segment::new(lease.memory);
                    windows.slots = segment.slots().filter(|_| ways.contains(&Way::Shared));
                    if between_processes {
                        let (blocks, owners): (Vec<_>, Vec<_>) = mapped.into_iter().unzip();
                        let (memory, at) = segment.direct();
                        let direct = segment.release_flag().and_then(|flag| {
                            let blocks = blocks.into_iter().flatten().collect();
                            let owners = vec![Arc::new(Imported::new(owners, flag)) as _];
                            Window::between_processes(memory, at, LentFields { blocks, _owners: owners })
                        });
                        windows.direct = direct.map(Arc::new);
                    }
                    (token, name) = (Some(lease.token), Some(lease.name));
                }
                None => ways = choose(false),
            }
        }
        if !between_processes && ways.contains(&Way::Direct) {
            windows.direct = attached;
        }
        self.set_apart(pattern, peer, offer, &mut ways);
        let chunks = self.set_chunks(pattern, peer, chunk, offer, &mut ways);
        Ok(Accepted { ways, chunks, windows, token, name })
    }

    /// Of the fields that go in messages, has those do so piece by piece that lie without gaps at one end: where pieces are
    /// large, or there is but one.
    fn set_apart(&self, pattern: &Pattern, peer: usize, offer: &Offer, ways: &mut [Way]) {
        let pieces = pattern.receives().get(&peer).map_or(&[][..], Vec::as_slice);
        let reached = self.reached(pattern);
        let single = pieces.len() == 1 && ways.iter().filter(|way| **way == Way::Message).count() == 1;
        let fields = self.fields.iter().zip(&offer.fields).zip(ways);
        for (((_, field), offered), way) in fields.filter(|(_, way)| **way == Way::Message) {
            let mut targets =
                pieces.iter().map(|piece| (piece.target_domain, &piece.target, piece.orientation));
            let lies = offered.in_place
                || reached && targets.clone().all(|cells| in_place(field, cells, &offered.order).is_some());
            let large = targets.all(|(domain, cells, _)| {
                let elements = Side::of_field(field, domain, cells).elements();
                elements * field.element.bytes() >= APART_BYTES
            });
            if lies && (single || large) {
                *way = Way::Apart;
            }
        }
    }

    /// Whether messages can lie in fields of this device.
    fn reached(&self, pattern: &Pattern) -> bool {
        self.device.info().host_accessible || pattern.comm().info().device_memory
    }

    /// The windows on what the receiver has made for us, which it finds by the token of its answer; `None` where it
    /// cannot be mapped.
    pub(crate) fn lend(
        &self,
        pattern: &Pattern,
        peer: usize,
        (ways, token): &Answer,
        published: Option<Arc<Window>>,
    ) -> Result<Option<PeerWindows>, TransportError> {
        let direct = ways.contains(&Way::Direct);
        let Some(token) = token else {
            return Ok(Some(PeerWindows { direct: published.filter(|_| direct), slots: None }));
        };
        let Some(memory) = pattern.comm().transport().map(peer, token)? else { return Ok(None) };
        let segment = Segment::new(memory);
        let (memory, at) = segment.direct();
        let owners = || match segment.release_flag() {
            Some(flag) if !self.device.info().runs_on_host() => {
                vec![Arc::new(Exported::new(self.owners(), flag)) as _]
            }
            // Memory that processes share stays as long as one of them has it.
            _ => self.owners(),
        };
        let lent = || LentFields { blocks: Vec::new(), _owners: owners() };
        let direct = direct.then(|| Window::between_processes(memory, at, lent()));
        let slots = segment.slots().filter(|_| ways.contains(&Way::Shared));
        Ok(Some(PeerWindows { direct: direct.flatten().map(Arc::new), slots }))
    }

    /// Whether the device reaches all that a neighbour in this process lends.
    fn reaches_all(&self, window: &Window) -> bool {
        lent_blocks(window).iter().all(|block| match self.device.reaches(block.device) {
            Ok(reaches) => reaches,
            Err(error) => {
                tracing::warn!(%error, "fields of {} come in messages", block.device);
                false
            }
        })
    }

    /// All fields that may be lent.
    fn lent(&self) -> LentFields {
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
        LentFields { blocks, _owners: self.owners() }
    }

    /// What owns the memory of the fields.
    fn owners(&self) -> Vec<Arc<dyn Any + Send + Sync>> {
        self.fields
            .iter()
            .filter_map(|(_, field)| field.storage.clone())
            .map(|storage| storage as _)
            .collect()
    }
}
