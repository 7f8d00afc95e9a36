//! What ranks settle when a pattern is bound to fields.
//!
//! They agree that they bind the same fields. Then each field of a part travels to a neighbour in one of three ways:
//! the sender offers, the receiver chooses.
//! - Where the two are threads of one process and both own their fields, the neighbour copies straight from the field.
//! - Where they are processes that share memory, the sender packs into it, and the neighbour unpacks from it.
//! - Otherwise the cells travel in the one message of that part to that neighbour.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::BindError;
use super::bind::{bind, packed_bytes};
use super::part::Part;
use crate::device::{Device, DeviceError, MAX_COPY_AXES};
use crate::domain::MAX_AXES;
use crate::element::ElementType;
use crate::field::{BlockLayout, BoundField, Storage, VectorAxes};
use crate::pattern::Pattern;
use crate::transport::{Reduction, STATE_BYTES, TransportError, Window, WindowRegion};

/// The most devices of one exchange: each bind takes as many tags, whatever it is bound to, so that ranks stay in step
/// even where they disagree.
const MOST_PARTS: usize = 16;

/// The fields of one device, before they are bound.
pub(crate) struct PartFields<D: Device> {
    pub(crate) device: D,
    /// Each with its number within the exchange.
    pub(crate) fields: Vec<(usize, BoundField)>,
}

/// What all ranks must agree on about one field: its number, its element type and its vectors.
type FieldSignature = (usize, ElementType, VectorAxes);

/// The number of entries of a [`FieldShape`].
const SHAPE_ENTRIES: usize = 2 * MAX_AXES;

/// What else all ranks must agree on about a field: its components, its axes, and along each axis beside that of
/// unstructured cells how many levels are exchanged, from which one on.
type FieldShape = [u64; SHAPE_ENTRIES];

/// The first entry in which two shapes differ, in words.
fn difference(here: &FieldShape, there: &FieldShape) -> Option<String> {
    let entry = (0..SHAPE_ENTRIES).find(|&entry| here[entry] != there[entry])?;
    let (here, there) = (here[entry] as i64, there[entry] as i64);
    Some(match (entry, entry / 2) {
        (0, _) => format!("{here} components here and {there}"),
        (1, _) => format!("{here} axes here and {there}"),
        (_, axis) if entry % 2 == 0 => format!("{here} exchanged levels along axis {axis} here and {there}"),
        (_, axis) => {
            format!("the exchanged levels along axis {axis} from {here} on here and from {there} on")
        }
    })
}

/// How the sender is ready to send the fields of one part to one neighbour.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// The device, as text.
    device: String,
    /// For each field of the part: the axes from the slowest to the fastest in the sender's memory, and whether the
    /// neighbour may copy straight from it.
    pub(super) fields: Vec<([u8; MAX_COPY_AXES], bool)>,
    /// By what the neighbour finds the shared memory for a message, where there is some.
    shared: Option<Vec<u8>>,
}

/// How the cells of one field get to one neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    /// In the message.
    Message,
    /// Packed into shared memory, and unpacked from it.
    Shared,
    /// Copied straight from the field.
    Direct,
}

/// The windows between two ranks for one part.
#[derive(Debug, Clone, Default)]
pub(crate) struct Windows {
    /// On the fields.
    pub(super) direct: Option<Arc<Window>>,
    /// On a message in shared memory.
    pub(super) shared: Option<Arc<Window>>,
}

/// What a rank holds out to a neighbour, until that has chosen.
pub(crate) struct HeldOut {
    windows: Windows,
    /// The shared memory has a name as long as this is kept.
    _name: Option<Box<dyn Any + Send>>,
}

/// What was settled with the neighbours about one part.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// For each rank that we send to: the way of each field, and the windows that it needs.
    pub(super) lent: BTreeMap<usize, (Vec<Way>, Windows)>,
    /// For each rank that sends to us: its offer, the way of each field, and the windows that we need.
    pub(super) borrowed: BTreeMap<usize, (Offer, Vec<Way>, Windows)>,
}

impl Windows {
    /// Those that the ways need.
    fn needed(&self, ways: &[Way]) -> Windows {
        Windows {
            direct: self.direct.clone().filter(|_| ways.contains(&Way::Direct)),
            shared: self.shared.clone().filter(|_| ways.contains(&Way::Shared)),
        }
    }
}

