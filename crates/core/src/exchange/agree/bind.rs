//! Binding a pattern to fields: all ranks agree on the terms, on the order in which halos are filled, and on the outcome.

use std::any::Any;
use std::slice;
use std::sync::Arc;

use super::terms::{MAX_PARTS, Terms, complaint};
use super::{Asked, Negotiated, negotiate};
use crate::comm::Tags;
use crate::domain::MAX_AXES;
use crate::exchange::cells::difference;
use crate::exchange::options::{
    BindError, BindOptions, Choice, CopiedBy, DEFAULT_STAGING_CHUNK, DEFAULT_STAGING_COPY, DataPath,
    HaloOrder, Route, Settled,
};
use crate::exchange::part::Bound;
use crate::exchange::part::flight::Flight;
use crate::exchange::part::host::AxisByAxisPart;
use crate::exchange::ways::stream_messages::join::{StreamGroups, join_groups};
use crate::exchange::ways::{BuildError, PartFields};
use crate::exchange::work::Part;
use crate::exchange::work::trace::{ExchangeTrace, HostWaits};
use crate::pattern::{Pattern, Reversal};
use crate::transport::{Reduction, TransportError};

/// The tags that an exchange takes for its parts in all steps.
const PART_TAGS: u32 = (MAX_AXES * MAX_PARTS) as u32;

/// Maximum number of exchanges of a plan that can be in flight at once.
const MOST_IN_FLIGHT: usize = 64;

/// The result of the agreement.
pub(crate) struct Agreement {
    pattern: Pattern,
    /// The one that the caller has bound: not reversed.
    forward: Pattern,
    parts: Vec<PartFields>,
    /// Maximum size of a staged message in bytes.
    chunk: usize,
    /// The end that copies fields straight. May differ between ranks.
    copied_by: CopiedBy,
    /// Minimum size in bytes of staged messages that are moved by a copy. May differ between ranks.
    moved_from: usize,
    in_flight: usize,
    /// The patterns that fill the halos axis by axis, if that is possible and allowed.
    steps: Option<Vec<Pattern>>,
    choice: Choice,
    /// Whether another path is taken where that of `choice` is not possible.
    or_next: bool,
    groups: StreamGroups,
}

/// Collective: binds the fields of an exchange. Also returns what was settled.
pub(crate) fn bind_fields(
    pattern: &Pattern,
    parts: Vec<PartFields>,
    options: &BindOptions,
) -> Result<(Bound, Settled), BindError> {
    let agreement = agree(pattern, parts, options, 1)?;
    let (bound, routes) = agreement.bind()?;
    Ok((bound, Settled { choice: agreement.choice, routes }))
}

/// Collective: as [`bind_fields`], as often as exchanges of a plan can be in flight.
pub(crate) fn bind_layouts(
    pattern: &Pattern,
    parts: Vec<PartFields>,
    options: &BindOptions,
) -> Result<(Vec<Bound>, Settled), BindError> {
    let agreement = agree(pattern, parts, options, MOST_IN_FLIGHT)?;
    let mut settled = Settled { choice: agreement.choice, routes: Vec::new() };
    let bound = (0..agreement.in_flight).map(|_| {
        let (bound, routes) = agreement.bind()?;
        // The same for all.
        settled.routes = routes;
        Ok(bound)
    });
    Ok((bound.collect::<Result<_, BindError>>()?, settled))
}

/// Collective: checks that all ranks bind the same fields with the same options, and chooses the order.
fn agree(
    pattern: &Pattern,
    mut parts: Vec<PartFields>,
    options: &BindOptions,
    most_in_flight: usize,
) -> Result<Agreement, BindError> {
    for (_, field) in parts.iter_mut().flat_map(|part| &mut part.fields) {
        field.first = pattern.first_in_set(field.pattern);
    }
    let reversal = options.accumulate.map(|combine| Reversal { combine, zero_halo: options.zero_halo });
    let forward = pattern.clone();
    let pattern = &reversal.map_or_else(|| pattern.clone(), |reversal| pattern.reversed(reversal));
    let (comm, in_flight) = (pattern.comm(), options.in_flight.unwrap_or(1));
    let BindOptions { path, or_next, order, copied_by, .. } = *options;
    let chunk = options.staging_chunk.unwrap_or(DEFAULT_STAGING_CHUNK);
    let moved_from = options.staging_copy.unwrap_or(DEFAULT_STAGING_COPY);

    let fields: Vec<_> = parts.iter().map(|part| part.signature()).collect();
    let names = options.element_names.clone();
    let mine = Terms { path, order, chunk, in_flight, fields, names, reversal };
    let first = comm.broadcast(0, &mine)?;
    let straight = matches!(path, DataPath::Quickest | DataPath::Direct);
    let complaint = complaint(&mine, &first, pattern, &parts, options, most_in_flight)
        .or_else(|| parts.iter().filter(|_| straight).find_map(|part| part.share_in_place(pattern)));
    refuse(comm.agree(complaint)?)?;
    let wanted = agree_on_shapes(pattern, &parts, path)?;
    let steps = match order {
        HaloOrder::AllNeighbours => None,
        // Along one axis, cells would arrive that go on along the next.
        _ if reversal.is_some() || pattern.is_redistribution() => None,
        _ => pattern.axis_by_axis(parts.iter().all(|part| part.advances_when_polled()))?,
    };
    let order = match (&steps, order) {
        (None, _) => HaloOrder::AllNeighbours,
        (Some(steps), HaloOrder::Quickest) => quicker_order(steps)?,
        (Some(_), order) => order,
    };
    let choice = Choice { path, order };
    let by_streams = if reversal.is_some() { DataPath::Messages } else { path };
    let groups = join_groups(pattern, &parts, by_streams, &wanted)?;
    let pattern = pattern.clone();
    Ok(Agreement {
        pattern,
        forward,
        parts,
        chunk,
        copied_by,
        moved_from,
        in_flight,
        steps,
        choice,
        or_next,
        groups,
    })
}

