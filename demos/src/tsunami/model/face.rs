//! The flow through one face between two cells.
//!
//! Written as plain arithmetic on numbers (`+ - * /`, square root, comparisons) without
//! branches: the compiler turns loops over it into vector code, and a kernel in another
//! language that spells the same operations in the same order, without contracting them to
//! fused multiply-adds, gives the same bits.

/// Standard gravity, m/s^2.
pub const GRAVITY: f64 = 9.806_65;

/// The steepness of a limited slope, in units of the smaller one-sided slope: 1 is minmod, 2 the monotonised central
/// limiter. Depths stay positive up to 2.
pub const STEEPNESS: f64 = 1.5;

/// Keeps quotients of a dry face finite.
const TINY: f64 = 1e-100;

/// The values of a cell at its centre, seen from a face.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    /// Depth of the water, metres.
    pub h: f64,
    /// Elevation of the water surface, or of the bed where dry, metres.
    pub eta: f64,
    /// Velocity through the face, towards the higher index, m/s.
    pub normal: f64,
    /// Velocity along the face, m/s.
    pub along: f64,
}

/// The flow through a face, per metre of its length, towards the higher index.
///
/// The pressure `g h^2 / 2` of the reconstructed depth is subtracted from the momentum, on each side its own (see
/// [`face_flux`]).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flux {
    /// Volume of water, m^2/s.
    pub mass: f64,
    /// Momentum through the face less the pressure on the lower side, m^3/s^2.
    pub lower: f64,
    /// Momentum through the face less the pressure on the higher side, m^3/s^2.
    pub higher: f64,
    /// Momentum along the face, m^3/s^2.
    pub along: f64,
}

/// The flux through the face between the second and the third of four cells in a row.
///
/// - Depth, surface and velocities are reconstructed linearly in each cell with the limiter
///   of [`limited`] (van Leer 1979).
/// - The depth on both sides is cut at the higher of the two reconstructed beds, the
///   hydrostatic reconstruction of Audusse, Bouchut, Bristeau, Klein and Perthame (2004,
///   SIAM J. Sci. Comput. 25, section 3), so a lake at rest gives equal states on both sides
///   and, less the pressure, exactly no flux.
/// - The flux is that of Harten, Lax and van Leer (1983) with Davis's (1988) wave speeds.
///   That of mass is written as what leaves either side, neither ever negative, so rounding
///   takes no more from a nearly dry cell than it holds; that of momentum as a mean and
///   corrections. Between equal states at rest both give exactly no flux.
/// - What moves along the face is carried by the mass flux from upwind, as in HLLC (Toro,
///   Spruce and Speares 1994).
#[inline(always)]
pub fn face_flux(cells: [Cell; 4]) -> Flux {
    let [before, lower, higher, after] = cells;
    let low = extrapolated(before, lower, higher, 0.5);
    let high = extrapolated(lower, higher, after, -0.5);
    let bed = max(low.eta - low.h, high.eta - high.h);
    let h_low = max(low.eta - bed, 0.0);
    let h_high = max(high.eta - bed, 0.0);

    let c_low = (GRAVITY * h_low).sqrt();
    let c_high = (GRAVITY * h_high).sqrt();
    let slowest = min(min(low.normal - c_low, high.normal - c_high), 0.0);
    let fastest = max(max(low.normal + c_low, high.normal + c_high), 0.0);
    let per_range = 1.0 / max(fastest - slowest, TINY);
    let skew = 0.5 * (fastest + slowest) * per_range;
    let spread = -(fastest * slowest) * per_range;

    let q_low = h_low * low.normal;
    let q_high = h_high * high.normal;
    let pressure_low = 0.5 * GRAVITY * (h_low * h_low);
    let pressure_high = 0.5 * GRAVITY * (h_high * h_high);
    let m_low = q_low * low.normal + pressure_low;
    let m_high = q_high * high.normal + pressure_high;

    let outflow = (fastest * h_low) * (low.normal - slowest);
    let inflow = (-slowest * h_high) * (fastest - high.normal);
    let mass = (outflow - inflow) * per_range;
    let momentum = 0.5 * (m_low + m_high) - skew * (m_high - m_low) - spread * (q_high - q_low);
    Flux {
        mass,
        lower: momentum - pressure_low,
        higher: momentum - pressure_high,
        along: mass * if mass > 0.0 { low.along } else { high.along },
    }
}

