//! Programs: compiled from source, or taken as PTX or as the machine code that a compiler left earlier.

use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::sync::{Arc, PoisonError};

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUjit_option, CUresult};
use haloport_core::device::{DeviceError, KernelCache, KernelKey, KernelParts, dialect};

use crate::compiler::{Compiler, Request, compiler};
use crate::context::call;
use crate::cubin;
use crate::driver::Status;
use crate::handles::Module;
use crate::open::Opened;

/// A program that is loaded, and what it was loaded from.
#[derive(Debug)]
pub(crate) struct Program {
    module: Module,
    image: Arc<[u8]>,
}

/// A kernel of a program.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    raw: CUfunction,
    /// How many threads of a group its registers allow.
    pub(crate) most_threads: usize,
    program: Arc<Program>,
}

// SAFETY: a function belongs to no thread, and lives as long as its program.
unsafe impl Send for Function {}
// SAFETY: a function is launched by several threads at once.
unsafe impl Sync for Function {}

/// The program of a source in the portable dialect; each is loaded once for all who have opened the device, and compiled
/// only where the kernel cache of the process has none.
pub(crate) fn portable(
    opened: &Opened,
    name: &str,
    source: &'static str,
) -> Result<Arc<Program>, DeviceError> {
    let known = || opened.programs.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = known().get(source) {
        return Ok(Arc::clone(program));
    }
    // Built without the lock: threads may build at once, and the first one's program stays.
    let program = Arc::new(cached(KernelCache::of_process(), opened, name, &dialect::cuda(source))?);
    Ok(Arc::clone(known().entry(source).or_insert(program)))
}

/// The program of a text in CUDA C++, from the cache, or else compiled. What the driver refuses is forgotten, and the text
/// is compiled again.
fn cached(cache: &KernelCache, opened: &Opened, name: &str, text: &str) -> Result<Program, DeviceError> {
    let compiler = compiler(opened.context.driver.version / 1000)?;
    let request = Request { name, text, capability: opened.capability, device: opened.id() };
    let key = key(compiler, &request)?;
    // Another thread may meanwhile have put back what the driver refuses; not for ever.
    for _ in 0..2 {
        let mut compiled = false;
        let image = cache.get_or_compile(&key, || {
            compiled = true;
            compiler.compile(&request)
        })?;
        let from = if compiled { "compiled from source" } else { "taken from the kernel cache" };
        match load(opened, name, Arc::clone(&image)) {
            Ok(program) => {
                tracing::debug!(kernel = name, device = %opened.id(), "{from}");
                return Ok(program);
            }
            Err(error @ DeviceError::Compile { .. }) => {
                cache.forget(&key, &image);
                // What was just made is no better when it is made again.
                if compiled {
                    return Err(error);
                }
                tracing::debug!(kernel = name, %error, "the driver refuses a kernel of the cache");
            }
            Err(error) => return Err(error),
        }
    }
    load(opened, name, compiler.compile(&request)?.into())
}

/// What machine code depends on: the text, the options with the architecture, and the compiler. The driver is none of it.
fn key(compiler: &Compiler, request: &Request<'_>) -> Result<KernelKey, DeviceError> {
    let options = compiler.options(request)?;
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Ok(KernelKey::new(&KernelParts {
        source: request.text.as_bytes(),
        options: &options,
        compiler: &compiler.version,
        device: &format!("sm_{}", request.capability),
    }))
}

/// The program of PTX, which the driver compiles.
pub(crate) fn from_ptx(opened: &Opened, name: &str, ptx: &str) -> Result<Program, DeviceError> {
    let wrong = || DeviceError::Compile {
        kernel: name.into(),
        device: opened.id(),
        log: "the PTX has a zero in it".into(),
    };
    let ptx = CString::new(ptx).map_err(|_| wrong())?;
    load(opened, name, ptx.into_bytes_with_nul().into())
}

/// The program of what [`Program::image`] gave for a device of the same compute capability.
pub(crate) fn from_binary(opened: &Opened, name: &str, binary: &[u8]) -> Result<Program, DeviceError> {
    load(opened, name, binary.into())
}

