//! Memory of other programs in this process: what the driver knows of an address, and fields in arrays.

use std::any::Any;
use std::ops::Range;

use cudarc::driver::sys::{CUmemAllocationHandleType, CUpointer_attribute as Of, CUresult};
use haloport_core::device::{Device, DeviceError, MemoryKind, Pointer};
use haloport_core::element::{Element, ElementType};
use haloport_core::interop::{ArrayDescription, ArrayDeviceKind};
use haloport_core::{AnyField, BlockLayout, Field, FieldError};

use crate::device::CudaDevice;
use crate::driver::context::address;
use crate::driver::functions::{
    ANY, PointerGetAttributes, SUCCESS, Status, driver, loaded_pointer_get_attributes,
};
use crate::driver::handle_kinds::{DESCRIPTOR, FABRIC};

/// `CU_MEMORYTYPE_HOST` and `CU_MEMORYTYPE_DEVICE`.
const HOST: u64 = 1;
const DEVICE: u64 = 2;

/// The driver's function that tells what an address belongs to.
const CALL: &str = "cuPointerGetAttributes";

/// Memory of CUDA, allocated by Haloport or by another program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CudaMemory {
    /// The kind of the memory; managed memory is [`MemoryKind::Shared`].
    pub kind: MemoryKind,
    /// The number of the device that it was allocated for.
    pub device: u32,
    /// The `CUcontext` that it was allocated in; `None` if it belongs to none, as memory of pools and of `cuMemCreate`
    /// does.
    pub context: Option<usize>,
    /// The addresses of its bytes; `None` if the driver does not know them. For memory of `cuMemCreate`, they may be all
    /// addresses that were reserved together. Some of those may have no memory.
    pub addresses: Option<Range<usize>>,
    /// The ways in which other processes can map it.
    pub shared_by: CudaHandles,
}

/// The ways in which other processes can map memory of CUDA, as its owner has allocated it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CudaHandles {
    /// By `cuIpcGetMemHandle`, as memory of `cuMemAlloc`.
    pub ipc: bool,
    /// By a file descriptor, as memory of `cuMemCreate`.
    pub descriptor: bool,
    /// By a fabric handle, as memory of `cuMemCreate`.
    pub fabric: bool,
}

impl CudaMemory {
    /// Whether the host may follow its addresses while the device works, if it may for managed memory of that device
    /// ([`shared_memory`](haloport_core::device::Capabilities::shared_memory)).
    pub fn host_accessible(&self) -> bool {
        self.kind != MemoryKind::Device
    }

    /// Checks that it holds all of these addresses.
    fn holds(&self, wanted: Range<usize>) -> Result<(), DeviceError> {
        let refused = |expected: String, found: String| {
            Err(DeviceError::invalid("the elements of an array", expected, found))
        };
        if let Some(there) = &self.addresses
            && (wanted.start < there.start || wanted.end > there.end)
        {
            return refused(
                format!("all of them in the allocation {there:#x?}; check its shape and its strides"),
                format!("{wanted:#x?}"),
            );
        }
        let is_certain = self.context.is_some() && self.addresses.is_some();
        if is_certain || wanted.is_empty() {
            return Ok(());
        }
        // Of addresses that were reserved together, some may have no memory, or that of another device.
        let (mut at, last) = (wanted.start, wanted.end - 1);
        loop {
            let pointer = Pointer::new(std::ptr::without_provenance_mut(at));
            let found = match CudaDevice::known_memory_at(pointer)? {
                Some(found) if (found.kind, found.device) == (self.kind, self.device) => None,
                Some(found) => Some(format!("memory of cuda:{}", found.device)),
                None => Some("none".into()),
            };
            if let Some(found) = found {
                return refused(
                    format!("memory of cuda:{} at all of {wanted:#x?}; map it there", self.device),
                    format!("{found} at {at:#x}"),
                );
            }
            at = match end_of_mapping(pointer) {
                Some(end) if end > last => return Ok(()),
                Some(end) => end,
                None if at == last => return Ok(()),
                // What lies between is unknown.
                None => last,
            };
        }
    }
}