/// The fields of one device, before they are bound, whatever the device.
pub(crate) trait PartBuilder: Any {
    fn signature(&self) -> Vec<FieldSignature>;
    /// The number and the shape of each field; `None` on a rank that has no block of it.
    fn shapes(&self, pattern: &Pattern) -> Vec<(usize, Option<FieldShape>)>;
    fn storages(&self) -> Vec<Arc<Storage>>;
    /// What does not fit the pattern, in words.
    fn misfit(&self, pattern: &Pattern) -> Option<String>;
    fn offer(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        direct: bool,
    ) -> Result<(Offer, HeldOut), TransportError>;
    /// Finds the windows of an offer, and chooses the way of each field.
    fn accept(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        direct: bool,
        offer: &Offer,
    ) -> Result<(Vec<Way>, Windows), TransportError>;
    fn build(
        self: Box<Self>,
        pattern: &Pattern,
        tag: u32,
        settled: Settled,
    ) -> Result<Box<dyn Part>, BuildError>;
}

/// Why this rank could not build a part.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Transport(#[from] TransportError),
}

type Plan = (Vec<Box<dyn Part>>, Vec<Arc<Storage>>);

/// Collective: plans an exchange of the fields in `builders`.
pub(crate) fn plan(
    pattern: &Pattern,
    builders: Vec<Box<dyn PartBuilder>>,
    direct: bool,
) -> Result<Plan, BindError> {
    let comm = pattern.comm();
    let refuse = |agreed: Result<(), String>| agreed.map_err(BindError::Refused);

    let tag = comm.take_tags(MOST_PARTS as u32);
    let signature: Vec<_> = builders.iter().map(|part| part.signature()).collect();
    let mine = (tag, direct, signature);
    let first: (u32, bool, Vec<Vec<FieldSignature>>) = comm.broadcast(0, &mine)?;
    let complaint = disagreement(&mine, &first)
        .or_else(|| {
            let found = builders.len();
            (found > MOST_PARTS)
                .then(|| format!("the fields are on {found} devices, expected at most {MOST_PARTS}"))
        })
        .or_else(|| builders.iter().find_map(|part| part.misfit(pattern)));
    refuse(comm.agree(complaint)?)?;

    // A rank without blocks knows no shape and agrees with any.
    let known: Vec<_> = builders.iter().flat_map(|part| part.shapes(pattern)).collect();
    let mut largest: Vec<u64> = known.iter().flat_map(|(_, shape)| shape.unwrap_or_default()).collect();
    comm.all_reduce(&mut largest, Reduction::Max)?;
    let complaint = known.iter().zip(largest.as_chunks().0).find_map(|((number, known), largest)| {
        let difference = difference(known.as_ref()?, largest)?;
        Some(format!("field {number} has {difference} on another rank"))
    });
    refuse(comm.agree(complaint)?)?;

    let settled = settle(pattern, &builders, tag, direct)?;
    let storages = builders.iter().flat_map(|part| part.storages()).collect();
    let mut parts = Vec::with_capacity(builders.len());
    let mut failed = None;
    for (number, (builder, settled)) in builders.into_iter().zip(settled).enumerate() {
        match builder.build(pattern, tag + number as u32, settled) {
            Ok(part) => parts.push(part),
            Err(error) => failed = failed.or(Some(error.to_string())),
        }
    }
    let agreed = comm.agree(failed);
    if !matches!(agreed, Ok(Ok(()))) {
        parts.iter_mut().for_each(|part| part.abandon(&**comm.transport()));
    }
    refuse(agreed?)?;
    Ok((parts, storages))
}

fn disagreement(
    mine: &(u32, bool, Vec<Vec<FieldSignature>>),
    first: &(u32, bool, Vec<Vec<FieldSignature>>),
) -> Option<String> {
    if mine == first {
        return None;
    }
    if mine.0 != first.0 {
        return Some(
            "exchanges were bound in another order, or another number of times, than on rank 0".into(),
        );
    }
    if mine.1 != first.1 {
        return Some("the option `direct` is not that of rank 0".into());
    }
    let show = |parts: &Vec<Vec<FieldSignature>>| {
        let mut fields: Vec<(usize, String)> = parts
            .iter()
            .enumerate()
            .flat_map(|(part, fields)| {
                fields.iter().map(move |(number, element, vector)| {
                    (*number, format!("{element}{vector} (device {part})"))
                })
            })
            .collect();
        fields.sort();
        let fields: Vec<String> = fields.into_iter().map(|(_, text)| text).collect();
        format!("[{}]", fields.join(", "))
    };
    Some(format!("the fields are {} here and {} on rank 0", show(&mine.2), show(&first.2)))
}

