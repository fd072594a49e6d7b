//! Times plans of published models, from an experiment to its whole prediction.

use plimsoll_engine::{
    Experiment, Result,
    experiment::{Data, DataKind, Model, ModelKind, Precision, Stem},
    hardware::Machine,
    plan::Plan,
};

const ROUNDS: usize = 21;

fn sequences(model: Model, length: usize, vocabulary: usize) -> Experiment {
    let data = Data { kind: DataKind::Tokens, length, vocabulary, samples: 1000, ..Data::default() };
    let mut experiment = Experiment { model, data, precision: Precision::Bf16Mixed, ..Experiment::default() };
    experiment.batch.micro = 1;
    experiment
}

fn gpt2(width: usize, depth: usize, heads: usize) -> Model {
    Model { kind: ModelKind::Gpt2, width, depth, heads, hidden: 4 * width, ..Model::default() }
}

fn llama(width: usize, depth: usize, heads: usize, hidden: usize) -> Model {
    Model { kind: ModelKind::Llama, width, depth, heads, kv_heads: heads, hidden, tied: false, ..Model::default() }
}

fn resnet50() -> Experiment {
    let model = Model { kind: ModelKind::Resnet, layers: 50, stem: Stem::Imagenet, ..Model::default() };
    let data = Data { kind: DataKind::Shapes, side: 224, ..Data::default() };
    Experiment { model, data, ..Experiment::default() }
}

fn main() -> Result<()> {
    for (name, experiment) in [
        ("ResNet-50, 224 x 224", resnet50()),
        ("GPT-2 small, 1024 tokens", sequences(gpt2(768, 12, 12), 1024, 50_257)),
        ("GPT-2 XL, 1024 tokens", sequences(gpt2(1600, 48, 25), 1024, 50_257)),
        ("Llama 7B, 4096 tokens", sequences(llama(4096, 32, 32, 11_008), 4096, 32_000)),
        ("Llama 13B, 4096 tokens", sequences(llama(5120, 40, 40, 13_824), 4096, 32_000)),
    ] {
        let mut secs = Vec::with_capacity(ROUNDS);
        let mut plan = Plan::of(&experiment, &Machine::nominal())?;
        for _ in 0..ROUNDS {
            plan = Plan::of(&experiment, &Machine::nominal())?;
            secs.push(plan.plan_secs);
        }
        secs.sort_by(f64::total_cmp);
        let (median, least) = (secs[ROUNDS / 2] * 1e3, secs[0] * 1e3);
        println!(
            "{name:26} {median:7.2} ms ({least:.2} at least), {} ops, peak {}",
            plan.steady.points.len(),
            plan.peak.live
        );
    }
    Ok(())
}