impl CudaDevice {
    /// The memory that `pointer` points into, of any device. The address is not followed. Opens no device.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if the address belongs to no memory of CUDA; [`DeviceError::NotFound`] if there
    /// is no driver; the driver's errors.
    pub fn memory_at(pointer: Pointer) -> Result<CudaMemory, DeviceError> {
        let driver = driver()?;
        match ask(driver.cuPointerGetAttributes, pointer) {
            Ok(Some(memory)) => Ok(memory),
            Ok(None) => Err(DeviceError::invalid(
                "an address of another program",
                "one in memory of CUDA that is not freed: of a device, managed, or pinned; copy other data there",
                format!("{:p}, which the driver does not know", pointer.as_ptr()),
            )),
            Err(status) => Err(driver.failed(CALL, status, ANY)),
        }
    }

    /// As [`memory_at`](CudaDevice::memory_at), for addresses that may be of the host: returns `None` for those. Neither
    /// loads nor initialises the driver: if the process has not done so, it has no memory of CUDA.
    ///
    /// # Errors
    /// The driver's errors.
    pub fn known_memory_at(pointer: Pointer) -> Result<Option<CudaMemory>, DeviceError> {
        // The driver is not initialised or not any more, is a stub, or has no devices.
        const WITHOUT_MEMORY: [Status; 4] = [
            CUresult::CUDA_ERROR_NOT_INITIALIZED as Status,
            CUresult::CUDA_ERROR_DEINITIALIZED as Status,
            CUresult::CUDA_ERROR_STUB_LIBRARY as Status,
            CUresult::CUDA_ERROR_NO_DEVICE as Status,
        ];
        let Some(get) = loaded_pointer_get_attributes() else { return Ok(None) };
        match ask(get, pointer) {
            Ok(memory) => Ok(memory),
            Err(status) if WITHOUT_MEMORY.contains(&status) => Ok(None),
            Err(status) => Err(driver()?.failed(CALL, status, ANY)),
        }
    }

    /// The memory that `pointer` points into, which this device reaches: its own, managed, or pinned memory.
    ///
    /// # Errors
    /// As for [`memory_at`](CudaDevice::memory_at); [`DeviceError::InvalidArgument`] if the memory is of another device,
    /// or of another context than the primary one.
    pub fn reached_memory_at(&self, pointer: Pointer) -> Result<CudaMemory, DeviceError> {
        self.reached(pointer, CudaDevice::memory_at(pointer)?)
    }

    /// Checks that this device reaches the memory at `pointer`.
    fn reached(&self, pointer: Pointer, memory: CudaMemory) -> Result<CudaMemory, DeviceError> {
        if memory.kind != MemoryKind::Device {
            return Ok(memory);
        }
        let foreign = |expected: String, found: String| {
            let found = format!("{:p}, {found}", pointer.as_ptr());
            Err(DeviceError::invalid("an address of another program", expected, found))
        };
        if memory.device != self.id().index {
            return foreign(
                format!(
                    "one in memory of {}; copy the data there, or open cuda:{1} for it",
                    self.id(),
                    memory.device
                ),
                format!("one of cuda:{}", memory.device),
            );
        }
        if let Some(context) = memory.context.filter(|context| *context != self.native()) {
            return foreign(
                format!(
                    "one of the primary context {:#x} of {}; allocate by CUDA's runtime, or in that context",
                    self.native(),
                    self.id()
                ),
                format!("one of the context {context:#x}"),
            );
        }
        Ok(memory)
    }

