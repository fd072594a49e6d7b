//! Micro-batches on their way to the device.
//!
//! Owns [`OnDevice`]. Always holds: on a GPU the next micro-batch of a run is copied while the device works on the present one,
//! and there is never a third.

use super::{MicroBatch, Session};
use crate::{
    backend::{Backend, DType, HostSlice, IGNORE_INDEX, Tensor},
    data::{DatasetInfo, Split},
    error::Result,
    experiment::LabelKind,
    memory::{Part, Phase},
};

/// One micro-batch on the device.
pub(super) struct OnDevice<B: Backend> {
    pub(super) inputs: Tensor<B>,
    /// `[samples * labels of a sample]`.
    pub(super) labels: Tensor<B>,
    /// `[samples * labels of a sample, classes]`: the answers of a teacher that was asked before.
    pub(super) answers: Option<Tensor<B>>,
    /// How many of the labels count.
    pub(super) scored: usize,
}

/// The names of the next micro-batch's tensors, which are uploaded ahead of its turn.
const NEXT: [&str; 3] = ["next inputs", "next labels", "next teacher's answers"];

impl<B: Backend> Session<B> {
    /// The micro-batch whose turn it is, on the device; the one after it is then on its way there.
    pub(super) fn feed<M: MicroBatch>(
        &mut self,
        is_first: bool,
        next: &mut dyn FnMut() -> Result<M>,
    ) -> Result<OnDevice<B>> {
        self.executor.ledger().set_phase(Phase::Batch);
        self.executor.ledger().enter(Part::MicroBatch { is_first });
        let own = [self.info.input.label(), "labels", "teacher's answers"];
        let present = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.bring(next()?, own)?,
        };
        if self.looks_ahead {
            present.inputs.rename(own[0]);
            present.labels.rename(own[1]);
            present.answers.iter().for_each(|answers| answers.rename(own[2]));
            self.ahead = Some(self.bring(next()?, NEXT)?);
        }
        Ok(present)
    }

    /// Brings a micro-batch to the device, its inputs and labels under these names.
    pub(super) fn upload(&self, batch: impl MicroBatch, split: Split, names: [&'static str; 2]) -> Result<OnDevice<B>> {
        self.copied(&batch, split, names)
    }

    /// Brings a micro-batch for training to the device, with the answers of a teacher that was asked before.
    fn bring(&self, batch: impl MicroBatch, [inputs, labels, answers]: [&'static str; 3]) -> Result<OnDevice<B>> {
        let present = self.copied(&batch, Split::Train, [inputs, labels])?;
        if !self.experiment.distil.is_asked_before() {
            return Ok(present);
        }
        let _layer = self.executor.enter(self.executor.ledger().layer_id("batch"));
        let shape = [batch.samples() * self.info.labels_per_sample, self.info.classes];
        let dtype = self.experiment.precision.compute();
        let answers = self.executor.upload_bytes(batch.answers(), shape, dtype, answers)?;
        Ok(OnDevice { answers: Some(answers), ..present })
    }

    fn copied(&self, batch: &impl MicroBatch, split: Split, names: [&'static str; 2]) -> Result<OnDevice<B>> {
        let executor = &self.executor;
        let _layer = executor.enter(executor.ledger().layer_id("batch"));
        let (DatasetInfo { input, labels_per_sample, scored_labels, .. }, samples) = (self.info, batch.samples());
        let precision = self.experiment.precision;
        if let Some(device_dataset) = self.device_dataset.as_ref().filter(|_| split == Split::Train) {
            let (inputs, labels) = device_dataset.gather(executor, batch.inputs(), samples, &self.info, precision)?;
            return Ok(OnDevice { inputs, labels, answers: None, scored: samples * scored_labels });
        }
        let inputs = executor.upload(batch.inputs(), input.shape(samples), input.dtype(precision), names[0])?;
        let labels = batch.labels();
        let scored = match labels {
            [] => samples * scored_labels,
            labels => labels.iter().filter(|label| **label != IGNORE_INDEX).count(),
        };
        let (labels, dtype) = match self.info.label {
            LabelKind::Class => (HostSlice::U32(labels), DType::U32),
            // Values travel by their bits.
            LabelKind::Value => (HostSlice::F32(bytemuck::cast_slice(labels)), DType::F32),
        };
        let labels = executor.upload(labels, [samples * labels_per_sample], dtype, names[1])?;
        Ok(OnDevice { inputs, labels, answers: None, scored })
    }
}
