//! What all copies share: a way to write runs of bytes, and the loops over the lines of a box and the runs of a line.

use haloport_core::device::{BoxCopy, CopyAxis, MAX_COPY_AXES, Pointer, SignChange};

/// A way to write runs of bytes.
pub(crate) trait Store {
    /// Whether it writes through the caches: written lines first come into them, so that fetching them ahead helps.
    const THROUGH_CACHES: bool;

    /// Whether it computes, which wide registers do faster. Long runs that are copied as they are are left to the C library.
    const COMPUTES: bool = false;

    /// Runs are a multiple of this many bytes long; those of at most `LONGEST` have loops of their own (see [`has_loops`]).
    const UNIT: usize = 1;
    const LONGEST: usize = usize::MAX;

    /// Copies a run of `N` bytes.
    ///
    /// # Safety
    /// As for [`copy`](Store::copy).
    unsafe fn copy_run<const N: usize>(from: *const u8, to: *mut u8);

    /// Copies two runs of `N` bytes.
    ///
    /// # Safety
    /// As for [`copy`](Store::copy), for both.
    #[inline(always)]
    unsafe fn copy_runs<const N: usize>(from: [*const u8; 2], to: [*mut u8; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            Self::copy_run::<N>(from[0], to[0]);
            Self::copy_run::<N>(from[1], to[1]);
        }
    }

    /// Copies a run of any length.
    ///
    /// # Safety
    /// The bytes are readable at `from` and writable at `to`, and do not overlap. Before any other access to the
    /// written bytes, the same thread calls [`finish`](Store::finish).
    unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize);

    /// Copies a run of 64 bytes or more by the registers for which the caller is compiled.
    ///
    /// # Safety
    /// As for [`copy`](Store::copy).
    unsafe fn copy_wide(from: *const u8, to: *mut u8, bytes: usize);

    /// Runs a box copy that changes signs, between these addresses of its first element.
    ///
    /// # Safety
    /// As for [`run_box`](crate::copies::boxes::run_box).
    unsafe fn run_negated(copy: &BoxCopy, ends: (Pointer, Pointer), change: SignChange);

    /// Orders all writes before the next actions of this thread.
    fn finish();
}

/// Whether runs of `bytes` have loops of their own. Each takes time to compile.
pub(crate) const fn has_loops<S: Store>(bytes: usize) -> bool {
    bytes.is_multiple_of(S::UNIT) && bytes <= S::LONGEST
}

/// Calls `visit` for every line along the innermost axis: with the addresses of its first element on both sides, and
/// the axis. `ends` are the addresses of the first element of the box.
#[inline(always)]
pub(crate) fn for_each_line(
    copy: &BoxCopy,
    ends: (Pointer, Pointer),
    mut visit: impl FnMut(Pointer, Pointer, &CopyAxis),
) {
    let point = CopyAxis { extent: 1, source_stride: 0, target_stride: 0 };
    let mut axes = [point; MAX_COPY_AXES];
    let given = copy.axes();
    axes[MAX_COPY_AXES - given.len()..].copy_from_slice(given);
    let [a, b, c, d, line] = axes;
    for ia in 0..a.extent {
        let (source, target) = step(ends.0, ends.1, &a, ia);
        for ib in 0..b.extent {
            let (source, target) = step(source, target, &b, ib);
            for ic in 0..c.extent {
                let (source, target) = step(source, target, &c, ic);
                for id in 0..d.extent {
                    let (source, target) = step(source, target, &d, id);
                    visit(source, target, &line);
                }
            }
        }
    }
}

/// The addresses of an element along an axis, from those of the first.
#[inline]
pub(crate) fn step(source: Pointer, target: Pointer, axis: &CopyAxis, index: usize) -> (Pointer, Pointer) {
    let index = index as isize;
    (source.offset(index * axis.source_stride), target.offset(index * axis.target_stride))
}

/// Copies a line of runs of `N` bytes, for small `N`.
///
/// # Safety
/// As for [`Store::copy`], for each run of the line.
#[inline]
pub(crate) unsafe fn copy_line<S: Store, const N: usize>(source: Pointer, target: Pointer, line: &CopyAxis) {
    let (mut from, mut to) = (source.as_ptr(), target.as_ptr());
    for _ in 0..line.extent {
        // SAFETY: both runs lie in the line and do not overlap.
        unsafe { S::copy_run::<N>(from, to) };
        from = from.wrapping_offset(line.source_stride);
        to = to.wrapping_offset(line.target_stride);
    }
}

/// Copies a line of runs of any length.
///
/// # Safety
/// As for [`Store::copy`], for each run of the line.
#[inline]
pub(crate) unsafe fn copy_rows<S: Store>(source: Pointer, target: Pointer, line: &CopyAxis, bytes: usize) {
    let (mut from, mut to) = (source.as_ptr(), target.as_ptr());
    for _ in 0..line.extent {
        // SAFETY: both runs lie in the line and do not overlap.
        unsafe { S::copy(from, to, bytes) };
        from = from.wrapping_offset(line.source_stride);
        to = to.wrapping_offset(line.target_stride);
    }
}

/// Evaluates `$fixed` with the constant `$n` for common short sizes of a run of bytes that have loops of their own in `$store`,
/// and `$any` for all others. Used outside of all loops.
macro_rules! match_run_bytes {
    ($store:ty, $bytes:expr, $n:ident => $fixed:expr, $other:ident => $any:expr) => {
        $crate::copies::lines::match_run_bytes!(
            @ [1 2 4 8 12 16 24 32 48] $store, $bytes, $n => $fixed, $other => $any
        )
    };
    (@ [$($size:literal)*] $store:ty, $bytes:expr, $n:ident => $fixed:expr, $other:ident => $any:expr) => {
        match $bytes {
            $($size if const { $crate::copies::lines::has_loops::<$store>($size) } => {
                const $n: usize = $size;
                $fixed
            })*
            $other => $any,
        }
    };
}
pub(crate) use match_run_bytes;
