//! Device memory in pages of its own, which other processes can map: memory of `cuMemCreate`, mapped at reserved
//! addresses.
//!
//! "The memory allocation will be freed when all outstanding mappings to the memory are unmapped and when all outstanding
//! references to the handle (including its shareable counterparts) are also released" (CUDA driver API, `cuMemRelease`).
//! So what another process has mapped stays valid after its owner has freed it.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{
    CUdeviceptr, CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemAllocationType, CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType,
};
use haloport_core::device::DeviceError;
use rustix::io::{FdFlags, fcntl_setfd};

use crate::driver::context::{Context, call};
use crate::driver::device_context::DeviceContext;
use crate::driver::functions::{
    INVALID_HANDLE, INVALID_VALUE, NOT_PERMITTED, NOT_SUPPORTED, OUT_OF_MEMORY, SUCCESS, SYSTEM_NOT_READY,
    Status,
};
use crate::driver::handle_kinds::{DESCRIPTOR, FABRIC, VARIABLE};
use crate::memory::descriptors::{self, Offered};
use crate::memory::readers;
use crate::memory::token::{HANDLE_BYTES, Handle, Place};

/// Memory that is unmapped and released on drop.
#[derive(Debug)]
pub(crate) struct Pages {
    context: Arc<Context>,
    /// 0 until they are reserved.
    pub(crate) address: CUdeviceptr,
    /// The size of the memory and of the addresses.
    bytes: usize,
    memory: CUmemGenericAllocationHandle,
    is_mapped: bool,
    /// The kinds of handles that it can be exported by; `None` for memory of another process.
    kinds: Option<CUmemAllocationHandleType>,
    /// The file descriptor that other processes get, once it was exported.
    offered: Mutex<Option<Offered>>,
}

/// Why there is no such memory.
pub(crate) enum Failure {
    /// The status of a call that allocates it, or that tries its handles.
    Create(&'static str, Status),
    Other(DeviceError),
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Failure {
        Failure::Other(error)
    }
}

/// Whether a driver that returns this refuses a kind of handle, or such memory, rather than having failed. Drivers refuse
/// fabric handles with many codes; those from 700 to 719 say that the device has failed.
fn refuses(status: Status, kinds: CUmemAllocationHandleType) -> bool {
    if kinds.0 & FABRIC.0 != 0 {
        return !matches!(status, OUT_OF_MEMORY | 700..=719);
    }
    matches!(status, NOT_SUPPORTED | NOT_PERMITTED | INVALID_VALUE | INVALID_HANDLE | SYSTEM_NOT_READY)
}

impl Pages {
    /// Allocates at least `bytes` bytes, with every kind of handle that the driver accepts; `None` if it accepts none.
    pub(crate) fn new(device: &DeviceContext, bytes: usize) -> Result<Option<Pages>, Failure> {
        while let Some(kinds) = device.handles.get() {
            match Pages::of_kinds(device, bytes, kinds).and_then(|pages| pages.proven(device)) {
                Err(Failure::Create(call, status)) if refuses(status, kinds) => {
                    let error = device.context.driver.failed(call, status, device.id());
                    tracing::debug!(%error, kinds = kinds.0, "memory with handles of these kinds is refused");
                    device.handles.refused(kinds);
                }
                done => return done.map(Some),
            }
        }
        Ok(None)
    }

