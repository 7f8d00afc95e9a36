//! Memory that host and device address alike: unified shared memory, or shared virtual memory.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use cl3::OpenClRuntime;
use cl3::device::{CL_DEVICE_SVM_COARSE_GRAIN_BUFFER, CL_DEVICE_SVM_FINE_GRAIN_BUFFER};
use cl3::ext::{
    CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL, CL_DEVICE_SINGLE_DEVICE_SHARED_MEM_CAPABILITIES_INTEL,
    CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL, CL_KERNEL_EXEC_INFO_INDIRECT_HOST_ACCESS_INTEL,
    CL_KERNEL_EXEC_INFO_INDIRECT_SHARED_ACCESS_INTEL, CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL,
    clDeviceMemAllocINTEL_fn, clEnqueueMemFillINTEL_fn, clEnqueueMemcpyINTEL_fn, clGetMemAllocInfoINTEL_fn,
    clHostMemAllocINTEL_fn, clMemFreeINTEL_fn, clSetKernelArgMemPointerINTEL_fn, clSharedMemAllocINTEL_fn,
};
use cl3::kernel::{CL_KERNEL_EXEC_INFO_SVM_PTRS, set_kernel_exec_info};
use cl3::memory::{CL_MEM_READ_WRITE, CL_MEM_SVM_FINE_GRAIN_BUFFER, svm_alloc, svm_free};
use cl3::types::{
    cl_bool, cl_command_queue, cl_context, cl_device_id, cl_int, cl_kernel, cl_platform_id, cl_uint,
};
use haloport_core::device::{MemoryKind, Pointer};
use opencl3::device::Device;

use super::library::has_extension;

/// Alignment of every allocation in bytes: a cache line.
const ALIGNMENT: cl_uint = 64;

/// The mechanism by which a device shares addresses with the host.
#[derive(Debug)]
pub(crate) enum Unified {
    /// Unified shared memory, an extension by Intel.
    Usm(Usm),
    /// Shared virtual memory of OpenCL 2.
    Svm(Svm),
}

/// The functions of the extension `cl_intel_unified_shared_memory`, which loaders do not export.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usm {
    device_alloc: clDeviceMemAllocINTEL_fn,
    host_alloc: clHostMemAllocINTEL_fn,
    shared_alloc: clSharedMemAllocINTEL_fn,
    free: clMemFreeINTEL_fn,
    pub(crate) info: clGetMemAllocInfoINTEL_fn,
    set_argument: clSetKernelArgMemPointerINTEL_fn,
    fill: clEnqueueMemFillINTEL_fn,
    copy: clEnqueueMemcpyINTEL_fn,
    has_host: bool,
    has_shared: bool,
}

/// Shared virtual memory.
#[derive(Debug)]
pub(crate) struct Svm {
    /// Whether host and device may use one allocation without mapping it.
    fine: bool,
    /// The address and size of each live allocation: a kernel needs the list of those that it reaches through tables.
    live: Mutex<BTreeMap<usize, usize>>,
}

