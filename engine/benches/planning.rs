//! Times plans of published models, from an experiment to its whole prediction, and the search for the places of their
//! blocks on a GPU. Parts of names choose among the models: `cargo bench -p plimsoll-engine --bench planning -- Llama MLP`;
//! with `--plans` no places are looked for.

use std::time::Instant;

use plimsoll_engine::{
    Bytes, Experiment, Result,
    device::profile,
    experiment::{Data, DataKind, Model, ModelKind, PoolPolicy, Precision, Stem, shipped},
    hardware::Machine,
    memory::allocator::{Places, Search},
    plan::{Plan, Resolved, predict},
};

/// The card that places are found for.
const CARD: &str = "h200-141g";

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

fn deep() -> Experiment {
    let model = Model { kind: ModelKind::Mlp, width: 64, depth: 5000, ..Model::default() };
    Experiment { model, ..Experiment::default() }
}

fn qlora() -> Result<Experiment> {
    shipped::find("llama-2-7b-qlora-plan").expect("a shipped preset")
}

/// The median and the least of these times, in milliseconds.
fn median(mut secs: Vec<f64>) -> (f64, f64) {
    secs.sort_by(f64::total_cmp);
    (secs[secs.len() / 2] * 1e3, secs[0] * 1e3)
}

/// Times the places of an experiment, and its plan with and without them.
fn places(name: &str, experiment: &Experiment) -> Result<()> {
    let machine = Machine::nominal();
    let mut on_card = Experiment { device: CARD.to_owned(), budget: Bytes::gib(141), ..experiment.clone() };
    let mut plans = Vec::new();
    for pool in [PoolPolicy::Grow, PoolPolicy::Planned] {
        on_card.gpu.pool = pool;
        let secs = |_| Plan::of(&on_card, &machine).map(|plan| plan.plan_secs);
        plans.push(median((0..ROUNDS).map(secs).collect::<Result<_>>()?).0);
    }
    let resolved = Resolved::new(&on_card, &machine).map_err(|problems| problems[0].clone())?;
    let (requests, grown) = predict::requests(&resolved, &machine)?;
    let profile = profile::named(CARD).expect("ships");
    let mut found = Places::of(&requests, &profile.pool, Search::Careful);
    let mut secs = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        found = Places::of(&requests, &profile.pool, Search::Careful);
        secs.push(start.elapsed().as_secs_f64());
    }
    let (middle, least) = median(secs);
    let live = Plan::of(&on_card, &machine)?.peak.live;
    println!(
        "{name:26} {middle:7.2} ms ({least:.2} at least) for places of {} blocks: {} for {live}, {grown} by growing; plan {:.2} \
         ms, without them {:.2}",
        requests.count(),
        found.extent(),
        plans[1],
        plans[0],
    );
    Ok(())
}

fn main() -> Result<()> {
    // Cargo adds `--bench`.
    let (flags, chosen): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|part| name.contains(part.as_str()));
    let mut models = vec![
        ("ResNet-50, 224 x 224", resnet50()),
        ("GPT-2 small, 1024 tokens", sequences(gpt2(768, 12, 12), 1024, 50_257)),
        ("GPT-2 XL, 1024 tokens", sequences(gpt2(1600, 48, 25), 1024, 50_257)),
        ("Llama 7B, 4096 tokens", sequences(llama(4096, 32, 32, 11_008), 4096, 32_000)),
        ("Llama 13B, 4096 tokens", sequences(llama(5120, 40, 40, 13_824), 4096, 32_000)),
        ("Llama 2 7B, NF4 and LoRA", qlora()?),
        ("MLP of 5,000 layers", deep()),
    ];
    models.retain(|(name, _)| is_chosen(name));
    for (name, experiment) in &models {
        let mut secs = Vec::with_capacity(ROUNDS);
        let mut plan = Plan::of(experiment, &Machine::nominal())?;
        for _ in 0..ROUNDS {
            plan = Plan::of(experiment, &Machine::nominal())?;
            secs.push(plan.plan_secs);
        }
        let (middle, least) = median(secs);
        println!(
            "{name:26} {middle:7.2} ms ({least:.2} at least), {} ops, peak {}",
            plan.steady.points.len(),
            plan.peak.live
        );
    }
    if flags.iter().any(|flag| flag == "--plans") {
        return Ok(());
    }
    models.iter().try_for_each(|(name, experiment)| places(name, experiment))
}
