//! The work of streams, and its execution.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use haloport_cuda_ptx::{Fault as KernelFault, Grid, Kernel};
use haloport_cuda_races::{Clock, Line, Work as Accessor};

use crate::lane::{Context, Lane};
use crate::memory::blocks::{Blocks, blocks};
use crate::order::{WORDS, host, host_follows};
use crate::settings::{Fault, settings};
use crate::status::{ILLEGAL_ADDRESS, MISALIGNED_ADDRESS, Status};
use crate::work::access::{Failure, copy, is_of_host, place, reached, watched, with_word};
use crate::work::kernel::Reach;
use crate::work::point::Point;

/// A piece of work in a stream.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) lane: Arc<Lane>,
    pub(crate) work: Work,
    /// The clock of the host at the time of the call.
    pub(crate) host: Clock,
}

/// `CU_STREAM_WAIT_VALUE_FLUSH`.
const WAIT_FLUSH: u32 = 1 << 30;

/// A function of another library for tests, which a stream calls again and again until its work is done.
pub(crate) type Service = unsafe extern "C" fn(*mut c_void, *mut c_void) -> u32;

/// The result of a [`Service`] if its work waits for something.
pub(crate) const SERVICE_WAITS: u32 = 1;

/// The access of a [`Service`] to memory.
pub(crate) struct Served<'a> {
    context: &'a Context,
    line: &'a mut Line,
    /// Kept until the service has returned.
    known: Arc<Blocks>,
    fault: Status,
    failure: Option<Failure>,
}

impl Served<'_> {
    /// Where the driver finds this many bytes at an address; null after a fault.
    pub(crate) fn memory(&mut self, address: u64, bytes: usize, writes: bool) -> *mut u8 {
        if self.fault != 0 || self.failure.is_some() {
            return std::ptr::null_mut();
        }
        let work = self.line.work(format!("a message of {bytes} bytes"));
        place(&self.known, address, bytes, writes, (self.context, &work)).unwrap_or_else(|failure| {
            self.failure = Some(failure);
            std::ptr::null_mut()
        })
    }
}

/// A kind of work. Addresses are those of the program.
#[derive(Debug)]
pub(crate) enum Work {
    /// Runs a kernel; `parameters` lie as the kernel says.
    Kernel { kernel: Arc<Kernel>, parameters: Arc<[u8]>, grid: Grid },
    /// Copies bytes from one address to another.
    Copy { source: u64, target: u64, bytes: usize },
    /// Writes bytes that came from memory of the host which is not pinned.
    Write { target: u64, bytes: Arc<[u8]> },
    /// Repeats these bytes.
    Fill { target: u64, pattern: Arc<[u8]>, count: usize },
    /// Reaches a point.
    Record(Arc<Point>),
    /// Waits for a point of another stream.
    Wait(Arc<Point>),
    /// Waits until a number compares as `how` says.
    AwaitNumber { address: u64, number: u32, how: u32 },
    /// Writes a number.
    WriteNumber { address: u64, number: u32 },
    /// Calls a function of another library until its work is done.
    Serve { function: Service, with: usize },
    /// Stands for a kernel whose code is not known.
    Nothing,
}

/// Whether a piece of work is done, or waits for a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Done,
    Waits,
}

impl Job {
    /// Does the work, and waits for numbers.
    pub(crate) fn run(&self) {
        let mut line = self.lane.line();
        line.join(&self.host);
        let mut tries = 0_u32;
        while self.work.run(&self.lane.context, &mut line) == Progress::Waits {
            tries += 1;
            match tries {
                ..50 => std::thread::yield_now(),
                50..100 => std::thread::sleep(Duration::from_micros(20)),
                _ => std::thread::sleep(Duration::from_micros(200)),
            }
        }
    }
}

impl Work {
    /// Does the work unless it waits for a number. In a context with a fault, only points are reached and functions
    /// called.
    fn run(&self, context: &Context, line: &mut Line) -> Progress {
        let done = match self {
            Work::Record(point) => {
                point.reach(line.clock());
                Ok(())
            }
            Work::Serve { function, with } => {
                let mut served =
                    Served { context, line, known: blocks(), fault: context.fault(), failure: None };
                let with = std::ptr::with_exposed_provenance_mut(*with);
                // SAFETY: the library promised that the function can be called with this until it is done.
                let answer = unsafe { function((&raw mut served).cast(), with) };
                match served.failure {
                    None if answer == SERVICE_WAITS => return Progress::Waits,
                    None => Ok(()),
                    Some(failure) => Err(failure),
                }
            }
            _ if context.fault() != 0 => Ok(()),
            Work::Wait(point) => {
                if !settings().has(Fault::Waits) {
                    line.join(&point.wait());
                }
                Ok(())
            }
            Work::AwaitNumber { address, number, how } => match reached(*address, *number, *how) {
                Ok(None) => return Progress::Waits,
                Ok(Some(found)) => {
                    if how & WAIT_FLUSH != 0 {
                        context.see_remote_writes();
                    }
                    line.join(&WORDS.acquire(*address));
                    if !WORDS.is_from_line(*address, found) {
                        // The host has written it.
                        line.join(&host());
                    }
                    Ok(())
                }
                Err(failure) => Err(failure),
            },
            Work::WriteNumber { address, number } => {
                WORDS.release(*address, *number, line.clock());
                if is_of_host(*address) {
                    host_follows(line.clock());
                }
                with_word(*address, |word| word.store(*number, Ordering::Release))
            }
            Work::Nothing => Ok(()),
            _ => self.change_memory(context, &line.work(self.name())),
        };
        if let Err((status, what)) = done {
            context.fail(status, &what);
        }
        Progress::Done
    }

    fn name(&self) -> String {
        match self {
            Work::Kernel { kernel, grid: Grid { blocks, .. }, .. } => {
                format!("the kernel {} of {} blocks", kernel.name(), blocks[0])
            }
            Work::Copy { bytes, .. } => format!("a copy of {bytes} bytes"),
            Work::Write { bytes, .. } => format!("a copy of {} bytes from the host", bytes.len()),
            _ => "a fill".into(),
        }
    }

    fn change_memory(&self, context: &Context, work: &Accessor) -> Result<(), Failure> {
        match self {
            Work::Kernel { kernel, parameters, grid } => {
                let mut reach = Reach::new(blocks(), context, work);
                let ran = kernel.run(*grid, parameters, &mut reach).map_err(|fault| {
                    let status = match fault.fault {
                        KernelFault::Address { .. } => ILLEGAL_ADDRESS,
                        KernelFault::Misaligned { .. } => MISALIGNED_ADDRESS,
                    };
                    (status, format!("the kernel {}: {fault}", kernel.name()))
                });
                ran.and(watched(reach.race))
            }
            Work::Copy { source, target, bytes } => copy(*source, *target, *bytes, (context, work)),
            Work::Write { target, bytes } => {
                let known = blocks();
                let to = place(&known, *target, bytes.len(), true, (context, work))?;
                // SAFETY: the place is that long, and kept by `known`; the bytes are the driver's own.
                unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
                Ok(())
            }
            Work::Fill { target, pattern, count } => {
                let bytes = pattern.len();
                let known = blocks();
                let to = place(&known, *target, bytes * count, true, (context, work))?;
                // SAFETY: the place is that long.
                unsafe {
                    match pattern[..] {
                        [byte] => to.write_bytes(byte, *count),
                        _ => (0..*count).for_each(|at| to.add(at * bytes).copy_from(pattern.as_ptr(), bytes)),
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
