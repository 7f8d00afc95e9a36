//! Text as outlines, in the font that is compiled into the command.

use std::sync::LazyLock;

use ab_glyph::{Font as _, FontRef, OutlineCurve, Point};
use tiny_skia::{Path, PathBuilder};

/// Half the height of capital letters, in parts of the size: the baseline's distance below the middle of a text.
const HALF_CAPITAL: f32 = 0.3645;

static REGULAR: LazyLock<FontRef<'static>> =
    LazyLock::new(|| parsed(include_bytes!("../../fonts/DejaVuSans.ttf")));
static BOLD: LazyLock<FontRef<'static>> =
    LazyLock::new(|| parsed(include_bytes!("../../fonts/DejaVuSans-Bold.ttf")));

/// A face of the font, and the size of its letters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Face {
    /// Pixels of an em.
    pub(crate) size: f32,
    pub(crate) bold: bool,
}

impl Face {
    /// The width of `text`, pixels.
    pub(crate) fn width(self, text: &str) -> f32 {
        let mut pen = Pen::new(self);
        text.chars().for_each(|letter| _ = pen.next(letter));
        pen.x
    }

    /// The outlines of `text`. Its left end and the middle of its capital letters are at 0; y points down. A character
    /// that the font lacks is a box. Returns `None` if there is nothing to draw.
    pub(crate) fn outlines(self, text: &str) -> Option<Path> {
        let mut path = PathBuilder::new();
        let mut pen = Pen::new(self);
        for letter in text.chars() {
            let (x, glyph) = pen.next(letter);
            let at = |point: Point| (x + point.x * pen.scale, HALF_CAPITAL * self.size - point.y * pen.scale);
            let mut end = None;
            for curve in pen.font.outline(glyph).map(|outline| outline.curves).unwrap_or_default() {
                let (OutlineCurve::Line(from, to)
                | OutlineCurve::Quad(from, _, to)
                | OutlineCurve::Cubic(from, _, _, to)) = curve;
                // A contour begins where the last one was closed.
                if end != Some(from) {
                    path.move_to(at(from).0, at(from).1);
                }
                end = Some(to);
                let (x, y) = at(to);
                match curve {
                    OutlineCurve::Line(..) => path.line_to(x, y),
                    OutlineCurve::Quad(_, by, _) => path.quad_to(at(by).0, at(by).1, x, y),
                    OutlineCurve::Cubic(_, one, two, _) => {
                        path.cubic_to(at(one).0, at(one).1, at(two).0, at(two).1, x, y);
                    }
                }
            }
        }
        path.finish()
    }

    /// The beginning of `text`, at most `width` pixels wide, with an ellipsis if it is cut off.
    pub(crate) fn shortened(self, text: &str, width: f32) -> String {
        if self.width(text) <= width {
            return text.to_owned();
        }
        let mut short: String = text.to_owned();
        while short.pop().is_some() && self.width(&short) + self.width("…") > width {}
        short + "…"
    }
}

/// The position of the next letter.
struct Pen {
    font: &'static FontRef<'static>,
    scale: f32,
    x: f32,
    last: Option<ab_glyph::GlyphId>,
}

impl Pen {
    fn new(face: Face) -> Pen {
        let font = if face.bold { &*BOLD } else { &*REGULAR };
        Pen { font, scale: face.size / font.units_per_em().unwrap_or(2048.0), x: 0.0, last: None }
    }

    /// The position of this letter, and its glyph.
    fn next(&mut self, letter: char) -> (f32, ab_glyph::GlyphId) {
        let glyph = self.font.glyph_id(letter);
        let kern = self.last.map_or(0.0, |last| self.font.kern_unscaled(last, glyph));
        let x = self.x + self.scale * kern;
        self.x = x + self.scale * self.font.h_advance_unscaled(glyph);
        self.last = Some(glyph);
        (x, glyph)
    }
}

fn parsed(file: &'static [u8]) -> FontRef<'static> {
    FontRef::try_from_slice(file).expect("the file that is compiled in is a font, as a test of it shows")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_the_letters_of_the_charts_and_they_have_widths_of_their_own() {
        for bold in [false, true] {
            let face = Face { size: 20.0, bold };
            for letter in "Aa9°−µ…é–+≤≥".chars() {
                assert_ne!(Pen::new(face).next(letter).1.0, 0, "{letter}");
            }
            assert!(face.width("iii") < 0.5 * face.width("mmm"));
            assert!(face.width("AV") < face.width("A") + face.width("V"), "kerning");
            let bounds = face.outlines("HH").map(|path| path.bounds()).unwrap();
            assert!((bounds.top() + bounds.bottom()).abs() < 0.1, "{bounds:?}");
            assert!(bounds.left() > 0.0 && bounds.right() < face.width("HH"), "{bounds:?}");
        }
        assert!(Face { size: 20.0, bold: false }.outlines(" ").is_none());
    }

    #[test]
    fn text_that_is_too_long_is_cut() {
        let face = Face { size: 20.0, bold: false };
        assert_eq!(face.shortened("Date", 100.0), "Date");
        let short = face.shortened(&"long ".repeat(100), 100.0);
        assert!(short.starts_with("long") && short.ends_with('…') && face.width(&short) <= 100.0, "{short}");
    }
}
