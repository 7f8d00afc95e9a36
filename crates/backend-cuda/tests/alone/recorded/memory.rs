//! Memory, copies and fills: the driver for tests does them, so that tests can check the result.

use std::sync::Arc;

use haloport_core::device::{
    Buffer, Device, DeviceError, Gates, MemoryExport, MemoryKind, Pointer, Priority, StreamWords,
};
use haloport_cuda::CudaDevice;

use super::recording::{recorded, recorded_with};

#[repr(align(4096))]
struct Page([u8; 4096]);

fn bytes(device: &CudaDevice, from: Pointer, count: usize) -> Vec<u8> {
    let mut found = vec![0; count];
    // SAFETY: the callers' memory is that long.
    unsafe { device.read(from, &mut found, &device.default_stream()) }.unwrap();
    found
}

#[test]
fn memory_of_every_kind_is_zero_and_freed_as_it_was_allocated() {
    recorded("memory::memory_of_every_kind_is_zero_and_freed_as_it_was_allocated", |recording| {
        let device = CudaDevice::new().unwrap();
        let before = recording.living();
        for (kind, allocated, freed) in [
            (MemoryKind::Device, "cuMemAlloc_v2", "cuMemFree_v2"),
            (MemoryKind::Pinned, "cuMemHostAlloc", "cuMemFreeHost"),
            (MemoryKind::Shared, "cuMemAllocManaged", "cuMemFree_v2"),
        ] {
            recording.take_calls();
            let buffer = device.allocate(1000, kind).unwrap();
            assert_eq!(recording.take_work()[0].name, allocated);
            assert_eq!(buffer.host_accessible(), kind != MemoryKind::Device);
            assert_eq!(bytes(&device, buffer.pointer(), 1000), [0; 1000]);
            recording.take_calls();
            drop(buffer);
            let names: Vec<String> = recording.take_work().into_iter().map(|call| call.name).collect();
            assert_eq!(names, [freed]);
        }
        let empty = device.allocate(0, MemoryKind::Pinned).unwrap();
        assert!(empty.pointer().as_ptr().addr().is_multiple_of(64));
        recording.take_calls();
        drop(empty);
        assert_eq!(recording.take_work(), []);
        assert_eq!(recording.living(), before);
    });
}

#[test]
fn what_no_driver_could_allocate_is_not_asked_for() {
    recorded("memory::what_no_driver_could_allocate_is_not_asked_for", |_| {
        let device = CudaDevice::new().unwrap();
        for kind in [MemoryKind::Device, MemoryKind::Pinned, MemoryKind::Shared] {
            for bytes in [usize::MAX, 1 << 62] {
                let error = device.allocate(bytes, kind).unwrap_err();
                assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
            }
        }
    });
}

#[test]
fn fills_take_the_drivers_own_where_it_has_one() {
    recorded("memory::fills_take_the_drivers_own_where_it_has_one", |recording| {
        let device = CudaDevice::new().unwrap();
        let stream = device.default_stream();
        let buffer = device.allocate(1024, MemoryKind::Device).unwrap();
        for (element, offset, call) in [
            (&[7][..], 1, "cuMemsetD8Async"),
            (&[7, 8], 2, "cuMemsetD16Async"),
            (&[7, 7], 1, "cuMemsetD8Async"),
            (&[1, 2, 3, 4], 4, "cuMemsetD32Async"),
            (&[1, 2, 1, 2, 1, 2, 1, 2], 2, "cuMemsetD16Async"),
            (&[0; 16], 3, "cuMemsetD8Async"),
        ] {
            recording.take_calls();
            // SAFETY: 16 elements from there on lie in the buffer.
            unsafe { device.fill(buffer.pointer().offset(offset), element, 16, &stream) }.unwrap();
            assert_eq!(recording.take_work()[0].name, call, "{element:?}");
            let found = bytes(&device, buffer.pointer(), 1024);
            assert_eq!(found[offset as usize..][..16 * element.len()], element.repeat(16), "{element:?}");
        }
        for (element, offset) in [(&[1, 2, 3, 4, 5, 6, 7, 8][..], 8), (&[1, 2, 3, 4], 2)] {
            recording.take_calls();
            // SAFETY: as above.
            unsafe { device.fill(buffer.pointer().offset(offset), element, 16, &stream) }.unwrap();
            assert_eq!(recording.take_work().last().unwrap().argument("kernel"), "fill", "{element:?}");
        }
    });
}

