//! Weights in and weights out: what is exported loads again to the same bits, what is predicted of loading is never below
//! what is measured, and what does not fit is refused in words.

mod codes;
mod coming_back;
mod compressed;
mod lent;
mod rate;
mod refused;

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use candle_core::{Device, Tensor, safetensors};
use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{DataKind, DatasetInfo, Model, ModelKind, OptimizerKind, Stem},
    hardware::Machine,
    interop::export,
    plan::{Plan, Resolved},
    train::{Checkpoint, Command, Event, Keep, Outcome, Start, Summary, Trainer},
};

/// A small experiment of a family, two steps long.
fn tiny(kind: ModelKind) -> Experiment {
    let model = Model { kind, width: 16, depth: 2, heads: 2, kv_heads: 2, hidden: 24, patch: 4, ..Model::default() };
    let mut e = Experiment { model, ..Experiment::default() };
    (e.batch.micro, e.run.steps, e.data.samples, e.budget) = (4, Some(2), 40, Bytes::gib(4));
    e.optimizer.kind = OptimizerKind::Sgd;
    match kind {
        ModelKind::Gpt2 | ModelKind::Llama => {
            (e.data.kind, e.data.length, e.data.vocabulary) = (DataKind::Tokens, 8, 20);
        }
        _ => {
            (e.data.kind, e.data.side, e.data.classes) = (DataKind::Shapes, 32, 4);
            (e.model.stem, e.model.multiplier) = (Stem::Imagenet, 0.1);
            (e.batch.micro, e.data.samples, e.run.steps) = (2, 10, Some(1));
        }
    }
    e
}

struct Run {
    plan: Arc<Plan>,
    losses: Vec<u64>,
    warnings: Vec<String>,
    outcome: Outcome,
    summary: Summary,
}

/// One for all, because each begins by measuring the machine.
static TRAINER: LazyLock<Mutex<Trainer>> = LazyLock::new(|| Mutex::new(Trainer::new(|| {})));

fn run(start: Start) -> Run {
    let trainer = TRAINER.lock().unwrap_or_else(PoisonError::into_inner);
    trainer.send(Command::Start(Box::new(start)));
    let (mut plan, mut losses, mut warnings) = (None, Vec::new(), Vec::new());
    for event in trainer.events() {
        match event {
            Event::Started { plan: started, .. } => plan = Some(started),
            Event::Step(record) => losses.push(record.loss.to_bits()),
            Event::Warning(text) => warnings.push(text),
            Event::Ended { outcome, summary, .. } => {
                return Run { plan: plan.expect("it was planned"), losses, warnings, outcome, summary: *summary };
            }
            _ => {}
        }
    }
    panic!("the trainer is gone");
}

/// Trains, and leaves the checkpoint in `folder`.
fn trained(experiment: &Experiment, folder: &Path) -> Run {
    let run = run(Start { keep: Keep::in_folder(folder), ..Start::new(experiment.clone()) });
    assert!(matches!(run.outcome, Outcome::Finished), "{:?}", run.outcome);
    run
}

fn info(experiment: &Experiment) -> DatasetInfo {
    *Resolved::new(experiment, &Machine::nominal()).unwrap_or_else(|problems| panic!("{problems:?}")).info()
}

/// The model of a run in the layout of others.
fn exported(experiment: &Experiment, run: &Path, folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    let checkpoint = Checkpoint::at(run).expect("saved");
    export(&checkpoint, folder, experiment, &info(experiment), false).unwrap_or_else(|error| panic!("{error}"));
}

fn tensors(path: &Path) -> HashMap<String, Vec<u8>> {
    let loaded = safetensors::load(path, &Device::Cpu).expect("safetensors");
    let bits = |tensor: &Tensor| {
        // Codes are bytes.
        let wide = tensor.to_dtype(candle_core::DType::F32).and_then(|wide| wide.flatten_all());
        let flat = wide.and_then(|flat| flat.to_vec1::<f32>()).expect("f32");
        flat.into_iter().flat_map(f32::to_le_bytes).collect()
    };
    loaded.iter().filter(|(name, _)| !name.starts_with("optimizer.")).map(|(name, t)| (name.clone(), bits(t))).collect()
}

/// A run of one step at a rate of nearly nothing that begins with `path`: its checkpoint has the weights that were loaded.
fn beginning_with(experiment: &Experiment, path: PathBuf) -> Experiment {
    let mut next = experiment.clone();
    next.weights.path = Some(path);
    (next.run.steps, next.run.seed) = (Some(1), 5);
    (next.optimizer.learning_rate, next.optimizer.weight_decay) = (1e-300, 0.0);
    next
}

/// Tensors of a tiny GPT-2 as others name them, and the experiment they are of.
fn published(folder: &Path) -> (Experiment, HashMap<String, Tensor>) {
    let experiment = tiny(ModelKind::Gpt2);
    trained(&experiment, &folder.join("first"));
    exported(&experiment, &folder.join("first"), &folder.join("out"));
    let tensors = safetensors::load(folder.join("out/model.safetensors"), &Device::Cpu).expect("written");
    (experiment, tensors)
}
