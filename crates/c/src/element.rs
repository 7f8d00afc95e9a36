//! Element types by their numbers in `hp_type` of the header.

use haloport::ElementType;

/// `HP_BYTES` of the header.
pub(crate) const BYTES: i32 = 15;

/// The element type that has this number in `hp_type`, other than `HP_BYTES`.
pub(crate) fn element_type(number: i32) -> Option<ElementType> {
    const NUMBERED: [ElementType; BYTES as usize - 1] = [
        ElementType::I8,
        ElementType::I16,
        ElementType::I32,
        ElementType::I64,
        ElementType::U8,
        ElementType::U16,
        ElementType::U32,
        ElementType::U64,
        ElementType::F16,
        ElementType::Bf16,
        ElementType::F32,
        ElementType::F64,
        ElementType::Complex32,
        ElementType::Complex64,
    ];
    NUMBERED.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
}
