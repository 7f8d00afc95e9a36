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

use super::cost::quicker_order;
use super::fields::PartFields;
use super::fits::{FieldSignature, difference};
use super::negotiate::{Negotiated, negotiate};
use crate::domain::MAX_AXES;
use crate::exchange::options::{BindError, BindOptions, Choice, DEFAULT_STAGING_CHUNK, DataPath, HaloOrder};
use crate::exchange::run::axis_by_axis::StagedPart;
use crate::exchange::run::bound::Bound;
use crate::exchange::run::flight::Flight;
use crate::exchange::run::part::Part;
use crate::exchange::run::trace::{ExchangeTrace, Waits};
use crate::field::Storage;
use crate::pattern::Pattern;
use crate::transport::Reduction;

/// The most devices of one exchange: each bound way takes as many tags, whatever it is bound to, so that ranks stay in step.
const MOST_PARTS: usize = 16;

/// What must be the same on all ranks.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Terms {
    path: DataPath,
    order: HaloOrder,
    chunk: usize,
    fields: Vec<Vec<FieldSignature>>,
}

/// What all ranks have agreed on.
pub(crate) struct Agreement {
    pattern: Pattern,
    parts: Vec<PartFields>,
    /// The most bytes of a message that is staged.
    chunk: usize,
    /// The patterns that fill the halos axis by axis, where that is possible and may be taken.
    steps: Option<Vec<Pattern>>,
    choice: Choice,
}

/// Collective: binds the fields, and says how the exchange is done.
pub(crate) fn bind_fields(
    pattern: &Pattern,
    parts: Vec<PartFields>,
    options: &BindOptions,
) -> Result<(Bound, Choice), BindError> {
    let agreement = agree(pattern, parts, options)?;
    Ok((agreement.bind()?, agreement.choice))
}

/// Collective: agrees on what is bound, and how it is done.
fn agree(pattern: &Pattern, parts: Vec<PartFields>, options: &BindOptions) -> Result<Agreement, BindError> {
    let comm = pattern.comm();
    let BindOptions { path, order, .. } = *options;
    let chunk = options.staging_chunk.unwrap_or(DEFAULT_STAGING_CHUNK);

    let fields: Vec<_> = parts.iter().map(|part| part.signature()).collect();
    let mine = Terms { path, order, chunk, fields };
    let first = comm.broadcast(0, &mine)?;
    let complaint = disagreement(&mine, &first)
        .or_else(|| {
            let found = parts.len();
            (found > MOST_PARTS)
                .then(|| format!("the fields are on {found} devices, expected at most {MOST_PARTS}"))
        })
        .or_else(|| parts.iter().find_map(|part| part.misfit(pattern)));
    refuse(comm.agree(complaint)?)?;

    // A rank without blocks knows no shape and agrees with any.
    let known: Vec<_> = parts.iter().flat_map(|part| part.shapes(pattern)).collect();
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
            pattern.axis_by_axis(parts.iter().all(|part| part.goes_on_alone()))?
        }
    };
    let order = match (&steps, order) {
        (None, _) => HaloOrder::AllNeighbours,
        (Some(steps), HaloOrder::Quickest) => quicker_order(steps)?,
        (Some(_), order) => order,
    };
    Ok(Agreement { pattern: pattern.clone(), parts, chunk, steps, choice: Choice { path, order } })
}

impl Agreement {
    /// The memory of the fields, where it is not merely lent.
    fn storages(&self) -> Vec<Arc<Storage>> {
        self.parts.iter().flat_map(PartFields::storages).collect()
    }

    /// Collective: settles ways, lays out messages, and binds all copies.
    fn bind(&self) -> Result<Bound, BindError> {
        let Agreement { pattern, parts, steps, choice, .. } = self;
        let comm = pattern.comm();
        let tag = comm.take_tags((MAX_AXES * MOST_PARTS) as u32);
        let at_once = slice::from_ref(pattern);
        let steps = steps.as_deref().filter(|_| choice.order == HaloOrder::AxisByAxis).unwrap_or(at_once);

        let trace = ExchangeTrace::next(comm.trace());
        let mut stages: Vec<Vec<Box<dyn Part>>> = parts.iter().map(|_| Vec::new()).collect();
        let mut failed = None;
        let mut kept = Vec::new();
        for (step, pattern) in steps.iter().enumerate() {
            let tag = tag + (step * MOST_PARTS) as u32;
            let Negotiated { parts: ways, names, chunks } =
                negotiate(pattern, parts, tag, choice.path, self.chunk)?;
            kept.extend(names);
            let later_chunks = chunks.saturating_sub(1);
            let chunk_tag = comm.take_tags((later_chunks * parts.len()) as u32);
            for (number, (part, mut ways)) in parts.iter().zip(ways).enumerate() {
                let tag = tag + number as u32;
                ways.chunk_tag = chunk_tag + (later_chunks * number) as u32;
                if failed.is_none() {
                    match part.device.build(&part.fields, pattern, tag, ways, trace.as_ref()) {
                        Ok(built) => stages[number].push(built),
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

fn refuse(agreed: Result<(), String>) -> Result<(), BindError> {
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
