//! Pictures: the sea surface and the largest wave height between shaded land.
//!
//! The outer edges of the grid are closed walls: waves that come from the edge of the map are reflections.

use thiserror::Error;

use crate::drawing::{
    Align, Canvas, Colour, ColourBar, FAINT, INK, LARGEST, PAPER, Palette, SURFACE, Style, bytes, nice_above,
    nice_below, signed, ticks,
};
use crate::tsunami::model::gauges::LocatedGauge;
use crate::tsunami::model::relief::Relief;

mod map;

/// The error of a picture that cannot be drawn.
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
    /// A value is infinite.
    #[error("a picture needs finite values, found {found} m")]
    Values {
        /// The value that is farthest from 0, metres.
        found: f64,
    },
}

/// Water shallower than this many metres is drawn as dry.
pub const DRY: f64 = 0.02;

/// The end of the colours if all values are nearer to 0, metres: rounding errors of water at rest are no waves.
const LEAST_END: f64 = 0.01;

/// Draws the elevation of the sea surface between shaded land.
///
/// `depth` is the depth of the water in every cell of the relief, metres, row-major; `time` in seconds. Colours run as
/// far above 0 as below, to a round number that no value exceeds; water at rest has the colour of 0.
///
/// # Errors
/// [`PictureError`].
pub fn surface(
    relief: &Relief,
    gauges: &[LocatedGauge],
    depth: &[f64],
    time: f64,
) -> Result<Canvas, PictureError> {
    let cells = cells(relief, depth, |h, bed| map::Cell {
        value: (h > DRY).then_some(h + bed),
        level: if h > DRY { h } else { -bed.max(DRY) },
    })?;
    let (lowest, highest) = extremes(&cells);
    let end = end_of_colours(lowest, highest)?;
    let chart = Chart {
        relief,
        gauges,
        cells,
        title: format!("Sea surface {} after the uplift", duration(time)),
        note: format!("lowest {} m, highest {} m", signed(lowest, 2), signed(highest, 2)),
        what: "Elevation",
        palette: SURFACE,
        range: [-end, end],
        found: [lowest, highest],
    };
    Ok(chart.draw())
}

/// Draws the largest wave height so far: above sea level at sea, depth of the flow on land.
///
/// `largest` is in metres, one value for each cell of the relief, row-major; `time` in seconds. Colours run from 0 to a
/// round number that no value exceeds.
///
/// # Errors
/// [`PictureError`].
pub fn largest_wave(
    relief: &Relief,
    gauges: &[LocatedGauge],
    largest: &[f64],
    time: f64,
) -> Result<Canvas, PictureError> {
    let cells = cells(relief, largest, |height, bed| {
        let wet = bed < 0.0 || height > DRY;
        map::Cell {
            value: wet.then_some(height),
            level: if wet { height - bed.min(0.0) } else { -bed.max(DRY) },
        }
    })?;
    let (lowest, highest) = extremes(&cells);
    let end = end_of_colours(lowest, highest)?;
    let chart = Chart {
        relief,
        gauges,
        cells,
        title: format!("Largest wave height in {}", duration(time)),
        note: format!("above sea level, on land depth of the flow; highest {highest:.2} m"),
        what: "Height",
        palette: LARGEST,
        range: [0.0, end],
        found: [lowest, highest],
    };
    Ok(chart.draw())
}

const MARKER: Colour = [0xff, 0xd2, 0x3f];

/// Space around the map for titles, labels and the colour bar, pixels.
const LEFT: i32 = 160;
const TOP: i32 = 104;
const RIGHT: i32 = 206;
const BOTTOM: i32 = 92;

/// Sizes of text, pixels: legible at 60 % of the picture's width.
const TITLE: f32 = 30.0;
const LABEL: f32 = 22.0;
const NAME: f32 = 20.0;

/// The radius of a marker, pixels.
const DOT: f32 = 7.0;

/// The contents of a picture.
struct Chart<'a> {
    relief: &'a Relief,
    gauges: &'a [LocatedGauge],
    cells: Vec<map::Cell>,
    title: String,
    note: String,
    /// The values to colour, metres.
    what: &'static str,
    palette: Palette,
    /// Values of the first and the last colour, metres.
    range: [f64; 2],
    /// The smallest and the largest value, metres.
    found: [f64; 2],
}

