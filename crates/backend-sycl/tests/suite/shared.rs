//! Devices in contexts of other programs, by their native handles, and memory that belongs to one context.

use haloport_conformance::drawn;
use haloport_core::device::{Buffer, Device, DeviceError, DeviceId, MemoryKind, Pointer, Stream};
use haloport_core::interop::{ArrayDescription, ArrayDevice, ArrayDeviceKind};
use haloport_core::*;
use haloport_sycl::SyclDevice;

use crate::common::program::{Context, is_of_sycl};

fn has_usm(device: &SyclDevice) -> bool {
    is_of_sycl(device) || device.info().driver.contains("unified shared memory")
}

#[test]
fn a_context_is_a_device_of_its_own_and_one_device_however_it_is_named() {
    let Some(device) = crate::common::device_of_program() else { return };
    let (one, two) = (Context::new(&device, false), Context::new(&device, true));
    let ((first, stream), (second, _)) = (one.open(), two.open());
    let ids = [device.id(), first.id(), second.id()];
    assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2], "{ids:?}");
    assert_eq!((ids[1].backend, ids[1].index), (ids[0].backend, ids[0].index));
    let of_haloport = DeviceId { context: 0, ..ids[1] };
    assert_eq!(ids[1].to_string(), format!("{of_haloport}#{}", ids[1].context));
    assert_eq!(stream.device(), first.id());
    assert_eq!(one.device(None).unwrap().id(), first.id());
    // SAFETY: the queue is live.
    assert!(unsafe { first.borrow_stream(two.queue.handle()) }.is_err());
    if is_of_sycl(&device) {
        return;
    }
    assert_eq!(stream.handle(), one.queue.handle());
    assert_eq!(first.native(), (one.handle(), device.native().1));
    assert_eq!(one.device(Some(device.native().1)).unwrap().id(), first.id());
    let wrong = one.device(Some(1)).unwrap_err();
    assert!(wrong.to_string().contains("the device of a context: expected one of"), "{wrong}");
    // In the context of Haloport, it is the device that was opened first.
    // SAFETY: the context is live.
    assert_eq!(unsafe { SyclDevice::from_context(device.native().0, None) }.unwrap().id(), device.id());
}

#[test]
fn null_is_no_queue_and_no_context() {
    // SAFETY: null is not followed.
    let refused = unsafe {
        [
            SyclDevice::from_queue(0).err(),
            SyclDevice::from_context(0, None).err(),
            SyclDevice::from_sycl_queue(0).err(),
            SyclDevice::from_sycl_context(0, None).err(),
        ]
    };
    for error in refused.map(Option::unwrap) {
        assert!(error.to_string().ends_with("found null"), "{error}");
    }
}

#[test]
fn without_a_sycl_library_the_error_says_so() {
    let Some(device) = crate::common::device().filter(|device| !is_of_sycl(device)) else { return };
    // SAFETY: no library is loaded that could follow the address.
    let errors =
        unsafe { [SyclDevice::from_sycl_queue(64).unwrap_err(), device.borrow_sycl_queue(64).unwrap_err()] };
    for error in errors {
        assert!(matches!(error, DeviceError::NotFound { .. }), "{error}");
        assert!(error.to_string().contains("looked for libsycl.so.9, "), "{error}");
    }
    // SAFETY: null is not followed.
    let null = unsafe { device.borrow_sycl_queue(0) }.unwrap_err().to_string();
    assert!(null.ends_with("found null"), "{null}");
}

#[test]
fn queues_outlive_the_program_that_made_them_and_all_that_a_device_does_works_in_its_context() {
    let Some(device) = crate::common::device_of_program() else { return };
    for &out_of_order in drawn(&[false, true]) {
        let other = Context::new(&device, out_of_order);
        let (shared, stream) = other.open();
        drop(other);
        haloport_conformance::device::suite(&shared, &[]).unwrap();
        let buffer = shared.allocate(8, MemoryKind::Device).unwrap();
        let mut found = [0; 8];
        // SAFETY: the buffer has that length, and is read before it is dropped.
        unsafe {
            shared.fill(buffer.pointer(), &[7], 8, &stream).unwrap();
            shared.read(buffer.pointer(), &mut found, &stream).unwrap();
        }
        assert_eq!(found, [7; 8]);
    }
}

