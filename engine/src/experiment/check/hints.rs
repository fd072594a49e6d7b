//! Settings that are possible and were probably not meant.

use crate::{
    bytes::counted,
    device::cpu_threads,
    error::Problem,
    experiment::{DataSetting, DatasetInfo, Experiment, Frozen, ModelSetting, PruneKind, PruneSchedule, Stem},
};

/// Sides of images from which the stem for small images is probably not meant.
const LARGE_SIDE: usize = 128;

/// A choice that is possible but probably not meant, with the change that would fix it.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// The oddity, and how to fix it.
    pub problem: Problem,
    /// The change, for [`preset::set`](crate::experiment::preset::set).
    pub change: &'static str,
}

/// Choices in `experiment` that are possible but probably not meant. Without `info`, only those for which the settings alone
/// give the size of an image and the length of the run.
pub fn hints(experiment: &Experiment, info: Option<&DatasetInfo>) -> Vec<Hint> {
    let of_pruning = [of_pruning(experiment, info), of_end(experiment, info), of_nothing_pruned(experiment)];
    let others = [of_adapters(experiment), of_threads(experiment, cpu_threads())];
    of_stem(experiment, info).into_iter().chain(of_pruning.into_iter().chain(others).flatten()).collect()
}

fn of_stem(experiment: &Experiment, info: Option<&DatasetInfo>) -> Option<Hint> {
    let Experiment { model, data, .. } = experiment;
    let chosen = || data.kind.uses(DataSetting::Side).then_some(data.side);
    let found = info.and_then(|info| info.image().ok()).map(|[height, width, _]| height.min(width));
    let side = found.or_else(chosen).unwrap_or(0);
    if !model.kind.uses(ModelSetting::Stem) || model.stem != Stem::Small || side < LARGE_SIDE {
        return None;
    }
    let message = format!(
        "the stem for small images keeps images of {side} x {side} at their size: the activations take about 16 times \
         those of published models"
    );
    let problem = Problem::new("model.stem", message, "write \"imagenet\" for images this large");
    Some(Hint { problem, change: "model.stem=imagenet" })
}

/// A run that ends before its weights are pruned, or too short for channels to be taken out of its model.
fn of_pruning(experiment: &Experiment, info: Option<&DatasetInfo>) -> Option<Hint> {
    let prune = &experiment.prune;
    let steps = info.map(|info| experiment.steps(info).1).or(experiment.run.steps)?;
    if !prune.never_begins(steps) {
        return None;
    }
    let (begin, last, key) = (prune.begin_step, prune.last_step(steps), "prune.begin_step");
    if begin == 0 {
        let message =
            format!("channels are taken out after step 1 at the earliest, and the run has {}", counted(steps, "step"));
        let problem = Problem::new(key, message, "lengthen the run, or write prune.kind = \"none\"");
        return Some(Hint { problem, change: "prune.kind=none" });
    }
    let message = format!(
        "{begin} is after step {last}, where pruning ends in this run of {}: nothing is pruned",
        counted(steps, "step")
    );
    let mend = format!("write 0 or at most {last}, or lengthen the run");
    Some(Hint { problem: Problem::new(key, message, mend), change: "prune.begin_step=0" })
}

/// A run that ends before the share of zeros has grown to its end.
fn of_end(experiment: &Experiment, info: Option<&DatasetInfo>) -> Option<Hint> {
    let prune = &experiment.prune;
    let steps = info.map(|info| experiment.steps(info).1).or(experiment.run.steps)?;
    let end = prune.span(steps).1;
    let is_growing = (prune.kind, prune.schedule) == (PruneKind::Magnitude, PruneSchedule::Polynomial);
    if !is_growing || end <= steps {
        return None;
    }
    let share = prune.last_sparsity(steps)?;
    let message = format!(
        "{end} is after the last step, {steps}: the share of zeros comes to {:.0}% and not to {:.0}%",
        100.0 * share,
        100.0 * prune.final_sparsity
    );
    let problem = Problem::new("prune.end_step", message, "write 0, or lengthen the run");
    Some(Hint { problem, change: "prune.end_step=0" })
}

/// Pruning of no share of the weights.
fn of_nothing_pruned(experiment: &Experiment) -> Option<Hint> {
    let prune = &experiment.prune;
    let message = match prune.kind {
        PruneKind::Magnitude => "with a share of 0 nothing is pruned, and the masks take their memory all the same",
        PruneKind::Channels => "with a share of 0 no channel is taken out",
        PruneKind::None | PruneKind::Groups => return None,
    };
    let problem = Problem::new("prune.final_sparsity", message, "write prune.kind = \"none\", or a share such as 0.8");
    (prune.final_sparsity == 0.0).then_some(Hint { problem, change: "prune.kind=none" })
}

/// More threads than a processor of so many `cores` runs at a time.
fn of_threads(experiment: &Experiment, cores: usize) -> Option<Hint> {
    let threads = experiment.run.threads;
    if threads <= cores || !experiment.is_on_cpu() {
        return None;
    }
    let message = format!(
        "this machine runs {} at a time: {threads} compute no faster than that, and take more memory and time",
        counted(cores as u64, "thread")
    );
    let problem = Problem::new("run.threads", message, "write 0 for as many as it runs");
    Some(Hint { problem, change: "run.threads=0" })
}

