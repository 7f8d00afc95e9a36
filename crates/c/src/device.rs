//! Devices of arrays.

use haloport::device::Pointer;
use haloport::{
    AnyDevice, AnyField, BlockLayout, DeviceSpec, ElementType, FieldLayout, FieldSet, with_device,
};

use crate::status::Failure;

/// The device with this name; the CPU with `threads` threads if there is none.
pub(crate) fn open(name: Option<&str>, threads: usize) -> Result<AnyDevice, Failure> {
    let spec: DeviceSpec = name.unwrap_or("cpu").parse()?;
    Ok(spec.or_threads(threads).open()?)
}

/// The layout of a field on the device.
pub(crate) fn layout(device: &AnyDevice, element: ElementType, blocks: Vec<BlockLayout>) -> FieldLayout {
    with_device!(device, |device| FieldLayout::new(device, element, blocks))
}

/// A field in the caller's memory.
///
/// # Safety
/// As for [`AnyField::from_raw`], on this device.
pub(crate) unsafe fn field_at(
    device: &AnyDevice,
    element: ElementType,
    blocks: Vec<(Pointer, BlockLayout)>,
) -> Box<dyn FieldSet + Send> {
    let on_host = matches!(device, AnyDevice::Cpu(_));
    // SAFETY: the caller's promise.
    with_device!(device, |device| Box::new(unsafe {
        AnyField::from_raw(device, element, blocks, on_host, Box::new(()))
    }))
}
