//! Kernels from what is not source, on the first GPU: a cubin, PTX.

use haloport_conformance::device::programs::{FILL_WITH, fills, wrong_sources_are_refused};
use haloport_core::device::{Device, DeviceError, KernelSource, ParameterType};

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
    let Some(device) = crate::common::device() else { return };
    let kernel = device.compile(&FILL_WITH).unwrap();
    fills(&device, &kernel).unwrap();
    fills(&device, &device.load(&FILL_WITH, kernel.binary()).unwrap()).unwrap();
    // Other bytes are an error, and nothing worse.
    assert!(device.load(&FILL_WITH, b"no cubin").is_err());
    assert!(device.load(&FILL_WITH, &kernel.binary()[..100]).is_err());
}

#[test]
fn a_kernel_in_ptx_runs() {
    let Some(device) = crate::common::device() else { return };
    let kernel = device.compile_ptx(&FILL_WITH, FILL_WITH_IN_PTX).unwrap();
    fills(&device, &kernel).unwrap();
    let error = device.compile_ptx(&FILL_WITH, "no PTX").unwrap_err();
    assert!(matches!(error, DeviceError::Compile { .. }), "{error}");
}

#[test]
fn what_is_no_kernel_is_refused_with_the_compilers_words() {
    let Some(device) = crate::common::device() else { return };
    wrong_sources_are_refused(&device).unwrap();
}

#[test]
fn a_declaration_with_other_parameters_is_refused_where_the_driver_can_tell() {
    let Some(device) = crate::common::device() else { return };
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
