//! Pruning: the masks of a run's weights, and when they change.
//!
//! Always holds: everything that pruning needs is allocated when the run begins and stays, so that a step in which masks change
//! takes no more memory than any other. The masks have every bit until the first pruning.

use std::fmt;

use crate::{
    backend::{
        Backend, DType, Executor, Tensor,
        ops::{KeyBits, Prune as Kernels},
    },
    bytes::{Bytes, count},
    error::{Problem, Result},
    experiment::{Prune, PruneKind, PruneScope},
    memory::Category,
    nn::Param,
};

/// The masks of a run, in the order of its weights that are pruned.
pub struct Pruning<B: Backend> {
    choice: Prune,
    /// Updates of the whole run.
    steps: u64,
    masks: Vec<Tensor<B>>,
    counts: Tensor<B>, // [2048]
    bound: Tensor<B>,  // [2]
}

/// The size of the weights without those that are zero or were taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripped {
    /// Weights that can be pruned; where channels were taken out, all parameters of the model before.
    pub weights: u64,
    /// The number of these weights that are zero, or were taken out.
    pub gone: u64,
    /// Bytes of all parameters with their zeros left out: the weights that are not zero, and a bit for every one that can be.
    /// If channels were taken out, all parameters as they are.
    pub bytes: Bytes,
    /// Bytes of all parameters with their zeros, or before channels were taken out.
    pub dense_bytes: Bytes,
    /// Whether the weights that are gone are zeros, which are still stored while the run trains.
    pub are_zeros: bool,
}

/// A parameter, how many of its weights are zero, and the bytes of its mask.
pub type Zeros<'p, B> = (&'p Param<B>, [u64; 2]);

/// How many of some weights a share of them is. A number that is too large is refused when the masks are made.
fn rank(weights: usize, sparsity: f64) -> u32 {
    (weights as f64 * sparsity).round() as u32
}

impl Stripped {
    /// The size of `all` parameters with `zeros` left out.
    pub fn of<B: Backend>(zeros: &[Zeros<'_, B>], all: &[&Param<B>]) -> Self {
        let dense: u64 = all.iter().map(|param| param.weight().bytes()).sum();
        let gone: u64 = zeros.iter().map(|(_, [zeros, _])| zeros).sum();
        let masks: u64 = zeros.iter().map(|(_, [_, mask])| mask).sum();
        // In layers of one type, as all products of a run are.
        let size = zeros.first().map_or(0, |(param, _)| param.weight().dtype().size() as u64);
        Self {
            weights: zeros.iter().map(|(param, _)| param.master().elements() as u64).sum(),
            gone,
            bytes: Bytes(dense - gone * size + masks),
            dense_bytes: Bytes(dense),
            are_zeros: true,
        }
    }

    /// Bytes of the weights as they are trained in the end: zeros are still there, and channels are not.
    pub fn as_trained(&self) -> Bytes {
        if self.are_zeros { self.dense_bytes } else { self.bytes }
    }

    /// The share of the weights that can be pruned that is gone.
    pub fn sparsity(&self) -> f64 {
        self.gone as f64 / self.weights.max(1) as f64
    }
}

impl fmt::Display for Stripped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { weights, bytes, dense_bytes, are_zeros, .. } = self;
        let (percent, weights) = (self.sparsity() * 100.0, count(*weights));
        if self.gone == 0 {
            write!(f, "none of {weights} weights were pruned: {dense_bytes}")
        } else if *are_zeros {
            write!(
                f,
                "{percent:.1}% of {weights} weights are zero: {bytes} stored without them, {dense_bytes} with them"
            )
        } else {
            write!(f, "{percent:.1}% of {weights} weights were taken out: {bytes} are left of {dense_bytes}")
        }
    }
}

impl<B: Backend> Pruning<B> {
    /// Masks for `params`; none if nothing is pruned.
    ///
    /// # Errors
    /// Fails when they would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when the device fails.
    pub fn new(executor: &Executor<B>, choice: Prune, steps: u64, params: &[&Param<B>]) -> Result<Option<Self>> {
        if !choice.kind.sets_to_zero() {
            return Ok(None);
        }
        let weights: usize = params.iter().map(|param| param.master().elements()).sum();
        if choice.scope == PruneScope::Global && u32::try_from(weights).is_err() {
            let message = format!("{weights} weights are more than can be compared at once, which are {}", u32::MAX);
            return Err(Problem::new("prune.scope", message, "write layer").into());
        }
        let buffer =
            |value, shape: [usize; 1], dtype, label| executor.filled(value, shape, dtype, Category::Buffers, label);
        let mask = |param: &&Param<B>| {
            let _layer = executor.enter(param.layer());
            buffer(255.0, [Kernels::mask_bytes(param.master().elements())], DType::U8, "pruning mask")
        };
        let masks = params.iter().map(mask).collect::<Result<Vec<_>>>()?;
        let counts = buffer(0.0, [Kernels::BUCKETS], DType::U32, "magnitudes")?;
        let bound = buffer(0.0, [2], DType::U32, "threshold")?;
        Ok(Some(Self { choice, steps, masks, counts, bound }))
    }

