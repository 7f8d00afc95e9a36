//! Programs: built from source, from SPIR-V, or from a binary of an earlier build.

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::Arc;

use cl3::device::CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
use cl3::kernel::create_kernel;
use cl3::program::{
    CL_PROGRAM_BINARIES, CL_PROGRAM_BUILD_LOG, build_program, create_program_with_binary,
    create_program_with_il, create_program_with_source, get_program_build_info, get_program_info,
};
use cl3::types::cl_program;
use haloport_core::device::{DeviceError, KernelCache, KernelKey, KernelParts};

use super::handles::{KernelHandle, ProgramHandle};
use super::kernel::Kernel;
use super::library::{failed, text as text_of};
use super::place::Place;

/// A program that was built.
#[derive(Debug)]
pub(crate) struct Program {
    place: Arc<Place>,
    program: ProgramHandle,
}

/// The program of a text in OpenCL C, from its binary in the cache, else compiled. If the driver refuses a binary, it
/// is removed from the cache, and the text is compiled again.
///
/// A driver may have a cache of its own, such as PoCL's (`POCL_CACHE_DIR`), which is asked only after this one.
pub(crate) fn cached(
    cache: &KernelCache,
    place: &Arc<Place>,
    name: &str,
    text: &str,
) -> Result<Program, DeviceError> {
    let key = key(place, text);
    // Two attempts: after the first one, another thread may have stored the refused binary again.
    for _ in 0..2 {
        let mut compiled = None;
        let found = cache.get_or_compile(&key, || {
            let program = from_source(place, name, text)?;
            tracing::debug!(kernel = name, device = %place.id(), "compiled from source");
            let binary = program.binary();
            compiled = Some(program);
            binary
        });
        // Also if the driver returns no binary, the program is compiled.
        if let Some(program) = compiled {
            return Ok(program);
        }
        let found = found?;
        match from_binary(place, name, &found) {
            Ok(program) => {
                tracing::debug!(kernel = name, device = %place.id(), "taken from the kernel cache");
                return Ok(program);
            }
            Err(error) => {
                tracing::debug!(kernel = name, %error, "the driver refuses a kernel of the cache");
                cache.forget(&key, &found);
            }
        }
    }
    from_source(place, name, text)
}

/// Everything a binary depends on: the text, the options, the platform and the driver with their versions, and the
/// device. The vector width tells processors of one name apart: a virtual machine may withhold some of their
/// instructions.
fn key(place: &Arc<Place>, text: &str) -> KernelKey {
    let Place { device, info, .. } = &**place;
    let width = device.native_vector_width_char().unwrap_or(0);
    let compiler =
        [info.driver.clone(), text_of(device.version()), text_of(device.opencl_c_version())].join("\n");
    let device = [text_of(device.name()), text_of(device.vendor()), width.to_string()].join("\n");
    let options = options(place).to_string_lossy();
    KernelKey::new(&KernelParts {
        source: text.as_bytes(),
        options: &[&options],
        compiler: &compiler,
        device: &device,
    })
}

fn from_source(place: &Arc<Place>, name: &str, text: &str) -> Result<Program, DeviceError> {
    let program = create_program_with_source(place.context.raw(), &[text])
        .map_err(failed("clCreateProgramWithSource", place.id()))?;
    build(place, name, program)
}

/// The program of a SPIR-V module.
pub(crate) fn from_spirv(place: &Arc<Place>, name: &str, module: &[u8]) -> Result<Program, DeviceError> {
    if text_of(place.device.il_version()).is_empty() {
        return Err(DeviceError::Unsupported { what: "kernels in SPIR-V", device: place.id() });
    }
    let program = create_program_with_il(place.context.raw(), module)
        .map_err(failed("clCreateProgramWithIL", place.id()))?;
    build(place, name, program)
}

/// The program of a [`binary`] of the same device and driver.
pub(crate) fn from_binary(place: &Arc<Place>, name: &str, binary: &[u8]) -> Result<Program, DeviceError> {
    // SAFETY: the context is live, and the device belongs to it; the driver checks the binary.
    let program = unsafe { create_program_with_binary(place.context.raw(), &[place.device.id()], &[binary]) }
        .map_err(failed("clCreateProgramWithBinary", place.id()))?;
    build(place, name, program)
}

