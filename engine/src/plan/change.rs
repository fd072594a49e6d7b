//! The differences between two experiments, as data: the engine names the settings, a user interface writes the sentence.

use crate::{
    bytes::Bytes,
    experiment::{
        Answers, BaseWeights, Batch, Checkpointing, EvaluationBatch, Execution, Experiment, Frozen, OptimizerKind,
        Placement, Precision, Recompute, UpdateTime,
    },
};

/// A setting that an offer changes, with its new value.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Micro-batch and accumulation.
    Batch(Batch),
    /// Samples that one forward pass sees when the model is tested.
    EvaluationBatch(EvaluationBatch),
    /// The type that each part computes in.
    Precision(Precision),
    /// Which blocks are computed again.
    Checkpointing(Checkpointing),
    /// Whether saved tensors stay until the end of the step.
    RetainGraph(bool),
    /// Which activations the backward pass recomputes.
    Recompute(Recompute),
    /// Where ops write their results.
    Execution(Execution),
    /// Rows of logits that the loss works on at a time.
    LossChunk(usize),
    /// The update rule.
    Optimizer(OptimizerKind),
    /// When parameters are updated.
    Update(UpdateTime),
    /// Rank of the adapters; 0 means none.
    LoraRank(usize),
    /// When a teacher is asked.
    Answers(Answers),
    /// Parameters that are not trained.
    Frozen(Frozen),
    /// The form of frozen weights.
    Base(BaseWeights),
    /// Where the training samples wait.
    Placement(Placement),
    /// Length of a sequence.
    Length(usize),
    /// The device.
    Device(String),
    /// The most memory that the run may take.
    Budget(Bytes),
}

impl Change {
    /// The keys of the settings that it changes.
    pub fn keys(&self) -> &'static [&'static str] {
        match self {
            Self::Batch(_) => &["batch.micro", "batch.accumulation"],
            Self::EvaluationBatch(_) => &["batch.evaluation"],
            Self::Precision(_) => &["precision"],
            Self::Checkpointing(_) => &["checkpointing"],
            Self::RetainGraph(_) => &["retain_graph"],
            Self::Recompute(_) => &["recompute"],
            Self::Execution(_) => &["execution"],
            Self::LossChunk(_) => &["loss_chunk"],
            Self::Optimizer(_) => &["optimizer.kind"],
            Self::Update(_) => &["optimizer.update"],
            Self::LoraRank(_) => &["lora.rank"],
            Self::Answers(_) => &["distil.answers"],
            Self::Frozen(_) => &["frozen"],
            Self::Base(_) => &["quantise.base"],
            Self::Placement(_) => &["data.placement"],
            Self::Length(_) => &["data.length"],
            Self::Device(_) => &["device"],
            Self::Budget(_) => &["budget"],
        }
    }
}

/// The settings that differ, each with its value in `to`; empty when none does. Settings that no offer changes are left out.
pub fn between(from: &Experiment, to: &Experiment) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add = |differs: bool, change: Change| {
        if differs {
            changes.push(change);
        }
    };
    let samples = |batch: &Batch| (batch.micro, batch.accumulation);
    add(samples(&from.batch) != samples(&to.batch), Change::Batch(to.batch.clone()));
    add(from.batch.evaluation != to.batch.evaluation, Change::EvaluationBatch(to.batch.evaluation));
    add(from.precision != to.precision, Change::Precision(to.precision));
    add(from.checkpointing != to.checkpointing, Change::Checkpointing(to.checkpointing));
    add(from.retain_graph != to.retain_graph, Change::RetainGraph(to.retain_graph));
    add(from.recompute != to.recompute, Change::Recompute(to.recompute));
    add(from.execution != to.execution, Change::Execution(to.execution));
    add(from.loss_chunk != to.loss_chunk, Change::LossChunk(to.loss_chunk));
    add(from.optimizer.kind != to.optimizer.kind, Change::Optimizer(to.optimizer.kind));
    add(from.optimizer.update != to.optimizer.update, Change::Update(to.optimizer.update));
    add(from.lora.rank != to.lora.rank, Change::LoraRank(to.lora.rank));
    add(from.distil.answers != to.distil.answers, Change::Answers(to.distil.answers));
    add(from.frozen != to.frozen, Change::Frozen(to.frozen));
    add(from.quantise.base != to.quantise.base, Change::Base(to.quantise.base));
    add(from.data.placement != to.data.placement, Change::Placement(to.data.placement));
    add(from.data.length != to.data.length, Change::Length(to.data.length));
    add(from.device != to.device, Change::Device(to.device.clone()));
    add(from.budget != to.budget, Change::Budget(to.budget));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::preset;

    #[test]
    fn the_keys_of_every_change_are_settings() {
        let e = Experiment::default();
        let all = [
            Change::Batch(e.batch.clone()),
            Change::EvaluationBatch(e.batch.evaluation),
            Change::Precision(e.precision),
            Change::Checkpointing(e.checkpointing),
            Change::RetainGraph(true),
            Change::Recompute(e.recompute),
            Change::Execution(e.execution),
            Change::LossChunk(8),
            Change::Optimizer(e.optimizer.kind),
            Change::Update(e.optimizer.update),
            Change::LoraRank(1),
            Change::Answers(e.distil.answers),
            Change::Frozen(e.frozen),
            Change::Base(e.quantise.base),
            Change::Placement(e.data.placement),
            Change::Length(8),
            Change::Device(e.device.clone()),
            Change::Budget(e.budget),
        ];
        for key in all.iter().flat_map(Change::keys) {
            let mut other = e.clone();
            let assignment = preset::assignment(&e, key).unwrap_or_else(|| panic!("{key} is no setting"));
            preset::set(&mut other, &assignment).expect("what is written is taken");
            assert_eq!(other, e, "{assignment}");
        }
    }

    #[test]
    fn only_what_differs_is_named_with_its_new_value() {
        let from = Experiment::default();
        assert_eq!(between(&from, &from), []);
        let mut to = Experiment { budget: Bytes::mib(7), frozen: Frozen::AllButHead, ..from.clone() };
        (to.lora.rank, to.data.length) = (8, 3);
        let named =
            [Change::LoraRank(8), Change::Frozen(Frozen::AllButHead), Change::Length(3), Change::Budget(Bytes::mib(7))];
        assert_eq!(between(&from, &to), named);
        let mut tested = from.clone();
        tested.batch.evaluation = EvaluationBatch::Whole;
        assert_eq!(between(&from, &tested), [Change::EvaluationBatch(EvaluationBatch::Whole)]);
    }
}
