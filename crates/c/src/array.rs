//! Arrays: what their axes are, and their elements.

use std::ffi::c_char;
use std::mem::offset_of;

use haloport::ElementType;
use haloport::field::{ArrayShape, AxisRole};

use crate::arguments::{Struct, check_beyond, count, text};
use crate::boxes::AXES;
use crate::domains::AnyPattern;
use crate::element::{BYTES, element_type};
use crate::handle::Handle;
use crate::status::Failure;

/// The most axes of an array.
const ARRAY_AXES: usize = 8;

/// `hp_array` of the header.
#[repr(C)]
pub(crate) struct CArray {
    pub(crate) size: u32,
    pub(crate) kind: i32,
    pub(crate) element_bytes: i32,
    pub(crate) axes: i32,
    pub(crate) extent: [i64; ARRAY_AXES],
    pub(crate) stride: [i64; ARRAY_AXES],
    pub(crate) role: [i32; ARRAY_AXES],
    pub(crate) origin: [i64; AXES],
    pub(crate) device: *const c_char,
    pub(crate) vector: [i32; VECTOR],
    pub(crate) of: Handle<AnyPattern>,
}

// SAFETY: numbers, and pointers and a handle that may be null.
unsafe impl Struct for CArray {
    const FIRST: usize = offset_of!(CArray, vector);
}

/// The most components of vectors.
const VECTOR: usize = 4;

/// `HP_CELLS` of the header, then those of further axes of a grid.
pub(crate) const CELLS: i32 = 1;
/// One past them.
const PAST_CELLS: i32 = CELLS + AXES as i32;
/// `HP_CELL_BLOCKS`, `HP_LEVELS` and `HP_COMPONENTS` of the header.
pub(crate) const BLOCKS: i32 = 9;
pub(crate) const LEVELS: i32 = 10;
pub(crate) const COMPONENTS: i32 = 11;

/// The name of the array's device, if it is not in memory of the host.
///
/// # Safety
/// `array.device` is as the header says, and nothing writes it while the result lives.
pub(crate) unsafe fn device_name<'a>(array: &CArray, name: &str) -> Result<Option<&'a str>, Failure> {
    // SAFETY: the caller's promise.
    unsafe { text(array.device, &format!("{name}.device")) }
}

/// The elements of an array.
pub(crate) fn element_of(array: &CArray, name: &str) -> Result<ElementType, Failure> {
    if array.kind == BYTES {
        let bytes = count(array.element_bytes, &format!("{name}.element_bytes"))?;
        return ElementType::record(bytes).ok_or_else(|| {
            Failure::argument(format!("{name}.element_bytes: expected 1 or more, found {bytes}"))
        });
    }
    let element = element_type(array.kind).ok_or_else(|| {
        Failure::argument(format!("{name}.type: expected one of hp_type, found {}", array.kind))
    })?;
    match array.element_bytes {
        0 => Ok(element),
        bytes if usize::try_from(bytes) == Ok(element.bytes()) => Ok(element),
        bytes => Err(Failure::argument(format!(
            "{name}.element_bytes: expected {} for {}, or 0, found {bytes}",
            element.bytes(),
            element.in_words()
        ))),
    }
}

/// The axes of the grid along which the first components of an array point; none for scalars.
pub(crate) fn vector_of(array: &CArray, name: &str) -> Result<Vec<usize>, Failure> {
    let components = array.vector.iter().rposition(|&axis| axis != 0).map_or(0, |last| last + 1);
    let axes = array.vector[..components].iter().enumerate().map(|(component, &axis)| match axis {
        CELLS..PAST_CELLS => Ok((axis - CELLS) as usize),
        other => Err(Failure::argument(format!(
            "{name}.vector[{component}]: expected HP_CELLS + k for axis k of the grid, found {other}"
        ))),
    });
    axes.collect()
}

/// The shape of an array of a pattern with `own` axes, on a grid or not.
pub(crate) fn shape_of(array: &CArray, own: usize, on_grid: bool, name: &str) -> Result<ArrayShape, Failure> {
    let axes = match usize::try_from(array.axes) {
        Ok(axes @ 1..=ARRAY_AXES) => axes,
        _ => {
            let found = array.axes;
            return Err(Failure::argument(format!("{name}.axes: expected 1 to {ARRAY_AXES}, found {found}")));
        }
    };
    array.check_beyond(axes, (own, on_grid), name)?;
    let extents = array.extent[..axes].iter().map(|&extent| count(extent, &format!("{name}.extent")));
    let extents: Vec<usize> = extents.collect::<Result<_, _>>()?;
    let strides = match array.stride[..axes].iter().all(|&stride| stride == 0) {
        true => ArrayShape::contiguous(&extents).ok_or_else(|| {
            Failure::argument(format!(
                "{name}.extent: expected a size that memory can hold, found {extents:?}"
            ))
        })?,
        false => strides_of(array, &extents, name)?,
    };
    let roles = array.role[..axes].iter().enumerate().map(|(axis, &role)| match role {
        CELLS..PAST_CELLS => Ok(AxisRole::Cells((role - CELLS) as usize)),
        BLOCKS => Ok(AxisRole::Blocks),
        LEVELS => Ok(AxisRole::Levels),
        COMPONENTS => Ok(AxisRole::Components),
        other => Err(Failure::argument(format!(
            "{name}.role[{axis}]: expected HP_CELLS, HP_CELL_BLOCKS, HP_LEVELS or HP_COMPONENTS, found {other}"
        ))),
    });
    let roles = match array.role[..axes].iter().all(|&role| role == 0) {
        true => None,
        false => Some(roles.collect::<Result<Vec<_>, _>>()?),
    };
    let origin = match on_grid && array.origin[..own].iter().any(|&origin| origin != 0) {
        false => None,
        true => {
            let origin = array.origin[..own].iter().map(|&first| count(first, &format!("{name}.origin")));
            Some(origin.collect::<Result<Vec<_>, _>>()?)
        }
    };
    Ok(ArrayShape { extents, strides, roles, origin })
}

impl CArray {
    /// Checks that there is no value for an axis beyond those of the array, and of the pattern, which has `own` axes.
    fn check_beyond(&self, axes: usize, (own, on_grid): (usize, bool), name: &str) -> Result<(), Failure> {
        let counted = format!("{name}.axes");
        check_beyond(&self.extent, (&counted, axes), &format!("{name}.extent"))?;
        check_beyond(&self.stride, (&counted, axes), &format!("{name}.stride"))?;
        check_beyond(&self.role, (&counted, axes), &format!("{name}.role"))?;
        let of_grid = if on_grid { own } else { 0 };
        check_beyond(&self.origin, ("the number of axes of the grid", of_grid), &format!("{name}.origin"))
    }
}

/// Strides in elements.
fn strides_of(array: &CArray, extents: &[usize], name: &str) -> Result<Vec<isize>, Failure> {
    let bytes = element_of(array, name)?.bytes() as i64;
    let strides = array.stride[..extents.len()].iter().zip(extents).enumerate();
    strides
        .map(|(axis, (&stride, &extent))| match stride % bytes {
            0 => Ok((stride / bytes) as isize),
            // Along an axis of one element it has no effect.
            _ if extent <= 1 => Ok(1),
            _ => Err(Failure::argument(format!(
                "{name}.stride[{axis}]: expected a multiple of the {bytes} bytes of an element, found {stride}"
            ))),
        })
        .collect()
}
