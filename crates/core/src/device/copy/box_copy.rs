//! Copies between strided boxes.

use crate::device::{DeviceError, Pointer};
use crate::element::SignChange;

/// The most axes a [`BoxCopy`] can have: four of the grid and one of components.
pub const MAX_COPY_AXES: usize = 5;

/// One axis of a [`BoxCopy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CopyAxis {
    /// The number of elements along it.
    pub extent: usize,
    /// Bytes from one element to the next in the source.
    pub source_stride: isize,
    /// Bytes from one element to the next in the target.
    pub target_stride: isize,
}

/// The blocks of memory, by number, that contain the ends of a copy. Callers of [`Device::run_copies`] say at each run
/// where the blocks begin. `None` for an end at a fixed address.
///
/// [`Device::run_copies`]: crate::device::Device::run_copies
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Anchors {
    /// The block of the source.
    pub source: Option<u32>,
    /// The block of the target.
    pub target: Option<u32>,
}

/// A copy of a box of elements from one strided layout to another.
///
/// A backend can run it as it stands: its axes are in the order that comes closest to walking the target in sequence,
/// outermost first, and axes that continue each other in both layouts are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoxCopy {
    source: Pointer,
    target: Pointer,
    element_bytes: usize,
    axes: [CopyAxis; MAX_COPY_AXES],
    axis_count: usize,
    sign_change: Option<SignChange>,
    anchors: Anchors,
}

impl BoxCopy {
    /// A copy of elements of `element_bytes` bytes along `axes`, in any order. `source` and `target` are the addresses
    /// of the first element. Without axes, it copies one element.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for more than [`MAX_COPY_AXES`] axes, an element of 0 bytes, a target stride of
    /// 0 (two elements at one address), and a box that no memory can hold.
    pub fn new(
        source: Pointer,
        target: Pointer,
        element_bytes: usize,
        axes: &[CopyAxis],
    ) -> Result<BoxCopy, DeviceError> {
        if axes.len() > MAX_COPY_AXES {
            return Err(DeviceError::invalid(
                "the axes of a box copy",
                format!("at most {MAX_COPY_AXES}"),
                axes.len(),
            ));
        }
        if element_bytes == 0 {
            return Err(DeviceError::invalid("the element size of a box copy", "at least 1 byte", 0));
        }
        let empty = axes.iter().any(|axis| axis.extent == 0);
        if let Some(axis) = axes.iter().find(|axis| !empty && axis.extent > 1 && axis.target_stride == 0) {
            return Err(DeviceError::invalid(
                "the target stride of a box copy",
                "a stride other than 0",
                format!("0 along an axis of {} elements", axis.extent),
            ));
        }
        if !empty && !fits_memory(element_bytes, axes) {
            let found = format!("{axes:?}, elements of {element_bytes} bytes");
            return Err(DeviceError::invalid("the size of a box copy", "a size that memory can hold", found));
        }
        let mut copy = BoxCopy {
            source,
            target,
            element_bytes,
            axes: [CopyAxis { extent: 1, source_stride: 0, target_stride: 0 }; MAX_COPY_AXES],
            axis_count: 0,
            sign_change: None,
            anchors: Anchors::default(),
        };
        if empty {
            copy.push(CopyAxis { extent: 0, source_stride: 0, target_stride: 0 });
            return Ok(copy);
        }
        let mut sorted = [CopyAxis { extent: 1, source_stride: 0, target_stride: 0 }; MAX_COPY_AXES];
        let sorted = &mut sorted[..axes.len()];
        sorted.copy_from_slice(axes);
        sorted.sort_by_key(|axis| {
            std::cmp::Reverse((axis.target_stride.unsigned_abs(), axis.source_stride.unsigned_abs()))
        });
        for &axis in sorted.iter().filter(|axis| axis.extent > 1) {
            copy.push(axis);
        }
        copy.widen();
        Ok(copy)
    }

    /// The same copy, which changes the sign of every number that it moves.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if the element size is not a multiple of the size of such a number.
    pub fn with_sign_change(mut self, change: SignChange) -> Result<BoxCopy, DeviceError> {
        if !self.element_bytes.is_multiple_of(change.bytes()) {
            return Err(DeviceError::invalid(
                "the element size of a copy that changes signs",
                format!("a multiple of {} bytes for {change:?}", change.bytes()),
                self.element_bytes,
            ));
        }
        self.sign_change = Some(change);
        Ok(self)
    }

    /// How it changes signs; `None` if it does not.
    pub fn sign_change(&self) -> Option<SignChange> {
        self.sign_change
    }

    /// The same copy between blocks of memory: the address of an end with a block is the number of bytes from the start
    /// of that block, which may be negative.
    #[must_use]
    pub fn anchored(mut self, anchors: Anchors) -> BoxCopy {
        self.anchors = anchors;
        self
    }

    /// The blocks of memory that contain its ends.
    pub fn anchors(&self) -> Anchors {
        self.anchors
    }

