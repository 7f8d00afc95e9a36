//! Pictures: the sea surface and the largest wave height over shaded relief.
//!
//! The outer edges of the grid are closed walls, which reflect: waves that a picture shows
//! coming from the edge of the map are such reflections.

use embedded_graphics::mono_font::iso_8859_1::{FONT_9X15, FONT_9X15_BOLD, FONT_10X20};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::Rectangle;
use embedded_graphics::primitives::{Circle, Line, PrimitiveStyle, PrimitiveStyleBuilder};
use embedded_graphics::text::Alignment;
use thiserror::Error;

use crate::drawing::{
    Canvas, ColourBar, FAINT, INK, LARGEST, PAPER, Palette, SURFACE, bytes, nice_below, ticks,
};
use crate::tsunami::gauges::PlacedGauge;
use crate::tsunami::relief::Relief;

mod map;

/// Why a picture could not be drawn.
#[derive(Debug, Error)]
pub enum PictureError {
    /// A field does not cover the relief.
    #[error("a picture of {ny} x {nx} cells needs as many values, found {found}")]
    Size {
        /// Rows of the relief.
        ny: usize,
        /// Columns of the relief.
        nx: usize,
        /// Values of the field.
        found: usize,
    },
    /// The end of the colour scale is no positive number.
    #[error("the colour scale must end above 0 m, found {found}")]
    Scale {
        /// The end asked for, metres.
        found: f64,
    },
}

/// Water shallower than this many metres is drawn as dry.
pub const DRY: f64 = 0.02;

/// Draws the elevation of the sea surface over shaded relief.
///
/// `depth` is the depth of the water in every cell of the relief, metres, row-major;
/// `time` in seconds; colours run from `-scale` to `scale` metres.
///
/// # Errors
/// [`PictureError`].
pub fn surface(
    relief: &Relief,
    gauges: &[PlacedGauge],
    depth: &[f64],
    time: f64,
    scale: f64,
) -> Result<Canvas, PictureError> {
    let cells = cells(relief, depth, |h, bed| map::Cell {
        value: (h > DRY).then_some(h + bed),
        level: if h > DRY { h } else { -bed.max(DRY) },
    })?;
    let (lowest, highest) = extremes(&cells);
    Chart {
        relief,
        gauges,
        cells,
        title: format!("Sea surface {} after the uplift", duration(time)),
        note: format!("lowest {} m, highest {} m", signed(lowest), signed(highest)),
        unit: "elevation, m",
        palette: SURFACE,
        range: [-scale, scale],
    }
    .draw()
}

/// Draws the largest wave height so far: above sea level at sea, depth of the flow on land.
///
/// `largest` is in metres, one value for each cell of the relief, row-major; `time` in
/// seconds; colours run from 0 to `scale` metres.
///
/// # Errors
/// [`PictureError`].
pub fn largest_wave(
    relief: &Relief,
    gauges: &[PlacedGauge],
    largest: &[f64],
    time: f64,
    scale: f64,
) -> Result<Canvas, PictureError> {
    let cells = cells(relief, largest, |height, bed| {
        let wet = bed < 0.0 || height > DRY;
        map::Cell {
            value: wet.then_some(height),
            level: if wet { height - bed.min(0.0) } else { -bed.max(DRY) },
        }
    })?;
    let (_, highest) = extremes(&cells);
    Chart {
        relief,
        gauges,
        cells,
        title: format!("Largest wave height in {}", duration(time)),
        note: format!("above sea level, on land depth of the flow; highest {highest:.2} m"),
        unit: "height, m",
        palette: LARGEST,
        range: [0.0, scale],
    }
    .draw()
}

const MARKER: Rgb888 = Rgb888::new(0xff, 0xd2, 0x3f);

/// Space around the map for title, labels and colour bar, pixels.
const LEFT: i32 = 92;
const TOP: i32 = 84;
const RIGHT: i32 = 160;
const BOTTOM: i32 = 52;

/// A picture about to be drawn.
struct Chart<'a> {
    relief: &'a Relief,
    gauges: &'a [PlacedGauge],
    cells: Vec<map::Cell>,
    title: String,
    note: String,
    unit: &'static str,
    palette: Palette,
    /// Values of the first and the last colour, metres.
    range: [f64; 2],
}

