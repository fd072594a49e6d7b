//! A trained model as integers: the ranges of its inputs, its codes, and a test with them.
//!
//! Always holds: the weights stay as they are, and codes and ranges are held in addition while the test lasts; afterwards they
//! are gone, and the session is as before. Dense layers and convolutions become integers. Depthwise and transposed
//! convolutions, norms, embeddings, attention, a last layer that shares its weight with an embedding, and the loss compute as
//! in training. In a decoder, only the weights may have codes: then there are no ranges, and products decode a part at a time.

use std::{
    fmt,
    time::{Duration, Instant},
};

use super::{MicroBatch, Session, loss::Stats, slots::named};
use crate::{
    backend::{Backend, Tensor, ops::Code},
    bytes::Bytes,
    data::Split,
    error::Result,
    experiment::{CodedWeights, QuantiseKind},
    memory::{Part, Phase, probe::uncounted},
    nn::{IntegerLayer, Param, RANGE},
    optim::Zeros,
};

/// The size and the accuracy of a trained model as one of integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compressed {
    /// The weights that became integers.
    pub weights: CodedWeights,
    /// Bytes of all parameters, with dense layers and convolutions as codes of a byte with a scale a row, and a scale and a
    /// zero point of a layer's inputs; for weights alone, as codes with a scale a block. Where weights are pruned, zeros are
    /// left out, and a bit a weight says which those are.
    pub bytes: Bytes,
    /// Bytes of all parameters as they are.
    pub dense_bytes: Bytes,
    /// Accuracy on the test set; of values the share of the labels' variance that is explained (R²).
    pub test_accuracy: f64,
    /// The accuracy of the model as it was trained.
    pub trained_accuracy: f64,
    /// Mean loss on the test set.
    pub test_loss: f64,
    /// The loss of the model as it was trained.
    pub trained_loss: f64,
    /// Seconds that the test took.
    pub test_secs: f64,
    /// Seconds that the test of the model as it was trained took; `None` if an earlier session tested it.
    pub trained_test_secs: Option<f64>,
    /// Whether the accuracies are R².
    pub is_of_values: bool,
}

impl fmt::Display for Compressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { weights, bytes, dense_bytes, test_accuracy: after, trained_accuracy: before, .. } = self;
        match weights {
            CodedWeights::WithInputs => write!(f, "as 8-bit integers: {bytes} in place of {dense_bytes}, ")?,
            CodedWeights::Int8 | CodedWeights::Int4 => {
                write!(f, "weights as {}-bit integers: {bytes} in place of {dense_bytes}, ", weights.bits())?;
                write!(f, "test loss {:.4}, as trained {:.4}, ", self.test_loss, self.trained_loss)?;
            }
        }
        match self.is_of_values {
            true => write!(f, "test R² {after:.4}, as trained {before:.4}")?,
            false => write!(f, "test accuracy {:.2}%, as trained {:.2}%", after * 100.0, before * 100.0)?,
        }
        write!(f, "; tested in {:.3} s", self.test_secs)?;
        match self.trained_test_secs {
            Some(trained) if self.test_secs > SLOWER * trained => {
                write!(f, ", which is slower than as trained, in {trained:.3} s")
            }
            Some(trained) => write!(f, ", as trained in {trained:.3} s"),
            None => Ok(()),
        }
    }
}

/// How many times as long a test has to take to be called slower than another.
const SLOWER: f64 = 1.05;

/// Bytes of the scale of a row or a block, and of the scale and the zero point of a layer's inputs.
const SCALE: u64 = 4;
const INPUT: u64 = 5;

/// Frees the codes of a model at the end of a test, also after an error.
struct Forget<'a, B: Backend>(Vec<(&'a IntegerLayer<B>, &'a Param<B>)>);

impl<B: Backend> Drop for Forget<'_, B> {
    fn drop(&mut self) {
        self.0.iter().for_each(|(integers, _)| integers.forget());
    }
}

