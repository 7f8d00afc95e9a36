//! Tools for pictures: a canvas with text and lines, colours, the colour bar, round numbers and dates for axes.

mod canvas;
mod colour_bar;
mod dates;
mod font;
mod palette;
mod ticks;

pub use canvas::Canvas;
pub(crate) use canvas::{Align, Colour, Style};
pub(crate) use colour_bar::ColourBar;
pub(crate) use dates::date_ticks;
pub(crate) use palette::{LAND, LARGEST, Palette, Rgb, SURFACE, TRACER, blend, bytes, rgb, shade};
pub(crate) use ticks::{nice_above, nice_below, number, signed, ticks};

pub(crate) const PAPER: Colour = [0xff; 3];
pub(crate) const INK: Colour = [0x22, 0x26, 0x2b];
pub(crate) const FAINT: Colour = [0x5a, 0x61, 0x69];
