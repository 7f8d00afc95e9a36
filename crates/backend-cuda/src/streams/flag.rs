//! Flags, which streams and the host set and wait for, and gates, which the host opens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::{CUdeviceptr, CUstream, CUstreamWaitValue_flags, CUstreamWriteValue_flags};
use haloport_core::device::{DeviceError, Flag, Stream as _};

use crate::driver::functions::{CAPTURE_UNSUPPORTED, NOT_SUPPORTED, SUCCESS, Status};
use crate::memory::allocation::Allocation;
use crate::opened::Opened;
use crate::streams::stream::CudaStream;

/// Puts a gate into `stream`: it holds later work back until the result is called or dropped.
///
/// The gate is a flag that the stream waits for and the host sets. CUDA does not see that order among streams.
/// Therefore only the host opens a gate, the work that a gate holds back stands behind it in the same stream or waits
/// for an event there, and while a gate is closed, the caller makes no call that waits, allocates, frees or loads.
pub(crate) fn gate(stream: &CudaStream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
    let flag = CudaFlag::new(&stream.opened)?;
    flag.wait_in(stream)?;
    // Dropped, a flag is set.
    Ok(Box::new(move || drop(flag)))
}

/// Calls that write or await a number in a stream.
type NumberCall = unsafe extern "C" fn(CUstream, CUdeviceptr, u32, u32) -> Status;

/// A flag, with a word of its own until it is dropped. It is set if the word holds its number.
#[derive(Debug)]
pub(crate) struct CudaFlag {
    opened: Arc<Opened>,
    /// The memory of all words.
    memory: Arc<Allocation>,
    /// The index of its word.
    index: usize,
    number: u32,
}

impl CudaFlag {
    pub(crate) fn new(opened: &Arc<Opened>) -> Result<CudaFlag, DeviceError> {
        let (memory, index, last) = opened.words.take(opened)?;
        Ok(CudaFlag { opened: Arc::clone(opened), memory, index, number: last.wrapping_add(1) })
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the word lies in host memory that `memory` keeps alive; all other accesses are atomic or by the
        // device.
        unsafe { AtomicU32::from_ptr(self.pointer()) }
    }

    /// Puts the writing or the awaiting of the number into a stream. Some drivers refuse that, some of them only in
    /// streams that capture.
    fn put(
        &self,
        stream: &CudaStream,
        (name, call): (&'static str, NumberCall),
        flags: u32,
    ) -> Result<(), DeviceError> {
        let _entered = stream.context().enter()?;
        // SAFETY: stream and memory are live, and the memory lives as long as the device is open, which the stream
        // ensures.
        match unsafe { call(stream.raw(), self.pointer().addr() as u64, self.number, flags) } {
            SUCCESS => Ok(()),
            NOT_SUPPORTED | CAPTURE_UNSUPPORTED => {
                let what = "writing and awaiting numbers in streams, or not in captured work";
                Err(DeviceError::Unsupported { what, device: stream.device() })
            }
            status => stream.context().checked(name, status),
        }
    }

    fn pointer(&self) -> *mut u32 {
        self.memory.pointer().as_ptr().cast::<u32>().wrapping_add(self.index)
    }
}

impl Flag<CudaStream> for CudaFlag {
    /// If it is set, what was written before it was set is visible after this call.
    fn is_set(&self) -> bool {
        self.word().load(Ordering::Acquire) == self.number
    }

    fn set(&self) {
        self.word().store(self.number, Ordering::Release);
    }

    fn clear(&self) {
        self.word().store(self.number.wrapping_sub(1), Ordering::Release);
    }

    fn set_in(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        let flags = CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_DEFAULT as u32;
        let call = stream.context().driver.cuStreamWriteValue32_v2;
        self.put(stream, ("cuStreamWriteValue32_v2", call), flags)
    }

    /// Waits for this number or a later one (modulo 2³²). So a stream that looks late, when the word already serves
    /// another flag, goes on.
    fn wait_in(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        let remote_writes = self.opened.offers.remote_writes;
        let flags = CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ as u32 | remote_writes.wait_flags();
        let call = stream.context().driver.cuStreamWaitValue32_v2;
        self.put(stream, ("cuStreamWaitValue32_v2", call), flags)
    }
}

impl Drop for CudaFlag {
    fn drop(&mut self) {
        // The next user of the word counts on from here.
        self.set();
        self.opened.words.give_back(self.index, self.number);
    }
}
