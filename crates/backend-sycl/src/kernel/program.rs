//! Programs: built from source, from SPIR-V, or from a binary of an earlier build.

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::{Arc, PoisonError};

use cl3::device::CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
use cl3::kernel::create_kernel;
use cl3::program::{
    CL_PROGRAM_BINARIES, CL_PROGRAM_BUILD_LOG, build_program, create_program_with_binary,
    create_program_with_il, create_program_with_source, get_program_build_info, get_program_info,
};
use cl3::types::cl_program;
use haloport_core::device::{DeviceError, KernelCache, KernelKey, KernelParts, dialect};

use crate::opencl::handles::{KernelHandle, Program};
use crate::opencl::library::{failed, text as text_of};
use crate::opencl::opened::Opened;
use crate::opencl::select::Kind;

/// The program of a source in the portable dialect, built once for all handles of the device, and compiled only if the
/// kernel cache of the process does not have it.
pub(crate) fn portable(
    opened: &Opened,
    name: &str,
    source: &'static str,
) -> Result<Arc<Program>, DeviceError> {
    let known = || opened.programs.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = known().get(source) {
        return Ok(Arc::clone(program));
    }
    // Built without the lock: several threads may build at once, and all use the program that is stored first.
    let text = match opened.kind {
        Kind::Cpu => dialect::opencl_for_cores(source),
        _ => dialect::opencl(source),
    };
    let program = Arc::new(cached(KernelCache::of_process(), opened, name, &text)?);
    Ok(Arc::clone(known().entry(source).or_insert(program)))
}

/// The program of a text in OpenCL C, from its binary in the cache, else compiled. If the driver refuses a binary, it
/// is removed from the cache, and the text is compiled again.
///
/// A driver may have a cache of its own, such as PoCL's (`POCL_CACHE_DIR`), which is asked only after this one.
fn cached(cache: &KernelCache, opened: &Opened, name: &str, text: &str) -> Result<Program, DeviceError> {
    let key = key(opened, text);
    // Two attempts: after the first one, another thread may have stored the refused binary again.
    for _ in 0..2 {
        let mut compiled = None;
        let found = cache.get_or_compile(&key, || {
            let program = from_source(opened, name, text)?;
            tracing::debug!(kernel = name, device = %opened.id(), "compiled from source");
            let binary = binary(opened, &program);
            compiled = Some(program);
            binary
        });
        // Also if the driver returns no binary, the program is compiled.
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

/// Everything a binary depends on: the text, the options, the platform and the driver with their versions, and the
/// device. The vector width tells processors of one name apart: a virtual machine may withhold some of their
/// instructions.
fn key(opened: &Opened, text: &str) -> KernelKey {
    let Opened { device, info, .. } = opened;
    let width = device.native_vector_width_char().unwrap_or(0);
    let compiler =
        [info.driver.clone(), text_of(device.version()), text_of(device.opencl_c_version())].join("\n");
    let device = [text_of(device.name()), text_of(device.vendor()), width.to_string()].join("\n");
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
    if text_of(opened.device.il_version()).is_empty() {
        return Err(DeviceError::Unsupported { what: "kernels in SPIR-V", device: opened.id() });
    }
    let program = create_program_with_il(opened.context.raw(), module)
        .map_err(failed("clCreateProgramWithIL", opened.id()))?;
    build(opened, name, program)
}

/// The program of a [`binary`] of the same device and driver.
pub(crate) fn from_binary(opened: &Opened, name: &str, binary: &[u8]) -> Result<Program, DeviceError> {
    // SAFETY: the context is live, and the device belongs to it; the driver checks the binary.
    let program =
        unsafe { create_program_with_binary(opened.context.raw(), &[opened.device.id()], &[binary]) }
            .map_err(failed("clCreateProgramWithBinary", opened.id()))?;
    build(opened, name, program)
}

/// The binary of a program, for [`from_binary`].
pub(crate) fn binary(opened: &Opened, program: &Program) -> Result<Vec<u8>, DeviceError> {
    let call = "clGetProgramInfo";
    let found = get_program_info(program.raw(), CL_PROGRAM_BINARIES).map_err(failed(call, opened.id()))?;
    match &mut Vec::<Vec<u8>>::from(found)[..] {
        [binary] if !binary.is_empty() => Ok(std::mem::take(binary)),
        _ => Err(DeviceError::Driver { call, device: opened.id(), message: "there is no binary".into() }),
    }
}

/// A kernel of a program, without arguments.
pub(crate) fn kernel(opened: &Opened, program: &Program, name: &str) -> Result<KernelHandle, DeviceError> {
    let c_name = CString::new(name).map_err(|_| no_kernel(opened, name))?;
    let kernel = create_kernel(program.raw(), &c_name).map_err(|_| no_kernel(opened, name))?;
    // SAFETY: the kernel is new, and its reference has no other owner.
    Ok(unsafe { KernelHandle::own(kernel) })
}

/// Builds a new program, and takes its reference.
fn build(opened: &Opened, name: &str, program: cl_program) -> Result<Program, DeviceError> {
    // SAFETY: the program is new, and the caller gives its reference away.
    let program = unsafe { Program::own(program) };
    let device = opened.device.id();
    match build_program(program.raw(), &[device], options(opened), None, ptr::null_mut()) {
        Ok(()) => Ok(program),
        Err(code) => {
            let error = failed("clBuildProgram", opened.id())(code);
            let log = text_of(get_program_build_info(program.raw(), device, CL_PROGRAM_BUILD_LOG));
            Err(DeviceError::Compile {
                kernel: name.into(),
                device: opened.id(),
                log: format!("{error}\n{log}"),
            })
        }
    }
}

/// The options of the compiler: no warnings (`-w`), which some drivers print; and, if the device can, 32-bit floats are
/// divided as on the host (64-bit floats always are).
fn options(opened: &Opened) -> &'static CStr {
    match opened.device.single_fp_config().unwrap_or(0) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT {
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
    use crate::opencl::select::Selector;

    /// A CPU compiles the text for GPUs, which differs from the text for CPUs.
    #[test]
    fn the_text_for_gpus_compiles() {
        let Ok(candidate) = "sycl".parse::<Selector>().unwrap().find() else {
            eprintln!("skipped: no OpenCL device");
            return;
        };
        let opened = Opened::new(candidate).unwrap();
        for (name, source) in [("copy_words", dialect::COPY_WORDS), ("combine_words", dialect::COMBINE_WORDS)]
        {
            let program = from_source(&opened, name, &dialect::opencl(source)).unwrap();
            kernel(&opened, &program, name).unwrap();
        }
    }

    /// A binary with a correct checksum that the driver refuses.
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
        let stored = cache.get_or_compile(&key, || Err(DeviceError::invalid("", "", "nothing is stored")));
        assert_eq!(stored.unwrap()[..], binary(&opened, &program).unwrap());
        // The driver takes the binary that is stored now.
        kernel(&opened, &cached(&cache, &opened, "f", &text).unwrap(), "f").unwrap();
    }
}
