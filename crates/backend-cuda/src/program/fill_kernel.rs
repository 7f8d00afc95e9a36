//! The backend's own kernel for fills: loaded before work can depend on it.
//!
//! Loading a kernel may wait for the device ("CUDA Programming Guide", section "Lazy Loading"), for ever behind a closed
//! gate, and is not allowed during a capture. So this kernel is loaded when the first stream is created: each exchange
//! creates one before it closes a gate.

use std::sync::OnceLock;

use haloport_core::device::DeviceError;
use haloport_core::device::dialect::FILL;

use crate::driver::device_context::DeviceContext;
use crate::driver::raw_stream::RawStream;
use crate::program::loaded::Function;
use crate::program::portable::Programs;

/// The kernel of a device that fills memory with elements that the driver does not take.
#[derive(Debug, Default)]
pub(crate) struct FillKernel {
    function: OnceLock<Function>,
    /// Set once the kernel is loaded, or loading it has failed.
    prepared: OnceLock<()>,
}

impl FillKernel {
    /// Loads the kernel, once. If there is no compiler, or it refuses the kernel, the error comes with the first use.
    pub(crate) fn prepare(&self, programs: &Programs, device: &DeviceContext) -> Result<(), DeviceError> {
        if self.prepared.get().is_some() {
            return Ok(());
        }
        match self.load(programs, device) {
            Ok(_) => {}
            Err(error @ (DeviceError::NotFound { .. } | DeviceError::Compile { .. })) => {
                tracing::debug!(%error, "a kernel is not loaded in advance");
            }
            Err(error) => return Err(error),
        }
        self.prepared.get_or_init(|| ());
        Ok(())
    }

    /// Returns the kernel for work in `stream`. Loads it now if no stream was created before.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if it is not loaded and the stream is being captured; as for loading.
    pub(crate) fn get(
        &self,
        programs: &Programs,
        device: &DeviceContext,
        stream: &RawStream,
    ) -> Result<&Function, DeviceError> {
        if let Some(function) = self.function.get() {
            return Ok(function);
        }
        if stream.check_not_captured().is_err() {
            let what = "loading a kernel for a stream that is being captured; create a stream of the device, or make \
                        the same call once, before the capture";
            return Err(DeviceError::Unsupported { what, device: device.id() });
        }
        self.load(programs, device)
    }

    fn load(&self, programs: &Programs, device: &DeviceContext) -> Result<&Function, DeviceError> {
        if let Some(function) = self.function.get() {
            return Ok(function);
        }
        let function = Function::new(&device.context, programs.portable(device, "fill", FILL)?, "fill")?;
        Ok(self.function.get_or_init(|| function))
    }
}