    fn of_kinds(
        device: &DeviceContext,
        bytes: usize,
        kinds: CUmemAllocationHandleType,
    ) -> Result<Pages, Failure> {
        let context = &device.context;
        let driver = context.driver;
        let location =
            CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: context.device };
        // SAFETY: it is a structure of C, for which all zeros are valid.
        let mut properties: CUmemAllocationProp = unsafe { std::mem::zeroed() };
        properties.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.requestedHandleTypes = kinds;
        properties.location = location;
        properties.allocFlags.gpuDirectRDMACapable = u8::from(device.offers.direct_network);
        let least = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        let (mut granularity, mut memory) = (0, 0);
        let entered = context.enter()?;
        // SAFETY: the properties live during the calls, which write to local variables.
        let status = unsafe {
            (driver.cuMemGetAllocationGranularity)(&raw mut granularity, &raw const properties, least)
        };
        let whole = bytes.checked_next_multiple_of(granularity.max(1));
        let created = match (status, whole) {
            (SUCCESS, Some(whole)) => {
                // SAFETY: as above.
                match unsafe { (driver.cuMemCreate)(&raw mut memory, whole, &raw const properties, 0) } {
                    SUCCESS => Ok(whole),
                    status => Err(Failure::Create("cuMemCreate", status)),
                }
            }
            (SUCCESS, None) => Err(Failure::Create("cuMemCreate", OUT_OF_MEMORY)),
            (status, _) => Err(Failure::Create("cuMemGetAllocationGranularity", status)),
        };
        drop(entered);
        let mut pages = Pages::of(context, memory, created?, Some(kinds));
        pages.map()?;
        readers::add(context, pages.address, pages.bytes)?;
        Ok(pages)
    }

    /// Tries once for each device whether its fabric handles work, by importing one here.
    fn proven(self, device: &DeviceContext) -> Result<Pages, Failure> {
        let has_fabric = self.kinds.is_some_and(|kinds| kinds.0 & FABRIC.0 != 0);
        if !has_fabric || device.handles.are_proven() {
            return Ok(self);
        }
        let driver = self.context.driver;
        let (mut handle, mut memory) = ([0u8; HANDLE_BYTES], 0);
        let place = handle.as_mut_ptr().cast::<c_void>();
        let entered = self.context.enter()?;
        // SAFETY: the memory lives, and there is room for the driver's handle.
        let exported = unsafe { (driver.cuMemExportToShareableHandle)(place, self.memory, FABRIC, 0) };
        if exported != SUCCESS {
            return Err(Failure::Create("cuMemExportToShareableHandle", exported));
        }
        // SAFETY: the handle is the driver's; the memory is written to a local variable.
        let imported = unsafe { (driver.cuMemImportFromShareableHandle)(&raw mut memory, place, FABRIC) };
        if imported != SUCCESS {
            return Err(Failure::Create("cuMemImportFromShareableHandle", imported));
        }
        // SAFETY: the reference is released once.
        let released = unsafe { (driver.cuMemRelease)(memory) };
        drop(entered);
        self.context.checked("cuMemRelease", released)?;
        device.handles.prove();
        Ok(self)
    }

    /// Maps memory of another process, found by its handle. Only `device` gets access; other devices of this process do not.
    pub(crate) fn import(device: &DeviceContext, handle: &Handle) -> Result<Pages, DeviceError> {
        let context = &device.context;
        let mut memory = 0;
        let bytes = match handle {
            Handle::Ipc(_) => {
                let found = "one of CUDA's older calls";
                return Err(DeviceError::invalid("a handle", "one of memory of `cuMemCreate`", found));
            }
            Handle::Fabric(handle, bytes) => {
                let mut handle = *handle;
                let from = handle.as_mut_ptr().cast::<c_void>();
                // SAFETY: the handle is as large as the driver's; the memory is written to a local variable.
                unsafe { call!(context, cuMemImportFromShareableHandle(&raw mut memory, from, FABRIC)) }
                    .map_err(|error| advised(error, "give each process an IMEX channel", "fd"))?;
                *bytes
            }
            Handle::Descriptor(place, bytes) => {
                let descriptor = descriptors::fetch(place).map_err(|error| unreachable(place, &error))?;
                let from = ptr::without_provenance_mut(descriptor.as_raw_fd() as usize);
                // SAFETY: the driver takes the number of an open descriptor in place of an address, and keeps none; the
                // memory is written to a local variable.
                unsafe { call!(context, cuMemImportFromShareableHandle(&raw mut memory, from, DESCRIPTOR)) }?;
                *bytes
            }
        };
        let mut pages = Pages::of(context, memory, bytes, None);
        pages.map()?;
        readers::give_access(context, pages.address, pages.bytes, &[context.device])?;
        Ok(pages)
    }

