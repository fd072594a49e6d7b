//! The workloads by name: each is an experiment that another library can run as well.
//!
//! Always holds: a name means the same experiment on every device, except for settings that only a device has. The large ones
//! are the workloads of `tests/peers/cuda.py`, PyTorch's side, under the same names and with the same settings.

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{
        DataKind, Execution, Model, ModelKind, Optimizer, Placement, Precision, Recompute, Run, Stem,
        limits::MAX_BUDGET,
    },
};

/// The name of the processor.
pub(in crate::cli) const CPU: &str = "cpu";

/// A workload: its name, and the settings that differ from those of all.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Workload {
    pub(in crate::cli) name: &'static str,
    change: fn(&mut Experiment),
    /// Whether it has the size of a card.
    is_large: bool,
}

/// The workloads for a desk: shapes stand for CIFAR-10, images of 32 x 32 x 3 in ten classes.
const SMALL: [Workload; 5] = [
    small("mlp-digits-b64", |e| (e.model.width, e.model.depth) = (256, 2)),
    small("cnn-digits-b64", |e| (e.model.kind, e.model.width) = (ModelKind::Cnn, 32)),
    small("sepcnn-cifar-b64", |e| {
        (e.model.kind, e.model.width) = (ModelKind::Sepcnn, 32);
        e.data.kind = DataKind::Shapes;
    }),
    small("resnet18-cifar-b32", |e| {
        (e.model.kind, e.recompute) = (ModelKind::Resnet, Recompute::Cheap);
        (e.data.kind, e.batch.micro) = (DataKind::Shapes, 32);
    }),
    small("gpt-d256-l6-t128-b16", |e| {
        let (kind, heads, hidden) = (ModelKind::Gpt2, 8, 1024);
        e.model = Model { kind, width: 256, depth: 6, heads, hidden, tied: false, ..Model::default() };
        (e.data.kind, e.data.length, e.data.vocabulary) = (DataKind::Tokens, 128, 256);
        (e.batch.micro, e.recompute) = (16, Recompute::Cheap);
    }),
];

/// The workloads for a card, each in three kinds of arithmetic.
const LARGE: [Workload; 12] = [
    large("gpt2-small-b8-t1024-f32", gpt2_small),
    large("gpt2-small-b8-t1024-tf32", |e| tf32(e, gpt2_small)),
    large("gpt2-small-b8-t1024-bf16", |e| bf16(e, gpt2_small)),
    large("resnet50-b64-s224-f32", resnet50),
    large("resnet50-b64-s224-tf32", |e| tf32(e, resnet50)),
    large("resnet50-b64-s224-bf16", |e| bf16(e, resnet50)),
    large("mobilenetv2-b128-s224-f32", mobilenetv2),
    large("mobilenetv2-b128-s224-tf32", |e| tf32(e, mobilenetv2)),
    large("mobilenetv2-b128-s224-bf16", |e| bf16(e, mobilenetv2)),
    large("vit-s-b128-s224-f32", vit_s),
    large("vit-s-b128-s224-tf32", |e| tf32(e, vit_s)),
    large("vit-s-b128-s224-bf16", |e| bf16(e, vit_s)),
];

const fn small(name: &'static str, change: fn(&mut Experiment)) -> Workload {
    Workload { name, change, is_large: false }
}

const fn large(name: &'static str, change: fn(&mut Experiment)) -> Workload {
    Workload { name, change, is_large: true }
}

fn tf32(e: &mut Experiment, of: fn(&mut Experiment)) {
    of(e);
    e.gpu.tf32 = true;
}

fn bf16(e: &mut Experiment, of: fn(&mut Experiment)) {
    of(e);
    e.precision = Precision::Bf16Mixed;
}

fn gpt2_small(e: &mut Experiment) {
    let (kind, width, depth, heads, hidden) = (ModelKind::Gpt2, 768, 12, 12, 3072);
    e.model = Model { kind, width, depth, heads, hidden, tied: true, ..Model::default() };
    (e.data.kind, e.data.length, e.data.vocabulary) = (DataKind::Tokens, 1024, 50_257);
    (e.batch.micro, e.optimizer.clip_norm) = (8, 1.0);
}

fn resnet50(e: &mut Experiment) {
    e.model = Model { kind: ModelKind::Resnet, layers: 50, stem: Stem::Imagenet, ..Model::default() };
    photographs(e, 64);
}

fn mobilenetv2(e: &mut Experiment) {
    e.model = Model { kind: ModelKind::Mobilenetv2, stem: Stem::Imagenet, ..Model::default() };
    photographs(e, 128);
}

fn vit_s(e: &mut Experiment) {
    let (kind, width, depth, heads, hidden, patch) = (ModelKind::Vit, 384, 12, 6, 1536, 16);
    e.model = Model { kind, width, depth, heads, hidden, patch, ..Model::default() };
    photographs(e, 128);
}

