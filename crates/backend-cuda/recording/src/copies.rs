//! Copies of rows and of planes of rows, and fills.

use std::ffi::c_void;

use crate::objects::Work;
use crate::status::{INVALID_VALUE, Status};

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
    /// The same side, as one of planes of `height` rows.
    pub(crate) fn planes(self, height: usize) -> Side3D {
        let Side2D { x_bytes, y, memory_type, host, device, array, pitch } = self;
        Side3D { x_bytes, y, z: 0, lod: 0, memory_type, host, device, array, reserved: host, pitch, height }
    }
}

/// The copies of rows that make a copy of planes.
pub(crate) fn copy_planes(
    source: &Side3D,
    target: &Side3D,
    [row_bytes, rows, planes]: [usize; 3],
) -> Result<Vec<Work>, Status> {
    let unified = 4;
    for side in [source, target] {
        let fits = side.memory_type == unified && side.pitch >= row_bytes && side.height >= rows;
        if !fits || side.x_bytes + side.y + side.z + side.lod > 0 {
            return Err(INVALID_VALUE);
        }
    }
    let places = (0..planes).flat_map(|plane| (0..rows).map(move |row| (plane, row)));
    let row = |(plane, row): (usize, usize)| {
        let at = |side: &Side3D| side.device + ((plane * side.height + row) * side.pitch) as u64;
        Work::Copy { source: at(source), target: at(target), bytes: row_bytes }
    };
    Ok(places.map(row).collect())
}

/// A fill with `count` elements of these bytes.
pub(crate) fn fill(target: u64, pattern: &[u8], count: usize) -> Result<Vec<Work>, Status> {
    if !target.is_multiple_of(pattern.len() as u64) {
        return Err(INVALID_VALUE);
    }
    Ok(vec![Work::Fill { target, pattern: pattern.to_vec(), count }])
}
