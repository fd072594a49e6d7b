//! How the batches of a run are made, and the host memory that they take.

use super::Resolved;
use crate::{
    data::{Feed, HostMemory},
    experiment::{Experiment, QuantiseKind},
    interop,
    nn::Factorable,
};

impl Resolved {
    /// The host memory of its data and of the threads that make its batches.
    pub fn host(&self) -> HostMemory {
        let batches = [self.experiment.batch.micro, self.evaluation_batch()];
        let feed = self.feed();
        let host = HostMemory::new(&self.experiment.data, &self.data, feed, batches);
        let host = HostMemory { factors: interop::factoring_bytes(self.factored_in_loading()), ..host };
        let Some(answers) = self.answers() else { return host };
        host.with_answers(feed, &answers, self.experiment.batch.micro)
    }

    /// The layers that are factored as their weights are loaded.
    pub(crate) fn factored_in_loading(&self) -> &[Factorable] {
        let is_loaded = self.experiment.weights.chosen().is_some() && self.resumed.is_none();
        if is_loaded { &self.factored } else { &[] }
    }

    /// How batches for training are made: no more of them ahead than the run takes.
    pub(crate) fn feed(&self) -> Feed {
        Feed::on(&self.target, &self.experiment).at_most(self.batches_left())
    }

    /// Micro-batches of training samples that the run is still to take, those of a calibration included.
    pub(crate) fn batches_left(&self) -> u64 {
        let Experiment { batch, quantise, .. } = &*self.experiment;
        let calibration = if quantise.kind == QuantiseKind::After { quantise.calibration as u64 } else { 0 };
        self.steps_left().saturating_mul(batch.accumulation as u64).saturating_add(calibration)
    }

    /// How batches for a test are made.
    pub(crate) fn test_feed(&self) -> Feed {
        Feed::on(&self.target, &self.experiment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{experiment::preset::set, hardware::Machine, plan::Plan, tensor::DType};

    #[test]
    fn images_for_a_gpu_are_rounded_by_the_loader_if_the_model_computes_in_16_bits() {
        let rounded = |device: &str, precision: &str| {
            let mut experiment = Experiment { device: device.to_owned(), ..Experiment::default() };
            set(&mut experiment, &format!("precision={precision}")).expect("a setting");
            let resolved = Plan::of(&experiment, &Machine::nominal()).expect("a plan").resolved;
            assert_eq!(resolved.feed().rounded, resolved.test_feed().rounded);
            resolved.feed().rounded
        };
        for (precision, on_a_gpu) in [
            ("f64", None),
            ("f32", None),
            ("bf16", Some(DType::Bf16)),
            ("bf16-mixed", Some(DType::Bf16)),
            ("f16-mixed", Some(DType::F16)),
        ] {
            assert_eq!([rounded("rtx4060-8g", precision), rounded("cpu", precision)], [on_a_gpu, None], "{precision}");
        }
    }
}
