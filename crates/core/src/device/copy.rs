//! Copies between strided boxes and between indexed rows: the one primitive of packing, unpacking, copies to
//! oneself and copies from a neighbour.

use std::sync::Arc;

use super::{DeviceError, Pointer};

/// The most axes a [`BoxCopy`] can have: four of the grid and one of components.
pub const MAX_COPY_AXES: usize = 5;

/// One axis of a [`BoxCopy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CopyAxis {
    /// How many elements there are along it.
    pub extent: usize,
    /// Bytes from one element to the next in the source.
    pub source_stride: isize,
    /// Bytes from one element to the next in the target.
    pub target_stride: isize,
}

/// How a copy changes the sign of every number that it moves: a vector's component that points the other way.
///
/// Numbers are in the byte order of the machine, at any alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignChange {
    /// Flips the highest bit of floats of 16 bits; of zeros, infinities and what is no number, too.
    Float16,
    /// The same of floats of 32 bits. A complex number of 64 bits is two of them.
    Float32,
    /// The same of floats of 64 bits. A complex number of 128 bits is two of them.
    Float64,
    /// The two's complement of integers of 8 bits: 0 - x, and the lowest number stays what it is.
    Int8,
    /// The same of integers of 16 bits.
    Int16,
    /// The same of integers of 32 bits.
    Int32,
    /// The same of integers of 64 bits.
    Int64,
    /// The same of integers of 128 bits.
    Int128,
}

impl SignChange {
    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            SignChange::Int8 => 1,
            SignChange::Float16 | SignChange::Int16 => 2,
            SignChange::Float32 | SignChange::Int32 => 4,
            SignChange::Float64 | SignChange::Int64 => 8,
            SignChange::Int128 => 16,
        }
    }
}

/// The blocks of memory that the ends of a copy lie in, by number, if the copy moves along with them; see
/// [`Device::relocate_copies`](super::Device::relocate_copies). `None` for an end that stays where it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Anchors {
    /// The block of the source.
    pub source: Option<u32>,
    /// The block of the target.
    pub target: Option<u32>,
}

/// A copy of a box of elements from one strided layout to another.
///
/// The axes are kept in the order that walks the target most nearly in sequence, outermost first, and axes that
/// continue each other in both layouts are merged, so that a backend can run it as it stands.
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
    /// A copy of `axes` (any order) elements of `element_bytes` bytes each, from `source` to `target`, which are
    /// the addresses of the first element. Without axes, one element is copied.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for more than [`MAX_COPY_AXES`] axes, for an element of 0 bytes, where two elements
    /// of the target are at the same place (a target stride of 0), and for a box that no memory can hold.
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

    /// The same copy that changes the signs of what it moves.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] where elements are not made of whole numbers of that kind.
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

    /// How it changes the signs of what it moves; `None` where it does not.
    pub fn sign_change(&self) -> Option<SignChange> {
        self.sign_change
    }

    /// The same copy, which moves along with the blocks of memory that its ends lie in.
    #[must_use]
    pub fn anchored(mut self, anchors: Anchors) -> BoxCopy {
        self.anchors = anchors;
        self
    }

    /// The blocks of memory that its ends move along with.
    pub fn anchors(&self) -> Anchors {
        self.anchors
    }

    /// Moves the ends along with their blocks: block `k` begins at `to[k]` now, and did at `from[k]`. A block that is in
    /// neither list stays where it is.
    pub fn relocate(&mut self, from: &[Pointer], to: &[Pointer]) {
        let moved = |end: &mut Pointer, anchor: Option<u32>| {
            let Some(block) = anchor.map(|block| block as usize) else { return };
            if let (Some(from), Some(to)) = (from.get(block), to.get(block)) {
                // From the new block's address, so that the end may be used wherever that may.
                *end = to.offset(end.as_ptr().addr().wrapping_sub(from.as_ptr().addr()).cast_signed());
            }
        };
        moved(&mut self.source, self.anchors.source);
        moved(&mut self.target, self.anchors.target);
    }

    /// The address of the first element of the source.
    pub fn source(&self) -> Pointer {
        self.source
    }

    /// The address of the first element of the target.
    pub fn target(&self) -> Pointer {
        self.target
    }

    /// Bytes moved at each point of [`axes`](BoxCopy::axes): at least the element, and a whole row where rows are
    /// contiguous on both sides.
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

    /// The same copy from and to addresses that lie `source` and `target` bytes further on.
    #[must_use]
    pub fn moved(mut self, source: isize, target: isize) -> BoxCopy {
        self.source = self.source.offset(source);
        self.target = self.target.offset(target);
        self
    }

    /// Cuts it into at most `pieces` copies of nearly equal size: along its longest axis, or, if it is one run of
    /// bytes, within that.
    pub fn split(&self, pieces: usize) -> Vec<BoxCopy> {
        let longest = (0..self.axis_count).max_by_key(|&axis| self.axes[axis].extent);
        // A run of bytes is cut between numbers where their signs change.
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

    /// Appends an inner axis, merged with the last one where the two continue each other on both sides.
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

/// Whether the number of bytes that a box has, and the way from its first element to the end of its last one, on both
/// sides, can be counted in `isize`.
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

/// Where part `piece` begins of `whole`, cut into `pieces` of nearly equal size.
fn part_begin(whole: usize, piece: usize, pieces: usize) -> usize {
    (whole as u128 * piece as u128 / pieces as u128) as usize
}

/// Where the rows of one side of an [`IndexedCopy`] lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// Bytes from row 0 to row 1.
    pub stride: isize,
    /// The rows in the order in which they are copied; `None` for 0, 1, 2, …
    pub indices: Option<Arc<[u32]>>,
}

