//! Batch normalisation (Ioffe & Szegedy 2015), with PyTorch's defaults.

use crate::{
    autograd::{Pass, Source, Tape, Value},
    backend::{
        Backend, Executor, Tensor,
        ops::{Affine, Function, Rectifier, Running, Statistics},
    },
    error::Result,
    memory::{Category, timeline::LayerId},
    nn::{
        ChannelGroup, ChannelMap, Init, Layer, Param, ParamRole, Residual, Tail, TensorChannels, activation::rectified,
        norm::record,
    },
};

/// Added to the variance.
const EPSILON: f64 = 1e-5;
/// The names of the running estimates.
const MEAN: &str = "running mean";
const VARIANCE: &str = "running variance";
/// How far the running estimates move towards each batch's.
const MOMENTUM: f64 = 0.1;

/// Normalises each channel, the last extent, over all others. Training uses the batch's statistics and moves the running
/// estimates, which evaluation uses. Saves its input and two numbers a channel, from which its output can be recomputed.
/// Parameters and estimates are in the optimizer's precision: there are few of them, and small differences matter.
pub struct BatchNorm<B: Backend> {
    layer: LayerId,
    weight: Param<B>,            // [channels]
    bias: Param<B>,              // [channels]
    running_mean: Tensor<B>,     // [channels], f32 (f64 for f64)
    running_variance: Tensor<B>, // [channels], f32 (f64 for f64)
}

impl<B: Backend> BatchNorm<B> {
    /// A layer at `path` over `channels`.
    ///
    /// # Errors
    /// The errors of [`Init::constant`]: a parameter or a running statistic crosses the budget, or the device fails.
    pub fn new(init: &mut Init<'_, B>, path: &str, channels: usize) -> Result<Self> {
        let executor = init.executor();
        let layer = executor.ledger().layer_id(path);
        let weight = init.constant(layer, ParamRole::Weight, [channels], 1.0)?;
        let bias = init.constant(layer, ParamRole::Bias, [channels], 0.0)?;
        let _layer = executor.enter(layer);
        let dtype = init.precision().sums();
        let running_mean = executor.filled(0.0, [channels], dtype, Category::Buffers, MEAN)?;
        let running_variance = executor.filled(1.0, [channels], dtype, Category::Buffers, VARIANCE)?;
        Ok(Self { layer, weight, bias, running_mean, running_variance })
    }

    /// How the output for `x` can be recomputed, alone or added to another tensor.
    fn source(&self, tape: &Tape<'_, B>, x: &Value<B>, statistics: &Statistics<B>) -> Source<B> {
        let again = |executor: &Executor<B>, x: Tensor<B>, s: &Statistics<B>, [weight, bias]: &[Tensor<B>; 2]| {
            executor.batch_norm_apply(x, s, &Affine { weight, bias })
        };
        let parameters = [self.weight.weight().clone(), self.bias.weight().clone()];
        let (kept, own) = (statistics.clone(), parameters.clone());
        let source = tape.recomputable(self.layer, x, move |executor, x| again(executor, x, &kept, &own));
        if !matches!(x.source(), Source::Itself | Source::Maker) {
            return source;
        }
        let (x, statistics) = (x.tensor.clone(), statistics.clone());
        source.with_add(move |executor, sum| {
            let [weight, bias] = &parameters;
            executor.add_batch_norm_apply(&x, &statistics, &Affine { weight, bias }, sum)
        })
    }

