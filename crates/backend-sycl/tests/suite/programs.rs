//! Kernels from other forms than source: a binary, SPIR-V.

use haloport_conformance::device::programs::{FILL_WITH, fills, wrong_sources_are_refused};
use haloport_core::device::{Device, DeviceError, KernelSource, ParameterType};

#[test]
fn a_kernel_comes_back_from_its_binary() {
    let Some(device) = crate::common::device() else { return };
    let binary = match device.compile(&FILL_WITH).unwrap().binary() {
        Ok(binary) => binary,
        Err(error @ DeviceError::Unsupported { .. }) => return eprintln!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    };
    assert!(!binary.is_empty());
    fills(&device, &device.load(&FILL_WITH, &binary).unwrap()).unwrap();
    // Other bytes are an error, not a crash.
    assert!(device.load(&FILL_WITH, b"no binary").is_err());
}

#[test]
fn what_is_no_kernel_is_refused_with_the_compilers_words() {
    let Some(device) = crate::common::device() else { return };
    wrong_sources_are_refused(&device).unwrap();
    let other = KernelSource { parameters: &[ParameterType::Pointer], ..FILL_WITH };
    let error = device.compile(&other).unwrap_err();
    assert!(matches!(error, DeviceError::Compile { .. }), "{error}");
}

#[test]
fn a_kernel_in_spirv_runs_where_the_device_takes_it() {
    let Some(device) = crate::common::device() else { return };
    let module: Vec<u8> = fill_with_in_spirv().into_iter().flat_map(u32::to_le_bytes).collect();
    match device.compile_spirv(&FILL_WITH, &module) {
        Ok(kernel) => fills(&device, &kernel).unwrap(),
        Err(error @ DeviceError::Unsupported { .. }) => return eprintln!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    }
    assert!(device.compile_spirv(&FILL_WITH, b"no module").is_err());
}

/// `fill_with` as a SPIR-V 1.0 module, instruction by instruction; the names and the numbers are those of the
/// specification, <https://registry.khronos.org/SPIR-V/specs/unified1/SPIRV.html>.
fn fill_with_in_spirv() -> Vec<u32> {
    let [void, u32_type, u64_type, v3_type, input, global, function_type, bool_type] =
        [1, 2, 3, 4, 5, 6, 7, 8];
    let [index_variable, function, x, value, n, entry, indices, index, inside, store, end, place] =
        [9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];
    let mut words = vec![0x0723_0203, 0x0001_0000, 0, 21, 0];
    let mut put = |code: u32, operands: &[u32]| {
        words.push((operands.len() as u32 + 1) << 16 | code);
        words.extend_from_slice(operands);
    };
    let name = *b"fill_with\0\0\0";
    let name: Vec<u32> =
        name.chunks(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect();
    for capability in [4, 6, 11] {
        put(17, &[capability]); // Addresses, Kernel, Int64
    }
    put(14, &[2, 2]); // OpMemoryModel Physical64 OpenCL
    put(15, &[&[6, function][..], &name, &[index_variable]].concat()); // OpEntryPoint Kernel
    put(71, &[index_variable, 11, 28]); // OpDecorate BuiltIn GlobalInvocationId
    put(19, &[void]); // OpTypeVoid
    put(21, &[u32_type, 32, 0]); // OpTypeInt
    put(21, &[u64_type, 64, 0]);
    put(23, &[v3_type, u64_type, 3]); // OpTypeVector
    put(32, &[input, 1, v3_type]); // OpTypePointer Input
    put(32, &[global, 5, u32_type]); // OpTypePointer CrossWorkgroup
    put(33, &[function_type, void, global, u32_type, u64_type]); // OpTypeFunction
    put(20, &[bool_type]); // OpTypeBool
    put(59, &[input, index_variable, 1]); // OpVariable Input
    put(54, &[void, function, 0, function_type]); // OpFunction
    put(55, &[global, x]); // OpFunctionParameter
    put(55, &[u32_type, value]);
    put(55, &[u64_type, n]);
    put(248, &[entry]); // OpLabel
    put(61, &[v3_type, indices, index_variable, 2, 32]); // OpLoad Aligned 32
    put(81, &[u64_type, index, indices, 0]); // OpCompositeExtract
    put(176, &[bool_type, inside, index, n]); // OpULessThan
    put(250, &[inside, store, end]); // OpBranchConditional
    put(248, &[store]);
    put(70, &[global, place, x, index]); // OpInBoundsPtrAccessChain
    put(62, &[place, value, 2, 4]); // OpStore Aligned 4
    put(249, &[end]); // OpBranch
    put(248, &[end]);
    put(253, &[]); // OpReturn
    put(56, &[]); // OpFunctionEnd
    words
}