impl Program {
    /// The binary of the program, for [`from_binary`].
    pub(crate) fn binary(&self) -> Result<Vec<u8>, DeviceError> {
        let (call, device) = ("clGetProgramInfo", self.place.id());
        let found =
            get_program_info(self.program.raw(), CL_PROGRAM_BINARIES).map_err(failed(call, device))?;
        match &mut Vec::<Vec<u8>>::from(found)[..] {
            [binary] if !binary.is_empty() => Ok(std::mem::take(binary)),
            _ => Err(DeviceError::Driver { call, device, message: "there is no binary".into() }),
        }
    }

    /// A kernel of the program, without arguments; `None` if it holds none of that name.
    pub(crate) fn kernel(&self, name: &str) -> Option<Kernel> {
        let kernel = create_kernel(self.program.raw(), &CString::new(name).ok()?).ok()?;
        // SAFETY: the kernel is new, and its reference has no other owner.
        Some(Kernel::new(&self.place, unsafe { KernelHandle::own(kernel) }))
    }
}

/// Builds a new program, and takes its reference.
fn build(place: &Arc<Place>, name: &str, program: cl_program) -> Result<Program, DeviceError> {
    // SAFETY: the program is new, and the caller gives its reference away.
    let program = unsafe { ProgramHandle::own(program) };
    let device = place.device.id();
    match build_program(program.raw(), &[device], options(place), None, ptr::null_mut()) {
        Ok(()) => Ok(Program { place: Arc::clone(place), program }),
        Err(code) => {
            let error = failed("clBuildProgram", place.id())(code);
            let log = text_of(get_program_build_info(program.raw(), device, CL_PROGRAM_BUILD_LOG));
            Err(DeviceError::Compile {
                kernel: name.into(),
                device: place.id(),
                log: format!("{error}\n{log}"),
            })
        }
    }
}

/// The options of the compiler: no warnings (`-w`), which some drivers print; and, if the device can, 32-bit floats are
/// divided as on the host (64-bit floats always are).
fn options(place: &Arc<Place>) -> &'static CStr {
    match place.device.single_fp_config().unwrap_or(0) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT {
        0 => c"-w",
        _ => c"-w -cl-fp32-correctly-rounded-divide-sqrt",
    }
}

#[cfg(test)]
mod tests {
    use haloport_core::device::dialect;

    use super::*;
    use crate::opencl::select::Selector;

    /// A CPU compiles the text for GPUs, which differs from the text for CPUs.
    #[test]
    fn the_text_for_gpus_compiles() {
        let Ok(candidate) = "sycl".parse::<Selector>().unwrap().find() else {
            eprintln!("skipped: no OpenCL device");
            return;
        };
        let place = Place::new(candidate).unwrap();
        for (name, source) in [("copy_words", dialect::COPY_WORDS), ("combine_words", dialect::COMBINE_WORDS)]
        {
            let program = from_source(&place, name, &dialect::opencl(source)).unwrap();
            program.kernel(name).unwrap();
        }
    }

    /// A binary with a correct checksum that the driver refuses.
    #[test]
    fn a_binary_that_the_driver_refuses_is_compiled_again() {
        let Ok(candidate) = "sycl".parse::<Selector>().unwrap().find() else {
            eprintln!("skipped: no OpenCL device");
            return;
        };
        let place = Place::new(candidate).unwrap();
        let cache = KernelCache::in_memory();
        let text = dialect::opencl("KERNEL void f(GLOBAL int *x) { x[0] = 1; }");
        let key = key(&place, &text);
        cache.get_or_compile(&key, || Ok::<_, DeviceError>(b"no binary".to_vec())).unwrap();
        let program = cached(&cache, &place, "f", &text).unwrap();
        program.kernel("f").unwrap();
        let stored = cache.get_or_compile(&key, || Err(DeviceError::invalid("", "", "nothing is stored")));
        assert_eq!(stored.unwrap()[..], program.binary().unwrap());
        // The driver takes the binary that is stored now.
        cached(&cache, &place, "f", &text).unwrap().kernel("f").unwrap();
    }
}
