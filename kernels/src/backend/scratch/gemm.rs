//! Scratch of matrix products on the CPU, and of the kernels that use them.
//!
//! A product's scratch follows from the tiling that the kernel itself runs by: per piece of work, the blocks that the kernel
//! copies aside and the buffers that the gemm crate (0.19, `gemm-common/src/gemm.rs`) allocates for one call; times the
//! pieces that are worked on at once; plus the buffers that all pieces share. The type of a product's result does not
//! matter: the rule is the one for the result that needs more.

use crate::{
    backend::{
        DType,
        cpu::{
            attention::AttentionTiling,
            coded,
            convolution::{self, Pass},
            gemm::{
                self, Arithmetic,
                tiling::{GemmTiling, Multiplier, Product},
            },
            matrix::is_small,
        },
        ops::{AttentionShape, CodedProduct, MatMul, Window},
    },
    device::{Instructions, Processor},
};

/// Bytes of a number of arithmetic, and whether operands are narrower, where they are converted.
fn converted(dtype: DType) -> (usize, bool) {
    (dtype.accumulator().size(), dtype.is_half())
}

/// Scratch of a product.
pub(in crate::backend) fn matmul(p: &MatMul, dtype: DType, processor: Processor) -> usize {
    if gemm::is_row(p) {
        return 0;
    }
    product(&gemm::matmul_plan(p, Arithmetic::of(dtype, processor.instructions), dtype.is_half()), processor)
}

/// Scratch of a product with a coded weight.
pub(in crate::backend) fn coded(p: &CodedProduct, dtype: DType, processor: Processor) -> usize {
    let (width, narrow) = converted(dtype);
    product(&coded::plan(p, width, narrow), processor)
}

/// Scratch of a convolution.
pub(in crate::backend) fn convolution(w: &Window, dtype: DType, processor: Processor) -> usize {
    if convolution::is_pointwise(w) {
        return matmul(&convolution::pointwise(w, true), dtype, processor);
    }
    if let Some(bytes) = minimal(w, Pass::Forward, dtype, processor) {
        return bytes;
    }
    patches(convolution::forward_plan(w, Arithmetic::of(dtype, processor.instructions)), processor)
}

/// Scratch of a convolution's gradient by its input: its residues run one after another.
pub(in crate::backend) fn convolution_input_grad(w: &Window, dtype: DType, processor: Processor) -> usize {
    if convolution::is_pointwise(w) {
        return matmul(&convolution::pointwise(w, false), dtype, processor);
    }
    if let Some(bytes) = minimal(w, Pass::InputGrad, dtype, processor) {
        return bytes;
    }
    convolution::residues(w)
        .map(|r| {
            patches(convolution::input_gradient_plan(w, &r, Arithmetic::of(dtype, processor.instructions)), processor)
        })
        .max()
        .unwrap_or(0)
}

/// Scratch of a convolution's gradient by its weight.
pub(in crate::backend) fn convolution_weight_grad(w: &Window, dtype: DType, processor: Processor) -> usize {
    if let Some(bytes) = minimal(w, Pass::WeightGrad, dtype, processor) {
        return bytes;
    }
    product(
        &convolution::weight_gradient_plan(w, Arithmetic::of(dtype, processor.instructions), dtype.is_half()),
        processor,
    )
}

/// Scratch of a convolution by minimal filtering, where the processor computes it so: the blocks of the pieces that are worked on
/// at once.
fn minimal(w: &Window, pass: Pass, dtype: DType, processor: Processor) -> Option<usize> {
    let plan = convolution::winograd_plan(w, pass, Arithmetic::of(dtype, processor.instructions))?;
    let at_once = if plan.is_parallel { processor.threads.clamp(1, plan.pieces()) } else { 1 };
    Some(at_once * plan.elements() * size_of::<f32>())
}

/// Scratch of the blocks of attention that threads work on at once.
pub(in crate::backend) fn attention(s: &AttentionShape, is_plain: bool, dtype: DType, processor: Processor) -> usize {
    let (width, narrow) = converted(dtype);
    blocks(&AttentionTiling::new(s, width, narrow), |tiling| tiling.forward_elements(is_plain), width, processor)
}

