//! The driver's functions and status codes.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ops::Deref;
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUflushGPUDirectRDMAWritesScope,
    CUflushGPUDirectRDMAWritesTarget, CUfunction, CUfunction_attribute, CUipcMemHandle, CUjit_option,
    CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmodule, CUpointer_attribute, CUresult, CUstream,
    CUstreamBatchMemOpParams,
};
use haloport_core::device::{DeviceError, DeviceId};

use crate::driver::library::{functions, load, loaded};

/// The device that errors name before one is chosen.
pub(crate) const ANY: DeviceId = DeviceId { backend: "cuda", index: 0, context: 0 };

/// The oldest supported driver, in the form of its version: CUDA 12.0.
const OLDEST: c_int = 12_000;

const ADVICE: &str = "install NVIDIA's driver, version 525 or newer (in a container, run it with access to the GPU, \
                      for example `--gpus all`)";

#[cfg(not(windows))]
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
#[cfg(windows)]
const NAMES: [&str; 1] = ["nvcuda.dll"];

/// The status of a call: a code of [`CUresult`], or one that only a later driver has.
pub(crate) type Status = c_uint;

pub(crate) const SUCCESS: Status = CUresult::CUDA_SUCCESS as Status;
pub(crate) const OUT_OF_MEMORY: Status = CUresult::CUDA_ERROR_OUT_OF_MEMORY as Status;
pub(crate) const PEER_ACCESS_ALREADY_ENABLED: Status =
    CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED as Status;
pub(crate) const NOT_FOUND: Status = CUresult::CUDA_ERROR_NOT_FOUND as Status;
pub(crate) const NOT_READY: Status = CUresult::CUDA_ERROR_NOT_READY as Status;
pub(crate) const NOT_SUPPORTED: Status = CUresult::CUDA_ERROR_NOT_SUPPORTED as Status;
pub(crate) const NOT_PERMITTED: Status = CUresult::CUDA_ERROR_NOT_PERMITTED as Status;
pub(crate) const INVALID_HANDLE: Status = CUresult::CUDA_ERROR_INVALID_HANDLE as Status;
pub(crate) const SYSTEM_NOT_READY: Status = CUresult::CUDA_ERROR_SYSTEM_NOT_READY as Status;
pub(crate) const INVALID_VALUE: Status = CUresult::CUDA_ERROR_INVALID_VALUE as Status;
pub(crate) const CAPTURE_IMPLICIT: Status = CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT as Status;
const NO_DEVICE: Status = CUresult::CUDA_ERROR_NO_DEVICE as Status;
const STUB_LIBRARY: Status = CUresult::CUDA_ERROR_STUB_LIBRARY as Status;

