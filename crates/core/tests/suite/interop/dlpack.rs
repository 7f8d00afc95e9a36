//! DLPack.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haloport_core::ElementType;
use haloport_core::interop::dlpack::*;
use haloport_core::interop::{ArrayDescription, ArrayDevice, ArrayDeviceKind, InteropError, Protocol};

use super::arrays::{ELEMENTS, made};
use super::{BufferError, TypeError, ValueError, refused};

const HERE: Protocol = Protocol::DlPack;
static mut SHAPE: [i64; 2] = [3, 4];
static mut STRIDES: [i64; 2] = [4, -1];

fn tensor() -> DLTensor {
    DLTensor {
        data: std::ptr::without_provenance_mut(0x10000),
        device: DLDevice { device_type: 2, device_id: 1 },
        ndim: 2,
        dtype: DLDataType { code: 2, bits: 64, lanes: 1 },
        shape: (&raw mut SHAPE).cast(),
        strides: (&raw mut STRIDES).cast(),
        byte_offset: 24,
    }
}

fn versioned(dl_tensor: DLTensor) -> DLManagedTensorVersioned {
    let version = DLPackVersion { major: 1, minor: 3 };
    DLManagedTensorVersioned { version, manager_ctx: null_mut(), deleter: None, flags: 0, dl_tensor }
}

fn read(mut managed: DLManagedTensorVersioned) -> Result<ArrayDescription, InteropError> {
    let tensor = ManagedTensor::Versioned(NonNull::from(&mut managed));
    // SAFETY: the tensor lives as long as the call, with one extent and one stride for each axis.
    unsafe { tensor.describe() }
}

#[test]
fn the_layouts_are_those_of_the_header() {
    assert_eq!(size_of::<DLTensor>(), 48);
    assert_eq!(size_of::<DLManagedTensor>(), 64);
    assert_eq!(size_of::<DLManagedTensorVersioned>(), 80);
}

#[test]
fn tensors_are_read() {
    let array = read(versioned(tensor())).unwrap();
    assert_eq!(array.element(), ElementType::F64);
    assert_eq!((array.shape(), array.strides()), (&[3, 4][..], &[4, -1][..]));
    assert_eq!(array.first().as_ptr().addr(), 0x10000 + 24);
    assert_eq!(array.addresses(), 0x10000..0x10000 + 96);
    assert_eq!(array.device(), ArrayDevice { kind: ArrayDeviceKind::Cuda, index: Some(1) });
    assert!(!array.read_only() && !array.copied());

    let array = read(versioned(DLTensor { strides: null_mut(), ..tensor() })).unwrap();
    assert_eq!(array.strides(), [4, 1], "without strides, C order");
    let number = DLTensor { ndim: 0, shape: null_mut(), strides: null_mut(), ..tensor() };
    assert_eq!(read(versioned(number)).unwrap().elements(), 1);

    let mut old = DLManagedTensor { dl_tensor: tensor(), manager_ctx: null_mut(), deleter: None };
    let tensor = ManagedTensor::Unversioned(NonNull::from(&mut old));
    // SAFETY: the tensor lives as long as the call, with two extents and strides.
    let array = unsafe { tensor.describe() }.unwrap();
    assert!(!array.read_only() && array.strides() == [4, -1]);
}

#[test]
fn flags_say_what_may_be_written() {
    for (flags, read_only, copied) in
        [(0, false, false), (1, true, false), (2, false, true), (3, true, true), (4, false, false)]
    {
        let array = read(DLManagedTensorVersioned { flags, ..versioned(tensor()) }).unwrap();
        assert_eq!((array.read_only(), array.copied()), (read_only, copied));
        assert_eq!(array.check_writable(HERE).is_ok(), !read_only && !copied);
    }
    let copy = read(DLManagedTensorVersioned { flags: FLAG_COPIED, ..versioned(tensor()) }).unwrap();
    refused(copy.check_writable(HERE), HERE, "flags", BufferError, "copy");
    assert_eq!(FLAG_READ_ONLY, 1);
}

