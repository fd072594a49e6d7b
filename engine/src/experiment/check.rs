//! Checks of experiments: the fault of each impossible one, and the valid choices.
//!
//! Owns the limits, and the rules that several settings make together; the range of one setting stands in its row. Always
//! holds: an experiment without problems makes no size overflow and leaves at least one sample to train on and one to test
//! on. Only settings that the chosen kinds use are judged. It lists the problems, in the order of the format, and leaves the
//! decision to the caller.

mod data;
mod hints;
mod model;
mod transformer;

pub use self::hints::{Hint, hints};
use crate::{
    bytes::{are, counted},
    device::target,
    error::Problem,
    experiment::{
        Checkpointing, DatasetInfo, Experiment, Frozen, Precision, PruneKind, PruneSchedule, QuantiseKind, UpdateTime,
        VERSION, limits::MAX_DEPTH, settings,
    },
};

/// Everything about `experiment` that is impossible. With `info`, also the choices that its data rule out.
pub fn check(experiment: &Experiment, info: Option<&DatasetInfo>) -> Vec<Problem> {
    let mut list = List(Vec::new());
    list.limits(experiment);
    list.top(experiment);
    list.task(experiment);
    list.blocks(experiment);
    list.trained(experiment);
    list.model(experiment);
    list.data(experiment);
    list.batch(experiment, info);
    list.update(experiment);
    list.pruned(experiment);
    list.run(experiment);
    if list.0.is_empty() {
        list.extents(experiment, info);
    }
    list.0.sort_by_key(|problem| settings::all().position(|setting| setting.key == problem.key));
    list.0
}

struct List(Vec<Problem>);

impl List {
    fn add(&mut self, key: &str, message: impl Into<String>, mend: impl Into<String>) {
        self.0.push(Problem::new(key, message, mend));
    }

