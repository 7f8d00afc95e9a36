//! Numbers in pinned host memory, which streams write and wait for, and the host reads and writes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{CUstreamWaitValue_flags, CUstreamWriteValue_flags};
use haloport_core::device::{DeviceError, MemoryKind, Stream as _};

use crate::driver::{CAPTURE_UNSUPPORTED, NOT_SUPPORTED, SUCCESS, Status};
use crate::memory::Memory;
use crate::open::Opened;
use crate::stream::CudaStream;

/// How many numbers of a device may be in use at once.
const PLACES: usize = 1024;

/// The numbers of a device; their memory stays as long as the device is open.
#[derive(Debug, Default)]
pub(crate) struct Words(Mutex<Option<Places>>);

#[derive(Debug)]
struct Places {
    memory: Arc<Memory>,
    /// Those that nobody uses, each with the number that stands there.
    free: Vec<(usize, u32)>,
}

/// A number, somebody's alone until it is dropped.
#[derive(Debug)]
pub(crate) struct Word {
    opened: Arc<Opened>,
    memory: Arc<Memory>,
    place: usize,
}

impl Words {
    /// Runs `act` on the places, whose memory is made when they are first wanted.
    fn with_places<R>(
        &self,
        opened: &Opened,
        act: impl FnOnce(&mut Places) -> Result<R, DeviceError>,
    ) -> Result<R, DeviceError> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *places {
            Some(places) => act(places),
            none => {
                let bytes = PLACES * size_of::<u32>();
                let memory = Arc::new(Memory::new(opened, bytes, MemoryKind::Pinned)?);
                let free = (0..PLACES).map(|place| (place, 0)).collect();
                act(none.insert(Places { memory, free }))
            }
        }
    }
}

/// Sees to it that no word allocates.
pub(crate) fn prepare(opened: &Opened) -> Result<(), DeviceError> {
    opened.words.with_places(opened, |_| Ok(()))
}

impl Word {
    /// A word, and the number that stands there, left by its last user.
    pub(crate) fn new(opened: &Arc<Opened>) -> Result<(Word, u32), DeviceError> {
        let (memory, place, last) = opened.words.with_places(opened, |places| {
            let (place, last) = places.free.pop().ok_or_else(|| {
                let most = format!("at most {PLACES}");
                DeviceError::invalid("the number of closed gates and of flags", most, PLACES + 1)
            })?;
            Ok((Arc::clone(&places.memory), place, last))
        })?;
        Ok((Word { opened: Arc::clone(opened), memory, place }, last))
    }

    /// What was written before the number that is found here is seen after this.
    pub(crate) fn read(&self) -> u32 {
        self.number().load(Ordering::Acquire)
    }

    /// What was written before is seen by whom finds this number.
    pub(crate) fn write(&self, number: u32) {
        self.number().store(number, Ordering::Release);
    }

    /// Puts into `stream` what writes this number.
    pub(crate) fn write_in(&self, number: u32, stream: &CudaStream) -> Result<(), DeviceError> {
        let flags = CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_DEFAULT as u32;
        let _entered = stream.context().enter()?;
        let driver = stream.context().driver;
        // SAFETY: stream and memory are live, and the memory is as long as the device is open, with the
        // stream.
        let status = unsafe { (driver.cuStreamWriteValue32_v2)(stream.raw(), self.address(), number, flags) };
        checked(stream, "cuStreamWriteValue32_v2", status)
    }

    /// Makes later work in `stream` wait for this number or a later one, in numbers that begin again after
    /// the last.
    pub(crate) fn wait_in(&self, number: u32, stream: &CudaStream) -> Result<(), DeviceError> {
        let flags = CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ as u32;
        let _entered = stream.context().enter()?;
        let driver = stream.context().driver;
        // SAFETY: as in `write_in`.
        let status = unsafe { (driver.cuStreamWaitValue32_v2)(stream.raw(), self.address(), number, flags) };
        checked(stream, "cuStreamWaitValue32_v2", status)
    }

    fn number(&self) -> &AtomicU32 {
        // SAFETY: the number lies in host memory that `memory` keeps; others look at it as atomic or from the
        // device.
        unsafe { AtomicU32::from_ptr(self.pointer()) }
    }

    fn address(&self) -> u64 {
        self.pointer().addr() as u64
    }

    fn pointer(&self) -> *mut u32 {
        self.memory.pointer().as_ptr().cast::<u32>().wrapping_add(self.place)
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        let mut places = self.opened.words.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = &mut *places {
            places.free.push((self.place, self.read()));
        }
    }
}

/// The result of a call, which some drivers refuse in streams that capture.
fn checked(stream: &CudaStream, call: &'static str, status: Status) -> Result<(), DeviceError> {
    match status {
        SUCCESS => Ok(()),
        NOT_SUPPORTED | CAPTURE_UNSUPPORTED => {
            let what = "streams that write and wait for numbers, or not in captured work";
            Err(DeviceError::Unsupported { what, device: stream.device() })
        }
        status => stream.context().checked(call, status),
    }
}
