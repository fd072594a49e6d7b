//! The types of a tensor's elements.

use serde::Serialize;

/// Type of the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE double precision.
    F64,
    /// IEEE single precision.
    F32,
    /// bfloat16: the range of f32 in 16 bits, 8 bits of precision.
    Bf16,
    /// IEEE half precision: 11 bits of precision, largest value 65504.
    F16,
    /// Labels and indices.
    U32,
    /// Positions inside a pooling window.
    U8,
}

impl DType {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::U32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::U8 => 1,
        }
    }

    /// Whether it is a floating-point type of 16 bits.
    pub const fn is_half(self) -> bool {
        matches!(self, Self::Bf16 | Self::F16)
    }

    /// Type of the sums, means and statistics that are made of its elements: f32, or f64 for f64.
    pub const fn accumulator(self) -> Self {
        match self {
            Self::F64 => Self::F64,
            Self::F32 | Self::Bf16 | Self::F16 | Self::U32 | Self::U8 => Self::F32,
        }
    }

    /// The name on screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::U32 => "u32",
            Self::U8 => "u8",
        }
    }

    /// The name in the header of a safetensors file.
    pub const fn safetensors_name(self) -> &'static str {
        match self {
            Self::F64 => "F64",
            Self::F32 => "F32",
            Self::Bf16 => "BF16",
            Self::F16 => "F16",
            Self::U32 => "U32",
            Self::U8 => "U8",
        }
    }
}
