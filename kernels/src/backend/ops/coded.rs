//! Weights as codes: the form of a frozen or a trained weight, and products with it.
//!
//! A weight `[out, in]` is cut into blocks of elements, row after row. A block has its largest magnitude, its *scale*, and each
//! of its elements a code: its share of the scale, to the nearest value of a table. A product decodes some of the weight at a
//! time into scratch, never all of it, and rounds what it decodes to the type of its other operand, as bitsandbytes does. The
//! weight has no gradient, because it does not learn.

use super::{Contract, OperandBytes, products};
use crate::{
    backend::{Backend, DType, Executor, Tensor, scratch::gemm},
    device::Processor,
    error::Result,
    memory::Category,
};

/// The values that the codes of a weight stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// 255 steps from -1 to 1, evenly apart, over blocks of 256 elements.
    Int8,
    /// The 4-bit NormalFloat over blocks of 64 elements (Dettmers et al. 2023, "QLoRA"): two codes a byte, the first in its
    /// higher half.
    Nf4,
    /// 15 steps from -1 to 1, evenly apart, over blocks of 128 elements, two codes a byte as above: rounding to the nearest,
    /// symmetric, in the groups that GPTQ has (Frantar et al. 2022).
    Int4,
}

impl Code {
    /// Elements that share a scale.
    pub const fn block(self) -> usize {
        match self {
            Self::Int8 => 256,
            Self::Nf4 => 64,
            Self::Int4 => 128,
        }
    }

    /// Scales of `elements`.
    pub const fn blocks(self, elements: usize) -> usize {
        elements.div_ceil(self.block())
    }

    /// Bytes of the codes of `elements`.
    pub const fn bytes(self, elements: usize) -> usize {
        match self {
            Self::Int8 => elements,
            Self::Nf4 | Self::Int4 => elements.div_ceil(2),
        }
    }
}

/// Scales that share a scale of their own where they are coded too ("double quantisation" of the same paper): each is the mean
/// of all of them, and the value of an 8-bit code of the optimizers' (Dettmers et al. 2022) times the largest distance from it
/// in its block.
pub const SCALE_BLOCK: usize = 256;

/// Elements that a GPU decodes at a time, at most, where a row and a column have fewer.
const PART: usize = 8 << 20;
/// Rows or columns that it decodes at a time are a multiple of this if there are more.
const LINES: usize = 64;

/// A product with a coded weight `w [out, inner]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodedProduct {
    /// Rows of the other operand.
    pub rows: usize,
    /// Rows of the weight.
    pub out: usize,
    /// Columns of the weight.
    pub inner: usize,
    /// How the weight is coded.
    pub code: Code,
    /// `dx [rows, inner] = dy [rows, out] w` rather than `y [rows, out] = x [rows, inner] w^T`.
    pub by_input: bool,
}

impl CodedProduct {
    /// Elements of a row of the other operand, and of a row of the result.
    pub(in crate::backend) fn columns(&self) -> [usize; 2] {
        if self.by_input { [self.out, self.inner] } else { [self.inner, self.out] }
    }

    /// How many columns of the result a GPU makes at a time: the rows of the weight that it decodes, or by the input its
    /// columns.
    pub(in crate::backend) fn part(&self) -> usize {
        let [depth, columns] = self.columns();
        let most = (PART / depth.max(1)).max(1);
        let lines = if most > LINES { most / LINES * LINES } else { most };
        lines.min(columns)
    }
}

/// Kernels of coded weights. `scales` stands for either one operand, a scale (f32) a block; or three: a code (u8) a block, a
/// scale (f32) for [`SCALE_BLOCK`] of those, and the mean (f32).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coded {
    /// in: `w`; out: codes (u8), a scale (f32) a block. A block with a NaN has a scale that is one.
    Encode(Code),
    /// in: a scale (f32) a block; out: the three operands that stand for them.
    EncodeScales,
    /// in: codes, `scales`; out: `w`.
    Decode(Code),
    /// in: `x`, codes, `scales`; out: `y`, of the type of `x`.
    Product(CodedProduct),
}