impl Rows {
    /// The row that is copied as number `position`.
    pub fn index(&self, position: usize) -> usize {
        self.indices.as_ref().map_or(position, |indices| indices[position] as usize)
    }
}

/// The same box copied at many rows, which are picked by index on either side: number `k` goes from row
/// `source.index(k)` to row `target.index(k)`. A row may be read several times and is written at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedCopy {
    row: BoxCopy,
    rows: usize,
    source: Rows,
    target: Rows,
}

impl IndexedCopy {
    /// Copies `rows` rows, each as `row` says, whose addresses are those of row 0 on both sides.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] where an index list, if there is one, has not `rows` entries, for a row that changes
    /// signs, which only boxes do, and for more bytes than memory can hold.
    pub fn new(row: BoxCopy, rows: usize, source: Rows, target: Rows) -> Result<IndexedCopy, DeviceError> {
        if let Some(change) = row.sign_change {
            let found = format!("{change:?}");
            return Err(DeviceError::invalid("the sign change of an indexed copy", "none", found));
        }
        for indices in [&source.indices, &target.indices].into_iter().flatten() {
            if indices.len() != rows {
                return Err(DeviceError::invalid("the index list of a copy", rows, indices.len()));
            }
        }
        // The row that lies furthest away, of those that are picked.
        let last = |side: &Rows| match &side.indices {
            Some(indices) => indices.iter().max().map_or(0, |&last| last as usize),
            None => rows.saturating_sub(1),
        };
        let within = |side: &Rows| side.stride.unsigned_abs().checked_mul(last(side));
        let sizes = [rows.checked_mul(row.bytes()), within(&source), within(&target)];
        if !sizes.iter().all(|size| size.is_some_and(|size| isize::try_from(size).is_ok())) {
            let found = format!("{rows} rows of {} bytes", row.bytes());
            return Err(DeviceError::invalid(
                "the size of an indexed copy",
                "a size that memory can hold",
                found,
            ));
        }
        Ok(IndexedCopy { row, rows, source, target })
    }

    /// The copy of row 0.
    pub fn row(&self) -> &BoxCopy {
        &self.row
    }

    /// As [`BoxCopy::relocate`], for all rows.
    pub fn relocate(&mut self, from: &[Pointer], to: &[Pointer]) {
        self.row.relocate(from, to);
    }

    /// How many rows are copied.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The rows of the source.
    pub fn source(&self) -> &Rows {
        &self.source
    }

    /// The rows of the target.
    pub fn target(&self) -> &Rows {
        &self.target
    }

    /// All bytes that it moves.
    pub fn bytes(&self) -> usize {
        self.rows * self.row.bytes()
    }

    /// Cuts it into at most `pieces` copies of nearly as many rows each.
    pub fn split(&self, pieces: usize) -> Vec<IndexedCopy> {
        let pieces = pieces.clamp(1, self.rows.max(1));
        (0..pieces)
            .map(|piece| {
                let (begin, end) =
                    (part_begin(self.rows, piece, pieces), part_begin(self.rows, piece + 1, pieces));
                let mut row = self.row;
                let cut = |rows: &Rows, first: &mut Pointer| {
                    if rows.indices.is_none() {
                        *first = first.offset(begin as isize * rows.stride);
                    }
                    let indices = rows.indices.as_ref().map(|indices| indices[begin..end].into());
                    Rows { stride: rows.stride, indices }
                };
                let source = cut(&self.source, &mut row.source);
                let target = cut(&self.target, &mut row.target);
                IndexedCopy { row, rows: end - begin, source, target }
            })
            .collect()
    }
}

/// Where what a list of copies writes is read next, as far as is known: a hint where to put it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NextReader {
    /// By later work of the same device and thread.
    #[default]
    Here,
    /// By another processor: a transport, another process. What the list writes is of no more use here. The list is probably
    /// run again and again: a device may try in its first runs how to write it best.
    Elsewhere,
}

/// One entry of a list of copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyItem {
    /// A strided box.
    Box(BoxCopy),
    /// Rows picked by index.
    Indexed(IndexedCopy),
}

impl CopyItem {
    /// As [`BoxCopy::relocate`].
    pub fn relocate(&mut self, from: &[Pointer], to: &[Pointer]) {
        match self {
            CopyItem::Box(copy) => copy.relocate(from, to),
            CopyItem::Indexed(copy) => copy.relocate(from, to),
        }
    }

    /// Whether an end of it moves along with a block of memory.
    pub fn is_anchored(&self) -> bool {
        let anchors = match self {
            CopyItem::Box(copy) => copy.anchors(),
            CopyItem::Indexed(copy) => copy.row().anchors(),
        };
        anchors != Anchors::default()
    }

    /// All bytes that it moves.
    pub fn bytes(&self) -> usize {
        match self {
            CopyItem::Box(copy) => copy.bytes(),
            CopyItem::Indexed(copy) => copy.bytes(),
        }
    }
}
