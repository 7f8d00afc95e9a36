//! The inputs, checked.

use haloport_demos::rolling::model::SHIPPED;
use haloport_demos::rolling::model::table::Table;

use super::args::RollingArgs;
use crate::jobs::common::inputs::about_file;

/// The problem, the same on all ranks.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) table: Table,
    /// The window in the units of the table's times: seconds for dates.
    pub(super) window: f64,
}

impl Problem {
    /// Reads the table and the window; an error is one line.
    pub(super) fn new(args: &RollingArgs) -> Result<Problem, String> {
        let time = args.time.as_deref();
        let table = match &args.table {
            Some(path) => Table::from_path(path, time, &args.value)
                .map_err(|error| format!("--table: {}", about_file(path, &error)))?,
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