impl Unified {
    /// The better mechanism of `device`; `None` if it has neither.
    pub(crate) fn of(library: &OpenClRuntime, platform: cl_platform_id, device: Device) -> Option<Unified> {
        if let Some(usm) = Usm::of(library, platform, device) {
            return Some(Unified::Usm(usm));
        }
        let offered = device.svm_mem_capability();
        let fine = offered & CL_DEVICE_SVM_FINE_GRAIN_BUFFER != 0;
        (offered & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER != 0)
            .then(|| Unified::Svm(Svm { fine, live: Mutex::default() }))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Unified::Usm(_) => "unified shared memory",
            Unified::Svm(Svm { fine: true, .. }) => "fine-grained shared virtual memory",
            Unified::Svm(_) => "coarse-grained shared virtual memory",
        }
    }

    /// Whether the device has memory of this kind.
    pub(crate) fn offers(&self, kind: MemoryKind) -> bool {
        match (self, kind) {
            (_, MemoryKind::Device) => true,
            (Unified::Usm(usm), MemoryKind::Pinned) => usm.has_host,
            (Unified::Usm(usm), MemoryKind::Shared) => usm.has_shared,
            (Unified::Svm(svm), _) => svm.fine,
        }
    }

    /// Allocates memory of a kind that the device has, not initialised; null if there is not enough.
    pub(crate) fn allocate(
        &self,
        context: cl_context,
        device: cl_device_id,
        bytes: usize,
        kind: MemoryKind,
    ) -> *mut c_void {
        match self {
            // SAFETY: the context and the device are live, and the function belongs to their platform.
            Unified::Usm(usm) => unsafe { usm.allocate(context, device, bytes, kind) },
            Unified::Svm(svm) => {
                let fine = if kind == MemoryKind::Device { 0 } else { CL_MEM_SVM_FINE_GRAIN_BUFFER };
                // SAFETY: the context is live.
                let memory = unsafe { svm_alloc(context, CL_MEM_READ_WRITE | fine, bytes, ALIGNMENT) };
                let memory = memory.unwrap_or(ptr::null_mut());
                if !memory.is_null() {
                    svm.live.lock().unwrap_or_else(PoisonError::into_inner).insert(memory.addr(), bytes);
                }
                memory
            }
        }
    }

    /// # Safety
    /// `memory` came from [`allocate`](Unified::allocate), is freed once, and no command uses it any more.
    pub(crate) unsafe fn free(&self, context: cl_context, memory: *mut c_void) {
        match self {
            Unified::Usm(Usm { free, .. }) => {
                // SAFETY: the caller's promise. After an error there is nothing to do.
                let _ = free.map(|free| unsafe { free(context, memory) });
            }
            Unified::Svm(svm) => {
                svm.live.lock().unwrap_or_else(PoisonError::into_inner).remove(&memory.addr());
                // SAFETY: the caller's promise. After an error there is nothing to do.
                let _ = unsafe { svm_free(context, memory) };
            }
        }
    }

    /// Sets an address as an argument of a kernel.
    ///
    /// # Safety
    /// No other thread uses `kernel` meanwhile.
    pub(crate) unsafe fn set_argument(
        &self,
        library: &OpenClRuntime,
        kernel: cl_kernel,
        index: cl_uint,
        pointer: Pointer,
    ) -> Option<cl_int> {
        let address = pointer.as_ptr().cast::<c_void>();
        match self {
            // SAFETY: the kernel is live; an address is data until the kernel runs.
            Unified::Usm(usm) => usm.set_argument.map(|set| unsafe { set(kernel, index, address) }),
            Unified::Svm(_) => library.clSetKernelArgSVMPointer(kernel, index, address),
        }
    }

    /// Declares that a kernel follows `pointers`, which it finds in memory and not among its arguments.
    ///
    /// # Safety
    /// As for [`set_argument`](Unified::set_argument).
    pub(crate) unsafe fn declare_reached(
        &self,
        kernel: cl_kernel,
        pointers: impl Iterator<Item = Pointer>,
    ) -> Result<(), cl_int> {
        let set = |name: cl_uint, bytes: usize, value: *const c_void| {
            // SAFETY: the kernel is live, and no other thread uses it; the value is `bytes` long.
            unsafe { set_kernel_exec_info(kernel, name, bytes, value) }
        };
        match self {
            Unified::Usm(_) => {
                let yes: cl_bool = 1;
                for name in [
                    CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL,
                    CL_KERNEL_EXEC_INFO_INDIRECT_HOST_ACCESS_INTEL,
                    CL_KERNEL_EXEC_INFO_INDIRECT_SHARED_ACCESS_INTEL,
                ] {
                    set(name, size_of::<cl_bool>(), ptr::from_ref(&yes).cast())?;
                }
                Ok(())
            }
            Unified::Svm(svm) => {
                let mut reached = svm.holding(pointers);
                reached.sort_unstable();
                reached.dedup();
                if reached.is_empty() {
                    return Ok(());
                }
                set(CL_KERNEL_EXEC_INFO_SVM_PTRS, size_of_val(&reached[..]), reached.as_ptr().cast())
            }
        }
    }

    /// Puts a copy into a queue.
    ///
    /// # Safety
    /// As for [`Device::copy`](haloport_core::device::Device::copy), on this queue.
    pub(crate) unsafe fn copy(
        &self,
        library: &OpenClRuntime,
        queue: cl_command_queue,
        (source, target): (Pointer, Pointer),
        bytes: usize,
        blocking: bool,
    ) -> Option<cl_int> {
        let (from, to) = (source.as_ptr().cast::<c_void>(), target.as_ptr().cast::<c_void>());
        let (blocking, none, event) = (cl_bool::from(blocking), ptr::null(), ptr::null_mut());
        match self {
            Unified::Usm(usm) => {
                // SAFETY: the caller's promise.
                usm.copy.map(|copy| unsafe { copy(queue, blocking, to, from, bytes, 0, none, event) })
            }
            Unified::Svm(_) => library.clEnqueueSVMMemcpy(queue, blocking, to, from, bytes, 0, none, event),
        }
    }

    /// Puts a fill into a queue. The length of the pattern is a power of two, and the target is aligned to it.
    ///
    /// # Safety
    /// As for [`Device::fill`](haloport_core::device::Device::fill), on this queue.
    pub(crate) unsafe fn fill(
        &self,
        library: &OpenClRuntime,
        queue: cl_command_queue,
        target: Pointer,
        pattern: &[u8],
        bytes: usize,
    ) -> Option<cl_int> {
        let to = target.as_ptr().cast::<c_void>();
        let (from, size) = (pattern.as_ptr().cast::<c_void>(), pattern.len());
        let (none, event) = (ptr::null(), ptr::null_mut());
        match self {
            Unified::Usm(usm) => {
                // SAFETY: the caller's promise; the driver copies the pattern before it returns.
                usm.fill.map(|fill| unsafe { fill(queue, to, from, size, bytes, 0, none, event) })
            }
            Unified::Svm(_) => library.clEnqueueSVMMemFill(queue, to, from, size, bytes, 0, none, event),
        }
    }
}