    fn affine(&self) -> Affine<'_, B> {
        Affine { weight: self.weight.weight(), bias: self.bias.weight() }
    }

    /// The output for `x` in training, plus `other`, with a rectifier at the `end`.
    fn then(
        &self,
        tape: &Tape<'_, B>,
        x: &Tensor<B>,
        follow: (Option<&Tensor<B>>, Option<Rectifier>),
    ) -> Result<(Tensor<B>, Statistics<B>)> {
        let [mean, variance] = self.running();
        let running = Running { mean, variance };
        let running = (tape.pass() == Pass::Training).then_some(&running);
        tape.executor().batch_norm_then(x, &self.affine(), [EPSILON, MOMENTUM], running, follow)
    }

    /// The rectified output for `x` in training, in one pass over memory. The elements that pass the rectifier follow from
    /// `x`.
    fn rectified<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>, end: Rectifier) -> Result<Value<B>> {
        let (y, statistics) = self.then(tape, &x.tensor, (None, Some(end)))?; // [..., channels]
        let (kept, own) = (statistics.clone(), [self.weight.weight().clone(), self.bias.weight().clone()]);
        let source = tape.recomputable(self.layer, &x, move |executor, x| {
            let [weight, bias] = &own;
            executor.batch_norm_then_again(x, &kept, &Affine { weight, bias }, (None, Some(end)))
        });
        let (of, params) = ((x, false), [&self.weight, &self.bias]);
        let y = record(tape, self.layer, of, y, params, statistics, move |executor, x, statistics, (dy, _), into| {
            executor.batch_norm_then_grad(x, statistics, &self.affine(), dy, (Some(end), into))
        });
        Ok(y.with_source(source))
    }

    /// The sum of a shortcut and the output for `x` in training, rectified by the layer at the `end`, in one pass over memory.
    fn summed<'m>(
        &'m self,
        tape: &mut Tape<'m, B>,
        x: Value<B>,
        (residual, shortcut): (&'m Residual<B>, Value<B>),
        end: Option<(LayerId, Rectifier)>,
    ) -> Result<Value<B>> {
        let follow = (Some(&shortcut.tensor), end.map(|(_, rectifier)| rectifier));
        let (y, statistics) = self.then(tape, &x.tensor, follow)?; // [..., channels]
        let (kept, own) = (statistics.clone(), [self.weight.weight().clone(), self.bias.weight().clone()]);
        let ends = end.map(|(_, rectifier)| rectifier);
        let steps = 2 + usize::from(end.is_some());
        let source = tape.recomputable_sum(self.layer, steps, [&x, &shortcut], move |executor, x, other| {
            let [weight, bias] = &own;
            executor.batch_norm_then_again(x, &kept, &Affine { weight, bias }, (Some(other), ends))
        });
        let (of, params) = ((x, false), [&self.weight, &self.bias]);
        let main =
            record(tape, self.layer, of, y.clone(), params, statistics, |executor, x, statistics, (dy, _), into| {
                executor.batch_norm_then_grad(x, statistics, &self.affine(), dy, (None, into))
            });
        let sum = residual.record(tape, [main.id(), shortcut.id()], main.tensor);
        Ok(match end {
            Some((layer, rectifier)) => rectified(layer, rectifier, tape, (sum.id(), source), y),
            None => sum.with_source(source),
        })
    }

    /// The running estimates: of the mean, of the variance.
    pub fn running(&self) -> [&Tensor<B>; 2] {
        [&self.running_mean, &self.running_variance]
    }
}

impl<B: Backend> Layer<B> for BatchNorm<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let executor = tape.executor();
        let affine = self.affine();
        let [mean, variance] = self.running();
        let running = Running { mean, variance };
        let running = match tape.pass() {
            Pass::Training => Some(&running),
            Pass::Recompute => None,
            Pass::Evaluation => {
                return Ok(Value::constant(executor.batch_norm_fixed(x.tensor, &affine, EPSILON, &running)?));
            }
        };
        let (y, statistics) = executor.batch_norm(&x.tensor, &affine, EPSILON, MOMENTUM, running)?; // [..., channels]
        let source = self.source(tape, &x, &statistics);
        let (of, params) = ((x, false), [&self.weight, &self.bias]);
        let y = record(tape, self.layer, of, y, params, statistics, |executor, x, statistics, (dy, _), into| {
            executor.batch_norm_grad(x, statistics, self.weight.weight(), dy, into)
        });
        Ok(y.with_source(source))
    }

    fn forward_through<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>, tail: Tail<'m, B>) -> Result<Value<B>> {
        let end = match tail.function.map(|layer| (layer.layer(), layer.function())) {
            Some((layer, Some(Function::Rectifier(rectifier)))) => Some((layer, rectifier)),
            _ => None,
        };
        let is_smooth = tail.function.is_some() && end.is_none();
        let stays_apart = tape.pass() == Pass::Evaluation || tail.dropout.is_some() || is_smooth;
        match (tail.sum, end) {
            (Some(sum), end) if !stays_apart => self.summed(tape, x, sum, end),
            (None, Some((_, rectifier))) if !stays_apart => self.rectified(tape, x, rectifier),
            (sum, _) => {
                let y = self.forward(tape, x)?;
                Tail { sum, ..tail }.apart(tape, y)
            }
        }
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn buffers(&self) -> Vec<(&'static str, &Tensor<B>)> {
        vec![(MEAN, &self.running_mean), (VARIANCE, &self.running_variance)]
    }

    fn channels(&self, map: &mut ChannelMap, input: ChannelGroup) -> ChannelGroup {
        for name in [self.weight.name(), self.bias.name(), MEAN, VARIANCE] {
            map.note(TensorChannels { layer: self.layer, name, rows: None, columns: Some(input) });
        }
        input
    }

    fn each_param<'a>(&'a self, see: &mut dyn FnMut(&'a Param<B>)) {
        [&self.weight, &self.bias].into_iter().for_each(see);
    }
}
