//! Ranks that make collective calls in different orders: each call of the library is swapped with every other one, left
//! out, and repeated on one rank.

use haloport_core::comm::Communicator;
use haloport_core::device::Device;
use haloport_core::trace::Trace;
use haloport_core::transport::Reduction;
use haloport_core::{
    BindOptions, DataPath, Field, Grid, Halo, HaloCells, IndexSet, Line, LineExchange, Pattern,
    SparseExchange, Split,
};

use crate::{Failure, ensure};

/// The objects of calls: two patterns and two lines, alike but different objects.
pub struct Made<D> {
    comm: Communicator,
    device: D,
    grid: Grid,
    patterns: [Pattern; 2],
    lines: [Line; 2],
}

/// A collective call with its name.
pub type Call<D> = (&'static str, fn(&Made<D>) -> Result<(), Failure>);

/// Collective calls of the library, no two alike.
pub fn calls<D: Device>() -> Vec<Call<D>> {
    vec![
        ("a pattern", |made| made.pattern().map(drop)),
        ("bind one pattern", |made| made.bind(0, BindOptions::default())),
        ("bind the other pattern", |made| made.bind(1, BindOptions::default())),
        ("plan one pattern", |made| made.plan(0)),
        ("plan the other pattern", |made| made.plan(1)),
        ("a sparse exchange", |made| Ok(SparseExchange::new(&made.comm).map(drop)?)),
        ("a sparse exchange between neighbours", |made| {
            Ok(SparseExchange::between(&made.comm, &[], &[]).map(drop)?)
        }),
        ("a line", |made| Ok(Line::even(&made.comm, 10).map(drop)?)),
        ("one line exchange", |made| Ok(LineExchange::new(&made.lines[0]).map(drop)?)),
        ("the other line exchange", |made| Ok(LineExchange::new(&made.lines[1]).map(drop)?)),
        ("a time line", |made| Ok(Trace::write(made.comm.trace(), &made.comm, &mut Vec::new())?)),
        barrier(),
        ("a maximum", |made| Ok(made.comm.all_reduce(1.0, Reduction::Max).map(drop)?)),
        ("a maximum of two values", |made| Ok(made.comm.all_reduce([1u64, 2], Reduction::Max).map(drop)?)),
        ("a minimum", |made| Ok(made.comm.all_reduce(1u64, Reduction::Min).map(drop)?)),
        ("a minimum of another type", |made| Ok(made.comm.all_reduce(1i64, Reduction::Min).map(drop)?)),
        ("a sum", |made| Ok(made.comm.all_reduce(1u64, Reduction::Sum).map(drop)?)),
        ("a sum of floats", |made| Ok(made.comm.all_reduce(1f32, Reduction::Sum).map(drop)?)),
        ("a long maximum", |made| Ok(made.comm.all_reduce([1u64; 100], Reduction::Max).map(drop)?)),
        ("a broadcast", |made| Ok(made.comm.broadcast(0, &1u64).map(drop)?)),
        ("a broadcast from the last rank", |made| {
            Ok(made.comm.broadcast(made.comm.size() - 1, &1u64).map(drop)?)
        }),
        ("a gather", |made| Ok(made.comm.gather(0, &1u64).map(drop)?)),
        ("a gather to the last rank", |made| Ok(made.comm.gather(made.comm.size() - 1, &1u64).map(drop)?)),
        ("messages", |made| Ok(made.comm.sparse_exchange(&[(0, made.comm.rank())]).map(drop)?)),
        ("an agreement", |made| made.comm.agree(None)?.map_err(Failure::from)),
    ]
}

fn barrier<D>() -> Call<D> {
    ("a barrier", |made| Ok(made.comm.barrier()?))
}

/// Calls of the same kind as one of [`calls`].
pub fn variants<D: Device>() -> Vec<Call<D>> {
    vec![
        ("an unstructured pattern", |made| made.unstructured().map(drop)),
        ("a pattern on a cubed sphere", |made| made.cubed_sphere().map(drop)),
        ("a redistribution", |made| Ok(made.patterns[0].redistribute(&made.patterns[1]).map(drop)?)),
        ("a whole array", |made| made.whole(0)),
        ("a whole array on the last rank", |made| made.whole(made.comm.size() - 1)),
        ("bind with options", |made| made.bind(0, BindOptions::default().path(DataPath::Messages))),
    ]
}

impl<D: Device> Made<D> {
    /// Collective: makes the objects.
    ///
    /// # Errors
    /// The error of a call.
    pub fn new(comm: &Communicator, device: &D) -> Result<Made<D>, Failure> {
        let grid = Grid::new([4 * comm.size()])?.periodic([true])?;
        let pattern = || pattern_of(comm, &grid);
        let patterns = [pattern()?, pattern()?];
        let lines = [Line::even(comm, 20)?, Line::even(comm, 20)?];
        Ok(Made { comm: comm.clone(), device: device.clone(), grid, patterns, lines })
    }

    fn pattern(&self) -> Result<Pattern, Failure> {
        pattern_of(&self.comm, &self.grid)
    }

    fn unstructured(&self) -> Result<Pattern, Failure> {
        let (rank, size) = (self.comm.rank() as i64, self.comm.size() as i64);
        let set = IndexSet::new(&[rank], &[(rank + 1) % size]);
        Ok(Pattern::unstructured(&self.comm, &[set], &HaloCells::All)?)
    }

    fn cubed_sphere(&self) -> Result<Pattern, Failure> {
        let grid = Grid::cubed_sphere(2)?;
        let domains = if self.comm.rank() == 0 { vec![grid.bounds()] } else { Vec::new() };
        Ok(Pattern::structured(&self.comm, &grid, &domains, &Halo::uniform(0))?)
    }

    fn bind(&self, number: usize, options: BindOptions) -> Result<(), Failure> {
        let pattern = &self.patterns[number];
        let field = Field::<f64, D>::new(&self.device, pattern)?;
        Ok(pattern.bind_with(field, options).map(drop)?)
    }

    fn whole(&self, root: usize) -> Result<(), Failure> {
        let pattern = &self.patterns[0];
        Ok(pattern.gather(&Field::<f64, D>::new(&self.device, pattern)?, root).map(drop)?)
    }

    fn plan(&self, number: usize) -> Result<(), Failure> {
        let pattern = &self.patterns[number];
        Ok(pattern.plan(Field::<f64, D>::new(&self.device, pattern)?).map(drop)?)
    }
}

fn pattern_of(comm: &Communicator, grid: &Grid) -> Result<Pattern, Failure> {
    let domain = Split::even(grid, [comm.size()])?.part(comm.rank()).ok_or("no part")?;
    Ok(Pattern::structured(comm, grid, &[domain], &Halo::uniform(1))?)
}

/// Collective: the last rank swaps two calls, leaves one out, and repeats one. Every rank gets the same error at once,
/// and the communicator can still be used.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn check<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    if comm.size() == 1 {
        return Ok(());
    }
    let made = Made::new(comm, device)?;
    let calls = calls();
    for (number, &one) in calls.iter().enumerate() {
        for &other in &calls[number + 1..] {
            disagree(&made, &[one, other], &[other, one])?;
        }
        let next = calls[(number + 1) % calls.len()];
        disagree(&made, &[one, next], &[next])?;
        disagree(&made, &[one, next], &[one, one, next])?;
    }
    for one in variants() {
        let barrier = barrier();
        disagree(&made, &[one, barrier], &[barrier, one])?;
        disagree(&made, &[one, barrier], &[barrier])?;
        disagree(&made, &[one, barrier], &[one, one, barrier])?;
    }
    Ok(())
}

/// Collective: makes calls until one fails; on the last rank those of `last`.
fn disagree<D: Device>(made: &Made<D>, others: &[Call<D>], last: &[Call<D>]) -> Result<(), Failure> {
    let comm = &made.comm;
    let named = |calls: &[Call<D>]| calls.iter().map(|call| call.0).collect::<Vec<_>>().join(", ");
    let context = format!("[{}] and on the last rank [{}]", named(others), named(last));
    let mine = if comm.rank() + 1 == comm.size() { last } else { others };
    let error = mine.iter().find_map(|(_, call)| call(made).err());
    let text = error.map_or_else(|| "no error".to_string(), |error| error.to_string());
    let first = comm.broadcast(0, &text).map_err(|error| format!("{context}: {text}, then {error}"))?;
    let expected = format!("rank {} has come to", comm.size() - 1);
    let complaint = (text != first || !text.contains("out of step") || !text.contains(&expected))
        .then(|| format!("{context}: {text}"));
    let agreed = comm.agree(complaint)?;
    ensure!(agreed.is_ok(), "{agreed:?}");
    Ok(())
}
