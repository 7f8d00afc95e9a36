//! Loaded programs and their kernels.

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUjit_option, CUresult};
use haloport_core::device::DeviceError;

use crate::driver::context::{Context, call};
use crate::driver::functions::{NOT_FOUND, Status};
use crate::driver::handles::Module;
use crate::program::cubin;

/// A loaded program.
#[derive(Debug)]
pub(crate) struct Program {
    module: Module,
    /// The image that it was loaded from.
    pub(crate) image: Arc<[u8]>,
}

/// The driver's codes for an image that it cannot load.
const REFUSALS: [Status; 5] = [
    CUresult::CUDA_ERROR_INVALID_IMAGE as Status,
    CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU as Status,
    CUresult::CUDA_ERROR_INVALID_PTX as Status,
    CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION as Status,
    CUresult::CUDA_ERROR_INVALID_SOURCE as Status,
];

/// A kernel of a program.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) raw: CUfunction,
    /// The most threads of a group that its registers allow.
    pub(crate) most_threads: usize,
    pub(crate) program: Arc<Program>,
}

// SAFETY: a function belongs to no thread, and lives as long as its program.
unsafe impl Send for Function {}
// SAFETY: several threads may launch a function at once.
unsafe impl Sync for Function {}

impl Program {
    /// Loads machine code, or PTX that ends with a zero byte. The driver gets no length, so other images are refused
    /// here.
    ///
    /// # Errors
    /// [`DeviceError::Compile`] if the image is the cause; the driver's errors.
    pub(crate) fn load(context: &Arc<Context>, name: &str, image: Arc<[u8]>) -> Result<Program, DeviceError> {
        let wrong = |log: String| DeviceError::Compile { kernel: name.into(), device: context.id, log };
        if !cubin::is_whole(&image) && image.iter().position(|byte| *byte == 0) != image.len().checked_sub(1)
        {
            let found = image.len();
            return Err(wrong(format!(
                "expected a cubin for NVIDIA GPUs, or PTX with one zero byte, at its end; found \
                 {found} bytes that are neither"
            )));
        }
        let mut log = [0u8; 4096];
        let mut options =
            [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(log.len() - 1)];
        let mut raw = ptr::null_mut();
        let entered = context.enter()?;
        // SAFETY: the image is complete; the values have the types of the options, the log is one byte longer than its
        // option says; the call writes to local variables.
        let status = unsafe {
            (context.driver.cuModuleLoadDataEx)(
                &raw mut raw,
                image.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        drop(entered);
        context.checked("cuModuleLoadDataEx", status).map_err(|error| match REFUSALS.contains(&status) {
            true => {
                wrong(format!("{error}\n{}", String::from_utf8_lossy(&log).trim_matches(['\0', '\n', ' '])))
            }
            false => error,
        })?;
        // SAFETY: the module is new and belongs to the program.
        let module = unsafe { Module::own(context, raw) };
        Ok(Program { module, image })
    }
}

impl Function {
    /// Finds the kernel of that name, and makes the driver load its code now. Otherwise its first launch might, and wait
    /// for the device. `cuModuleGetFunction` loads it ("CUDA Programming Guide", section "Lazy Loading"), perhaps in part
    /// (reference of `cuModuleEnumerateFunctions`); `cuFuncLoad` does the rest.
    pub(crate) fn new(context: &Context, program: Arc<Program>, name: &str) -> Result<Function, DeviceError> {
        let none = || {
            let log = format!("the program holds no kernel `{name}`");
            DeviceError::Compile { kernel: name.into(), device: context.id, log }
        };
        let c_name = CString::new(name).map_err(|_| none())?;
        let module = program.module.raw();
        let mut raw = ptr::null_mut();
        let entered = context.enter()?;
        // SAFETY: the module is live, the name ends with a zero; the call writes to a local variable.
        let status = unsafe { (context.driver.cuModuleGetFunction)(&raw mut raw, module, c_name.as_ptr()) };
        if status == NOT_FOUND {
            return Err(none());
        }
        context.checked("cuModuleGetFunction", status)?;
        drop(entered);
        let (mut most_threads, attribute) =
            (0, CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
        // SAFETY: the function is live; the call writes to a local variable.
        unsafe { call!(context, cuFuncGetAttribute(&raw mut most_threads, attribute, raw)) }?;
        if let Some(load) = context.driver.cuFuncLoad {
            let _entered = context.enter()?;
            // SAFETY: the function is live.
            context.checked("cuFuncLoad", unsafe { load(raw) })?;
        }
        Ok(Function { raw, most_threads: most_threads as usize, program })
    }
}