/// Settles with every neighbour which fields it copies itself.
fn settle(
    pattern: &Pattern,
    builders: &[Box<dyn PartBuilder>],
    tag: u32,
    direct: bool,
) -> Result<Vec<Settled>, TransportError> {
    let comm = pattern.comm();
    let others = |peer: &&usize| **peer != comm.rank();
    let mut held_out: BTreeMap<usize, Vec<HeldOut>> = BTreeMap::new();
    let mut offers: Vec<(usize, Vec<Offer>)> = Vec::new();
    for &peer in pattern.sends().keys().filter(others) {
        let made = builders
            .iter()
            .enumerate()
            .map(|(number, part)| part.offer(pattern, peer, tag + number as u32, direct))
            .collect::<Result<Vec<_>, _>>()?;
        let (to_send, lent) = made.into_iter().unzip();
        offers.push((peer, to_send));
        held_out.insert(peer, lent);
    }
    let mut settled: Vec<Settled> = builders.iter().map(|_| Settled::default()).collect();
    let mut answers: Vec<(usize, Vec<Vec<Way>>)> = Vec::new();
    for (peer, offers) in comm.sparse_exchange(&offers)? {
        let mut chosen = Vec::with_capacity(offers.len());
        for (number, offer) in offers.into_iter().enumerate() {
            let (ways, windows) =
                builders[number].accept(pattern, peer, tag + number as u32, direct, &offer)?;
            chosen.push(ways.clone());
            settled[number].borrowed.insert(peer, (offer, ways, windows));
        }
        answers.push((peer, chosen));
    }
    for (peer, chosen) in comm.sparse_exchange(&answers)? {
        let held_out = held_out.remove(&peer).unwrap_or_default();
        for (number, (ways, held_out)) in chosen.into_iter().zip(held_out).enumerate() {
            let windows = held_out.windows.needed(&ways);
            settled[number].lent.insert(peer, (ways, windows));
        }
    }
    Ok(settled)
}

impl<D: Device> PartBuilder for PartFields<D> {
    fn signature(&self) -> Vec<FieldSignature> {
        self.fields.iter().map(|(number, field)| (*number, field.element, field.vector.clone())).collect()
    }

    fn shapes(&self, pattern: &Pattern) -> Vec<(usize, Option<FieldShape>)> {
        let first = |field: &BoundField| field.blocks.first().map(|(_, layout)| shape(pattern, layout));
        self.fields.iter().map(|(number, field)| (*number, first(field))).collect()
    }

    fn storages(&self) -> Vec<Arc<Storage>> {
        self.fields.iter().filter_map(|(_, field)| field.storage.clone()).collect()
    }

    fn misfit(&self, pattern: &Pattern) -> Option<String> {
        self.fields.iter().find_map(|(number, field)| misfit(pattern, *number, field))
    }

    fn offer(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        direct: bool,
    ) -> Result<(Offer, HeldOut), TransportError> {
        let transport = pattern.comm().transport();
        let mut regions = Vec::new();
        let mut keep: Vec<Arc<dyn Any + Send + Sync>> = Vec::new();
        for (position, (_, field)) in self.fields.iter().enumerate() {
            let Some(storage) = &field.storage else { continue };
            keep.push(Arc::clone(storage) as _);
            regions.extend(field.blocks.iter().enumerate().map(|(domain, (pointer, layout))| WindowRegion {
                field: position,
                domain,
                device: self.device.id(),
                pointer: *pointer,
                layout: layout.clone(),
            }));
        }
        let window = Arc::new(Window::new(regions, keep));
        let lent = direct && transport.publish(peer, tag, &window)?;
        let fields =
            self.fields.iter().map(|(_, field)| (field.memory_order(), lent && field.storage.is_some()));
        let fields = fields.collect();
        let lease = if direct && self.packs_on_host() {
            transport.share(peer, STATE_BYTES + packed_bytes(&self.fields, pattern, peer))?
        } else {
            None
        };
        let (memory, shared, name) =
            lease.map_or((None, None, None), |it| (Some(it.memory), Some(it.token), Some(it.name)));
        let windows = Windows {
            direct: lent.then_some(window),
            shared: memory.and_then(Window::on_message).map(Arc::new),
        };
        let offer = Offer { device: self.device.id().to_string(), fields, shared };
        Ok((offer, HeldOut { windows, _name: name }))
    }