/// The limited difference across a cell from the differences to its two neighbours: zero at
/// an extremum, otherwise the smallest of the mean and [`STEEPNESS`] times either (van Leer 1979).
#[inline(always)]
pub fn limited(backward: f64, forward: f64) -> f64 {
    let mean = 0.5 * (backward + forward);
    let (backward, forward) = (STEEPNESS * backward, STEEPNESS * forward);
    let rising = max(min(min(backward, forward), mean), 0.0);
    let falling = min(max(max(backward, forward), mean), 0.0);
    rising + falling
}

/// Twice the depth over `h^2 + max(h^2, dry^2)`: one over the depth if it exceeds `dry`
/// metres, and zero if there is no water (Chertock, Cui, Kurganov and Wu 2015,
/// after Kurganov and Petrova 2007).
#[inline(always)]
pub fn per_depth(h: f64, dry: f64) -> f64 {
    let square = h * h;
    2.0 * h / (square + max(square, dry * dry))
}

/// The larger of two numbers, the second if either is NaN: one instruction on processors,
/// where the standard library's needs three.
#[inline(always)]
pub fn max(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The smaller of two numbers, the second if either is NaN; see [`max`].
#[inline(always)]
pub fn min(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// The state at `offset` cells from the centre of `cell`.
#[inline(always)]
fn extrapolated(before: Cell, cell: Cell, after: Cell, offset: f64) -> Cell {
    let at = |value: fn(&Cell) -> f64| {
        let centre = value(&cell);
        centre + offset * limited(centre - value(&before), value(&after) - centre)
    };
    Cell {
        h: at(|cell| cell.h),
        eta: at(|cell| cell.eta),
        normal: at(|cell| cell.normal),
        along: at(|cell| cell.along),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limiter_is_odd_bounded_and_flat_at_extrema() {
        for (a, b) in [(1.0, 3.0), (0.2, 0.3), (4.0, 1e-3), (2.0, -1.0), (0.0, 5.0)] {
            let slope = limited(a, b);
            assert_eq!(limited(-a, -b), -slope);
            assert!(slope.abs() <= STEEPNESS * f64::min(f64::abs(a), f64::abs(b)));
            assert!(a * b > 0.0 || slope == 0.0);
        }
        assert_eq!(limited(1.0, 1.0), 1.0);
    }

    #[test]
    fn still_water_over_any_bed_gives_no_flux() {
        let cell = |bed: f64| Cell { h: f64::max(-bed, 0.0), eta: f64::max(bed, 0.0), ..Cell::default() };
        let none = Flux::default();
        for beds in [[-100.3, -7.1, -55.5, -2.7], [-3.0, -1.1, 4.2, 9.0], [5.0, 1.0, 2.0, -3.3]] {
            assert_eq!(face_flux(beds.map(cell)), none, "{beds:?}");
        }
    }

    #[test]
    fn no_mass_passes_between_mirror_images() {
        let near = Cell { h: 3.1, eta: 0.4, normal: 2.3, along: 0.7 };
        let far = Cell { h: 2.2, eta: 0.1, normal: -1.9, along: 0.3 };
        let image = |cell: Cell| Cell { normal: -cell.normal, ..cell };
        let flux = face_flux([far, near, image(near), image(far)]);
        assert_eq!((flux.mass, flux.along), (0.0, 0.0));
        assert_eq!(flux.lower, flux.higher);
    }

    #[test]
    fn depth_is_divided_out_without_ever_dividing_by_zero() {
        assert_eq!(per_depth(0.0, 0.01), 0.0);
        assert!((per_depth(8.0, 0.01) - 0.125).abs() < 1e-16);
        assert!(per_depth(1e-9, 0.01) < 1e-4);
    }
}
