//! Binding a pattern to fields: what ranks settle with each other, once.
//!
//! In this order:
//! - `set` collects the fields by device; for a plan, `layouts` has what it needs to know of fields, and compares with that
//!   the fields with which it is started;
//! - `bind`: the ranks agree on the `terms`, that is on fields and options, and on the order in which halos are filled, and
//!   all copies are bound;
//! - here: the negotiation of the way of each field. It takes three steps for each part of an exchange and each neighbour:
//!   the sender makes an offer, the receiver accepts it and allocates the memory that the two share, and the sender maps
//!   that memory and lends its windows. `neighbour` has these steps. Before the second one, ranks of one node measure
//!   the distance of their cores, if it counts and is not known.

mod bind;
mod layouts;
mod neighbour;
mod set;
mod terms;

pub use layouts::FieldLayout;
pub use set::{Binder, FieldSet, OfPattern, OneField, SourceTarget};

pub(super) use bind::{bind_fields, bind_layouts};
pub(super) use layouts::{LayoutSet, PassedFields};

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::cells::Neighbour;
use super::options::{CopiedBy, DataPath, Obstacle, Route, Way};
use super::ways::PartFields;
use super::ways::memory::mapping::free_released;
use super::ways::offer::{Acceptance, Answer, Offer, Offers, PartWays, PeerWays, PeerWindows};
use super::ways::stream_messages::join::StreamGroups;
use crate::comm::Invitations;
use crate::field::End;
use crate::pattern::Pattern;
use crate::transport::{Reduction, TransportError, Window};

/// What the options ask for.
pub(crate) struct Asked {
    pub(crate) path: DataPath,
    /// The path that the program asks for, also where streams exchange messages.
    pub(crate) by_program: DataPath,
    pub(crate) copied_by: CopiedBy,
    /// Maximum size of a staged message in bytes.
    pub(crate) chunk: usize,
}

/// The result of the negotiation about all parts.
#[derive(Default)]
pub(crate) struct Negotiated {
    pub(crate) parts: Vec<PartWays>,
    /// How each field gets to and from each other rank.
    pub(crate) routes: Vec<Route>,
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
    let comm = pattern.comm();
    let negotiation = Negotiation { pattern, parts, asked, tags, groups };
    let mut negotiated = Negotiated::default();
    let ways = || PartWays { chunk: asked.chunk, ..PartWays::default() };
    negotiated.parts.extend(parts.iter().map(|_| ways()));
    let OffersMade { offers, published, invitations } = negotiation.offer()?;
    let offers = negotiation.meet(invitations, comm.sparse_exchange(&offers)?)?;
    let answers = negotiation.accept(offers, &mut negotiated)?;
    let refused = negotiation.lend(comm.sparse_exchange(&answers)?, published, &mut negotiated)?;
    let mut largest = [u64::from(!refused.is_empty()), negotiated.chunks as u64];
    if asked.path != DataPath::Messages || asked.chunk < usize::MAX {
        comm.all_reduce(&mut largest, Reduction::Max)?;
    }
    let [any_refused, chunks] = largest;
    negotiated.chunks = chunks as usize;
    if any_refused > 0 {
        for (peer, unmapped) in comm.sparse_exchange(&refused)? {
            for number in unmapped {
                let receive = negotiated.parts.get_mut(number).and_then(|part| part.receives.get_mut(&peer));
                if let Some((_, PeerWays { ways, obstacles, windows, .. })) = receive {
                    *windows = in_messages(ways, obstacles);
                }
            }
        }
    }
    negotiated.routes = routes(pattern, parts, &negotiated.parts);
    Ok(negotiated)
}

/// What the steps of a negotiation need.
struct Negotiation<'n> {
    pattern: &'n Pattern,
    parts: &'n [PartFields],
    asked: &'n Asked,
    tags: [u32; 2],
    groups: &'n StreamGroups,
}

/// For each neighbour the window that each part has published.
type Published = BTreeMap<usize, Vec<Option<Arc<Window>>>>;

/// For ranks, each with one entry for each part.
type Parts<T> = Vec<(usize, Vec<T>)>;

/// The offers to all neighbours that receive cells, the windows that are published, and the neighbours that are invited to a
/// meeting.
#[derive(Default)]
struct OffersMade {
    offers: Vec<(usize, Offers)>,
    published: Published,
    invitations: Invitations,
}

