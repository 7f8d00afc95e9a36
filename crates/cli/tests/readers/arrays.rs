//! Arrays as other programs describe them.

use std::ptr::{NonNull, null_mut};

use haloport::interop::cuda_array::CudaArrayInterface;
use haloport::interop::dlpack::{
    DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, ManagedTensor,
};
use haloport::interop::sycl_usm::{SyclObject, SyclUsmArrayInterface};
use haloport::interop::{ArrayDescription, Protocol, typestr};

use super::{INPUTS, is_ok, survives};

/// The numbers of an array, as bytes for the mutations.
fn numbers(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Number `place` of the bytes; 0 beyond their end.
fn number(bytes: &[u8], place: usize) -> i64 {
    bytes.as_chunks().0.get(place).map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

/// An accepted array lies within the address space.
fn is_sound(array: &ArrayDescription) -> bool {
    let (addresses, (low, high)) = (array.addresses(), array.span());
    let bytes = (high - low) as usize * array.element().bytes();
    assert!(addresses.start <= addresses.end && addresses.len() == bytes, "{array:?}");
    let _ = (array.elements(), array.is_contiguous(), array.check_writable(Protocol::Description));
    true
}

#[test]
fn tensors_of_dlpack() {
    // Axes, type, device, offset, address, version and flags, then extents, then strides.
    let whole = numbers(&[2, 2, 64, 1, 1, 0, 24, 0x10000, 1, 0, 3, 4, 0, 0, 4, -1, 0, 0]);
    survives(&[&whole], INPUTS, |bytes| {
        let at = |place| number(bytes, place);
        let mut lists = [[0i64; 64]; 2];
        for (list, numbers) in lists.iter_mut().enumerate() {
            numbers.iter_mut().zip(0..4).for_each(|(here, place)| *here = at(10 + 4 * list + place));
        }
        let [shape, strides] = &mut lists;
        let tensor = DLTensor {
            data: std::ptr::without_provenance_mut(at(7) as usize),
            device: DLDevice { device_type: at(4) as i32, device_id: at(5) as i32 },
            ndim: at(0) as i32,
            dtype: DLDataType { code: at(1) as u8, bits: at(2) as u8, lanes: at(3) as u16 },
            shape: shape.as_mut_ptr(),
            strides: if at(3) > 1 { null_mut() } else { strides.as_mut_ptr() },
            byte_offset: at(6) as u64,
        };
        let version = DLPackVersion { major: at(8) as u32, minor: 0 };
        let mut managed = DLManagedTensorVersioned {
            version,
            manager_ctx: null_mut(),
            deleter: None,
            flags: at(9) as u64,
            dl_tensor: tensor,
        };
        // SAFETY: the tensor lives as long as the call, with as many numbers as it may have axes.
        let array = unsafe { ManagedTensor::Versioned(NonNull::from(&mut managed)).describe() };
        array.as_ref().is_ok_and(is_sound) && is_ok(array)
    });
}

#[test]
fn array_interfaces() {
    let whole = [&numbers(&[3, 0x10000, 2, 3, 4, 32, 8, 0])[..], b"<f8"].concat();
    survives(&[&whole], INPUTS, |bytes| {
        let at = |place| number(bytes, place);
        let list = |from: usize| -> Vec<i64> { (from..from + 2).map(at).collect() };
        let text = String::from_utf8_lossy(&bytes[bytes.len().min(64)..]).into_owned();
        let cuda = CudaArrayInterface {
            shape: Some(list(3)),
            typestr: Some(text.clone()),
            data: Some((at(1) as u64, false)),
            version: Some(at(0)),
            strides: Some(list(5)),
            masked: false,
            stream: Some(at(2)),
        };
        let sycl = SyclUsmArrayInterface {
            shape: Some(list(3)),
            typestr: Some(text.clone()),
            data: Some((at(1) as u64, false)),
            version: Some(at(0) - at(0).signum() * 2),
            strides: (at(2) != 2).then(|| list(5)),
            offset: Some(at(7)),
            syclobj: Some(SyclObject::Filter(text)),
        };
        let _ = sycl.describe().map(|(array, _)| is_sound(&array));
        let cuda = cuda.describe();
        cuda.as_ref().is_ok_and(|(array, _)| is_sound(array)) && is_ok(cuda)
    });
}

#[test]
fn type_strings() {
    let originals: [&[u8]; 5] = [b"<f8", b"|u1", b"<i8", b"|b1", b"<c16"];
    survives(&originals, INPUTS, |bytes| {
        is_ok(typestr::parse(Protocol::CudaArray, &String::from_utf8_lossy(bytes)))
    });
}