    /// Pages that are not mapped.
    fn of(
        context: &Arc<Context>,
        memory: CUmemGenericAllocationHandle,
        bytes: usize,
        kinds: Option<CUmemAllocationHandleType>,
    ) -> Pages {
        let (context, offered) = (Arc::clone(context), Mutex::new(None));
        Pages { context, address: 0, bytes, memory, is_mapped: false, kinds, offered }
    }

    /// Maps all of the memory at addresses of its own. No device has access to it.
    fn map(&mut self) -> Result<(), DeviceError> {
        let (bytes, memory) = (self.bytes, self.memory);
        let mut address = 0;
        // SAFETY: the call writes to a local variable; the driver chooses the addresses, with its own alignment.
        unsafe { call!(&self.context, cuMemAddressReserve(&raw mut address, bytes, 0, 0, 0)) }?;
        self.address = address;
        // SAFETY: the addresses are reserved and nothing is mapped there.
        unsafe { call!(&self.context, cuMemMap(address, bytes, 0, memory, 0)) }?;
        self.is_mapped = true;
        Ok(())
    }

    /// The handle by which another process maps the memory: a fabric handle, if the driver offers it, otherwise a file
    /// descriptor; `None` for memory of another process.
    pub(crate) fn export(&self) -> Result<Option<Handle>, DeviceError> {
        let Some(kinds) = self.kinds else { return Ok(None) };
        if kinds.0 & FABRIC.0 != 0 {
            let mut handle = [0; HANDLE_BYTES];
            let to = handle.as_mut_ptr().cast::<c_void>();
            // SAFETY: the memory lives, and there is room for the driver's handle.
            unsafe { call!(&self.context, cuMemExportToShareableHandle(to, self.memory, FABRIC, 0)) }?;
            return Ok(Some(Handle::Fabric(handle, self.bytes)));
        }
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let place = match &*offered {
            Some(offered) => offered.place(),
            None => {
                let mut number: c_int = -1;
                let to = (&raw mut number).cast::<c_void>();
                // SAFETY: the memory lives, and there is room for the number of a descriptor.
                unsafe {
                    call!(&self.context, cuMemExportToShareableHandle(to, self.memory, DESCRIPTOR, 0))
                }?;
                // SAFETY: the descriptor is new, and has no other owner.
                let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
                // Programs that this process runs do not get it.
                let kept = fcntl_setfd(&descriptor, FdFlags::CLOEXEC).map_err(std::io::Error::from);
                let made =
                    kept.and_then(|()| Offered::new(descriptor)).map_err(|error| DeviceError::Driver {
                        call: "offering a file descriptor of memory",
                        device: self.context.id,
                        message: format!("{error}; {VARIABLE}=ipc does without"),
                    })?;
                offered.insert(made).place()
            }
        };
        Ok(Some(Handle::Descriptor(place, self.bytes)))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let Pages { address, bytes, memory, is_mapped, .. } = *self;
        *self.offered.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        if is_mapped {
            readers::remove(address);
        }
        self.context.free(move |driver| {
            // SAFETY: each is undone once. The caller promised that the memory outlives the work on it. Errors need no
            // action.
            unsafe {
                if is_mapped {
                    (driver.cuMemUnmap)(address, bytes);
                }
                if address != 0 {
                    (driver.cuMemAddressFree)(address, bytes);
                }
                (driver.cuMemRelease)(memory);
            }
        });
    }
}

/// The error of a driver's call, with what to do.
fn advised(error: DeviceError, advice: &str, instead: &str) -> DeviceError {
    match error {
        DeviceError::Driver { call, device, message } => {
            let message = format!("{message}; {advice}, or set {VARIABLE}={instead} for all of them");
            DeviceError::Driver { call, device, message }
        }
        other => other,
    }
}

/// The error if a process does not hand over its descriptor.
fn unreachable(place: &Place, error: &std::io::Error) -> DeviceError {
    let name = descriptors::name(place.process, place.key);
    DeviceError::NotFound {
        what: format!("the memory that process {} has exported", place.process),
        looked_for: format!("its abstract Unix socket {name} ({error})"),
        advice: format!(
            "run the ranks of a node as one user in one network namespace, or set {VARIABLE}=ipc for all of them"
        ),
    }
}
