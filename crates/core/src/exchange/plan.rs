//! What ranks agree on when a pattern is bound to fields.
//!
//! They agree that they bind the same fields. Then each field of a part travels to a neighbour in one of three ways:
//! the sender offers, the receiver chooses.
//! - Where the receiver can reach the sender's field, as a thread of the same process or in memory that processes of a node
//!   share, it copies straight from the field. Both must own their fields.
//! - Where they are processes that share memory, the sender packs into it, and the neighbour unpacks from it.
//! - Otherwise the cells travel in the one message of that part to that neighbour.

use std::any::Any;
use std::sync::Arc;

use super::BindError;
use super::bind::bind;
use super::order::HaloOrder;
use super::part::Part;
use super::path::DataPath;
use super::settle::{Accepted, Answer, Offer, Settled, Settlement, Windows, settle};
use super::staged::StagedPart;
use crate::device::{Device, DeviceError};
use crate::domain::MAX_AXES;
use crate::element::ElementType;
use crate::field::{BlockLayout, BoundField, Storage, VectorAxes};
use crate::pattern::Pattern;
use crate::transport::{Reduction, TransportError, Window};

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

/// The fields of one device, before they are bound, whatever the device.
pub(crate) trait PartBuilder: Any {
    fn signature(&self) -> Vec<FieldSignature>;
    /// The number and the shape of each field; `None` on a rank that has no block of it.
    fn shapes(&self, pattern: &Pattern) -> Vec<(usize, Option<FieldShape>)>;
    fn storages(&self) -> Vec<Arc<Storage>>;
    /// Whether an exchange can go from one step to the next whenever it is polled.
    fn goes_on_alone(&self) -> bool;
    /// What does not fit the pattern, in words.
    fn misfit(&self, pattern: &Pattern) -> Option<String>;
    /// See [`PartFields::offer`].
    fn offer(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        path: DataPath,
    ) -> Result<(Offer, Option<Arc<Window>>), TransportError>;
    /// Chooses the way of each field of an offer, and makes what it needs.
    fn accept(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        path: DataPath,
        offer: &Offer,
    ) -> Result<Accepted, TransportError>;
    /// The windows on what the receiver has made for us, which it finds by `token`.
    fn lend(
        &self,
        pattern: &Pattern,
        peer: usize,
        answer: &Answer,
        published: Option<Arc<Window>>,
    ) -> Result<Option<Windows>, TransportError>;
    fn build(&self, pattern: &Pattern, tag: u32, settled: Settled) -> Result<Box<dyn Part>, BuildError>;
}

/// Why this rank could not build a part.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// What all ranks must agree on.
type Terms = (u32, DataPath, HaloOrder, Vec<Vec<FieldSignature>>);

type Plan = (Vec<Box<dyn Part>>, Vec<Arc<Storage>>);

/// Collective: plans an exchange of the fields in `builders`.
pub(crate) fn plan(
    pattern: &Pattern,
    builders: Vec<Box<dyn PartBuilder>>,
    path: DataPath,
    order: HaloOrder,
) -> Result<Plan, BindError> {
    let comm = pattern.comm();
    let refuse = |agreed: Result<(), String>| agreed.map_err(BindError::Refused);

    let tag = comm.take_tags((MAX_AXES * MOST_PARTS) as u32);
    let signature: Vec<_> = builders.iter().map(|part| part.signature()).collect();
    let mine = (tag, path, order, signature);
    let first: Terms = comm.broadcast(0, &mine)?;
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

    let steps = match order {
        HaloOrder::AllNeighbours => None,
        HaloOrder::AxisByAxis => pattern.axis_by_axis(builders.iter().all(|part| part.goes_on_alone()))?,
    };
    let steps = steps.unwrap_or_else(|| vec![pattern.clone()]);

    let storages = builders.iter().flat_map(|part| part.storages()).collect();
    let mut stages: Vec<Vec<Box<dyn Part>>> = builders.iter().map(|_| Vec::new()).collect();
    let mut failed = None;
    let mut kept = Vec::new();
    for (step, pattern) in steps.iter().enumerate() {
        let tag = tag + (step * MOST_PARTS) as u32;
        let Settlement { parts, names } = settle(pattern, &builders, tag, path)?;
        kept.extend(names);
        for (number, (builder, settled)) in builders.iter().zip(parts).enumerate() {
            if failed.is_none() {
                match builder.build(pattern, tag + number as u32, settled) {
                    Ok(part) => stages[number].push(part),
                    Err(error) => failed = Some(error.to_string()),
                }
            }
        }
    }
    let agreed = comm.agree(failed);
    if !matches!(agreed, Ok(Ok(()))) {
        stages.iter_mut().flatten().for_each(|part| part.abandon(&**comm.transport()));
    }
    refuse(agreed?)?;
    drop(kept);
    let parts = stages.into_iter().filter_map(|mut stages| {
        if stages.len() > 1 { Some(Box::new(StagedPart::new(stages)) as _) } else { stages.pop() }
    });
    Ok((parts.collect(), storages))
}

fn disagreement(mine: &Terms, first: &Terms) -> Option<String> {
    if mine == first {
        return None;
    }
    if mine.0 != first.0 {
        return Some(
            "exchanges were bound in another order, or another number of times, than on rank 0".into(),
        );
    }
    if mine.1 != first.1 {
        return Some(format!("the option `path` is {:?}, that of rank 0 {:?}", mine.1, first.1));
    }
    if mine.2 != first.2 {
        return Some(format!("the option `order` is {:?}, that of rank 0 {:?}", mine.2, first.2));
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
    Some(format!("the fields are {} here and {} on rank 0", show(&mine.3), show(&first.3)))
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

    fn goes_on_alone(&self) -> bool {
        self.device.info().runs_on_host() && self.fields.iter().all(|(_, field)| field.storage.is_some())
    }

    fn misfit(&self, pattern: &Pattern) -> Option<String> {
        self.fields.iter().find_map(|(number, field)| misfit(pattern, *number, field))
    }

    fn offer(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        path: DataPath,
    ) -> Result<(Offer, Option<Arc<Window>>), TransportError> {
        self.offer(pattern, peer, tag, path)
    }

    fn accept(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        path: DataPath,
        offer: &Offer,
    ) -> Result<Accepted, TransportError> {
        self.accept(pattern, peer, tag, path, offer)
    }

    fn lend(
        &self,
        pattern: &Pattern,
        peer: usize,
        answer: &Answer,
        published: Option<Arc<Window>>,
    ) -> Result<Option<Windows>, TransportError> {
        self.lend(pattern, peer, answer, published)
    }

    fn build(&self, pattern: &Pattern, tag: u32, settled: Settled) -> Result<Box<dyn Part>, BuildError> {
        let fields = PartFields { device: self.device.clone(), fields: self.fields.clone() };
        bind(fields, pattern, tag, settled)
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
