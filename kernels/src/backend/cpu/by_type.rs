//! From the type of a tensor, known at run time, to the type that a kernel is compiled for.

/// Runs `$body` with names for types.
macro_rules! with {
    ($($name:ident = $type:ty),+ => $body:expr) => {{
        $(type $name = $type;)+
        $body
    }};
}

/// Runs `$body` with `$t` as the floating-point type `$dtype`; otherwise `$else`.
macro_rules! by_float {
    ($dtype:expr, $t:ident => $body:expr, else $else:expr) => {
        match $dtype {
            $crate::tensor::DType::F64 => $crate::backend::cpu::by_type::with!($t = f64 => $body),
            $crate::tensor::DType::F32 => $crate::backend::cpu::by_type::with!($t = f32 => $body),
            $crate::tensor::DType::Bf16 => $crate::backend::cpu::by_type::with!($t = half::bf16 => $body),
            $crate::tensor::DType::F16 => $crate::backend::cpu::by_type::with!($t = half::f16 => $body),
            $crate::tensor::DType::U32 | $crate::tensor::DType::U8 => $else,
        }
    };
}

/// Runs `$body` with `$t` as the type of the operands and `$w` as the type of the sum: the same, or f32 for a narrower
/// one; otherwise `$else`.
macro_rules! by_sum {
    ($from:expr, $to:expr, $t:ident, $w:ident => $body:expr, else $else:expr) => {{
        use $crate::tensor::DType::{Bf16, F16, F32, F64};
        match ($from, $to) {
            (F64, F64) => $crate::backend::cpu::by_type::with!($t = f64, $w = f64 => $body),
            (F32, F32) => $crate::backend::cpu::by_type::with!($t = f32, $w = f32 => $body),
            (Bf16, Bf16) => $crate::backend::cpu::by_type::with!($t = half::bf16, $w = half::bf16 => $body),
            (Bf16, F32) => $crate::backend::cpu::by_type::with!($t = half::bf16, $w = f32 => $body),
            (F16, F16) => $crate::backend::cpu::by_type::with!($t = half::f16, $w = half::f16 => $body),
            (F16, F32) => $crate::backend::cpu::by_type::with!($t = half::f16, $w = f32 => $body),
            _ => $else,
        }
    }};
}

pub(super) use {by_float, by_sum, with};