#[test]
fn each_malformed_field_has_its_own_error() {
    let no = |tensor: DLTensor, field: &str, exception, found: &str| {
        refused(read(versioned(tensor)), HERE, field, exception, found);
    };
    let version = DLPackVersion { major: 2, minor: 0 };
    let future = DLManagedTensorVersioned { version, ..versioned(DLTensor { ndim: -1, ..tensor() }) };
    refused(read(future), HERE, "version", BufferError, "2.0");
    let version = DLPackVersion { major: 0, minor: 8 };
    refused(
        read(DLManagedTensorVersioned { version, ..versioned(tensor()) }),
        HERE,
        "version",
        BufferError,
        "0.8",
    );
    no(DLTensor { ndim: -1, ..tensor() }, "ndim", ValueError, "-1");
    no(DLTensor { ndim: 65, ..tensor() }, "ndim", ValueError, "65");
    no(DLTensor { ndim: i32::MAX, ..tensor() }, "ndim", ValueError, "2147483647");
    let device =
        |device_type, device_id| DLTensor { device: DLDevice { device_type, device_id }, ..tensor() };
    no(device(4, 0), "device_type", BufferError, "OpenCL");
    no(device(8, 0), "device_type", BufferError, "8");
    no(device(0, 0), "device_type", BufferError, "0");
    no(device(2, -1), "device_id", ValueError, "-1");
    let dtype = |code, bits, lanes| DLTensor { dtype: DLDataType { code, bits, lanes }, ..tensor() };
    for (code, bits, lanes) in [
        (0, 4, 1),
        (2, 128, 1),
        (2, 8, 1),
        (2, 4, 3),
        (2, 64, 0),
        (3, 64, 1),
        (4, 32, 1),
        (5, 32, 1),
        (6, 1, 1),
        (7, 8, 1),
    ] {
        no(
            dtype(code, bits, lanes),
            "dtype",
            BufferError,
            &format!("code {code} of {bits} bits and {lanes} lanes"),
        );
    }
    no(DLTensor { shape: null_mut(), ..tensor() }, "shape", ValueError, "0x0");
    no(DLTensor { shape: std::ptr::without_provenance_mut(9), ..tensor() }, "shape", ValueError, "0x9");
    no(DLTensor { strides: std::ptr::without_provenance_mut(9), ..tensor() }, "strides", ValueError, "0x9");
    let mut negative = [3, -4];
    no(DLTensor { shape: negative.as_mut_ptr(), ..tensor() }, "shape", ValueError, "-4");
    let mut far = [i64::MAX / 2, 1];
    no(DLTensor { strides: far.as_mut_ptr(), ..tensor() }, "strides", ValueError, "4611686018427387903");
    no(DLTensor { data: null_mut(), ..tensor() }, "data", ValueError, "null");
    no(DLTensor { byte_offset: 4, ..tensor() }, "data", BufferError, "0x10004");
    no(DLTensor { byte_offset: u64::MAX, ..tensor() }, "byte_offset", ValueError, "18446744073709551615");
    // Neither address of an empty array is followed.
    let mut empty = [3, 0];
    read(versioned(DLTensor { shape: empty.as_mut_ptr(), data: null_mut(), byte_offset: 3, ..tensor() }))
        .unwrap();
}

#[test]
fn types_and_devices_come_back() {
    for element in ELEMENTS {
        assert_eq!(DLDataType::of(element).unwrap().element(), Ok(element));
    }
    assert_eq!(DLDataType { code: 6, bits: 8, lanes: 1 }.element(), Ok(ElementType::U8));
    let record = ElementType::record(16).unwrap();
    assert_eq!(DLDataType { code: 2, bits: 64, lanes: 2 }.element(), Ok(record));
    assert_eq!(DLDataType::of(record).unwrap(), DLDataType { code: 1, bits: 8, lanes: 16 });
    let large = ElementType::record(65_536).unwrap();
    refused(DLDataType::of(large), HERE, "dtype", BufferError, "65536");
    assert_eq!(DLDataType::of(ElementType::Complex32).unwrap(), DLDataType { code: 5, bits: 64, lanes: 1 });
    assert_eq!(DLDataType::of(ElementType::Bf16).unwrap(), DLDataType { code: 4, bits: 16, lanes: 1 });
    for (device_type, kind) in [
        (1, ArrayDeviceKind::Host),
        (2, ArrayDeviceKind::Cuda),
        (3, ArrayDeviceKind::CudaHost),
        (10, ArrayDeviceKind::Rocm),
        (11, ArrayDeviceKind::RocmHost),
        (13, ArrayDeviceKind::CudaManaged),
        (14, ArrayDeviceKind::Usm),
    ] {
        let device = DLDevice { device_type, device_id: 3 };
        let place = ArrayDevice { kind, index: Some(3) };
        assert_eq!((device.array_device(), DLDevice::of(place)), (Ok(place), Ok(device)));
    }
    let unknown = ArrayDevice { kind: ArrayDeviceKind::Usm, index: None };
    refused(DLDevice::of(unknown), HERE, "device_id", BufferError, "unknown device");
}

