//! The rolling mean on ranks that own consecutive rows of a table.
//!
//! The mean of a row is that of all values in the rows up to it whose times lie within the window that ends with it:
//! times later than the row's less the window (as in `rolling(window).mean()` of pandas). Missing values are left out;
//! if all are missing, there is no mean.
//!
//! A rank needs rows of the ranks before it. It passes the rows that the next rank can need to the right: first its
//! own, then those received in the round before, until the next rank's window is full or the table has begun. So a
//! window may reach over many ranks.

use bytemuck::{cast_slice, pod_collect_to_vec};
use haloport::line::{Line, LineExchange, NextRound, Payloads};
use haloport::sparse::SparseError;

use super::table::Table;

/// The means of the rows that a rank owns, and the communication for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Means {
    /// Row by row; NaN if a window holds no value.
    pub values: Vec<f64>,
    /// Rounds in which ranks passed rows on.
    pub rounds: usize,
    /// Bytes that this rank has passed on.
    pub bytes: u64,
}

/// Collective: computes the means of the rows of `table` that this rank owns; every rank has the same table. `window`
/// is in the units of its times, and above 0.
///
/// # Errors
/// [`SparseError`].
pub fn rolling_mean(line: &Line, table: &Table, window: f64) -> Result<Means, SparseError> {
    let mine = line.mine();
    let own = Rows::of(table, mine.start as usize..mine.end as usize);
    let first_of_line = line.left().is_none();
    // The next rank needs rows up to a window before the last row of this one.
    let reach = own.times().last().map(|last| window_begin(last, window));
    // This rank needs rows later than this.
    let need = own.times().next().map(|first| window_begin(first, window));

    let mut before = Rows { width: own.width, cells: Vec::new() };
    let mut filled = first_of_line || need.is_none();
    let (mut begun, mut passed_all) = (false, line.right().is_none());
    let (mut bytes, mut passing) = (0, 0);
    let rounds = LineExchange::new(line)?.rounds(|came| {
        // This is called again after the last rows were passed on.
        bytes += std::mem::take(&mut passing);
        let next = if std::mem::replace(&mut begun, true) {
            came.left.as_deref().map(|payload| Part::from_bytes(payload, own.width))
        } else {
            // A rank without rows passes nothing on before it has received something.
            (reach.is_some() || first_of_line).then(|| Part { rows: own.clone(), last: first_of_line })
        };
        if let (Some(part), Some(_)) = (&next, &came.left) {
            filled |= part.last || part.rows.reaches(need);
            before.cells.splice(..0, part.rows.cells.iter().copied());
        }
        let pass = next.filter(|_| !passed_all).map(|part| part.within(reach));
        if let Some(part) = &pass {
            passed_all = part.last;
        }
        let right = pass.map(|part| part.to_bytes());
        passing = right.as_ref().map_or(0, |payload| payload.len() as u64);
        NextRound { pass: Payloads { left: None, right }, enough: filled }
    })?;
    let first = before.len();
    before.cells.extend_from_slice(&own.cells);
    Ok(Means { values: before.means(first, window), rounds, bytes })
}

/// The window that ends with `time` holds times later than this: never `time` itself, even if the difference is lost
/// in rounding.
fn window_begin(time: f64, window: f64) -> f64 {
    (time - window).min(time.next_down())
}

/// Rows, each with its time and its values.
#[derive(Clone, Debug)]
struct Rows {
    /// Cells in a row: the time and the values.
    width: usize,
    cells: Vec<f64>,
}

/// The rows that are passed on.
struct Part {
    rows: Rows,
    /// Whether no rank further right needs earlier rows.
    last: bool,
}

impl Rows {
    fn of(table: &Table, range: std::ops::Range<usize>) -> Rows {
        let cells = range.flat_map(|row| std::iter::once(&table.times[row]).chain(table.row(row))).copied();
        Rows { width: 1 + table.names.len(), cells: cells.collect() }
    }

    fn len(&self) -> usize {
        self.cells.len() / self.width
    }

    fn times(&self) -> impl DoubleEndedIterator<Item = f64> {
        self.cells.chunks_exact(self.width).map(|row| row[0])
    }

    /// Whether there is a row before any window that begins after `begin`.
    fn reaches(&self, begin: Option<f64>) -> bool {
        begin.is_some_and(|begin| self.times().next().is_some_and(|time| time <= begin))
    }

    /// The means of the rows from `first` on.
    fn means(&self, first: usize, window: f64) -> Vec<f64> {
        let mut means = Vec::with_capacity((self.len() - first) * (self.width - 1));
        let mut begin = 0;
        for row in first..self.len() {
            let after = window_begin(self.cells[row * self.width], window);
            while self.cells[begin * self.width] <= after {
                begin += 1;
            }
            let rows = &self.cells[begin * self.width..(row + 1) * self.width];
            for column in 1..self.width {
                means.push(mean(rows.chunks_exact(self.width).map(|row| row[column])));
            }
        }
        means
    }
}

/// The mean of the values that are not missing, added from the first on.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0u32);
    for value in values.filter(|value| !value.is_nan()) {
        sum += value;
        count += 1;
    }
    if count == 0 { f64::NAN } else { sum / f64::from(count) }
}