/// Images of 224 x 224 x 3 in ten classes, `micro` of them a step.
fn photographs(e: &mut Experiment, micro: usize) {
    (e.data.kind, e.data.side, e.batch.micro) = (DataKind::Shapes, 224, micro);
}

impl Workload {
    /// All workloads: first those for a desk, then those for a card.
    pub(in crate::cli) fn all() -> impl Iterator<Item = Self> {
        SMALL.into_iter().chain(LARGE)
    }

    /// The workloads that run if none is named.
    pub(in crate::cli) fn usual() -> Vec<Self> {
        SMALL.to_vec()
    }

    /// The workload of this name, or those that the name begins.
    pub(in crate::cli) fn named(name: &str) -> Vec<Self> {
        let exact = Self::all().find(|workload| workload.name == name);
        exact.map_or_else(|| Self::all().filter(|workload| workload.is_in(name)).collect(), |exact| vec![exact])
    }

    /// Whether it has the size of a card.
    #[cfg(test)]
    pub(in crate::cli) fn is_large(&self) -> bool {
        self.is_large
    }

    /// Whether its name begins with these words.
    fn is_in(&self, group: &str) -> bool {
        self.name.strip_prefix(group).is_some_and(|rest| rest.starts_with('-'))
    }

    /// The experiment, of this many steps on `device`. AdamW has a learning rate of 0.001 and a weight decay of 0.01. The data
    /// of a large one wait on the device, as a batch does that PyTorch is timed with, and on a card its execution is fused, as that is
    /// of what `torch.compile` makes.
    pub(in crate::cli) fn experiment(&self, device: &str, steps: u64) -> Experiment {
        let mut experiment = Experiment {
            title: self.name.to_owned(),
            device: device.to_owned(),
            budget: if self.is_large { MAX_BUDGET } else { Bytes::gib(2) },
            optimizer: Optimizer { learning_rate: 1e-3, ..Optimizer::default() },
            // One evaluation, after the last step.
            run: Run { steps: Some(steps), evaluate_every: steps, ..Run::default() },
            ..Experiment::default()
        };
        (experiment.batch.micro, experiment.data.samples) = (64, 2000);
        (self.change)(&mut experiment);
        if self.is_large {
            // Two batches to learn from, and a small one to be tested with.
            experiment.data.placement = Placement::Device;
            experiment.data.samples = experiment.batch.micro * 5 / 2;
            if device != CPU {
                experiment.execution = Execution::Fused;
            }
        }
        experiment
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{hardware::Machine, plan::Plan};

    use super::*;

    /// PyTorch's side.
    const PEER: &str = include_str!("../../../../tests/peers/cuda.py");

    /// The parameters of a group's models by PyTorch's side.
    fn parameters_of_peer(group: &str) -> u64 {
        let line = PEER.lines().find(|line| line.trim_start().starts_with(&format!("\"{group}\":")));
        let line = line.unwrap_or_else(|| panic!("cuda.py lacks {group}"));
        let (_, number) = line.split_once("parameters=").expect("cuda.py says how many");
        let number: String = number.chars().take_while(|c| c.is_ascii_digit() || *c == '_').collect();
        number.replace('_', "").parse().expect("a number")
    }

    #[test]
    fn the_peers_workloads_have_the_same_names_and_as_many_parameters() {
        for workload in LARGE {
            let (group, _arithmetic) = workload.name.rsplit_once('-').expect("a kind of arithmetic");
            let mut experiment = workload.experiment("h100-80g", 4);
            experiment.budget = Bytes::gib(64);
            let plan = Plan::of(&experiment, &Machine::nominal()).unwrap_or_else(|e| panic!("{}: {e}", workload.name));
            assert_eq!(plan.parameters, parameters_of_peer(group), "{}", workload.name);
            assert!(plan.peak.process < Bytes::gib(64), "{}: {}", workload.name, plan.peak.process);
        }
    }

    #[test]
    fn large_workloads_are_fused_on_a_card_and_nowhere_else() {
        for workload in Workload::all() {
            let fused = |device: &str| workload.experiment(device, 4).execution == Execution::Fused;
            assert_eq!((fused("cuda:0"), fused("h100-80g"), fused(CPU)), (workload.is_large, workload.is_large, false));
        }
    }

    #[test]
    fn a_name_or_its_beginning_finds_workloads() {
        let found = |name: &str| Workload::named(name).iter().map(|workload| workload.name).collect::<Vec<_>>();
        assert_eq!(found("resnet50-b64-s224-tf32"), ["resnet50-b64-s224-tf32"]);
        assert_eq!(found("vit-s"), ["vit-s-b128-s224-f32", "vit-s-b128-s224-tf32", "vit-s-b128-s224-bf16"]);
        assert!(found("res").is_empty() && found("").is_empty(), "whole words");
    }
}