    /// Returns the memory that holds the bytes at the offsets `bytes` from `first`, and checks that this device reaches all
    /// of them. `first` lies in the same memory; if `bytes` is empty, it alone is checked.
    ///
    /// # Errors
    /// As for [`reached_memory_at`](CudaDevice::reached_memory_at); [`DeviceError::InvalidArgument`] if not all of the
    /// bytes lie in one allocation.
    pub fn reached_memory_in(&self, first: Pointer, bytes: Range<isize>) -> Result<CudaMemory, DeviceError> {
        let memory = self.reached_memory_at(first)?;
        let address = |offset: isize| first.as_ptr().addr().wrapping_add_signed(offset);
        memory.holds(address(bytes.start)..address(bytes.end))?;
        Ok(memory)
    }

    /// Opens the device whose memory holds an array: found by its address, since the CUDA array interface does not name
    /// it. For an array without elements, that of its description, or the first device.
    ///
    /// # Errors
    /// As for [`memory_at`](CudaDevice::memory_at) and [`select`](CudaDevice::select).
    pub fn of_array(array: &ArrayDescription) -> Result<CudaDevice, DeviceError> {
        let number = match array.is_empty() {
            true => array.device().index.unwrap_or(0),
            false => CudaDevice::memory_at(array.first())?.device,
        };
        CudaDevice::select(&format!("cuda:{number}"))
    }

    /// The memory that holds all elements of an array; `None` for an array without elements.
    ///
    /// # Errors
    /// As for [`memory_at`](CudaDevice::memory_at); [`DeviceError::InvalidArgument`] if the array is not in memory of
    /// CUDA, is of another device or of another context than the primary one, or extends beyond its allocation.
    pub fn memory_of(&self, array: &ArrayDescription) -> Result<Option<CudaMemory>, DeviceError> {
        use ArrayDeviceKind::{Cuda, CudaHost, CudaManaged};
        if array.is_empty() {
            return Ok(None);
        }
        if !matches!(array.device().kind, Cuda | CudaHost | CudaManaged) {
            let expected = format!("one in memory of CUDA, for {}", self.id());
            return Err(DeviceError::invalid("an array", expected, array.device()));
        }
        let memory = CudaDevice::memory_at(array.first())?;
        if let Some(declared) = array.device().index.filter(|_| array.device().kind == Cuda)
            && declared != memory.device
        {
            return Err(DeviceError::invalid(
                "an address of another program",
                format!("one of cuda:{declared}, as it says"),
                format!("{:p}, one of cuda:{}", array.first().as_ptr(), memory.device),
            ));
        }
        let memory = self.reached(array.first(), memory)?;
        memory.holds(array.addresses())?;
        Ok(Some(memory))
    }

