//! Attention over packed queries, keys and values, block by block (Rabe & Staats 2021; Dao et al. 2022; Dao 2023), and
//! with its probabilities kept.
//!
//! Its scratch is one number for each row of each head: the softmax's denominators in the plain forward pass, and the means
//! of the rows' gradients in either gradient.
//!
//! Over kept keys and values it is one number for each place and each row of each head: the logits.
//!
//! There are kernels for tensor cores as well, for bf16 and f16. They run where the backend is told so
//! ([`Options::tensor_cores`](super::Options)), which a check on the card decides; the environment may force either
//! (`TENSOR_CORES`).

use std::{
    ffi::CStr,
    hash::{DefaultHasher, Hash, Hasher},
    sync::LazyLock,
};

use super::{
    DType, Operands, Source, Types, args,
    launch::{Arg, Grid, Pointer, THREADS},
};
use crate::{
    backend::ops::{Attention, AttentionShape, CachedAttention},
    error::Result,
};

/// The kernels of the forward passes.
pub(super) const FORWARD: Source = Source {
    name: "attention",
    text: concat!(include_str!("attention/tile.cuh"), include_str!("attention/forward.cu")),
    types: Types::Element,
};

/// The kernels of the gradients.
pub(super) const GRADIENT: Source = Source {
    name: "attention_gradient",
    text: concat!(include_str!("attention/tile.cuh"), include_str!("attention/gradient.cu")),
    types: Types::Element,
};

/// The kernels for tensor cores.
pub(super) const TENSOR: Source = Source {
    name: "attention_tensor",
    text: concat!(include_str!("attention/tile.cuh"), include_str!("attention/tensor.cu")),
    types: Types::Half,
};

/// The kernel of new positions over kept keys and values.
pub(super) const CACHED: Source =
    Source { name: "attention_cached", text: include_str!("attention/cached.cu"), types: Types::Element };

/// The variable that asks for tensor cores (1) or against them (0), regardless of what a check found.
const TENSOR_CORES: &str = "PLIMSOLL_TENSOR_CORES";
/// The lowest compute capability that has the products they use.
const TENSOR_CAPABILITY: (i32, i32) = (8, 0);
/// Threads of their blocks.
const TENSOR_THREADS: u32 = 128;

/// Positions that a block of threads takes at once, in f32 arithmetic; half as many in f64.
const TILE: usize = 64;
/// The most positions, and elements of a row, so that the kernels count in 32 bits.
const MOST: usize = 1 << 24;

/// What the environment asks for; `None` where it leaves that to a check.
pub fn asked_for_tensor_cores() -> Option<bool> {
    static ASKED: LazyLock<Option<bool>> = LazyLock::new(|| match std::env::var(TENSOR_CORES).as_deref() {
        Ok("1") => Some(true),
        Ok("0") => Some(false),
        _ => None,
    });
    *ASKED
}

/// A name for the kernels for tensor cores as they are in this program: what a check found of others does not count.
pub fn tensor_kernels() -> String {
    let mut hasher = DefaultHasher::new();
    TENSOR.text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Whether a card of this compute capability has what they need.
pub fn has_tensor_cores(capability: (i32, i32)) -> bool {
    capability >= TENSOR_CAPABILITY
}

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Attention, o: &Operands<'_>) -> Result<()> {
    let s = kernel.shape();
    let dtype = o.input_type(0);
    let sums = dtype.accumulator();
    let is_typed = match kernel {
        Attention::Efficient(_) => [o.output_type(0), o.output_type(1)] == [dtype, sums],
        Attention::Plain(_) => [o.output_type(0), o.output_type(1)] == [dtype; 2],
        Attention::EfficientGrad(_) => {
            [o.input_type(1), o.input_type(2), o.input_type(3), o.output_type(0)] == [dtype, sums, dtype, dtype]
        }
        Attention::PlainGrad(_) => [o.input_type(1), o.input_type(2), o.output_type(0)] == [dtype; 3],
        Attention::Cached(_) => [o.input_type(1), o.output_type(0)] == [dtype; 2],
    };
    let is_small = s.length <= MOST && s.packed() <= MOST && s.batch * s.heads <= MOST;
    if !is_typed || !is_small {
        return o.unsupported();
    }
    let work = Work { o, dtype, s };
    match kernel {
        Attention::Efficient(_) => work.forward(o.output(1)),
        Attention::Plain(_) => work.plain(),
        Attention::EfficientGrad(_) => work.gradient(o.input(2), o.input(3)),
        Attention::PlainGrad(_) => work.plain_gradient(),
        Attention::Cached(cached) => work.cached(cached),
    }
}

/// One launch.
struct Work<'a> {
    o: &'a Operands<'a>,
    dtype: DType,
    s: &'a AttentionShape,
}

