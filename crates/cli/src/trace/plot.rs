//! `haloport trace plot`: a picture of a part of a time line.

use std::ops::Range;
use std::path::PathBuf;

use clap::Args;
use haloport::trace::Phase;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::read::{RankLine, Span, TimeLine, read};
use super::window::window;
use crate::command::endings::{PictureFile, picture};
use crate::command::failure::Failure;
use crate::command::output;
use haloport_demos::drawing::{Plot, PlotArea, PlotError};

const EXAMPLES: &str = "\
Examples:
  haloport trace plot t.json --out t.svg
  haloport trace plot t.json --out t.svg --from 12 --to 14.5";

/// Arguments of `haloport trace plot`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlotArgs {
    /// A file that a command has written with --trace
    file: PathBuf,
    /// The picture, whose name ends in .svg or .png
    #[arg(long, value_name = "F.svg", value_parser = picture())]
    out: PictureFile,
    /// Begin of the part, in milliseconds from the first span [default: three steps in the middle]
    #[arg(long, value_name = "MS", value_parser = milliseconds, allow_negative_numbers = true)]
    from: Option<f64>,
    /// End of the part, in milliseconds from the first span
    #[arg(long, value_name = "MS", value_parser = milliseconds, allow_negative_numbers = true)]
    to: Option<f64>,
}

/// About the width of a page, so that text stays legible.
const WIDTH: u32 = 900;
/// Widths of the names of ranks and rows, and right of the last pixel.
const LEFT: i32 = 216;
const RIGHT: i32 = 30;
const TOP: i32 = 48;
const BOTTOM: i32 = 54;
const ROW: i32 = 22;
/// Above each rank.
const GAP: i32 = 10;

const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
const FAINT: RGBColor = RGBColor(0xe3, 0xe6, 0xe9);

/// The least width of a span, pixels.
const NARROWEST: f64 = 0.6;
/// Spans wider than this are followed by a gap, pixels.
const WITH_GAP: f64 = 4.0;
/// The width that a span needs for each letter of its name, pixels.
const LETTER: f64 = 7.5;
/// Sizes of text.
const LARGE: u32 = 17;
const MIDDLE: u32 = 15;
const SMALL: u32 = 14;

fn colour(phase: Phase) -> RGBColor {
    match phase {
        Phase::Kernel => RGBColor(0x4c, 0x8f, 0xc4),
        Phase::Packing => RGBColor(0xe0, 0xa0, 0x30),
        Phase::Wire => RGBColor(0x7a, 0xb0, 0x5a),
        Phase::Unpacking => RGBColor(0xc8, 0x55, 0x3d),
        Phase::Waiting => RGBColor(0x9a, 0xa2, 0xab),
    }
}

/// Draws the picture.
///
/// # Errors
/// [`Failure::BadInput`] if the file is no time line or has nothing to draw, or the picture cannot be written.
pub(super) fn run(args: &PlotArgs) -> Result<(), Failure> {
    let line = read(&args.file)?;
    let window = window(&line, args.from, args.to)?;
    let PictureFile { path, format } = &args.out;
    let picture = Picture { line: &line, scale: Scale { window } };
    let file = picture.file(*format).map_err(|error| Failure::Run(format!("--out: {error}")))?;
    output::write(path, &file)
        .map_err(|error| Failure::BadInput(format!("--out: cannot write {}: {error}", path.display())))
}

/// A part of a time line.
struct Picture<'l> {
    line: &'l TimeLine,
    scale: Scale,
}

impl Picture<'_> {
    /// The phases of the spans that are drawn.
    fn phases(&self) -> Vec<Phase> {
        let spans = || self.line.ranks.values().flat_map(|line| &line.spans);
        let is_drawn = |phase: &Phase| spans().any(|span| span.phase == *phase && self.scale.shows(span));
        Phase::ALL.into_iter().filter(is_drawn).collect()
    }

    fn height(&self) -> i32 {
        let rows = self.line.ranks.values().map(|line| line.rows.len() as i32).sum::<i32>();
        TOP + rows * ROW + self.line.ranks.len() as i32 * GAP + BOTTOM
    }
}

impl Plot for Picture<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH, self.height().unsigned_abs())
    }

    fn draw<B: DrawingBackend>(&self, area: &PlotArea<B>) -> Result<(), PlotError<B>> {
        let Picture { line, scale } = self;
        area.fill(&WHITE)?;
        draw_legend(area, &self.phases())?;
        draw_axis(area, scale, self.height() - BOTTOM)?;
        let mut top = TOP;
        for (&rank, line) in &line.ranks {
            top = draw_rank(area, scale, rank, line, top + GAP)?;
        }
        Ok(())
    }
}

/// The horizontal positions of moments.
struct Scale {
    window: Range<u64>,
}

impl Scale {
    /// Whether a span is drawn: some of it lies in the window.
    fn shows(&self, span: &Span) -> bool {
        span.end >= self.window.start && span.begin <= self.window.end
    }

