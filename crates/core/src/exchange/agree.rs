//! What ranks agree on when a pattern is bound to fields.
//!
//! They agree that they bind the same fields. Then each field of a part travels to a neighbour in one of three ways:
//! the sender offers, the receiver chooses.
//! - Where the receiver can reach the sender's field, as a thread of the same process or in memory that processes of a node
//!   share, it copies straight from the field. Both must own their fields.
//! - Where they are processes that share memory, the sender packs into it, and the neighbour unpacks from it.
//! - Otherwise the cells travel in the one message of that part to that neighbour, in one part or, where they lie in a field
//!   as they would lie there, in parts that are sent from the field itself. A large one that both ends stage in memory of the
//!   host goes in chunks.

use std::slice;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bound::Bound;
use super::choice::Candidate;
use super::cost::quicker_order;
use super::fields::PartBuilder;
use super::fits::{FieldSignature, difference};
use super::flight::Flight;
use super::options::DEFAULT_STAGING_CHUNK;
use super::part::Part;
use super::settle::{Settlement, settle};
use super::staged::StagedPart;
use super::traced::{ExchangeTrace, Waits};
use super::{BindError, BindOptions, DataPath, HaloOrder, Trial};
use crate::domain::MAX_AXES;
use crate::field::Storage;
use crate::pattern::Pattern;
use crate::transport::Reduction;

/// The most devices of one exchange: each bound way takes as many tags, whatever it is bound to, so that ranks stay in step.
const MOST_PARTS: usize = 16;

/// What all ranks must agree on.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Terms {
    path: DataPath,
    order: HaloOrder,
    chunk: usize,
    trial: Option<Trial>,
    fields: Vec<Vec<FieldSignature>>,
}

/// What the ways to do an exchange have in common, agreed on by all ranks.
pub(super) struct Agreement {
    pub(super) pattern: Pattern,
    pub(super) builders: Vec<Box<dyn PartBuilder>>,
    /// The most bytes of a message that is staged.
    chunk: usize,
    /// The patterns that fill the halos axis by axis, where that is possible and may be taken.
    steps: Option<Vec<Pattern>>,
    /// Whether halos may be filled in either order.
    pub(super) leaves_order_open: bool,
    /// What the model takes.
    pub(super) model: Candidate,
    /// Whether it must be told from others.
    pub(super) is_known_again: bool,
}

/// Collective: agrees on what is bound, and how it may be done. Fails with the reason for which a rank has `refused`.
pub(super) fn agree(
    pattern: &Pattern,
    builders: Vec<Box<dyn PartBuilder>>,
    options: &BindOptions,
    refused: Option<String>,
) -> Result<Agreement, BindError> {
    let comm = pattern.comm();
    let BindOptions { path, order, trial, .. } = *options;
    let chunk = options.staging_chunk.unwrap_or(DEFAULT_STAGING_CHUNK);

    let fields: Vec<_> = builders.iter().map(|part| part.signature()).collect();
    let mine = Terms { path, order, chunk, trial, fields };
    let mine = (mine, !options.kept.is_empty());
    let (first, keeps): (Terms, bool) = comm.broadcast(0, &mine)?;
    let complaint = refused
        .or_else(|| disagreement(&mine.0, &first))
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
        HaloOrder::AxisByAxis | HaloOrder::Quickest => {
            pattern.axis_by_axis(builders.iter().all(|part| part.goes_on_alone()))?
        }
    };
    let leaves_order_open = steps.is_some() && order == HaloOrder::Quickest;
    let order = match (&steps, order) {
        (None, _) => HaloOrder::AllNeighbours,
        (Some(steps), HaloOrder::Quickest) => quicker_order(steps)?,
        (Some(_), order) => order,
    };
    let model = Candidate { path, order };
    let is_known_again = trial.is_some() || keeps;
    Ok(Agreement {
        pattern: pattern.clone(),
        builders,
        chunk,
        steps,
        leaves_order_open,
        model,
        is_known_again,
    })
}

impl Agreement {
    /// The memory of the fields, where it is not merely lent.
    pub(super) fn storages(&self) -> Vec<Arc<Storage>> {
        self.builders.iter().flat_map(|part| part.storages()).collect()
    }

    /// Collective: settles ways, lays out messages, and binds all copies of a candidate.
    pub(super) fn bind(&self, candidate: Candidate) -> Result<Bound, BindError> {
        let Agreement { pattern, builders, steps, .. } = self;
        let comm = pattern.comm();
        let tag = comm.take_tags((MAX_AXES * MOST_PARTS) as u32);
        let at_once = slice::from_ref(pattern);
        let steps = steps.as_deref().filter(|_| candidate.order == HaloOrder::AxisByAxis).unwrap_or(at_once);

        let trace = ExchangeTrace::next(comm.trace());
        let mut stages: Vec<Vec<Box<dyn Part>>> = builders.iter().map(|_| Vec::new()).collect();
        let mut failed = None;
        let mut kept = Vec::new();
        for (step, pattern) in steps.iter().enumerate() {
            let tag = tag + (step * MOST_PARTS) as u32;
            let Settlement { parts, names, chunks } =
                settle(pattern, builders, tag, candidate.path, self.chunk)?;
            kept.extend(names);
            let later_chunks = chunks.saturating_sub(1);
            let chunk_tag = comm.take_tags((later_chunks * builders.len()) as u32);
            for (number, (builder, mut settled)) in builders.iter().zip(parts).enumerate() {
                settled.chunk_tag = chunk_tag + (later_chunks * number) as u32;
                if failed.is_none() {
                    match builder.build(pattern, tag + number as u32, settled, trace.as_ref()) {
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
        let flight = Arc::new(Flight::new(parts.collect(), self.storages()));
        Ok(Bound { pattern: pattern.clone(), flight, waits: Waits::new(trace) })
    }
}

pub(super) fn refuse(agreed: Result<(), String>) -> Result<(), BindError> {
    agreed.map_err(BindError::Refused)
}

fn disagreement(mine: &Terms, first: &Terms) -> Option<String> {
    if mine == first {
        return None;
    }
    if mine.path != first.path {
        return Some(format!("the option `path` is {:?}, that of rank 0 {:?}", mine.path, first.path));
    }
    if mine.order != first.order {
        return Some(format!("the option `order` is {:?}, that of rank 0 {:?}", mine.order, first.order));
    }
    if mine.chunk != first.chunk {
        let (here, there) = (mine.chunk, first.chunk);
        return Some(format!("the option `staging_chunk` is {here} bytes, that of rank 0 {there} bytes"));
    }
    if mine.trial != first.trial {
        return Some(format!("the option `trial` is {:?}, that of rank 0 {:?}", mine.trial, first.trial));
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
    Some(format!("the fields are {} here and {} on rank 0", show(&mine.fields), show(&first.fields)))
}
