//! Gates: points in streams that the host opens.

use haloport_core::device::{DeviceError, Flag};

use crate::streams::flag::CudaFlag;
use crate::streams::stream::CudaStream;

/// Puts a gate into `stream`: it holds later work back until the result is called or dropped.
///
/// The gate is a flag that the stream waits for and the host sets. CUDA does not see that order among streams. Therefore
/// only the host opens a gate, the work that a gate holds back stands behind it in the same stream or waits for an event
/// there, and while a gate is closed, the caller makes no call that waits, allocates, frees or loads.
pub(crate) fn gate(stream: &CudaStream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
    let flag = CudaFlag::new(&stream.opened)?;
    flag.wait_in(stream)?;
    // Dropped, a flag is set.
    Ok(Box::new(move || drop(flag)))
}
