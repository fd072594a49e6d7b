//! Weights that a run of this program held as codes, or that its compressed file has, read as numbers.

use std::ops::Range;

use super::{
    compressed::Compact,
    export::as_it_is,
    mapped::{Mapped, give_back},
};
use crate::{
    backend::{
        cpu::coded::{Codes, Scales, decode_f32},
        ops::{Code, SCALE_BLOCK},
    },
    error::{Error, Result},
    header::Element,
    tensor::DType,
};

/// Elements that are handed out at once.
const PART: usize = 4096;

/// A weight by its codes, where they lie.
#[derive(Clone, Copy)]
pub(super) enum CodedTensor<'a> {
    /// In blocks, as a run held it.
    Blocks(Blocks<'a>),
    /// As a compressed file has it.
    Compact(Compact<'a>),
}

/// A weight in blocks that share a scale.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'a> {
    code: Code,
    elements: usize,
    codes: &'a [u8],
    /// A scale (f32) a block; or the mean, codes and their scales.
    scales: &'a [u8],
    coded: Option<(f32, &'a [u8])>,
}

/// The tensors that a weight is made of, by its name.
pub(super) fn names(weight: &str) -> [String; 5] {
    let layer = weight.strip_suffix("weight").unwrap_or(weight);
    ["weight_codes", "weight_scales", "scale_codes", "scale_tops", "scale_mean"].map(|what| format!("{layer}{what}"))
}

fn float(bytes: &[u8]) -> f32 {
    bytes.try_into().map_or(0.0, f32::from_le_bytes)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(float).collect()
}

impl Mapped {
    /// The weight of this name and extents, if it lies here as codes.
    ///
    /// # Errors
    /// Fails if its codes and its scales are not those of one weight of these extents.
    pub(super) fn coded(&self, weight: &str, shape: &[usize]) -> Result<Option<CodedTensor<'_>>> {
        if let Some(compact) = self.compact(weight, shape)? {
            return Ok(Some(CodedTensor::Compact(compact)));
        }
        let [codes_name, scales_name, scale_codes, tops, mean] = names(weight);
        if !self.tensors.contains_key(&codes_name) || !weight.ends_with("weight") {
            return Ok(None);
        }
        let of = |name: &str, dtype: DType| -> Result<&[u8]> {
            let is_right =
                self.tensors.get(name).is_some_and(|place| matches!(place.element, Element::Of(d) if d == dtype));
            if is_right { self.elements(name) } else { Err(self.not_codes(weight)) }
        };
        let (codes, elements) = (of(&codes_name, DType::U8)?, shape.iter().product());
        let code = [Code::Nf4, Code::Int8].into_iter().find(|code| code.bytes(elements) == codes.len());
        let code = code.ok_or_else(|| self.not_codes(weight))?;
        let blocks = code.blocks(elements);
        let is_double = self.tensors.contains_key(&scale_codes);
        let (scales, coded) = match is_double {
            false => (of(&scales_name, DType::F32)?, None),
            true => (of(&scale_codes, DType::U8)?, Some((of(&mean, DType::F32)?, of(&tops, DType::F32)?))),
        };
        let are_right = match coded {
            None => scales.len() == 4 * blocks,
            Some((mean, tops)) => {
                [scales.len(), tops.len(), mean.len()] == [blocks, 4 * blocks.div_ceil(SCALE_BLOCK), 4]
            }
        };
        if !are_right {
            return Err(self.not_codes(weight));
        }
        let coded = coded.map(|(mean, tops)| (float(mean), tops));
        Ok(Some(CodedTensor::Blocks(Blocks { code, elements, codes, scales, coded })))
    }

    fn not_codes(&self, weight: &str) -> Error {
        let message = "is not held as codes of its extents; choose another checkpoint of the run";
        Error::file_at(&self.path, format!("tensor {weight}"), message)
    }
}

impl CodedTensor<'_> {
    /// Writes the elements from number `at` on to `to`, as many as fit, in the type `dtype`.
    pub(super) fn convert(&self, at: usize, to: &mut [u8], dtype: DType) {
        match self {
            Self::Blocks(blocks) => blocks.convert(at, to, dtype),
            Self::Compact(compact) => compact.convert(at, to, dtype),
        }
    }

    /// The codes of these elements, where they lie.
    pub(super) fn values(&self, elements: Range<usize>) -> &[u8] {
        match self {
            Self::Blocks(Blocks { code, codes, .. }) => &codes[code.bytes(elements.start)..code.bytes(elements.end)],
            Self::Compact(compact) => compact.values(elements),
        }
    }

    /// All elements in the type `dtype`.
    pub(super) fn all(&self, dtype: DType) -> Vec<u8> {
        let mut all = vec![0; self.elements() * dtype.size()];
        self.convert(0, &mut all, dtype);
        all
    }

    /// Hands out all elements in the type `dtype`, some at a time, and gives the pages of their codes back.
    pub(super) fn in_parts(&self, dtype: DType, mut take: impl FnMut(&[u8])) {
        let mut part = vec![0; PART.min(self.elements()) * dtype.size()];
        for at in (0..self.elements()).step_by(PART) {
            let count = PART.min(self.elements() - at);
            let part = &mut part[..count * dtype.size()];
            self.convert(at, part, dtype);
            give_back(self.values(at..at + count));
            take(part);
        }
    }

    fn elements(&self) -> usize {
        let (Self::Blocks(Blocks { elements, .. }) | Self::Compact(Compact { elements, .. })) = self;
        *elements
    }
}

impl Blocks<'_> {
    /// Writes the elements from number `at` on to `to`, as many as fit, in the type `dtype`.
    fn convert(&self, at: usize, to: &mut [u8], dtype: DType) {
        let count = (to.len() / dtype.size()).min(self.elements.saturating_sub(at));
        // The place at which the scales of scales begin.
        let (block, span) = (self.code.block(), self.code.block() * SCALE_BLOCK);
        let (base, end) = (at / span * span, at + count);
        let blocks = base / block..self.code.blocks(end);
        let bytes = &self.codes[self.code.bytes(base)..self.code.bytes(end)];
        let mut numbers = vec![0.0; count];
        let mut decode = |scales| decode_f32(Codes { code: self.code, bytes, scales }, at - base, &mut numbers);
        match self.coded {
            None => decode(Scales::Plain(&floats(&self.scales[4 * blocks.start..4 * blocks.end]))),
            Some((mean, tops)) => {
                let tops = floats(&tops[4 * (blocks.start / SCALE_BLOCK)..]);
                decode(Scales::Coded { codes: &self.scales[blocks], tops: &tops, mean });
            }
        }
        let wide: Vec<u8> = numbers.into_iter().flat_map(f32::to_le_bytes).collect();
        as_it_is(&[count], 0).convert(&wide, DType::F32, 0, to, dtype);
    }
}