    fn accept(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        direct: bool,
        offer: &Offer,
    ) -> Result<(Vec<Way>, Windows), TransportError> {
        let transport = pattern.comm().transport();
        let reachable = direct && offer.device == self.device.id().to_string();
        let shared = match &offer.shared {
            Some(token) if direct && self.packs_on_host() => transport.map(peer, token)?,
            _ => None,
        };
        let windows = Windows {
            direct: transport.attach(peer, tag)?.filter(|_| reachable),
            shared: shared.and_then(Window::on_message).map(Arc::new),
        };
        let fields = self.fields.iter().zip(&offer.fields);
        // Memory that somebody lent us is touched by `start` and `finish` alone: it takes its cells from the message.
        let ways: Vec<Way> = fields
            .map(|((_, field), (_, offered))| match field.storage {
                Some(_) if *offered && windows.direct.is_some() => Way::Direct,
                Some(_) if windows.shared.is_some() => Way::Shared,
                _ => Way::Message,
            })
            .collect();
        let windows = windows.needed(&ways);
        Ok((ways, windows))
    }

    fn build(
        self: Box<Self>,
        pattern: &Pattern,
        tag: u32,
        settled: Settled,
    ) -> Result<Box<dyn Part>, BuildError> {
        bind(*self, pattern, tag, settled)
    }
}

impl<D: Device> PartFields<D> {
    /// Whether copies read and write any host memory, and are done when a call returns.
    fn packs_on_host(&self) -> bool {
        self.device.info().host_accessible && !self.device.info().asynchronous
    }
}

/// The shape of a field. Of the axes of a grid, the pattern has seen to it that all agree.
fn shape(pattern: &Pattern, layout: &BlockLayout) -> FieldShape {
    let mut shape = FieldShape::default();
    shape[0] = layout.components() as u64;
    shape[1] = layout.owned().axes() as u64;
    if pattern.grid().is_none() {
        for axis in 1..MAX_AXES {
            shape[2 * axis] = layout.owned().extent(axis) as u64;
            shape[2 * axis + 1] = layout.owned().bounds(axis).0 as u64;
        }
    }
    shape
}

/// Checks that a field has a block for each domain, with the cells that the domain owns and those of its halo.
fn misfit(pattern: &Pattern, number: usize, field: &BoundField) -> Option<String> {
    let domains = pattern.domain_count();
    if field.blocks.len() != domains {
        let found = field.blocks.len();
        return Some(format!(
            "field {number} has {found} blocks, expected one for each of the {domains} domains"
        ));
    }
    if let Some(misfit) = pattern.grid().and_then(|grid| field.vector.misfit(grid)) {
        return Some(format!("field {number} has {misfit}"));
    }
    field.blocks.iter().enumerate().find_map(|(domain, (pointer, layout))| {
        let owned = layout.owned();
        if let Some(expected) = pattern.boxes().get(domain).filter(|expected| !expected.is_empty())
            && owned != *expected
        {
            return Some(format!("field {number} has the cells {owned} as domain {domain}, expected {expected}"));
        }
        if let Some(set) = pattern.index_sets().get(domain)
            && owned.bounds(0) != (0, set.len() as i64)
        {
            let (lower, upper) = owned.bounds(0);
            let cells = set.len();
            return Some(format!(
                "field {number} has the cells {lower}..{upper} as domain {domain}, expected its 0..{cells}, halo included"
            ));
        }
        if let Some((_, first)) = field.blocks.first()
            && let Some(difference) = difference(&shape(pattern, layout), &shape(pattern, first))
        {
            return Some(format!("field {number}, domain {domain}: it has {difference} in domain 0"));
        }
        if !layout.allocated().is_empty() && pointer.as_ptr().addr() % field.alignment != 0 {
            let alignment = field.alignment;
            return Some(format!("field {number} is not aligned to {alignment} bytes, as its elements are"));
        }
        let mut targets = pattern.receives().values().flatten().filter(|piece| piece.target_domain == domain);
        let allocated = layout.allocated();
        let missing = targets.find_map(|piece| piece.target.as_box().filter(|cells| !allocated.encloses(cells)));
        missing.map(|cells| {
            format!(
                "field {number} has memory for the cells {allocated} of domain {domain}, expected also the halo cells {cells}"
            )
        })
    })
}
