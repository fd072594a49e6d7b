//! What cannot be: impossible experiments, each with what would be valid.
//!
//! Owns the rules; the [limits](super::limits) stand apart. Always holds: an experiment without problems makes no size overflow and leaves at
//! least one sample to train on and one to test on. Only keys that the chosen kinds use are judged. Refuses nothing
//! itself: it lists, in the order of the format; whoever asks decides.

mod data;
mod model;
mod transformer;

use std::fmt::Display;

use crate::{
    bytes::Bytes,
    device::target,
    error::Problem,
    experiment::{
        Checkpointing, DatasetInfo, Experiment, Frozen, Hyperparameter, Precision, UpdateTime, VERSION,
        limits::{MAX_BATCH, MAX_BUDGET, MAX_DEPTH, MAX_ELEMENTS, MAX_STEPS, MAX_WIDTH, MAX_WORKSPACE},
    },
};

/// Everything about `experiment` that cannot be. With `facts`, also what its data rules out.
pub fn check(experiment: &Experiment, facts: Option<&DatasetInfo>) -> Vec<Problem> {
    let mut list = List(Vec::new());
    list.top(experiment);
    list.task(experiment);
    list.blocks(experiment);
    list.trained(experiment);
    list.model(experiment);
    list.data(experiment);
    list.batch(experiment, facts);
    list.optimizer(experiment);
    list.run(experiment);
    if list.0.is_empty() {
        list.extents(experiment, facts);
    }
    list.0
}

struct List(Vec<Problem>);

impl List {
    fn add(&mut self, key: &str, message: impl Into<String>, mend: impl Into<String>) {
        self.0.push(Problem::new(key, message, mend));
    }

    /// A value outside `low..=high`, NaN included.
    fn within<T: PartialOrd + Display + Copy>(&mut self, key: &str, value: T, low: T, high: T, what: &str) {
        if value < low {
            self.add(key, format!("{value} is not {what}"), format!("write {low} or more"));
        } else if value > high {
            self.add(key, format!("{value} is more than {what} may be"), format!("write {high} or less"));
        } else if value.partial_cmp(&low).is_none() {
            self.add(key, format!("{value} is not a number"), format!("write one from {low} to {high}"));
        }
    }

    /// A number that must be above zero.
    fn positive(&mut self, key: &str, value: f64, high: f64, what: &str, example: &str) {
        if value.is_nan() || value <= 0.0 {
            self.add(key, format!("{value} is not {what}"), format!("write a number above 0, such as {example}"));
        } else if value > high {
            self.add(key, format!("{value} is more than {what} may be"), format!("write {high} or less"));
        }
    }

    /// A decay: at least 0 and below 1.
    fn decay(&mut self, key: &str, value: f64, example: &str) {
        if !(0.0..1.0).contains(&value) {
            let mend = format!("write a number from 0 up to, but not including, 1, such as {example}");
            self.add(key, format!("{value} is not a decay"), mend);
        }
    }

    fn top(&mut self, e: &Experiment) {
        match e.version {
            0 => self.add("version", "there is no version 0", format!("write {VERSION}")),
            version if version > VERSION => self.add(
                "version",
                format!("{version} is newer than this program, which reads version {VERSION}"),
                "open it with a newer Plimsoll",
            ),
            _ => {}
        }
        if e.title.contains(['\n', '\r']) {
            self.add("title", "has more than one line", "write one line, and the rest in the description");
        }
        if e.budget == Bytes::ZERO {
            self.add("budget", "0 B is no budget", "write a size above zero, such as \"64 MiB\"");
        } else if e.budget > MAX_BUDGET {
            self.add("budget", format!("{} is more than any device has", e.budget), "write 1024 TiB or less");
        }
        self.within("loss_chunk", e.loss_chunk, 0, MAX_ELEMENTS, "a number of rows");
        self.0.extend(target::problem(&e.device));
        if e.device != "cpu" && e.gpu.workspace > MAX_WORKSPACE {
            let message = format!("{} is more than any library works in", e.gpu.workspace);
            self.add("gpu.workspace", message, format!("write {MAX_WORKSPACE} or less; 0 is none"));
        }
        if let Checkpointing::Every(k) = e.checkpointing
            && !(1..=MAX_DEPTH).contains(&k)
        {
            let mend = format!("write every:K with K from 1 to {MAX_DEPTH}, such as \"every:2\"");
            self.add("checkpointing", format!("every:{k} makes no segments"), mend);
        }
    }

    /// Blocks that are picked and not there.
    fn blocks(&mut self, e: &Experiment) {
        let Checkpointing::Pick(set) = e.checkpointing else { return };
        let blocks = e.model.blocks();
        if let Some(number) = set.iter().find(|number| *number > blocks) {
            let mend = format!("pick blocks from 1 to {blocks}");
            self.add("checkpointing", format!("there is no block {number}: the model has {blocks}"), mend);
        }
    }

