//! Logits as they come from a device, row by row.

use half::{bf16, f16};

use crate::tensor::DType;

/// Puts parts of bytes together to rows of numbers.
#[derive(Debug)]
pub(super) struct Rows {
    row: Vec<f32>,
    /// The beginning of a row whose rest is in the next part.
    begun: Vec<u8>,
}

impl Rows {
    /// Rows of this many numbers each.
    pub(super) fn new(classes: usize) -> Self {
        Self { row: vec![0.0; classes], begun: Vec::new() }
    }

    /// Hands each row that is whole to `each`.
    pub(super) fn take(&mut self, dtype: DType, mut bytes: &[u8], mut each: impl FnMut(&[f32])) {
        let size = (self.row.len() * dtype.size()).max(1);
        if !self.begun.is_empty() {
            let (end, rest) = bytes.split_at((size - self.begun.len()).min(bytes.len()));
            self.begun.extend(end);
            bytes = rest;
            if self.begun.len() == size {
                read(dtype, &self.begun, &mut self.row);
                self.begun.clear();
                each(&self.row);
            }
        }
        let mut whole = bytes.chunks_exact(size);
        for row in &mut whole {
            read(dtype, row, &mut self.row);
            each(&self.row);
        }
        self.begun.extend(whole.remainder());
    }
}

/// Numbers of a device in the order of its bytes. Logits are of a type that is computed in.
fn read(dtype: DType, bytes: &[u8], to: &mut [f32]) {
    let pairs = to.iter_mut().zip(bytes.chunks_exact(dtype.size()));
    match dtype {
        DType::F32 => pairs.for_each(|(to, b)| *to = f32::from_ne_bytes([b[0], b[1], b[2], b[3]])),
        DType::Bf16 => pairs.for_each(|(to, b)| *to = bf16::from_ne_bytes([b[0], b[1]]).to_f32()),
        DType::F16 => pairs.for_each(|(to, b)| *to = f16::from_ne_bytes([b[0], b[1]]).to_f32()),
        DType::F64 => {
            pairs.for_each(|(to, b)| *to = b.try_into().map_or(f32::NAN, |bytes| f64::from_ne_bytes(bytes) as f32));
        }
        DType::U8 | DType::U32 => to.fill(f32::NAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_however_their_bytes_are_cut() {
        let numbers: Vec<f32> = (0..12).map(|n| n as f32 / 4.0).collect();
        let f32s: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
        let bf16s: Vec<u8> = numbers.iter().flat_map(|n| bf16::from_f32(*n).to_ne_bytes()).collect();
        for (dtype, bytes) in [(DType::F32, f32s), (DType::Bf16, bf16s)] {
            for part in [1, 2, 5, 7, 1000] {
                let (mut rows, mut found) = (Rows::new(4), Vec::new());
                bytes.chunks(part).for_each(|part| rows.take(dtype, part, |row| found.push(row.to_vec())));
                assert_eq!(found.len(), 3, "{dtype:?}, {part}");
                assert_eq!(found.concat(), numbers, "{dtype:?}, {part}");
            }
        }
    }
}
