//! Copies that change signs and reverse axes of the source, as across the edges of a cubed sphere.

use half::f16;
use haloport_core::device::{
    BoxCopy, Buffer, CopyAxis, CopyItem, CopyRows, Device, DeviceError, IndexedCopy, NextReader, Pointer,
    Priority, SignChange,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::blocks::Ends;
use super::bytes::{random_bytes, read_on, upload_bytes};
use super::cases::BoxCase;
use crate::{Failure, ensure};

const CHANGES: [SignChange; 8] = [
    SignChange::Float16,
    SignChange::Float32,
    SignChange::Float64,
    SignChange::Int8,
    SignChange::Int16,
    SignChange::Int32,
    SignChange::Int64,
    SignChange::Int128,
];

pub(super) fn sign_changes<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut random = StdRng::seed_from_u64(6);
    for round in 0..24 {
        // Some are large enough to be spread over threads.
        let extent = if round % 8 == 7 { 24 } else { 6 };
        let mut cases: Vec<SignCase> = (0..12).map(|_| SignCase::random(&mut random, extent)).collect();
        if round == 23 {
            cases.push(SignCase::one_run());
        }
        let mut items = Vec::new();
        let mut buffers = Vec::new();
        let mut ends = Ends::new(round % 2 > 0);
        for case in &cases {
            let source = upload_bytes(device, &case.source())?;
            let target = case.case.target(device)?;
            let (from, to, anchors) = ends.of(source.pointer(), target.pointer());
            items.push(CopyItem::Box(case.copy(from, to)?.anchored(anchors)));
            buffers.push((source, target));
        }
        let list = device.bind_copies(items, NextReader::Elsewhere)?;
        // SAFETY: the cases stay within their buffers, which live until the reads have returned.
        unsafe { device.run_copies(&list, &ends.bases, &stream)? };
        for (case, (_, target)) in cases.iter().zip(&buffers) {
            let found = read_on(device, target.pointer(), case.case.target_bytes, &stream)?;
            ensure!(found == case.expected(), "a copy with changed signs is wrong: {case:?}");
        }
    }
    refusals(device)
}

/// Elements and sign changes that do not fit together.
fn refusals<D: Device>(device: &D) -> Result<(), Failure> {
    let buffer = upload_bytes(device, &[0; 64])?;
    let copy = BoxCopy::new(buffer.pointer(), buffer.pointer().offset(32), 12, &[])?;
    ensure!(copy.with_sign_change(SignChange::Float64).is_err(), "12 bytes were taken for floats of 8");
    let rows = || CopyRows { stride: 12, indices: None };
    let refused = IndexedCopy::new(copy.with_sign_change(SignChange::Int32)?, 2, rows(), rows());
    ensure!(refused.is_err(), "an indexed copy took a row that changes signs");
    Ok(())
}

/// A random copy with changed signs, and the axes along which it reverses the source.
#[derive(Debug)]
struct SignCase {
    case: BoxCase,
    backwards: Vec<bool>,
    change: SignChange,
}

impl SignCase {
    fn random(random: &mut StdRng, extent: usize) -> SignCase {
        let case = BoxCase::random(random, extent);
        let backwards = case.axes.iter().map(|_| random.random_bool(0.4)).collect();
        let fitting: Vec<_> =
            CHANGES.into_iter().filter(|change| case.element_bytes.is_multiple_of(change.bytes())).collect();
        let change = fitting[random.random_range(0..fitting.len())];
        SignCase { case, backwards, change }
    }

    /// Elements without gaps, which a device may cut between any two numbers.
    fn one_run() -> SignCase {
        let (element_bytes, extent) = (24, 100_001);
        let axes = vec![CopyAxis { extent, source_stride: 24, target_stride: 24 }];
        let bytes = extent * element_bytes;
        let case = BoxCase { element_bytes, axes, source_bytes: bytes, target_bytes: bytes, seed: 7 };
        SignCase { case, backwards: vec![false], change: SignChange::Float64 }
    }

    fn copy(&self, source: Pointer, target: Pointer) -> Result<BoxCopy, DeviceError> {
        let mut far = 0;
        let mut axes = self.case.axes.clone();
        for axis in axes.iter_mut().zip(&self.backwards).filter_map(|(axis, back)| back.then_some(axis)) {
            far += (axis.extent as isize - 1) * axis.source_stride;
            axis.source_stride = -axis.source_stride;
        }
        BoxCopy::new(source.offset(far), target, self.case.element_bytes, &axes)?
            .with_sign_change(self.change)
    }

    /// Random numbers, among them zeros, the lowest numbers and NaNs.
    fn source(&self) -> Vec<u8> {
        let mut bytes = random_bytes(self.case.seed, self.case.source_bytes);
        for (number, bytes) in bytes.chunks_exact_mut(self.change.bytes()).enumerate() {
            let (rest, highest) = match number % 23 {
                0 => (0x00, 0x00),
                1 => (0x00, 0x80),
                2 => (0xFF, 0xFF),
                3 => (0xFF, 0x7F),
                _ => continue,
            };
            bytes.fill(rest);
            let last = if cfg!(target_endian = "little") { bytes.len() - 1 } else { 0 };
            bytes[last] = highest;
        }
        bytes
    }

    /// The target after the copy, number by number.
    fn expected(&self) -> Vec<u8> {
        let BoxCase { element_bytes, axes, target_bytes, .. } = &self.case;
        let source = self.source();
        let mut target = vec![0xA5; *target_bytes];
        let points: usize = axes.iter().map(|axis| axis.extent).product();
        for mut point in 0..points {
            let (mut from, mut to) = (0, 0);
            for (axis, &backwards) in axes.iter().zip(&self.backwards) {
                let index = point % axis.extent;
                point /= axis.extent;
                let there = if backwards { axis.extent - 1 - index } else { index };
                from += there * axis.source_stride.unsigned_abs();
                to += index * axis.target_stride.unsigned_abs();
            }
            let size = self.change.bytes();
            for at in (0..*element_bytes).step_by(size) {
                let negated = negated(self.change, &source[from + at..from + at + size]);
                target[to + at..to + at + size].copy_from_slice(&negated);
            }
        }
        target
    }
}

/// Negates a number by Rust's arithmetic.
fn negated(change: SignChange, bytes: &[u8]) -> Vec<u8> {
    macro_rules! minus {
        ($number:ty, $minus:expr) => {{
            let minus: fn($number) -> $number = $minus;
            bytemuck::bytes_of(&minus(bytemuck::pod_read_unaligned(bytes))).to_vec()
        }};
    }
    match change {
        SignChange::Float16 => minus!(f16, |number| -number),
        SignChange::Float32 => minus!(f32, |number| -number),
        SignChange::Float64 => minus!(f64, |number| -number),
        SignChange::Int8 => minus!(i8, |number| 0i8.wrapping_sub(number)),
        SignChange::Int16 => minus!(i16, |number| 0i16.wrapping_sub(number)),
        SignChange::Int32 => minus!(i32, |number| 0i32.wrapping_sub(number)),
        SignChange::Int64 => minus!(i64, |number| 0i64.wrapping_sub(number)),
        SignChange::Int128 => minus!(i128, |number| 0i128.wrapping_sub(number)),
    }
}
