//! A picture made of text, lines and shapes.

use tiny_skia::{
    FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, PremultipliedColorU8, Rect, Stroke,
    Transform,
};

use super::font::Face;

/// Red, green and blue.
pub(crate) type Colour = [u8; 3];

/// The largest width and height, pixels.
const LARGEST: u32 = 1 << 14;

/// The pixels of a picture. Positions are pixels from its upper left corner, to the right and down. Anything outside
/// of the picture is cut off.
#[derive(Clone, Debug)]
pub struct Canvas {
    pixels: Pixmap,
}

/// The part of a text that lies at its position.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Align {
    Left,
    Centre,
    Right,
}

/// The look of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) face: Face,
    colour: Colour,
    align: Align,
    /// The colour of a rim that keeps the text legible on any ground.
    rim: Option<Colour>,
    /// Whether it runs upwards.
    upwards: bool,
}

impl Style {
    /// Text of this size, pixels, that begins at its position.
    pub(crate) fn new(size: f32, colour: Colour) -> Style {
        let face = Face { size, bold: false };
        Style { face, colour, align: Align::Left, rim: None, upwards: false }
    }

    pub(crate) fn bold(self) -> Style {
        Style { face: Face { bold: true, ..self.face }, ..self }
    }

    pub(crate) fn align(self, align: Align) -> Style {
        Style { align, ..self }
    }

    pub(crate) fn rim(self, rim: Colour) -> Style {
        Style { rim: Some(rim), ..self }
    }

    pub(crate) fn upwards(self) -> Style {
        Style { upwards: true, ..self }
    }
}

impl Canvas {
    /// Makes a picture of one colour, at most 16384 pixels wide and high.
    pub(crate) fn new(width: u32, height: u32, [red, green, blue]: Colour) -> Self {
        let pixels = Pixmap::new(width.clamp(1, LARGEST), height.clamp(1, LARGEST));
        let mut pixels = pixels.expect("a size that is not 0, and 1 GiB at most");
        pixels.fill(tiny_skia::Color::from_rgba8(red, green, blue, 255));
        Self { pixels }
    }

    /// Colours a pixel, if there is one at `x` and `y`.
    pub(crate) fn put(&mut self, x: i32, y: i32, [red, green, blue]: Colour) {
        let colour = PremultipliedColorU8::from_rgba(red, green, blue, 255);
        if let (Some(index), Some(colour)) = (self.index(x, y), colour) {
            self.pixels.pixels_mut()[index] = colour;
        }
    }

    /// Red, green and blue of a pixel, if there is one at `x` and `y`.
    pub fn pixel(&self, x: i32, y: i32) -> Option<[u8; 3]> {
        self.index(x, y).map(|index| bands(self.pixels.pixels()[index]))
    }

    /// Returns the bytes of a PNG file.
    ///
    /// # Errors
    /// Errors of the encoder.
    pub fn png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.pixels.width(), self.pixels.height());
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Balanced);
        encoder.set_filter(png::Filter::Adaptive);
        let pixels: Vec<[u8; 3]> = self.pixels.pixels().iter().copied().map(bands).collect();
        encoder.write_header()?.write_image_data(pixels.as_flattened())?;
        Ok(file)
    }

    /// Draws text whose middle line is at `y`, and which lies left of, around or right of `x`; if it runs upwards,
    /// below, around or above.
    pub(crate) fn text(&mut self, text: &str, [x, y]: [f32; 2], style: Style) {
        let Some(path) = style.face.outlines(text) else { return };
        let before = match style.align {
            Align::Left => 0.0,
            Align::Centre => 0.5 * style.face.width(text),
            Align::Right => style.face.width(text),
        };
        let turn = if style.upwards { Transform::from_rotate(-90.0) } else { Transform::identity() };
        let Some(path) = path.transform(turn.pre_translate(-before, 0.0).post_translate(x, y)) else {
            return;
        };
        if let Some(rim) = style.rim {
            self.stroke(&path, rim, 0.28 * style.face.size);
        }
        self.fill(&path, style.colour);
    }

    /// Draws lines through `points`.
    pub(crate) fn line(&mut self, points: &[[f32; 2]], colour: Colour, thick: f32) {
        if let Some(path) = through(points, false) {
            self.stroke(&path, colour, thick);
        }
    }

    /// Fills the shape with these corners.
    pub(crate) fn polygon(&mut self, corners: &[[f32; 2]], colour: Colour) {
        if let Some(path) = through(corners, true) {
            self.fill(&path, colour);
        }
    }

    /// Draws a line around the shape with these corners.
    pub(crate) fn outline(&mut self, corners: &[[f32; 2]], colour: Colour, thick: f32) {
        if let Some(path) = through(corners, true) {
            self.stroke(&path, colour, thick);
        }
    }

    /// Draws a rectangle from its upper left to its lower right corner.
    pub(crate) fn frame(
        &mut self,
        [[left, top], [right, bottom]]: [[f32; 2]; 2],
        colour: Colour,
        thick: f32,
    ) {
        if let Some(rectangle) = Rect::from_ltrb(left, top, right, bottom) {
            self.stroke(&PathBuilder::from_rect(rectangle), colour, thick);
        }
    }

    /// Draws a disc.
    pub(crate) fn disc(&mut self, [x, y]: [f32; 2], radius: f32, colour: Colour) {
        if let Some(path) = PathBuilder::from_circle(x, y, radius) {
            self.fill(&path, colour);
        }
    }

    fn fill(&mut self, path: &Path, colour: Colour) {
        self.pixels.fill_path(path, &paint(colour), FillRule::Winding, Transform::identity(), None);
    }

    fn stroke(&mut self, path: &Path, colour: Colour, width: f32) {
        let stroke =
            Stroke { width, line_cap: LineCap::Butt, line_join: LineJoin::Round, ..Stroke::default() };
        self.pixels.stroke_path(path, &paint(colour), &stroke, Transform::identity(), None);
    }

    /// The index of a pixel in the list.
    fn index(&self, x: i32, y: i32) -> Option<usize> {
        let (x, y) = (u32::try_from(x).ok()?, u32::try_from(y).ok()?);
        let (width, height) = (self.pixels.width(), self.pixels.height());
        (x < width && y < height).then_some(y as usize * width as usize + x as usize)
    }
}