    /// What cannot be frozen or adapted.
    fn trained(&mut self, e: &Experiment) {
        let blocks = e.model.blocks();
        match e.frozen {
            Frozen::Blocks(count) if !(1..=blocks).contains(&count) => {
                let message = format!("the model has {blocks} blocks, and {count} of them cannot be frozen");
                self.add("frozen", message, format!("write blocks:1 to blocks:{blocks}"));
            }
            Frozen::All if e.lora.rank == 0 => {
                let mend = "write all-but-head, or give lora.rank adapters to train";
                self.add("frozen", "nothing would be trained", mend);
            }
            _ => {}
        }
        self.within("lora.rank", e.lora.rank, 0, MAX_WIDTH, "a rank");
        if e.lora.rank > 0 {
            self.positive("lora.alpha", e.lora.alpha, 1e6, "a scale", "16");
        }
    }

    fn batch(&mut self, e: &Experiment, facts: Option<&DatasetInfo>) {
        let (micro, accumulation) = (e.batch.micro, e.batch.accumulation);
        self.within("batch.micro", micro, 1, MAX_BATCH, "a batch");
        self.within("batch.accumulation", accumulation, 1, MAX_BATCH, "a number of micro-batches");
        let Some(facts) = facts else { return };
        if facts.train == 0 || facts.test == 0 {
            let left = if facts.test == 0 { "test" } else { "train" };
            let mend = "choose data with more samples, or another data.test_fraction";
            self.add("data.kind", format!("there is no sample to {left} on"), mend);
        } else if micro > facts.train {
            self.add(
                "batch.micro",
                format!("{micro} is more than the {} samples there are to train on", facts.train),
                format!("write {} or less", facts.train),
            );
        } else if micro.saturating_mul(accumulation) > facts.train {
            self.add(
                "batch.accumulation",
                format!(
                    "{accumulation} x {micro} = {} samples a step is more than the {} there are to train on",
                    micro.saturating_mul(accumulation),
                    facts.train
                ),
                format!("write {} or less, or lower batch.micro", facts.train / micro.max(1)),
            );
        }
    }

    fn optimizer(&mut self, e: &Experiment) {
        let optimizer = &e.optimizer;
        self.positive("optimizer.learning_rate", optimizer.learning_rate, 1e4, "a learning rate", "0.001");
        self.within("optimizer.weight_decay", optimizer.weight_decay, 0.0, 1e3, "a weight decay");
        for hyperparameter in optimizer.kind.hyperparameters() {
            match hyperparameter {
                Hyperparameter::Momentum => self.decay("optimizer.momentum", optimizer.momentum, "0.9"),
                Hyperparameter::Beta1 => self.decay("optimizer.beta1", optimizer.beta1, "0.9"),
                Hyperparameter::Beta2 => {
                    let usual = optimizer.kind.usual_beta2().to_string();
                    self.decay("optimizer.beta2", optimizer.beta2, &usual);
                }
                Hyperparameter::Epsilon => {
                    self.positive("optimizer.epsilon", optimizer.epsilon, 1.0, "an epsilon", "1e-8");
                }
            }
        }
        if optimizer.update == UpdateTime::InBackward {
            self.in_backward(e);
        }
        self.within("optimizer.clip_norm", optimizer.clip_norm, 0.0, 1e9, "a norm");
        self.within("optimizer.warmup_steps", optimizer.warmup_steps, 0, MAX_STEPS, "a number of steps");
    }

    /// What an update in the backward pass rules out: all that needs every gradient at once.
    fn in_backward(&mut self, e: &Experiment) {
        let ruled_out = [
            (
                e.optimizer.clip_norm > 0.0,
                "clipping needs the norm of all gradients together",
                "optimizer.clip_norm = 0",
            ),
            (
                e.batch.accumulation > 1,
                "accumulation needs gradients to stay from pass to pass",
                "batch.accumulation = 1",
            ),
            (
                e.precision == Precision::F16Mixed,
                "loss scaling must see all gradients before any update",
                "another precision, such as bf16-mixed",
            ),
        ];
        for (_, reason, mend) in ruled_out.into_iter().filter(|(is_so, ..)| *is_so) {
            self.add(
                "optimizer.update",
                format!("in-backward cannot be: {reason}"),
                format!("write after-backward, or {mend}"),
            );
        }
    }

    fn run(&mut self, e: &Experiment) {
        let run = &e.run;
        if let Some(steps) = run.steps {
            self.within("run.steps", steps, 1, MAX_STEPS, "a number of steps");
        }
        if let Some(epochs) = run.epochs {
            self.within("run.epochs", epochs, 1, 1_000_000, "a number of epochs");
        }
        if run.steps.is_some() && run.epochs.is_some() {
            self.add("run.epochs", "stands beside run.steps, and a run has one length", "take one of the two out");
        }
        self.within("run.seed", run.seed, 0, i64::MAX as u64, "a seed");
        self.within("run.evaluate_every", run.evaluate_every, 0, MAX_STEPS, "a number of steps");
    }
}

#[cfg(test)]
mod tests;
