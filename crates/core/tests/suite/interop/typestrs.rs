//! Type strings of NumPy.

use haloport_core::ElementType;
use haloport_core::interop::{Protocol, typestr};

use super::arrays::ELEMENTS;
use super::{BufferError, ValueError, refused};

const NATIVE: char = if cfg!(target_endian = "little") { '<' } else { '>' };
const OTHER: char = if cfg!(target_endian = "little") { '>' } else { '<' };

#[test]
fn every_type_comes_back() {
    for element in ELEMENTS {
        match typestr::of(Protocol::CudaArray, element) {
            Ok(text) => assert_eq!(typestr::parse(Protocol::CudaArray, &text), Ok(element)),
            error => refused(error, Protocol::CudaArray, "typestr", BufferError, &element.to_string()),
        }
    }
    let known = [
        ("i1", ElementType::I8),
        ("u1", ElementType::U8),
        ("b1", ElementType::U8),
        ("i2", ElementType::I16),
        ("u4", ElementType::U32),
        ("i8", ElementType::I64),
        ("f2", ElementType::F16),
        ("f4", ElementType::F32),
        ("f8", ElementType::F64),
        ("c8", ElementType::Complex32),
        ("c16", ElementType::Complex64),
    ];
    for (text, element) in known {
        assert_eq!(typestr::parse(Protocol::CudaArray, &format!("{NATIVE}{text}")), Ok(element));
    }
    assert_eq!(typestr::parse(Protocol::CudaArray, "|u1"), Ok(ElementType::U8));
    // As dpnp writes it.
    assert_eq!(typestr::parse(Protocol::SyclUsmArray, "|f8"), Ok(ElementType::F64));
    assert_eq!(typestr::of(Protocol::CudaArray, ElementType::U8).unwrap(), "|u1");
    let record = ElementType::record(12).unwrap();
    for text in ["|V12", "<V12", ">V12"] {
        assert_eq!(typestr::parse(Protocol::CudaArray, text), Ok(record), "{text}");
    }
    assert_eq!(typestr::of(Protocol::CudaArray, record).unwrap(), "|V12");
    refused(typestr::parse(Protocol::CudaArray, "|V0"), Protocol::CudaArray, "typestr", ValueError, "|V0");
}

#[test]
fn other_byte_orders_and_types_cannot_be_shared() {
    let parse = |text: &str| typestr::parse(Protocol::SyclUsmArray, text);
    for text in ["f8", "i2", "u1", "c16"] {
        let text = format!("{OTHER}{text}");
        refused(parse(&text), Protocol::SyclUsmArray, "typestr", BufferError, &text);
    }
    for text in ["f16", "f1", "i16", "i3", "c4", "c32", "b2", "M8", "m8", "O8", "S4", "U4", "t4", "f0"] {
        let text = format!("{NATIVE}{text}");
        refused(parse(&text), Protocol::SyclUsmArray, "typestr", BufferError, &text);
    }
}

#[test]
fn what_is_no_type_string_is_malformed() {
    let huge = format!("<f{}", "9".repeat(30));
    for text in [
        "", "<", "<f", "f8", "=f8", "<x8", "<f8 ", " <f8", "<f-8", "<f+8", "<f8.0", "<é8", "é", "<f٨",
        "float64", &huge,
    ] {
        refused(typestr::parse(Protocol::CudaArray, text), Protocol::CudaArray, "typestr", ValueError, text);
    }
}
