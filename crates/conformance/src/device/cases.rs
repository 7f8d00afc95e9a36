//! Random copies with their expected results.

use std::sync::Arc;

use haloport_core::device::{
    Anchors, BoxCopy, CopyAxis, CopyRows, Device, DeviceError, IndexedCopy, Pointer,
};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::bytes::{random_bytes, upload_bytes};

/// The byte that fills a target before a copy.
pub(super) const BACKGROUND: u8 = 0xA5;

/// A random strided copy with its expected result.
#[derive(Debug)]
pub(super) struct BoxCase {
    pub(super) element_bytes: usize,
    pub(super) axes: Vec<CopyAxis>,
    pub(super) source_bytes: usize,
    pub(super) target_bytes: usize,
    pub(super) seed: u64,
}

impl BoxCase {
    pub(super) fn random(random: &mut StdRng, extent: usize) -> BoxCase {
        let element_bytes = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 100][random.random_range(0..11)];
        BoxCase::of_elements(random, extent, element_bytes)
    }

    pub(super) fn of_elements(random: &mut StdRng, extent: usize, element_bytes: usize) -> BoxCase {
        let count = random.random_range(0..=4);
        let extents: Vec<usize> = (0..count).map(|_| random.random_range(1..=extent)).collect();
        let mut lay_out = || {
            let mut order: Vec<usize> = (0..count).collect();
            order.shuffle(random);
            let mut strides = vec![0isize; count];
            let mut stride = element_bytes;
            for &axis in &order {
                strides[axis] = stride as isize;
                stride *= extents[axis] + if random.random_bool(0.5) { 0 } else { random.random_range(0..3) };
            }
            (strides, stride)
        };
        let (source_strides, source_bytes) = lay_out();
        let (target_strides, target_bytes) = lay_out();
        let axes = (0..count)
            .map(|axis| CopyAxis {
                extent: extents[axis],
                source_stride: source_strides[axis],
                target_stride: target_strides[axis],
            })
            .collect();
        BoxCase { element_bytes, axes, source_bytes, target_bytes, seed: random.random() }
    }

    pub(super) fn copy(&self, source: Pointer, target: Pointer) -> Result<BoxCopy, DeviceError> {
        BoxCopy::new(source, target, self.element_bytes, &self.axes)
    }

    pub(super) fn source<D: Device>(&self, device: &D) -> Result<D::Buffer, DeviceError> {
        upload_bytes(device, &random_bytes(self.seed, self.source_bytes))
    }

    /// The source behind `before` other bytes.
    pub(super) fn source_behind<D: Device>(
        &self,
        device: &D,
        before: usize,
    ) -> Result<D::Buffer, DeviceError> {
        let mut bytes = vec![BACKGROUND; before];
        bytes.extend(random_bytes(self.seed, self.source_bytes));
        upload_bytes(device, &bytes)
    }

    pub(super) fn target<D: Device>(&self, device: &D) -> Result<D::Buffer, DeviceError> {
        upload_bytes(device, &vec![BACKGROUND; self.target_bytes])
    }

    /// The target as it should be, element by element.
    pub(super) fn expected(&self) -> Vec<u8> {
        let source = random_bytes(self.seed, self.source_bytes);
        let mut target = vec![BACKGROUND; self.target_bytes];
        self.copy_bytes(&source, &mut target);
        target
    }

    pub(super) fn copy_bytes(&self, source: &[u8], target: &mut [u8]) {
        self.for_each_element(source, target, |from, to| to.copy_from_slice(from));
    }

    /// Calls `apply` with the bytes of each element in the source and in the target.
    pub(super) fn for_each_element(
        &self,
        source: &[u8],
        target: &mut [u8],
        mut apply: impl FnMut(&[u8], &mut [u8]),
    ) {
        let points: usize = self.axes.iter().map(|axis| axis.extent).product();
        for mut point in 0..points {
            let (mut from, mut to) = (0isize, 0isize);
            for axis in &self.axes {
                let index = (point % axis.extent) as isize;
                point /= axis.extent;
                from += index * axis.source_stride;
                to += index * axis.target_stride;
            }
            let (from, to) = (from as usize, to as usize);
            apply(&source[from..from + self.element_bytes], &mut target[to..to + self.element_bytes]);
        }
    }
}

/// A random copy of indexed rows, each of them a strided box.
#[derive(Debug)]
pub(super) struct Gather {
    pub(super) row: BoxCase,
    pub(super) rows: usize,
    pub(super) source: GatherSide,
    pub(super) target: GatherSide,
}

/// The rows of one side, some of which are not copied.
#[derive(Debug)]
pub(super) struct GatherSide {
    pub(super) bytes: usize,
    /// The offset of row 0, in bytes.
    begin: usize,
    stride: isize,
    indices: Option<Arc<[u32]>>,
}

