//! A picture of the tracer on the globe at several times.

use haloport_mesh::{Mesh, Partition};
use thiserror::Error;

use super::model::tracer::Tracer;
use super::model::wind::PERIOD;
use crate::drawing::{Align, Canvas, ColourBar, FAINT, INK, PAPER, Style, TRACER};
pub use globe::Snapshot;
use globe::{Globe, RADIUS};

mod globe;

/// The error of a picture that cannot be drawn.
#[derive(Debug, Error)]
pub enum PictureError {
    /// A field does not cover the mesh.
    #[error("a picture of {cells} cells needs as many values, found {found}")]
    Size {
        /// Cells of the mesh.
        cells: usize,
        /// Values of the field.
        found: usize,
    },
}

/// Space around the globes, pixels.
const LEFT: i32 = 40;
const TOP: i32 = 136;
const GAP: i32 = 22;
const RIGHT: i32 = 196;
const BOTTOM: i32 = 116;

/// Sizes of text, pixels: legible at half the picture's width.
const TITLE: f32 = 34.0;
const LABEL: f32 = 26.0;
const NOTE: f32 = 24.0;

/// Draws one globe for each snapshot of the first level, seen from above its hill, with the borders between the parts
/// and the exact solution's half height. `note` stands below the title.
///
/// # Errors
/// [`PictureError::Size`].
pub fn globes(
    mesh: &Mesh,
    partition: &Partition,
    tracer: &Tracer,
    snapshots: &[Snapshot],
    note: &str,
) -> Result<Canvas, PictureError> {
    let (across, count) = (2 * RADIUS, snapshots.len() as i32);
    let (width, height) = (LEFT + count * (across + GAP) + RIGHT, TOP + across + BOTTOM);
    let mut canvas = Canvas::new(width as u32, height as u32, PAPER);
    for (number, snapshot) in (0..).zip(snapshots) {
        let (cells, found) = (mesh.cells(), snapshot.values.len());
        if found != cells {
            return Err(PictureError::Size { cells, found });
        }
        let corner = [LEFT + number * (across + GAP), TOP];
        Globe::new(mesh, partition, tracer, snapshot).draw(&mut canvas, corner);
        let below = [(corner[0] + RADIUS) as f32, (TOP + across + 30) as f32];
        let style = Style::new(LABEL, INK).align(Align::Centre);
        canvas.text(&format!("day {}", short(snapshot.days)), below, style);
    }
    let left = LEFT as f32;
    let end = snapshots.last().map_or(0.0, |snapshot| snapshot.days);
    let title = format!("A tracer carried {} in {}", way(end), counted(end));
    canvas.text(&title, [left, 40.0], Style::new(TITLE, INK).bold());
    let style = Style::new(NOTE, FAINT);
    canvas.text(&style.face.shortened(note, width as f32 - 2.0 * left), [left, 90.0], style);
    let lines = if partition.parts() > 1 {
        "white lines: borders between ranks; dashed: half height of the exact solution"
    } else {
        "dashed: half height of the exact solution"
    };
    canvas.text(lines, [left, height as f32 - 30.0], style);
    ColourBar {
        corner: [(LEFT + count * (across + GAP) + 16) as f32, TOP as f32],
        tall: across as f32,
        palette: TRACER,
        range: [0.0, 1.0],
        found: extremes(snapshots),
        title: "Tracer",
        unit: "",
        letters: LABEL,
    }
    .draw(&mut canvas);
    Ok(canvas)
}

/// The way of the tracer: whole rounds, or degrees.
fn way(days: f64) -> String {
    let rounds = days / PERIOD;
    match rounds.round() {
        1.0 if rounds == 1.0 => "once round the sphere".into(),
        2.0 if rounds == 2.0 => "twice round the sphere".into(),
        whole if rounds == whole && whole > 0.0 => format!("{whole} times round the sphere"),
        _ => format!("{}° round the sphere", short(360.0 * rounds)),
    }
}

/// The smallest and the largest value of all snapshots.
fn extremes(snapshots: &[Snapshot]) -> [f64; 2] {
    let values = || snapshots.iter().flat_map(|snapshot| &snapshot.values).copied();
    [values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max)]
}

/// A number of days: `1 day`, `1.5 days`.
fn counted(days: f64) -> String {
    let unit = if days == 1.0 { "day" } else { "days" };
    format!("{} {unit}", short(days))
}

/// A number without superfluous digits.
fn short(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::super::model::tracer::Shape;
    use super::super::model::wind::Wind;
    use super::*;

    #[test]
    fn a_hill_shows_on_its_globe_and_wrong_sizes_are_refused() {
        let mesh = Mesh::icosahedral(8).unwrap();
        let partition = Partition::by_curve(&mesh, 3).unwrap();
        let tracer = Tracer { shape: Shape::Gaussian, levels: 1, wind: Wind::tilted(0.5) };
        let hill = Snapshot { days: 3.0, values: tracer.means(&mesh, 3.0) };
        let flat = Snapshot { days: 3.0, values: vec![0.0; mesh.cells()] };
        let picture = globes(&mesh, &partition, &tracer, &[hill, flat], "").unwrap();
        let bright = |from: i32| {
            let columns = from..from + 2 * RADIUS;
            let pixels = columns.flat_map(|x| (TOP..TOP + 2 * RADIUS).map(move |y| (x, y)));
            pixels
                .filter_map(|(x, y)| picture.pixel(x, y))
                .filter(|[red, _, blue]| *red > 200 && *blue < 100)
                .count()
        };
        assert!(bright(LEFT) > 1000 && bright(LEFT + 2 * RADIUS + GAP) == 0);
        let short = Snapshot { days: 0.0, values: vec![0.0; 7] };
        let refused = globes(&mesh, &partition, &tracer, &[short], "").unwrap_err();
        assert_eq!(refused.to_string(), "a picture of 1280 cells needs as many values, found 7");
    }

    #[test]
    fn days_are_short() {
        assert_eq!([short(12.0), short(1.5), short(0.125), short(0.0)], ["12", "1.5", "0.12", "0"]);
        assert_eq!([counted(1.0), counted(1.5)], ["1 day", "1.5 days"]);
    }

    #[test]
    fn the_way_is_told_as_far_as_it_was_gone() {
        let ways = [3.0, 12.0, 13.5, 24.0, 36.0, 0.01].map(way);
        let expected = [
            "90° round the sphere",
            "once round the sphere",
            "405° round the sphere",
            "twice round the sphere",
            "3 times round the sphere",
            "0.3° round the sphere",
        ];
        assert_eq!(ways, expected);
    }
}
