//! Spherical harmonics, which Laplace's operator on the sphere multiplies by a number.

/// The real part of (x + i z)^`degree`, a spherical harmonic of that degree: its mean is 0.
#[derive(Clone, Copy, Debug)]
pub struct Harmonic {
    /// At least 1.
    pub degree: u32,
}

impl Harmonic {
    /// The value at a point on the unit sphere.
    pub fn value(&self, [x, _, z]: [f64; 3]) -> f64 {
        let degree = f64::from(self.degree);
        x.hypot(z).powf(degree) * (degree * z.atan2(x)).cos()
    }

    /// -Δ of the harmonic, divided by the harmonic: degree (degree + 1).
    pub fn eigenvalue(&self) -> f64 {
        f64::from(self.degree) * (f64::from(self.degree) + 1.0)
    }
}