impl Part {
    /// Removes the rows that lie in no window that begins after `reach`. If there are any, earlier rows are not needed
    /// either.
    fn within(mut self, reach: Option<f64>) -> Part {
        if let Some(reach) = reach {
            let early = self.rows.times().take_while(|&time| time <= reach).count();
            self.rows.cells.drain(..early * self.rows.width);
            self.last |= early > 0;
        }
        self
    }

    /// The cells, then whether these are the last rows.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size_of_val(&self.rows.cells[..]) + 1);
        bytes.extend_from_slice(cast_slice(&self.rows.cells));
        bytes.push(u8::from(self.last));
        bytes
    }

    fn from_bytes(bytes: &[u8], width: usize) -> Part {
        let (last, cells) = bytes.split_last().map_or((1, &[][..]), |(last, cells)| (*last, cells));
        // Whole rows alone: the sender has sent no more.
        let whole = cells.len() / (width * size_of::<f64>()) * width * size_of::<f64>();
        Part { rows: Rows { width, cells: pod_collect_to_vec(&cells[..whole]) }, last: last != 0 }
    }
}

#[cfg(test)]
mod tests {
    use haloport::run_ranks;

    use super::*;

    /// By the definition, row by row.
    fn oracle(table: &Table, window: f64) -> Vec<u64> {
        let mut means = Vec::new();
        for row in 0..table.rows() {
            let within = |&earlier: &usize| table.times[earlier] > table.times[row] - window;
            for column in 0..table.names.len() {
                let values = (0..=row).filter(within).map(|row| table.row(row)[column]);
                let there: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
                means.push((there.iter().sum::<f64>() / there.len() as f64).to_bits());
            }
        }
        means
    }

    /// A table with gaps, repeated times and missing values.
    fn table(rows: usize, seed: u64) -> Table {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut text = String::from("t,a,b\n");
        let mut time = 0;
        for _ in 0..rows {
            time += [0, 1, 1, 2, 40][random(5) as usize];
            let cell =
                |number: u64| if number.is_multiple_of(4) { String::new() } else { format!("0.{number}") };
            let (a, b) = (random(100_000), random(100_000));
            text += &format!("{time},{},{}\n", cell(a), cell(b));
        }
        Table::from_bytes(text.as_bytes(), None, &[]).unwrap()
    }

    #[test]
    fn means_are_those_of_the_definition_bit_for_bit_on_any_ranks() {
        let mut most_rounds = 0;
        for (seed, rows) in [(1, 1), (2, 3), (3, 40), (4, 100)] {
            let table = table(rows, seed);
            for window in [0.5, 1.0, 7.0, 60.0, 300.0, 1e9] {
                let expected = oracle(&table, window);
                for ranks in [1, 2, 3, 4, 8] {
                    let means = run_ranks(ranks, |comm| {
                        // Intervals that differ, some of them empty.
                        let cut = |rank: usize| (rows * rank * rank / (ranks * ranks)) as u64;
                        let line = Line::new(&comm, cut(comm.rank())..cut(comm.rank() + 1))?;
                        Ok(rolling_mean(&line, &table, window)?)
                    })
                    .unwrap();
                    let got: Vec<u64> =
                        means.iter().flat_map(|means| &means.values).map(|mean| mean.to_bits()).collect();
                    let same = got.iter().zip(&expected).all(|(got, expected)| {
                        got == expected || f64::from_bits(*got).is_nan() && f64::from_bits(*expected).is_nan()
                    });
                    assert!(
                        same && got.len() == expected.len(),
                        "{rows} rows, window {window}, {ranks} ranks"
                    );
                    assert_eq!(
                        means[0].rounds == 0,
                        ranks == 1 || means.iter().all(|means| means.bytes == 0)
                    );
                    most_rounds = most_rounds.max(means[0].rounds);
                }
            }
        }
        assert_eq!(most_rounds, 7, "no window has reached over all ranks");
    }

    #[test]
    fn a_window_that_is_nothing_beside_the_times_holds_the_rows_of_one_time() {
        // The next number below 1e17 is 16 less.
        let text = "t,a\n100000000000000000,1\n100000000000000000,\n100000000000000016,4\n";
        let table = Table::from_bytes(text.as_bytes(), None, &[]).unwrap();
        for ranks in [1, 2, 3] {
            let means =
                run_ranks(ranks, |comm| Ok(rolling_mean(&Line::even(&comm, 3)?, &table, 0.5)?)).unwrap();
            let means: Vec<f64> = means.into_iter().flat_map(|means| means.values).collect();
            assert_eq!(means, [1.0, 1.0, 4.0], "{ranks} ranks");
        }
    }

    #[test]
    fn rows_that_no_window_needs_are_not_passed_on() {
        let text: String = (0..1000).fold("t,a\n".into(), |text, row| text + &format!("{row},1\n"));
        let table = Table::from_bytes(text.as_bytes(), None, &[]).unwrap();
        let means = run_ranks(4, |comm| Ok(rolling_mean(&Line::even(&comm, 1000)?, &table, 10.0)?)).unwrap();
        // Ten rows of two cells of eight bytes, and the mark of the last rows.
        assert_eq!(means.iter().map(|means| means.bytes).collect::<Vec<_>>(), [161, 161, 161, 0]);
        assert_eq!(means[0].rounds, 1);
    }
}