/// Returns `None` for fewer than two points.
fn through(points: &[[f32; 2]], closed: bool) -> Option<Path> {
    let (&[x, y], others) = points.split_first()?;
    let mut path = PathBuilder::new();
    path.move_to(x, y);
    others.iter().for_each(|&[x, y]| path.line_to(x, y));
    if closed {
        path.close();
    }
    path.finish()
}

fn paint([red, green, blue]: Colour) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}

fn bands(pixel: PremultipliedColorU8) -> Colour {
    [pixel.red(), pixel.green(), pixel.blue()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHITE: Colour = [255; 3];
    const BLACK: Colour = [0; 3];

    /// The columns and rows in which something is dark.
    fn dark(canvas: &Canvas, size: i32) -> [[i32; 2]; 2] {
        let dark = |x, y| canvas.pixel(x, y).is_some_and(|[red, ..]| red < 128);
        let ends = |is_dark: &dyn Fn(i32) -> bool| {
            let mut all = (0..size).filter(|&at| is_dark(at));
            let first = all.next().unwrap();
            [first, all.last().unwrap_or(first)]
        };
        [ends(&|x| (0..size).any(|y| dark(x, y))), ends(&|y| (0..size).any(|x| dark(x, y)))]
    }

    #[test]
    fn text_lies_where_it_is_put() {
        let drawn = |style: Style| {
            let mut canvas = Canvas::new(200, 200, WHITE);
            canvas.text("HH", [100.0, 100.0], style);
            dark(&canvas, 200)
        };
        let style = Style::new(20.0, BLACK);
        let width = style.face.width("HH") as i32;
        for (align, left) in
            [(Align::Left, 100), (Align::Centre, 100 - width / 2), (Align::Right, 100 - width)]
        {
            let [[first, last], [top, bottom]] = drawn(style.align(align));
            assert!(first >= left && last <= left + width && last - first > width / 2, "{align:?}");
            assert!((90..96).contains(&top) && (104..110).contains(&bottom), "{top} {bottom}");
        }
        let [[left, right], [top, bottom]] = drawn(style.upwards());
        assert!((90..96).contains(&left) && (104..110).contains(&right), "{left} {right}");
        assert!(top >= 100 - width && bottom <= 100, "{top} {bottom}");
    }

    #[test]
    fn what_is_outside_of_the_picture_is_not_drawn() {
        let mut canvas = Canvas::new(0, 0, WHITE);
        canvas.put(-1, 0, BLACK);
        canvas.put(0, 1, BLACK);
        canvas.line(&[[5.0, 5.0], [9.0, 9.0]], BLACK, 2.0);
        canvas.line(&[[5.0, f32::NAN]], BLACK, 2.0);
        canvas.text("far", [1e9, f32::NAN], Style::new(20.0, BLACK));
        assert_eq!((canvas.pixel(0, 0), canvas.pixel(1, 0)), (Some(WHITE), None));
    }
}
