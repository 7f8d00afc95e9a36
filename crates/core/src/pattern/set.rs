//! Several patterns whose fields travel in one exchange.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::comm::CollectiveCall;
use crate::pattern::{Description, Domains, Inner, Pattern, PatternError, Piece, SetupCost, agree};

/// Several patterns of one communicator, whose fields travel in one exchange: all cells for a neighbour in one message. So travel
/// tracers, velocities at edges and vorticity at corners of a staggered or tripolar grid, cells, edges and vertices of a mesh, and
/// fields whose halos have other widths. [`bind`](PatternSet::bind) or [`plan`](PatternSet::plan) makes an exchange of it. Cloning
/// gives another handle to the same set.
///
/// ```
/// use haloport::cpu::CpuDevice;
/// use haloport::exchange::OfPattern;
/// use haloport::{Pattern, PatternSet, run_ranks};
///
/// // Twelve cells, and a field of these that needs a wider halo than the other one.
/// run_ranks(2, |comm| {
///     let with_halo = |width: usize| Pattern::on_grid(&comm, [12]).periodic([true]).halo(width).build();
///     let (narrow, wide) = (with_halo(1)?, with_halo(3)?);
///     let both = PatternSet::new(&[&narrow, &wide])?;
///
///     let device = CpuDevice::with_threads(1)?;
///     let mut heat = narrow.field::<f32, _>(&device)?;
///     let mut depth = wide.field::<f64, _>(&device)?;
///     heat.view_mut(0)?.fill_with(|cell, _| cell[0] as f32);
///     depth.view_mut(0)?.fill_with(|cell, _| cell[0] as f64);
///     let mut exchange = both.bind((heat, OfPattern { pattern: 1, fields: depth }))?;
///     exchange.run()?;
///     let (heat, depth) = exchange.fields();
///     let first = 6 * comm.rank() as i64;
///     assert_eq!(heat.view(0)?[[first + 6]], ((first + 6) % 12) as f32);
///     assert_eq!(depth.fields.view(0)?[[first + 8]], ((first + 8) % 12) as f64);
///     Ok(())
/// })?;
/// # Ok::<(), haloport::comm::RanksError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PatternSet {
    /// With the domains and the pieces of all, one pattern after the other.
    pattern: Pattern,
}

impl PatternSet {
    /// Collective: a set of these patterns, which are numbered from 0. All ranks pass the same patterns in the same order. Nothing is
    /// looked up again: a rank keeps copies of the lists of its own pieces.
    ///
    /// # Errors
    /// [`PatternError::Refused`] if there are no patterns, of which other ranks are not told; and, with the same text on all ranks, if
    /// they are of different communicators, and if ranks pass others; [`PatternError::Transport`], as for [`Pattern::structured`].
    pub fn new(patterns: &[&Pattern]) -> Result<PatternSet, PatternError> {
        let Some(first) = patterns.first() else {
            return Err(PatternError::Refused("a set has no patterns, expected one or more".into()));
        };
        let comm = first.comm();
        let steps = comm.enter(CollectiveCall::Pattern)?;
        let numbers = patterns.iter().map(|pattern| pattern.number()).collect();
        let other = patterns.iter().position(|pattern| !pattern.comm().is_same(comm));
        let complaint = other.map(|number| {
            format!("pattern {number} of a set is of another communicator than pattern 0; make all on one")
        });
        agree(comm, &Ok(Description::Set { patterns: numbers }), complaint)?;
        let inner = Inner {
            comm: comm.clone(),
            number: steps.number(),
            receives: joined(patterns, Pattern::receives, false),
            sends: joined(patterns, Pattern::sends, true),
            domains: Domains::Several(patterns.iter().map(|pattern| (*pattern).clone()).collect()),
            setup: SetupCost::default(),
            reversal: None,
            source: None,
        };
        Ok(PatternSet { pattern: Pattern { inner: Arc::new(inner) } })
    }

    /// The patterns.
    pub fn patterns(&self) -> &[Pattern] {
        self.pattern.set()
    }

    /// The number of the set among the patterns of its communicator, from 1; the same on all ranks. Errors name it as that of a
    /// pattern.
    pub fn number(&self) -> u32 {
        self.pattern.number()
    }

    /// The pattern to which fields are bound.
    pub(crate) fn pattern(&self) -> &Pattern {
        &self.pattern
    }
}

/// The pieces of all patterns for each rank. Domains of this rank are numbered across all patterns, those of other ranks within
/// their pattern: a rank does not know how many others have.
fn joined(
    patterns: &[&Pattern],
    pieces: impl Fn(&Pattern) -> &BTreeMap<usize, Vec<Piece>>,
    at_source: bool,
) -> BTreeMap<usize, Vec<Piece>> {
    let mut all: BTreeMap<usize, Vec<Piece>> = BTreeMap::new();
    let mut first = 0;
    for pattern in patterns {
        let me = pattern.comm().rank();
        for (&rank, pieces) in pieces(pattern) {
            let numbered = pieces.iter().map(|piece| {
                let mut piece = piece.clone();
                piece.source_domain += if at_source || rank == me { first } else { 0 };
                piece.target_domain += if !at_source || rank == me { first } else { 0 };
                piece
            });
            all.entry(rank).or_default().extend(numbered);
        }
        first += pattern.domain_count();
    }
    all
}

impl Pattern {
    /// The patterns of a set; none if this is a pattern of its own.
    pub(crate) fn set(&self) -> &[Pattern] {
        match &self.inner.domains {
            Domains::Several(patterns) => patterns,
            Domains::Structured { .. } | Domains::Unstructured { .. } => &[],
        }
    }

    /// The pattern with this number in the set; this one, if it is none, has the number 0.
    pub(crate) fn in_set(&self, number: usize) -> Option<&Pattern> {
        match self.set() {
            [] => (number == 0).then_some(self),
            patterns => patterns.get(number),
        }
    }

    /// The name of a domain of this rank, in words; in a set with the number of its pattern.
    pub(crate) fn name_of(&self, domain: usize) -> String {
        let mut rest = domain;
        for (number, pattern) in self.set().iter().enumerate() {
            match rest.checked_sub(pattern.domain_count()) {
                Some(behind) => rest = behind,
                None => return format!("domain {rest} of pattern {number}"),
            }
        }
        format!("domain {rest}")
    }

    /// The number of domains of the patterns of the set before this one.
    pub(crate) fn first_in_set(&self, number: usize) -> usize {
        self.set().iter().take(number).map(Pattern::domain_count).sum()
    }
}
