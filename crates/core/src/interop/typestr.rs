//! The type strings of NumPy's array interface: byte order, kind and bytes, such as `<f8`.

use super::{InteropError, Protocol};
use crate::element::ElementType;

/// The byte order of this machine.
const NATIVE: char = if cfg!(target_endian = "little") { '<' } else { '>' };

/// The element type of `typestr`. That of `|b1` is [`ElementType::U8`].
///
/// # Errors
/// `ValueError` for an invalid type string; `BufferError` for the other byte order, and for types that fields do not
/// have.
pub fn parse(protocol: Protocol, typestr: &str) -> Result<ElementType, InteropError> {
    let fault = protocol.fault("typestr");
    let malformed = || {
        let expected = "byte order, kind and bytes, such as `<f8`";
        fault.value(expected, format!("{typestr:?}"), "correct the producer")
    };
    let mut rest = typestr.chars();
    let (Some(order), Some(kind)) = (rest.next(), rest.next()) else { return Err(malformed()) };
    let digits = rest.as_str();
    if !"<>|".contains(order)
        || !"tbiufcmMOSUV".contains(kind)
        || !digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(malformed());
    }
    let bytes: usize = digits.parse().map_err(|_| malformed())?;
    if kind == 'V' {
        // Records have no byte order, whatever the producer writes.
        return ElementType::record(bytes).ok_or_else(malformed);
    }
    use ElementType::*;
    let element = match (kind, bytes) {
        ('i', 1) => I8,
        ('i', 2) => I16,
        ('i', 4) => I32,
        ('i', 8) => I64,
        ('u' | 'b', 1) => U8,
        ('u', 2) => U16,
        ('u', 4) => U32,
        ('u', 8) => U64,
        ('f', 2) => F16,
        ('f', 4) => F32,
        ('f', 8) => F64,
        ('c', 8) => Complex32,
        ('c', 16) => Complex64,
        _ => {
            let expected = "integers of 1 to 8 bytes, floats of 2 to 8, complex numbers of 8 or 16, records";
            return Err(fault.buffer(
                expected,
                format!("{typestr:?}"),
                "convert the array to one of these types",
            ));
        }
    };
    match order {
        // Strictly for single bytes. But dpnp writes it for all types, and NumPy reads it as the order of this machine.
        '|' => Ok(element),
        order if order == NATIVE => Ok(element),
        _ => {
            let expected = format!("the byte order `{NATIVE}` of this machine");
            Err(fault.buffer(expected, format!("{typestr:?}"), "convert the array to the native byte order"))
        }
    }
}

/// The type string of an element type.
///
/// # Errors
/// `BufferError` for bfloat16 and 128-bit integers, which do not have one.
pub fn of(protocol: Protocol, element: ElementType) -> Result<String, InteropError> {
    use ElementType::*;
    let kind = match element {
        I8 | I16 | I32 | I64 => 'i',
        U8 | U16 | U32 | U64 => 'u',
        F16 | F32 | F64 => 'f',
        Complex32 | Complex64 => 'c',
        Bytes(bytes) => return Ok(format!("|V{bytes}")),
        Bf16 | I128 | U128 => {
            let expected = "a type that has a type string";
            return Err(protocol.fault("typestr").buffer(expected, element, "use DLPack for this array"));
        }
    };
    let bytes = element.bytes();
    let order = if bytes == 1 { '|' } else { NATIVE };
    Ok(format!("{order}{kind}{bytes}"))
}
