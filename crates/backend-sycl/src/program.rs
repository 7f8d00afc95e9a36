//! Programs: built from source, from SPIR-V, or from what a compiler left earlier.

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::{Arc, PoisonError};

use cl3::device::{
    CL_DEVICE_IL_VERSION, CL_DEVICE_NAME, CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR, CL_DEVICE_OPENCL_C_VERSION,
    CL_DEVICE_SINGLE_FP_CONFIG, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, get_device_data,
};
use cl3::info_type::InfoType;
use cl3::program::{
    CL_PROGRAM_BINARIES, CL_PROGRAM_BUILD_LOG, build_program, create_program_with_binary,
    create_program_with_il, create_program_with_source, get_program_build_data, get_program_info,
};
use cl3::types::cl_program;
use haloport_core::device::{DeviceError, KernelCache, KernelKey, KernelParts, dialect};

use crate::driver::{failed, number, text as text_of};
use crate::handles::{KernelHandle, Program};
use crate::open::Opened;
use crate::select::Kind;

/// The program of a source in the portable dialect; each is built once for all who have opened the device, and compiled
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
    let text = match opened.kind {
        Kind::Cpu => dialect::opencl_for_cores(source),
        _ => dialect::opencl(source),
    };
    let program = Arc::new(cached(KernelCache::of_process(), opened, name, &text)?);
    Ok(Arc::clone(known().entry(source).or_insert(program)))
}

/// The program of a text in OpenCL C, from its binary in the cache, or else compiled. A binary that the driver refuses
/// is forgotten, and the text is compiled again.
///
/// A driver may keep what it compiles in a cache of its own, as PoCL does (`POCL_CACHE_DIR`); this one knows nothing of
/// that, and saves it from being asked.
fn cached(cache: &KernelCache, opened: &Opened, name: &str, text: &str) -> Result<Program, DeviceError> {
    let key = key(opened, text);
    // Another thread may meanwhile have put back what the driver refuses; not for ever.
    for _ in 0..2 {
        let mut compiled = None;
        let found = cache.get_or_compile(&key, || {
            let program = from_source(opened, name, text)?;
            tracing::debug!(kernel = name, device = %opened.id(), "compiled from source");
            let kept = binary(opened, &program);
            compiled = Some(program);
            kept
        });
        // A driver that gives no binary has compiled all the same.
        if let Some(program) = compiled {
            return Ok(program);
        }
        let found = found?;
        match from_binary(opened, name, &found) {
            Ok(program) => {
                tracing::debug!(kernel = name, device = %opened.id(), "taken from the kernel cache");
                return Ok(program);
            }
            Err(error) => {
                tracing::debug!(kernel = name, %error, "the driver refuses a kernel of the cache");
                cache.forget(&key, &found);
            }
        }
    }
    from_source(opened, name, text)
}

/// What a binary depends on: the text, the options, the platform and the driver with their versions, and the device. Its
/// vector width stands for the instructions that a virtual machine leaves to a processor of that name.
fn key(opened: &Opened, text: &str) -> KernelKey {
    let of = |name| text_of(get_device_data(opened.device, name));
    let width = number(get_device_data(opened.device, CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR));
    let device = [of(CL_DEVICE_NAME), of(CL_DEVICE_VENDOR), width.to_string()].join("\n");
    let compiler =
        [opened.info.driver.clone(), of(CL_DEVICE_VERSION), of(CL_DEVICE_OPENCL_C_VERSION)].join("\n");
    let options = options(opened).to_string_lossy();
    KernelKey::new(&KernelParts {
        source: text.as_bytes(),
        options: &[&options],
        compiler: &compiler,
        device: &device,
    })
}

fn from_source(opened: &Opened, name: &str, text: &str) -> Result<Program, DeviceError> {
    let program = create_program_with_source(opened.context.raw(), &[text])
        .map_err(failed("clCreateProgramWithSource", opened.id()))?;
    build(opened, name, program)
}

/// The program of a SPIR-V module.
pub(crate) fn from_spirv(opened: &Opened, name: &str, module: &[u8]) -> Result<Program, DeviceError> {
    if text_of(get_device_data(opened.device, CL_DEVICE_IL_VERSION)).is_empty() {
        return Err(DeviceError::Unsupported { what: "kernels in SPIR-V", device: opened.id() });
    }
    let program = create_program_with_il(opened.context.raw(), module)
        .map_err(failed("clCreateProgramWithIL", opened.id()))?;
    build(opened, name, program)
}

