//! The colour bar beside a picture.

use super::canvas::{Canvas, Colour, Style};
use super::ticks::{number, signed, ticks};
use super::{FAINT, INK, Palette, bytes};

/// The width of a bar, and the height of its pointed ends, pixels.
const THICK: f32 = 26.0;
const POINT: f32 = 20.0;

/// The number of distinct colours: a value counts as within if it is beyond an end by less than one
/// colour.
const COLOURS: f64 = 256.0;

/// A vertical bar of colours with labelled ticks on its right, and its title above.
///
/// If values lie beyond an end, that end is pointed, and a note gives the extreme value. They have the colour of the
/// end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColourBar<'t> {
    /// The upper left corner, and the total height, pixels.
    pub(crate) corner: [f32; 2],
    pub(crate) tall: f32,
    pub(crate) palette: Palette,
    /// The values of the first and the last colour.
    pub(crate) range: [f64; 2],
    /// The smallest and the largest value of the picture.
    pub(crate) found: [f64; 2],
    /// The name of the values and their unit, which may be empty.
    pub(crate) title: &'t str,
    pub(crate) unit: &'t str,
    /// The size of the text, pixels.
    pub(crate) letters: f32,
}

impl ColourBar<'_> {
    pub(crate) fn draw(&self, canvas: &mut Canvas) {
        let [left, top] = self.corner;
        let line = 1.35 * self.letters;
        let style = Style::new(self.letters, INK);
        let title = match self.unit {
            "" => self.title.to_owned(),
            unit => format!("{} ({unit})", self.title),
        };
        canvas.text(&title, [left, top + 0.5 * line], style);
        let [below, above] = beyond(self.range, self.found);
        let room = |end: Option<f64>| end.map_or(0.0, |_| 2.0 * line + POINT);
        let [top, bottom] =
            [top + 1.6 * line + room(above), top + self.tall - 0.5 * line - room(below)].map(f32::round);
        self.colours(canvas, [top, bottom], [below.is_some(), above.is_some()]);
        let note = Style::new(0.9 * self.letters, FAINT);
        for (end, first) in [(below, bottom + POINT + 0.7 * line), (above, top - POINT - 1.5 * line)] {
            if let Some(value) = end {
                canvas.text("values reach", [left, first], note);
                canvas.text(&self.labelled(value), [left, first + line], note);
            }
        }
        let [first, last] = self.range;
        for (value, decimals) in ticks(first, last, 8.0) {
            let part = ((value - first) / (last - first)) as f32;
            let y = (bottom - part * (bottom - top)).round() + 0.5;
            canvas.line(&[[left + THICK, y], [left + THICK + 7.0, y]], INK, 1.0);
            canvas.text(&self.number(value, decimals), [left + THICK + 13.0, y], style);
        }
    }

    /// The colours from `top` to `bottom`, with a point at each end that values exceed.
    fn colours(&self, canvas: &mut Canvas, [top, bottom]: [f32; 2], [below, above]: [bool; 2]) {
        let left = self.corner[0];
        let right = left + THICK;
        let colour = |part: f32| -> Colour { bytes(self.palette.at(f64::from(part))) };
        let rows = (bottom - top).max(1.0) as i32;
        for row in 0..rows {
            let y = top + row as f32;
            let colour = colour(1.0 - row as f32 / (rows - 1).max(1) as f32);
            canvas.polygon(&[[left, y], [right, y], [right, y + 1.0], [left, y + 1.0]], colour);
        }
        let middle = 0.5 * (left + right);
        let high = above.then_some([middle, top - POINT]);
        let low = below.then_some([middle, bottom + POINT]);
        for (tip, y, part) in [(high, top, 1.0), (low, bottom, 0.0)] {
            if let Some(tip) = tip {
                canvas.polygon(&[[left, y], [right, y], tip], colour(part));
            }
        }
        let corners =
            [Some([left, top]), high, Some([right, top]), Some([right, bottom]), low, Some([left, bottom])];
        let outline: Vec<[f32; 2]> = corners.into_iter().flatten().collect();
        canvas.outline(&outline, INK, 1.0);
    }

    /// A value with its unit; three digits if ticks have fewer.
    fn labelled(&self, value: f64) -> String {
        let [first, last] = self.range;
        let of_ticks = ticks(first, last, 8.0).first().map_or(0, |&(_, decimals)| decimals as i32);
        let digits = (2 - value.abs().log10().floor().clamp(-9.0, 9.0) as i32).max(of_ticks).max(0);
        format!("{} {}", self.number(value, digits as usize), self.unit).trim_end().to_owned()
    }

    /// A number; with a sign if there are both signs.
    fn number(&self, value: f64, decimals: usize) -> String {
        let [first, last] = self.range;
        match (first < 0.0 && last > 0.0, value == 0.0) {
            (_, true) => "0".to_owned(),
            (true, _) => signed(value, decimals),
            _ => number(value, decimals),
        }
    }
}

/// The smallest and the largest value, if they exceed the range.
fn beyond([first, last]: [f64; 2], [smallest, largest]: [f64; 2]) -> [Option<f64>; 2] {
    let colour = (last - first) / COLOURS;
    [
        Some(smallest).filter(|&value| value < first - colour),
        Some(largest).filter(|&value| value > last + colour),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::{PAPER, SURFACE};
    use super::*;

    fn bar(found: [f64; 2]) -> ColourBar<'static> {
        ColourBar {
            corner: [10.0, 10.0],
            tall: 480.0,
            palette: SURFACE,
            range: [-1.0, 1.0],
            found,
            title: "Elevation",
            unit: "m",
            letters: 20.0,
        }
    }

    #[test]
    fn values_beyond_the_colours_are_told() {
        assert_eq!(beyond([-1.0, 1.0], [-2.55, 1.71]), [Some(-2.55), Some(1.71)]);
        assert_eq!(beyond([0.0, 2.5], [0.0, 3.2]), [None, Some(3.2)]);
        // Less than one colour of 256.
        assert_eq!(beyond([0.0, 1.0], [-0.003, 1.003]), [None, None]);
        assert_eq!(beyond([0.0, 1.0], [f64::NAN, f64::NAN]), [None, None]);
        let told = |value| bar([0.0, 0.0]).labelled(value);
        assert_eq!([told(-2.551), told(1.71), told(12.0)], ["−2.55 m", "+1.71 m", "+12.00 m"]);
        let tracer = ColourBar { range: [0.0, 1.0], unit: "", ..bar([0.0, 0.0]) };
        assert_eq!([tracer.labelled(-0.0123), tracer.labelled(1.25)], ["−0.0123", "1.25"]);
    }

    #[test]
    fn ends_are_pointed_where_there_are_values_beyond() {
        let drawn = |found| {
            let mut canvas = Canvas::new(200, 500, PAPER);
            bar(found).draw(&mut canvas);
            // Beside the points, if any, and beside the notes.
            let is_bar = |y| canvas.pixel(13, y) != Some(PAPER);
            let is_written = |rows: std::ops::Range<i32>| {
                let mut places = rows.flat_map(|y| (114..125).map(move |x| (x, y)));
                places.any(|(x, y)| canvas.pixel(x, y) != Some(PAPER))
            };
            [is_bar(115), is_written(64..74), is_bar(412), is_written(436..446)]
        };
        assert_eq!(drawn([-0.5, 0.5]), [true, false, true, false]);
        assert_eq!(drawn([-0.5, 1.71]), [false, true, true, false]);
        assert_eq!(drawn([-2.5, 0.5]), [true, false, false, true]);
    }
}
