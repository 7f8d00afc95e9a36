//! A small kernel, for backends that load kernels from programs other than source.

use haloport_core::device::{
    Buffer, Device, DeviceError, KernelArgument, KernelSource, LaunchConfig, MemoryKind, ParameterType,
};

use crate::{Failure, ensure};

/// `x[i] = value`, for `n` numbers.
pub const FILL_WITH: KernelSource = KernelSource {
    name: "fill_with",
    portable: Some(
        "KERNEL void fill_with(GLOBAL int *x, int value, long n) {\n\
               \x20   long i = GLOBAL_INDEX(0);\n\
               \x20   if (i < n) x[i] = value;\n\
               }\n",
    ),
    host: |_, _| {},
    parameters: &[ParameterType::Pointer, ParameterType::I32, ParameterType::I64],
};

/// Whether `kernel`, made of [`FILL_WITH`], fills memory.
///
/// # Errors
/// The numbers that it left, or the error of a call.
pub fn fills<D: Device>(device: &D, kernel: &D::Kernel) -> Result<(), Failure> {
    let buffer = device.allocate(400, MemoryKind::Device)?;
    let arguments =
        [KernelArgument::Pointer(buffer.pointer()), KernelArgument::I32(7), KernelArgument::I64(100)];
    let launch = device.bind(kernel, LaunchConfig::linear(100), &arguments)?;
    let stream = device.default_stream();
    let mut found = [0i32; 100];
    // SAFETY: the buffer holds 100 numbers and lives until the read has returned.
    unsafe {
        device.launch(&launch, &stream)?;
        device.read(buffer.pointer(), bytemuck::cast_slice_mut(&mut found), &stream)?;
    }
    ensure!(found == [7; 100], "a kernel that fills memory with 7 left {found:?}");
    Ok(())
}

/// Sources that hold no kernel, or not the one that is named, are refused; with the compiler's words if it has any.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn wrong_sources_are_refused<D: Device>(device: &D) -> Result<(), Failure> {
    let unknown = KernelSource {
        name: "f",
        portable: Some("KERNEL void f(GLOBAL int *x) { x[0] = unknown_name; }"),
        ..FILL_WITH
    };
    for (source, words) in [
        (unknown, "unknown_name"),
        (KernelSource { name: "absent", ..FILL_WITH }, ""),
        (KernelSource { portable: None, ..FILL_WITH }, ""),
    ] {
        match device.compile(&source) {
            Err(error @ DeviceError::Compile { .. }) if error.to_string().contains(words) => {}
            Err(error) => ensure!(false, "`{}` gave another error: {error}", source.name),
            Ok(_) => ensure!(false, "`{}` was compiled: {:?}", source.name, source.portable),
        }
    }
    Ok(())
}