#[test]
fn capsules_serve_once() {
    let pointer: *mut c_void = std::ptr::without_provenance_mut(64);
    let tensor = ManagedTensor::from_capsule(c"dltensor", pointer).unwrap();
    assert!(matches!(tensor, ManagedTensor::Unversioned(_)));
    assert_eq!((tensor.capsule_name(), tensor.used_capsule_name()), (c"dltensor", c"used_dltensor"));
    let tensor = ManagedTensor::from_capsule(c"dltensor_versioned", pointer).unwrap();
    assert!(matches!(tensor, ManagedTensor::Versioned(_)));
    assert_eq!(tensor.capsule_name(), c"dltensor_versioned");
    assert_eq!(tensor.used_capsule_name(), c"used_dltensor_versioned");
    for name in [c"used_dltensor", c"used_dltensor_versioned"] {
        let found = name.to_str().unwrap();
        refused(ManagedTensor::from_capsule(name, pointer), HERE, "capsule", ValueError, found);
    }
    refused(
        ManagedTensor::from_capsule(c"SyclQueueRef", pointer),
        HERE,
        "capsule",
        TypeError,
        "SyclQueueRef",
    );
    refused(ManagedTensor::from_capsule(c"dltensor", null_mut()), HERE, "capsule", ValueError, "null");
}

#[test]
fn consumers_get_the_form_that_they_know() {
    assert_eq!(Form::for_consumer(None), Form::Unversioned);
    assert_eq!(Form::for_consumer(Some((0, 8))), Form::Unversioned);
    assert_eq!(Form::for_consumer(Some((1, 0))), Form::Versioned);
    assert_eq!(Form::for_consumer(Some((2, 1))), Form::Versioned);
}

/// Counts how often it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn what_owns_the_memory_is_freed_once_by_whoever_has_the_tensor() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = || dropped.load(Ordering::SeqCst);
    let array = made(&[3, 4], &[4, 1], ArrayDeviceKind::Cuda);
    let export = |form| OwnedTensor::export(array.clone(), form, Counted(dropped.clone())).unwrap();
    for (round, form) in [Form::Unversioned, Form::Versioned].into_iter().enumerate() {
        let before = 3 * round;
        drop(export(form));
        assert_eq!(count(), before + 1, "we had it");
        let raw = export(form).into_raw();
        assert_eq!(count(), before + 1);
        // SAFETY: the tensor is live, and nothing uses it afterwards.
        unsafe { raw.delete() };
        assert_eq!(count(), before + 2, "the consumer deleted it");
        let raw = export(form).into_raw();
        // SAFETY: the tensor is live, this test owns it, and any thread may delete it.
        let taken = unsafe { raw.take() }.unwrap();
        assert_eq!(taken.array(), &array);
        std::thread::spawn(move || drop(taken)).join().unwrap();
        assert_eq!(count(), before + 3, "another thread dropped it");
    }
    // If an array is refused, its owner is dropped.
    let refused_one =
        OwnedTensor::export(array.clone().for_reading(), Form::Unversioned, Counted(dropped.clone()));
    refused(refused_one, HERE, "flags", BufferError, "read-only");
    assert_eq!(count(), 7);
}

#[test]
fn a_tensor_that_is_refused_stays_with_its_owner() {
    static DELETED: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn deleter(_: *mut DLManagedTensorVersioned) {
        DELETED.fetch_add(1, Ordering::SeqCst);
    }
    let mut managed = DLManagedTensorVersioned { deleter: Some(deleter), ..versioned(tensor()) };
    managed.version.major = 2;
    let raw = ManagedTensor::Versioned(NonNull::from(&mut managed));
    // SAFETY: the tensor lives; its deleter may be called by any thread.
    assert!(unsafe { raw.take() }.is_err());
    assert_eq!(DELETED.load(Ordering::SeqCst), 0);
    managed.version.major = 1;
    let raw = ManagedTensor::Versioned(NonNull::from(&mut managed));
    // SAFETY: as above.
    drop(unsafe { raw.take() }.unwrap());
    assert_eq!(DELETED.load(Ordering::SeqCst), 1);
    // A tensor without a deleter is dropped without a call.
    managed.deleter = None;
    let raw = ManagedTensor::Versioned(NonNull::from(&mut managed));
    // SAFETY: as above.
    drop(unsafe { raw.take() }.unwrap());
}

#[test]
fn a_panic_of_an_owner_does_not_unwind_into_the_consumer() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in the drop of an owner");
        }
    }
    let array = made(&[3, 4], &[4, 1], ArrayDeviceKind::Cuda);
    drop(OwnedTensor::export(array, Form::Versioned, Panics).unwrap());
}
