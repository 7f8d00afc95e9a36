//! What an `hp_pattern` stands for: a pattern, or a redistribution between two of them. Plans are made of both.

use std::slice;

use haloport::exchange::{FieldLayout, SourceTarget};
use haloport::field::ArrayCells;
use haloport::{AnyDevice, AnyField, BindOptions, Communicator, Exchange, Passed, Pattern, Redistribution};

use crate::describe;
use crate::handle::{Handle, kind};
use crate::status::Failure;

/// A pattern, and the cells of its domains.
#[derive(Debug, Clone)]
pub(crate) struct Domains {
    pub(crate) pattern: Pattern,
    pub(crate) cells: Vec<ArrayCells>,
}

/// What an `hp_pattern` stands for.
#[derive(Debug, Clone)]
pub(crate) enum AnyPattern {
    Pattern(Domains),
    /// With its source and its target.
    Redistribution(Redistribution, [Domains; 2]),
}

kind!(AnyPattern, "hp_pattern", 0x4870);

impl AnyPattern {
    pub(crate) fn new(pattern: Pattern) -> AnyPattern {
        let cells = ArrayCells::of(&pattern);
        AnyPattern::Pattern(Domains { pattern, cells })
    }

    /// The patterns whose fields an exchange has: of a redistribution the source, which is read, and the target.
    pub(crate) fn sides(&self) -> &[Domains] {
        match self {
            AnyPattern::Pattern(domains) => slice::from_ref(domains),
            AnyPattern::Redistribution(_, sides) => sides,
        }
    }

    pub(crate) fn comm(&self) -> &Communicator {
        match self {
            AnyPattern::Pattern(domains) => domains.pattern.comm(),
            AnyPattern::Redistribution(redistribution, _) => redistribution.target().comm(),
        }
    }

    /// Collective: a plan that keeps these fields, in the order of their sides.
    pub(crate) fn bind(
        &self,
        fields: Vec<AnyField<AnyDevice>>,
        options: BindOptions,
    ) -> Result<Exchange<Passed>, Failure> {
        match self {
            AnyPattern::Pattern(domains) => Ok(domains.pattern.bind_with(fields, options)?.into_passed()?),
            AnyPattern::Redistribution(redistribution, _) => {
                let (mut fields, mut pairs) = (fields.into_iter(), Vec::new());
                while let (Some(source), Some(target)) = (fields.next(), fields.next()) {
                    pairs.push(SourceTarget { source, target });
                }
                Ok(redistribution.bind_with(pairs, options)?.into_passed()?)
            }
        }
    }

    /// Collective: a plan for fields with these layouts.
    pub(crate) fn plan_layouts(
        &self,
        layouts: &[FieldLayout],
        options: BindOptions,
    ) -> Result<Exchange<Passed>, Failure> {
        Ok(match self {
            AnyPattern::Pattern(domains) => domains.pattern.plan_layouts(layouts, options)?,
            AnyPattern::Redistribution(redistribution, _) => redistribution.plan_layouts(layouts, options)?,
        })
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            AnyPattern::Pattern(Domains { pattern, cells }) => {
                describe::pattern(self.comm(), (None, cells.len()), [pattern.receives(), pattern.sends()])
            }
            AnyPattern::Redistribution(made, [from, to]) => describe::pattern(
                self.comm(),
                (Some(from.cells.len()), to.cells.len()),
                [made.receives(), made.sends()],
            ),
        }
    }
}

/// The pattern or the redistribution of a handle.
///
/// # Errors
/// For null and freed handles.
pub(crate) fn any_of_handle(pattern: Handle<AnyPattern>) -> Result<AnyPattern, Failure> {
    pattern.get()?.with(|pattern| Ok(pattern.clone()))
}

/// The domains of a handle that stands for a pattern.
///
/// # Errors
/// For null and freed handles, and for redistributions.
pub(crate) fn of_handle(pattern: Handle<AnyPattern>) -> Result<Domains, Failure> {
    match any_of_handle(pattern)? {
        AnyPattern::Pattern(domains) => Ok(domains),
        AnyPattern::Redistribution(..) => Err(Failure::argument(
            "expected a pattern with domains, found a redistribution; pass its source or its target",
        )),
    }
}