    /// The bytes of all that it holds.
    pub fn bytes(&self) -> Bytes {
        let held = self.masks.iter().chain([&self.counts, &self.bound]);
        Bytes(held.map(Tensor::bytes).sum())
    }

    /// The masks, in the order of the weights.
    pub fn masks(&self) -> &[Tensor<B>] {
        &self.masks
    }

    /// Sets masked weights to zero after update `step` of `params`, with new masks if they are due.
    ///
    /// # Errors
    /// Fails when the device does.
    pub fn after_update(&self, executor: &Executor<B>, params: &[&Param<B>], step: u64) -> Result<()> {
        if let Some(sparsity) = self.choice.sparsity_at(step, self.steps) {
            self.renew(executor, params, sparsity)?;
        }
        for (param, mask) in params.iter().zip(&self.masks) {
            let _layer = executor.enter(param.layer());
            executor.apply_mask(mask, param.master(), param.copy())?;
        }
        Ok(())
    }

    /// Makes new masks with a share of zeros of `sparsity`.
    fn renew(&self, executor: &Executor<B>, params: &[&Param<B>], sparsity: f64) -> Result<()> {
        let each = || params.iter().copied().zip(&self.masks);
        match (self.choice.kind, self.choice.scope) {
            (PruneKind::None | PruneKind::Channels, _) => Ok(()),
            (PruneKind::Groups, _) => each().try_for_each(|(param, mask)| {
                let _layer = executor.enter(param.layer());
                executor.mask_in_groups(param.master(), [self.choice.n, self.choice.m], mask)
            }),
            (PruneKind::Magnitude, PruneScope::Layer) => {
                each().try_for_each(|(param, mask)| self.mask_least(executor, &[(param, mask)], sparsity))
            }
            (PruneKind::Magnitude, PruneScope::Global) => {
                self.mask_least(executor, &each().collect::<Vec<_>>(), sparsity)
            }
        }
    }

    /// Masks the least magnitudes of some weights together.
    fn mask_least(&self, executor: &Executor<B>, of: &[(&Param<B>, &Tensor<B>)], sparsity: f64) -> Result<()> {
        let weights: usize = of.iter().map(|(param, _)| param.master().elements()).sum();
        let rank = rank(weights, sparsity);
        if rank == 0 {
            return Ok(());
        }
        for bits in KeyBits::ALL {
            for (param, _) in of {
                let _layer = executor.enter(param.layer());
                executor.count_magnitudes(param.master(), bits, &self.bound, &self.counts)?;
            }
            executor.pick_threshold(bits, rank, &self.counts, &self.bound)?;
        }
        of.iter().try_for_each(|(param, mask)| {
            let _layer = executor.enter(param.layer());
            executor.mask_by_magnitude(param.master(), &self.bound, mask)
        })
    }

    /// How many weights of each of `params` the masks set to zero, and the bytes of its mask.
    ///
    /// # Errors
    /// Fails when the device does.
    pub fn zeros_of<'p>(&self, executor: &Executor<B>, params: &[&'p Param<B>]) -> Result<Vec<Zeros<'p, B>>> {
        let mut zeros = Vec::with_capacity(params.len());
        for (param, mask) in params.iter().zip(&self.masks) {
            // Bits beyond the last weight are zeros of no weight.
            let (mut left, mut kept) = (param.master().elements(), 0);
            executor.save(mask, &mut |bytes| {
                for byte in bytes {
                    let own = left.min(8);
                    kept += (u32::from(*byte) & ((1 << own) - 1)).count_ones() as u64;
                    left -= own;
                }
                Ok(())
            })?;
            zeros.push((*param, [param.master().elements() as u64 - kept, mask.elements() as u64]));
        }
        Ok(zeros)
    }

    /// The same at the end of the run, as the settings have it: exactly in groups, and otherwise up to equal magnitudes, and to
    /// which layers the least of all are in.
    pub fn planned_zeros<'p>(&self, params: &[&'p Param<B>]) -> Vec<Zeros<'p, B>> {
        let sparsity = self.choice.last_sparsity(self.steps);
        let of = |param: &Param<B>| {
            let (elements, columns) = (param.master().elements(), param.master().shape().last());
            match (self.choice.kind, sparsity) {
                (PruneKind::None | PruneKind::Channels, _) | (_, None) => 0,
                (PruneKind::Groups, Some(_)) => {
                    let Prune { n, m, .. } = self.choice;
                    elements / columns * (columns / m * (m - n) + (columns % m).saturating_sub(n))
                }
                (PruneKind::Magnitude, Some(sparsity)) => rank(elements, sparsity) as usize,
            }
        };
        let mask = |mask: &Tensor<B>| mask.elements() as u64;
        params.iter().zip(&self.masks).map(|(param, own)| (*param, [of(param) as u64, mask(own)])).collect()
    }
}