impl Chart<'_> {
    fn draw(&self) -> Result<Canvas, PictureError> {
        let [first, last] = self.range;
        let span = last - first;
        if !(last > 0.0 && span.is_finite()) {
            return Err(PictureError::Scale { found: last });
        }
        let frame = map::Frame::new(self.relief);
        let (width, height) = (frame.width as i32, frame.height as i32);
        let size = ((LEFT + width + RIGHT) as u32, (TOP + height + BOTTOM) as u32);
        let mut canvas = Canvas::new(size.0, size.1, PAPER);
        let colour = |value: f64| self.palette.at((value - first) / span);
        for (x, y, pixel) in map::paint(self.relief, &frame, &self.cells, colour) {
            canvas.put(LEFT + x as i32, TOP + y as i32, bytes(pixel));
        }
        self.axes(&mut canvas, &frame);
        self.scale_bar(&mut canvas, &frame);
        self.markers(&mut canvas, &frame);
        self.colour_bar(&mut canvas, width, height);
        let title = Point::new(LEFT, 28);
        for shift in [0, 1] {
            let at = title + Point::new(shift, 0);
            canvas.text(&self.title, at, Alignment::Left, &FONT_10X20, INK);
        }
        let note = Point::new(LEFT, 56);
        canvas.text(&self.note, note, Alignment::Left, &FONT_9X15, FAINT);
        Ok(canvas)
    }

    /// The frame of the map with ticks and their labels, degrees.
    fn axes(&self, canvas: &mut Canvas, frame: &map::Frame) {
        let height = frame.height as i32;
        let outline =
            Rectangle::new(Point::new(LEFT - 1, TOP - 1), Size::new(frame.width + 2, frame.height + 2));
        let Ok(()) = outline.into_styled(PrimitiveStyle::with_stroke(INK, 2)).draw(canvas);
        for (value, label) in degree_ticks(frame.west, frame.east, longitude_label) {
            let x = LEFT + frame.x(value) as i32;
            canvas.line([x, TOP + height, x, TOP + height + 8], INK);
            let at = Point::new(x, TOP + height + 24);
            canvas.text(&label, at, Alignment::Center, &FONT_10X20, INK);
        }
        for (value, label) in degree_ticks(frame.south, frame.north, latitude_label) {
            let y = TOP + frame.y(value) as i32;
            canvas.line([LEFT - 9, y, LEFT - 1, y], INK);
            let at = Point::new(LEFT - 14, y);
            canvas.text(&label, at, Alignment::Right, &FONT_10X20, INK);
        }
    }

    /// A length in kilometres, true on the middle latitude.
    fn scale_bar(&self, canvas: &mut Canvas, frame: &map::Frame) {
        let pixels_per_km = f64::from(frame.width) / frame.kilometres_across();
        let length = nice_below(0.22 * frame.kilometres_across());
        let pixels = (length * pixels_per_km) as i32;
        let (x, y) = (LEFT + 24, TOP + frame.height as i32 - 26);
        for (thick, colour) in [(7, PAPER), (3, INK)] {
            let ends = Line::new(Point::new(x, y), Point::new(x + pixels, y));
            let Ok(()) = ends.into_styled(PrimitiveStyle::with_stroke(colour, thick)).draw(canvas);
        }
        let at = Point::new(x + pixels / 2, y - 16);
        let label = format!("{length} km");
        canvas.rimmed_text(&label, at, Alignment::Center, &FONT_9X15, [INK, PAPER]);
    }

    /// A dot for each gauge and its name beside it, where there is most room.
    fn markers(&self, canvas: &mut Canvas, frame: &map::Frame) {
        let spots: Vec<Point> = self
            .gauges
            .iter()
            .map(|gauge| {
                let x = frame.x(gauge.longitude) as i32;
                let y = frame.y(gauge.latitude) as i32;
                Point::new(LEFT + x, TOP + y)
            })
            .collect();
        let dots: Vec<Rectangle> =
            spots.iter().map(|&spot| Rectangle::with_center(spot, Size::new(15, 15))).collect();
        let style = PrimitiveStyleBuilder::new().fill_color(MARKER).stroke_color(INK).stroke_width(2).build();
        for &spot in &spots {
            let Ok(()) = Circle::with_center(spot, 11).into_styled(style).draw(canvas);
        }
        let map = Rectangle::new(Point::new(LEFT, TOP), Size::new(frame.width, frame.height));
        let mut taken = dots;
        for (gauge, &spot) in self.gauges.iter().zip(&spots) {
            let name = &gauge.gauge.name;
            let label =
                label_places(spot, name).into_iter().min_by_key(|label| crowding(label, &map, &taken));
            if let Some(label) = label {
                let at = label.center();
                canvas.rimmed_text(name, at, Alignment::Center, &FONT_9X15_BOLD, [INK, PAPER]);
                taken.push(label);
            }
        }
    }

    fn colour_bar(&self, canvas: &mut Canvas, width: i32, height: i32) {
        let left = LEFT + width + 34;
        ColourBar {
            corner: Point::new(left, TOP + 62),
            tall: height - 124,
            palette: self.palette,
            range: self.range,
            pointed: [self.range[0] < 0.0, true],
        }
        .draw(canvas);
        let at = Point::new(left - 6, TOP + 14);
        canvas.text(self.unit, at, Alignment::Left, &FONT_10X20, INK);
    }
}

