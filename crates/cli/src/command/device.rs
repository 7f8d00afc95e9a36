//! `--device`, for every command that computes on one.

use clap::Args;
use haloport::AnyDevice;
use haloport::device::DeviceSpec;

use super::failure::Failure;

/// The device to compute on.
#[derive(Debug, Clone, Args)]
pub(crate) struct DeviceArgs {
    /// The device: auto, cpu, cpu:threads=4, or, in builds with those features, cuda, cuda:1, sycl, sycl:gpu:0
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceSpec,
}

impl DeviceArgs {
    /// Opens the device, with one thread for each rank unless the user names a number.
    ///
    /// # Errors
    /// [`Failure::BadInput`] if there is no such device.
    pub(crate) fn open(&self) -> Result<AnyDevice, Failure> {
        let spec = self.device.clone().or_threads(1);
        spec.open().map_err(|error| Failure::BadInput(error.to_string()))
    }
}
