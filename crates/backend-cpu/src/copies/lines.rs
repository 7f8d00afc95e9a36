//! The loops that all copies share: over the lines of a box, and over the runs of bytes in a line.

use haloport_core::device::{BoxCopy, CopyAxis, MAX_COPY_AXES, Pointer};

use crate::copies::stores::Store;

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

/// Evaluates `$fixed` with the constant `$n` for common short sizes of a run of bytes, and `$any` for all others. Used
/// outside of all loops.
macro_rules! match_run_bytes {
    ($bytes:expr, $n:ident => $fixed:expr, $other:ident => $any:expr) => {
        $crate::copies::lines::match_run_bytes!(@ [1 2 4 8 12 16 24 32 48] $bytes, $n => $fixed, $other => $any)
    };
    (@ [$($size:literal)*] $bytes:expr, $n:ident => $fixed:expr, $other:ident => $any:expr) => {
        match $bytes {
            $($size => {
                const $n: usize = $size;
                $fixed
            })*
            $other => $any,
        }
    };
}
pub(crate) use match_run_bytes;
