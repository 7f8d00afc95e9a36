//! A picture of the columns of a table and their rolling means: a panel for each column.

use super::model::table::Table;
use crate::drawing::{Align, Canvas, Colour, INK, PAPER, Style, date_ticks, number, ticks};

/// The most panels of a picture.
pub const MOST_PANELS: usize = 12;

const GRID: Colour = [0xe3, 0xe6, 0xea];
const SERIES: Colour = [0x8f, 0xb3, 0xd9];
const MEAN: Colour = [0xb2, 0x18, 0x2b];

/// The plot of one panel and the space around it, pixels.
const PLOT: [f32; 2] = [560.0, 190.0];
const LEFT: f32 = 110.0;
const RIGHT: f32 = 50.0;
const ABOVE: f32 = 44.0;
const BELOW: f32 = 76.0;
const CELL: [f32; 2] = [LEFT + PLOT[0] + RIGHT, ABOVE + PLOT[1] + BELOW];
const TOP: f32 = 84.0;

/// Sizes of text, pixels.
const TITLE: f32 = 26.0;
const LABEL: f32 = 19.0;

/// The most dates below a panel.
const MOST_DATES: usize = 8;

/// Draws the first [`MOST_PANELS`] columns of `table` and their `means` (row by row, as its values), and returns the
/// bytes of a PNG file. `title` stands above.
///
/// # Errors
/// Errors of the PNG encoder.
pub fn chart(table: &Table, means: &[f64], title: &str) -> Result<Vec<u8>, png::EncodingError> {
    let columns = table.names.len();
    let panels = columns.min(MOST_PANELS);
    let across = if panels > 1 { 2 } else { 1 };
    let down = panels.div_ceil(across);
    let (width, height) = (CELL[0] * across as f32, TOP + CELL[1] * down as f32);
    let mut canvas = Canvas::new(width as u32, height as u32, PAPER);
    let style = Style::new(TITLE, INK).bold();
    canvas.text(&style.face.shortened(title, width - LEFT), [LEFT, 30.0], style);
    legend(&mut canvas);
    for column in 0..panels {
        let [x, y] = [column % across, column / across].map(|place| place as f32);
        let corner = [LEFT + CELL[0] * x, TOP + ABOVE + CELL[1] * y];
        let of = |values: &[f64]| values.iter().skip(column).step_by(columns).copied().collect::<Vec<f64>>();
        Panel { table, corner, series: of(&table.values), means: of(means) }
            .draw(&mut canvas, &table.names[column]);
    }
    canvas.png()
}

fn legend(canvas: &mut Canvas) {
    let style = Style::new(LABEL, INK);
    let mut x = LEFT;
    let entries = [("value, in the table's own units", SERIES), ("rolling mean", MEAN)];
    for (name, colour) in entries {
        canvas.line(&[[x, 66.0], [x + 28.0, 66.0]], colour, 4.0);
        canvas.text(name, [x + 36.0, 66.0], style);
        x += style.face.width(name) + 64.0;
    }
}

/// One column.
struct Panel<'t> {
    table: &'t Table,
    /// The upper left of the plot.
    corner: [f32; 2],
    series: Vec<f64>,
    means: Vec<f64>,
}