    /// Every setting that is used, by its own limits.
    fn limits(&mut self, e: &Experiment) {
        self.0.extend(settings::all().filter(|setting| setting.is_used(e)).filter_map(|setting| setting.judge(e)));
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
        self.0.extend(target::problem(&e.device));
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

    /// Refuses layers that cannot be frozen or adapted.
    fn trained(&mut self, e: &Experiment) {
        let blocks = e.model.blocks();
        match e.frozen {
            Frozen::Blocks(count) if !(1..=blocks).contains(&count) => {
                let message =
                    format!("the model has {}, and {count} cannot be frozen", counted(blocks as u64, "block"));
                self.add("frozen", message, format!("write blocks:1 to blocks:{blocks}"));
            }
            Frozen::All if e.lora.rank == 0 => {
                let mend = "write all-but-head, or give lora.rank adapters to train";
                self.add("frozen", "nothing would be trained", mend);
            }
            Frozen::None | Frozen::Blocks(_) | Frozen::AllButHead | Frozen::All => {}
        }
        self.adapted(e);
        self.quantised(e);
        self.compressed(e);
        self.factored(e);
    }

    /// Refuses layers that cannot be factored.
    fn factored(&mut self, e: &Experiment) {
        let low_rank = &e.low_rank;
        let chosen = [
            ("low_rank.rank", low_rank.rank > 0),
            ("low_rank.energy", low_rank.energy > 0.0),
            ("low_rank.size", low_rank.size > 0.0),
        ];
        let mut chosen = chosen.into_iter().filter_map(|(key, is_chosen)| is_chosen.then_some(key));
        let Some(first) = chosen.next() else { return };
        if let Some(second) = chosen.next() {
            self.add(second, format!("it and {first} both give the ranks"), "take one of the two out");
        }
        // With a rank as well, that is said above.
        if low_rank.is_sought() && low_rank.rank == 0 && e.weights.chosen().is_none() {
            let message = "ranks are found from trained weights, and none are chosen";
            self.add(first, message, "choose weights.path, or write low_rank.rank, which needs none");
        }
        if e.lora.rank > 0 {
            let message = "adapters go next to whole layers, and these would be factored";
            self.add(first, message, "write 0, or lora.rank = 0: factors learn by themselves");
        }
        if e.prune.kind == PruneKind::Channels {
            let message = "factors have ranks in the place of channels, and channels would be taken out of them";
            self.add(first, message, "write 0, or prune.kind = none");
        }
        if !e.quantise.base.is_none() {
            let message = format!("layers held as {} do not learn and are not factored", e.quantise.base.key());
            self.add(first, message, "write 0, or quantise.base = none");
        }
    }

    /// Refuses weights that cannot be held as codes.
    fn quantised(&mut self, e: &Experiment) {
        let base = e.quantise.base;
        if base.is_none() {
            return;
        }
        let key = "quantise.base";
        if !e.model.kind.is_decoder() {
            let message = format!("{} has no blocks that are held as codes: gpt2 and llama have", e.model.kind.key());
            self.add(key, message, "write none, or choose model.kind = gpt2 or llama");
        } else if e.lora.rank == 0 {
            let message = format!("weights held as {} cannot learn, and there are no adapters that could", base.key());
            self.add(key, message, "write none, or lora.rank = 16 and frozen = all");
        } else if !matches!(e.frozen, Frozen::All | Frozen::AllButHead) {
            let message =
                format!("weights held as {} cannot learn, and frozen = {} leaves some to", base.key(), e.frozen);
            self.add(key, message, "write frozen = all (or all-but-head), or none");
        }
    }

    /// Refuses models that cannot become integers.
    fn compressed(&mut self, e: &Experiment) {
        let kind = e.quantise.kind;
        if kind.is_none() {
            return;
        }
        let key = "quantise.kind";
        if e.precision == Precision::F64 {
            let message = "numbers of 64 bits are for exactness, which integers give up";
            self.add(key, message, "write none, or another precision, such as f32");
        }
        if !e.quantise.base.is_none() {
            let message = format!("the frozen weights are codes already, by quantise.base = {}", e.quantise.base.key());
            self.add(key, message, "write none, or quantise.base = none");
        } else if e.lora.rank > 0 {
            let message = "a layer with an adapter is two products, not one weight that could have codes";
            self.add(key, message, "write none, or lora.rank = 0");
        }
        let weights = e.quantise.weights;
        if kind == QuantiseKind::After && !weights.has_inputs() && !e.model.kind.is_decoder() {
            let message =
                format!("{} is for the weights of decoders, and {} is not one", weights.key(), e.model.kind.key());
            self.add("quantise.weights", message, "write with-inputs, or choose model.kind = gpt2 or llama");
        }
        if kind == QuantiseKind::Aware && e.loss_chunk > 0 {
            let message =
                "aware is not possible with a loss in chunks, which overwrite what the gradient of rounding needs";
            self.add(key, message, "write loss_chunk = 0, or quantise.kind = after");
        }
    }

    /// Refuses layers that cannot have adapters.
    fn adapted(&mut self, e: &Experiment) {
        let (targets, there) = (e.lora.targets, e.model.kind.projections());
        if e.lora.rank == 0 || targets.is_all() {
            return;
        }
        if targets.iter().next().is_none() {
            return self.add(
                "lora.targets",
                "no dense layer would have an adapter",
                "write all, or name some, such as q,v",
            );
        }
        let Some(missing) = targets.iter().find(|projection| !there.contains(projection)) else { return };
        let mend = match there {
            [] => "write all, which is every dense layer".to_owned(),
            _ => {
                let words: Vec<&str> = there.iter().map(|projection| projection.key()).collect();
                format!("choose from {}", words.join(", "))
            }
        };
        let message = format!("{} has no projection {}", e.model.kind.key(), missing.key());
        self.add("lora.targets", message, mend);
    }

    fn batch(&mut self, e: &Experiment, info: Option<&DatasetInfo>) {
        let (micro, accumulation) = (e.batch.micro, e.batch.accumulation);
        let Some(info) = info else { return };
        if info.train == 0 || info.test == 0 {
            let left = if info.test == 0 { "test" } else { "train" };
            let mend = "choose data with more samples, or another data.test_fraction";
            self.add("data.kind", format!("there is no sample to {left} on"), mend);
        } else if micro > info.train && e.data.kind.is_split() && micro <= info.test {
            // So much is held out that less than half is left.
            let test_fraction = e.data.test_fraction;
            let samples = counted((info.train + info.test) as u64, "sample");
            self.add(
                "data.test_fraction",
                format!(
                    "{test_fraction} of {samples} leaves {} to train on, and batch.micro = {micro} needs {micro}",
                    info.train
                ),
                format!("lower it, such as to 0.2, or write batch.micro = {} or less", info.train),
            );
        } else if micro > info.train {
            self.add(
                "batch.micro",
                format!(
                    "{micro} is more than the {} there {} to train on",
                    counted(info.train as u64, "sample"),
                    are(info.train as u64)
                ),
                format!("write {} or less", info.train),
            );
        } else if micro.saturating_mul(accumulation) > info.train {
            self.add(
                "batch.accumulation",
                format!(
                    "{accumulation} x {micro} = {} samples a step is more than the {} there are to train on",
                    micro.saturating_mul(accumulation),
                    info.train
                ),
                format!("write {} or less, or lower batch.micro", info.train / micro.max(1)),
            );
        }
    }

    /// Refuses settings that an update in the backward pass rules out: all that need every gradient at once.
    fn update(&mut self, e: &Experiment) {
        if e.optimizer.update != UpdateTime::InBackward {
            return;
        }
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
                format!("in-backward is not possible: {reason}"),
                format!("write after-backward, or {mend}"),
            );
        }
    }

    /// Refuses models that cannot be pruned, and moments at which they cannot.
    fn pruned(&mut self, e: &Experiment) {
        let prune = &e.prune;
        if prune.kind.is_none() {
            return;
        }
        if e.frozen == Frozen::All {
            let message = "the weights are frozen, and pruning changes those that learn";
            self.add("prune.kind", message, "write none, or frozen = none");
        }
        if prune.kind == PruneKind::Channels {
            self.channels(e);
        }
        if prune.kind == PruneKind::Groups && prune.n >= prune.m {
            let message = format!("{} of every {} weights would stay, which are all of them", prune.n, prune.m);
            self.add("prune.n", message, format!("write less than prune.m, such as {}", (prune.m / 2).max(1)));
        }
        let grows = prune.kind == PruneKind::Magnitude && prune.schedule == PruneSchedule::Polynomial;
        // A share below zero is refused for itself.
        if grows && prune.initial_sparsity > prune.final_sparsity.max(0.0) {
            let message =
                format!("{} is more than prune.final_sparsity = {}", prune.initial_sparsity, prune.final_sparsity);
            self.add("prune.initial_sparsity", message, "weights that are zero stay so: write less, such as 0");
        }
        if prune.kind.sets_to_zero() && prune.end_step != 0 && prune.begin_step > prune.end_step {
            let message = format!("{} is after prune.end_step = {}", prune.begin_step, prune.end_step);
            self.add("prune.begin_step", message, "write a step before it");
        }
    }

    /// Refuses models from which channels cannot be taken out.
    fn channels(&mut self, e: &Experiment) {
        let (key, kind) = ("prune.kind", e.model.kind);
        if !kind.has_channels() {
            let message = format!("channels cannot be taken out of {}", kind.key());
            self.add(key, message, "write magnitude, or choose an mlp, cnn, sepcnn, resnet or mobilenet");
        }
        if e.frozen != Frozen::None || e.lora.rank > 0 {
            let message = "channels would go from layers that do not learn";
            self.add(key, message, "write none, or frozen = none and lora.rank = 0");
        }
        if !e.optimizer.kind.keeps_state_by_weight() {
            let message = format!("{} keeps a state that is not divided by channels", e.optimizer.kind.key());
            self.add("optimizer.kind", message, "write adamw, sgd, momentum or muon, or prune.kind = magnitude");
        }
    }

    fn run(&mut self, e: &Experiment) {
        if e.run.steps.is_some() && e.run.epochs.is_some() {
            self.add("run.epochs", "it and run.steps both give the length of the run", "take one of the two out");
        }
    }
}

#[cfg(test)]
mod tests;