/// Whether operands are the scales of this many blocks.
fn are_scales(of: &[usize], blocks: usize) -> bool {
    match of {
        [scales] => *scales == blocks,
        [codes, tops, mean] => [*codes, *tops, *mean] == [blocks, blocks.div_ceil(SCALE_BLOCK), 1],
        _ => false,
    }
}

impl Contract for Coded {
    fn name(&self) -> &'static str {
        match self {
            Self::Encode(_) => "encode weight",
            Self::EncodeScales => "encode scales",
            Self::Decode(_) => "decode weight",
            Self::Product(_) => "matmul of codes",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        match (self, inputs, outputs) {
            (Self::Encode(code), [all], [codes, scales]) => [*codes, *scales] == [code.bytes(*all), code.blocks(*all)],
            (Self::EncodeScales, [blocks], coded) => coded.len() == 3 && are_scales(coded, *blocks),
            (Self::Decode(code), [codes, scales @ ..], [all]) => {
                *codes == code.bytes(*all) && are_scales(scales, code.blocks(*all))
            }
            (Self::Product(p), [x, codes, scales @ ..], [y]) => {
                let (all, [depth, columns]) = (p.out * p.inner, p.columns());
                [*x, *y] == [p.rows * depth, p.rows * columns]
                    && *codes == p.code.bytes(all)
                    && are_scales(scales, p.code.blocks(all))
            }
            _ => false,
        }
    }

    fn flops(&self) -> u64 {
        match self {
            Self::Product(p) => products(p.rows, p.out, p.inner),
            Self::Encode(_) | Self::EncodeScales | Self::Decode(_) => 0,
        }
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        match self {
            // The decoded weight is written and read once more.
            Self::Product(p) => operands.all() + 2 * (p.out * p.inner * operands.dtype.size()) as u64,
            Self::Encode(_) | Self::EncodeScales | Self::Decode(_) => operands.all(),
        }
    }

    fn cpu_scratch_bytes(&self, dtype: DType, processor: Processor) -> usize {
        match self {
            Self::Product(p) => gemm::coded(p, dtype, processor),
            Self::Encode(_) | Self::EncodeScales | Self::Decode(_) => 0,
        }
    }

    fn cuda_scratch_bytes(&self, dtype: DType) -> usize {
        match self {
            Self::Product(p) => p.part() * p.columns()[0] * dtype.size(),
            Self::Encode(_) | Self::EncodeScales | Self::Decode(_) => 0,
        }
    }
}

/// A coded weight `[out, inner]`.
#[derive(Debug)]
pub struct CodedWeight<'a, B: Backend> {
    /// How it is coded.
    pub code: Code,
    /// Rows and columns.
    pub sizes: [usize; 2],
    /// A code an element.
    pub codes: &'a Tensor<B>,
    /// One operand or three: see [`Coded`].
    pub scales: Vec<&'a Tensor<B>>,
}

impl<B: Backend> CodedWeight<'_, B> {
    fn operands<'t>(&'t self, first: Option<&'t Tensor<B>>) -> Vec<&'t Tensor<B>> {
        first.into_iter().chain([self.codes]).chain(self.scales.iter().copied()).collect()
    }
}

