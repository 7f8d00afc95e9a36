//! Arrays of other programs: the driver knows their memory by the address.

use std::ptr::NonNull;

use haloport_core::device::{Buffer, Device, DeviceError, MemoryExport, MemoryKind, Pointer};
use haloport_core::interop::ArrayDescription;
use haloport_core::interop::cuda_array::CudaArrayInterface;
use haloport_core::interop::dlpack::{DLDataType, DLDevice, DLManagedTensor, DLTensor, ManagedTensor};
use haloport_core::interop::sycl_usm::{SyclObject, SyclUsmArrayInterface};
use haloport_core::{BlockLayout, ElementType, FieldError, IndexBox};
use haloport_cuda::CudaDevice;

use super::recording::{Call, Recording, recorded, recorded_with};

/// Six numbers from this address on, as CuPy describes them.
fn array(first: Pointer) -> ArrayDescription {
    described(first, "<f8", false)
}

fn described(first: Pointer, typestr: &str, read_only: bool) -> ArrayDescription {
    let interface = CudaArrayInterface {
        shape: Some(vec![6]),
        typestr: Some(typestr.into()),
        data: Some((first.as_ptr().expose_provenance() as u64, read_only)),
        version: Some(3),
        ..CudaArrayInterface::default()
    };
    interface.describe().unwrap().0
}

fn layout(array: &ArrayDescription) -> BlockLayout {
    BlockLayout::of_array(IndexBox::new([0], [4]), IndexBox::new([-1], [5]), array, None).unwrap()
}

/// Memory of a pool of another program.
fn in_pool(recording: &Recording, bytes: usize) -> Pointer {
    Pointer::new(std::ptr::with_exposed_provenance_mut(recording.allocate_in_pool(bytes)))
}