/// Freeing waits for all work, and may keep others out of the driver meanwhile.
#[test]
fn memory_that_is_dropped_while_streams_wait_for_neighbours_is_freed_afterwards() {
    let name = "memory::memory_that_is_dropped_while_streams_wait_for_neighbours_is_freed_afterwards";
    recorded(name, |recording| {
        let device = CudaDevice::new().unwrap();
        let kinds = [MemoryKind::Device, MemoryKind::Pinned, MemoryKind::Shared];
        let buffers = kinds.map(|kind| device.allocate(1000, kind).unwrap());
        let exportable = device.allocate_exportable(1000).unwrap();
        let page = Arc::new(Page([0; 4096]));
        let (at, owner) = (Pointer::new((&raw const page.0).cast_mut().cast()), Arc::clone(&page));
        // SAFETY: the owner is the page.
        let registered = unsafe { device.register_words(at, 4096, owner) }.unwrap();
        recording.take_calls();
        device.defer_frees();
        device.defer_frees();
        drop((buffers, exportable, registered));
        device.resume_frees();
        let calls = recording.take_work();
        assert!(calls.is_empty(), "{calls:?}");
        assert_eq!(Arc::strong_count(&page), 2);
        device.resume_frees();
        let names: Vec<String> = recording.take_work().into_iter().map(|call| call.name).collect();
        let pages = ["cuMemUnmap", "cuMemAddressFree", "cuMemRelease"];
        let plain = ["cuMemFree_v2", "cuMemFreeHost", "cuMemFree_v2"];
        assert_eq!(names, [&plain[..], &pages, &["cuMemHostUnregister"]].concat());
        assert_eq!(Arc::strong_count(&page), 1);
        let last = device.allocate(1000, MemoryKind::Device).unwrap();
        recording.take_calls();
        drop(last);
        assert_eq!(recording.take_work()[0].name, "cuMemFree_v2");
        drop(device);
        assert_eq!(recording.living(), "");
    });
}

#[test]
fn gates_use_one_piece_of_pinned_memory() {
    recorded("memory::gates_use_one_piece_of_pinned_memory", |recording| {
        let device = CudaDevice::new().unwrap();
        let stream = device.create_stream(Priority::Normal).unwrap();
        device.gate(&stream).unwrap()();
        recording.take_calls();
        let mut waits: Vec<_> = (0..3).map(|_| device.gate(&stream).unwrap()).collect();
        waits.pop();
        let calls = recording.take_work();
        assert!(calls.iter().all(|call| call.name == "cuStreamWaitValue32_v2"), "{calls:?}");
        assert_eq!(calls.len(), 3);
        drop((waits, stream, device));
        assert_eq!(recording.living(), "");
    });
}

/// Including streams of other programs in the process.
#[test]
fn waiting_for_all_streams_waits_for_the_context() {
    recorded("memory::waiting_for_all_streams_waits_for_the_context", |recording| {
        let device = CudaDevice::new().unwrap();
        recording.take_calls();
        device.synchronize_all().unwrap();
        let names: Vec<String> = recording.take_calls().into_iter().map(|call| call.name).collect();
        let waits = names.iter().position(|name| name == "cuCtxSynchronize").unwrap();
        assert!(names[..waits].contains(&"cuCtxPushCurrent_v2".to_string()), "{names:?}");
    });
}