/// What the driver says of an image that it cannot take.
const REFUSALS: [Status; 5] = [
    CUresult::CUDA_ERROR_INVALID_IMAGE as Status,
    CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU as Status,
    CUresult::CUDA_ERROR_INVALID_PTX as Status,
    CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION as Status,
    CUresult::CUDA_ERROR_INVALID_SOURCE as Status,
];

/// Loads machine code, or PTX that ends with a zero. The driver is told no length, so what is neither is refused here.
///
/// # Errors
/// [`DeviceError::Compile`] where the image is the cause.
fn load(opened: &Opened, name: &str, image: Arc<[u8]>) -> Result<Program, DeviceError> {
    let wrong = |log: String| DeviceError::Compile { kernel: name.into(), device: opened.id(), log };
    if !cubin::is_whole(&image) && image.iter().position(|byte| *byte == 0) != image.len().checked_sub(1) {
        let found = image.len();
        return Err(wrong(format!(
            "{found} bytes are neither a cubin for NVIDIA GPUs nor PTX that ends with a zero"
        )));
    }
    let mut log = [0u8; 4096];
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(log.len() - 1)];
    let mut raw = ptr::null_mut();
    let context = &opened.context;
    let entered = context.enter()?;
    // SAFETY: the image is whole; the values are as the options want them, the log is one byte longer than is said; it
    // writes to a place of ours.
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
        true => wrong(format!("{error}\n{}", String::from_utf8_lossy(&log).trim_matches(['\0', '\n', ' ']))),
        false => error,
    })?;
    // SAFETY: the module was just made, and is ours.
    let module = unsafe { Module::own(context, raw) };
    Ok(Program { module, image })
}

impl Program {
    /// What it was loaded from.
    pub(crate) fn image(&self) -> &[u8] {
        &self.image
    }
}

impl Function {
    /// The kernel of that name, with its code on the device: a driver that loads code as late as it can does so here
    /// ("CUDA Programming Guide", section "Lazy Loading"), and not in the first launch, which would wait for the device.
    pub(crate) fn new(opened: &Opened, program: Arc<Program>, name: &str) -> Result<Function, DeviceError> {
        let none = |why: String| {
            let log = format!("the program holds no kernel `{name}`{why}");
            DeviceError::Compile { kernel: name.into(), device: opened.id(), log }
        };
        let c_name = CString::new(name).map_err(|_| none(String::new()))?;
        let (name, module): (*const c_char, _) = (c_name.as_ptr(), program.module.raw());
        let mut raw = ptr::null_mut();
        // SAFETY: the module is live, the name ends with a zero; it writes to a place of ours.
        let found = unsafe { call!(&opened.context, cuModuleGetFunction(&raw mut raw, module, name)) };
        found.map_err(|error| none(format!(": {error}")))?;
        let (mut most_threads, attribute) =
            (0, CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
        // SAFETY: the function is live; it writes to a place of ours.
        unsafe { call!(&opened.context, cuFuncGetAttribute(&raw mut most_threads, attribute, raw)) }?;
        Ok(Function { raw, most_threads: most_threads as usize, program })
    }

    pub(crate) fn raw(&self) -> CUfunction {
        self.raw
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::Selector;

    /// What the checksum of an entry cannot find: an image that is whole, and that the driver does not take.
    #[test]
    fn an_image_that_the_driver_refuses_is_compiled_again() {
        let Ok(candidate) = "cuda".parse::<Selector>().unwrap().find() else {
            eprintln!("skipped: no CUDA device");
            return;
        };
        let opened = Opened::new(candidate).unwrap();
        let Ok(compiler) = compiler(opened.context.driver.version / 1000) else {
            eprintln!("skipped: no NVRTC");
            return;
        };
        let cache = KernelCache::in_memory();
        let text = dialect::cuda("KERNEL void f(GLOBAL int *x) { x[0] = 1; }");
        let request = Request { name: "f", text: &text, capability: opened.capability, device: opened.id() };
        let key = key(compiler, &request).unwrap();
        cache.get_or_compile(&key, || Ok::<_, DeviceError>(b"no PTX\0".to_vec())).unwrap();
        let program = Arc::new(cached(&cache, &opened, "f", &text).unwrap());
        let kept = cache.get_or_compile(&key, || Err(DeviceError::invalid("", "", "nothing was kept")));
        assert_eq!(kept.unwrap()[..], *program.image());
        Function::new(&opened, program, "f").unwrap();
    }
}