/// Scratch of the blocks of attention's gradient that threads work on at once.
pub(in crate::backend) fn attention_grad(s: &AttentionShape, dtype: DType, processor: Processor) -> usize {
    let (width, narrow) = converted(dtype);
    blocks(&AttentionTiling::new(s, width, narrow), AttentionTiling::gradient_elements, width, processor)
}

/// Scratch of a tiled product.
fn product(plan: &GemmTiling, processor: Processor) -> usize {
    let at_once = if plan.parallel { processor.threads.clamp(1, plan.pieces().max(1)) } else { 1 };
    let width = plan.product.width;
    let aside = plan.block_elements().iter().sum::<usize>() * width;
    let sums = if plan.segments > 1 { plan.segments * plan.product.m * plan.product.n * width } else { 0 };
    sums + at_once * (aside + packed_by_crate(plan, processor.instructions))
}

/// Scratch of attention: the room of the pieces that are worked on at once, and the scratch of the product that each is in.
fn blocks(
    tiling: &AttentionTiling,
    elements: impl Fn(&AttentionTiling) -> usize,
    width: usize,
    processor: Processor,
) -> usize {
    let packed = packed_in_attention(tiling, width, processor.instructions);
    tiling.at_once(processor.threads) * (elements(tiling) * width + packed)
}

/// Bytes that the crate packs into, at most, for a product in attention.
pub(in crate::backend) fn packed_in_attention(tiling: &AttentionTiling, width: usize, by: Instructions) -> usize {
    let products = tiling.products();
    let bytes = products.map(|(sizes, by_rows)| packed(sizes, [by_rows, tiling.fills_vectors()], width, by));
    bytes.into_iter().max().unwrap_or(0)
}

/// Bytes that the crate packs into for one tile of a product; none where it does not multiply.
pub(in crate::backend) fn packed_by_crate(plan: &GemmTiling, instructions: Instructions) -> usize {
    let Product { m, n, k, a, b, by, width, .. } = plan.product;
    let sizes @ [rows, columns, _] = [plan.rows.min(m), plan.columns.min(n), plan.depth.min(k)];
    let is_across = a.by_rows() && !b.by_rows() && adds_across([rows, columns], instructions);
    // A result of one column is a product of a matrix and a vector, both where they lie.
    if by != Multiplier::Crate || n == 1 || is_across {
        return 0;
    }
    let fills_vectors = n.is_multiple_of(16) && plan.columns.is_multiple_of(16);
    packed(sizes, [a.by_rows(), b.by_rows() && fills_vectors], width, instructions)
}

/// Whether the crate adds the sums of a small result across registers, if the terms of both operands lie one after another. Tiles
/// at the edges have fewer rows and columns.
fn adds_across([rows, columns]: [usize; 2], by: Instructions) -> bool {
    const SMALL: usize = 16 * 16;
    match by {
        Instructions::Basic => false,
        Instructions::Fma | Instructions::Avx512 | Instructions::Avx512Bf16 | Instructions::Amx => {
            rows * columns <= SMALL
        }
    }
}

/// Bytes that one call of the gemm crate allocates: `mem`, the packed blocks, and `did_pack_lhs`, a byte for each of their
/// rows. The crate computes its result column by column, so the right operand of the engine's products is its left.
fn packed(sizes @ [rows, columns, depth]: [usize; 3], in_place: [bool; 2], width: usize, by: Instructions) -> usize {
    /// Alignment of two blocks, and the bytes of `did_pack_lhs` for caches up to 16 MiB.
    const BOOKKEEPING: usize = 2 * 128 + (4 << 10);
    if is_small(sizes) {
        return 0;
    }
    let [at_once, micro_columns, micro_rows] = match micro_kernel(by) {
        Some([bytes, rows]) => [bytes / width, bytes / width, rows],
        // Every operand counts as packed. The widest micro-kernels of other processors are within these.
        None => [0, 64, 16],
    };
    if columns == 1 {
        // Its rows lie one after another as well, and then it is the left operand of the engine's product that is the crate's.
        return depth * (rows.next_multiple_of(micro_columns) + micro_rows) * width + BOOKKEEPING;
    }
    // `do_prepack_lhs`: the columns of `b` are apart in memory, or do not fill vectors.
    let b = if in_place[1] { 0 } else { depth * columns.next_multiple_of(micro_columns) };
    // `do_pack_rhs`: the columns of `a` are apart in memory, and there are more columns of `c` than two micro-kernels'.
    let is_taken_as_it_is = in_place[0] || columns <= 2 * at_once;
    let a = if is_taken_as_it_is { 0 } else { depth * rows.next_multiple_of(micro_rows) };
    (a + b) * width + BOOKKEEPING
}

