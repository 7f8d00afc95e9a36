//! The choice of the quickest way, by a short trial where that is asked for.

use super::agree::{Agreement, agree};
use super::bound::Bound;
use super::choice::{Candidate, Choice, Measured, Origin};
use super::fields::PartBuilder;
use super::fingerprint::fingerprint;
use super::options::Trial;
use super::ring::{Contender, Ring, quickest};
use super::{BindError, BindOptions, DataPath, HaloOrder};
use crate::pattern::Pattern;
use crate::transport::{Reduction, TransportError};

/// The model's way is taken if it takes at most so much longer than the quickest, so that noise changes no choice;
const MARGIN: f64 = 1.03;

/// and so much after fewer than [`FEW_ROUNDS`] rounds, when one that met with something else would count for too much.
const MARGIN_OF_FEW: f64 = 1.3;

/// See [`MARGIN_OF_FEW`].
const FEW_ROUNDS: usize = 3;

/// Collective: binds the fields in the quickest way.
pub(super) fn choose(
    pattern: &Pattern,
    builders: Vec<Box<dyn PartBuilder>>,
    options: &BindOptions,
    refused: Option<String>,
) -> Result<(Bound, Choice), BindError> {
    let comm = pattern.comm();
    let agreement = agree(pattern, builders, options, refused)?;
    let fingerprint = if agreement.is_known_again { Some(fingerprint(&agreement)?) } else { None };
    let mut choice = Choice {
        fingerprint,
        origin: Origin::Model,
        chosen: agreement.model,
        model: agreement.model,
        measured: Vec::new(),
    };
    if choice.fingerprint.is_some() {
        let mut kept = options.kept.iter().filter(|kept| kept.fingerprint == choice.fingerprint);
        let kept = comm.broadcast(0, &kept.find(|kept| agreement.allows(kept.chosen)).cloned())?;
        if let Some(kept) = kept {
            let Choice { chosen, model, measured, .. } = kept;
            choice = Choice { origin: Origin::Kept, chosen, model, measured, ..choice };
        } else if let Some(trial) = options.trial
            && runs_on_host(&agreement)?
        {
            return try_out(&agreement, trial, choice);
        }
    }
    Ok((agreement.bind(choice.chosen)?, choice))
}

/// Collective: whether all copies on all ranks are done when a call returns.
fn runs_on_host(agreement: &Agreement) -> Result<bool, TransportError> {
    let mut all = [u64::from(agreement.builders.iter().all(|part| part.runs_on_host()))];
    agreement.pattern.comm().all_reduce(&mut all, Reduction::Min)?;
    Ok(all[0] == 1)
}

/// Collective: binds the fields in the way that is quickest in a trial.
fn try_out(agreement: &Agreement, trial: Trial, choice: Choice) -> Result<(Bound, Choice), BindError> {
    let mut ring = Ring::new(agreement, trial);
    let halos = ring.save_halos()?;
    let outcome = ring.compete();
    let outcome = outcome.map(|contenders| settle(contenders, choice));
    // Those that were not chosen are gone by now.
    ring.restore(&halos);
    let outcome = outcome?;
    ring.meet(&mut [])?;
    outcome.ok_or_else(|| BindError::Refused("there is no way to do the exchange".into()))
}

/// The one that was quickest, and the reasons.
fn settle(mut contenders: Vec<Contender>, mut choice: Choice) -> Option<(Bound, Choice)> {
    choice.model = contenders.first()?.candidate;
    let mut chosen = 0;
    if contenders.len() > 1 {
        choice.origin = Origin::Trial;
        choice.measured.extend(contenders.iter().map(|contender| Measured {
            candidate: contender.candidate,
            median_us: contender.median() / 1e3,
            rounds: contender.rounds.len(),
        }));
        // Turns in rounds tell more than those before.
        let had_rounds = contenders.iter().any(|contender| !contender.rounds.is_empty());
        let counts = |contender: &&Contender| !had_rounds || !contender.rounds.is_empty();
        let quickest = quickest(contenders.iter().filter(counts));
        let rounds = contenders.iter().map(|contender| contender.rounds.len()).max();
        let margin = if rounds < Some(FEW_ROUNDS) { MARGIN_OF_FEW } else { MARGIN };
        if !counts(&&contenders[0]) || contenders[0].median() > margin * quickest {
            chosen = contenders.iter().position(|it| counts(&it) && it.median() <= quickest).unwrap_or(0);
        }
    }
    let chosen = contenders.swap_remove(chosen);
    choice.chosen = chosen.candidate;
    Some((chosen.bound, choice))
}

impl Agreement {
    /// The ways that the options leave open, that of the model first.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        use DataPath::{Direct, Messages, Quickest, Shared};
        use HaloOrder::{AllNeighbours, AxisByAxis};
        let Candidate { path, order } = self.model;
        let orders = [order, if order == AllNeighbours { AxisByAxis } else { AllNeighbours }];
        let orders = &orders[..if self.leaves_order_open { 2 } else { 1 }];
        let asked = [path];
        let paths = if path == Quickest { &[Quickest, Direct, Shared, Messages][..] } else { &asked[..] };
        let all = orders.iter().flat_map(|&order| paths.iter().map(move |&path| (path, order)));
        all.map(|(path, order)| Candidate { path, order }).collect()
    }

    /// Whether a candidate that was kept is one that can be bound.
    fn allows(&self, candidate: Candidate) -> bool {
        match candidate.order {
            HaloOrder::AllNeighbours => true,
            HaloOrder::AxisByAxis => self.leaves_order_open || self.model.order == HaloOrder::AxisByAxis,
            HaloOrder::Quickest => false,
        }
    }
}
