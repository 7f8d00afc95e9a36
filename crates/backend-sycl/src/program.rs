//! Programs: built from source, from SPIR-V, or from what a compiler left earlier.

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::{Arc, PoisonError};

use cl3::device::{CL_DEVICE_IL_VERSION, CL_DEVICE_SINGLE_FP_CONFIG, get_device_data};
use cl3::info_type::InfoType;
use cl3::program::{
    CL_PROGRAM_BINARIES, CL_PROGRAM_BUILD_LOG, build_program, create_program_with_binary,
    create_program_with_il, create_program_with_source, get_program_build_data, get_program_info,
};
use cl3::types::cl_program;
use haloport_core::device::{DeviceError, dialect};

use crate::driver::{failed, number, text};
use crate::handles::{KernelHandle, Program};
use crate::open::Opened;

/// The program of a source in the portable dialect; each is built once for all who have opened the device.
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
    let program = Arc::new(from_source(opened, name, &dialect::opencl(source))?);
    Ok(Arc::clone(known().entry(source).or_insert(program)))
}

fn from_source(opened: &Opened, name: &str, text: &str) -> Result<Program, DeviceError> {
    let program = create_program_with_source(opened.context.raw(), &[text])
        .map_err(failed("clCreateProgramWithSource", opened.id()))?;
    build(opened, name, program)
}

/// The program of a SPIR-V module.
pub(crate) fn from_spirv(opened: &Opened, name: &str, module: &[u8]) -> Result<Program, DeviceError> {
    if text(get_device_data(opened.device, CL_DEVICE_IL_VERSION)).is_empty() {
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
        InfoType::VecVecUchar(mut binaries) if binaries.len() == 1 => Ok(binaries.swap_remove(0)),
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
            let log = text(get_program_build_data(program.raw(), opened.device, CL_PROGRAM_BUILD_LOG));
            let code = failed("clBuildProgram", opened.id())(code);
            DeviceError::Compile { kernel: name.into(), device: opened.id(), log: format!("{code}\n{log}") }
        },
    )?;
    Ok(program)
}

/// Floats of 32 bits are divided as on the host, where the device can. (Those of 64 bits always are.)
fn options(opened: &Opened) -> &'static CStr {
    const CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT: u64 = 1 << 7;
    let config = number(get_device_data(opened.device, CL_DEVICE_SINGLE_FP_CONFIG));
    match config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT {
        0 => c"",
        _ => c"-cl-fp32-correctly-rounded-divide-sqrt",
    }
}

fn no_kernel(opened: &Opened, name: &str) -> DeviceError {
    let log = format!("the program holds no kernel `{name}`");
    DeviceError::Compile { kernel: name.into(), device: opened.id(), log }
}