#[test]
fn memory_belongs_to_one_context() {
    let Some(device) = crate::common::device_of_program() else { return };
    let other = Context::new(&device, false);
    let (shared, _) = other.open();
    let kinds = [MemoryKind::Device, MemoryKind::Pinned, MemoryKind::Shared];
    if !has_usm(&device) {
        let error = device.allocation(Pointer::new(std::ptr::null_mut())).unwrap_err();
        assert!(error.to_string().contains("memory of other programs cannot be looked up"), "{error}");
        return;
    }
    for kind in kinds {
        let buffer = shared.allocate(1000, kind).unwrap();
        let begin = buffer.pointer().as_ptr().addr();
        for offset in [0, 1, 999] {
            let found = shared.allocation(buffer.pointer().offset(offset)).unwrap();
            assert_eq!((found.kind, found.host_accessible()), (kind, kind != MemoryKind::Device));
            assert!(found.addresses.is_none_or(|there| there.start == begin && there.end >= begin + 1000));
        }
        let error = device.allocation(buffer.pointer()).unwrap_err().to_string();
        assert!(error.contains("one of another context, or not of unified shared memory"), "{error}");
        assert!(error.contains("open the device in the context"), "{error}");
    }
    let mut of_host = vec![0_u8; 64];
    assert!(shared.allocation(Pointer::new(of_host.as_mut_ptr())).is_err());
    assert!(shared.allocation(Pointer::new(std::ptr::null_mut())).is_err());
}

#[test]
fn fields_in_arrays_are_those_of_the_context_alone() {
    let Some(device) = crate::common::device_of_program().filter(has_usm) else { return };
    let other = Context::new(&device, true);
    let (shared, stream) = other.open();
    let array = |pointer: Pointer, kind: ArrayDeviceKind, shape: [i64; 2]| {
        let array_device = ArrayDevice { kind, index: None };
        ArrayDescription::new(ElementType::F64, pointer, &shape, &[shape[1], 1], array_device).unwrap()
    };
    let (own_memory, other_memory) = (device.allocate(48 * 8, MemoryKind::Shared).unwrap(), {
        shared.allocate(48 * 8, MemoryKind::Shared).unwrap()
    });
    let owned = IndexBox::new([0, 0], [4, 6]);
    let field = |device: &SyclDevice, array: &ArrayDescription| {
        let layout = BlockLayout::of_array(owned, IndexBox::new([-1, -1], [5, 7]), array, None)?;
        // SAFETY: the field is dropped before the memory.
        unsafe { device.field_in_arrays::<f64>(vec![(array.clone(), layout)], Box::new(())) }
    };
    let usm = ArrayDeviceKind::Usm;
    assert!(field(&shared, &array(own_memory.pointer(), usm, [6, 8])).is_err());
    assert!(field(&shared, &array(other_memory.pointer(), ArrayDeviceKind::Host, [6, 8])).is_err());
    assert!(field(&shared, &array(other_memory.pointer().offset(64), usm, [6, 8])).is_err());
    let read_only = array(other_memory.pointer(), usm, [6, 8]).for_reading();
    assert!(matches!(field(&shared, &read_only), Err(FieldError::Array(_))));

    run_ranks(1, |comm| {
        let grid = Grid::new([4, 6])?.periodic([true, true])?;
        let pattern = Pattern::structured(&comm, &grid, &[owned], &Halo::uniform(1))?;
        let mut right = field(&shared, &array(other_memory.pointer(), usm, [6, 8]))?;
        right.view_mut(0)?.fill_with(|cell, _| (10 * cell[0] + cell[1]) as f64);
        let mut exchange = pattern.bind(right)?;
        exchange.run_on(&stream)?;
        shared.synchronize(&stream)?;
        let view = exchange.fields().view(0)?;
        for row in -1..5_i64 {
            for column in -1..7_i64 {
                let expected = (10 * row.rem_euclid(4) + column.rem_euclid(6)) as f64;
                assert_eq!(view.get(&[row, column]), Some(expected), "{row} {column}");
            }
        }
        Ok(())
    })
    .unwrap();
    drop((own_memory, other_memory, shared, stream));
}