    fn x(&self, at: f64) -> f64 {
        let (begin, end) = (self.window.start as f64, self.window.end as f64);
        let width = f64::from(WIDTH as i32 - LEFT - RIGHT);
        f64::from(LEFT) + (at.clamp(begin, end) - begin) / (end - begin) * width
    }

    /// The moments with a label, in nanoseconds, and the digits of milliseconds that tell them apart.
    fn ticks(&self) -> (Vec<f64>, usize) {
        let (begin, end) = (self.window.start as f64, self.window.end as f64);
        let rough = (end - begin) / 8.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough).max(1.0);
        let digits = (6.0 - step.log10().floor()).clamp(0.0, 6.0) as usize;
        let first = (begin / step).ceil() as u64;
        let count = ((end - begin) / step) as u64 + 1;
        let ticks = (first..first + count).map(|number| number as f64 * step).filter(|at| *at <= end);
        (ticks.collect(), digits)
    }
}

fn draw_legend<B: DrawingBackend>(area: &PlotArea<B>, phases: &[Phase]) -> Result<(), PlotError<B>> {
    let style = ("sans-serif", LARGE).into_font().color(&INK);
    for (&phase, x) in phases.iter().zip((LEFT..).step_by(120)) {
        area.draw(&Rectangle::new([(x, 14), (x + 16, 28)], colour(phase).filled()))?;
        area.draw(&Text::new(phase.to_string(), (x + 22, 15), style.clone()))?;
    }
    Ok(())
}

fn draw_axis<B: DrawingBackend>(area: &PlotArea<B>, scale: &Scale, bottom: i32) -> Result<(), PlotError<B>> {
    let style = ("sans-serif", MIDDLE).into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Top));
    let (ticks, digits) = scale.ticks();
    for tick in ticks {
        let x = scale.x(tick).round() as i32;
        area.draw(&PathElement::new([(x, TOP), (x, bottom)], FAINT))?;
        area.draw(&Text::new(format!("{:.digits$}", tick / 1e6), (x, bottom + 6), style.clone()))?;
    }
    let middle = (LEFT + WIDTH as i32 - RIGHT) / 2;
    area.draw(&Text::new("time from the first span (ms)", (middle, bottom + 28), style))
}

/// Draws the rows of a rank from `top` on, and returns where they end.
fn draw_rank<B: DrawingBackend>(
    area: &PlotArea<B>,
    scale: &Scale,
    rank: usize,
    line: &RankLine,
    top: i32,
) -> Result<i32, PlotError<B>> {
    let bold = ("sans-serif", LARGE, FontStyle::Bold).into_font().color(&INK);
    area.draw(&Text::new(format!("rank {rank}"), (10, top + 4), bold))?;
    let mut top = top;
    for (&row, name) in &line.rows {
        let style = ("sans-serif", MIDDLE).into_font().color(&INK).pos(Pos::new(HPos::Right, VPos::Top));
        area.draw(&Text::new(name.as_str(), (LEFT - 10, top + 5), style))?;
        let edge = [(LEFT, top + ROW), (WIDTH as i32 - RIGHT, top + ROW)];
        area.draw(&PathElement::new(edge, FAINT))?;
        draw_row(area, scale, line, row, top)?;
        top += ROW;
    }
    Ok(top)
}

fn draw_row<B: DrawingBackend>(
    area: &PlotArea<B>,
    scale: &Scale,
    line: &RankLine,
    row: usize,
    top: i32,
) -> Result<(), PlotError<B>> {
    let style = ("sans-serif", SMALL).into_font().color(&WHITE);
    // A span that would cover the same pixels is not drawn again.
    let mut last: Option<(Phase, f64)> = None;
    for span in line.spans.iter().filter(|span| span.row == row && scale.shows(span)) {
        let (left, right) = (scale.x(span.begin as f64), scale.x(span.end as f64));
        let right = right.max(left + NARROWEST);
        if last.is_some_and(|(phase, drawn)| phase == span.phase && right <= drawn + NARROWEST / 2.0) {
            continue;
        }
        last = Some((span.phase, right));
        // A gap separates spans that follow at once.
        let end = if right - left > WITH_GAP { right.floor() as i32 - 1 } else { right.ceil() as i32 };
        let corners = [(left.floor() as i32, top + 3), (end, top + ROW - 3)];
        area.draw(&Rectangle::new(corners, colour(span.phase).filled()))?;
        if right - left > LETTER * span.name.chars().count() as f64 {
            area.draw(&Text::new(span.name.as_str(), (left as i32 + 4, top + 5), style.clone()))?;
        }
    }
    Ok(())
}

fn milliseconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|time: &f64| (0.0..1e12).contains(time))
        .ok_or_else(|| format!("expected milliseconds from 0; found `{text}`"))
}
