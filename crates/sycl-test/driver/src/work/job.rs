//! Commands, and doing them.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use super::event::{Point, Times, now};
use crate::module::Launch;
use crate::opencl::Queue;
use crate::status::Status;

/// A command of a list.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) work: Work,
    /// Whether it waits for all earlier commands of its queue, and all later ones wait for it.
    pub(crate) ordered: bool,
    pub(crate) waits: Vec<Arc<Point>>,
    pub(crate) signal: Option<Arc<Point>>,
}

/// The work of a command.
#[derive(Debug)]
pub(crate) enum Work {
    Nothing,
    Copy { target: *mut c_void, source: *const c_void, bytes: usize },
    CopyRegion { target: Pitched, source: Pitched, bytes: usize, rows: usize, slices: usize },
    Fill { target: *mut c_void, pattern: Vec<u8>, bytes: usize },
    Launch(Launch),
    Leave(Arc<Point>),
    WriteTime(*mut u64),
    WriteTimes { points: Vec<Arc<Point>>, target: *mut c_void, offsets: Option<Vec<usize>> },
    Call { function: HostFunction, data: *mut c_void },
}

/// A function of the program.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// The first row of a block in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pitched {
    pub(crate) start: *mut u8,
    pub(crate) row: usize,
    pub(crate) slice: usize,
}

// SAFETY: the addresses are followed only when the command is done; the program answers for the memory until then.
unsafe impl Send for Work {}
// SAFETY: as for `Send`.
unsafe impl Sync for Work {}

impl Work {
    /// Does the work, and returns when it began and ended.
    pub(crate) fn run(&self, queue: &mut Option<Queue>) -> Result<Times, Status> {
        let begin = now();
        match self {
            Work::Nothing => {}
            // SAFETY: the program gives ranges of memory that are alive until the command has been done.
            Work::Copy { target, source, bytes } => unsafe {
                ptr::copy(source.cast::<u8>(), target.cast(), *bytes);
            },
            Work::CopyRegion { target, source, bytes, rows, slices } => {
                for slice in 0..*slices {
                    for row in 0..*rows {
                        // SAFETY: as above; the row lies within both blocks.
                        unsafe { ptr::copy(source.row_at(slice, row), target.row_at(slice, row), *bytes) };
                    }
                }
            }
            Work::Fill { target, pattern, bytes } => {
                for start in (0..*bytes).step_by(pattern.len()) {
                    let part = pattern.len().min(bytes - start);
                    // SAFETY: as above.
                    unsafe { ptr::copy(pattern.as_ptr(), target.cast::<u8>().add(start), part) };
                }
            }
            Work::Launch(launch) => launch.run(queue)?,
            Work::Leave(point) => point.leave(),
            // SAFETY: as above.
            Work::WriteTime(target) => unsafe { target.write_unaligned(now()) },
            Work::WriteTimes { points, target, offsets } => {
                for (number, point) in points.iter().enumerate() {
                    let offset = offsets.as_ref().map_or(number * 32, |offsets| offsets[number]);
                    let times = point.reached().unwrap_or_default();
                    // SAFETY: as above.
                    unsafe { target.byte_add(offset).cast::<[Times; 2]>().write_unaligned([times; 2]) };
                }
            }
            // SAFETY: the program gives a function that may be called with this data.
            Work::Call { function, data } => unsafe { function(*data) },
        }
        Ok([begin, now()])
    }
}

impl Pitched {
    /// # Safety
    /// The row belongs to the block.
    unsafe fn row_at(&self, slice: usize, row: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.start.add(slice * self.slice + row * self.row) }
    }
}
