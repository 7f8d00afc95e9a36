//! Diagrams drawn by plotters, written as SVG or as PNG.

use std::convert::Infallible;
use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind};

use super::PAPER;
use super::canvas::{Align, Canvas, Colour, LARGEST, Style};

/// The format of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PictureFormat {
    /// Scalable vector graphics.
    Svg,
    /// Portable network graphics.
    Png,
}

/// The area on which a diagram is drawn.
pub type PlotArea<B> = DrawingArea<B, Shift>;

/// The errors of drawing.
pub type PlotError<B> = DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>;

/// A diagram.
pub trait Plot {
    /// The width and the height, pixels of SVG.
    fn size(&self) -> (u32, u32);

    /// Draws it on an area of that size.
    ///
    /// # Errors
    /// Errors of the drawing library.
    fn draw<B: DrawingBackend>(&self, area: &PlotArea<B>) -> Result<(), PlotError<B>>;

    /// Returns the bytes of a file.
    ///
    /// # Errors
    /// Errors of the drawing library and of the encoder, and for a PNG of too many pixels.
    fn file(&self, format: PictureFormat) -> Result<Vec<u8>, Box<dyn Error>> {
        match format {
            PictureFormat::Svg => svg(self),
            PictureFormat::Png => png(self),
        }
    }
}

/// Pixels of PNG for each one of SVG, along both axes, so that text is legible.
const SCALE: i32 = 2;

/// The size of letters on the canvas, for each pixel of plotters, as its SVG has it.
const LETTERS: f64 = 1.0 / 1.24;

fn svg(plot: &(impl Plot + ?Sized)) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, plot.size()).into_drawing_area();
        plot.draw(&area)?;
        area.present()?;
    }
    Ok(text.into_bytes())
}

fn png(plot: &(impl Plot + ?Sized)) -> Result<Vec<u8>, Box<dyn Error>> {
    let size = plot.size();
    let [width, height] = [size.0, size.1].map(|pixels| pixels.saturating_mul(SCALE.unsigned_abs()));
    if width.max(height) > LARGEST {
        return Err(format!(
            "the picture has {width} × {height} pixels as PNG, expected at most {LARGEST} along each axis; write a file \
             that ends in .svg"
        )
        .into());
    }
    let mut canvas = Canvas::new(width, height, PAPER);
    {
        let area = OnCanvas { canvas: &mut canvas, size }.into_drawing_area();
        plot.draw(&area)?;
        area.present()?;
    }
    Ok(canvas.png()?)
}

/// A canvas on which plotters draws.
struct OnCanvas<'c> {
    canvas: &'c mut Canvas,
    /// Pixels of SVG.
    size: (u32, u32),
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl DrawingBackend for OnCanvas<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> Drawn {
        self.draw_rect(at, at, &colour, true)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (left, top): BackendCoord,
        (right, bottom): BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let Some(colour) = visible(style) else { return Ok(()) };
        if fill {
            // With the pixels of all four sides, as in SVG.
            let [[left, top], [right, bottom]] = [corner((left, top)), corner((right + 1, bottom + 1))];
            self.canvas.polygon(&[[left, top], [right, top], [right, bottom], [left, bottom]], colour);
        } else {
            self.canvas.frame([middle((left, top)), middle((right, bottom))], colour, thick(style));
        }
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        if let Some(colour) = visible(style) {
            let points: Vec<[f32; 2]> = path.into_iter().map(middle).collect();
            self.canvas.line(&points, colour, thick(style));
        }
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        centre: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let Some(colour) = visible(style) else { return Ok(()) };
        let radius = radius as f32 * SCALE as f32;
        match fill {
            true => self.canvas.disc(middle(centre), radius, colour),
            false => self.canvas.ring(middle(centre), radius, colour, thick(style)),
        }
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Drawn {
        if let Some(colour) = visible(style) {
            let corners: Vec<[f32; 2]> = corners.into_iter().map(middle).collect();
            self.canvas.polygon(&corners, colour);
        }
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Drawn {
        let Some(colour) = rgb(style.color()) else { return Ok(()) };
        let size = (style.size() * LETTERS * f64::from(SCALE)) as f32;
        let anchor = style.anchor();
        let align = match anchor.h_pos {
            HPos::Left => Align::Left,
            HPos::Center => Align::Centre,
            HPos::Right => Align::Right,
        };
        // From the anchor to the middle of capital letters, in parts of the size, as in SVG.
        let (across, down) = match anchor.v_pos {
            VPos::Top => (0.0, 0.3955),
            VPos::Center => (0.0, 0.0),
            VPos::Bottom => (0.0, -0.638),
        };
        let upwards = matches!(style.transform(), FontTransform::Rotate270);
        let (across, down) = if upwards { (down, across) } else { (across, down) };
        let [x, y] = corner(at);
        let mut drawn = Style::new(size, colour).align(align);
        if matches!(style.style(), FontStyle::Bold) {
            drawn = drawn.bold();
        }
        if upwards {
            drawn = drawn.upwards();
        }
        self.canvas.text(text, [x + across * size, y + down * size], drawn);
        Ok(())
    }
}

/// The colour of a style, if it can be seen.
fn visible(style: &impl BackendStyle) -> Option<Colour> {
    rgb(style.color())
}

fn rgb(colour: BackendColor) -> Option<Colour> {
    let (red, green, blue) = colour.rgb;
    (colour.alpha > 0.0).then_some([red, green, blue])
}

fn thick(style: &impl BackendStyle) -> f32 {
    style.stroke_width() as f32 * SCALE as f32
}

/// The upper left corner of a pixel of SVG, on the canvas.
fn corner((x, y): BackendCoord) -> [f32; 2] {
    [x, y].map(|along| (along * SCALE) as f32)
}

/// The middle of a pixel of SVG, on the canvas.
fn middle(at: BackendCoord) -> [f32; 2] {
    corner(at).map(|along| along + 0.5 * SCALE as f32)
}
