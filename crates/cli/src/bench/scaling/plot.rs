//! The growth of all figures over the number of ranks, as a picture.

use plotters::prelude::*;

use super::report::{Row, Series, Spread};
use haloport_demos::drawing::{Plot, PlotArea, PlotError};

/// About the width of a page, so that text stays legible.
const SIZE: (u32, u32) = (920, 850);
const COLOURS: [RGBColor; 3] =
    [RGBColor(0x1b, 0x6c, 0xa8), RGBColor(0xc8, 0x55, 0x3d), RGBColor(0x5a, 0x8f, 0x3c)];
const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
const FAINT: RGBColor = RGBColor(0xd5, 0xd9, 0xdd);

/// The mean and the largest figure of all ranks; one that is `None` is not drawn.
type Figure = fn(&Row) -> (Option<f64>, Option<f64>);

/// The diagrams: a title, the figure, and whether naming owners changes it.
const PANELS: [(&str, Figure, bool); 6] = [
    ("messages of an exchange", |row| both(row.messages, 1.0), false),
    ("bytes of an exchange (KiB)", |row| both(row.bytes, 1024.0), false),
    // No time if all ranks are on one node: nothing crosses the network.
    (
        "time of an exchange by LogGP (µs)",
        |row| (None, Some(row.own_port.haloport_us).filter(|_| row.messages_between_nodes.largest > 0)),
        false,
    ),
    ("messages of setup", |row| both(row.setup_messages, 1.0), true),
    ("bytes of setup (KiB)", |row| both(row.setup_bytes, 1024.0), true),
    ("entries of the largest table", |row| both(row.largest_table, 1.0), true),
];

fn both(figure: Spread, unit: f64) -> (Option<f64>, Option<f64>) {
    (Some(figure.mean / unit), Some(figure.largest as f64 / unit))
}

/// The picture.
pub(super) struct Growth<'s>(pub(super) &'s [Series]);

impl Plot for Growth<'_> {
    fn size(&self) -> (u32, u32) {
        SIZE
    }

    fn draw<B: DrawingBackend>(&self, area: &PlotArea<B>) -> Result<(), PlotError<B>> {
        area.fill(&WHITE)?;
        let (legend, panels) = area.split_vertically(70);
        draw_legend(&legend, self.0)?;
        for (area, panel) in panels.split_evenly((3, 2)).iter().zip(&PANELS) {
            draw_panel(area, panel, self.0)?;
        }
        Ok(())
    }
}

fn draw_legend<B: DrawingBackend>(area: &PlotArea<B>, series: &[Series]) -> Result<(), PlotError<B>> {
    let style = ("sans-serif", 17).into_font().color(&INK);
    for ((series, colour), x) in series.iter().zip(COLOURS).zip((60..).step_by(110)) {
        area.draw(&Circle::new((x, 22), 5, colour.filled()))?;
        area.draw(&Text::new(series.name, (x + 12, 16), style.clone()))?;
    }
    let note = "The work of each rank is fixed. Filled: the rank that has most; open: the mean of all ranks.";
    area.draw(&Text::new(note, (50, 44), style))
}

fn draw_panel<B: DrawingBackend>(
    area: &PlotArea<B>,
    (title, figure, all): &(&str, Figure, bool),
    series: &[Series],
) -> Result<(), PlotError<B>> {
    let drawn = || series.iter().zip(COLOURS).take(if *all { 3 } else { 2 });
    let rows = || drawn().flat_map(|(series, _)| &series.rows);
    let power = |row: &Row| (row.ranks as f64).log2();
    let most = rows().filter_map(|row| figure(row).1).fold(1.0, f64::max);
    let last = rows().map(power).fold(1.0, f64::max);
    let first = rows().map(power).fold(last, f64::min);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(50)
        .build_cartesian_2d(first - 0.4..last + 0.4, 0.0..1.15 * most)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .label_style(("sans-serif", 16).into_font().color(&INK))
        .axis_desc_style(("sans-serif", 16).into_font().color(&INK))
        .x_desc("number of ranks")
        .x_labels(8)
        .x_label_formatter(&|power| whole(*power).map_or_else(String::new, |power| power.exp2().to_string()))
        .y_labels(5)
        .y_label_formatter(&|figure| ((figure * 1e6).round() / 1e6).to_string())
        .draw()?;
    for (series, colour) in drawn() {
        let largest = || series.rows.iter().filter_map(|row| Some((power(row), figure(row).1?)));
        let means = || series.rows.iter().filter_map(|row| Some((power(row), figure(row).0?)));
        chart.draw_series(LineSeries::new(means(), colour.stroke_width(1)))?;
        chart.draw_series(means().map(|point| Circle::new(point, 3, colour.stroke_width(1))))?;
        chart.draw_series(LineSeries::new(largest(), colour.stroke_width(2)))?;
        chart.draw_series(largest().map(|point| Circle::new(point, 4, colour.filled())))?;
    }
    Ok(())
}

/// A whole number, or no label.
fn whole(number: f64) -> Option<f64> {
    Some(number.round()).filter(|round| (number - round).abs() < 1e-9)
}
