//! A picture that text and lines can be drawn on.

use std::convert::Infallible;

use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{Line, PrimitiveStyle};
use embedded_graphics::text::{Alignment, Baseline, Text, TextStyleBuilder};

/// The pixels of a picture, as a target of embedded-graphics.
#[derive(Clone, Debug)]
pub struct Canvas {
    size: Size,
    /// Red, green and blue, row by row from the upper left.
    pixels: Vec<[u8; 3]>,
}

impl Canvas {
    /// A picture of one colour.
    pub(crate) fn new(width: u32, height: u32, colour: Rgb888) -> Self {
        let pixels = vec![bands(colour); width as usize * height as usize];
        Self { size: Size::new(width, height), pixels }
    }

    /// Colours a pixel, if there is one at `x` and `y`.
    pub(crate) fn put(&mut self, x: i32, y: i32, colour: [u8; 3]) {
        if let Some(pixel) = self.place(x, y).and_then(|place| self.pixels.get_mut(place)) {
            *pixel = colour;
        }
    }

    /// Red, green and blue of a pixel, if there is one at `x` and `y`.
    pub fn pixel(&self, x: i32, y: i32) -> Option<[u8; 3]> {
        self.place(x, y).and_then(|place| self.pixels.get(place)).copied()
    }

    /// The bytes of a PNG file.
    ///
    /// # Errors
    /// What the encoder says.
    pub fn png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.size.width, self.size.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Balanced);
        encoder.set_filter(png::Filter::Adaptive);
        encoder.write_header()?.write_image_data(self.pixels.as_flattened())?;
        Ok(file)
    }

    /// Where a pixel lies in the list.
    fn place(&self, x: i32, y: i32) -> Option<usize> {
        let (x, y) = (u32::try_from(x).ok()?, u32::try_from(y).ok()?);
        (x < self.size.width).then_some(y as usize * self.size.width as usize + x as usize)
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
        self.size
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
            self.put(at.x, at.y, bands(colour));
        }
        Ok(())
    }
}

fn bands(colour: Rgb888) -> [u8; 3] {
    [colour.r(), colour.g(), colour.b()]
}
