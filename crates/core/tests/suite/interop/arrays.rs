//! Descriptions of arrays: random valid ones, and impossible numbers.

use haloport_core::ElementType;
use haloport_core::device::Pointer;
use haloport_core::interop::cuda_array::CudaArrayInterface;
use haloport_core::interop::dlpack::{Form, OwnedTensor};
use haloport_core::interop::stream::StreamOrder;
use haloport_core::interop::sycl_usm::{SyclObject, SyclUsmArrayInterface};
use haloport_core::interop::{ArrayDescription, ArrayDevice, ArrayDeviceKind, MAX_ARRAY_AXES, Protocol};
use rand::prelude::*;
use rand::rngs::StdRng;

use super::{BufferError, ValueError, places, refused};

pub(crate) const ELEMENTS: [ElementType; 16] = [
    ElementType::I8,
    ElementType::I16,
    ElementType::I32,
    ElementType::I64,
    ElementType::I128,
    ElementType::U8,
    ElementType::U16,
    ElementType::U32,
    ElementType::U64,
    ElementType::U128,
    ElementType::F16,
    ElementType::Bf16,
    ElementType::F32,
    ElementType::F64,
    ElementType::Complex32,
    ElementType::Complex64,
];

fn address(address: usize) -> Pointer {
    Pointer::new(std::ptr::without_provenance_mut(address))
}

pub(crate) fn made(shape: &[i64], strides: &[i64], kind: ArrayDeviceKind) -> ArrayDescription {
    let device = ArrayDevice { kind, index: Some(1) };
    ArrayDescription::new(ElementType::F64, address(0x10000), shape, strides, device).unwrap()
}

/// A view of a random block: axes in any order, cut, with steps, reversed. With its lowest and its highest element,
/// found by looking at all of them.
#[test]
fn random_views_are_described_and_come_back_by_every_protocol() {
    let mut random = StdRng::seed_from_u64(5);
    for case in 0..3000 {
        let element = *ELEMENTS.choose(&mut random).unwrap();
        let bytes = element.bytes() as i64;
        let axes = random.random_range(0..=4);
        let extents: Vec<i64> = (0..axes).map(|_| random.random_range(1..=5)).collect();
        let mut order: Vec<usize> = (0..axes).collect();
        order.shuffle(&mut random);
        let mut step = 1;
        let mut strides = vec![0; axes];
        for &axis in &order {
            strides[axis] = step;
            step *= extents[axis] + random.random_range(0..3);
        }
        // A block far from both ends of the address space; the first element lies somewhere in it.
        let base = random.random_range(1_i64 << 20..1 << 40) * 16;
        let (mut first, mut shape) = (base, extents.clone());
        for axis in 0..axes {
            let begin = random.random_range(0..extents[axis]);
            let step = random.random_range(1..=2);
            let reversed = random.random_bool(0.3);
            first += begin * strides[axis] * bytes;
            let room = if reversed { begin + 1 } else { extents[axis] - begin };
            shape[axis] = if random.random_bool(0.05) { 0 } else { (room + step - 1) / step };
            strides[axis] *= if reversed { -step } else { step };
        }
        let kind = *[ArrayDeviceKind::Cuda, ArrayDeviceKind::Usm].choose(&mut random).unwrap();
        let device = ArrayDevice { kind, index: Some(case % 7) };
        let array =
            ArrayDescription::new(element, address(first as usize), &shape, &strides, device).unwrap();

        // Compared with the given numbers, element by element.
        let all = places(&array);
        assert_eq!(all.len(), array.elements());
        assert_eq!(all.len() as i64, shape.iter().product::<i64>());
        for (number, (_, found)) in all.iter().enumerate() {
            let (mut rest, mut expected) = (number as i64, first);
            for axis in (0..axes).rev() {
                expected += rest % shape[axis] * strides[axis] * bytes;
                rest /= shape[axis];
            }
            assert_eq!(*found as i64, expected, "case {case}, element {number}");
        }
        let low = all.iter().map(|place| place.0).min().unwrap_or(0);
        let high = all.iter().map(|place| place.0 + 1).max().unwrap_or(0);
        assert_eq!(array.span(), (low, high), "case {case}");
        if !all.is_empty() {
            let addresses = array.addresses();
            assert_eq!(Some(addresses.start), all.iter().map(|place| place.1).min());
            assert_eq!(Some(addresses.end), all.iter().map(|place| place.1 + bytes as usize).max());
        }
        let in_order = all.iter().enumerate().all(|(number, place)| place.0 == number as isize);
        assert_eq!(array.is_contiguous(), in_order, "case {case}: {array:?}");

        let array = if random.random_bool(0.5) { array.for_reading() } else { array };
        comes_back(&array);
    }
}

