//! Numbers of the host.

use super::DType;

/// Numbers of the host on their way to a tensor.
#[derive(Debug, Clone, Copy)]
pub enum HostSlice<'a> {
    /// Converted to the tensor's floating-point type.
    F32(&'a [f32]),
    /// For tensors of `U32`.
    U32(&'a [u32]),
    /// For tensors of `U8`.
    U8(&'a [u8]),
    /// For tensors of this type: the bytes of their elements.
    Rounded(&'a [u8], DType),
}

impl HostSlice<'_> {
    /// How many numbers.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(s) => s.len(),
            Self::U32(s) => s.len(),
            Self::U8(s) => s.len(),
            Self::Rounded(s, dtype) => s.len() / dtype.size(),
        }
    }

    /// Whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