/// The program that [`binary`] gave of the same device and driver.
pub(crate) fn from_binary(opened: &Opened, name: &str, binary: &[u8]) -> Result<Program, DeviceError> {
    // SAFETY: the context is live; the driver checks what it is given.
    let program = unsafe { create_program_with_binary(opened.context.raw(), &[opened.device], &[binary]) }
        .map_err(failed("clCreateProgramWithBinary", opened.id()))?;
    build(opened, name, program)
}

/// A program as the driver keeps it.
pub(crate) fn binary(opened: &Opened, program: &Program) -> Result<Vec<u8>, DeviceError> {
    let call = "clGetProgramInfo";
    let found = get_program_info(program.raw(), CL_PROGRAM_BINARIES).map_err(failed(call, opened.id()))?;
    match found {
        InfoType::VecVecUchar(mut binaries) if binaries.len() == 1 && !binaries[0].is_empty() => {
            Ok(binaries.swap_remove(0))
        }
        _ => Err(DeviceError::Driver { call, device: opened.id(), message: "there is no binary".into() }),
    }
}

/// A kernel of a program, without arguments.
pub(crate) fn kernel(opened: &Opened, program: &Program, name: &str) -> Result<KernelHandle, DeviceError> {
    let c_name = CString::new(name).map_err(|_| no_kernel(opened, name))?;
    let kernel = cl3::kernel::create_kernel(program.raw(), &c_name).map_err(|_| no_kernel(opened, name))?;
    // SAFETY: the kernel was just made, and is ours.
    Ok(unsafe { KernelHandle::own(kernel) })
}

/// Builds a program, which is ours from here on.
fn build(opened: &Opened, name: &str, program: cl_program) -> Result<Program, DeviceError> {
    // SAFETY: the caller just made it.
    let program = unsafe { Program::own(program) };
    build_program(program.raw(), &[opened.device], options(opened), None, ptr::null_mut()).map_err(
        |code| {
            let log = text_of(get_program_build_data(program.raw(), opened.device, CL_PROGRAM_BUILD_LOG));
            let code = failed("clBuildProgram", opened.id())(code);
            DeviceError::Compile { kernel: name.into(), device: opened.id(), log: format!("{code}\n{log}") }
        },
    )?;
    Ok(program)
}

/// Without warnings (`-w`), which some drivers print. Floats of 32 bits are divided as on the host, where the device can.
/// (Those of 64 bits always are.)
fn options(opened: &Opened) -> &'static CStr {
    const CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT: u64 = 1 << 7;
    let config = number(get_device_data(opened.device, CL_DEVICE_SINGLE_FP_CONFIG));
    match config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT {
        0 => c"-w",
        _ => c"-w -cl-fp32-correctly-rounded-divide-sqrt",
    }
}

fn no_kernel(opened: &Opened, name: &str) -> DeviceError {
    let log = format!("the program holds no kernel `{name}`");
    DeviceError::Compile { kernel: name.into(), device: opened.id(), log }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::Selector;

    /// A CPU compiles what a GPU is given, which differs from what it is given itself.
    #[test]
    fn the_text_for_gpus_compiles() {
        let Ok(candidate) = "sycl".parse::<Selector>().unwrap().find() else {
            eprintln!("skipped: no OpenCL device");
            return;
        };
        let opened = Opened::new(candidate).unwrap();
        let program = from_source(&opened, "copies", &dialect::opencl(dialect::COPIES)).unwrap();
        kernel(&opened, &program, "copy_words").unwrap();
    }

    /// What the checksum of an entry cannot find: a binary that is whole, and that the driver does not take.
    #[test]
    fn a_binary_that_the_driver_refuses_is_compiled_again() {
        let Ok(candidate) = "sycl".parse::<Selector>().unwrap().find() else {
            eprintln!("skipped: no OpenCL device");
            return;
        };
        let opened = Opened::new(candidate).unwrap();
        let cache = KernelCache::in_memory();
        let text = dialect::opencl("KERNEL void f(GLOBAL int *x) { x[0] = 1; }");
        let key = key(&opened, &text);
        cache.get_or_compile(&key, || Ok::<_, DeviceError>(b"no binary".to_vec())).unwrap();
        let program = cached(&cache, &opened, "f", &text).unwrap();
        kernel(&opened, &program, "f").unwrap();
        let kept = cache.get_or_compile(&key, || Err(DeviceError::invalid("", "", "nothing was kept")));
        assert_eq!(kept.unwrap()[..], binary(&opened, &program).unwrap());
        // What is kept now is taken.
        kernel(&opened, &cached(&cache, &opened, "f", &text).unwrap(), "f").unwrap();
    }
}
