//! Random cases of any kind: of boxes, lists, a folded grid and a cubed sphere, in turn.

use haloport_core::{BindOptions, Communicator, DataPath, Pattern};
use rand::RngExt;
use rand::rngs::StdRng;

use super::{cubed_sphere, structured, tripolar, unstructured};
use crate::Failure;
use crate::oracle::FieldMaker;

/// What is done with the fields of a case: there is at least one.
pub(super) trait OnCase {
    fn run<M: FieldMaker>(&self, pattern: &Pattern, makers: &[M]) -> Result<(), Failure>;
}

/// Collective: runs a test on a case with this number: of boxes, lists, a folded grid and a cubed sphere in turn.
///
/// # Errors
/// That of the test, with the case.
pub(super) fn on_case(
    comm: &Communicator,
    number: u64,
    size: usize,
    test: &impl OnCase,
) -> Result<(), Failure> {
    let ranks = comm.size();
    let (run, case): (Result<(), Failure>, String) = match number % 4 {
        0 => {
            let case = structured::Case::new(number, ranks, size);
            (test.run(&case.pattern(comm)?, &case.rounds.fields), format!("{case:?}"))
        }
        1 => {
            let case = unstructured::Case::new(number, ranks, size);
            (test.run(&case.whole_pattern(comm)?, &case.rounds.fields), format!("{case:?}"))
        }
        2 => {
            let case = tripolar::Case::new(number, ranks, size);
            (test.run(&case.pattern(comm)?, &case.rounds.fields), format!("{case:?}"))
        }
        _ => {
            let case = cubed_sphere::Case::new(number, ranks, size)?;
            (test.run(&case.pattern(comm)?, &case.rounds.fields), format!("{case:?}"))
        }
    };
    run.map_err(|error| format!("case {number}: {error}\n{case}").into())
}

/// Options with any path; the messages of some are moved to memory of the host and from it.
pub(super) fn random_path(random: &mut StdRng) -> impl Fn() -> BindOptions + use<> {
    let paths = [DataPath::Quickest, DataPath::Direct, DataPath::Shared, DataPath::Messages];
    let path = paths[random.random_range(0..paths.len())];
    let is_moved = random.random_bool(0.5);
    move || {
        let options = BindOptions::default().prefer(path);
        if is_moved { options.staging_copy(0) } else { options }
    }
}
