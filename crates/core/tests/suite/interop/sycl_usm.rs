//! `__sycl_usm_array_interface__`.

use haloport_core::interop::sycl_usm::*;
use haloport_core::interop::{ArrayDevice, ArrayDeviceKind, Protocol};

use super::arrays::made;
use super::{BufferError, TypeError, ValueError, refused};

const HERE: Protocol = Protocol::SyclUsmArray;

fn whole() -> SyclUsmArrayInterface {
    SyclUsmArrayInterface {
        shape: Some(vec![3, 4]),
        typestr: Some("<f8".into()),
        data: Some((0x10000, true)),
        version: Some(1),
        strides: Some(vec![4, -1]),
        offset: Some(3),
        syclobj: Some(SyclObject::Queue(0x500)),
    }
}

#[test]
#[cfg(target_endian = "little")]
fn members_are_read() {
    let (array, owner) = whole().describe().unwrap();
    assert_eq!((array.shape(), array.strides()), (&[3, 4][..], &[4, -1][..]));
    assert_eq!(array.first().as_ptr().addr(), 0x10000 + 24);
    assert_eq!(array.addresses(), 0x10000..0x10000 + 96);
    assert_eq!(array.device(), ArrayDevice { kind: ArrayDeviceKind::Usm, index: None });
    assert!(!array.read_only(), "the flag is not trusted");
    assert_eq!(owner, SyclOwner::Queue(0x500));
    let (array, _) = SyclUsmArrayInterface { strides: None, offset: None, ..whole() }.describe().unwrap();
    assert_eq!((array.addresses(), array.is_contiguous()), (0x10000..0x10060, true));
}

#[test]
#[cfg(target_endian = "little")]
fn each_malformed_member_has_its_own_error() {
    let no = |members: SyclUsmArrayInterface, field, exception, found| {
        refused(members.describe(), HERE, field, exception, found);
    };
    no(SyclUsmArrayInterface { version: None, ..whole() }, "version", ValueError, "nothing");
    no(SyclUsmArrayInterface { version: Some(2), ..whole() }, "version", ValueError, "2");
    no(SyclUsmArrayInterface { typestr: None, ..whole() }, "typestr", ValueError, "nothing");
    no(SyclUsmArrayInterface { typestr: Some("<M8".into()), ..whole() }, "typestr", BufferError, "<M8");
    no(SyclUsmArrayInterface { shape: None, ..whole() }, "shape", ValueError, "nothing");
    no(SyclUsmArrayInterface { shape: Some(vec![-3, 4]), ..whole() }, "shape", ValueError, "-3");
    no(SyclUsmArrayInterface { data: None, ..whole() }, "data", ValueError, "nothing");
    no(SyclUsmArrayInterface { data: Some((0, false)), ..whole() }, "data", ValueError, "null");
    no(SyclUsmArrayInterface { data: Some((0x10004, false)), ..whole() }, "data", BufferError, "0x1001c");
    no(SyclUsmArrayInterface { strides: Some(vec![4, 1, 1]), ..whole() }, "strides", ValueError, "[4, 1, 1]");
    no(SyclUsmArrayInterface { strides: Some(vec![i64::MAX, 1]), ..whole() }, "strides", ValueError, "9223");
    no(SyclUsmArrayInterface { offset: Some(-1), ..whole() }, "offset", ValueError, "-1");
    no(
        SyclUsmArrayInterface { offset: Some(i64::MAX), ..whole() },
        "offset",
        ValueError,
        "73786976294838206456",
    );
    no(SyclUsmArrayInterface { syclobj: None, ..whole() }, "syclobj", ValueError, "nothing");
    let bad = Some(SyclObject::Filter("gpu:opencl".into()));
    no(SyclUsmArrayInterface { syclobj: bad, ..whole() }, "syclobj", ValueError, "gpu:opencl");
}

#[test]
fn owners_come_in_every_form() {
    let capsule = |name: &str, address| SyclObject::Capsule(name.into(), address);
    let within = |name: &str, address| SyclObject::WithCapsule(name.into(), address);
    let filter = SyclFilter { backend: Some("opencl"), device_type: Some(DeviceType::Cpu), index: Some(0) };
    for (object, owner) in [
        (SyclObject::Filter("opencl:cpu:0".into()), SyclOwner::Device(filter)),
        (SyclObject::Context(16), SyclOwner::Context(16)),
        (SyclObject::Queue(16), SyclOwner::Queue(16)),
        (capsule("SyclContextRef", 32), SyclOwner::Context(32)),
        (capsule("SyclQueueRef", 32), SyclOwner::Queue(32)),
        (within("SyclContextRef", 48), SyclOwner::Context(48)),
        (within("SyclQueueRef", 48), SyclOwner::Queue(48)),
    ] {
        assert_eq!(object.resolve(), Ok(owner));
    }
    for object in [SyclObject::Context(0), SyclObject::Queue(0), capsule("SyclQueueRef", 0)] {
        refused(object.resolve(), HERE, "syclobj", ValueError, "0x0");
    }
    for name in ["used_SyclQueueRef", "used_SyclContextRef"] {
        refused(capsule(name, 16).resolve(), HERE, "syclobj", ValueError, name);
        refused(within(name, 16).resolve(), HERE, "syclobj", ValueError, name);
    }
    refused(capsule("dltensor", 16).resolve(), HERE, "syclobj", TypeError, "dltensor");
    refused(within("", 16).resolve(), HERE, "syclobj", TypeError, "\"\"");
    refused(SyclObject::Other("list".into()).resolve(), HERE, "syclobj", TypeError, "list");
}

#[test]
fn filter_strings() {
    for text in
        ["opencl", "gpu", "0", "opencl:gpu", "level_zero:1", "cpu:2", "cuda:gpu:0", "opencl:accelerator:3"]
    {
        assert_eq!(text.parse::<SyclFilter>().unwrap().to_string(), text);
    }
    assert_eq!("acc".parse::<SyclFilter>().unwrap().device_type, Some(DeviceType::Accelerator));
    for text in [
        "",
        ":",
        "opencl:",
        ":gpu",
        "gpu:opencl",
        "0:gpu",
        "0:opencl",
        "gpu:cpu",
        "opencl:opencl",
        "0:1",
        "GPU",
        "opencl:gpu:-1",
        "opencl:gpu:+1",
        "opencl:gpu:0:",
        "opencl:gpu:4294967296",
        "opencl:gpu,cpu",
        " gpu",
        "vulkan",
    ] {
        refused(text.parse::<SyclFilter>(), HERE, "syclobj", ValueError, text);
    }
}

#[test]
#[cfg(target_endian = "little")]
fn arrays_of_ours_are_written() {
    let array = made(&[3, 4], &[4, 1], ArrayDeviceKind::Usm);
    let members = SyclUsmArrayInterface::of(&array, SyclObject::Queue(0x500)).unwrap();
    let expected =
        SyclUsmArrayInterface { strides: None, offset: Some(0), data: Some((0x10000, false)), ..whole() };
    assert_eq!(members, expected);
    let elsewhere = made(&[3], &[1], ArrayDeviceKind::Cuda);
    refused(
        SyclUsmArrayInterface::of(&elsewhere, SyclObject::Queue(1)),
        HERE,
        "data",
        BufferError,
        "CUDA memory",
    );
}