/// Adapters that no layer has: all dense layers are the head's, which learn whole.
fn of_adapters(experiment: &Experiment) -> Option<Hint> {
    let Experiment { model, lora, frozen, .. } = experiment;
    if lora.rank == 0 || *frozen == Frozen::All || model.kind.has_dense_blocks() {
        return None;
    }
    let message = format!(
        "{} has dense layers in its head alone, and they learn whole unless everything is frozen: there are no adapters",
        model.kind.key()
    );
    let problem = Problem::new("lora.rank", message, "write frozen = \"all\" for adapters in the head, or 0");
    Some(Hint { problem, change: "lora.rank=0" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Data, DataKind, Input, Model, ModelKind, preset};

    #[test]
    fn what_prunes_nothing_and_threads_that_do_not_run_are_hinted_at() {
        let mut experiment = Experiment::default();
        (experiment.prune.kind, experiment.prune.final_sparsity) = (PruneKind::Magnitude, 0.0);
        let found = hints(&experiment, None);
        assert!(found[0].problem.message.contains("masks"), "{}", found[0].problem);
        preset::set(&mut experiment, found[0].change).expect("a change");
        assert_eq!(hints(&experiment, None), []);
        experiment.run.threads = 64;
        assert_eq!(of_threads(&experiment, 64), None);
        let found = of_threads(&experiment, 2).expect("more than 2");
        assert!(found.problem.message.contains("2 threads at a time"), "{}", found.problem);
        preset::set(&mut experiment, found.change).expect("a change");
        assert_eq!(of_threads(&experiment, 2), None);
    }

    #[test]
    fn adapters_that_no_layer_has_are_hinted_at_and_their_mend_ends_the_hint() {
        let mut experiment = Experiment::default();
        (experiment.model.kind, experiment.lora.rank) = (ModelKind::Cnn, 4);
        let found = hints(&experiment, None);
        assert_eq!(found[0].problem.key, "lora.rank");
        let without = |change: &str| {
            let mut other = experiment.clone();
            preset::set(&mut other, change).expect("a change");
            hints(&other, None)
        };
        assert_eq!(
            [without(found[0].change), without("frozen=all"), without("model.kind=mlp")],
            [vec![], vec![], vec![]]
        );
        assert_eq!(without("frozen=all-but-head"), found);
    }

    #[test]
    fn a_small_stem_under_large_images_is_hinted_at_and_its_mend_ends_the_hint() {
        let of = |kind, side| Experiment {
            model: Model { kind, ..Model::default() },
            data: Data { kind: DataKind::Shapes, side, ..Data::default() },
            ..Experiment::default()
        };
        for kind in [ModelKind::Resnet, ModelKind::Mobilenetv1, ModelKind::Mobilenetv2] {
            assert_eq!(hints(&of(kind, 96), None), []);
            let mut experiment = of(kind, 224);
            let found = hints(&experiment, None);
            assert_eq!(found.len(), 1, "{kind:?}");
            assert!(found[0].problem.message.contains("224 x 224"), "{}", found[0].problem);
            preset::set(&mut experiment, found[0].change).expect("a change");
            assert_eq!(hints(&experiment, None), []);
        }
        assert_eq!(hints(&of(ModelKind::Cnn, 224), None), []);
        // The size of the files' images counts, if it is known.
        let input = Input::Image { height: 160, width: 200, channels: 1 };
        let info = DatasetInfo::one_label(input, 10, 100, 10);
        assert_eq!(hints(&of(ModelKind::Resnet, 32), Some(&info)).len(), 1);
    }

    #[test]
    fn a_run_too_short_to_prune_as_far_as_it_should_is_hinted_at_and_its_mend_ends_the_hint() {
        let mut experiment = Experiment::default();
        (experiment.prune.kind, experiment.prune.begin_step) = (PruneKind::Magnitude, 50);
        assert_eq!(hints(&experiment, None), [], "the length is not known");
        experiment.run.steps = Some(80);
        assert_eq!(hints(&experiment, None), []);
        experiment.run.steps = Some(40);
        let found = hints(&experiment, None);
        assert_eq!(found[0].problem.key, "prune.begin_step");
        preset::set(&mut experiment, found[0].change).expect("a change");
        assert_eq!(hints(&experiment, None), []);
        (experiment.prune.kind, experiment.run.steps) = (PruneKind::Channels, Some(1));
        let found = hints(&experiment, None);
        assert_eq!(found[0].problem.key, "prune.begin_step");
        preset::set(&mut experiment, found[0].change).expect("a change");
        assert_eq!(hints(&experiment, None), []);
        (experiment.prune.kind, experiment.run.steps) = (PruneKind::Magnitude, Some(40));
        // The last of these prunings is that after step 31.
        (experiment.prune.final_sparsity, experiment.prune.end_step) = (0.8, 79);
        let found = hints(&experiment, None);
        assert_eq!((found.len(), found[0].problem.key.as_str()), (1, "prune.end_step"));
        assert!(found[0].problem.message.contains("comes to 61% and not to 80%"), "{}", found[0].problem);
        preset::set(&mut experiment, found[0].change).expect("a change");
        assert_eq!(hints(&experiment, None), []);
    }
}