fn text(result: Result<impl Sized, DeviceError>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn the_device_of_an_array_is_found_by_its_address() {
    let name = "arrays::the_device_of_an_array_is_found_by_its_address";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_DRIVER_DEVICES", "2")], |_| {
        let (one, two) = (CudaDevice::select("cuda:0").unwrap(), CudaDevice::select("cuda:1").unwrap());
        for device in [&one, &two] {
            for kind in [MemoryKind::Device, MemoryKind::Pinned, MemoryKind::Shared] {
                let buffer = device.allocate(64, kind).unwrap();
                let array = array(buffer.pointer().offset(8));
                let memory = device.memory_of(&array).unwrap().unwrap();
                let begin = buffer.pointer().as_ptr().addr();
                assert_eq!((memory.kind, memory.device), (kind, device.id().index));
                assert_eq!(memory.addresses, Some(begin..begin + 64));
                assert_eq!(memory.context, Some(device.native()));
                assert_eq!(memory.host_accessible(), kind != MemoryKind::Device);
                assert_eq!(CudaDevice::of_array(&array).unwrap().id(), device.id());
            }
        }
        // Memory of the other device is refused, but for memory of the host, which both reach.
        let there = two.allocate(64, MemoryKind::Device).unwrap();
        let error = text(one.memory_of(&array(there.pointer())));
        assert!(
            error.contains("one in memory of cuda:0; copy the data there, or open cuda:1 for it, found "),
            "{error}"
        );
        assert!(error.ends_with("one of cuda:1"), "{error}");
        // A description that names another device than the address does.
        let mut shape = [6i64];
        let dl_tensor = DLTensor {
            data: there.pointer().as_ptr().cast(),
            device: DLDevice { device_type: 2, device_id: 0 },
            ndim: 1,
            dtype: DLDataType { code: 2, bits: 64, lanes: 1 },
            shape: shape.as_mut_ptr(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        let mut tensor = DLManagedTensor { dl_tensor, manager_ctx: std::ptr::null_mut(), deleter: None };
        // SAFETY: the tensor lives as long as the call, with one extent.
        let array = unsafe { ManagedTensor::Unversioned(NonNull::from(&mut tensor)).describe() }.unwrap();
        let error = text(two.memory_of(&array));
        assert!(error.contains("one of cuda:0, as it says"), "{error}");
        let pinned = two.allocate(64, MemoryKind::Pinned).unwrap();
        assert!(one.memory_of(&self::array(pinned.pointer())).is_ok());
    });
}

#[test]
fn addresses_are_looked_up_in_a_driver_that_the_program_has_loaded() {
    let name = "arrays::addresses_are_looked_up_in_a_driver_that_the_program_has_loaded";
    recorded(name, |recording| {
        // The test has loaded the driver; nothing has initialised it.
        let values = [0.0f64; 6];
        let of_host = Pointer::new(values.as_ptr().cast_mut().cast());
        assert_eq!(CudaDevice::known_memory_at(of_host).unwrap(), None);
        let names = |calls: Vec<Call>| -> Vec<String> { calls.into_iter().map(|call| call.name).collect() };
        assert_eq!(names(recording.take_all_calls()), ["cuPointerGetAttributes"]);
        for status in [1, 3, 4, 34, 100, 201] {
            recording.fail(0, status, false);
            assert_eq!(CudaDevice::known_memory_at(of_host).unwrap(), None, "{status}");
            assert!(recording.has_failed());
        }
        recording.fail(0, 719, false);
        assert!(text(CudaDevice::known_memory_at(of_host)).contains("cuPointerGetAttributes"));
        recording.has_failed();

        let device = CudaDevice::new().unwrap();
        for kind in [MemoryKind::Device, MemoryKind::Pinned, MemoryKind::Shared] {
            let buffer = device.allocate(64, kind).unwrap();
            let there = buffer.pointer().offset(63);
            let found = CudaDevice::known_memory_at(there).unwrap().unwrap();
            assert_eq!((found.kind, found.device), (kind, 0));
            assert_eq!(device.reached_memory_at(there).unwrap(), found);
        }
        assert!(text(device.reached_memory_at(of_host)).contains("which the driver does not know"));
        let foreign = std::ptr::with_exposed_provenance_mut(recording.allocate_foreign(64));
        let error = text(device.reached_memory_at(Pointer::new(foreign)));
        assert!(error.contains("one of the primary context"), "{error}");
    });
}

#[test]
fn a_field_lies_in_arrays_of_another_program() {
    recorded("arrays::a_field_lies_in_arrays_of_another_program", |_| {
        let device = CudaDevice::new().unwrap();
        let buffer = device.allocate(64, MemoryKind::Device).unwrap();
        let values: Vec<u8> = (0..6).flat_map(|value| f64::from(value).to_ne_bytes()).collect();
        // SAFETY: the buffer is that long.
        unsafe { device.write(&values, buffer.pointer(), &device.default_stream()) }.unwrap();
        let array = array(buffer.pointer());
        let block = || vec![(array.clone(), layout(&array))];
        // SAFETY: the buffer holds the array and outlives both fields, which are not exchanged.
        let (typed, any) = unsafe {
            let any = device.any_field_in_arrays(ElementType::F64, block(), Box::new(())).unwrap();
            (device.field_in_arrays::<f64>(block(), Box::new(())).unwrap(), any)
        };
        assert_eq!(typed.to_vec(0).unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!((any.element(), any.to_bytes(0).unwrap()), (ElementType::F64, values));
        assert!(matches!(typed.view(0).unwrap_err(), FieldError::NotHostAccessible { .. }));
        // SAFETY: these are refused.
        let refused = |array: ArrayDescription| unsafe {
            let block = vec![(array.clone(), layout(&array))];
            device.field_in_arrays::<f64>(block, Box::new(())).unwrap_err().to_string()
        };
        assert!(refused(described(buffer.pointer(), "<f4", false)).contains("expected f64, found f32"));
        assert!(refused(described(buffer.pointer(), "<f8", true)).contains("read"));
    });
}

#[test]
fn memory_tells_how_other_processes_can_map_it() {
    let name = "arrays::memory_tells_how_other_processes_can_map_it";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_DRIVER_HANDLES", "fabric")], |recording| {
        let device = CudaDevice::new().unwrap();
        let of_pool = in_pool(recording, 64);
        let pinned = device.allocate(64, MemoryKind::Pinned).unwrap();
        let plain = device.allocate(64, MemoryKind::Device).unwrap();
        let exportable = device.allocate_exportable(64).unwrap();
        for (pointer, expected) in [
            (of_pool, [false; 3]),
            (pinned.pointer(), [false; 3]),
            (plain.pointer(), [true, false, false]),
            (exportable.pointer(), [false, true, true]),
        ] {
            let memory = device.reached_memory_at(pointer).unwrap();
            let found = memory.shared_by;
            assert_eq!([found.ipc, found.descriptor, found.fabric], expected, "{memory:?}");
        }
        // It belongs to no context, and its addresses are whole pages.
        let memory = device.reached_memory_at(exportable.pointer().offset(63)).unwrap();
        let begin = exportable.pointer().as_ptr().addr();
        assert_eq!((memory.context, memory.addresses), (None, Some(begin..begin + (2 << 20))));
        assert_eq!((memory.kind, memory.device), (MemoryKind::Device, 0));
    });
}

#[test]
fn memory_that_is_freed_is_refused() {
    recorded("arrays::memory_that_is_freed_is_refused", |_| {
        let device = CudaDevice::new().unwrap();
        for buffer in [
            device.allocate(64, MemoryKind::Device).unwrap(),
            device.allocate(64, MemoryKind::Pinned).unwrap(),
            device.allocate(64, MemoryKind::Shared).unwrap(),
            device.allocate_exportable(64).unwrap(),
        ] {
            let array = array(buffer.pointer());
            device.memory_of(&array).unwrap().unwrap();
            drop(buffer);
            let error = text(device.memory_of(&array));
            assert!(error.contains("expected one in memory of CUDA that is not freed: "), "{error}");
            assert!(error.ends_with(", which the driver does not know"), "{error}");
        }
    });
}