impl Gather {
    /// A random copy of about `most_bytes` bytes, and of a few rows at least.
    pub(super) fn random(random: &mut StdRng, extent: usize, most_bytes: usize) -> Gather {
        let row = BoxCase::random(random, extent);
        Gather::of_rows(random, row, most_bytes)
    }

    /// The same, of these rows.
    pub(super) fn of_rows(random: &mut StdRng, mut row: BoxCase, most_bytes: usize) -> Gather {
        let rows = random.random_range(1..=(most_bytes / row.source_bytes.max(row.target_bytes)).max(30));
        let held = rows + random.random_range(0..=1 + rows / 4);
        // On either side, rows are the slowest or the fastest axis, padded or not, upwards or downwards. This returns
        // their bytes and stride, and the factor for the strides within a row.
        let mut lay_out = |bytes: usize| {
            let (stride, bytes, scale) = if random.random_bool(0.5) {
                let stride = bytes + random.random_range(0..3) * row.element_bytes;
                (stride, stride * held, 1)
            } else {
                (row.element_bytes, bytes * held, held)
            };
            let downwards = random.random_bool(0.2);
            let begin = if downwards { (held - 1) * stride } else { 0 };
            let stride = if downwards { -(stride as isize) } else { stride as isize };
            (GatherSide { bytes, begin, stride, indices: None }, scale as isize)
        };
        let (mut source, source_scale) = lay_out(row.source_bytes);
        let (mut target, target_scale) = lay_out(row.target_bytes);
        for axis in &mut row.axes {
            axis.source_stride *= source_scale;
            axis.target_stride *= target_scale;
        }
        let anywhere = (0..rows).map(|_| random.random_range(0..held as u32)).collect();
        let (some, others) = (in_runs(random, rows, held), in_runs(random, rows, held));
        (source.indices, target.indices) = match random.random_range(0..6) {
            0 => (Some(anywhere), None),
            1 => (Some(anywhere), Some(some)),
            2 => (None, Some(some)),
            3 => (Some(some), None),
            4 => (Some(some), Some(others)),
            _ => (Some(some.clone()), Some(some)),
        };
        Gather { row, rows, source, target }
    }

    pub(super) fn source<D: Device>(&self, device: &D) -> Result<D::Buffer, DeviceError> {
        upload_bytes(device, &random_bytes(self.row.seed, self.source.bytes))
    }

    pub(super) fn target<D: Device>(&self, device: &D) -> Result<D::Buffer, DeviceError> {
        upload_bytes(device, &vec![BACKGROUND; self.target.bytes])
    }

    pub(super) fn copy(
        &self,
        (source, target, anchors): (Pointer, Pointer, Anchors),
    ) -> Result<IndexedCopy, DeviceError> {
        let first = |side: &GatherSide, pointer: Pointer| pointer.offset(side.begin as isize);
        let row = self.row.copy(first(&self.source, source), first(&self.target, target))?.anchored(anchors);
        let rows = |side: &GatherSide| CopyRows { stride: side.stride, indices: side.indices.clone() };
        IndexedCopy::new(row, self.rows, rows(&self.source), rows(&self.target))
    }

    pub(super) fn expected(&self) -> Vec<u8> {
        let source = random_bytes(self.row.seed, self.source.bytes);
        let mut target = vec![BACKGROUND; self.target.bytes];
        self.for_each_element(&source, &mut target, |from, to| to.copy_from_slice(from));
        target
    }

    /// As [`BoxCase::for_each_element`], for all rows.
    pub(super) fn for_each_element(
        &self,
        source: &[u8],
        target: &mut [u8],
        mut apply: impl FnMut(&[u8], &mut [u8]),
    ) {
        for position in 0..self.rows {
            let begin = |side: &GatherSide| {
                let row = side.indices.as_ref().map_or(position, |rows| rows[position] as usize);
                (side.begin as isize + row as isize * side.stride) as usize
            };
            let (source, target) = (&source[begin(&self.source)..], &mut target[begin(&self.target)..]);
            self.row.for_each_element(source, target, &mut apply);
        }
    }
}

/// Picks `rows` of the rows held, each at most once; in half of the lists, runs of consecutive rows.
fn in_runs(random: &mut StdRng, rows: usize, held: usize) -> Arc<[u32]> {
    let run = if random.random_bool(0.5) { 1 } else { random.random_range(2..=50) };
    let mut starts: Vec<usize> = (0..held).step_by(run).collect();
    starts.shuffle(random);
    let all = starts.iter().flat_map(|&start| start as u32..(start + run).min(held) as u32);
    all.take(rows).collect()
}
