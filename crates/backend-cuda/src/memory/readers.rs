//! Which devices of this process reach the memory that `cuMemCreate` has allocated. Unlike that of `cuMemAlloc`, it is
//! reached by those devices alone that were given access, piece by piece.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{
    CUdevice, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemLocation, CUmemLocationType,
};
use haloport_core::device::DeviceError;

use crate::driver::context::{Context, call};

/// A registration: until it is dropped, `device` gets access to new memory of `owner`. The drop takes no access away.
#[derive(Debug)]
pub(crate) struct Reader {
    owner: u32,
    device: CUdevice,
}

/// The memory and the readers of all devices; the numbers are those of the owners.
#[derive(Debug)]
struct Known {
    memory: Vec<(u32, CUdeviceptr, usize)>,
    readers: Vec<(u32, CUdevice)>,
}

fn known() -> MutexGuard<'static, Known> {
    static KNOWN: Mutex<Known> = Mutex::new(Known { memory: Vec::new(), readers: Vec::new() });
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reader {
    /// Gives the device of `own` access to the memory of device `owner`, also to memory that is allocated later.
    pub(crate) fn new(own: &Context, owner: u32) -> Result<Reader, DeviceError> {
        let mut known = known();
        for (_, address, bytes) in known.memory.iter().filter(|(of, ..)| *of == owner) {
            give_access(own, *address, *bytes, &[own.device])?;
        }
        known.readers.push((owner, own.device));
        Ok(Reader { owner, device: own.device })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // One of them: the device may be open again already, with a reader of its own.
        let mut known = known();
        let found = known.readers.iter().position(|reader| *reader == (self.owner, self.device));
        found.map(|at| known.readers.swap_remove(at));
    }
}

/// Gives access to new memory to the device of `context`, which owns it, and to the readers of that device.
pub(crate) fn add(context: &Context, address: CUdeviceptr, bytes: usize) -> Result<(), DeviceError> {
    let mut known = known();
    let owner = context.id.index;
    let readers = known.readers.iter().filter(|(of, _)| *of == owner).map(|(_, device)| *device);
    let devices: Vec<CUdevice> = [context.device].into_iter().chain(readers).collect();
    give_access(context, address, bytes, &devices)?;
    known.memory.push((owner, address, bytes));
    Ok(())
}

/// Forgets memory that is about to be unmapped.
pub(crate) fn remove(address: CUdeviceptr) {
    known().memory.retain(|(_, known, _)| *known != address);
}

/// Gives devices access to mapped memory; all other devices keep the access that they have.
pub(crate) fn give_access(
    context: &Context,
    address: CUdeviceptr,
    bytes: usize,
    devices: &[CUdevice],
) -> Result<(), DeviceError> {
    let access: Vec<CUmemAccessDesc> = devices
        .iter()
        .map(|device| CUmemAccessDesc {
            location: CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: *device },
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        })
        .collect();
    // SAFETY: the range is mapped as a whole, and the list is that long.
    unsafe { call!(context, cuMemSetAccess(address, bytes, access.as_ptr(), access.len())) }
}
