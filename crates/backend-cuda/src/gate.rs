//! Gates: points in streams that the host opens.
//!
//! A gate is a number in pinned host memory, which the stream waits for and the host writes. CUDA does not see that order
//! among streams: so nothing but the host opens a gate, what the gate holds back stands behind it in the same stream or
//! waits for an event there, and while one is closed, the caller makes no call that waits, allocates, frees or loads.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::CUstreamWaitValue_flags;
use haloport_core::device::{DeviceError, MemoryKind};

use crate::context::call;
use crate::memory::Memory;
use crate::open::Opened;
use crate::stream::CudaStream;

/// How many gates of a device may be closed at once.
const PLACES: usize = 1024;

/// The numbers that streams wait for; their memory stays as long as the device is open.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<Option<Places>>);

#[derive(Debug)]
struct Places {
    memory: Arc<Memory>,
    /// Those whose gates are open, each with the number that opened the last one.
    free: Vec<(usize, u32)>,
}

impl Gates {
    /// Runs `act` on the places, whose memory is made when they are first wanted.
    fn with_places<R>(
        &self,
        opened: &Arc<Opened>,
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

/// Sees to it that no gate allocates.
pub(crate) fn prepare(opened: &Arc<Opened>) -> Result<(), DeviceError> {
    opened.gates.with_places(opened, |_| Ok(()))
}

/// Puts a gate into `stream`, which holds later work back until what this returns is called or dropped.
pub(crate) fn gate(stream: &CudaStream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
    let opened = &stream.opened;
    let (memory, place, last) = opened.gates.with_places(opened, |places| {
        let (place, last) = places.free.pop().ok_or_else(|| {
            DeviceError::invalid("the number of closed gates", format!("at most {PLACES}"), PLACES + 1)
        })?;
        Ok((Arc::clone(&places.memory), place, last))
    })?;
    // The wait is for this number or a later one, in numbers that begin again after the last. So a stream that looks at
    // the place late, when it already serves another gate, goes through too.
    let number = last.wrapping_add(1);
    let gate = Gate { stream: stream.clone(), memory, place, number };
    let flags = CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ as u32;
    let address = gate.address().addr() as u64;
    // SAFETY: stream and memory are live, and the memory is as long as the device is open, with the stream.
    unsafe { call!(stream.context(), cuStreamWaitValue32_v2(stream.raw(), address, number, flags)) }?;
    Ok(Box::new(move || drop(gate)))
}

/// A gate that is closed; opened when it is dropped.
struct Gate {
    stream: CudaStream,
    memory: Arc<Memory>,
    place: usize,
    number: u32,
}

impl Gate {
    fn address(&self) -> *mut u32 {
        self.memory.pointer().as_ptr().cast::<u32>().wrapping_add(self.place)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // SAFETY: the number lies in host memory that `memory` keeps; others look at it as atomic or from the device.
        unsafe { AtomicU32::from_ptr(self.address()) }.store(self.number, Ordering::Release);
        let mut places = self.stream.opened.gates.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = &mut *places {
            places.free.push((self.place, self.number));
        }
    }
}