impl Panel<'_> {
    fn draw(&self, canvas: &mut Canvas, name: &str) {
        let [left, top] = self.corner;
        let [wide, tall] = PLOT;
        let style = Style::new(LABEL, INK);
        let bold = style.bold();
        canvas.text(&bold.face.shortened(name, wide), [left, top - 18.0], bold);
        let ends = self.range();
        for (value, decimals) in ticks(ends[0], ends[1], 5.0) {
            let y = self.y(value, ends).round() + 0.5;
            canvas.line(&[[left, y], [left + wide, y]], GRID, 1.0);
            canvas.text(&label(value, decimals), [left - 9.0, y], style.align(Align::Right));
        }
        let (times, title) = self.times();
        for (time, text) in times {
            let x = self.x(time).round() + 0.5;
            canvas.line(&[[x, top + tall], [x, top + tall + 6.0]], INK, 1.0);
            canvas.text(&text, [x, top + tall + 20.0], style.align(Align::Centre));
        }
        let below = [left + 0.5 * wide, top + tall + 48.0];
        canvas.text(&style.face.shortened(&title, wide), below, style.align(Align::Centre));
        let there = |values: &[f64]| -> Vec<Option<[f32; 2]>> {
            let points = values.iter().zip(&self.table.times);
            points
                .map(|(&value, &time)| value.is_finite().then(|| [self.x(time), self.y(value, ends)]))
                .collect()
        };
        // Lines of values skip missing ones; lines of means are interrupted.
        let series: Vec<[f32; 2]> = there(&self.series).into_iter().flatten().collect();
        canvas.line(&series, SERIES, 1.5);
        for means in there(&self.means).split(Option::is_none) {
            let means: Vec<[f32; 2]> = means.iter().copied().flatten().collect();
            canvas.line(&means, MEAN, 2.5);
        }
        canvas.frame([[left, top], [left + wide, top + tall]], INK, 1.0);
    }

    /// The ends of the scale.
    fn range(&self) -> [f64; 2] {
        let finite = || self.series.iter().chain(&self.means).copied().filter(|value| value.is_finite());
        let (low, high) =
            (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
        match high - low {
            span if span > 0.0 && span.is_finite() => [low - 0.04 * span, high + 0.04 * span],
            _ if low.is_finite() => [low - 0.5 * low.abs().max(1.0), low + 0.5 * low.abs().max(1.0)],
            _ => [0.0, 1.0],
        }
    }

    fn x(&self, time: f64) -> f32 {
        let [first, last] = self.ends();
        self.corner[0] + PLOT[0] * part(time, first, last)
    }

    fn y(&self, value: f64, [low, high]: [f64; 2]) -> f32 {
        self.corner[1] + PLOT[1] * (1.0 - part(value, low, high))
    }

    fn ends(&self) -> [f64; 2] {
        let times = &self.table.times;
        [times.first(), times.last()].map(|time| time.copied().unwrap_or(0.0))
    }

    /// Round times and their labels, as many as fit, and the title of the axis.
    fn times(&self) -> (Vec<(f64, String)>, String) {
        let name = self.table.time.clone();
        let [first, last] = self.ends();
        if !self.table.dates {
            let all = if last > first { ticks(first, last, 6.0) } else { vec![(first, 0)] };
            return (all.into_iter().map(|(time, decimals)| (time, label(time, decimals))).collect(), name);
        }
        let face = Style::new(LABEL, INK).face;
        let wide = |(_, label): &(f64, String)| face.width(label) + 24.0;
        let dates = (2..=MOST_DATES)
            .rev()
            .map(|most| date_ticks(first, last, most))
            .find(|dates| dates.ticks.iter().map(wide).sum::<f32>() <= PLOT[0])
            .unwrap_or_else(|| date_ticks(first, last, 1));
        let title = dates.from.map_or(name.clone(), |day| format!("{name}, from {day} on"));
        (dates.ticks, title)
    }
}

/// A number of an axis; with an exponent if it would be too long.
fn label(value: f64, decimals: usize) -> String {
    if value == 0.0 || (1e-4..1e7).contains(&value.abs()) {
        number(value, decimals)
    } else {
        format!("{value:.1e}").replace('-', "−")
    }
}

/// The position of `value` from `low` (0) to `high` (1).
fn part(value: f64, low: f64, high: f64) -> f32 {
    if high > low { ((value - low) / (high - low)) as f32 } else { 0.5 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_tables_have_pictures_too() {
        let one = "t,a\n5,3\n";
        let nothing = "t,a\n2020-01-01,\n2020-01-02,\n";
        let wide =
            format!("t,{}\n1,{}\n2,{}\n", ["a"; 20].join(","), ["1"; 20].join(","), ["1e300"; 20].join(","));
        for text in [one, nothing, &wide] {
            let table = Table::from_bytes(text.as_bytes(), None, &[]).unwrap();
            let png = chart(&table, &table.values.clone(), "odd").unwrap();
            assert!(png.starts_with(b"\x89PNG\r\n"));
        }
    }
    #[test]
    fn the_dates_of_an_axis_are_round_and_fit() {
        let times = |text: &str| {
            let table = Table::from_bytes(text.as_bytes(), None, &[]).unwrap();
            let panel = Panel { table: &table, corner: [0.0; 2], series: Vec::new(), means: Vec::new() };
            let (times, title) = panel.times();
            (times.into_iter().map(|(_, label)| label).collect::<Vec<_>>(), title)
        };
        let (labels, title) = times("Date,a\n1990-01-01,1\n2022-06-28,2\n");
        assert_eq!(labels, ["1990", "1995", "2000", "2005", "2010", "2015", "2020"]);
        assert_eq!(title, "Date");
        // Wider labels are fewer.
        let (labels, _) = times("Date,a\n2020-01-01,1\n2020-02-03,2\n");
        assert_eq!(labels, ["2020-01-06", "2020-01-20", "2020-02-03"]);
        let (labels, title) = times("t,a\n2020-01-01T10:20:00,1\n2020-01-01T14:00:00,2\n");
        assert_eq!(labels, ["11:00", "12:00", "13:00", "14:00"]);
        assert_eq!(title, "t, from 2020-01-01 on");
        assert_eq!(times("t,a\n5,3\n"), (vec!["5".to_owned()], "t".to_owned()));
    }
}
