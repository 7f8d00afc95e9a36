//! Fields of several patterns in one exchange, of random domains, against the global oracles of each.

use haloport_core::device::{Device, Pointer};
use haloport_core::{
    Binder, Communicator, FieldError, FieldLayout, FieldSet, OfPattern, Pattern, PatternSet,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::{cubed_sphere, structured, tripolar, unstructured};
use crate::oracle::{
    CaseField, CaseFields, CaseOptions, FieldMaker, Oracle, PlacedField, PlacedFields, Rounds, make_placed,
    run_at_addresses, run_passed, run_rounds,
};
use crate::{Failure, ensure};

/// Collective: exchanges the fields of two or three cases in one exchange, in a random order: of boxes, lists, folded grids and
/// cubed spheres.
///
/// # Errors
/// The first element that is wrong on this rank, or the error of a call.
pub fn check<D: Device>(comm: &Communicator, device: &D, number: u64, size: usize) -> Result<(), Failure> {
    let mut random = StdRng::seed_from_u64(number.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ comm.size() as u64);
    let mut cases = Vec::new();
    for member in 0..random.random_range(2..=3) {
        // Numbers of their own give values of their own.
        cases.push(Case::new(random.random_range(0..4), number + 1_000_003 * member, comm.size(), size)?);
    }
    let run = run(comm, device, &cases, &mut random);
    run.map_err(|error| format!("set {number}: {error}\n{cases:?}").into())
}

fn run<D: Device>(
    comm: &Communicator,
    device: &D,
    cases: &[Case],
    random: &mut StdRng,
) -> Result<(), Failure> {
    let patterns = cases.iter().map(|case| case.pattern(comm)).collect::<Result<Vec<_>, _>>()?;
    let oracles: Vec<Box<dyn Oracle + '_>> = cases.iter().map(|case| case.oracle(comm.rank())).collect();
    let set = PatternSet::new(&patterns.iter().collect::<Vec<_>>())?;
    ensure!(set.patterns().len() == cases.len(), "a set has {} patterns", set.patterns().len());

    // The same order on all ranks; fields of a pattern need not follow each other.
    let mut order: Vec<(usize, usize)> = (0..cases.len())
        .flat_map(|pattern| (0..cases[pattern].fields()).map(move |field| (pattern, field)))
        .collect();
    order.shuffle(random);
    let make = || -> Result<Vec<Member<'_>>, Failure> {
        let member = |&(pattern, field): &(usize, usize)| {
            cases[pattern].field(device, &patterns[pattern], &*oracles[pattern], (pattern, field))
        };
        order.iter().map(member).collect()
    };
    let (options, rounds) = (|| cases[0].options().options(), 2);
    let number = random.random_range(0..1000);
    let mut fields = as_cases(make()?);
    fields.iter_mut().try_for_each(|field| field.prepare(0))?;
    let exchange = set.bind_with(fields, options())?;
    exchange.fields().iter().try_for_each(|field| field.verify(0, false))?;
    run_rounds(device, device, exchange, number, rounds)?;

    let mut sets = [as_cases(make()?), as_cases(make()?)];
    let plan = set.plan_with(&mut sets[0], options())?;
    run_passed(device, plan, sets, number, rounds)?;

    let members = [make()?, make()?, make()?];
    let layouts = members[0].iter().map(Member::layout).collect::<Result<Vec<_>, _>>()?;
    let sets = members.map(|members| -> PlacedFields<'_> {
        members.into_iter().map(|member| Box::new(member) as Box<dyn PlacedField>).collect()
    });
    let plan = set.plan_layouts(&layouts, options().in_flight(2))?;
    run_at_addresses(device, plan, sets, number, rounds)
}