impl Chart<'_> {
    fn draw(&self) -> Canvas {
        let [first, last] = self.range;
        let span = last - first;
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
        ColourBar {
            corner: [(LEFT + width + 32) as f32, TOP as f32],
            tall: height as f32,
            palette: self.palette,
            range: self.range,
            found: self.found,
            title: self.what,
            unit: "m",
            letters: LABEL,
        }
        .draw(&mut canvas);
        canvas.text(&self.title, [LEFT as f32, 36.0], Style::new(TITLE, INK).bold());
        canvas.text(&self.note, [LEFT as f32, 76.0], Style::new(LABEL, FAINT));
        canvas
    }

    /// The frame of the map with ticks, their labels and titles, degrees.
    fn axes(&self, canvas: &mut Canvas, frame: &map::Frame) {
        let [left, top] = [LEFT as f32, TOP as f32];
        let [right, bottom] = [left + frame.width as f32, top + frame.height as f32];
        canvas.frame([[left - 1.0, top - 1.0], [right + 1.0, bottom + 1.0]], INK, 2.0);
        let label = Style::new(LABEL, INK);
        for (value, text) in degree_ticks(frame.west, frame.east, longitude_label) {
            let x = left + frame.x(value) as f32;
            canvas.line(&[[x, bottom], [x, bottom + 10.0]], INK, 2.0);
            canvas.text(&text, [x, bottom + 26.0], label.align(Align::Centre));
        }
        let middle = [0.5 * (left + right), bottom + 66.0];
        canvas.text("Longitude (degrees)", middle, label.align(Align::Centre));
        for (value, text) in degree_ticks(frame.south, frame.north, latitude_label) {
            let y = top + frame.y(value) as f32;
            canvas.line(&[[left - 10.0, y], [left, y]], INK, 2.0);
            canvas.text(&text, [left - 16.0, y], label.align(Align::Right));
        }
        let middle = [22.0, 0.5 * (top + bottom)];
        canvas.text("Latitude (degrees)", middle, label.align(Align::Centre).upwards());
    }

    /// A scale bar in kilometres, true on the middle latitude.
    fn scale_bar(&self, canvas: &mut Canvas, frame: &map::Frame) {
        let pixels_per_km = f64::from(frame.width) / frame.kilometres_across();
        let length = nice_below(0.22 * frame.kilometres_across());
        let pixels = (length * pixels_per_km) as f32;
        let [x, y] = [LEFT as f32 + 24.0, (TOP + frame.height as i32) as f32 - 26.0];
        for (beyond, thick, colour) in [(2.0, 8.0, PAPER), (0.0, 4.0, INK)] {
            canvas.line(&[[x - beyond, y], [x + pixels + beyond, y]], colour, thick);
        }
        let style = Style::new(NAME, INK).rim(PAPER).align(Align::Centre);
        canvas.text(&format!("{length} km"), [x + 0.5 * pixels, y - 20.0], style);
    }

    /// A dot for each gauge, and its name beside it, at the side with most room.
    fn markers(&self, canvas: &mut Canvas, frame: &map::Frame) {
        let spot = |gauge: &LocatedGauge| {
            let [x, y] = [frame.x(gauge.longitude) as f32, frame.y(gauge.latitude) as f32];
            [LEFT as f32 + x, TOP as f32 + y]
        };
        let spots: Vec<[f32; 2]> = self.gauges.iter().map(spot).collect();
        for &spot in &spots {
            canvas.disc(spot, DOT + 1.0, INK);
            canvas.disc(spot, DOT - 1.0, MARKER);
        }
        let [width, height] = [frame.width as f32, frame.height as f32];
        let map =
            Patch { middle: [LEFT as f32 + 0.5 * width, TOP as f32 + 0.5 * height], size: [width, height] };
        let dot = |&middle: &[f32; 2]| Patch { middle, size: [2.0 * DOT + 4.0; 2] };
        let mut taken: Vec<Patch> = spots.iter().map(dot).collect();
        let style = Style::new(NAME, INK).bold().rim(PAPER).align(Align::Centre);
        for (gauge, &spot) in self.gauges.iter().zip(&spots) {
            let name = &gauge.gauge.name;
            let positions = label_positions(spot, [style.face.width(name) + 8.0, 1.2 * NAME]);
            let best = positions
                .into_iter()
                .min_by(|one, other| crowding(one, &map, &taken).total_cmp(&crowding(other, &map, &taken)));
            if let Some(label) = best {
                canvas.text(name, label.middle, style);
                taken.push(label);
            }
        }
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

/// Smallest and largest value of the wet cells; zero if there are none.
fn extremes(cells: &[map::Cell]) -> (f64, f64) {
    let values = || cells.iter().filter_map(|cell| cell.value);
    match values().next() {
        None => (0.0, 0.0),
        Some(first) => (values().fold(first, f64::min), values().fold(first, f64::max)),
    }
}

/// The end of the colours, metres: a round number that no value exceeds.
fn end_of_colours(lowest: f64, highest: f64) -> Result<f64, PictureError> {
    let found = if highest.abs() < lowest.abs() { lowest } else { highest };
    if !found.is_finite() {
        return Err(PictureError::Values { found });
    }
    Ok(nice_above(found.abs().max(LEAST_END)))
}

/// Seconds in words, to the second.
fn duration(time: f64) -> String {
    let seconds = time.max(0.0).round() as u64;
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
    let words: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count} {unit}")).collect();
    if words.is_empty() { "0 s".to_owned() } else { words.join(" ") }
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

/// A part of the picture: a rectangle, pixels.
#[derive(Clone, Copy)]
struct Patch {
    middle: [f32; 2],
    /// Width and height.
    size: [f32; 2],
}

impl Patch {
    fn area(&self) -> f32 {
        self.size[0] * self.size[1]
    }

    /// The area of the intersection.
    fn common(&self, other: &Patch) -> f32 {
        let along = |axis: usize| {
            let apart = (self.middle[axis] - other.middle[axis]).abs();
            let touching = 0.5 * (self.size[axis] + other.size[axis]);
            (touching - apart).clamp(0.0, self.size[axis].min(other.size[axis]))
        };
        along(0) * along(1)
    }
}

/// The positions that the name of a marker, of this width and height, may have.
fn label_positions([x, y]: [f32; 2], size: [f32; 2]) -> [Patch; 8] {
    let (across, up) = (0.5 * size[0] + DOT + 6.0, 0.5 * size[1] + DOT + 3.0);
    [
        (across, 0.0),
        (-across, 0.0),
        (0.0, up),
        (0.0, -up),
        (across - 8.0, up - 6.0),
        (across - 8.0, 6.0 - up),
        (8.0 - across, up - 6.0),
        (8.0 - across, 6.0 - up),
    ]
    .map(|(right, down)| Patch { middle: [x + right, y + down], size })
}

/// The area of a label that lies outside of the map or on other labels, square pixels.
fn crowding(label: &Patch, map: &Patch, taken: &[Patch]) -> f32 {
    let outside = label.area() - label.common(map);
    let covered: f32 = taken.iter().map(|other| label.common(other)).sum();
    4.0 * outside + covered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_hemispheres_and_durations() {
        assert_eq!(longitude_label(234.5, 1), "125.5°W");
        assert_eq!(longitude_label(12.0, 0), "12°E");
        assert_eq!(latitude_label(-3.0, 0), "3°S");
        assert_eq!(duration(59.6), "1 min");
        assert_eq!(duration(3_725.0), "1 h 2 min 5 s");
    }

    #[test]
    fn errors_say_what_was_expected_and_found() {
        let axis = |first: f64| (0..4).map(|i| first + f64::from(i)).collect::<Vec<_>>();
        let relief = Relief::new(axis(10.0), axis(40.0), vec![-5.0; 16]).unwrap();
        let message = |depth: &[f64]| surface(&relief, &[], depth, 0.0).unwrap_err().to_string();
        assert_eq!(message(&[0.0; 3]), "a picture of 4 x 4 cells needs as many values, found 3");
        assert_eq!(message(&[f64::INFINITY; 16]), "a picture needs finite values, found inf m");
        let picture = surface(&relief, &[], &[5.0; 16], 0.0).unwrap();
        assert!(picture.png().unwrap().starts_with(b"\x89PNG\r\n"));
    }
}