impl Usm {
    fn of(library: &OpenClRuntime, platform: cl_platform_id, device: Device) -> Option<Usm> {
        if !has_extension(device, "cl_intel_unified_shared_memory") {
            return None;
        }
        let function = |name: &CStr| {
            let address = library.clGetExtensionFunctionAddressForPlatform(platform, name.as_ptr());
            address.filter(|address| !address.is_null())
        };
        macro_rules! function {
            ($name:literal) => {{
                let address = function($name)?;
                // SAFETY: the platform returns the function of this name, whose type the extension specifies; an
                // optional function pointer is as large as a pointer, and this one is not null.
                unsafe { transmute_copy::<*mut c_void, _>(&address) }
            }};
        }
        let capable = |name: cl_uint| {
            let bits =
                device.get_data(name).ok().and_then(|bits| Some(u64::from_le_bytes(bits.try_into().ok()?)));
            bits.is_some_and(|bits| bits & CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL != 0)
        };
        Some(Usm {
            device_alloc: function!(c"clDeviceMemAllocINTEL"),
            host_alloc: function!(c"clHostMemAllocINTEL"),
            shared_alloc: function!(c"clSharedMemAllocINTEL"),
            free: function!(c"clMemFreeINTEL"),
            info: function!(c"clGetMemAllocInfoINTEL"),
            set_argument: function!(c"clSetKernelArgMemPointerINTEL"),
            fill: function!(c"clEnqueueMemFillINTEL"),
            copy: function!(c"clEnqueueMemcpyINTEL"),
            has_host: capable(CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL),
            has_shared: capable(CL_DEVICE_SINGLE_DEVICE_SHARED_MEM_CAPABILITIES_INTEL),
        })
    }

    /// # Safety
    /// Context and device are live and of the platform that the functions come from.
    unsafe fn allocate(
        &self,
        context: cl_context,
        device: cl_device_id,
        bytes: usize,
        kind: MemoryKind,
    ) -> *mut c_void {
        let (properties, mut status) = (ptr::null(), 0);
        let status: *mut cl_int = &raw mut status;
        // SAFETY: the caller's promise; the list of properties may be null, and the status is a local variable.
        let memory = unsafe {
            match kind {
                MemoryKind::Device => self
                    .device_alloc
                    .map(|allocate| allocate(context, device, properties, bytes, ALIGNMENT, status)),
                MemoryKind::Pinned => {
                    self.host_alloc.map(|allocate| allocate(context, properties, bytes, ALIGNMENT, status))
                }
                MemoryKind::Shared => self
                    .shared_alloc
                    .map(|allocate| allocate(context, device, properties, bytes, ALIGNMENT, status)),
            }
        };
        memory.unwrap_or(ptr::null_mut())
    }
}

impl Svm {
    /// The allocations that hold these addresses. An address in memory of another program stands for its allocation.
    fn holding(&self, pointers: impl Iterator<Item = Pointer>) -> Vec<usize> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        pointers
            .map(|pointer| {
                let address = pointer.as_ptr().addr();
                let before = live.range(..=address).next_back();
                before
                    .map_or(address, |(begin, bytes)| if address < begin + bytes { *begin } else { address })
            })
            .collect()
    }
}
