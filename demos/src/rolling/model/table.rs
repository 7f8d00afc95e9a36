//! A table sorted by time.

use std::path::{Path, PathBuf};

use csv::{ReaderBuilder, StringRecord, Trim};
use jiff::civil::DateTime;
use thiserror::Error;

/// Columns of numbers over a column of times, in the order of time. Several rows may have the
/// same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The name of the column of times.
    pub time: String,
    /// Whether times are dates; they are then seconds from the beginning of 1970.
    pub dates: bool,
    /// The time of each row.
    pub times: Vec<f64>,
    /// The time of each row as text of the table.
    pub labels: Vec<String>,
    /// The names of the columns of values.
    pub names: Vec<String>,
    /// The values, row by row; missing ones are NaN.
    pub values: Vec<f64>,
}

/// The error of a table that cannot be read.
#[derive(Debug, Error)]
pub enum TableError {
    /// The file could not be opened.
    #[error("cannot open the table {path}: {source}", path = path.display())]
    Open {
        /// The file asked for.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The text is no CSV.
    #[error("the table is not CSV with a header: {0}")]
    NotCsv(#[from] csv::Error),
    /// There is no such column.
    #[error("the table has no column `{name}`; it has {found}")]
    NoColumn {
        /// The column looked for.
        name: String,
        /// The columns of the table.
        found: String,
    },
    /// There is no column of values.
    #[error("the table needs a column of times and at least one of values, found {found}")]
    NoValues {
        /// The columns of the table.
        found: String,
    },
    /// There are no rows.
    #[error("the table has no rows")]
    Empty,
    /// A time could not be read.
    #[error("line {line}: expected {expected} in column `{column}`, found `{found}`")]
    Time {
        /// The line of the file, from 1.
        line: u64,
        /// The column.
        column: String,
        /// The expected time.
        expected: &'static str,
        /// The text of the cell.
        found: String,
    },
    /// A value could not be read.
    #[error(
        "line {line}: expected a finite number, or nothing where it is missing, in column `{column}`, found `{found}`"
    )]
    Value {
        /// The line of the file, from 1.
        line: u64,
        /// The column.
        column: String,
        /// The text of the cell.
        found: String,
    },
    /// The rows are not in the order of time.
    #[error("line {line}: `{found}` comes after `{before}`: sort the table by column `{column}` first")]
    Unsorted {
        /// The line of the file, from 1.
        line: u64,
        /// The column.
        column: String,
        /// The time of the row before.
        before: String,
        /// The time of this row.
        found: String,
    },
}

impl Table {
    /// Reads a CSV file, see [`from_bytes`](Table::from_bytes).
    ///
    /// # Errors
    /// [`TableError`].
    pub fn from_path(path: &Path, time: Option<&str>, values: &[String]) -> Result<Table, TableError> {
        let bytes =
            std::fs::read(path).map_err(|source| TableError::Open { path: path.to_owned(), source })?;
        Table::from_bytes(&bytes, time, values)
    }

    /// Reads CSV: a header, then rows in the order of the column `time` (`None`: the first), which holds dates such as
    /// `2020-01-31` or `2020-01-31T12:30:00`, or numbers. `values` names the columns of values; all others if it is
    /// empty. Empty cells are missing values; `NaN` and `inf` are refused. Lines that begin with `#` are comments.
    ///
    /// # Errors
    /// [`TableError`] of the first line that is wrong.
    pub fn from_bytes(bytes: &[u8], time: Option<&str>, values: &[String]) -> Result<Table, TableError> {
        let mut csv = ReaderBuilder::new().comment(Some(b'#')).trim(Trim::All).from_reader(bytes);
        let header = csv.headers()?.clone();
        let time_column = time.map_or(Ok(0), |name| index_of(&header, name))?;
        let places = match values {
            [] => (0..header.len()).filter(|&column| column != time_column).collect(),
            names => names.iter().map(|name| index_of(&header, name)).collect::<Result<Vec<_>, _>>()?,
        };
        if places.is_empty() {
            return Err(TableError::NoValues { found: list(&header) });
        }
        let mut table = Table {
            time: header[time_column].to_owned(),
            dates: false,
            times: Vec::new(),
            labels: Vec::new(),
            names: places.iter().map(|&place| header[place].to_owned()).collect(),
            values: Vec::new(),
        };
        for record in csv.records() {
            let record = record?;
            let line = record.position().map_or(0, csv::Position::line);
            table.add_time(&record[time_column], line)?;
            for &place in &places {
                table.values.push(value(&record[place]).ok_or_else(|| TableError::Value {
                    line,
                    column: header[place].to_owned(),
                    found: record[place].to_owned(),
                })?);
            }
        }
        if table.times.is_empty() { Err(TableError::Empty) } else { Ok(table) }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.times.len()
    }

