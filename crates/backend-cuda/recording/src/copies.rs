//! Copies of rows and of planes of rows, and fills.

use std::ffi::c_void;

use crate::state::{INVALID_VALUE, State, Status};

/// One side of a copy of rows.
#[repr(C)]
pub(crate) struct Side2D {
    x_bytes: usize,
    y: usize,
    memory_type: u32,
    host: *mut c_void,
    device: u64,
    array: *mut c_void,
    pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
pub(crate) struct Copy2D {
    pub(crate) source: Side2D,
    pub(crate) target: Side2D,
    pub(crate) row_bytes: usize,
    pub(crate) rows: usize,
}

/// One side of a copy of planes of rows.
#[repr(C)]
pub(crate) struct Side3D {
    x_bytes: usize,
    y: usize,
    z: usize,
    lod: usize,
    memory_type: u32,
    host: *mut c_void,
    device: u64,
    array: *mut c_void,
    reserved: *mut c_void,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
pub(crate) struct Copy3D {
    pub(crate) source: Side3D,
    pub(crate) target: Side3D,
    pub(crate) row_bytes: usize,
    pub(crate) rows: usize,
    pub(crate) planes: usize,
}

impl Side2D {
    /// The same with one plane.
    pub(crate) fn planes(self, height: usize) -> Side3D {
        let Side2D { x_bytes, y, memory_type, host, device, array, pitch } = self;
        Side3D { x_bytes, y, z: 0, lod: 0, memory_type, host, device, array, reserved: host, pitch, height }
    }
}

/// # Safety
/// Both sides are memory, as far as they are not known here.
pub(crate) unsafe fn copy_planes(
    state: &State,
    source: &Side3D,
    target: &Side3D,
    [row_bytes, rows, planes]: [usize; 3],
) -> Result<(), Status> {
    let unified = 4;
    for side in [source, target] {
        let fits = side.memory_type == unified && side.pitch >= row_bytes && side.height >= rows;
        if !fits || side.x_bytes + side.y + side.z + side.lod > 0 {
            return Err(INVALID_VALUE);
        }
    }
    for row in (0..planes).flat_map(|plane| (0..rows).map(move |row| (plane, row))) {
        let at = |side: &Side3D| side.device + ((row.0 * side.height + row.1) * side.pitch) as u64;
        let (from, to) = (state.holds(at(source), row_bytes)?, state.holds(at(target), row_bytes)?);
        // SAFETY: the caller's promise, and ours where it was looked up.
        unsafe { to.copy_from(from, row_bytes) };
    }
    Ok(())
}

/// # Safety
/// The target is memory, as far as it is not known here.
pub(crate) unsafe fn fill<T: Copy>(
    state: &State,
    stream: usize,
    target: u64,
    value: T,
    count: usize,
) -> Result<(), Status> {
    state.stream(stream)?;
    if !target.is_multiple_of(size_of::<T>() as u64) {
        return Err(INVALID_VALUE);
    }
    let to = state.holds(target, count * size_of::<T>())?.cast::<T>();
    // SAFETY: the caller's promise, and aligned.
    (0..count).for_each(|at| unsafe { to.add(at).write(value) });
    Ok(())
}