impl<B: Backend> Executor<B> {
    /// `x [rows, inner] w^T`: `[rows, out]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn coded_linear(&self, x: &Tensor<B>, w: &CodedWeight<'_, B>) -> Result<Tensor<B>> {
        let ([out, inner], rows) = (w.sizes, x.shape().rows());
        self.expect("matmul of codes", x.shape().last() == inner, || format!("{x:?} by {:?}", w.sizes))?;
        let y = self.output([rows, out], x.dtype(), "matmul of codes")?;
        let product = CodedProduct { rows, out, inner, code: w.code, by_input: false };
        self.launch(Coded::Product(product), &w.operands(Some(x)), &[&y])?;
        Ok(y)
    }

    /// Gradient of [`Executor::coded_linear`] by its input: `dy [rows, out] w`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn coded_input_grad(&self, dy: &Tensor<B>, w: &CodedWeight<'_, B>) -> Result<Tensor<B>> {
        let dx = self.output([dy.shape().rows(), w.sizes[1]], dy.dtype(), "matmul of codes")?;
        self.coded_input_grad_into(dy, w, &dx)?;
        Ok(dx)
    }

    /// Writes [`Executor::coded_input_grad`] to `dx [rows, inner]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn coded_input_grad_into(&self, dy: &Tensor<B>, w: &CodedWeight<'_, B>, dx: &Tensor<B>) -> Result<()> {
        let ([out, inner], rows) = (w.sizes, dy.shape().rows());
        let holds = dy.shape().last() == out && dx.elements() == rows * inner;
        self.expect("matmul of codes", holds, || format!("{dy:?} by {:?} into {dx:?}", w.sizes))?;
        let product = CodedProduct { rows, out, inner, code: w.code, by_input: true };
        self.launch(Coded::Product(product), &w.operands(Some(dy)), &[dx])
    }

    /// Writes all elements of a coded weight to `to`, of any floating-point type.
    ///
    /// # Errors
    /// Fails on shapes that do not fit and when the device fails.
    pub fn decode(&self, w: &CodedWeight<'_, B>, to: &Tensor<B>) -> Result<()> {
        self.launch(Coded::Decode(w.code), &w.operands(None), &[to])
    }
}

/// Codes of a trained weight `[out, inner]`, with a scale a block.
pub struct WeightCodes<B: Backend> {
    code: Code,
    sizes: [usize; 2],
    codes: Tensor<B>,
    scales: Tensor<B>,
}

impl<B: Backend> WeightCodes<B> {
    /// The weight as products read it.
    pub fn weight(&self) -> CodedWeight<'_, B> {
        CodedWeight { code: self.code, sizes: self.sizes, codes: &self.codes, scales: vec![&self.scales] }
    }
}

impl<B: Backend> Executor<B> {
    /// Codes of `w [out, inner]`, which stays as it is.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn weight_codes(&self, code: Code, w: &Tensor<B>) -> Result<WeightCodes<B>> {
        self.ledger().set_op(Coded::Encode(code).name());
        let elements = w.elements();
        let make = |count: usize, dtype, label| self.allocate([count], dtype, Category::Parameters, label);
        let codes = make(code.bytes(elements), DType::U8, "weight codes")?;
        let scales = make(code.blocks(elements), DType::F32, "weight scales")?;
        self.launch(Coded::Encode(code), &[w], &[&codes, &scales])?;
        Ok(WeightCodes { code, sizes: [w.shape().first(), w.shape().last()], codes, scales })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_decodes_a_bounded_part_at_a_time_and_all_of_it_in_the_end() {
        for (out, inner) in
            [(22016, 4096), (4096, 11008), (896, 896), (1, 1), (3, 9 << 20), (9 << 20, 3), (70, 200_000)]
        {
            for by_input in [false, true] {
                let product = CodedProduct { rows: 7, out, inner, code: Code::Nf4, by_input };
                let ([depth, columns], part) = (product.columns(), product.part());
                assert!((1..=columns).contains(&part), "{product:?}: {part}");
                assert!(part * depth <= PART.max(depth), "{product:?}: {part}");
                assert!(part == columns || part < LINES || part.is_multiple_of(LINES), "{product:?}: {part}");
            }
        }
        let up = CodedProduct { rows: 1, out: 22016, inner: 4096, code: Code::Nf4, by_input: false };
        let bytes = Coded::Product(up).cuda_scratch_bytes(DType::Bf16);
        assert_eq!(bytes, 2048 * 4096 * 2, "a tenth of the matrix");
    }
}
