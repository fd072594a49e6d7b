//! The extents of a kernel's operands: what fits together, whatever runs it.
//!
//! Holds: a kernel that passed may index its operands as its definition states.

use crate::backend::{
    AttentionShape, Backend, DType, Kernel, Tensor, Window,
    kernel::{Rows, UpdateRule},
};

/// The most tensors that any kernel reads, or writes.
const OPERANDS: usize = 6;

/// Whether a kernel takes these operands, by number and extents.
pub(super) fn hold<B: Backend>(kernel: &Kernel, inputs: &[&Tensor<B>], outputs: &[&Tensor<B>]) -> bool {
    let elements = |tensors: &[&Tensor<B>]| {
        let mut extents = [0; OPERANDS];
        for (extent, tensor) in extents.iter_mut().zip(tensors) {
            *extent = tensor.elements();
        }
        extents
    };
    let (ins, outs) = (elements(inputs), elements(outputs));
    inputs.len() <= OPERANDS && outputs.len() <= OPERANDS && fits(kernel, &ins[..inputs.len()], &outs[..outputs.len()])
}

/// Whether a kernel takes operands of so many elements.
fn fits(kernel: &Kernel, ins: &[usize], outs: &[usize]) -> bool {
    let valid = |w: &Window| {
        let reach = w.size > 0 && w.stride > 0 && w.padding < w.size;
        reach && w.size <= w.height + 2 * w.padding && w.size <= w.width + 2 * w.padding
    };
    let normalised = |e: &Rows, a: usize, b: usize| e.rows > 0 && e.columns > 0 && a == e.rows * e.columns && a == b;
    let own = |w: &Window| valid(w) && w.filters == w.channels;
    let x = |w: &Window| w.batch * w.height * w.width * w.channels;
    let y = |w: &Window| w.out_pixels() * w.filters;
    match (kernel, ins, outs) {
        (
            Kernel::Fill(_)
            | Kernel::Uniform { .. }
            | Kernel::Normal { .. }
            | Kernel::Relu
            | Kernel::Relu6
            | Kernel::Scale(_),
            [],
            [_],
        ) => true,
        (Kernel::Dropout { share, .. }, [], [_]) => (0.0..1.0).contains(share),
        (
            Kernel::Cast | Kernel::Add | Kernel::ReluGrad | Kernel::Relu6Grad | Kernel::Curve(_) | Kernel::CurveGrad(_),
            [a],
            [b],
        ) => a == b,
        (Kernel::MatMul(p), [a, b], [c]) => *a == p.m * p.k && *b == p.k * p.n && *c == p.m * p.n,
        (Kernel::AddBias, [part], [all]) | (Kernel::BiasGrad { .. }, [all], [part]) => {
            *part > 0 && all.is_multiple_of(*part)
        }
        (Kernel::Conv2d(w), [a, b], [c]) => valid(w) && [*a, *b, *c] == [x(w), w.filters * w.taps(), y(w)],
        (Kernel::Conv2dInputGrad(w), [a, b], [c]) => valid(w) && [*a, *b, *c] == [y(w), w.filters * w.taps(), x(w)],
        (Kernel::Conv2dWeightGrad { window: w, .. }, [a, b], [c]) => {
            valid(w) && [*a, *b, *c] == [x(w), y(w), w.filters * w.taps()]
        }
        (Kernel::Depthwise(w), [a, b], [c]) => own(w) && [*a, *b, *c] == [x(w), w.taps(), y(w)],
        (Kernel::DepthwiseInputGrad(w), [a, b], [c]) => own(w) && [*a, *b, *c] == [y(w), w.taps(), x(w)],
        (Kernel::DepthwiseWeightGrad { window: w, .. }, [a, b], [c]) => {
            own(w) && [*a, *b, *c] == [x(w), y(w), w.taps()]
        }
        (Kernel::MaxPool(w), [a], [b, rest @ ..]) => {
            own(w)
                && w.size <= 16
                && [*a, *b] == [x(w), y(w)]
                && matches!(rest, [] | [_])
                && rest.iter().all(|i| i == b)
        }
        (Kernel::MaxPoolGrad(w), [a, b], [c]) => own(w) && [*a, *b, *c] == [y(w), y(w), x(w)],
        (Kernel::AvgPool(w), [a], [b]) | (Kernel::AvgPoolGrad(w), [b], [a]) => own(w) && [*a, *b] == [x(w), y(w)],
        (Kernel::GlobalPool { pixels, channels }, [all], [means])
        | (Kernel::GlobalPoolGrad { pixels, channels }, [means], [all]) => {
            pixels * channels > 0 && *all == means * pixels && means.is_multiple_of(*channels)
        }
        (Kernel::BatchNorm { extents: e, .. }, [a, p @ ..], [b, s @ ..]) => {
            normalised(e, *a, *b)
                && p.len() == 2
                && matches!(s.len(), 2 | 4)
                && p.iter().chain(s).all(|n| *n == e.columns)
        }
        (Kernel::BatchNormAgain { adds }, [x @ .., m, i, w, b], [y]) => {
            let from_itself = x.is_empty() && !adds;
            *m > 0 && [i, w, b] == [m; 3] && y.is_multiple_of(*m) && (from_itself || x == [*y])
        }
        (Kernel::BatchNormGrad { extents: e, .. }, [a, p @ ..], [b, g @ ..]) => {
            normalised(e, *a, *b)
                && p.len() == 3
                && matches!(g.len(), 0 | 2)
                && p.iter().chain(g).all(|n| *n == e.columns)
        }
        (Kernel::LayerNorm { extents: e, .. }, [a, w, b], [y, m, i]) => {
            normalised(e, *a, *y) && [w, b] == [&e.columns; 2] && [m, i] == [&e.rows; 2]
        }
        (Kernel::LayerNormGrad { extents: e, .. }, [a, m, i, w], [y, g @ ..]) => {
            let gradients = matches!(g.len(), 0 | 2) && g.iter().all(|n| *n == e.columns);
            normalised(e, *a, *y) && gradients && *w == e.columns && [m, i] == [&e.rows; 2]
        }
        (Kernel::RmsNorm { extents: e, .. }, [a, w], [y, i]) => {
            normalised(e, *a, *y) && *w == e.columns && *i == e.rows
        }
        (Kernel::RmsNormGrad { extents: e, .. }, [a, i, w], [y, g @ ..]) => {
            let gradients = g.len() <= 1 && g.iter().all(|n| *n == e.columns);
            normalised(e, *a, *y) && gradients && *w == e.columns && *i == e.rows
        }
        (Kernel::BatchNormFixed { .. }, [n, rest @ ..], [all]) => {
            *n > 0 && rest.len() == 3 && rest.iter().all(|r| r == n) && all.is_multiple_of(*n)
        }
        (Kernel::CrossEntropy, [logits, labels], [2]) | (Kernel::CrossEntropyGrad { .. }, [labels], [logits]) => {
            *labels > 0 && *logits > 0 && logits.is_multiple_of(*labels)
        }
        (Kernel::GatherImages, [all, scaling, n], [y]) => {
            let row = scaling / 2;
            let size = y / n.max(&1);
            let holds = *n > 0 && row > 0 && size > 0 && scaling.is_multiple_of(2);
            holds && y.is_multiple_of(*n) && size.is_multiple_of(row) && all.is_multiple_of(size)
        }
        (Kernel::GatherLabels, [all, n], [y]) => {
            *n > 0 && *y >= *n && y.is_multiple_of(*n) && all.is_multiple_of(y / n)
        }
        (Kernel::GatherTokens { scored }, [_, n], [y, labels]) => {
            *n > 0 && *y >= *n && y == labels && y.is_multiple_of(*n) && *scored <= y / n
        }
        (Kernel::SumSquares, [_], [1]) | (Kernel::Clip { .. }, [1], [1]) => true,
        (Kernel::Update(update), [g] | [g, 1], [w, rest @ ..]) => {
            let state = update.rule.state_layout([*w].into(), DType::F32);
            let is_matrix = match update.rule {
                UpdateRule::Adafactor { extents: e, .. } => e.rows * e.columns == *w,
                _ => true,
            };
            let (own, copy) = rest.split_at(state.len().min(rest.len()));
            let is_whole = own.iter().copied().eq(state.iter().map(|spec| spec.shape.elements()));
            is_matrix && g == w && *w > 0 && is_whole && (copy.is_empty() || copy == [*w])
        }
        _ => sequence_fits(kernel, ins, outs),
    }
}

