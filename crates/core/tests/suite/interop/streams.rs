//! Streams as the protocols number them.

use haloport_core::interop::stream::{StreamObject, StreamOrder};
use haloport_core::interop::{ArrayDeviceKind, Protocol};

use super::{BufferError, TypeError, ValueError, refused};

use ArrayDeviceKind::*;

#[test]
fn dlpack_numbers_streams_by_the_kind_of_device() {
    let read = StreamOrder::from_dlpack;
    let expected = [
        (Cuda, None, StreamOrder::Default),
        (Cuda, Some(-1), StreamOrder::Unordered),
        (Cuda, Some(1), StreamOrder::Default),
        (Cuda, Some(2), StreamOrder::PerThread),
        (CudaManaged, Some(0x5550), StreamOrder::Native(0x5550)),
        (Cuda, Some(3), StreamOrder::Native(3)),
        (Rocm, None, StreamOrder::Default),
        (Rocm, Some(0), StreamOrder::Default),
        (Rocm, Some(-1), StreamOrder::Unordered),
        (Rocm, Some(77), StreamOrder::Native(77)),
        (Host, None, StreamOrder::Unordered),
        (CudaHost, None, StreamOrder::Unordered),
        (Usm, None, StreamOrder::Unordered),
    ];
    for (kind, stream, order) in expected {
        assert_eq!(read(kind, stream), Ok(order), "{stream:?} for {kind}");
    }
    let dlpack = Protocol::DlPack;
    for (kind, number) in
        [(Cuda, 0), (CudaManaged, 0), (Cuda, -2), (Cuda, i64::MIN), (Rocm, 1), (Rocm, 2), (Rocm, -2)]
    {
        refused(read(kind, Some(number)), dlpack, "stream", ValueError, &number.to_string());
    }
    for kind in [Host, CudaHost, RocmHost, Usm] {
        for number in [-1, 0, 1, 99] {
            refused(read(kind, Some(number)), dlpack, "stream", TypeError, &number.to_string());
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    let streams =
        [StreamOrder::Unordered, StreamOrder::Default, StreamOrder::PerThread, StreamOrder::Native(0x7f00)];
    for stream in streams {
        assert_eq!(StreamOrder::from_cuda_array(stream.to_cuda_array()), Ok(stream));
        let number = stream.to_dlpack(Cuda).unwrap();
        assert!(number.is_some(), "the producer is told");
        assert_eq!(StreamOrder::from_dlpack(Cuda, number), Ok(stream));
        if stream != StreamOrder::PerThread {
            assert_eq!(StreamOrder::from_dlpack(Rocm, stream.to_dlpack(Rocm).unwrap()), Ok(stream));
        }
    }
    for kind in [Host, Usm] {
        assert_eq!(StreamOrder::Default.to_dlpack(kind), Ok(None));
        assert_eq!(StreamOrder::Unordered.to_dlpack(kind), Ok(None));
        refused(StreamOrder::Native(9).to_dlpack(kind), Protocol::DlPack, "stream", BufferError, "Native(9)");
    }
    refused(StreamOrder::PerThread.to_dlpack(Rocm), Protocol::DlPack, "stream", BufferError, "PerThread");
    refused(StreamOrder::Native(2).to_dlpack(Cuda), Protocol::DlPack, "stream", BufferError, "Native(2)");
    refused(
        StreamOrder::Native(usize::MAX).to_dlpack(Cuda),
        Protocol::DlPack,
        "stream",
        BufferError,
        "Native",
    );
}

#[test]
fn the_cuda_array_interface_numbers_streams() {
    assert_eq!(StreamOrder::from_cuda_array(None), Ok(StreamOrder::Unordered));
    assert_eq!(StreamOrder::from_cuda_array(Some(1)), Ok(StreamOrder::Default));
    assert_eq!(StreamOrder::from_cuda_array(Some(2)), Ok(StreamOrder::PerThread));
    assert_eq!(StreamOrder::from_cuda_array(Some(3)), Ok(StreamOrder::Native(3)));
    for number in [0, -1, i64::MIN] {
        let read = StreamOrder::from_cuda_array(Some(number));
        refused(read, Protocol::CudaArray, "stream", ValueError, &number.to_string());
    }
    assert_eq!(StreamOrder::Native(0).to_cuda_array(), Some(1), "0 is forbidden there");
}

#[test]
fn objects_stand_for_streams() {
    let read = |object: StreamObject| StreamOrder::from_object(&object);
    assert_eq!(read(StreamObject::None), Ok(StreamOrder::Default));
    for (handle, order) in [
        (0, StreamOrder::Default),
        (1, StreamOrder::Default),
        (2, StreamOrder::PerThread),
        (0x5550, StreamOrder::Native(0x5550)),
    ] {
        assert_eq!(read(StreamObject::CudaStream { version: 0, handle }), Ok(order));
        assert_eq!(read(StreamObject::Ptr(handle)), Ok(order));
    }
    let here = Protocol::StreamObject;
    refused(read(StreamObject::CudaStream { version: 1, handle: 0 }), here, "version", ValueError, "1");
    refused(read(StreamObject::CudaStream { version: 0, handle: -5 }), here, "handle", ValueError, "-5");
    refused(read(StreamObject::Ptr(-1)), here, "handle", ValueError, "-1");
    refused(read(StreamObject::Other("float".into())), here, "type", TypeError, "float");
}

#[test]
fn handles_are_those_that_a_device_borrows() {
    assert_eq!(StreamOrder::Unordered.handle(), None);
    assert_eq!(StreamOrder::Default.handle(), Some(0));
    assert_eq!(StreamOrder::PerThread.handle(), Some(2));
    assert_eq!(StreamOrder::Native(77).handle(), Some(77));
}