fn comes_back(array: &ArrayDescription) {
    let typed = !matches!(array.element(), ElementType::Bf16 | ElementType::I128 | ElementType::U128);
    let same = |found: &ArrayDescription, what: &str| {
        assert_eq!(found.shape(), array.shape(), "{what}");
        assert_eq!(found.element(), array.element(), "{what}");
        assert_eq!(found.device().kind, array.device().kind, "{what}");
        if array.elements() > 0 {
            assert_eq!(found.strides(), array.strides(), "{what}");
            assert_eq!(found.first(), array.first(), "{what}");
        }
    };
    for form in [Form::Unversioned, Form::Versioned] {
        let tensor = OwnedTensor::export(array.clone(), form, ());
        if form == Form::Unversioned && array.read_only() {
            refused(tensor, Protocol::DlPack, "flags", BufferError, "read-only");
            continue;
        }
        let raw = tensor.unwrap().into_raw();
        // SAFETY: the tensor was just made, and this test owns it.
        let taken = unsafe { raw.take() }.unwrap();
        same(taken.array(), "DLPack");
        assert_eq!(taken.array().read_only(), array.read_only());
        assert_eq!(taken.array().device(), array.device());
    }
    if array.device().kind == ArrayDeviceKind::Cuda {
        let members = CudaArrayInterface::of(array, StreamOrder::Default);
        if typed {
            let (found, stream) = members.unwrap().describe().unwrap();
            same(&found, "the CUDA array interface");
            assert_eq!((found.read_only(), stream), (array.read_only(), StreamOrder::Default));
        } else {
            refused(members, Protocol::CudaArray, "typestr", BufferError, &array.element().to_string());
        }
    } else if typed {
        let members = SyclUsmArrayInterface::of(array, SyclObject::Queue(16)).unwrap();
        same(&members.describe().unwrap().0, "the SYCL USM array interface");
    }
}

/// Numbers of every size are accepted where an oracle in other arithmetic accepts them, and nothing wraps or panics.
#[test]
fn random_numbers_are_accepted_exactly_where_they_can_be() {
    const EXTENTS: [i64; 12] = [0, 1, 1, 2, 3, 7, -1, 1 << 20, 1 << 31, 1 << 40, i64::MAX, i64::MIN];
    const STRIDES: [i64; 14] =
        [0, 1, 1, -1, 2, 5, -7, 1 << 20, -(1 << 32), 1 << 42, 1 << 61, i64::MAX, i64::MIN, i64::MIN + 1];
    const ADDRESSES: [usize; 10] =
        [0, 1, 8, 16, 4096, 1 << 22, 1 << 47, (1 << 47) + 4, usize::MAX - 15, usize::MAX];
    let mut random = StdRng::seed_from_u64(6);
    let (mut accepted, mut cases) = (0, 0);
    while cases < 200_000 {
        cases += 1;
        let element = *ELEMENTS.choose(&mut random).unwrap();
        let axes = random.random_range(0..=3);
        let shape: Vec<i64> = (0..axes).map(|_| *EXTENTS.choose(&mut random).unwrap()).collect();
        let strides: Vec<i64> = (0..axes).map(|_| *STRIDES.choose(&mut random).unwrap()).collect();
        let first = *ADDRESSES.choose(&mut random).unwrap();
        let found = ArrayDescription::new(element, address(first), &shape, &strides, ArrayDevice::HOST);
        let expected = can_be(element, first, &shape, &strides);
        assert_eq!(found.is_ok(), expected, "{element} at {first:#x}, {shape:?}, {strides:?}: {found:?}");
        accepted += usize::from(expected);

        // The same in bytes, if the strides in bytes can be represented.
        let bytes: Option<Vec<i64>> =
            strides.iter().map(|stride| stride.checked_mul(element.bytes() as i64)).collect();
        let typed = !matches!(element, ElementType::Bf16 | ElementType::I128 | ElementType::U128);
        if let Some(bytes) = bytes.filter(|_| typed) {
            let typestr = haloport_core::interop::typestr::of(Protocol::CudaArray, element).unwrap();
            let members = CudaArrayInterface {
                shape: Some(shape),
                typestr: Some(typestr),
                data: Some((first as u64, false)),
                version: Some(3),
                strides: Some(bytes),
                ..Default::default()
            };
            assert_eq!(members.describe().is_ok(), expected);
        }
    }
    assert!(accepted > cases / 20 && accepted < cases / 2, "{accepted} of {cases} accepted");
}

