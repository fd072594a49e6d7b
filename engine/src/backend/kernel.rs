//! The kernels: what each reads, writes and means.
//!
//! The list is the whole contract between [`Executor`](super::Executor) and a [`Backend`](super::Backend). Arithmetic
//! on bf16 and f16 is done in f32 and rounded once on store; sums over many elements accumulate in f32 (f64 for f64).

mod attention;
mod matmul;
mod update;
mod window;

pub use attention::AttentionShape;
pub use matmul::MatMul;
pub(crate) use update::AdamConstants;
pub use update::{Moments, StateLayout, StateSpec, StateValues, Update, UpdateRule};
pub use window::Window;

/// The label that counts neither in the loss nor in the accuracy (PyTorch's `ignore_index`).
pub const IGNORE_INDEX: u32 = u32::MAX;

/// A smooth activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Curve {
    /// `x * Phi(x)` (Hendrycks & Gimpel 2016).
    Gelu,
    /// Its approximation by tanh, as GPT-2 has it.
    GeluTanh,
    /// `x / (1 + exp(-x))` (Elfwing, Uchibe & Doya 2017).
    Silu,
}

/// Extents of a matrix whose rows or columns are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Rows.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
}

/// One launch. "in" and "out" list the tensors in order; out tensors are written (or updated where it says so).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kernel {
    /// out: `y`. Every element becomes the value.
    Fill(f64),
    /// out: `y`. Uniform in [-bound, bound), element i from counter i of [`Rng::from_key`](crate::rng::Rng::from_key).
    Uniform {
        /// Half the width of the interval.
        bound: f64,
        /// Key of the random source.
        key: u64,
    },
    /// out: `y`. Normal with mean 0, element i from counter i of [`Rng::from_key`](crate::rng::Rng::from_key).
    Normal {
        /// Standard deviation.
        std: f64,
        /// Key of the random source.
        key: u64,
    },
    /// in: `x`; out: `y` with as many elements, of any floating-point type.
    Cast,
    /// in: `x`; out: `y`, of any floating-point types, updated in some of its columns: `rows` times, `columns` elements
    /// from `x[row * from_stride + from_offset]` become those from `y[row * to_stride + to_offset]`. A `from_stride` of 0
    /// copies one row to all.
    CopyColumns {
        /// How many rows.
        rows: usize,
        /// Elements of a row that are copied.
        columns: usize,
        /// Elements from one row of `x` to the next.
        from_stride: usize,
        /// Where the first row of `x` starts.
        from_offset: usize,
        /// Elements from one row of `y` to the next.
        to_stride: usize,
        /// Where the first row of `y` starts.
        to_offset: usize,
    },
    /// in: `x [batch, rows, columns]`; out: `y [batch, columns, rows]`.
    Transpose {
        /// Matrices.
        batch: usize,
        /// Rows of `x`.
        rows: usize,
        /// Columns of `x`.
        columns: usize,
    },
    /// in: `a`, `b` of one type; out: `c` of that type or f32.
    MatMul(MatMul),
    /// in: `bias [columns]`; out: `y [rows, columns]`, updated: `y += bias`.
    AddBias,
    /// in: `dy [rows, columns]`; out: `db [columns]` (type of `dy` or f32), the sum over rows, added to `db` when `accumulate`.
    BiasGrad {
        /// Add to `db` rather than overwrite it.
        accumulate: bool,
    },
    /// out: `y`, updated: `max(y, 0)`. NaN stays NaN.
    Relu,
    /// in: `y`, the output of [`Kernel::Relu`]; out: `dy`, updated: zero where `y` is zero or less.
    ReluGrad,
    /// out: `y`, updated: `min(max(y, 0), 6)`. NaN stays NaN.
    Relu6,
    /// in: `y`, the output of [`Kernel::Relu6`]; out: `dy`, updated: zero where `y` is not inside (0, 6).
    Relu6Grad,
    /// in: `x`; out: `y`, updated: `y += x`. Same type.
    Add,
    /// out: `y`, updated: `y *= factor`.
    Scale(f64),
    /// in: `x [batch, height, width, channels]`, `w [filters, size, size, channels]`; out: `y [batch, oh, ow, filters]`.
    Conv2d(Window),
    /// in: `dy`, `w`; out: `dx`, overwritten.
    Conv2dInputGrad(Window),
    /// in: `x`, `dy`; out: `dw` (type of `x` or f32), added to when `accumulate`.
    Conv2dWeightGrad {
        /// The geometry of the forward pass.
        window: Window,
        /// Add to `dw` rather than overwrite it.
        accumulate: bool,
    },
    /// in: `x [batch, height, width, channels]`, `w [size, size, channels]`; out: `y [batch, oh, ow, channels]`.
    Depthwise(Window),
    /// in: `dy`, `w`; out: `dx`, overwritten.
    DepthwiseInputGrad(Window),
    /// in: `x`, `dy`; out: `dw` (type of `x` or f32), added to when `accumulate`.
    DepthwiseWeightGrad {
        /// The geometry of the forward pass.
        window: Window,
        /// Add to `dw` rather than overwrite it.
        accumulate: bool,
    },
    /// in: `x`; out: `y`, and, when given, `index` (u8): the winner's place in its window, `row * size + column`.
    /// The first of equals wins; padding never does; a NaN wins over everything.
    MaxPool(Window),
    /// in: `dy`, `index`; out: `dx`, overwritten: each gradient goes to its winner, zero elsewhere.
    MaxPoolGrad(Window),
    /// in: `x [batch, height, width, channels]`; out: `y`, the mean of each window's `size * size` places;
    /// padding counts as zeros, as PyTorch has it by default.
    AvgPool(Window),
    /// in: `dy`; out: `dx`, overwritten.
    AvgPoolGrad(Window),
    /// in: `x [batch, pixels, channels]`; out: `y [batch, channels]`, the mean over pixels.
    GlobalPool {
        /// Pixels of one image.
        pixels: usize,
        /// Channels of a pixel.
        channels: usize,
    },
    /// in: `dy [batch, channels]`; out: `dx [batch, pixels, channels]`, overwritten.
    GlobalPoolGrad {
        /// Pixels of one image.
        pixels: usize,
        /// Channels of a pixel.
        channels: usize,
    },
    /// in: `x [rows, channels]`, `weight [channels]`, `bias [channels]` (type of `x` or f32); out: `y`, `mean [channels]`,
    /// `inverse [channels]`, and, when given, `running_mean`, `running_variance`, updated. The statistics are f32 (f64 for
    /// f64). `y = (x - mean) * inverse * weight + bias` with `inverse = 1 / sqrt(variance + epsilon)` (Ioffe & Szegedy
    /// 2015): of the biased variance, while the running estimate moves by `momentum` towards the unbiased one.
    BatchNorm {
        /// Rows, and channels as columns.
        extents: Rows,
        /// Added to the variance.
        epsilon: f64,
        /// How far the running estimates move towards the batch's.
        momentum: f64,
    },
    /// in: `x`, `mean`, `inverse`, `weight`, `bias`, as of [`Kernel::BatchNorm`]; out: `y`, to the last bit as it was, added
    /// to what stands there when `adds`. Without `x`, out: `y`, updated: the `x` that stands there becomes `y`.
    BatchNormAgain {
        /// Add to `y` rather than overwrite it.
        adds: bool,
    },
    /// in: `x`, `mean`, `inverse`, `weight`, as of [`Kernel::BatchNorm`]; out: `dy`, updated: becomes `dx`; when given, `dweight`,
    /// `dbias` (type of `weight`), added to when `accumulate`.
    BatchNormGrad {
        /// Rows, and channels as columns.
        extents: Rows,
        /// Add to the parameters' gradients rather than overwrite them.
        accumulate: bool,
    },
    /// in: `mean`, `variance`, `weight`, `bias`, all `[channels]`; out: `y [rows, channels]`, updated:
    /// `(y - mean) / sqrt(variance + epsilon) * weight + bias`. Batch normalisation by running estimates.
    BatchNormFixed {
        /// Added to the variance.
        epsilon: f64,
    },
    /// in: `x [rows, columns]`, `weight [columns]`, `bias [columns]` (type of `x` or f32); out: `y`, `mean [rows]`,
    /// `inverse [rows]` (f32, or f64 for f64). `y = (x - mean) * inverse * weight + bias` with
    /// `inverse = 1 / sqrt(variance + epsilon)`, of the biased variance (Ba, Kiros & Hinton 2016).
    LayerNorm {
        /// Rows and columns.
        extents: Rows,
        /// Added to the variance.
        epsilon: f64,
    },
    /// in: `x`, `mean`, `inverse`, `weight`, as of [`Kernel::LayerNorm`]; out: `dy`, updated: becomes `dx`; when given, `dweight`,
    /// `dbias` (type of `weight`), added to when `accumulate`.
    LayerNormGrad {
        /// Rows and columns.
        extents: Rows,
        /// Add to the parameters' gradients rather than overwrite them.
        accumulate: bool,
    },
    /// in: `x [rows, columns]`, `weight [columns]` (type of `x` or f32); out: `y`, `inverse [rows]` (f32, or f64 for f64).
    /// `y = x * inverse * weight` with `inverse = 1 / sqrt(mean of squares + epsilon)` (Zhang & Sennrich 2019).
    RmsNorm {
        /// Rows and columns.
        extents: Rows,
        /// Added to the mean of squares.
        epsilon: f64,
    },
    /// in: `x`, `inverse`, `weight`, as of [`Kernel::RmsNorm`]; out: `dy`, updated: becomes `dx`; when given, `dweight`
    /// (type of `weight`), added to when `accumulate`.
    RmsNormGrad {
        /// Rows and columns.
        extents: Rows,
        /// Add to the weight's gradient rather than overwrite it.
        accumulate: bool,
    },
    /// in: `x`; out: `y`, the function of each element.
    Curve(Curve),
    /// in: `x`; out: `dy`, updated: times the function's slope at `x`.
    CurveGrad(Curve),
    /// out: `y`, updated: element i becomes zero where [`Rng::bits`](crate::rng::Rng::bits) of counter i are among the
    /// lowest `share`, else `y / (1 - share)` (Srivastava et al. 2014). Its own gradient, with the same key.
    Dropout {
        /// Probability of zero, in [0, 1).
        share: f64,
        /// Key of the random source.
        key: u64,
    },
    /// in: `tokens [rows]` (u32), `table [vocabulary, width]`; out: `y [rows, width]`, the table's row of each token.
    Embedding,
    /// in: `tokens [rows]` (u32), `dy [rows, width]`; out: `dtable [vocabulary, width]` (type of `dy` or f32), the sum over
    /// the rows of each token, added to `dtable` when `accumulate`.
    EmbeddingGrad {
        /// How many tokens.
        rows: usize,
        /// Add to `dtable` rather than overwrite it.
        accumulate: bool,
    },
    /// out: `qkv`, updated: queries and keys are turned by their position's angles, element i of a head with element
    /// i + head_dim / 2: rotary embedding (Su et al. 2021, with the pairs of Llama). Its inverse is its gradient.
    Rotary {
        /// The attention that follows.
        shape: AttentionShape,
        /// Pair i turns by `position * base^(-2 i / head_dim)`.
        base: f64,
        /// Turn back.
        is_inverse: bool,
    },
    /// in: `gu [rows, 2 hidden]`, gates beside values; out: `y [rows, hidden]`, `silu(gate) * value` (Shazeer 2020).
    SwiGlu {
        /// Rows, and values of a row.
        extents: Rows,
    },
    /// in: `gu`, `dy [rows, hidden]`; out: `dgu [rows, 2 hidden]`, overwritten.
    SwiGluGrad {
        /// Rows, and values of a row.
        extents: Rows,
    },
    /// in: `qkv [batch * length, (heads + 2 kv_heads) * head_dim]`; out: `y [batch * length, heads * head_dim]`, of each
    /// head `softmax(q k^T / sqrt(head_dim)) v` over the positions that are seen, and `lse [batch, heads, length]` (f32, or
    /// f64 for f64), the logarithm of each softmax's denominator. Block by block, in room that does not grow with the
    /// length (Rabe & Staats 2021; Dao et al. 2022).
    Attention(AttentionShape),
    /// in: `qkv`, `y`, `lse`, as of [`Kernel::Attention`], `dy`; out: `dqkv`, overwritten. Probabilities are made again.
    AttentionGrad(AttentionShape),
    /// in: `qkv`; out: `y`, as of [`Kernel::Attention`], and the probabilities `p [batch, heads, length, length]` (type of
    /// `qkv`), zero where nothing is seen.
    AttentionPlain(AttentionShape),
    /// in: `qkv`, `p`, as of [`Kernel::AttentionPlain`], `dy`; out: `dqkv`, overwritten.
    AttentionPlainGrad(AttentionShape),
    /// in: `pixels [samples, height, width, channels]` (u8), `scaling [2, width * channels]` (f32), `places [batch]` (u32);
    /// out: `y [batch, height, width, channels]`, the images at those places times the first row of `scaling` plus the
    /// second, computed in f32.
    GatherImages,
    /// in: `table [samples, targets]` (u8 or u32), `places [batch]` (u32); out: `y [batch, targets]` (u32), its rows at those
    /// places.
    GatherLabels,
    /// in: `tokens` (u8 or u32), `places [batch]` (u32), the first token of each sample; out: `inputs [batch, length]` (u32),
    /// the tokens from there, and `labels [batch, length]` (u32), the ones that follow them: the last `scored` of each
    /// sample, the others [`IGNORE_INDEX`].
    GatherTokens {
        /// Labels of a sample that count.
        scored: usize,
    },
    /// in: `logits [rows, classes]`, `labels [rows]` (u32); out: `stats [2]` (f64), updated: adds the sum over rows of
    /// `-log softmax(logits)[label]` to the first and the number of rows whose largest logit is the label's to the second.
    /// Rows whose label is [`IGNORE_INDEX`] count in neither.
    CrossEntropy,
    /// in: `labels [rows]`; out: `logits [rows, classes]`, updated: becomes `scale * (softmax(logits) - onehot(label))`,
    /// or zero where the label is [`IGNORE_INDEX`].
    CrossEntropyGrad {
        /// The loss's weight, loss scaling included.
        scale: f64,
    },
    /// in: `x`; out: `sum [1]` (f64), updated: adds the sum of squares. Infinite or NaN when any element is.
    SumSquares,
    /// in: `squares [1]` (f64); out: `scale [1]` (f64): `limit / sqrt(squares)` where that is below 1, else 1. What gradients
    /// of that sum of squares are multiplied by so that their norm is `limit` at the most (Pascanu, Mikolov & Bengio 2013).
    Clip {
        /// The largest norm.
        limit: f64,
    },
    /// in: `grad` and, when given, `scale [1]` (f64), which multiplies the update's `grad_scale`; out: `weight`, updated, the rule's state, updated, and, when given, the weight's narrower `copy`.
    Update(Update),
}