    /// The addresses of the first element of the source and of the target, if block `k` begins at `bases[k]`.
    #[inline]
    pub fn ends(&self, bases: &[Pointer]) -> (Pointer, Pointer) {
        let end = |end: Pointer, block: Option<u32>| match block.and_then(|block| bases.get(block as usize)) {
            // Derived from the address of the block, so that the end has its provenance.
            Some(base) => base.offset(end.as_ptr().addr().cast_signed()),
            None => end,
        };
        (end(self.source, self.anchors.source), end(self.target, self.anchors.target))
    }

    /// The address of the first element of the source; with a block, in bytes from the start of the block.
    pub fn source(&self) -> Pointer {
        self.source
    }

    /// The address of the first element of the target; with a block, in bytes from the start of the block.
    pub fn target(&self) -> Pointer {
        self.target
    }

    /// Bytes moved at each point of [`axes`](BoxCopy::axes): an element, or a whole row if rows are contiguous on both
    /// sides.
    pub fn run_bytes(&self) -> usize {
        self.element_bytes
    }

    /// The axes, outermost first.
    pub fn axes(&self) -> &[CopyAxis] {
        &self.axes[..self.axis_count]
    }

    /// All bytes that it moves.
    pub fn bytes(&self) -> usize {
        self.axes().iter().map(|axis| axis.extent).product::<usize>() * self.element_bytes
    }

    /// The same copy, with its ends `source` and `target` bytes further on.
    #[must_use]
    pub fn moved(mut self, source: isize, target: isize) -> BoxCopy {
        self.source = self.source.offset(source);
        self.target = self.target.offset(target);
        self
    }

    /// Cuts it into at most `pieces` copies of nearly equal size: along its longest axis, or within the run of bytes if
    /// it has no axes.
    pub fn split(&self, pieces: usize) -> Vec<BoxCopy> {
        let longest = (0..self.axis_count).max_by_key(|&axis| self.axes[axis].extent);
        // If signs change, a run of bytes is cut between numbers.
        let unit = self.sign_change.map_or(1, SignChange::bytes);
        let whole = longest.map_or(self.element_bytes / unit, |axis| self.axes[axis].extent);
        let pieces = pieces.clamp(1, whole.max(1));
        (0..pieces)
            .map(|piece| {
                let (begin, end) = (part_begin(whole, piece, pieces), part_begin(whole, piece + 1, pieces));
                let mut part = *self;
                let (mut source_stride, mut target_stride) = (unit as isize, unit as isize);
                match longest {
                    Some(axis) => {
                        part.axes[axis].extent = end - begin;
                        (source_stride, target_stride) =
                            (self.axes[axis].source_stride, self.axes[axis].target_stride);
                    }
                    None => part.element_bytes = (end - begin) * unit,
                }
                part.moved(begin as isize * source_stride, begin as isize * target_stride)
            })
            .collect()
    }

    /// Appends an inner axis, and merges it with the last one if the two continue each other on both sides.
    fn push(&mut self, axis: CopyAxis) {
        if let Some(last) = self.axes[..self.axis_count].last_mut() {
            let past = |stride: isize| stride.checked_mul(axis.extent as isize);
            let continues = past(axis.source_stride) == Some(last.source_stride)
                && past(axis.target_stride) == Some(last.target_stride);
            if continues {
                *last = CopyAxis { extent: last.extent * axis.extent, ..axis };
                return;
            }
        }
        self.axes[self.axis_count] = axis;
        self.axis_count += 1;
    }

    /// Turns a contiguous innermost axis into one wider element.
    fn widen(&mut self) {
        if let Some(last) = self.axes[..self.axis_count].last()
            && last.source_stride == self.element_bytes as isize
            && last.target_stride == self.element_bytes as isize
        {
            self.element_bytes *= last.extent;
            self.axis_count -= 1;
        }
    }
}

/// Whether the size of a box in bytes, and on both sides the distance from its first element to the end of its last
/// one, fit into `isize`.
fn fits_memory(element_bytes: usize, axes: &[CopyAxis]) -> bool {
    let most = isize::MAX as u128;
    let bytes =
        axes.iter().fold(element_bytes as u128, |bytes, axis| bytes.saturating_mul(axis.extent as u128));
    let reach = |stride: fn(&CopyAxis) -> isize| {
        axes.iter().fold(element_bytes as u128, |reach, axis| {
            let steps = axis.extent as u128 - 1;
            reach.saturating_add(steps.saturating_mul(stride(axis).unsigned_abs() as u128))
        })
    };
    bytes <= most && reach(|axis| axis.source_stride) <= most && reach(|axis| axis.target_stride) <= most
}

/// The start of part `piece`, if `whole` is cut into `pieces` parts of nearly equal size.
pub(super) fn part_begin(whole: usize, piece: usize, pieces: usize) -> usize {
    (whole as u128 * piece as u128 / pieces as u128) as usize
}