/// What the crate's micro-kernel computes at once: bytes of columns of `c`, and rows; `None` if that is not known.
fn micro_kernel(by: Instructions) -> Option<[usize; 2]> {
    match by {
        Instructions::Basic => None,
        // Two registers.
        Instructions::Fma => Some([2 * 32, 6]),
        // Four.
        Instructions::Avx512 | Instructions::Avx512Bf16 | Instructions::Amx => Some([4 * 64, 6]),
    }
}

/// Scratch of a product of patches and weights that may be laid out once.
fn patches((plan, shared): (GemmTiling, bool), processor: Processor) -> usize {
    let weights = if shared { plan.product.k * plan.product.n * plan.product.width } else { 0 };
    weights + product(&plan, processor)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processors whose micro-kernels are known.
    const KNOWN: [Instructions; 4] =
        [Instructions::Fma, Instructions::Avx512, Instructions::Avx512Bf16, Instructions::Amx];

    fn bytes(p: &MatMul, instructions: Instructions) -> usize {
        matmul(p, DType::F64, Processor { threads: 1, instructions })
    }

    #[test]
    fn a_product_of_vectors_where_they_lie_takes_no_scratch() {
        let p = MatMul { m: 67, n: 2, k: 3072, transpose_a: false, transpose_b: true, accumulate: false };
        for instructions in KNOWN {
            assert_eq!(bytes(&p, instructions), 0, "sums of two columns, across registers");
            assert!(bytes(&MatMul { m: 5000, ..p }, instructions) > 0, "too many sums");
            assert!(bytes(&MatMul { transpose_a: true, ..p }, instructions) > 0, "terms of the left side are apart");
            assert!(bytes(&MatMul { transpose_b: false, ..p }, instructions) > 0, "terms of the right side are apart");
        }
        assert!(bytes(&p, Instructions::Basic) > 0, "not known");
        for instructions in KNOWN.into_iter().chain([Instructions::Basic]) {
            for transpose_a in [false, true] {
                assert_eq!(bytes(&MatMul { m: 5000, n: 1, transpose_a, ..p }, instructions), 0, "one column");
            }
        }
    }

    #[test]
    fn a_product_that_this_program_computes_itself_takes_no_scratch() {
        let p = MatMul { m: 64, n: 64, k: 15, transpose_a: true, transpose_b: false, accumulate: true };
        for instructions in KNOWN.into_iter().chain([Instructions::Basic]) {
            assert_eq!(bytes(&p, instructions), 0);
            for larger in [MatMul { k: 16, ..p }, MatMul { m: 65, ..p }, MatMul { n: 65, ..p }] {
                assert!(bytes(&larger, instructions) > 0, "{larger:?}");
            }
        }
    }

    /// The crate packs the right operand for more columns than two micro-kernels', which have two registers of 32 bytes where
    /// there are none of 64.
    #[test]
    fn what_is_packed_follows_from_the_micro_kernel() {
        let p = MatMul { m: 96, n: 17, k: 128, transpose_a: true, transpose_b: false, accumulate: false };
        let [rows, columns, depth] = [96, 17_usize, 128];
        let packed = |columns: usize, rows: usize| (columns + rows) * depth * 8 + 2 * 128 + (4 << 10);
        assert_eq!(bytes(&p, Instructions::Fma), packed(columns.next_multiple_of(8), rows));
        assert_eq!(bytes(&p, Instructions::Avx512), packed(columns.next_multiple_of(32), 0));
        assert_eq!(bytes(&p, Instructions::Basic), packed(columns.next_multiple_of(64), rows));
    }
}
