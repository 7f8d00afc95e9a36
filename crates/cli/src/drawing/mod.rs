//! What pictures are drawn with: a canvas with text and lines, colours, and the bar that explains them.

mod canvas;
mod colour_bar;
mod palette;

use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;

pub use canvas::Canvas;
pub(crate) use colour_bar::{ColourBar, nice_below, ticks};
pub(crate) use palette::{LAND, LARGEST, Palette, Rgb, SURFACE, TRACER, blend, bytes, rgb, shade};

pub(crate) const PAPER: Rgb888 = Rgb888::WHITE;
pub(crate) const INK: Rgb888 = Rgb888::new(0x22, 0x26, 0x2b);
pub(crate) const FAINT: Rgb888 = Rgb888::new(0x6b, 0x72, 0x7a);
