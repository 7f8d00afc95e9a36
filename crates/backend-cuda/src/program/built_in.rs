//! The backend's own kernels for fills and single copies: loaded before work can depend on it.
//!
//! Loading a kernel may wait for the device ("CUDA Programming Guide", section "Lazy Loading"), for ever behind a closed
//! gate, and is not allowed during a capture. So these kernels are loaded when the first stream is created: each exchange
//! creates one before it closes a gate.

use std::sync::OnceLock;

use haloport_core::device::DeviceError;
use haloport_core::device::dialect::{COPY_ENTRY, FILL};

use crate::driver::device_context::DeviceContext;
use crate::driver::raw_stream::RawStream;
use crate::program::loaded::Function;
use crate::program::portable::Programs;

/// The kernels of a device.
#[derive(Debug, Default)]
pub(crate) struct BuiltIns {
    fill: OnceLock<Function>,
    copy_entry: OnceLock<Function>,
    /// Set once the kernels are loaded, or cannot be.
    prepared: OnceLock<()>,
}

/// One of these kernels.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BuiltIn {
    /// Fills memory with elements that the driver does not take.
    Fill,
    /// Copies a box that copy engines do not take.
    CopyEntry,
}

impl BuiltIns {
    /// Loads all kernels, once. If there is no compiler, or it refuses them, the error comes with their first use.
    pub(crate) fn prepare(&self, programs: &Programs, device: &DeviceContext) -> Result<(), DeviceError> {
        if self.prepared.get().is_some() {
            return Ok(());
        }
        for kernel in [BuiltIn::Fill, BuiltIn::CopyEntry] {
            match self.load(kernel, programs, device) {
                Ok(_) => {}
                Err(error @ (DeviceError::NotFound { .. } | DeviceError::Compile { .. })) => {
                    tracing::debug!(%error, "a kernel is not loaded in advance");
                }
                Err(error) => return Err(error),
            }
        }
        self.prepared.get_or_init(|| ());
        Ok(())
    }

    /// Returns the kernel for work in `stream`. Loads it now if no stream was created before.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if it is not loaded and the stream is being captured; as for loading.
    pub(crate) fn of(
        &self,
        kernel: BuiltIn,
        programs: &Programs,
        device: &DeviceContext,
        stream: &RawStream,
    ) -> Result<&Function, DeviceError> {
        if let Some(function) = self.cell(kernel).get() {
            return Ok(function);
        }
        if stream.check_not_captured().is_err() {
            let what = "loading a kernel for a stream that is being captured; create a stream of the device, or make \
                        the same call once, before the capture";
            return Err(DeviceError::Unsupported { what, device: device.id() });
        }
        self.load(kernel, programs, device)
    }

    fn load(
        &self,
        kernel: BuiltIn,
        programs: &Programs,
        device: &DeviceContext,
    ) -> Result<&Function, DeviceError> {
        let cell = self.cell(kernel);
        if let Some(function) = cell.get() {
            return Ok(function);
        }
        let (name, source) = match kernel {
            BuiltIn::Fill => ("fill", FILL),
            BuiltIn::CopyEntry => ("copy_entry", COPY_ENTRY),
        };
        let function = Function::new(&device.context, programs.portable(device, name, source)?, name)?;
        Ok(cell.get_or_init(|| function))
    }

    fn cell(&self, kernel: BuiltIn) -> &OnceLock<Function> {
        match kernel {
            BuiltIn::Fill => &self.fill,
            BuiltIn::CopyEntry => &self.copy_entry,
        }
    }
}