/// The same of sequence models' kernels.
fn sequence_fits(kernel: &Kernel, ins: &[usize], outs: &[usize]) -> bool {
    let valid = |s: &AttentionShape| {
        s.rows() * s.packed() > 0 && s.kv_heads > 0 && s.heads.is_multiple_of(s.kv_heads) && s.head_dim > 0
    };
    let packed = |s: &AttentionShape| s.rows() * s.packed();
    let y = |s: &AttentionShape| s.rows() * s.width();
    let scores = |s: &AttentionShape| s.batch * s.heads * s.length;
    match (kernel, ins, outs) {
        (&Kernel::CopyColumns { rows, columns, from_stride, from_offset, to_stride, to_offset }, [a], [b]) => {
            let last = rows.saturating_sub(1);
            rows * columns > 0
                && to_stride >= columns
                && last * from_stride + from_offset + columns <= *a
                && last * to_stride + to_offset + columns <= *b
        }
        (Kernel::Transpose { batch, rows, columns }, [a], [b]) => *a > 0 && a == b && *a == batch * rows * columns,
        (Kernel::Embedding, [tokens, table], [y]) => {
            *tokens > 0 && *y > 0 && y.is_multiple_of(*tokens) && *table > 0 && table.is_multiple_of(y / tokens)
        }
        (Kernel::EmbeddingGrad { rows, .. }, [tokens, dy], [table]) => {
            tokens == rows
                && *rows > 0
                && *dy > 0
                && dy.is_multiple_of(*rows)
                && *table > 0
                && table.is_multiple_of(dy / rows)
        }
        (Kernel::Rotary { shape, .. }, [], [qkv]) => {
            valid(shape) && shape.head_dim.is_multiple_of(2) && *qkv == packed(shape)
        }
        (Kernel::SwiGlu { extents: e }, [both], [half]) => {
            *half > 0 && *half == e.rows * e.columns && *both == 2 * half
        }
        (Kernel::SwiGluGrad { extents: e }, [both, half], [gradient]) => {
            *half > 0 && *half == e.rows * e.columns && *both == 2 * half && gradient == both
        }
        (Kernel::Attention(s), [a], [b, lse]) => valid(s) && [*a, *b, *lse] == [packed(s), y(s), scores(s)],
        (Kernel::AttentionGrad(s), [a, b, lse, db], [da]) => {
            valid(s) && [*a, *da] == [packed(s); 2] && [*b, *db] == [y(s); 2] && *lse == scores(s)
        }
        (Kernel::AttentionPlain(s), [a], [b, p]) => valid(s) && [*a, *b, *p] == [packed(s), y(s), scores(s) * s.length],
        (Kernel::AttentionPlainGrad(s), [a, p, db], [da]) => {
            valid(s) && [*a, *da, *db] == [packed(s), packed(s), y(s)] && *p == scores(s) * s.length
        }
        _ => false,
    }
}
