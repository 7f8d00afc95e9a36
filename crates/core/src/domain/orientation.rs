//! The numbering of the same cells along the axes of two tiles of a grid.

use serde::{Deserialize, Serialize};

use super::{IndexBox, MAX_AXES};

/// For each axis of a target, the axis of its source that runs along it, and whether it is reversed.
///
/// By default all axes run along themselves, as within one box of cells. Across an edge of a
/// [cubed sphere](crate::Grid::cubed_sphere) an axis may run along another one, or against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ReadOrientation")]
pub struct Orientation {
    /// For each axis of the target the axis of the source.
    axes: [u8; MAX_AXES],
    /// For each axis of the target whether it is reversed.
    reversed: [bool; MAX_AXES],
}

/// A deserialised orientation that is not checked yet.
#[derive(Deserialize)]
struct ReadOrientation {
    axes: [u8; MAX_AXES],
    reversed: [bool; MAX_AXES],
}

impl TryFrom<ReadOrientation> for Orientation {
    type Error = String;

    fn try_from(ReadOrientation { axes, reversed }: ReadOrientation) -> Result<Orientation, String> {
        let mut sorted = axes;
        sorted.sort_unstable();
        if sorted != Orientation::default().axes {
            return Err(format!("expected each of the axes 0 to {} once, found {axes:?}", MAX_AXES - 1));
        }
        Ok(Orientation { axes, reversed })
    }
}

/// The numbering of the cells of a target in their source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Renumbering {
    pub(crate) orientation: Orientation,
    /// For each axis of the target: the index along the axis of the source is this plus the index of the target, or, if
    /// the axis is reversed, this minus the index of the target.
    pub(crate) shift: [i64; MAX_AXES],
}

impl Default for Orientation {
    fn default() -> Self {
        Orientation { axes: std::array::from_fn(|axis| axis as u8), reversed: [false; MAX_AXES] }
    }
}

impl Orientation {
    /// The axis of the source along which `axis` of the target runs, and whether it is reversed. Axes from
    /// [`MAX_AXES`] on run along themselves.
    pub fn source_axis(&self, axis: usize) -> (usize, bool) {
        if axis < MAX_AXES { (usize::from(self.axes[axis]), self.reversed[axis]) } else { (axis, false) }
    }

    /// The axis of the target that runs along `axis` of the source.
    pub fn target_axis(&self, axis: usize) -> usize {
        (0..MAX_AXES).find(|&target| self.source_axis(target).0 == axis).unwrap_or(axis)
    }

    /// Whether any axis runs along another one, or is reversed.
    pub fn is_turned(&self) -> bool {
        *self != Orientation::default()
    }

    /// The orientation of the source in the target.
    pub(crate) fn inverse(&self) -> Orientation {
        let mut inverse = Orientation::default();
        for axis in 0..MAX_AXES {
            let (along, backwards) = self.source_axis(axis);
            (inverse.axes[along], inverse.reversed[along]) = (axis as u8, backwards);
        }
        inverse
    }

    /// The same with `axis` of the target along `source`. The caller then also sets the axis that ran along `source`
    /// before.
    pub(crate) fn with_axis(mut self, axis: usize, source: usize, reversed: bool) -> Orientation {
        self.axes[axis] = source as u8;
        self.reversed[axis] = reversed;
        self
    }
}

impl Renumbering {
    /// The cells of the source that are those of `target`.
    pub(crate) fn source(&self, target: &IndexBox) -> IndexBox {
        (0..target.axes()).fold(*target, |source, axis| {
            let (along, reversed) = self.orientation.source_axis(axis);
            let (lower, upper) = target.bounds(axis);
            let shift = self.shift[axis];
            match reversed {
                false => source.with_axis(along, shift + lower, shift + upper),
                true => source.with_axis(along, shift - upper + 1, shift - lower + 1),
            }
        })
    }

    /// The cells of the target that are those of `source`.
    pub(crate) fn target(&self, source: &IndexBox) -> IndexBox {
        (0..source.axes()).fold(*source, |target, axis| {
            let (along, reversed) = self.orientation.source_axis(axis);
            let (lower, upper) = source.bounds(along);
            let shift = self.shift[axis];
            match reversed {
                false => target.with_axis(axis, lower - shift, upper - shift),
                true => target.with_axis(axis, shift - upper + 1, shift - lower + 1),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renumbering_leads_to_the_source_and_back() {
        let orientation = Orientation::default().with_axis(1, 2, true).with_axis(2, 1, false);
        let renumbering = Renumbering { orientation, shift: [3, 9, -4, 0] };
        let target = IndexBox::new([0, 2, 5], [1, 4, 9]);
        let source = renumbering.source(&target);
        assert_eq!(source, IndexBox::new([3, 1, 6], [4, 5, 8]));
        assert_eq!(renumbering.target(&source), target);
        assert_eq!((orientation.target_axis(1), orientation.target_axis(2)), (2, 1));
        let back = Orientation::default().with_axis(2, 1, true).with_axis(1, 2, false);
        assert_eq!((orientation.inverse(), back.inverse()), (back, orientation));
    }
}
