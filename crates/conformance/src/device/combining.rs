//! Copies that combine numbers with those at their targets.

use half::{bf16, f16};
use haloport_core::ElementType;
use haloport_core::device::{
    Anchors, Buffer, Combine, CombineItem, Combining, CopyItem, Device, Pointer, Priority, SignChange,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::blocks::Ends;
use super::bytes::{random_bytes, read_on, upload_bytes};
use super::cases::{BoxCase, Gather};
use crate::{Failure, ensure};

const ELEMENTS: [ElementType; 16] = [
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

pub(super) fn combining<D: Device>(device: &D) -> Result<(), Failure> {
    let Some(role) = device.combining() else {
        println!("skipped: {} has no copies that combine", device.info().id);
        return Ok(());
    };
    let stream = device.create_stream(Priority::Normal)?;
    let mut random = StdRng::seed_from_u64(11);
    for round in 0..12 {
        let cases: Vec<Case> = ELEMENTS
            .into_iter()
            .filter(|element| is_computed(device, *element))
            .map(|element| Case::random(&mut random, element))
            .collect();
        let (mut items, mut buffers) = (Vec::new(), Vec::new());
        let mut ends = Ends::new(round % 2 > 0);
        for case in &cases {
            let (source, target) = (upload_bytes(device, &case.source)?, upload_bytes(device, &case.target)?);
            let ends = ends.of(source.pointer(), target.pointer());
            items.push(CombineItem { copy: case.copy(ends)?, combine: case.combine, element: case.element });
            buffers.push((source, target));
        }
        let list = role.bind_combining(items)?;
        // SAFETY: the cases stay within their buffers, which live until the reads have returned; numbers are aligned, as
        // buffers and all strides are.
        unsafe { device.run_copies(&list, &ends.bases, &stream)? };
        for (case, (_, target)) in cases.iter().zip(&buffers) {
            let found = read_on(device, target.pointer(), case.target.len(), &stream)?;
            case.compare(&found)?;
        }
    }
    refusals(device, role)
}

/// Whether the device computes with such numbers.
fn is_computed<D: Device>(device: &D, element: ElementType) -> bool {
    device.info().double_precision || !matches!(element, ElementType::F64 | ElementType::Complex64)
}

/// Lists that are no combinations.
fn refusals<D: Device>(device: &D, role: &dyn Combining<D::Copies>) -> Result<(), Failure> {
    let buffer = upload_bytes(device, &[0; 64])?;
    let case =
        |bytes| BoxCase { element_bytes: bytes, axes: vec![], source_bytes: 32, target_bytes: 32, seed: 0 };
    for (bytes, combine, element) in [
        (12, Combine::Sum, ElementType::I64),
        (16, Combine::Max, ElementType::Complex32),
        (8, Combine::Replace, ElementType::I64),
    ] {
        let copy = CopyItem::Box(case(bytes).copy(buffer.pointer(), buffer.pointer().offset(32))?);
        let refused = role.bind_combining(vec![CombineItem { copy, combine, element }]);
        ensure!(refused.is_err(), "{} of {element} in runs of {bytes} bytes was taken", combine.name());
    }
    Ok(())
}

/// A random copy of some elements.
#[derive(Debug)]
struct Case {
    places: Places,
    element: ElementType,
    combine: Combine,
    sign: Option<SignChange>,
    source: Vec<u8>,
    target: Vec<u8>,
}

#[derive(Debug)]
enum Places {
    Box(BoxCase),
    Rows(Gather),
}

impl Case {
    fn random(random: &mut StdRng, element: ElementType) -> Case {
        let operations = [Combine::Sum, Combine::Min, Combine::Max];
        let defined: Vec<_> = operations.into_iter().filter(|it| it.is_defined_for(element)).collect();
        let combine = defined[random.random_range(0..defined.len())];
        // Devices may have other loops for long runs, and for many rows.
        let longest = if random.random_bool(0.25) { 40 } else { 4 };
        let run = element.bytes() * random.random_range(1..=longest);
        let places = BoxCase::of_elements(random, 7, run);
        let (places, sign) = if random.random_bool(0.5) {
            let most_bytes = if random.random_bool(0.2) { 150_000 } else { 10_000 };
            (Places::Rows(Gather::of_rows(random, places, most_bytes)), None)
        } else {
            (Places::Box(places), element.sign_change().filter(|_| random.random_bool(0.5)))
        };
        let (source_bytes, target_bytes) = match &places {
            Places::Box(case) => (case.source_bytes, case.target_bytes),
            Places::Rows(case) => (case.source.bytes, case.target.bytes),
        };
        let [source, target] = [source_bytes, target_bytes].map(|bytes| values(random, element, bytes));
        Case { places, element, combine, sign, source, target }
    }

    fn copy(&self, ends: (Pointer, Pointer, Anchors)) -> Result<CopyItem, Failure> {
        Ok(match &self.places {
            Places::Box(case) => {
                let (source, target, anchors) = ends;
                let copy = case.copy(source, target)?.anchored(anchors);
                CopyItem::Box(match self.sign {
                    Some(change) => copy.with_sign_change(change)?,
                    None => copy,
                })
            }
            Places::Rows(case) => CopyItem::Indexed(case.copy(ends)?),
        })
    }

    fn compare(&self, found: &[u8]) -> Result<(), Failure> {
        let Case { places, element, combine, sign, source, target } = self;
        let mut expected = target.clone();
        let apply = |arrived: &[u8], there: &mut [u8]| {
            for (arrived, there) in arrived.chunks(element.bytes()).zip(there.chunks_mut(element.bytes())) {
                combined(*element, *combine, sign.is_some(), arrived, there);
            }
        };
        match places {
            Places::Box(case) => case.for_each_element(source, &mut expected, apply),
            Places::Rows(case) => case.for_each_element(source, &mut expected, apply),
        }
        let pairs = expected.chunks(element.bytes()).zip(found.chunks(element.bytes())).enumerate();
        for (at, (expected, found)) in pairs {
            ensure!(
                is_same(*element, expected, found),
                "{} of {element}, sign {sign:?}: element {at} is {found:x?}, expected {expected:x?}; {places:?}",
                combine.name()
            );
        }
        Ok(())
    }
}

/// Numbers with any bits; of floats, every second one is near 1.
fn values(random: &mut StdRng, element: ElementType, bytes: usize) -> Vec<u8> {
    macro_rules! near_one {
        ($number:ty, $of:expr) => {{
            let mut bytes = random_bytes(random.random(), bytes);
            for bytes in bytes.chunks_exact_mut(size_of::<$number>()).step_by(2) {
                let number: $number = $of(random.random_range(-2.0..2.0));
                bytes.copy_from_slice(bytemuck::bytes_of(&number));
            }
            bytes
        }};
    }
    match element {
        ElementType::F16 => near_one!(f16, f16::from_f64),
        ElementType::Bf16 => near_one!(bf16, bf16::from_f64),
        ElementType::F32 | ElementType::Complex32 => near_one!(f32, |value: f64| value as f32),
        ElementType::F64 | ElementType::Complex64 => near_one!(f64, |value: f64| value),
        _ => random_bytes(random.random(), bytes),
    }
}

/// Combines an element with the one that is there, by Rust's arithmetic.
fn combined(element: ElementType, combine: Combine, negated: bool, arrived: &[u8], there: &mut [u8]) {
    macro_rules! of {
        ($number:ty, $minus:expr, $sum:expr, $is_nan:expr) => {
            for (arrived, there) in
                arrived.chunks(size_of::<$number>()).zip(there.chunks_mut(size_of::<$number>()))
            {
                let (minus, sum, is_nan): (
                    fn($number) -> $number,
                    fn($number, $number) -> $number,
                    fn($number) -> bool,
                ) = ($minus, $sum, $is_nan);
                let (mut new, old): ($number, $number) =
                    (bytemuck::pod_read_unaligned(arrived), bytemuck::pod_read_unaligned(there));
                if negated {
                    new = minus(new);
                }
                let result = match combine {
                    Combine::Sum => sum(old, new),
                    _ if is_nan(new) || is_nan(old) => {
                        if is_nan(new) {
                            new
                        } else {
                            old
                        }
                    }
                    Combine::Min => {
                        if new < old {
                            new
                        } else {
                            old
                        }
                    }
                    _ => {
                        if new > old {
                            new
                        } else {
                            old
                        }
                    }
                };
                there.copy_from_slice(bytemuck::bytes_of(&result));
            }
        };
    }
    macro_rules! integer {
        ($number:ty) => {
            of!($number, |a| a.wrapping_neg(), |a, b| a.wrapping_add(b), |_| false)
        };
    }
    match element {
        ElementType::I8 => integer!(i8),
        ElementType::I16 => integer!(i16),
        ElementType::I32 => integer!(i32),
        ElementType::I64 => integer!(i64),
        ElementType::I128 => integer!(i128),
        ElementType::U8 => integer!(u8),
        ElementType::U16 => integer!(u16),
        ElementType::U32 => integer!(u32),
        ElementType::U64 => integer!(u64),
        ElementType::U128 => integer!(u128),
        // The sum of two numbers of 16 bits is exact in 64, but not that of all bf16, whose range is wider.
        ElementType::F16 => of!(f16, |a| -a, |a, b| f16::from_f64(a.to_f64() + b.to_f64()), f16::is_nan),
        ElementType::Bf16 => of!(bf16, |a| -a, |a, b| bf16::from_f32(a.to_f32() + b.to_f32()), bf16::is_nan),
        ElementType::F32 | ElementType::Complex32 => of!(f32, |a| -a, |a, b| a + b, f32::is_nan),
        ElementType::F64 | ElementType::Complex64 => of!(f64, |a| -a, |a, b| a + b, f64::is_nan),
        _ => there.copy_from_slice(arrived),
    }
}

/// Whether two elements have the same bits; any NaN is like any other.
fn is_same(element: ElementType, expected: &[u8], found: &[u8]) -> bool {
    macro_rules! floats {
        ($number:ty) => {{
            let numbers = |bytes: &[u8]| -> Vec<$number> {
                bytes.chunks(size_of::<$number>()).map(bytemuck::pod_read_unaligned).collect()
            };
            let pairs = numbers(expected).into_iter().zip(numbers(found));
            pairs.into_iter().all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
        }};
    }
    match element {
        ElementType::F16 => floats!(f16),
        ElementType::Bf16 => floats!(bf16),
        ElementType::F32 | ElementType::Complex32 => floats!(f32),
        ElementType::F64 | ElementType::Complex64 => floats!(f64),
        _ => expected == found,
    }
}