#[test]
fn memory_of_a_pool_and_mapped_memory_are_checked_to_their_last_byte() {
    let name = "arrays::memory_of_a_pool_and_mapped_memory_are_checked_to_their_last_byte";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_DRIVER_DEVICES", "2")], |recording| {
        let (one, two) = (CudaDevice::select("cuda:0").unwrap(), CudaDevice::select("cuda:1").unwrap());
        let mapped = one.allocate_exportable(2 << 20).unwrap();
        for (begin, last) in [(in_pool(recording, 48), 0), (mapped.pointer(), (2 << 20) - 48)] {
            let fits = array(begin.offset(last));
            let memory = one.memory_of(&fits).unwrap().unwrap();
            assert_eq!((memory.kind, memory.device, memory.context), (MemoryKind::Device, 0, None));
            let error = text(one.memory_of(&array(begin.offset(last + 8))));
            assert!(error.contains("all of them in the allocation"), "{error}");
            let error = text(two.memory_of(&fits));
            assert!(error.contains("copy the data there, or open cuda:0 for it"), "{error}");
        }
    });
}

#[test]
fn a_span_that_does_not_lie_in_one_allocation_is_refused() {
    recorded("arrays::a_span_that_does_not_lie_in_one_allocation_is_refused", |_| {
        let device = CudaDevice::new().unwrap();
        for (buffer, bytes) in [
            (device.allocate(64, MemoryKind::Device).unwrap(), 64),
            (device.allocate_exportable(64).unwrap(), 2 << 20),
        ] {
            let at = |offset: isize| buffer.pointer().offset(offset);
            device.reached_memory_in(at(0), 0..bytes).unwrap();
            device.reached_memory_in(at(bytes - 1), 1 - bytes..1).unwrap();
            device.reached_memory_in(at(8), 0..0).unwrap();
            for (first, span) in [(at(0), 0..bytes + 1), (at(8), -9..0), (at(8), 0..bytes - 7)] {
                let error = text(device.reached_memory_in(first, span));
                assert!(error.contains("all of them in the allocation"), "{error}");
            }
        }
    });
}

/// Another program may reserve more addresses than it has memory for, and map several pieces of memory there.
#[test]
fn addresses_without_memory_are_refused() {
    let name = "arrays::addresses_without_memory_are_refused";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_DRIVER_DEVICES", "2")], |recording| {
        const PAGE: usize = 2 << 20;
        let device = CudaDevice::select("cuda:0").unwrap();
        let begin = recording.reserve_foreign(&[Some(0), Some(0), None, Some(0), Some(1)]);
        let at = |offset: usize| Pointer::new(std::ptr::with_exposed_provenance_mut(begin + offset));
        let memory = device.reached_memory_at(at(8)).unwrap();
        assert_eq!(memory.addresses, Some(begin..begin + 5 * PAGE));
        // Two pieces of memory beside each other.
        device.reached_memory_in(at(8), -8..2 * PAGE as isize - 8).unwrap();
        device.memory_of(&array(at(PAGE - 24))).unwrap();
        let error = text(device.reached_memory_at(at(2 * PAGE)));
        assert!(error.contains("which the driver does not know"), "{error}");
        let missing = format!("; map it there, found none at {:#x}", begin + 2 * PAGE);
        // To the first byte without memory, and across all of those to other memory.
        for end in [2 * PAGE + 1, 4 * PAGE] {
            let error = text(device.reached_memory_in(at(8), -8..end as isize - 8));
            assert!(error.contains("expected memory of cuda:0 at all of "), "{error}");
            assert!(error.ends_with(&missing), "{error}");
        }
        let error = text(device.memory_of(&array(at(2 * PAGE - 40))));
        assert!(error.ends_with(&missing), "{error}");
        let error = text(device.memory_of(&array(at(4 * PAGE - 8))));
        assert!(error.ends_with(&format!("found memory of cuda:1 at {:#x}", begin + 4 * PAGE)), "{error}");
    });
}

#[test]
fn memory_that_the_device_does_not_reach_is_refused() {
    recorded("arrays::memory_that_the_device_does_not_reach_is_refused", |recording| {
        let device = CudaDevice::new().unwrap();
        let values = [0.0f64; 6];
        let host = array(Pointer::new(values.as_ptr().cast_mut().cast()));
        let error = text(device.memory_of(&host));
        assert!(error.contains("which the driver does not know"), "{error}");
        assert!(text(CudaDevice::of_array(&host)).contains("which the driver does not know"));

        let buffer = device.allocate(64, MemoryKind::Device).unwrap();
        let error = text(device.memory_of(&array(buffer.pointer().offset(24))));
        assert!(error.contains("all of them in the allocation"), "{error}");

        let usm = SyclUsmArrayInterface {
            shape: Some(vec![6]),
            typestr: Some("<f8".into()),
            data: Some((buffer.pointer().as_ptr().addr() as u64, false)),
            version: Some(1),
            syclobj: Some(SyclObject::Queue(0x1000)),
            ..SyclUsmArrayInterface::default()
        };
        let error = text(device.memory_of(&usm.describe().unwrap().0));
        assert!(error.contains("one in memory of CUDA, for cuda:0"), "{error}");

        let foreign = std::ptr::with_exposed_provenance_mut(recording.allocate_foreign(64));
        let error = text(device.memory_of(&array(Pointer::new(foreign))));
        assert!(error.contains("one of the primary context"), "{error}");
    });
}