    /// A field in arrays of another program: see [`Field::in_arrays`]. The memory must belong to this device, which is
    /// checked; the host may use it if it is managed or pinned.
    ///
    /// # Errors
    /// As for [`Field::in_arrays`], and [`FieldError::Device`] with the error of [`memory_of`](CudaDevice::memory_of).
    ///
    /// # Safety
    /// As for [`Field::in_arrays`], except that the device can reach the memory, which is checked here. Memory of pools
    /// and mapped memory (`cuMemMap`) is not bound to ranks as threads on other devices: they would copy from it by peer
    /// access, which its owner alone can give.
    pub unsafe fn field_in_arrays<T: Element>(
        &self,
        blocks: Vec<(ArrayDescription, BlockLayout)>,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<Field<T, CudaDevice>, FieldError> {
        let host_accessible = self.check_arrays(&blocks)?;
        // SAFETY: the caller's promise; the memory is of this device.
        unsafe { Field::in_arrays(self, blocks, host_accessible, owner) }
    }

    /// As [`field_in_arrays`](CudaDevice::field_in_arrays), with elements of a type known at run time.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn any_field_in_arrays(
        &self,
        element: ElementType,
        blocks: Vec<(ArrayDescription, BlockLayout)>,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<AnyField<CudaDevice>, FieldError> {
        let host_accessible = self.check_arrays(&blocks)?;
        // SAFETY: the caller's promise; the memory is of this device.
        unsafe { AnyField::in_arrays(self, element, blocks, host_accessible, owner) }
    }

    /// Checks that the device reaches all arrays; returns whether the host does.
    fn check_arrays(&self, blocks: &[(ArrayDescription, BlockLayout)]) -> Result<bool, DeviceError> {
        let mut host_accessible = true;
        for (array, _) in blocks {
            if let Some(memory) = self.memory_of(array)? {
                let shared = memory.kind != MemoryKind::Shared || self.info().capabilities.shared_memory;
                host_accessible &= memory.host_accessible() && shared;
            }
        }
        Ok(host_accessible)
    }
}

/// What the driver knows of an address; `None` if it does not know the address.
fn ask(get: PointerGetAttributes, pointer: Pointer) -> Result<Option<CudaMemory>, Status> {
    let mut attributes = [
        Of::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        Of::CU_POINTER_ATTRIBUTE_IS_MANAGED,
        Of::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        Of::CU_POINTER_ATTRIBUTE_CONTEXT,
        Of::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        Of::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        Of::CU_POINTER_ATTRIBUTE_MAPPED,
        Of::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        Of::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
        Of::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
    ];
    // Each has at most 8 bytes, of which the driver writes the first ones.
    let mut values = [0u64; 10];
    let mut places = values.each_mut().map(|value| std::ptr::from_mut(value).cast());
    // SAFETY: there are ten attributes, and for each of them 8 bytes to write to; the address is not followed.
    let status = unsafe { get(10, attributes.as_mut_ptr(), places.as_mut_ptr(), address(pointer)) };
    // Drivers leave the values as they are for an address that they do not know, or return one of these two errors.
    const UNKNOWN: [Status; 2] =
        [CUresult::CUDA_ERROR_INVALID_VALUE as Status, CUresult::CUDA_ERROR_INVALID_CONTEXT as Status];
    match status {
        SUCCESS => {}
        status if UNKNOWN.contains(&status) => return Ok(None),
        status => return Err(status),
    }
    let [kind, managed, device, context, begin, bytes, mapped, ipc, handles, pool] = values.map(u64::from_le);
    let kind = match (kind & 0xffff_ffff, managed & 0xff) {
        (_, 1) => MemoryKind::Shared,
        (HOST, _) => MemoryKind::Pinned,
        // The addresses are reserved and have no memory.
        (DEVICE, _) if context == 0 && mapped & 0xff == 0 && pool == 0 => return Ok(None),
        (DEVICE, _) => MemoryKind::Device,
        _ => return Ok(None),
    };
    let has = |kind: CUmemAllocationHandleType| handles & u64::from(kind.0) != 0;
    let shared_by = CudaHandles { ipc: ipc & 0xff != 0, descriptor: has(DESCRIPTOR), fabric: has(FABRIC) };
    let (begin, bytes) = (begin as usize, bytes as usize);
    Ok(Some(CudaMemory {
        kind,
        device: device as u32,
        context: (context != 0).then_some(context as usize),
        addresses: (begin != 0 && bytes != 0).then(|| begin..begin.saturating_add(bytes)),
        shared_by,
    }))
}

/// The end address of the mapping of `cuMemCreate` memory that contains `pointer`; `None` if the driver does not
/// report it.
fn end_of_mapping(pointer: Pointer) -> Option<usize> {
    let get = loaded_pointer_get_attributes()?;
    let mut attributes = [Of::CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, Of::CU_POINTER_ATTRIBUTE_MAPPING_SIZE];
    let mut values = [0u64; 2];
    let mut places = values.each_mut().map(|value| std::ptr::from_mut(value).cast());
    // SAFETY: there are two attributes, and for each of them 8 bytes to write to; the address is not followed.
    let status = unsafe { get(2, attributes.as_mut_ptr(), places.as_mut_ptr(), address(pointer)) };
    let end = (values[0] as usize).checked_add(values[1] as usize).filter(|_| status == SUCCESS);
    end.filter(|end| *end > pointer.as_ptr().addr())
}
