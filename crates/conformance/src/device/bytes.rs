//! Bytes and numbers to a device and back.

use haloport_core::device::{Buffer, Device, DeviceError, MemoryKind, Pointer, Priority};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(super) fn random_bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..count).map(|_| random.random()).collect()
}

pub(super) fn floats(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect()
}

pub(super) fn upload<D: Device>(device: &D, values: &[f64]) -> Result<D::Buffer, DeviceError> {
    upload_bytes(device, bytemuck::cast_slice(values))
}

pub(super) fn upload_bytes<D: Device>(device: &D, bytes: &[u8]) -> Result<D::Buffer, DeviceError> {
    let buffer = device.allocate(bytes.len(), MemoryKind::Device)?;
    let stream = device.create_stream(Priority::Normal)?;
    // SAFETY: the buffer is as long as the bytes and lives until the stream is synchronised.
    unsafe { device.write(bytes, buffer.pointer(), &stream)? };
    device.synchronize(&stream)?;
    Ok(buffer)
}

pub(super) fn read<D: Device>(device: &D, pointer: Pointer, bytes: usize) -> Result<Vec<u8>, DeviceError> {
    read_on(device, pointer, bytes, &device.default_stream())
}

pub(super) fn read_on<D: Device>(
    device: &D,
    pointer: Pointer,
    bytes: usize,
    stream: &D::Stream,
) -> Result<Vec<u8>, DeviceError> {
    let mut found = vec![0; bytes];
    // SAFETY: callers read from live buffers of at least this length, in order with the stream that wrote them.
    unsafe { device.read(pointer, &mut found, stream)? };
    Ok(found)
}