functions! {
    /// The functions of the driver that the backend calls.
    Functions of cudarc::driver::sys;
    checked {
        cuInit(c_uint) -> CUresult;
        cuDriverGetVersion(*mut c_int) -> CUresult;
        cuDeviceGet(*mut CUdevice, c_int) -> CUresult;
        cuDeviceGetCount(*mut c_int) -> CUresult;
        cuDeviceGetName(*mut c_char, c_int, CUdevice) -> CUresult;
        cuDeviceTotalMem_v2(*mut usize, CUdevice) -> CUresult;
        cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice) -> CUresult;
        cuDevicePrimaryCtxRelease_v2(CUdevice) -> CUresult;
        cuCtxGetCurrent(*mut CUcontext) -> CUresult;
        cuCtxPushCurrent_v2(CUcontext) -> CUresult;
        cuCtxPopCurrent_v2(*mut CUcontext) -> CUresult;
        cuCtxSynchronize() -> CUresult;
        cuCtxGetStreamPriorityRange(*mut c_int, *mut c_int) -> CUresult;
        cuStreamCreateWithPriority(*mut CUstream, c_uint, c_int) -> CUresult;
        cuStreamDestroy_v2(CUstream) -> CUresult;
        cuStreamSynchronize(CUstream) -> CUresult;
        cuStreamWaitEvent(CUstream, CUevent, c_uint) -> CUresult;
        cuStreamGetCtx(CUstream, *mut CUcontext) -> CUresult;
        cuStreamWaitValue32_v2(CUstream, CUdeviceptr, u32, c_uint) -> CUresult;
        cuStreamWriteValue32_v2(CUstream, CUdeviceptr, u32, c_uint) -> CUresult;
        cuStreamBatchMemOp_v2(CUstream, c_uint, *mut CUstreamBatchMemOpParams, c_uint) -> CUresult;
        cuEventCreate(*mut CUevent, c_uint) -> CUresult;
        cuEventDestroy_v2(CUevent) -> CUresult;
        cuEventRecord(CUevent, CUstream) -> CUresult;
        cuEventQuery(CUevent) -> CUresult;
        cuEventSynchronize(CUevent) -> CUresult;
        cuEventElapsedTime(*mut f32, CUevent, CUevent) -> CUresult;
        cuMemAlloc_v2(*mut CUdeviceptr, usize) -> CUresult;
        cuMemFree_v2(CUdeviceptr) -> CUresult;
        cuMemHostAlloc(*mut *mut c_void, usize, c_uint) -> CUresult;
        cuMemFreeHost(*mut c_void) -> CUresult;
        cuMemHostRegister_v2(*mut c_void, usize, c_uint) -> CUresult;
        cuMemHostUnregister(*mut c_void) -> CUresult;
        cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint) -> CUresult;
        cuMemAllocManaged(*mut CUdeviceptr, usize, c_uint) -> CUresult;
        cuPointerGetAttributes(
            c_uint, *mut CUpointer_attribute, *mut *mut c_void, CUdeviceptr,
        ) -> CUresult;
        cuMemGetAllocationGranularity(
            *mut usize, *const CUmemAllocationProp, CUmemAllocationGranularity_flags,
        ) -> CUresult;
        cuMemCreate(
            *mut CUmemGenericAllocationHandle, usize, *const CUmemAllocationProp, c_ulonglong,
        ) -> CUresult;
        cuMemRelease(CUmemGenericAllocationHandle) -> CUresult;
        cuMemAddressReserve(*mut CUdeviceptr, usize, usize, CUdeviceptr, c_ulonglong) -> CUresult;
        cuMemAddressFree(CUdeviceptr, usize) -> CUresult;
        cuMemMap(CUdeviceptr, usize, usize, CUmemGenericAllocationHandle, c_ulonglong) -> CUresult;
        cuMemUnmap(CUdeviceptr, usize) -> CUresult;
        cuMemSetAccess(CUdeviceptr, usize, *const CUmemAccessDesc, usize) -> CUresult;
        cuMemExportToShareableHandle(
            *mut c_void, CUmemGenericAllocationHandle, CUmemAllocationHandleType, c_ulonglong,
        ) -> CUresult;
        cuMemImportFromShareableHandle(
            *mut CUmemGenericAllocationHandle, *mut c_void, CUmemAllocationHandleType,
        ) -> CUresult;
        cuIpcGetMemHandle(*mut CUipcMemHandle, CUdeviceptr) -> CUresult;
        cuIpcOpenMemHandle_v2(*mut CUdeviceptr, CUipcMemHandle, c_uint) -> CUresult;
        cuIpcCloseMemHandle(CUdeviceptr) -> CUresult;
        cuDeviceCanAccessPeer(*mut c_int, CUdevice, CUdevice) -> CUresult;
        cuCtxEnablePeerAccess(CUcontext, c_uint) -> CUresult;
        cuMemcpyAsync(CUdeviceptr, CUdeviceptr, usize, CUstream) -> CUresult;
        cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream) -> CUresult;
        cuMemsetD16Async(CUdeviceptr, u16, usize, CUstream) -> CUresult;
        cuMemsetD32Async(CUdeviceptr, c_uint, usize, CUstream) -> CUresult;
        cuModuleLoadDataEx(*mut CUmodule, *const c_void, c_uint, *mut CUjit_option, *mut *mut c_void) -> CUresult;
        cuModuleUnload(CUmodule) -> CUresult;
        cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char) -> CUresult;
        cuFuncGetAttribute(*mut c_int, CUfunction_attribute, CUfunction) -> CUresult;
        cuLaunchKernel(
            CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream,
            *mut *mut c_void, *mut *mut c_void,
        ) -> CUresult;
        cuFlushGPUDirectRDMAWrites(
            CUflushGPUDirectRDMAWritesTarget, CUflushGPUDirectRDMAWritesScope,
        ) -> CUresult;
    }
    own {
        // Its status of a capture is read as a number, in which later drivers may have other values.
        cuStreamIsCapturing(CUstream, *mut u32) -> Status;
        // The attribute is a number, since later drivers have more of them than cudarc's type.
        cuDeviceGetAttribute(*mut c_int, c_uint, CUdevice) -> Status;
        cuGetErrorName(Status, *mut *const c_char) -> Status;
        cuGetErrorString(Status, *mut *const c_char) -> Status;
    }
    optional {
        // From CUDA 12.4 on.
        cuFuncLoad(CUfunction) -> Status;
        cuFuncGetParamInfo(CUfunction, usize, *mut usize, *mut usize) -> Status;
    }
}

/// The loaded driver.
pub(crate) struct Driver {
    functions: Functions,
    /// The CUDA version that it offers: 1000 times the major number plus 10 times the minor.
    pub(crate) version: c_int,
}