/// If the slice lies in pinned memory, copies go on after the driver's call has returned.
#[test]
fn writes_and_reads_are_done_when_they_return() {
    recorded("memory::writes_and_reads_are_done_when_they_return", |recording| {
        let device = CudaDevice::new().unwrap();
        let stream = device.create_stream(Priority::Normal).unwrap();
        let buffer = device.allocate(64, MemoryKind::Device).unwrap();
        let mut values = [7; 64];
        recording.take_calls();
        // SAFETY: the buffer is that long.
        unsafe {
            device.write(&values, buffer.pointer(), &stream).unwrap();
            device.read(buffer.pointer(), &mut values, &stream).unwrap();
        }
        let names: Vec<String> = recording.take_work().into_iter().map(|call| call.name).collect();
        assert_eq!(names, ["cuMemcpyAsync", "cuStreamSynchronize"].repeat(2));
    });
}

#[test]
fn device_memory_is_exported_and_let_go_of_by_who_imported_it() {
    recorded("memory::device_memory_is_exported_and_let_go_of_by_who_imported_it", |recording| {
        let device = CudaDevice::new().unwrap();
        let buffer = device.allocate(1000, MemoryKind::Device).unwrap();
        recording.take_calls();
        let token = device.export(&buffer).unwrap();
        // SAFETY: the buffer lives longer than what is imported.
        let imported = unsafe { device.import(&token) }.unwrap();
        assert_eq!((imported.bytes(), imported.kind()), (1000, MemoryKind::Device));
        assert!(!imported.host_accessible() && imported.pointer() != buffer.pointer());
        // Only the process that allocated memory can export it.
        assert!(matches!(device.export(&imported), Err(DeviceError::Unsupported { .. })));
        drop(imported);
        let names: Vec<String> = recording.take_work().into_iter().map(|call| call.name).collect();
        assert_eq!(names, ["cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle"]);

        for other in [
            device.allocate(1000, MemoryKind::Pinned).unwrap(),
            device.allocate(1000, MemoryKind::Shared).unwrap(),
            device.allocate(0, MemoryKind::Device).unwrap(),
        ] {
            assert!(matches!(device.export(&other), Err(DeviceError::Unsupported { .. })), "{other:?}");
        }
        for wrong in [&[][..], &token[1..], &[&token[..], &[0]].concat()] {
            // SAFETY: nothing is imported.
            let error = unsafe { device.import(wrong) }.unwrap_err().to_string();
            assert!(error.contains(&format!("found {} bytes", wrong.len())), "{error}");
        }
        let unknown = [&token[..16], &[0; 64]].concat();
        // SAFETY: as above.
        let refused = unsafe { device.import(&unknown) }.unwrap_err().to_string();
        assert!(refused.contains("cuIpcOpenMemHandle"), "{refused}");
    });
}

#[test]
fn where_launches_wait_there_are_no_gates() {
    there_are_no_gates("memory::where_launches_wait_there_are_no_gates", ("CUDA_LAUNCH_BLOCKING", "1"));
}

#[test]
fn where_streams_write_no_words_there_are_no_gates() {
    let name = "memory::where_streams_write_no_words_there_are_no_gates";
    there_are_no_gates(name, ("HALOPORT_DRIVER_NUMBERS", "nowhere"));
}

fn there_are_no_gates(name: &str, variable: (&str, &str)) {
    recorded_with(name, &["libcuda.so.1", "libnvrtc.so.12"], &[variable], |_| {
        let device = CudaDevice::new().unwrap();
        let capabilities = device.info().capabilities;
        assert!(!capabilities.gates && !capabilities.stream_words);
        assert!(device.gates().is_none() && device.stream_words().is_none());
        let stream = device.create_stream(Priority::Normal).unwrap();
        let refused = device.gate(&stream).err().unwrap().to_string();
        assert!(refused.contains("as CUDA_LAUNCH_BLOCKING is set"), "{refused}");
        // SAFETY: no word is passed.
        let refused = unsafe { device.put_words(&[], &stream) }.unwrap_err().to_string();
        assert!(refused.contains("as CUDA_LAUNCH_BLOCKING is set"), "{refused}");
    });
}
