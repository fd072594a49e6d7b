//! Offers for an experiment that does not fit, in words: the changes of an offer, and the reason why nothing fits.

use plimsoll_engine::{
    Bytes,
    error::Problem,
    experiment::{Answers, BaseWeights, Batch, EvaluationBatch, Execution, Frozen, Placement, Recompute, UpdateTime},
    memory::host::Line,
    plan::{Advice, Change, Found, Plan},
};

use crate::{
    format,
    limit::machine_below_budget,
    naming::{checkpointing, setting},
    panels::optimizer_words,
};

/// The changes of an offer, such as `micro-batch 32 x 2, bf16-mixed`.
pub(crate) fn words(advice: &Advice) -> String {
    let parts: Vec<String> = advice.changes.iter().map(one).collect();
    if parts.is_empty() { "as it is".to_owned() } else { parts.join(", ") }
}

fn one(change: &Change) -> String {
    match change {
        Change::Batch(Batch { micro, accumulation: 1, .. }) => format!("{} {micro}", setting("batch.micro")),
        Change::Batch(Batch { micro, accumulation, .. }) => {
            format!("{} {micro} x {accumulation}", setting("batch.micro"))
        }
        Change::EvaluationBatch(EvaluationBatch::Micro) => "evaluation batch as the micro-batch".to_owned(),
        Change::EvaluationBatch(EvaluationBatch::Whole) => "evaluation on the whole test set at once".to_owned(),
        Change::EvaluationBatch(EvaluationBatch::Samples(samples)) => {
            format!("{} {samples}", setting("batch.evaluation"))
        }
        Change::Precision(precision) => precision.key().to_owned(),
        Change::Checkpointing(choice) => checkpointing::to_do(*choice),
        Change::RetainGraph(false) => "free the graph in the backward pass".to_owned(),
        Change::RetainGraph(true) => "retain the graph".to_owned(),
        Change::Execution(Execution::InPlace) => "write results in place".to_owned(),
        Change::Execution(Execution::Fused) => "run ops in a row as one".to_owned(),
        Change::Execution(Execution::Eager) => "give every result memory of its own".to_owned(),
        Change::Recompute(Recompute::None) => "recompute no activations".to_owned(),
        Change::Recompute(Recompute::Cheap) => "recompute cheap activations".to_owned(),
        Change::LossChunk(0) => "loss on all rows at once".to_owned(),
        Change::LossChunk(rows) => format!("loss in chunks of {}", format::counted(*rows as u64, "row")),
        Change::Optimizer(kind) => format!("optimizer {}", optimizer_words(*kind)),
        Change::Update(UpdateTime::AfterBackward) => "update after the backward pass".to_owned(),
        Change::Update(UpdateTime::InBackward) => "update in the backward pass".to_owned(),
        Change::LoraRank(0) => "no adapters".to_owned(),
        Change::LoraRank(rank) => format!("LoRA adapters of rank {rank}"),
        Change::Answers(Answers::Cached) => "ask the teacher once, before the first step".to_owned(),
        Change::Answers(Answers::Live) => "ask the teacher in every step".to_owned(),
        Change::Frozen(choice) => frozen(*choice),
        Change::Base(BaseWeights::None) => "frozen weights as they are computed with".to_owned(),
        Change::Base(base) => format!("frozen weights as {}", base.key()),
        Change::Placement(Placement::Host) => "data in host memory".to_owned(),
        Change::Placement(Placement::Streamed) => "data as they are needed (streamed)".to_owned(),
        Change::Placement(Placement::Device) => "data on the device".to_owned(),
        Change::Length(length) => format!("sequences of {length}"),
        Change::Device(name) => format!("on {}", format::device(name)),
        Change::Budget(budget) => format!("budget {budget}"),
    }
}

fn frozen(choice: Frozen) -> String {
    match choice {
        Frozen::None => "train every layer".to_owned(),
        Frozen::AllButHead => "train only the head".to_owned(),
        Frozen::Blocks(1) => "freeze the first block".to_owned(),
        Frozen::Blocks(count) => format!("freeze the first {count} blocks"),
        Frozen::All => "freeze every layer".to_owned(),
    }
}