/// Collective: checks that fields have the same shape on all ranks. Returns for each part whether any rank wants its streams
/// to exchange messages.
fn agree_on_shapes(pattern: &Pattern, parts: &[PartFields], path: DataPath) -> Result<Vec<bool>, BindError> {
    let comm = pattern.comm();
    // A rank without blocks knows no shape and agrees with all.
    let known: Vec<_> = parts.iter().flat_map(|part| part.shapes(pattern)).collect();
    let mut largest: Vec<u64> = known.iter().flat_map(|(.., shape)| shape.unwrap_or_default()).collect();
    let shapes = largest.len();
    largest.extend(parts.iter().map(|part| u64::from(part.wants_stream_messages(pattern, path))));
    comm.all_reduce(&mut largest, Reduction::Max)?;
    let wanted = largest.drain(shapes..).map(|wants| wants > 0).collect();
    let complaint = known.iter().zip(largest.as_chunks().0).find_map(|((number, of, known), largest)| {
        let difference = difference(pattern.in_set(*of)?, known.as_ref()?, largest)?;
        Some(format!("field {number} has {difference} on another rank; expected the same on every rank"))
    });
    refuse(comm.agree(complaint)?)?;
    Ok(wanted)
}

/// What is bound so far, step by step.
struct Building {
    names: Vec<Box<dyn Any + Send + Sync>>,
    routes: Vec<Route>,
    /// Why the first part could not be built.
    failed: Option<BuildError>,
    /// For each device one part, or one for each axis.
    parts: Vec<Vec<Box<dyn Part>>>,
    trace: Option<ExchangeTrace>,
    /// Dropped last: other exchanges may take them from then on.
    tags: Vec<Tags>,
}

impl Agreement {
    /// Collective: negotiates ways, lays out messages, and binds all copies. Also returns the ways.
    fn bind(&self) -> Result<(Bound, Vec<Route>), BindError> {
        let Agreement { pattern, parts, steps, choice, .. } = self;
        let comm = pattern.comm();
        // One for each part of each step, and as many for the windows on halos, and for ranks that watch each other.
        let tags = comm.take_tags(3 * PART_TAGS)?;
        let tag = tags.first();
        let at_once = slice::from_ref(pattern);
        let steps = steps.as_deref().filter(|_| choice.order == HaloOrder::AxisByAxis).unwrap_or(at_once);
        let mut building = Building {
            names: Vec::new(),
            routes: Vec::new(),
            failed: None,
            parts: parts.iter().map(|_| Vec::new()).collect(),
            trace: ExchangeTrace::next(comm.trace()),
            tags: vec![tags],
        };
        for (step, pattern) in steps.iter().enumerate() {
            self.bind_step(pattern, tag + (step * MAX_PARTS) as u32, &mut building)?;
        }
        // Dropped from the last to the first: the tags after the parts that use them.
        let Building { tags, trace, parts: mut built, failed, names, mut routes } = building;
        let agreed = comm.agree(failed.as_ref().map(BuildError::to_string).or_else(|| self.detour(&routes)));
        if !matches!(agreed, Ok(Ok(()))) {
            built.iter_mut().flatten().for_each(|part| {
                // Nothing was exchanged yet.
                let _ = part.abandon(&**comm.transport());
            });
        }
        match failed {
            Some(BuildError::Device(error)) => return Err(BindError::Device { rank: comm.rank(), error }),
            Some(BuildError::Transport(error)) => return Err(error.into()),
            None => refuse(agreed?)?,
        }
        drop(names);
        // One for each axis if halos are filled axis by axis.
        routes.sort_by_key(|route| (route.from == comm.rank(), route.from, route.to, route.field));
        routes.dedup();
        let parts = built.into_iter().filter_map(|mut axes| {
            if axes.len() > 1 { Some(Box::new(AxisByAxisPart::new(axes)) as _) } else { axes.pop() }
        });
        let storages = self.parts.iter().flat_map(PartFields::storages).collect();
        let flight = Arc::new(Flight::new(comm.transport(), parts.collect(), storages));
        comm.engine().note(&flight);
        let (pattern, patterns) = (self.forward.clone(), self.patterns());
        Ok((Bound { pattern, patterns, flight, waits: HostWaits::new(trace), tags }, routes))
    }

