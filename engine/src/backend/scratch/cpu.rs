//! Scratch of the kernels on the CPU; a test of every kernel measures that it stays within.
//!
//! Products, normalisations and the factored update have scratch: the kernels that stream through memory sum in registers
//! and on the stack. A normalisation's is its parts' sums, and so is the factored update's, with a scale a column; an
//! embedding's gradient's the order of its tokens, a rotary embedding's a position's angles, an attention's the blocks that
//! threads work on at once. A product's follows from the plan the kernel itself runs by (`Plan`): per piece of work, the
//! blocks the kernel copies aside and
//! what the gemm crate (0.19, `gemm-common/src/gemm.rs`) allocates for one call; times the pieces that are worked on at
//! once; plus what all pieces share.

use crate::backend::{
    DType, Kernel, Window,
    cpu::{
        attention::Cut,
        convolution, depthwise,
        gemm::{self, tiling::Plan},
        norm, optimizer, rotary,
    },
    kernel::MatMul,
};

/// Upper bound of the bytes `kernel` allocates while it runs on `threads` threads, with operands of `dtype`.
///
/// The type of a product's result is not asked for: the rule is that of the result that needs more.
pub(super) fn bytes(kernel: &Kernel, dtype: DType, threads: usize) -> u64 {
    let (width, narrow) = match dtype {
        DType::F64 => (8, false),
        DType::Bf16 | DType::F16 => (4, true),
        DType::F32 | DType::U32 | DType::U8 => (4, false),
    };
    let matmul = |p: &MatMul| product(&gemm::matmul_plan(p, width, narrow, narrow), threads);
    let bytes = match kernel {
        Kernel::MatMul(p) => matmul(p),
        Kernel::Conv2d(w) if convolution::is_pointwise(w) => matmul(&convolution::pointwise(w, true)),
        Kernel::Conv2dInputGrad(w) if convolution::is_pointwise(w) => matmul(&convolution::pointwise(w, false)),
        Kernel::Conv2d(w) => patches(convolution::forward_plan(w, width, narrow), threads),
        Kernel::Conv2dInputGrad(w) => residues(w, width, narrow, threads),
        Kernel::Conv2dWeightGrad { window, .. } => {
            product(&convolution::weight_gradient_plan(window, width, narrow, narrow), threads)
        }
        Kernel::DepthwiseWeightGrad { window: w, .. } => depthwise::segments(w) * w.taps() * width,
        Kernel::BatchNorm { extents, .. }
        | Kernel::BatchNormGrad { extents, .. }
        | Kernel::LayerNormGrad { extents, .. }
        | Kernel::RmsNormGrad { extents, .. } => norm::batch::room(extents) * size_of::<f64>(),
        // A token and its place.
        Kernel::EmbeddingGrad { rows, .. } => rows * size_of::<u64>(),
        Kernel::Rotary { shape, .. } => threads.clamp(1, shape.length.max(1)) * rotary::room(shape) * size_of::<f64>(),
        Kernel::Attention(s) => blocks(&Cut::new(s, width, narrow), |cut| cut.forward_elements(false), width, threads),
        Kernel::AttentionPlain(s) => {
            blocks(&Cut::new(s, width, narrow), |cut| cut.forward_elements(true), width, threads)
        }
        Kernel::AttentionGrad(s) | Kernel::AttentionPlainGrad(s) => {
            // The means of each row of each head beside.
            let of_blocks = blocks(&Cut::new(s, width, narrow), Cut::gradient_elements, width, threads);
            s.batch * s.heads * s.length * width + of_blocks
        }
        Kernel::Update(update) => optimizer::room(update, width),
        _ => 0,
    };
    bytes as u64
}

/// Of a tiled product.
fn product(plan: &Plan, threads: usize) -> usize {
    let at_once = if plan.parallel { threads.clamp(1, plan.pieces().max(1)) } else { 1 };
    let width = plan.product.width;
    let aside = plan.room().iter().sum::<usize>() * width;
    let sums = if plan.segments > 1 { plan.segments * plan.product.m * plan.product.n * width } else { 0 };
    sums + at_once * (aside + crate_packing(plan))
}

/// Of attention: the room of the pieces that are worked on at once, and that of the product each is in.
fn blocks(cut: &Cut, elements: impl Fn(&Cut) -> usize, width: usize, threads: usize) -> usize {
    let products = cut.products().map(|(extents, by_rows)| packed(extents, [by_rows, cut.fills_vectors()], width));
    cut.at_once(threads) * (elements(cut) * width + products.into_iter().max().unwrap_or(0))
}

/// Of one tile of a product.
fn crate_packing(plan: &Plan) -> usize {
    let fills_vectors = plan.product.n.is_multiple_of(16) && plan.columns.is_multiple_of(16);
    let in_place = [plan.product.a.by_rows(), plan.product.b.by_rows() && fills_vectors];
    packed([plan.rows, plan.columns, plan.depth], in_place, plan.product.width)
}

/// What one call of the gemm crate allocates: `mem`, the packed blocks, and `did_pack_lhs`, a byte for each of their
/// rows. In the crate's words the right side of our products is the left, for it wants its result column after column.
fn packed([rows, columns, depth]: [usize; 3], in_place: [bool; 2], width: usize) -> usize {
    /// The widest micro-kernel is 64 by 6 for f32; other processors' are within these.
    const MICRO_ROWS: usize = 64;
    const MICRO_COLUMNS: usize = 16;
    /// Alignment of two blocks, and the bytes of `did_pack_lhs` for caches up to 16 MiB.
    const BOOKKEEPING: usize = 2 * 128 + (4 << 10);
    // `do_prepack_lhs`: the columns of `b` are apart in memory, or do not fill vectors.
    let b = if in_place[1] { 0 } else { depth * columns.next_multiple_of(MICRO_ROWS) };
    // `do_pack_rhs`: the columns of `a` are apart in memory, and there are more columns of `c` than two micro-kernels'.
    let a = if in_place[0] { 0 } else { depth * rows.next_multiple_of(MICRO_COLUMNS) };
    (a + b) * width + BOOKKEEPING
}

/// Of a product of patches and weights that may be laid out once.
fn patches((plan, shared): (Plan, bool), threads: usize) -> usize {
    let weights = if shared { plan.product.k * plan.product.n * plan.product.width } else { 0 };
    weights + product(&plan, threads)
}

/// The residues of a gradient by the input run one after another.
fn residues(w: &Window, width: usize, narrow: bool, threads: usize) -> usize {
    convolution::residues(w)
        .map(|r| patches(convolution::input_gradient_plan(w, &r, width, narrow), threads))
        .max()
        .unwrap_or(0)
}