fn cells(
    relief: &Relief,
    field: &[f64],
    cell: impl Fn(f64, f64) -> map::Cell,
) -> Result<Vec<map::Cell>, PictureError> {
    if field.len() != relief.elevation.len() {
        return Err(PictureError::Size { ny: relief.ny(), nx: relief.nx(), found: field.len() });
    }
    let pairs = field.iter().zip(&relief.elevation);
    Ok(pairs.map(|(&value, &bed)| cell(value, bed)).collect())
}

/// Smallest and largest value of the wet cells; zero where there are none.
fn extremes(cells: &[map::Cell]) -> (f64, f64) {
    let values = || cells.iter().filter_map(|cell| cell.value);
    match values().next() {
        None => (0.0, 0.0),
        Some(first) => (values().fold(first, f64::min), values().fold(first, f64::max)),
    }
}

/// Seconds in words, to the second.
fn duration(time: f64) -> String {
    let seconds = time.max(0.0).round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes} min {seconds:02} s"),
        _ => format!("{hours} h {minutes:02} min {seconds:02} s"),
    }
}

/// Two decimals with a sign, except for zero.
fn signed(value: f64) -> String {
    match (value * 100.0).round() {
        0.0 => "0".to_owned(),
        _ => format!("{value:+.2}"),
    }
}

fn degree_ticks(first: f64, last: f64, label: impl Fn(f64, usize) -> String) -> Vec<(f64, String)> {
    ticks(first, last, 7.0).into_iter().map(|(value, decimals)| (value, label(value, decimals))).collect()
}

fn longitude_label(value: f64, decimals: usize) -> String {
    let east = (value + 180.0).rem_euclid(360.0) - 180.0;
    hemisphere(east, decimals, ["W", "E"])
}

fn latitude_label(value: f64, decimals: usize) -> String {
    hemisphere(value, decimals, ["S", "N"])
}

fn hemisphere(value: f64, decimals: usize, [negative, positive]: [&str; 2]) -> String {
    let side = match value {
        value if value < 0.0 => negative,
        value if value > 0.0 => positive,
        _ => "",
    };
    format!("{:.decimals$}°{side}", value.abs())
}

/// Boxes around a marker that its name could fill.
fn label_places(spot: Point, name: &str) -> Vec<Rectangle> {
    let size = Size::new(9 * name.chars().count() as u32 + 6, 17);
    let (across, up) = (size.width as i32 / 2 + 12, 19);
    [
        (across, 0),
        (-across, 0),
        (0, up),
        (0, -up),
        (across - 6, up - 5),
        (across - 6, 5 - up),
        (6 - across, up - 5),
        (6 - across, 5 - up),
    ]
    .map(|(x, y)| Rectangle::with_center(spot + Point::new(x, y), size))
    .to_vec()
}

/// How much of a label lies outside the map or on others, square pixels.
fn crowding(label: &Rectangle, map: &Rectangle, taken: &[Rectangle]) -> u32 {
    let area = |part: Rectangle| part.size.width * part.size.height;
    let outside = area(*label) - area(label.intersection(map));
    let covered: u32 = taken.iter().map(|other| area(label.intersection(other))).sum();
    4 * outside + covered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_hemispheres_and_durations() {
        assert_eq!(longitude_label(234.5, 1), "125.5°W");
        assert_eq!(longitude_label(12.0, 0), "12°E");
        assert_eq!(latitude_label(-3.0, 0), "3°S");
        assert_eq!(duration(59.6), "1 min 00 s");
        assert_eq!(duration(3_725.0), "1 h 02 min 05 s");
    }

    #[test]
    fn errors_say_what_was_expected_and_found() {
        let axis = |first: f64| (0..4).map(|i| first + f64::from(i)).collect::<Vec<_>>();
        let relief = Relief::new(axis(10.0), axis(40.0), vec![-5.0; 16]).unwrap();
        let message =
            |depth: &[f64], scale| surface(&relief, &[], depth, 0.0, scale).unwrap_err().to_string();
        assert_eq!(message(&[0.0; 3], 1.0), "a picture of 4 x 4 cells needs as many values, found 3");
        assert_eq!(message(&[5.0; 16], 0.0), "the colour scale must end above 0 m, found 0");
        let picture = surface(&relief, &[], &[5.0; 16], 0.0, 1.0).unwrap();
        assert!(picture.png().unwrap().starts_with(b"\x89PNG\r\n"));
    }
}