impl Work<'_> {
    fn tile(&self) -> usize {
        if self.dtype == DType::F64 { TILE / 2 } else { TILE }
    }

    fn tiles(&self) -> usize {
        self.s.length.div_ceil(self.tile())
    }

    /// Whether a head fits in one tile; else a block takes two at once.
    fn is_narrow(&self) -> bool {
        self.s.head_dim <= self.tile()
    }

    /// A grid with a block for each tile of this many heads, and `across` along y.
    fn grid(&self, heads: usize, across: usize) -> Grid {
        let lanes = self.tile() / 4;
        Grid::plane([heads * self.tiles(), across], [(lanes * lanes) as u32, 1])
    }

    /// Tiles of a head's elements, when a block takes this many at once.
    fn across(&self, at_once: usize) -> usize {
        self.s.head_dim.div_ceil(at_once * self.tile())
    }

    /// Whether tensor cores are asked for, and take these operands: sixteen bytes at a time, sixteen elements of a head.
    fn is_for_tensor_cores(&self, operands: &[Pointer]) -> bool {
        self.o.backend().options().tensor_cores
            && matches!(self.dtype, DType::Bf16 | DType::F16)
            && self.s.head_dim.is_multiple_of(16)
            && self.s.head_dim <= 2 * TILE
            && has_tensor_cores(self.o.backend().device().capability())
            && operands.iter().all(|pointer| pointer.0.is_multiple_of(16))
    }

    /// A grid with a block for each tile of this many heads.
    fn tensor_grid(&self, heads: usize) -> Grid {
        Grid::blocks(heads * self.tiles(), TENSOR_THREADS)
    }

    fn run(&self, source: &'static Source, name: &'static CStr, grid: Grid, operands: &[Arg]) -> Result<()> {
        let s = self.s;
        // A window of 0 reaches as far as one of the whole length does.
        let reach = if s.window == 0 { s.length } else { s.window.min(s.length) };
        let scale = Arg::real(1.0 / (s.head_dim as f64).sqrt(), self.dtype.accumulator());
        let shape = args![s.batch * s.heads, s.heads, s.kv_heads, s.head_dim, s.length, reach, s.is_causal, scale];
        self.o.launch_for(source, self.dtype, name, grid, &[operands, shape].concat())
    }

    fn heads(&self) -> usize {
        self.s.batch * self.s.heads
    }

    fn forward(&self, lse: Pointer) -> Result<()> {
        let args = args![self.o.input(0), self.o.output(0), lse];
        if self.is_for_tensor_cores(&[self.o.input(0), self.o.output(0)]) {
            let name = if self.is_narrow() { c"attention_64" } else { c"attention_128" };
            return self.run(&TENSOR, name, self.tensor_grid(self.heads()), args);
        }
        let (name, at_once) = if self.is_narrow() { (c"attention_1", 1) } else { (c"attention_2", 2) };
        self.run(&FORWARD, name, self.grid(self.heads(), self.across(at_once)), args)
    }

    fn plain(&self) -> Result<()> {
        let lse = self.o.scratch();
        self.forward(lse)?;
        let args = args![self.o.input(0), lse, self.o.output(1)];
        let grid = self.grid(self.heads(), self.tiles().min(1 << 10));
        self.run(&FORWARD, c"attention_probabilities", grid, args)
    }

    /// A block a query of a head.
    fn cached(&self, cached: &CachedAttention) -> Result<()> {
        let (o, s) = (self.o, self.s);
        let reach = if s.window == 0 { cached.places } else { s.window };
        let scale = Arg::real(1.0 / (s.head_dim as f64).sqrt(), self.dtype.accumulator());
        let operands: &[Arg] = args![o.input(0), o.input(1), o.output(0), o.scratch()];
        let shape: &[Arg] = args![s.heads, s.kv_heads, s.head_dim, cached.seen, cached.places, reach, scale];
        let grid = Grid::blocks(s.rows() * s.heads, THREADS);
        o.launch_for(&CACHED, self.dtype, c"attention_cached", grid, &[operands, shape].concat())
    }

    fn gradient(&self, lse: Pointer, dy: Pointer) -> Result<()> {
        let (o, s) = (self.o, self.s);
        // The kernel by queries makes the means that the one by keys reads.
        let (y, means) = (o.input(1), o.scratch());
        let by_queries = args![o.input(0), y, lse, dy, means, o.output(0)];
        let by_keys = args![o.input(0), lse, dy, means, o.output(0)];
        if self.is_for_tensor_cores(&[o.input(0), y, dy, o.output(0)]) {
            let names = if self.is_narrow() {
                [c"attention_queries_64", c"attention_keys_64"]
            } else {
                [c"attention_queries_128", c"attention_keys_128"]
            };
            self.run(&TENSOR, names[0], self.tensor_grid(self.heads()), by_queries)?;
            return self.run(&TENSOR, names[1], self.tensor_grid(s.batch * s.kv_heads), by_keys);
        }
        let names = if self.is_narrow() {
            [c"attention_queries_1", c"attention_keys_1"]
        } else {
            [c"attention_queries_2", c"attention_keys_2"]
        };
        let across = self.across(if self.is_narrow() { 1 } else { 2 });
        self.run(&GRADIENT, names[0], self.grid(self.heads(), across), by_queries)?;
        self.run(&GRADIENT, names[1], self.grid(s.batch * s.kv_heads, across), by_keys)
    }

    fn plain_gradient(&self) -> Result<()> {
        let (o, s) = (self.o, self.s);
        let (p, dy, means) = (o.input(1), o.input(2), o.scratch());
        let args = args![o.input(0), p, dy, means];
        self.run(&GRADIENT, c"attention_kept_means", self.grid(self.heads(), 1), args)?;
        let (args, across) = (args![o.input(0), p, dy, means, o.output(0)], self.across(2));
        self.run(&GRADIENT, c"attention_kept_queries", self.grid(self.heads(), across), args)?;
        self.run(&GRADIENT, c"attention_kept_keys", self.grid(s.batch * s.kv_heads, across), args)
    }
}