impl Kernel {
    /// The name on screen and in timelines.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fill(_) => "fill",
            Self::Uniform { .. } => "initialise",
            Self::Normal { .. } => "initialise",
            Self::Cast => "cast",
            Self::CopyColumns { .. } => "copy columns",
            Self::Transpose { .. } => "transpose",
            Self::MatMul(_) => "matmul",
            Self::AddBias => "add bias",
            Self::BiasGrad { .. } => "bias gradient",
            Self::Relu => "relu",
            Self::ReluGrad => "relu gradient",
            Self::Relu6 => "relu6",
            Self::Relu6Grad => "relu6 gradient",
            Self::Add => "add",
            Self::Scale(_) => "scale",
            Self::Conv2d(_) => "convolution",
            Self::Conv2dInputGrad(_) => "convolution input gradient",
            Self::Conv2dWeightGrad { .. } => "convolution weight gradient",
            Self::Depthwise(_) => "depthwise convolution",
            Self::DepthwiseInputGrad(_) => "depthwise input gradient",
            Self::DepthwiseWeightGrad { .. } => "depthwise weight gradient",
            Self::MaxPool(_) => "max pool",
            Self::MaxPoolGrad(_) => "max pool gradient",
            Self::AvgPool(_) => "average pool",
            Self::AvgPoolGrad(_) => "average pool gradient",
            Self::GlobalPool { .. } => "global average",
            Self::GlobalPoolGrad { .. } => "global average gradient",
            Self::BatchNorm { .. } => "batch norm",
            Self::BatchNormAgain { .. } => "batch norm again",
            Self::BatchNormGrad { .. } => "batch norm gradient",
            Self::BatchNormFixed { .. } => "batch norm by running estimates",
            Self::LayerNorm { .. } => "layer norm",
            Self::LayerNormGrad { .. } => "layer norm gradient",
            Self::RmsNorm { .. } => "rms norm",
            Self::RmsNormGrad { .. } => "rms norm gradient",
            Self::Curve(Curve::Silu) => "silu",
            Self::Curve(_) => "gelu",
            Self::CurveGrad(Curve::Silu) => "silu gradient",
            Self::CurveGrad(_) => "gelu gradient",
            Self::Dropout { .. } => "dropout",
            Self::Embedding => "embedding",
            Self::EmbeddingGrad { .. } => "embedding gradient",
            Self::Rotary { is_inverse: false, .. } => "rotary embedding",
            Self::Rotary { is_inverse: true, .. } => "rotary embedding gradient",
            Self::SwiGlu { .. } => "swiglu",
            Self::SwiGluGrad { .. } => "swiglu gradient",
            Self::Attention(_) => "attention",
            Self::AttentionGrad(_) => "attention gradient",
            Self::AttentionPlain(_) => "plain attention",
            Self::AttentionPlainGrad(_) => "plain attention gradient",
            Self::GatherImages => "gather images",
            Self::GatherLabels => "gather labels",
            Self::GatherTokens { .. } => "gather tokens",
            Self::CrossEntropy => "cross entropy",
            Self::CrossEntropyGrad { .. } => "cross entropy gradient",
            Self::SumSquares => "sum of squares",
            Self::Clip { .. } => "clip",
            Self::Update(update) => update.rule.name(),
        }
    }

    /// Multiplications and additions of a launch that does its work in GEMM-like loops; zero for kernels that only
    /// stream through memory, whose time is in the bytes they touch.
    pub fn flops(&self) -> u64 {
        let count = |a: usize, b: usize, c: usize| 2 * a as u64 * b as u64 * c as u64;
        match self {
            Self::MatMul(p) => count(p.m, p.n, p.k),
            Self::Conv2d(w) | Self::Conv2dInputGrad(w) | Self::Conv2dWeightGrad { window: w, .. } => {
                count(w.out_pixels(), w.filters, w.taps())
            }
            Self::Depthwise(w) | Self::DepthwiseInputGrad(w) | Self::DepthwiseWeightGrad { window: w, .. } => {
                count(w.out_pixels(), w.channels, w.size * w.size)
            }
            // Of the pairs that are seen: two products forward, five back.
            Self::Attention(s) | Self::AttentionPlain(s) => 2 * count(s.batch * s.heads, s.pairs(), s.head_dim),
            Self::AttentionGrad(s) | Self::AttentionPlainGrad(s) => 5 * count(s.batch * s.heads, s.pairs(), s.head_dim),
            _ => 0,
        }
    }
}
