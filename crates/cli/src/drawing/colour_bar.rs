//! The bar beside a picture that says which colour is which value.

use embedded_graphics::mono_font::iso_8859_1::FONT_10X20;
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{PrimitiveStyle, Triangle};
use embedded_graphics::text::Alignment;

use super::{Canvas, INK, Palette, bytes};

/// The width of a bar, pixels.
const THICK: i32 = 24;

/// A vertical bar of colours with labelled ticks on its right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColourBar {
    /// The upper left corner of the colours, without the points.
    pub(crate) corner: Point,
    /// The height of the colours, pixels.
    pub(crate) tall: i32,
    pub(crate) palette: Palette,
    /// The values of the first and the last colour.
    pub(crate) range: [f64; 2],
    /// Whether the lower and the upper end are pointed: colours of values beyond the scale are those at its ends.
    pub(crate) pointed: [bool; 2],
}

impl ColourBar {
    pub(crate) fn draw(&self, canvas: &mut Canvas) {
        let Point { x: left, y: top } = self.corner;
        let [first, last] = self.range;
        let (right, bottom) = (left + THICK, top + self.tall + 1);
        let colour = |part: f64| {
            let [r, g, b] = bytes(self.palette.at(part));
            Rgb888::new(r, g, b)
        };
        for y in 0..=self.tall {
            let part = 1.0 - f64::from(y) / f64::from(self.tall);
            canvas.line([left, top + y, right - 1, top + y], colour(part));
        }
        let mut outline = vec![[left, top - 1]];
        if self.pointed[1] {
            outline.push([left + THICK / 2, top - 18]);
        }
        outline.extend([[right, top - 1], [right, bottom]]);
        if self.pointed[0] {
            outline.push([left + THICK / 2, bottom + 17]);
        }
        outline.push([left, bottom]);
        for (pointed, y, tip, part) in
            [(self.pointed[1], top - 1, -16, 1.0), (self.pointed[0], bottom, 16, 0.0)]
        {
            if pointed {
                let corners = [Point::new(left, y), Point::new(right - 1, y)];
                let tip = Point::new(left + THICK / 2, y + tip);
                let fill = PrimitiveStyle::with_fill(colour(part));
                let Ok(()) = Triangle::new(corners[0], corners[1], tip).into_styled(fill).draw(canvas);
            }
        }
        for (from, to) in outline.iter().zip(outline.iter().cycle().skip(1)) {
            canvas.line([from[0], from[1], to[0], to[1]], INK);
        }
        for (value, decimals) in ticks(first, last, 8.0) {
            let part = (value - first) / (last - first);
            let y = top + (f64::from(self.tall) * (1.0 - part)).round() as i32;
            canvas.line([right, y, right + 7, y], INK);
            let label = match (first < 0.0 && value > 0.0, value == 0.0) {
                (true, _) => format!("+{value:.decimals$}"),
                (_, true) => "0".to_owned(),
                _ => format!("{value:.decimals$}"),
            };
            canvas.text(&label, Point::new(right + 13, y), Alignment::Left, &FONT_10X20, INK);
        }
    }
}

/// Round values from `first` to `last`, about `wanted` of them, and their decimals.
pub(crate) fn ticks(first: f64, last: f64, wanted: f64) -> Vec<(f64, usize)> {
    let step = nice_below((last - first) / wanted * 1.6);
    let decimals = (0..6)
        .find(|&digits| {
            let scaled = step * 10_f64.powi(digits);
            (scaled - scaled.round()).abs() < 1e-6
        })
        .unwrap_or(6) as usize;
    let slack = 1e-9 * (last - first);
    let (low, high) = ((first - slack) / step, (last + slack) / step);
    (low.ceil() as i64..=high.floor() as i64).map(|count| (count as f64 * step, decimals)).collect()
}

/// The largest of 1, 2, 2.5 and 5 times a power of ten that does not exceed `value`.
pub(crate) fn nice_below(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let multiples = [5.0, 2.5, 2.0, 1.0].map(|multiple| multiple * power);
    multiples.into_iter().find(|&nice| nice <= value * (1.0 + 1e-12)).unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_range() {
        let values = |first, last, wanted| -> Vec<f64> {
            let ticks = ticks(first, last, wanted);
            ticks.into_iter().map(|(value, _)| value).collect()
        };
        assert_eq!(values(-1.0, 1.0, 8.0), [-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(values(233.98, 237.99, 7.0), [234.0, 234.5, 235.0, 235.5, 236.0, 236.5, 237.0, 237.5]);
    }
}
