//! What an `hp_pattern` stands for: a pattern, or a redistribution between two of them. Plans are made of both.

use std::slice;

use haloport::exchange::{FieldLayout, OfPattern, SourceTarget};
use haloport::field::ArrayCells;
use haloport::{
    AnyDevice, AnyField, BindOptions, Communicator, Exchange, Passed, Pattern, PatternSet, Redistribution,
};

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
        of: &FieldPatterns,
        options: BindOptions,
    ) -> Result<Exchange<Passed>, Failure> {
        if let Some(set) = of.set()? {
            let of_pattern = |(fields, &pattern)| OfPattern { pattern, fields };
            let fields: Vec<_> = fields.into_iter().zip(&of.each).map(of_pattern).collect();
            return Ok(set.bind_with(fields, options)?.into_passed()?);
        }
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
        layouts: Vec<FieldLayout>,
        of: &FieldPatterns,
        options: BindOptions,
    ) -> Result<Exchange<Passed>, Failure> {
        if let Some(set) = of.set()? {
            let of_pattern = |(layout, &pattern): (FieldLayout, &usize)| layout.of_pattern(pattern);
            let layouts: Vec<FieldLayout> = layouts.into_iter().zip(&of.each).map(of_pattern).collect();
            return Ok(set.plan_layouts(&layouts, options)?);
        }
        Ok(match self {
            AnyPattern::Pattern(domains) => domains.pattern.plan_layouts(&layouts, options)?,
            AnyPattern::Redistribution(redistribution, _) => {
                redistribution.plan_layouts(&layouts, options)?
            }
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

/// The patterns of the fields of a plan.
pub(crate) struct FieldPatterns {
    /// The handle and the domains of each pattern, the one of the plan first; of a redistribution, those of its two sides.
    patterns: Vec<(Handle<AnyPattern>, Vec<Domains>)>,
    /// For each field the number of its pattern.
    each: Vec<usize>,
}

impl FieldPatterns {
    /// For a plan of this pattern, to which fields are added.
    pub(crate) fn new(handle: Handle<AnyPattern>, pattern: &AnyPattern) -> FieldPatterns {
        FieldPatterns { patterns: vec![(handle, pattern.sides().to_vec())], each: Vec::new() }
    }

    /// Adds a field of the pattern of a handle, or of that of the plan if it is null. Returns its sides.
    ///
    /// # Errors
    /// For handles that are not those of patterns, and in plans of redistributions.
    pub(crate) fn add(&mut self, of: Handle<AnyPattern>) -> Result<&[Domains], Failure> {
        let number = if of.is_null() { 0 } else { self.number_of(of)? };
        self.each.push(number);
        Ok(&self.patterns[number].1)
    }

    /// The sides of the field with this number.
    pub(crate) fn sides(&self, field: usize) -> &[Domains] {
        &self.patterns[self.each[field]].1
    }

    fn number_of(&mut self, of: Handle<AnyPattern>) -> Result<usize, Failure> {
        let domains = of_handle(of)?;
        if self.patterns[0].1.len() > 1 {
            return Err(Failure::argument("expected null in a plan of a redistribution, found a pattern"));
        }
        let known = self.patterns.iter().position(|(known, _)| known.is(of));
        Ok(known.unwrap_or_else(|| {
            self.patterns.push((of, vec![domains]));
            self.patterns.len() - 1
        }))
    }

    /// Collective: the set of the patterns; `None` if all fields are of that of the plan.
    fn set(&self) -> Result<Option<PatternSet>, Failure> {
        if self.patterns.len() == 1 {
            return Ok(None);
        }
        let patterns: Vec<&Pattern> = self.patterns.iter().map(|(_, domains)| &domains[0].pattern).collect();
        Ok(Some(PatternSet::new(&patterns)?))
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
