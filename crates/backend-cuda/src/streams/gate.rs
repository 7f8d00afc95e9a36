//! Gates: points in streams that the host opens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::CUstreamWaitValue_flags;
use haloport_core::device::{DeviceError, Stream as _};

use crate::driver::functions::{NOT_SUPPORTED, SUCCESS};
use crate::memory::allocation::Allocation;
use crate::opened::Opened;
use crate::streams::stream::CudaStream;

/// Puts a gate into `stream`: it holds later work back until the result is called or dropped.
///
/// CUDA does not see that order among streams. Therefore only the host opens a gate, the work that a gate holds back stands
/// behind it in the same stream or waits for an event there, and while a gate is closed, the caller makes no call that
/// waits, allocates, frees or loads.
pub(crate) fn gate(stream: &CudaStream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
    let gate = Gate::new(&stream.opened)?;
    gate.hold(stream)?;
    // If a gate is dropped, it opens.
    Ok(Box::new(move || drop(gate)))
}

/// A gate, with a word of its own until it is dropped. It is open if the word holds its number.
struct Gate {
    opened: Arc<Opened>,
    /// The memory of all words.
    memory: Arc<Allocation>,
    /// The index of its word.
    index: usize,
    number: u32,
}

impl Gate {
    fn new(opened: &Arc<Opened>) -> Result<Gate, DeviceError> {
        let (memory, index, last) = opened.words.take(opened)?;
        Ok(Gate { opened: Arc::clone(opened), memory, index, number: last.wrapping_add(1) })
    }

    /// Makes later work in a stream wait for this number or a later one (modulo 2³²). So a stream that looks late, when the
    /// word already serves another gate, goes on. Some drivers refuse that.
    fn hold(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        let context = stream.context();
        let (word, remote_writes) = (self.pointer().addr() as u64, self.opened.offers.remote_writes);
        let flags = CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ as u32 | remote_writes.wait_flags();
        let _entered = context.enter()?;
        // SAFETY: stream and memory are live, and the memory lives as long as the device is open, which the stream
        // ensures.
        match unsafe { (context.driver.cuStreamWaitValue32_v2)(stream.raw(), word, self.number, flags) } {
            SUCCESS => Ok(()),
            NOT_SUPPORTED => {
                let what = "awaiting numbers in streams";
                Err(DeviceError::Unsupported { what, device: stream.device() })
            }
            status => context.checked("cuStreamWaitValue32_v2", status),
        }
    }

    fn pointer(&self) -> *mut u32 {
        self.memory.pointer().as_ptr().cast::<u32>().wrapping_add(self.index)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // SAFETY: the word lies in host memory that `memory` keeps alive; all other accesses are atomic or by the
        // device.
        let word = unsafe { AtomicU32::from_ptr(self.pointer()) };
        word.store(self.number, Ordering::Release);
        // The next user of the word counts on from here.
        self.opened.words.give_back(self.index, self.number);
    }
}
