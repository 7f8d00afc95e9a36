//! Kernels from what is not source, on the first GPU: a cubin, PTX.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use haloport_core::device::{
    Buffer, Device, DeviceError, KernelArgument, KernelSource, LaunchConfig, MemoryKind, ParameterType,
};
use haloport_cuda::{CudaDevice, CudaKernel};

const FILL_WITH: KernelSource = KernelSource {
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

/// `fill_with` in PTX that every driver from CUDA 12.0 on takes, for every GPU from Turing on.
const FILL_WITH_IN_PTX: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry fill_with(.param .u64 x, .param .u32 value, .param .u64 n)
{
    .reg .pred %past;
    .reg .b32 %group, %threads, %thread, %value;
    .reg .b64 %i, %wide, %n, %x;
    mov.u32 %group, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mul.wide.u32 %i, %group, %threads;
    cvt.u64.u32 %wide, %thread;
    add.s64 %i, %i, %wide;
    ld.param.u64 %n, [n];
    setp.ge.s64 %past, %i, %n;
    @%past bra END;
    ld.param.u64 %x, [x];
    cvta.to.global.u64 %x, %x;
    ld.param.u32 %value, [value];
    shl.b64 %i, %i, 2;
    add.s64 %x, %x, %i;
    st.global.u32 [%x], %value;
END:
    ret;
}
";

#[test]
fn a_kernel_comes_back_from_its_cubin() {
    let Some(device) = common::device() else { return };
    let kernel = device.compile(&FILL_WITH).unwrap();
    assert_eq!(filled(&device, &kernel), [7; 100]);
    assert_eq!(filled(&device, &device.load(&FILL_WITH, kernel.binary()).unwrap()), [7; 100]);
    // What is no cubin is an error, and nothing worse.
    assert!(device.load(&FILL_WITH, b"no cubin").is_err());
    assert!(device.load(&FILL_WITH, &kernel.binary()[..100]).is_err());
}

#[test]
fn a_kernel_in_ptx_runs() {
    let Some(device) = common::device() else { return };
    let kernel = device.compile_ptx(&FILL_WITH, FILL_WITH_IN_PTX).unwrap();
    assert_eq!(filled(&device, &kernel), [7; 100]);
    let error = device.compile_ptx(&FILL_WITH, "no PTX").unwrap_err();
    assert!(matches!(error, DeviceError::Compile { .. }), "{error}");
}

#[test]
fn what_is_no_kernel_is_refused_with_the_compilers_words() {
    let Some(device) = common::device() else { return };
    let wrong = |name, portable, parameters| {
        let error = device.compile(&KernelSource { name, portable, parameters, ..FILL_WITH }).unwrap_err();
        assert!(matches!(error, DeviceError::Compile { .. }), "{error}");
        error.to_string()
    };
    let log = wrong("f", Some("KERNEL void f(GLOBAL int *x) { x[0] = unknown_name; }"), FILL_WITH.parameters);
    assert!(log.contains("unknown_name"), "{log}");
    wrong("absent", FILL_WITH.portable, FILL_WITH.parameters);
    wrong("fill_with", None, FILL_WITH.parameters);
}

#[test]
fn a_declaration_with_other_parameters_is_refused_where_the_driver_can_tell() {
    let Some(device) = common::device() else { return };
    for parameters in
        [&[ParameterType::Pointer][..], &[ParameterType::Pointer, ParameterType::I64, ParameterType::I64]]
    {
        match device.compile(&KernelSource { parameters, ..FILL_WITH }) {
            Err(error) => assert!(error.to_string().contains("parameters of [8, 4"), "{error}"),
            // Before CUDA 12.4 the driver cannot.
            Ok(_) => {
                let old = ["CUDA 12.0,", "CUDA 12.1,", "CUDA 12.2,", "CUDA 12.3,"];
                assert!(old.iter().any(|old| device.info().driver.starts_with(old)), "{parameters:?}");
            }
        }
    }
}

fn filled(device: &CudaDevice, kernel: &CudaKernel) -> [i32; 100] {
    let buffer = device.allocate(400, MemoryKind::Device).unwrap();
    let arguments =
        [KernelArgument::Pointer(buffer.pointer()), KernelArgument::I32(7), KernelArgument::I64(100)];
    let launch = device.bind(kernel, LaunchConfig::linear(100), &arguments).unwrap();
    let stream = device.default_stream();
    let mut found = [0; 400];
    // SAFETY: the buffer holds 100 numbers and lives until the read has returned.
    unsafe {
        device.launch(&launch, &stream).unwrap();
        device.read(buffer.pointer(), &mut found, &stream).unwrap();
    }
    std::array::from_fn(|at| i32::from_ne_bytes(std::array::from_fn(|byte| found[4 * at + byte])))
}
