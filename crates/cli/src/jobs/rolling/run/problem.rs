//! The inputs, checked.

use std::sync::OnceLock;

use crate::jobs::rolling::model::SHIPPED;
use crate::jobs::rolling::model::table::Table;

use super::args::RollingArgs;
use crate::command::failure::Failure;

/// What is computed, whoever computes it.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) table: Table,
    /// The window in the units of the table's times: seconds for dates.
    pub(super) window: f64,
}

impl Problem {
    /// As [`new`](Problem::new), once for all ranks of this process.
    pub(super) fn shared<'p>(
        inputs: &'p OnceLock<Result<Problem, String>>,
        args: &RollingArgs,
    ) -> Result<&'p Problem, Failure> {
        let read = inputs.get_or_init(|| Problem::new(args));
        read.as_ref().map_err(|error| Failure::BadInput(error.clone()))
    }

    /// Reads the table; what is wrong with it or the window is said in one line.
    fn new(args: &RollingArgs) -> Result<Problem, String> {
        let time = args.time.as_deref();
        let table = match &args.table {
            Some(path) => Table::from_path(path, time, &args.value).map_err(|error| {
                // What cannot be opened is named by the error itself.
                let (at, text) = (path.display().to_string(), error.to_string());
                let place = if text.contains(&at) { String::new() } else { format!("{at}: ") };
                format!("--table: {place}{text}")
            })?,
            None => Table::from_bytes(SHIPPED, time, &args.value).map_err(|error| error.to_string())?,
        };
        let window = if table.dates { args.window.seconds() } else { args.window.plain() };
        let window = window.ok_or_else(|| {
            let (holds, wanted) = match table.dates {
                true => ("dates", "a length with a unit, such as 365d"),
                false => ("numbers", "a number in the same units"),
            };
            let (column, found) = (&table.time, &args.window);
            format!("--window: column `{column}` holds {holds}, so expected {wanted}, found `{found}`")
        })?;
        Ok(Problem { table, window })
    }
}
