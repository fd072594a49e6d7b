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
            coded, convolution,
            gemm::{
                self, Arithmetic,
                tiling::{GemmTiling, Multiplier},
            },
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
    patches(convolution::forward_plan(w, Arithmetic::of(dtype, processor.instructions)), processor)
}

/// Scratch of a convolution's gradient by its input: its residues run one after another.
pub(in crate::backend) fn convolution_input_grad(w: &Window, dtype: DType, processor: Processor) -> usize {
    if convolution::is_pointwise(w) {
        return matmul(&convolution::pointwise(w, false), dtype, processor);
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
    product(
        &convolution::weight_gradient_plan(w, Arithmetic::of(dtype, processor.instructions), dtype.is_half()),
        processor,
    )
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
    sums + at_once * (aside + crate_packing(plan, processor.instructions))
}

/// Scratch of attention: the room of the pieces that are worked on at once, and the scratch of the product that each is in.
fn blocks(
    tiling: &AttentionTiling,
    elements: impl Fn(&AttentionTiling) -> usize,
    width: usize,
    processor: Processor,
) -> usize {
    let products = tiling
        .products()
        .map(|(sizes, by_rows)| packed(sizes, [by_rows, tiling.fills_vectors()], width, processor.instructions));
    tiling.at_once(processor.threads) * (elements(tiling) * width + products.into_iter().max().unwrap_or(0))
}

/// Scratch of one tile of a product, where the crate multiplies.
fn crate_packing(plan: &GemmTiling, instructions: Instructions) -> usize {
    if plan.product.by != Multiplier::Crate {
        return 0;
    }
    let fills_vectors = plan.product.n.is_multiple_of(16) && plan.columns.is_multiple_of(16);
    let in_place = [plan.product.a.by_rows(), plan.product.b.by_rows() && fills_vectors];
    packed([plan.rows, plan.columns, plan.depth], in_place, plan.product.width, instructions)
}

/// Bytes that one call of the gemm crate allocates: `mem`, the packed blocks, and `did_pack_lhs`, a byte for each of their
/// rows. The crate computes its result column by column, so the right operand of the engine's products is its left.
fn packed([rows, columns, depth]: [usize; 3], in_place: [bool; 2], width: usize, by: Instructions) -> usize {
    /// The widest micro-kernel is 64 by 6 for f32; other processors' are within these.
    const MICRO_ROWS: usize = 64;
    const MICRO_COLUMNS: usize = 16;
    /// Alignment of two blocks, and the bytes of `did_pack_lhs` for caches up to 16 MiB.
    const BOOKKEEPING: usize = 2 * 128 + (4 << 10);
    // `do_prepack_lhs`: the columns of `b` are apart in memory, or do not fill vectors.
    let b = if in_place[1] { 0 } else { depth * columns.next_multiple_of(MICRO_ROWS) };
    // `do_pack_rhs`: the columns of `a` are apart in memory, and there are more columns of `c` than two micro-kernels'.
    let is_taken_as_it_is = in_place[0] || columns <= 2 * micro_kernel_bytes(by) / width;
    let a = if is_taken_as_it_is { 0 } else { depth * rows.next_multiple_of(MICRO_COLUMNS) };
    (a + b) * width + BOOKKEEPING
}

/// Bytes of the columns of `c` that the crate's micro-kernel computes at once; 0 if that is not known, so that every operand
/// counts as packed.
fn micro_kernel_bytes(by: Instructions) -> usize {
    match by {
        Instructions::Basic => 0,
        // Three registers.
        Instructions::Fma => 3 * 32,
        // Four.
        Instructions::Avx512 | Instructions::Avx512Bf16 | Instructions::Amx => 4 * 64,
    }
}

/// Scratch of a product of patches and weights that may be laid out once.
fn patches((plan, shared): (GemmTiling, bool), processor: Processor) -> usize {
    let weights = if shared { plan.product.k * plan.product.n * plan.product.width } else { 0 };
    weights + product(&plan, processor)
}
