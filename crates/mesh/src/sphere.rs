//! Geometry on the unit sphere, and the vector arithmetic that it needs.
//!
//! Points are vectors of length 1. Lengths are angles in radians; areas are in steradians, so the whole sphere has 4π.
//! The formulas are accurate for points that are very close together.

use std::array;

/// A vector in space.
type Vector = [f64; 3];

/// The scalar product.
pub fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// The vector product.
pub fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// `a` − `b`.
pub fn difference(a: Vector, b: Vector) -> Vector {
    array::from_fn(|axis| a[axis] - b[axis])
}

/// The length of a vector.
pub fn norm(a: Vector) -> f64 {
    dot(a, a).sqrt()
}

/// The vector of length 1 in the direction of `a`, which must not be zero.
pub fn unit(a: Vector) -> Vector {
    let length = norm(a);
    a.map(|x| x / length)
}

/// The length of the shorter arc between two points: the angle between them, from its tangent.
pub fn arc(a: Vector, b: Vector) -> f64 {
    norm(cross(a, b)).atan2(dot(a, b))
}

/// The point on the arc from `a` to `b` at the given fraction, 0 to 1, of its length (spherical linear interpolation:
/// K. Shoemake, "Animating rotation with quaternion curves", SIGGRAPH 1985). `a` and `b` must not be opposite.
pub fn along(a: Vector, b: Vector, fraction: f64) -> Vector {
    let angle = arc(a, b);
    if angle == 0.0 {
        return a;
    }
    let (from, to) = (((1.0 - fraction) * angle).sin(), (fraction * angle).sin());
    unit(array::from_fn(|axis| from * a[axis] + to * b[axis]))
}

/// The area of the spherical triangle `a`, `b`, `c`, positive if they are counter-clockwise as seen from outside: the
/// spherical excess by A. van Oosterom and J. Strackee, "The solid angle of a plane triangle", IEEE Trans. Biomed.
/// Eng. 30 (1983), with the triple product from differences, which does not cancel in small triangles.
pub fn triangle_area(a: Vector, b: Vector, c: Vector) -> f64 {
    let triple = dot(a, cross(difference(b, a), difference(c, a)));
    2.0 * triple.atan2(1.0 + dot(a, b) + dot(b, c) + dot(c, a))
}

/// The area of the spherical polygon with these corners, positive if they are counter-clockwise as seen from outside.
pub fn polygon_area(corners: &[Vector]) -> f64 {
    let fan = |pair: &[Vector]| triangle_area(corners[0], pair[0], pair[1]);
    corners.get(1..).unwrap_or_default().windows(2).map(fan).sum()
}

/// The point that is equally far from the three corners; if they are counter-clockwise, on their side of the sphere.
/// The corners must not lie on one great circle through two equal points.
pub fn circumcentre(a: Vector, b: Vector, c: Vector) -> Vector {
    unit(cross(difference(b, a), difference(c, a)))
}
