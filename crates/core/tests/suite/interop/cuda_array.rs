//! `__cuda_array_interface__`.

use haloport_core::ElementType;
use haloport_core::interop::cuda_array::CudaArrayInterface;
use haloport_core::interop::stream::StreamOrder;
use haloport_core::interop::{ArrayDevice, ArrayDeviceKind, Protocol};

use super::arrays::made;
use super::{BufferError, ValueError, refused};

const HERE: Protocol = Protocol::CudaArray;

fn whole() -> CudaArrayInterface {
    CudaArrayInterface {
        shape: Some(vec![3, 4]),
        typestr: Some("<f8".into()),
        data: Some((0x10000, false)),
        version: Some(3),
        strides: Some(vec![32, -8]),
        masked: false,
        stream: Some(2),
    }
}

#[test]
#[cfg(target_endian = "little")]
fn members_are_read() {
    let (array, stream) = whole().describe().unwrap();
    assert_eq!(array.element(), ElementType::F64);
    assert_eq!((array.shape(), array.strides()), (&[3, 4][..], &[4, -1][..]));
    assert_eq!(array.addresses(), 0x10000 - 24..0x10000 + 72);
    assert_eq!(array.device(), ArrayDevice { kind: ArrayDeviceKind::Cuda, index: None });
    assert_eq!((array.read_only(), stream), (false, StreamOrder::PerThread));

    let (array, stream) = CudaArrayInterface {
        strides: None,
        stream: None,
        version: Some(2),
        data: Some((0x10000, true)),
        ..whole()
    }
    .describe()
    .unwrap();
    assert_eq!((array.strides(), array.is_contiguous()), (&[4, 1][..], true));
    assert_eq!((array.read_only(), stream), (true, StreamOrder::Unordered));

    let empty = CudaArrayInterface { shape: Some(vec![0, 4]), data: Some((0, false)), ..whole() };
    assert_eq!(empty.describe().unwrap().0.elements(), 0);
    // The stride along an axis of one element does not matter.
    let odd = CudaArrayInterface { shape: Some(vec![1, 4]), strides: Some(vec![5, 8]), ..whole() };
    assert_eq!(odd.describe().unwrap().0.strides(), [1, 1]);
}

#[test]
#[cfg(target_endian = "little")]
fn each_malformed_member_has_its_own_error() {
    let no = |members: CudaArrayInterface, field, exception, found| {
        refused(members.describe(), HERE, field, exception, found);
    };
    no(CudaArrayInterface { version: None, ..whole() }, "version", ValueError, "nothing");
    no(CudaArrayInterface { version: Some(4), ..whole() }, "version", ValueError, "4");
    no(CudaArrayInterface { version: Some(1), ..whole() }, "version", ValueError, "1");
    no(CudaArrayInterface { masked: true, ..whole() }, "mask", BufferError, "one");
    no(CudaArrayInterface { typestr: None, ..whole() }, "typestr", ValueError, "nothing");
    no(CudaArrayInterface { typestr: Some(">f8".into()), ..whole() }, "typestr", BufferError, ">f8");
    no(CudaArrayInterface { shape: None, ..whole() }, "shape", ValueError, "nothing");
    no(CudaArrayInterface { shape: Some(vec![3, -4]), ..whole() }, "shape", ValueError, "-4");
    no(CudaArrayInterface { data: None, ..whole() }, "data", ValueError, "nothing");
    no(CudaArrayInterface { data: Some((0, false)), ..whole() }, "data", ValueError, "null");
    no(CudaArrayInterface { data: Some((0x10001, false)), ..whole() }, "data", BufferError, "0x10001");
    no(CudaArrayInterface { strides: Some(vec![32]), ..whole() }, "strides", ValueError, "[32]");
    no(CudaArrayInterface { strides: Some(vec![36, 12]), ..whole() }, "strides", BufferError, "[36, 12]");
    no(CudaArrayInterface { strides: Some(vec![i64::MIN, 8]), ..whole() }, "strides", ValueError, "-11529");
    no(CudaArrayInterface { stream: Some(0), ..whole() }, "stream", ValueError, "0");
}

#[test]
#[cfg(target_endian = "little")]
fn arrays_of_ours_are_written() {
    let contiguous = made(&[3, 4], &[4, 1], ArrayDeviceKind::CudaManaged);
    let expected = CudaArrayInterface { strides: None, ..whole() };
    assert_eq!(CudaArrayInterface::of(&contiguous, StreamOrder::PerThread), Ok(expected));
    let reversed = made(&[3, 4], &[4, -1], ArrayDeviceKind::Cuda);
    assert_eq!(CudaArrayInterface::of(&reversed, StreamOrder::PerThread), Ok(whole()));
    let empty = made(&[3, 0], &[4, 1], ArrayDeviceKind::Cuda).for_reading();
    assert_eq!(CudaArrayInterface::of(&empty, StreamOrder::Unordered).unwrap().data, Some((0, true)));
    let elsewhere = CudaArrayInterface::of(&made(&[3], &[1], ArrayDeviceKind::Host), StreamOrder::Unordered);
    refused(elsewhere, HERE, "data", BufferError, "memory of the host");
}
