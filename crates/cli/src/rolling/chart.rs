//! A picture of the columns of a table and their rolling means: a panel for each column.

use embedded_graphics::mono_font::iso_8859_1::{FONT_9X15, FONT_9X15_BOLD, FONT_10X20};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{Line, PrimitiveStyle, Rectangle};
use embedded_graphics::text::Alignment;
use jiff::SignedDuration;
use jiff::civil::DateTime;

use super::table::Table;
use crate::drawing::{Canvas, ticks};

/// The most panels of a picture.
pub const MOST_PANELS: usize = 12;

const INK: Rgb888 = Rgb888::new(0x26, 0x2b, 0x33);
const PAPER: Rgb888 = Rgb888::new(0xff, 0xff, 0xff);
const GRID: Rgb888 = Rgb888::new(0xe3, 0xe6, 0xea);
const SERIES: Rgb888 = Rgb888::new(0x8f, 0xb3, 0xd9);
const MEAN: Rgb888 = Rgb888::new(0xb2, 0x18, 0x2b);

/// Pixels of the plot of one panel, and around it.
const PLOT: [i32; 2] = [560, 190];
const LEFT: i32 = 90;
const ABOVE: i32 = 34;
const CELL: [i32; 2] = [PLOT[0] + LEFT + 60, PLOT[1] + ABOVE + 34];
const TITLE: i32 = 58;

/// Draws the first [`MOST_PANELS`] columns of `table` and their `means`, row by row as its values, as the bytes of a
/// PNG file. `title` stands above.
///
/// # Errors
/// What the encoder of PNG says.
pub fn chart(table: &Table, means: &[f64], title: &str) -> Result<Vec<u8>, png::EncodingError> {
    let columns = table.names.len();
    let panels = columns.min(MOST_PANELS);
    let across = if panels > 1 { 2 } else { 1 };
    let down = panels.div_ceil(across);
    let (width, height) = (CELL[0] * across as i32, TITLE + CELL[1] * down as i32);
    let mut canvas = Canvas::new(width as u32, height as u32, PAPER);
    canvas.text(title, Point::new(LEFT, 26), Alignment::Left, &FONT_10X20, INK);
    legend(&mut canvas, width);
    for column in 0..panels {
        let place = [column % across, column / across].map(|place| place as i32);
        let corner = Point::new(LEFT + CELL[0] * place[0], TITLE + ABOVE + CELL[1] * place[1]);
        let of = |values: &[f64]| values.iter().skip(column).step_by(columns).copied().collect::<Vec<f64>>();
        Panel { table, corner, series: of(&table.values), means: of(means) }
            .draw(&mut canvas, &table.names[column]);
    }
    canvas.png()
}

fn legend(canvas: &mut Canvas, width: i32) {
    for (name, colour, x) in [("value", SERIES, width - 270), ("rolling mean", MEAN, width - 160)] {
        line(canvas, [x - 34, 26, x - 10, 26], colour, 3);
        canvas.text(name, Point::new(x, 26), Alignment::Left, &FONT_9X15, INK);
    }
}

/// One column.
struct Panel<'t> {
    table: &'t Table,
    /// The upper left of the plot.
    corner: Point,
    series: Vec<f64>,
    means: Vec<f64>,
}

impl Panel<'_> {
    fn draw(&self, canvas: &mut Canvas, name: &str) {
        let Point { x: left, y: top } = self.corner;
        let [wide, tall] = PLOT;
        canvas.text(name, Point::new(left, top - 14), Alignment::Left, &FONT_9X15_BOLD, INK);
        let [low, high] = self.range();
        for (value, decimals) in ticks(low, high, 5.0) {
            let y = self.y(value, [low, high]);
            line(canvas, [left, y, left + wide, y], GRID, 1);
            let label = format!("{value:.decimals$}");
            canvas.text(&label, Point::new(left - 8, y), Alignment::Right, &FONT_9X15, INK);
        }
        for (time, label) in self.times() {
            let x = self.x(time);
            line(canvas, [x, top + tall, x, top + tall + 5], INK, 1);
            canvas.text(&label, Point::new(x, top + tall + 16), Alignment::Center, &FONT_9X15, INK);
        }
        let there = |values: &[f64]| -> Vec<Option<Point>> {
            let points = values.iter().zip(&self.table.times);
            points
                .map(|(&value, &time)| {
                    value.is_finite().then(|| Point::new(self.x(time), self.y(value, [low, high])))
                })
                .collect()
        };
        // Values are joined across those that are missing; means are not.
        let series: Vec<Option<Point>> = there(&self.series).into_iter().filter(Option::is_some).collect();
        stroke(canvas, &series, SERIES, 1);
        stroke(canvas, &there(&self.means), MEAN, 2);
        let frame = Rectangle::new(self.corner, Size::new(wide as u32 + 1, tall as u32 + 1));
        let Ok(()) = frame.into_styled(PrimitiveStyle::with_stroke(INK, 1)).draw(canvas);
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

    fn x(&self, time: f64) -> i32 {
        let [first, last] = self.ends();
        self.corner.x + (f64::from(PLOT[0]) * part(time, first, last)).round() as i32
    }

    fn y(&self, value: f64, [low, high]: [f64; 2]) -> i32 {
        self.corner.y + (f64::from(PLOT[1]) * (1.0 - part(value, low, high))).round() as i32
    }

    fn ends(&self) -> [f64; 2] {
        let times = &self.table.times;
        [times.first(), times.last()].map(|time| time.copied().unwrap_or(0.0))
    }

    /// Some times and their labels.
    fn times(&self) -> Vec<(f64, String)> {
        let [first, last] = self.ends();
        if !self.table.dates {
            let labels = ticks(first, if last > first { last } else { first + 1.0 }, 6.0);
            return labels.into_iter().map(|(time, decimals)| (time, format!("{time:.decimals$}"))).collect();
        }
        const BEGIN: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
        let steps = 4;
        (0..=steps)
            .map(|step| first + (last - first) * f64::from(step) / f64::from(steps))
            .filter_map(|time| {
                let date = BEGIN.checked_add(SignedDuration::from_secs(time as i64)).ok()?;
                Some((time, date.date().to_string()))
            })
            .collect()
    }
}

/// How far `value` is from `low` to `high`.
fn part(value: f64, low: f64, high: f64) -> f64 {
    if high > low { (value - low) / (high - low) } else { 0.5 }
}

/// Joins points that follow each other.
fn stroke(canvas: &mut Canvas, points: &[Option<Point>], colour: Rgb888, thick: u32) {
    for pair in points.windows(2) {
        if let [Some(from), Some(to)] = pair {
            line(canvas, [from.x, from.y, to.x, to.y], colour, thick);
        }
    }
}

fn line(canvas: &mut Canvas, [x0, y0, x1, y1]: [i32; 4], colour: Rgb888, thick: u32) {
    let Ok(()) = Line::new(Point::new(x0, y0), Point::new(x1, y1))
        .into_styled(PrimitiveStyle::with_stroke(colour, thick))
        .draw(canvas);
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
}