impl Negotiation<'_> {
    /// Each part, with its number and the tags of its windows.
    fn parts(&self) -> impl Iterator<Item = (usize, &PartFields, [u32; 2])> {
        let tags = |number: usize| self.tags.map(|first| first + number as u32);
        self.parts.iter().enumerate().map(move |(number, part)| (number, part, tags(number)))
    }

    /// Returns an error unless `sender` has sent one for each part.
    fn check_count(&self, sender: usize, what: &str, found: usize) -> Result<(), TransportError> {
        let expected = self.parts.len();
        if found != expected {
            let why = format!("{what} for {found} devices, expected {expected}");
            return Err(TransportError::Malformed { sender, why });
        }
        Ok(())
    }

    /// Makes offers to all neighbours that receive cells.
    fn offer(&self) -> Result<OffersMade, TransportError> {
        let mut made = OffersMade::default();
        let (pattern, comm) = (self.pattern, self.pattern.comm());
        for &peer in pattern.sends().keys().filter(|&&peer| peer != pattern.comm().rank()) {
            let to = Neighbour { pattern, peer };
            let parts = self.parts().map(|(_, part, [tag, _])| part.offer(to, tag, self.asked.path));
            let (parts, windows): (Vec<Offer>, _) = parts.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
            let counts_distance = parts.iter().any(|offer| offer.counts_distance);
            let meeting = counts_distance
                .then(|| made.invitations.invite(comm.handovers(), &**comm.transport(), peer))
                .flatten();
            made.offers.push((peer, Offers { parts, meeting }));
            made.published.insert(peer, windows);
        }
        Ok(made)
    }

    /// Meets the neighbours that have invited this rank, or were invited by it. Returns their offers.
    fn meet(
        &self,
        invitations: Invitations,
        received: Vec<(usize, Offers)>,
    ) -> Result<Parts<Offer>, TransportError> {
        let (mut offers, mut tokens) = (Vec::with_capacity(received.len()), BTreeMap::new());
        for (peer, Offers { parts, meeting }) in received {
            tokens.extend(meeting.map(|token| (peer, token)));
            offers.push((peer, parts));
        }
        let comm = self.pattern.comm();
        invitations.meet(comm.handovers(), &**comm.transport(), tokens)?;
        Ok(offers)
    }

    /// Answers the offers of all neighbours.
    fn accept(
        &self,
        offers: Parts<Offer>,
        negotiated: &mut Negotiated,
    ) -> Result<Parts<Answer>, TransportError> {
        let mut answers = Vec::new();
        for (peer, offers) in offers {
            self.check_count(peer, "offers", offers.len())?;
            let from = Neighbour { pattern: self.pattern, peer };
            let mut answer = Vec::with_capacity(offers.len());
            for ((number, part, tags), offer) in self.parts().zip(offers) {
                let path = self.groups.path_from(number, self.pattern, peer, self.asked.path);
                let accepted = part.accept(from, tags, &Asked { path, ..*self.asked }, &offer)?;
                let Acceptance { answer: part_answer, chunks, windows, names } = accepted;
                negotiated.names.extend(names);
                negotiated.chunks = negotiated.chunks.max(chunks);
                let Answer { ways, obstacles, left, .. } = &part_answer;
                let received =
                    PeerWays { ways: ways.clone(), obstacles: obstacles.clone(), windows, left: *left };
                answer.push(part_answer);
                negotiated.parts[number].receives.insert(peer, (offer, received));
            }
            answers.push((peer, answer));
        }
        Ok(answers)
    }

    /// Lends windows for the answers of all neighbours. Returns for each neighbour the parts whose shared memory cannot be
    /// mapped here.
    fn lend(
        &self,
        answers: Parts<Answer>,
        mut published: Published,
        negotiated: &mut Negotiated,
    ) -> Result<Parts<usize>, TransportError> {
        let mut refused = Vec::new();
        for (peer, answers) in answers {
            self.check_count(peer, "answers", answers.len())?;
            let to = Neighbour { pattern: self.pattern, peer };
            let published = published.remove(&peer).unwrap_or_default();
            let mut unmapped = Vec::new();
            for ((number, part, [_, tag]), (answer, published)) in
                self.parts().zip(answers.into_iter().zip(published))
            {
                let lent = part.lend(to, tag, &answer, published)?;
                let Answer { mut ways, mut obstacles, left, .. } = answer;
                let windows = lent.unwrap_or_else(|| {
                    unmapped.push(number);
                    in_messages(&mut ways, &mut obstacles)
                });
                negotiated.parts[number].sends.insert(peer, PeerWays { ways, obstacles, windows, left });
            }
            if !unmapped.is_empty() {
                refused.push((peer, unmapped));
            }
        }
        Ok(refused)
    }
}

/// How the fields of all parts get to and from each other rank.
fn routes(pattern: &Pattern, parts: &[PartFields], ways: &[PartWays]) -> Vec<Route> {
    let rank = pattern.comm().rank();
    let mut routes = Vec::new();
    for (part, ways) in parts.iter().zip(ways) {
        let mut add = |from, to, PeerWays { ways, obstacles, left, .. }: &PeerWays| {
            let (peer, end) = if to == rank { (from, End::Target) } else { (to, End::Source) };
            let neighbour = Neighbour { pattern, peer };
            let settled = part.fields.iter().zip(ways).zip(obstacles);
            let settled = settled.filter(|(((_, field), _), _)| neighbour.shares_cells_of(field, end));
            routes.extend(settled.map(|(((field, _), way), why)| Route {
                from,
                to,
                field: *field,
                path: way.path(*left),
                why: *why,
            }));
        };
        for (&peer, (_, received)) in &ways.receives {
            add(peer, rank, received);
        }
        for (&peer, sent) in &ways.sends {
            add(rank, peer, sent);
        }
    }
    routes
}

/// Sends all fields in the message: both ends do so if the sender cannot map the memory that the receiver shares.
fn in_messages(ways: &mut [Way], obstacles: &mut [Option<Obstacle>]) -> PeerWindows {
    ways.fill(Way::Message);
    obstacles.fill(Some(Obstacle::Refused));
    PeerWindows::default()
}