fn as_cases(members: Vec<Member<'_>>) -> CaseFields<'_> {
    members.into_iter().map(|member| Box::new(member) as Box<dyn CaseField>).collect()
}

/// A case of any kind.
#[derive(Debug)]
enum Case {
    Boxes(structured::Case),
    Lists(unstructured::Case),
    Folded(tripolar::Case),
    Sphere(cubed_sphere::Case),
}

/// Calls a function with the rounds of a case, whose type depends on its kind.
macro_rules! with_rounds {
    ($case:expr, $rounds:ident => $body:expr) => {
        match $case {
            Case::Boxes(structured::Case { rounds: $rounds, .. }) => $body,
            Case::Lists(unstructured::Case { rounds: $rounds, .. }) => $body,
            Case::Folded(tripolar::Case { rounds: $rounds, .. }) => $body,
            Case::Sphere(cubed_sphere::Case { rounds: $rounds, .. }) => $body,
        }
    };
}

impl Case {
    fn new(kind: usize, number: u64, ranks: usize, size: usize) -> Result<Case, Failure> {
        Ok(match kind {
            0 => Case::Boxes(structured::Case::new(number, ranks, size)),
            1 => Case::Lists(unstructured::Case::new(number, ranks, size)),
            2 => Case::Folded(tripolar::Case::new(number, ranks, size)),
            _ => Case::Sphere(cubed_sphere::Case::new(number, ranks, size)?),
        })
    }

    fn pattern(&self, comm: &Communicator) -> Result<Pattern, Failure> {
        match self {
            Case::Boxes(case) => case.pattern(comm),
            Case::Lists(case) => case.whole_pattern(comm),
            Case::Folded(case) => case.pattern(comm),
            Case::Sphere(case) => case.pattern(comm),
        }
    }

    fn oracle(&self, rank: usize) -> Box<dyn Oracle + '_> {
        match self {
            Case::Boxes(case) => Box::new(case),
            Case::Lists(case) => Box::new(case.here(rank)),
            Case::Folded(case) => Box::new(case.oracle()),
            Case::Sphere(case) => Box::new(case.oracle()),
        }
    }

    /// The number of its fields.
    fn fields(&self) -> usize {
        with_rounds!(self, rounds => rounds.fields.len())
    }

    fn options(&self) -> CaseOptions {
        with_rounds!(self, rounds => rounds.options)
    }

    /// A field by the number of its pattern in the set, and its own.
    fn field<'m, D: Device>(
        &self,
        device: &D,
        pattern: &Pattern,
        oracle: &'m dyn Oracle,
        of: (usize, usize),
    ) -> Result<Member<'m>, Failure> {
        with_rounds!(self, rounds => member(device, pattern, oracle, rounds, of))
    }
}

fn member<'m, D: Device, M: FieldMaker>(
    device: &D,
    pattern: &Pattern,
    oracle: &'m dyn Oracle,
    rounds: &Rounds<M>,
    (of, number): (usize, usize),
) -> Result<Member<'m>, Failure> {
    let maker = &rounds.fields[number];
    let paired = (rounds.number + number as u64).is_multiple_of(4);
    let fields = make_placed(device, pattern, oracle, maker, number, paired)?;
    Ok(Member { vector: maker.vector().to_vec(), of: OfPattern { pattern: of, fields } })
}

/// A field of one of the patterns.
struct Member<'m> {
    of: OfPattern<Box<dyn PlacedField + 'm>>,
    vector: Vec<usize>,
}

impl Member<'_> {
    fn layout(&self) -> Result<FieldLayout, FieldError> {
        Ok(self.field_layout(&self.vector)?.of_pattern(self.of.pattern))
    }
}

// SAFETY: the field is owned by value.
unsafe impl FieldSet for Member<'_> {
    fn bind(&self, binder: &mut Binder) {
        self.of.bind(binder);
    }
}

impl CaseField for Member<'_> {
    fn prepare(&mut self, round: u64) -> Result<(), Failure> {
        self.of.fields.prepare(round)
    }

    fn verify(&self, round: u64, after: bool) -> Result<(), Failure> {
        let of = self.of.pattern;
        let verified = self.of.fields.verify(round, after);
        verified.map_err(|error| format!("of pattern {of}: {error}").into())
    }
}

impl PlacedField for Member<'_> {
    fn field_layout(&self, vector: &[usize]) -> Result<FieldLayout, FieldError> {
        self.of.fields.field_layout(vector)
    }

    fn addresses(&self) -> Result<Vec<Pointer>, FieldError> {
        self.of.fields.addresses()
    }
}
