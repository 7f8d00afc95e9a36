//! The names of the element types in the portable dialect.

use haloport_core::ElementType;
use haloport_core::device::{
    Buffer, Device, KernelArgument, KernelSource, LaunchConfig, ParameterType, Priority,
};

use super::bytes::{random_bytes, read_on, upload_bytes};
use crate::{Failure, ensure};

macro_rules! kernels {
    ($($variant:ident $name:literal $bytes:literal),* $(,)?) => {
        [$((ElementType::$variant, KernelSource {
            name: concat!("copy_", $name),
            portable: Some(concat!(
                "KERNEL void copy_", $name, "(GLOBAL const ", $name, " *RESTRICT x, GLOBAL ", $name, " *y, long n) {\n",
                "    long i = GLOBAL_INDEX(0);\n",
                "    if (i < n && sizeof(", $name, ") == ", $bytes, ") y[i] = x[i];\n",
                "}\n",
            )),
            host: |range, arguments| {
                let [KernelArgument::Pointer(x), KernelArgument::Pointer(y), KernelArgument::I64(n)] = arguments
                else {
                    return;
                };
                let (x, y) = (x.as_ptr().cast::<[u8; $bytes]>(), y.as_ptr().cast::<[u8; $bytes]>());
                for i in range.begin[0]..range.end[0].min(*n as usize) {
                    // SAFETY: the launch promised `n` elements of both, and this index to this call alone.
                    unsafe { *y.add(i) = *x.add(i) };
                }
            },
            parameters: &[ParameterType::Pointer, ParameterType::Pointer, ParameterType::I64],
        })),*]
    };
}
/// A kernel for each element type, which copies elements if they have the right size.
pub(super) const KERNELS: [(ElementType, KernelSource); 16] = kernels! {
    I8 "i8" 1, I16 "i16" 2, I32 "i32" 4, I64 "i64" 8, I128 "i128" 16,
    U8 "u8" 1, U16 "u16" 2, U32 "u32" 4, U64 "u64" 8, U128 "u128" 16,
    F16 "f16" 2, Bf16 "bf16" 2, F32 "f32" 4, F64 "f64" 8,
    Complex32 "complex32" 8, Complex64 "complex64" 16,
};

pub(super) fn element_types<D: Device>(device: &D) -> Result<(), Failure> {
    const COUNT: usize = 1000;
    let stream = device.create_stream(Priority::Normal)?;
    for (element, source) in KERNELS {
        if matches!(element, ElementType::F64 | ElementType::Complex64) && !device.info().double_precision {
            continue;
        }
        let bytes = COUNT * element.bytes();
        let values = random_bytes(element.bytes() as u64, bytes);
        let (x, y) = (upload_bytes(device, &values)?, upload_bytes(device, &vec![0; bytes])?);
        let arguments = [
            KernelArgument::Pointer(x.pointer()),
            KernelArgument::Pointer(y.pointer()),
            KernelArgument::I64(COUNT as i64),
        ];
        let kernel = device.compile(&source)?;
        let launch = device.bind(&kernel, LaunchConfig::linear(COUNT), &arguments)?;
        // SAFETY: both buffers hold `COUNT` elements and live until the read has returned.
        unsafe { device.launch(&launch, &stream)? };
        let found = read_on(device, y.pointer(), bytes, &stream)?;
        ensure!(
            found == values,
            "elements of type {element} are wrong: their size may differ from the host's"
        );
    }
    Ok(())
}