    /// Of a set of patterns, the numbers of the fields, which ascend, each with that of its pattern.
    fn patterns(&self) -> Arc<[(usize, usize)]> {
        if self.pattern.set().is_empty() {
            return Arc::default();
        }
        let fields = self.parts.iter().flat_map(|part| &part.fields);
        let mut all: Vec<(usize, usize)> = fields.map(|(number, field)| (*number, field.pattern)).collect();
        all.sort_unstable();
        all.into()
    }

    /// Collective: binds the parts by one of the patterns. `tag` is that of the first part.
    fn bind_step(&self, pattern: &Pattern, tag: u32, building: &mut Building) -> Result<(), BindError> {
        let Agreement { parts, choice, copied_by, chunk, .. } = self;
        let (path, copied_by, chunk) = (choice.path, *copied_by, *chunk);
        let asked = Asked { path, by_program: path, copied_by, chunk };
        let Negotiated { parts: ways, routes, names, chunks } =
            negotiate(pattern, parts, &asked, [tag, tag + PART_TAGS], &self.groups)?;
        building.names.extend(names);
        building.routes.extend(routes);
        let later_chunks = chunks.saturating_sub(1);
        let chunk_tags = (later_chunks * parts.len()) as u32;
        let mut chunk_tag = tag;
        if chunk_tags > 0 {
            // Few sizes, so that others can use them again.
            let taken = pattern.comm().take_tags(chunk_tags.next_power_of_two())?;
            chunk_tag = taken.first();
            building.tags.push(taken);
        }
        for (number, (part, mut ways)) in parts.iter().zip(ways).enumerate() {
            let tag = tag + number as u32;
            ways.chunk_tag = chunk_tag + (later_chunks * number) as u32;
            ways.moved_from = self.moved_from;
            let group = self.groups.of_parts.get(number).cloned().flatten();
            ways.streams = group.map(|group| (group, tag + 2 * PART_TAGS));
            if building.failed.is_none() {
                match part.device.build(&part.fields, pattern, tag, ways, building.trace.as_ref()) {
                    Ok(part) => building.parts[number].push(part),
                    Err(error) => building.failed = Some(error),
                }
            }
        }
        Ok(())
    }

    /// Describes in words the first field that comes here by another path than the one that is asked for.
    fn detour(&self, routes: &[Route]) -> Option<String> {
        let asked = self.choice.path;
        if self.or_next || asked == DataPath::Quickest {
            return None;
        }
        let rank = self.pattern.comm().rank();
        let detour = routes.iter().find(|route| route.to == rank && route.path != asked)?;
        Some(format!("a field cannot take the path `{asked}`, which is asked for: {detour}"))
    }
}

fn refuse(agreed: Result<(), String>) -> Result<(), BindError> {
    agreed.map_err(BindError::Refused)
}

// Axis by axis, edges and corners need no copies of their own. If ranks are neighbours along one axis only, they wait
// no more often than otherwise, and the exchange took 0.7 to 1.0 times as long: it is chosen if possible. If ranks are
// neighbours along several axes, they would wait for each other once per axis, also for a rank that is late, and
// computations could not hide these waits: halos are filled all at once.
//
// The figures are from the same measurements as those of paths, see `field/packing_cost.rs`.

/// Collective: chooses the order, given the patterns (`steps`) that fill the halos axis by axis.
pub(crate) fn quicker_order(steps: &[Pattern]) -> Result<HaloOrder, TransportError> {
    let Some(first) = steps.first() else { return Ok(HaloOrder::AllNeighbours) };
    let comm = first.comm();
    let others =
        |step: &&Pattern| step.sends().keys().chain(step.receives().keys()).any(|&peer| peer != comm.rank());
    let mut largest = [steps.iter().filter(others).count() as u64];
    comm.all_reduce(&mut largest, Reduction::Max)?;
    Ok(if largest[0] > 1 { HaloOrder::AllNeighbours } else { HaloOrder::AxisByAxis })
}