/// A function that tells what an address belongs to: `cuPointerGetAttributes`.
pub(crate) type PointerGetAttributes =
    unsafe extern "C" fn(c_uint, *mut CUpointer_attribute, *mut *mut c_void, CUdeviceptr) -> Status;

/// That function of the driver that the process has loaded, which need not be initialised; `None` if it has loaded none.
pub(crate) fn loaded_pointer_get_attributes() -> Option<PointerGetAttributes> {
    static FOUND: OnceLock<PointerGetAttributes> = OnceLock::new();

    if let Some(found) = FOUND.get() {
        return Some(*found);
    }
    // That there is none is not stored: the driver may be loaded later.
    let library = NAMES.iter().find_map(|name| loaded(name))?;
    // SAFETY: the library's header declares the symbol with this type; enums of C are numbers.
    let found = *unsafe { library.get(b"cuPointerGetAttributes\0") }.ok()?;
    // Never closed: the function is used as long as the process runs.
    std::mem::forget(library);
    Some(*FOUND.get_or_init(|| found))
}

/// The driver, loaded and initialised once.
pub(crate) fn driver() -> Result<&'static Driver, DeviceError> {
    static DRIVER: OnceLock<Result<Driver, DeviceError>> = OnceLock::new();
    DRIVER.get_or_init(Driver::initialised).as_ref().map_err(Clone::clone)
}

impl Driver {
    fn initialised() -> Result<Driver, DeviceError> {
        let library = load(&NAMES).map_err(|looked_for| DeviceError::NotFound {
            what: "the CUDA driver".into(),
            looked_for,
            advice: ADVICE.into(),
        })?;
        let functions = Functions::load(library).map_err(|symbol| DeviceError::NotFound {
            what: format!("a CUDA driver with the function {symbol}"),
            looked_for: format!("it in {}", NAMES[0]),
            advice: ADVICE.into(),
        })?;
        let mut driver = Driver { functions, version: 0 };
        // SAFETY: it may be called at any time and more than once, and takes no flags.
        match unsafe { (driver.cuInit)(0) } {
            SUCCESS => {}
            NO_DEVICE => return Err(no_device()),
            STUB_LIBRARY => {
                return Err(DeviceError::NotFound {
                    what: "the CUDA driver".into(),
                    looked_for: format!("{}, and found a stub for linking", NAMES[0]),
                    advice: "remove the folder `stubs` of the CUDA toolkit from LD_LIBRARY_PATH, or "
                        .to_string()
                        + ADVICE,
                });
            }
            status => return Err(driver.failed("cuInit", status, ANY)),
        }
        let mut version = 0;
        // SAFETY: the call writes to a local variable.
        let status = unsafe { (driver.cuDriverGetVersion)(&raw mut version) };
        driver.checked("cuDriverGetVersion", status, ANY)?;
        driver.version = version;
        if version >= OLDEST {
            return Ok(driver);
        }
        let found = format!("CUDA {} or newer, and found {}", version_text(OLDEST), version_text(version));
        Err(DeviceError::NotFound {
            what: "a CUDA driver that is new enough".into(),
            looked_for: found,
            advice: ADVICE.into(),
        })
    }

    /// Turns the status of a call into a result.
    pub(crate) fn checked(
        &self,
        call: &'static str,
        status: Status,
        device: DeviceId,
    ) -> Result<(), DeviceError> {
        if status == SUCCESS { Ok(()) } else { Err(self.failed(call, status, device)) }
    }

    /// The error of a failed call.
    #[cold]
    pub(crate) fn failed(&self, call: &'static str, status: Status, device: DeviceId) -> DeviceError {
        let [name, text] = [self.cuGetErrorName, self.cuGetErrorString].map(|of| {
            let mut text = ptr::null();
            // SAFETY: the call writes the address of a static text, or null, to a local variable.
            let known = unsafe { of(status, &raw mut text) } == SUCCESS && !text.is_null();
            // SAFETY: the address is of a C string that lives as long as the library.
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
        });
        let message = match (name, text) {
            (Some(name), Some(text)) => format!("{text} ({name}, {status})"),
            _ => format!("error {status}, which the driver does not describe"),
        };
        DeviceError::Driver { call, device, message }
    }
}

impl Deref for Driver {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

/// The error if there is a driver but no device.
pub(crate) fn no_device() -> DeviceError {
    let visible = std::env::var("CUDA_VISIBLE_DEVICES");
    let only = visible.map(|list| format!(", restricted by CUDA_VISIBLE_DEVICES={list}"));
    DeviceError::NotFound {
        what: "a CUDA device".into(),
        looked_for: format!("the devices of the CUDA driver{}", only.unwrap_or_default()),
        advice: "check that `nvidia-smi` lists one and that CUDA_VISIBLE_DEVICES does not hide it".into(),
    }
}

/// The text of a version, which CUDA has as one number.
pub(crate) fn version_text(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