impl<B: Backend> Session<B> {
    /// Tests the model as integers on all batches that `test` gives: mean loss and accuracy, as [`Session::evaluate`] does, and
    /// how long the test takes.
    /// Ranges that were not learned are found in as many batches of `calibration` as the experiment says: the least and the
    /// largest number that a layer sees. `found` gets the range of each layer, with its name in a file. `None` if the model
    /// stays as it is.
    ///
    /// # Errors
    /// Fails if [`Session::evaluate`] does, and with the errors of both.
    pub fn compress<C: MicroBatch, M: MicroBatch>(
        &self,
        mut calibration: impl FnMut() -> Result<C>,
        mut test: impl FnMut() -> Result<Option<M>>,
        mut found: impl FnMut(String, [f32; 2]),
    ) -> Result<Option<((f64, f64), Duration)>> {
        let (executor, ledger) = (&self.executor, self.executor.ledger());
        let batches = match self.experiment.quantise.kind {
            QuantiseKind::None => return Ok(None),
            QuantiseKind::After if self.code_of_weights().is_some() => 0,
            QuantiseKind::After => self.experiment.quantise.calibration,
            QuantiseKind::Aware => 0,
        };
        ledger.set_phase(Phase::Compress);
        ledger.enter(Part::Compression);
        let layers = Forget(self.integer_layers());
        if batches > 0 {
            layers.0.iter().try_for_each(|(integers, _)| integers.observe(executor))?;
            let stats = Stats::new(executor, &self.info)?;
            for _ in 0..batches {
                ledger.enter(Part::Calibration);
                let batch = self.upload(calibration()?, Split::Train, [self.info.input.label(), "labels"])?;
                self.loss().measure(batch.inputs, &batch.labels, &stats, &mut None)?;
            }
        }
        ledger.enter(Part::Coding);
        layers.0.iter().try_for_each(|(layer, weight)| match self.code_of_weights() {
            None => layer.code(executor, weight.weight()),
            Some(code) => layer.code_weight(executor, code, weight.weight()),
        })?;
        let begun = Instant::now();
        let means = self.measured(&mut test, None, |samples| Part::CodedBatch { samples })?;
        let took = begun.elapsed();
        for (layer, _) in &layers.0 {
            let Some(range) = layer.range_of_codes() else { continue };
            let mut own = None;
            executor.save(&range, &mut |bytes| {
                let mut numbers =
                    bytes.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok()).map(f32::from_le_bytes);
                own = numbers.next().zip(numbers.next());
                Ok(())
            })?;
            // A dry run has no numbers.
            let Some((low, high)) = own else { continue };
            uncounted(|| found(named(ledger, layer.layer(), RANGE), [low, high]));
        }
        drop(layers);
        executor.step_ended()?;
        Ok(Some((means, took)))
    }

    /// The code of weights where they alone become integers.
    pub(super) fn code_of_weights(&self) -> Option<Code> {
        match self.experiment.quantise.coded() {
            CodedWeights::WithInputs => None,
            CodedWeights::Int8 => Some(Code::Int8),
            CodedWeights::Int4 => Some(Code::Int4),
        }
    }

    /// Bytes of a weight as codes.
    fn coded_bytes(&self, weight: &Tensor<B>) -> u64 {
        let elements = weight.elements();
        match self.code_of_weights() {
            None => elements as u64 + SCALE * weight.shape().first() as u64 + INPUT,
            Some(code) => code.bytes(elements) as u64 + SCALE * code.blocks(elements) as u64,
        }
    }

    /// The layers that become integers, with their weights.
    pub(super) fn integer_layers(&self) -> Vec<(&IntegerLayer<B>, &Param<B>)> {
        self.model.leaves().into_iter().filter_map(|layer| layer.integers().zip(layer.prunable())).collect()
    }

    /// Bytes of all parameters as codes, and as they are.
    ///
    /// # Errors
    /// Fails when the device does.
    pub fn compressed_bytes(&self) -> Result<[Bytes; 2]> {
        let prunable = self.model.prunable();
        let zeros = self.pruning.as_ref().map(|pruning| pruning.zeros_of(&self.executor, &prunable)).transpose()?;
        Ok(self.coded_size(&zeros.unwrap_or_default()))
    }

    /// Bytes of all parameters as codes without `zeros`, and as they are.
    pub(super) fn coded_size(&self, zeros: &[Zeros<'_, B>]) -> [Bytes; 2] {
        let dense: u64 = self.model.params().iter().map(|param| param.weight().bytes()).sum();
        let mut bytes = dense;
        for (_, param) in self.integer_layers() {
            let weight = param.weight();
            bytes -= weight.bytes();
            bytes += self.coded_bytes(weight);
        }
        let coded: Vec<_> = self.integer_layers().into_iter().map(|(_, param)| (param.layer(), param.name())).collect();
        for (param, [zeros, mask]) in zeros {
            let is_coded = coded.contains(&(param.layer(), param.name()));
            // Two codes share a byte; an odd count is rounded up.
            let bits = self.experiment.quantise.coded().bits();
            let gone = if is_coded { zeros * bits / 8 } else { zeros * param.weight().dtype().size() as u64 };
            bytes = bytes + mask - gone;
        }
        [Bytes(bytes), Bytes(dense)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_that_were_slower_than_what_was_trained_are_said_to_be() {
        let said = |trained_test_secs: Option<f64>| {
            let weights = CodedWeights::WithInputs;
            let [bytes, dense_bytes] = [Bytes(100), Bytes(400)];
            let (test_accuracy, trained_accuracy, test_loss, trained_loss) = (0.5, 0.5, 1.0, 1.0);
            let (test_secs, is_of_values) = (0.71, false);
            Compressed {
                weights,
                bytes,
                dense_bytes,
                test_accuracy,
                trained_accuracy,
                test_loss,
                trained_loss,
                test_secs,
                trained_test_secs,
                is_of_values,
            }
            .to_string()
        };
        assert!(said(Some(0.53)).ends_with("tested in 0.710 s, which is slower than as trained, in 0.530 s"));
        assert!(said(Some(0.7)).ends_with("tested in 0.710 s, as trained in 0.700 s"));
        assert!(said(None).ends_with("tested in 0.710 s"));
    }
}
