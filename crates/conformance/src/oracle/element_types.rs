//! A type for what an [`ElementType`](haloport_core::ElementType) names.

/// The body with `$T` as the type that `$element` names; returns an error for one that is not known here.
macro_rules! for_type {
    ($element:expr, $T:ident => $body:expr) => {
        for_type!(
            $element, $T => $body,
            I8 => i8, I16 => i16, I32 => i32, I64 => i64, I128 => i128,
            U8 => u8, U16 => u16, U32 => u32, U64 => u64, U128 => u128,
            F16 => half::f16, Bf16 => half::bf16, F32 => f32, F64 => f64,
            Complex32 => num_complex::Complex<f32>, Complex64 => num_complex::Complex<f64>
        )
    };
    ($element:expr, $T:ident => $body:expr, $($name:ident => $rust:ty),*) => {
        match $element {
            $(ElementType::$name => {
                type $T = $rust;
                $body
            })*
            other => return Err(format!("the suite does not know the element type {other}").into()),
        }
    };
}
pub(super) use for_type;
