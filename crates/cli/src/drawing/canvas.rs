//! An image that text and lines can be drawn on.

use std::convert::Infallible;

use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{Line, PrimitiveStyle};
use embedded_graphics::text::{Alignment, Baseline, Text, TextStyleBuilder};
use image::RgbImage;

/// The image and its size as a target of embedded-graphics.
pub(crate) struct Canvas(pub(crate) RgbImage);

impl Canvas {
    /// An image of one colour.
    pub(crate) fn new(width: u32, height: u32, colour: Rgb888) -> Self {
        let pixel = image::Rgb([colour.r(), colour.g(), colour.b()]);
        Self(RgbImage::from_pixel(width, height, pixel))
    }

    /// Text with its middle line at `at.y`, left of, around or right of `at.x`. Characters
    /// beyond Latin-1 are drawn as question marks.
    pub(crate) fn text(
        &mut self,
        text: &str,
        at: Point,
        alignment: Alignment,
        font: &MonoFont<'_>,
        colour: Rgb888,
    ) {
        let place = TextStyleBuilder::new().alignment(alignment).baseline(Baseline::Middle).build();
        let style = MonoTextStyle::new(font, colour);
        let Ok(_) = Text::with_text_style(text, at, style, place).draw(self);
    }

    /// Text with a rim of another colour, legible on any ground.
    pub(crate) fn rimmed_text(
        &mut self,
        text: &str,
        at: Point,
        alignment: Alignment,
        font: &MonoFont<'_>,
        [ink, rim]: [Rgb888; 2],
    ) {
        for y in -2..=2_i32 {
            for x in -2..=2_i32 {
                if x * x + y * y <= 5 {
                    self.text(text, at + Point::new(x, y), alignment, font, rim);
                }
            }
        }
        self.text(text, at, alignment, font, ink);
    }

    /// A line of one pixel, from x and y to x and y.
    pub(crate) fn line(&mut self, [x0, y0, x1, y1]: [i32; 4], colour: Rgb888) {
        let Ok(()) = Line::new(Point::new(x0, y0), Point::new(x1, y1))
            .into_styled(PrimitiveStyle::with_stroke(colour, 1))
            .draw(self);
    }
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        Size::new(self.0.width(), self.0.height())
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I>(&mut self, pixels: I) -> Result<(), Infallible>
    where
        I: IntoIterator<Item = Pixel<Rgb888>>,
    {
        for Pixel(at, colour) in pixels {
            let place = u32::try_from(at.x).ok().zip(u32::try_from(at.y).ok());
            if let Some(pixel) = place.and_then(|(x, y)| self.0.get_pixel_mut_checked(x, y)) {
                *pixel = image::Rgb([colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}
