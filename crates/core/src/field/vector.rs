//! The components of a field that form vectors.

use serde::{Deserialize, Serialize};

use super::{BlockLayout, FieldError};
use crate::domain::{Grid, Orientation};
use crate::element::ElementType;

/// The axes along which the first components of a field point, in the direction of growing indices; further components
/// are scalars. If several components point along one axis, the first belongs to the first vector, and so on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VectorAxes(Vec<usize>);

impl VectorAxes {
    /// The axes for a field with these blocks.
    ///
    /// # Errors
    /// [`FieldError::Layout`] for elements without a sign, more axes than components, and axes that do not exist.
    pub(crate) fn new(
        axes: &[usize],
        element: ElementType,
        mut blocks: &mut dyn Iterator<Item = &BlockLayout>,
    ) -> Result<VectorAxes, FieldError> {
        if !axes.is_empty() && element.sign_change().is_none() {
            let expected = "numbers with a sign: across some edges components change theirs";
            return Err(FieldError::layout("the elements of a vector field", expected, element.in_words()));
        }
        let found = format!("{axes:?}");
        let few = Iterator::find(&mut blocks, |layout| {
            axes.len() > layout.components() || axes.iter().any(|&axis| axis >= layout.allocated().axes())
        });
        match few {
            None => Ok(VectorAxes(axes.to_vec())),
            Some(layout) => {
                let (components, axes) = (layout.components(), layout.allocated().axes());
                let expected = format!("at most {components}, one for each component, below {axes}");
                Err(FieldError::layout("the axes that components point along", expected, found))
            }
        }
    }

    /// Whether all components are scalars.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The component of the source that arrives in `component` of the target, and whether its sign changes.
    pub(crate) fn source(&self, component: usize, orientation: &Orientation) -> (usize, bool) {
        let Some(&axis) = self.0.get(component) else { return (component, false) };
        let (along, reversed) = orientation.source_axis(axis);
        let vector = self.0[..component].iter().filter(|&&other| other == axis).count();
        let mut candidates = (0..self.0.len()).filter(|&other| self.0[other] == along);
        (candidates.nth(vector).unwrap_or(component), reversed)
    }

    /// The text of the error if the grid turns vectors and these cannot be turned.
    pub(crate) fn misfit(&self, grid: &Grid) -> Option<String> {
        let [y, x] = grid.face_axes()?;
        let count = |axis: usize| self.0.iter().filter(|&&other| other == axis).count();
        (count(y) != count(x) || count(0) > 0).then(|| {
            format!(
                "components along the axes {:?} of a cubed sphere, expected as many along axis {y} as along axis {x}, \
                 and none along axis 0",
                self.0
            )
        })
    }
}

impl std::fmt::Display for VectorAxes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_empty() { Ok(()) } else { write!(f, " with components along the axes {:?}", self.0) }
    }
}