fn can_be(element: ElementType, first: usize, shape: &[i64], strides: &[i64]) -> bool {
    if shape.iter().any(|extent| *extent < 0) {
        return false;
    }
    if shape.contains(&0) {
        return true;
    }
    // The lowest and the highest byte, and the number of elements; `None` if 128 bits cannot hold them.
    let bytes = || {
        let (mut low, mut high, mut count) = (0_i128, element.bytes() as i128, 1_i128);
        for (extent, stride) in shape.iter().zip(strides) {
            let steps = i128::from(*extent) - 1;
            let reach = steps.checked_mul(i128::from(*stride))?.checked_mul(element.bytes() as i128)?;
            low = low.checked_add(reach.min(0))?;
            high = high.checked_add(reach.max(0))?;
            count = count.checked_mul(i128::from(*extent))?;
        }
        Some((low, high, count))
    };
    let Some((low, high, count)) = bytes() else { return false };
    count <= i128::from(i64::MAX)
        && high.checked_sub(low).is_some_and(|bytes| bytes <= isize::MAX as i128)
        && first != 0
        && first.is_multiple_of(element.alignment())
        && first as i128 + low > 0
        && first as i128 + high <= usize::MAX as i128
}

#[test]
fn numbers_and_empty_arrays() {
    let number = made(&[], &[], ArrayDeviceKind::Cuda);
    assert_eq!((number.elements(), number.span(), number.is_contiguous()), (1, (0, 1), true));
    assert_eq!(number.addresses(), 0x10000..0x10008);
    // An empty array may have any strides and any address, and extents whose product overflows.
    let strides = [i64::MAX, i64::MIN, 3];
    for address_of in [0, 3, usize::MAX] {
        let empty = ArrayDescription::new(
            ElementType::F64,
            address(address_of),
            &[i64::MAX, i64::MAX, 0],
            &strides,
            ArrayDevice::HOST,
        )
        .unwrap();
        assert!(empty.is_empty());
        assert_eq!((empty.elements(), empty.span(), empty.is_contiguous()), (0, (0, 0), true));
        assert!(empty.addresses().is_empty());
        assert_eq!(empty.strides(), [1, 1, 1]);
    }
}

#[test]
fn each_malformed_number_has_its_own_error() {
    let make = |first: usize, shape: &[i64], strides: &[i64]| {
        ArrayDescription::new(ElementType::F64, address(first), shape, strides, ArrayDevice::HOST)
    };
    let here = Protocol::Description;
    refused(make(64, &[3, -4], &[4, 1]), here, "shape", ValueError, "[3, -4]");
    refused(make(64, &[1; MAX_ARRAY_AXES + 1], &[1; MAX_ARRAY_AXES + 1]), here, "shape", ValueError, "65");
    refused(make(64, &[1 << 40, 1 << 40], &[0, 0]), here, "shape", ValueError, "1099511627776");
    refused(make(64, &[3, 4], &[4]), here, "strides", ValueError, "[4]");
    refused(make(64, &[3, 4], &[i64::MAX, 1]), here, "strides", ValueError, "9223372036854775807");
    refused(make(0, &[3], &[1]), here, "data", ValueError, "null");
    refused(make(4, &[3], &[1]), here, "data", BufferError, "0x4");
    refused(make(8, &[3], &[-1]), here, "data", ValueError, "0x8");
    refused(make(usize::MAX - 15, &[3], &[1]), here, "data", ValueError, "0xfffffffffffffff0");
    make(64, &[1; MAX_ARRAY_AXES], &[1; MAX_ARRAY_AXES]).unwrap();
}

#[test]
fn halos_are_written_only_where_the_other_program_sees_them() {
    let array = made(&[3, 4], &[4, 1], ArrayDeviceKind::Cuda);
    array.check_writable(Protocol::DlPack).unwrap();
    refused(
        array.for_reading().check_writable(Protocol::DlPack),
        Protocol::DlPack,
        "read-only",
        BufferError,
        "",
    );
    let repeated = made(&[3, 4], &[0, 1], ArrayDeviceKind::Cuda);
    let checked = repeated.check_writable(Protocol::CudaArray);
    refused(checked, Protocol::CudaArray, "strides", BufferError, "axis 0 of extent 3");
    made(&[1, 4], &[0, 1], ArrayDeviceKind::Cuda).check_writable(Protocol::CudaArray).unwrap();
}
