//! Colours of the pictures.

/// A colour, red, green and blue from 0 to 1.
pub(crate) type Rgb = [f64; 3];

/// Colours at equal distances, blended linearly in between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette(&'static [u32]);

/// Troughs blue, still water nearly white, crests red (after Brewer 2003, RdBu).
pub(crate) const SURFACE: Palette = Palette(&[
    0x053061, 0x2166ac, 0x4393c3, 0x92c5de, 0xd1e5f0, 0xf7f7f5, 0xfddbc7, 0xf4a582, 0xd6604d, 0xb2182b,
    0x67001f,
]);

/// Small waves pale, large ones dark (after Brewer 2003, YlOrRd, with a purple end).
pub(crate) const LARGEST: Palette = Palette(&[
    0xf4f6f4, 0xfff3c4, 0xfee08b, 0xfdbb5f, 0xfb8d3c, 0xee5a35, 0xd02c36, 0xa01245, 0x6b0f4b, 0x3a0a3a,
]);

/// Land from the shore to the summits: muted greens, browns, pale grey.
pub(crate) const LAND: Palette =
    Palette(&[0x9fb08a, 0xa9b48c, 0xb9b790, 0xc2b691, 0xbeac8d, 0xb7a48b, 0xb8ab9b, 0xc9c3ba, 0xdedbd6]);

/// A tracer: none is dark blue, most is bright yellow (after Smith and van der Walt 2015, inferno, with a blue
/// beginning).
pub(crate) const TRACER: Palette = Palette(&[
    0x14233c, 0x2a2257, 0x4f1f6b, 0x7a2069, 0xa42c60, 0xcb4149, 0xe8602d, 0xf78a12, 0xfbb61a, 0xf6e26a,
    0xfcffd0,
]);

impl Palette {
    /// The colour at `at`, 0 for the first and 1 for the last; beyond, that of the nearer end.
    pub(crate) fn at(&self, at: f64) -> Rgb {
        let last = self.0.len() - 1;
        let place = at.clamp(0.0, 1.0) * last as f64;
        let low = (place as usize).min(last - 1);
        blend(rgb(self.0[low]), rgb(self.0[low + 1]), place - low as f64)
    }
}

/// A colour from its hexadecimal form.
pub(crate) fn rgb(hex: u32) -> Rgb {
    [16, 8, 0].map(|shift| f64::from(hex >> shift & 0xff) / 255.0)
}

/// Mixes two colours: `from` at 0, `to` at 1.
pub(crate) fn blend(from: Rgb, to: Rgb, part: f64) -> Rgb {
    [0, 1, 2].map(|band| from[band] + part * (to[band] - from[band]))
}

/// Scales the brightness of a colour.
pub(crate) fn shade(colour: Rgb, light: f64) -> Rgb {
    colour.map(|band| (band * light).clamp(0.0, 1.0))
}

/// Three bytes.
pub(crate) fn bytes(colour: Rgb) -> [u8; 3] {
    colour.map(|band| (band.clamp(0.0, 1.0) * 255.0).round() as u8)
}
