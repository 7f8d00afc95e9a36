//! The handles by which other processes get device memory.

use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cudarc::driver::sys::{CUdevice_attribute, CUmemAllocationHandleType};
use haloport_core::device::DeviceError;

use crate::driver::select::Candidate;

/// The variable that excludes some of them.
pub(crate) const VARIABLE: &str = "HALOPORT_CUDA_SHARE";

/// `CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED`, from CUDA 12.3 on.
const FABRIC_SUPPORTED: c_uint = 128;

pub(crate) const DESCRIPTOR: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
/// From CUDA 12.3 on.
pub(crate) const FABRIC: CUmemAllocationHandleType = CUmemAllocationHandleType(8);

/// The kinds of handles that memory of `cuMemCreate` is allocated with: file descriptors and fabric handles. Without any,
/// memory is shared by CUDA's older calls for IPC, which need no kind.
#[derive(Debug)]
pub(crate) struct HandleKinds {
    kinds: AtomicU32,
    /// Whether a fabric handle was exported and imported.
    proven: AtomicBool,
}

impl HandleKinds {
    /// Those that a device offers and the variable allows.
    pub(crate) fn of(candidate: &Candidate) -> Result<HandleKinds, DeviceError> {
        use CUdevice_attribute as Of;
        let offers_memory = Of::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED;
        let offers_descriptors = Of::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
        let [wants_descriptors, wants_fabric] = wanted()?;
        let mut kinds = 0;
        if candidate.info.capabilities.memory_export && candidate.has(offers_memory)? {
            if wants_descriptors && candidate.has(offers_descriptors)? {
                kinds |= DESCRIPTOR.0;
            }
            if wants_fabric && candidate.has_later(FABRIC_SUPPORTED)? {
                kinds |= FABRIC.0;
            }
        }
        Ok(HandleKinds { kinds: AtomicU32::new(kinds), proven: AtomicBool::new(false) })
    }

    /// The kinds for new memory; `None` if there are none.
    pub(crate) fn get(&self) -> Option<CUmemAllocationHandleType> {
        let kinds = self.kinds.load(Ordering::Relaxed);
        (kinds != 0).then_some(CUmemAllocationHandleType(kinds))
    }

    /// Excludes kinds from now on, after the driver has refused memory with handles of `kinds`, or a handle: first fabric
    /// handles, then all. A device may offer fabric handles that this process cannot use, for example without an IMEX
    /// channel or the IMEX daemon.
    pub(crate) fn refused(&self, kinds: CUmemAllocationHandleType) {
        let less = if kinds.0 & FABRIC.0 != 0 { kinds.0 & !FABRIC.0 } else { 0 };
        self.kinds.fetch_and(less, Ordering::Relaxed);
    }

    /// Whether fabric handles need no trial. File descriptors need nothing beside the driver.
    pub(crate) fn are_proven(&self) -> bool {
        self.proven.load(Ordering::Relaxed)
    }

    pub(crate) fn prove(&self) {
        self.proven.store(true, Ordering::Relaxed);
    }
}

/// Whether the variable allows file descriptors, and fabric handles.
fn wanted() -> Result<[bool; 2], DeviceError> {
    let Some(value) = std::env::var_os(VARIABLE) else { return Ok([true, true]) };
    match value.to_str() {
        Some("" | "fabric") => Ok([true, true]),
        Some("fd") => Ok([true, false]),
        Some("ipc") => Ok([false, false]),
        _ => Err(DeviceError::invalid(VARIABLE, "`fabric`, `fd` or `ipc`", format!("{value:?}"))),
    }
}
