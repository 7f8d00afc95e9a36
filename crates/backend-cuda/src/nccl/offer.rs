//! The device and the library of a rank, for the ranks that are to form a group.

use std::sync::OnceLock;

use cudarc::driver::sys::CUdevice_attribute;
use haloport_core::device::{DeviceError, StreamMessagesOffer};

use crate::nccl::library::nccl;
use crate::opened::Opened;

/// The offer of a device. If two ranks have the same machine and the same PCI address, NCCL assumes one GPU and
/// refuses them; the other ranks get no error.
pub(crate) fn offer(opened: &Opened) -> Result<StreamMessagesOffer, DeviceError> {
    use CUdevice_attribute as Of;

    // The variable overrides the configuration of all communicators ("NCCL User Guide", "Environment Variables").
    if std::env::var_os("NCCL_COMM_BLOCKING").is_some_and(|value| value == "1") {
        let expected = "0 or no value: messages in streams need communicators that do not block";
        return Err(DeviceError::invalid("NCCL_COMM_BLOCKING", expected, 1));
    }
    let library = format!("NCCL {}", nccl()?.version);
    let context = &opened.context;
    let of = |attribute| context.driver.attribute(attribute, context.device, context.id);
    let domain = of(Of::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
    let bus = of(Of::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
    let device = of(Of::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?;
    Ok(StreamMessagesOffer {
        processor: format!("{} {domain:04x}:{bus:02x}:{device:02x}", machine()),
        library,
    })
}

/// The machine, by a number that Linux draws when it starts, the same in all containers. If it cannot be read, all
/// machines look like one: ranks then form fewer groups.
fn machine() -> &'static str {
    static MACHINE: OnceLock<String> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        read.map_or_else(|_| "this machine".into(), |text| text.trim().to_string())
    })
}