/// Why no micro-batch, mixed precision or checkpointing makes a plan fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortfall {
    /// The least bytes that weights and optimizer state hold for the whole run.
    held: Bytes,
    /// The lowest peak of the configurations that were planned.
    least: Bytes,
    /// How many configurations were planned.
    tried: usize,
    /// Whether everything was tried.
    is_whole: bool,
}

impl Shortfall {
    /// The advice of a search that found nothing.
    pub(crate) fn of(found: &Found) -> Self {
        Self { held: found.held, least: found.least, tried: found.tried, is_whole: found.is_whole }
    }

    /// The problem of the data, where it alone refuses the plans that were tried: one of them is inside the line.
    pub(crate) fn of_host(&self, plan: &Plan) -> Option<Problem> {
        plan.host_problem().filter(|_| self.least <= line(plan).bytes)
    }

    /// The advice in a sentence.
    pub(crate) fn words(&self, plan: &Plan) -> String {
        let Self { held, least, tried, is_whole } = *self;
        let line = line(plan);
        if held > line.bytes {
            let [held, budget] = line.beside(held);
            let what = if plan.target.is_gpu() { "The GPU's context, weights" } else { "Weights" };
            return format!(
                "{what} and optimizer state alone take {held} of {budget}: no micro-batch, mixed precision or checkpointing fits."
            );
        }
        if tried == 0 && !is_whole {
            return "The search ran out of time before it planned another micro-batch, precision or checkpointing. \
                    `plimsoll fit --seconds 120` gives it more."
                .to_owned();
        }
        let tried = if is_whole { "" } else { " of those tried in time" };
        let effective = plan.experiment.batch.effective();
        if let Some(problem) = self.of_host(plan) {
            let [least, budget] = line.beside(least);
            return format!(
                "With an effective batch of {effective}, the smallest peak{tried} is {least} of {budget}, but no micro-batch, mixed \
                 precision or checkpointing makes room for the data: {problem}."
            );
        }
        let [least, budget] = line.beside(least);
        format!(
            "With an effective batch of {effective}, no micro-batch, mixed precision or checkpointing fits in {budget}: the smallest \
             peak{tried} is {least}."
        )
    }
}

/// The line that a search keeps below: the machine's if that is lower than the budget, whatever is crossed first.
fn line(plan: &Plan) -> Line {
    machine_below_budget(plan).unwrap_or_else(|| plan.line())
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{
        Experiment,
        experiment::{Checkpointing, Precision},
        hardware::Machine,
        plan::{self, Limit},
    };

    use super::*;

    fn advice(changes: Vec<Change>) -> Advice {
        Advice {
            changes,
            experiment: Experiment::default(),
            peak: Bytes::ZERO,
            host: Bytes::ZERO,
            step_secs: 1.0,
            time_ratio: 1.0,
        }
    }

    #[test]
    fn a_search_without_time_does_not_claim_to_have_tried_anything() {
        let mut experiment = Experiment::default();
        let planned = |e: &Experiment| Plan::of(e, &Machine::nominal()).expect("a plan");
        experiment.budget = planned(&experiment).peak.live - Bytes(1);
        let plan = planned(&experiment);
        let words = |limit| Shortfall::of(&plan::fit(&plan, plan.budget, limit).expect("a search")).words(&plan);
        let said = words(Limit::within(std::time::Duration::ZERO));
        assert!(said.starts_with("The search ran out of time") && said.contains("fit --seconds"), "{said}");
    }

    #[test]
    fn changes_are_listed_and_none_is_as_it_is() {
        assert_eq!(words(&advice(Vec::new())), "as it is");
        let whole = Change::Batch(Batch { micro: 846, ..Batch::default() });
        assert_eq!(words(&advice(vec![whole])), "micro-batch 846");
        let several = vec![
            Change::Batch(Batch { micro: 8, accumulation: 4, ..Batch::default() }),
            Change::EvaluationBatch(EvaluationBatch::Samples(128)),
            Change::Precision(Precision::Bf16Mixed),
            Change::Checkpointing(Checkpointing::Every(2)),
            Change::Device("rtx4060-8g".to_owned()),
            Change::Budget(Bytes::gib(1)),
        ];
        let said = "micro-batch 8 x 4, evaluation batch 128, bf16-mixed, checkpoint every 2 blocks, on GeForce RTX 4060, 8 GB, budget 1.00 GiB";
        assert_eq!(words(&advice(several)), said);
    }
}