    /// The values of a row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.names.len()..][..self.names.len()]
    }

    fn add_time(&mut self, text: &str, line: u64) -> Result<(), TableError> {
        let (number, date) = (number(text), seconds(text));
        if self.times.is_empty() {
            self.dates = date.is_some();
        }
        let expected = match (self.times.is_empty(), self.dates) {
            (true, _) => "a date such as 2020-01-31 or a number",
            (_, true) => "a date such as 2020-01-31",
            (_, false) => "a number",
        };
        let column = || self.time.clone();
        let time = if self.dates { date } else { number }.ok_or_else(|| TableError::Time {
            line,
            column: column(),
            expected,
            found: text.to_owned(),
        })?;
        if let (Some(&last), Some(label)) = (self.times.last(), self.labels.last())
            && time < last
        {
            let (before, found) = (label.clone(), text.to_owned());
            return Err(TableError::Unsorted { line, column: column(), before, found });
        }
        self.times.push(time);
        self.labels.push(text.to_owned());
        Ok(())
    }
}

fn index_of(header: &StringRecord, name: &str) -> Result<usize, TableError> {
    header
        .iter()
        .position(|column| column == name)
        .ok_or_else(|| TableError::NoColumn { name: name.to_owned(), found: list(header) })
}

fn list(header: &StringRecord) -> String {
    let names: Vec<String> = header.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A number; NaN if the cell is empty.
fn value(text: &str) -> Option<f64> {
    if text.is_empty() { Some(f64::NAN) } else { number(text) }
}

/// Seconds from the beginning of 1970.
fn seconds(text: &str) -> Option<f64> {
    const BEGIN: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    text.parse::<DateTime>().ok().map(|date| date.duration_since(BEGIN).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str, time: Option<&str>, values: &[&str]) -> String {
        let values: Vec<String> = values.iter().map(ToString::to_string).collect();
        Table::from_bytes(text.as_bytes(), time, &values).unwrap_err().to_string()
    }

    #[test]
    fn the_shipped_table_is_read_with_what_is_missing() {
        let table = Table::from_bytes(crate::rolling::model::SHIPPED, None, &[]).unwrap();
        assert_eq!((table.rows(), table.names.len(), table.dates), (524, 10, true));
        assert_eq!((table.labels[0].as_str(), table.times[0]), ("1990-01-01", 631_152_000.0));
        assert_eq!(table.row(0)[0], 10.970438003540039);
        assert_eq!(table.values.iter().filter(|value| value.is_nan()).count(), 7 * 133 + 222 + 453 + 309);
    }

    #[test]
    fn comments_empty_cells_and_other_columns_are_passed_over() {
        let text = "# a comment\n t , a,note, b\n1,,x,2\n1.5,3,,\n";
        let table = Table::from_bytes(text.as_bytes(), Some("t"), &["b".into(), "a".into()]).unwrap();
        assert_eq!((table.times.as_slice(), table.dates), (&[1.0, 1.5][..], false));
        assert_eq!(table.names, ["b", "a"]);
        assert_eq!(format!("{:?}", table.values), "[2.0, NaN, NaN, 3.0]");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        assert_eq!(
            refusal("t,a\n1,2\n", Some("when"), &[]),
            "the table has no column `when`; it has `t`, `a`"
        );
        assert_eq!(refusal("t,a\n1,2\n", None, &["b"]), "the table has no column `b`; it has `t`, `a`");
        assert_eq!(refusal("t,a\n", None, &[]), "the table has no rows");
        assert!(refusal("", None, &[]).contains("found none") || refusal("", None, &[]).contains("no rows"));
        assert_eq!(
            refusal("t\n1\n", None, &[]),
            "the table needs a column of times and at least one of values, found `t`"
        );
        assert_eq!(
            refusal("t,a\n1,2\n2,x\n", None, &[]),
            "line 3: expected a finite number, or nothing where it is missing, in column `a`, found `x`"
        );
        assert_eq!(
            refusal("t,a\n#\n2020-01-01,2\n2020-02-30,2\n", None, &[]),
            "line 4: expected a date such as 2020-01-31 in column `t`, found `2020-02-30`"
        );
        assert_eq!(
            refusal("t,a\n,2\n", None, &[]),
            "line 2: expected a date such as 2020-01-31 or a number in column `t`, found ``"
        );
        assert_eq!(
            refusal("t,a\n1,2\n3,2\n2,2\n", None, &[]),
            "line 4: `2` comes after `3`: sort the table by column `t` first"
        );
        assert!(refusal("t,a\n1,2,3\n", None, &[]).contains("line: 2"));
        for other in ["inf", "NaN", "nan", "-Infinity"] {
            assert!(refusal(&format!("t,a\n1,{other}\n"), None, &[]).contains(&format!("found `{other}`")));
        }
    }
}
