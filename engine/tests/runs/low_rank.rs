//! Factored runs: what comes of weights that are factored as they are loaded, what that takes, that a saved run goes on, and
//! what cannot be factored.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use candle_core::{Device, Tensor, safetensors};
use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{
        BaseWeights, Checkpointing, DataKind, Frozen, ModelKind, Normalise, OptimizerKind, Precision, Prune, PruneKind,
        UpdateTime,
    },
    hardware::Machine,
    interop,
    memory::Category,
    plan::{Plan, Resolved},
    train::{Checkpoint, Command, Evaluation, Event, Keep, Outcome, Start, Summary, Tester, Trainer, Tried},
};

use super::resume::going_on::{OF_ENDED_THREADS, goes_on};

/// A run to its end; what it came to.
fn run(start: Start) -> (Summary, Outcome) {
    let trainer = Trainer::new(|| {});
    trainer.send(Command::Start(Box::new(start)));
    loop {
        let event = trainer.events().recv_timeout(Duration::from_secs(300)).expect("the trainer goes on");
        if let Event::Ended { outcome, summary, .. } = event {
            return (*summary, outcome);
        }
    }
}

/// Trains a model into `folder`.
fn kept(experiment: &Experiment, folder: &Path) -> Summary {
    let (summary, outcome) = run(Start { keep: Keep::in_folder(folder), ..Start::new(experiment.clone()) });
    assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
    summary
}

fn evaluated(experiment: &Experiment, checkpoint: Option<PathBuf>) -> Evaluation {
    let tried = Tried { experiment: experiment.clone(), checkpoint };
    Tester::new().evaluate(&tried).unwrap_or_else(|error| panic!("{error}"))
}

fn small(kind: ModelKind) -> Experiment {
    let mut e = Experiment { budget: Bytes::mib(512), ..Experiment::default() };
    e.model.kind = kind;
    (e.model.width, e.model.depth, e.model.dense, e.model.heads, e.model.hidden) = (16, 2, 24, 2, 40);
    e.model.kv_heads = 2;
    (e.data.side, e.data.samples, e.data.length) = (16, 300, 12);
    e.data.kind = match kind {
        ModelKind::Gpt2 | ModelKind::Llama => DataKind::Sort,
        ModelKind::Unet => DataKind::Masks,
        _ => DataKind::Shapes,
    };
    (e.batch.micro, e.run.steps) = (4, Some(5));
    e
}

/// Digits, learned well in a few seconds.
fn digits(kind: ModelKind) -> Experiment {
    let mut e = Experiment { budget: Bytes::mib(512), ..Experiment::default() };
    e.model.kind = kind;
    (e.model.width, e.model.depth, e.model.dense) = if kind == ModelKind::Cnn { (16, 2, 64) } else { (64, 2, 64) };
    (e.model.heads, e.model.hidden, e.model.patch) = (4, 128, 2);
    (e.data.kind, e.data.test_fraction, e.batch.micro) = (DataKind::Digits, 0.2, 32);
    (e.run.steps, e.run.epochs) = (None, Some(12));
    (e.optimizer.kind, e.optimizer.learning_rate) = (OptimizerKind::Adamw, 0.002);
    e
}

/// The same, begun with what lies at `path`, its layers of `rank`.
fn factored(experiment: &Experiment, path: &Path, rank: usize) -> Experiment {
    let mut factored = experiment.clone();
    factored.weights.path = Some(path.to_owned());
    factored.low_rank.rank = rank;
    factored
}

fn plan(experiment: &Experiment) -> Plan {
    Plan::of(experiment, &Machine::nominal()).unwrap_or_else(|error| panic!("{error}"))
}

fn problems(experiment: &Experiment) -> Vec<String> {
    let found = Resolved::new(experiment, &Machine::nominal()).err().unwrap_or_default();
    found.into_iter().map(|problem| problem.to_string()).collect()
}

/// The weights of a factored run multiplied out, as plainly as it can be written.
fn multiplied_out(folder: &Path, plan: &Plan) -> HashMap<String, Tensor> {
    let mut tensors = safetensors::load(folder.join("last.safetensors"), &Device::Cpu).expect("tensors");
    tensors.retain(|name, _| !name.starts_with("optimizer."));
    for layer in plan.resolved.factored() {
        let name = layer.name();
        let mut take = |factor: &str| {
            let weight = tensors.remove(&format!("{name}.{factor}.weight"))?;
            let last = tensors.remove(&format!("{name}.{factor}.bias"));
            last.map(|bias| tensors.insert(format!("{name}.bias"), bias));
            let dims = weight.dims().to_vec();
            let numbers: Vec<f32> = weight.flatten_all().and_then(|flat| flat.to_vec1()).expect("f32");
            Some((dims, numbers))
        };
        let (first, core, last) = (take("in"), take("core"), take("out"));
        let (out, inner, taps) = (layer.whole.out, layer.whole.inner, layer.whole.size * layer.whole.size);
        let mut whole = vec![0f64; out * taps * inner];
        let ranks = layer.ranks.expect("factored");
        let number = |of: &Option<(Vec<usize>, Vec<f32>)>, row: usize, columns: usize, column: usize| match of {
            Some((_, numbers)) => f64::from(numbers[row * columns + column]),
            // Where a factor is missing, it is the identity.
            None => f64::from(row == column),
        };
        for (at, sum) in whole.iter_mut().enumerate() {
            let (o, tap, i) = (at / (taps * inner), at / inner % taps, at % inner);
            for s in 0..ranks.out {
                let outer = number(&last, o, ranks.out, s);
                if outer == 0.0 {
                    continue;
                }
                for r in 0..ranks.inner {
                    let middle = match &core {
                        Some((_, numbers)) => f64::from(numbers[(s * taps + tap) * ranks.inner + r]),
                        None => f64::from(s == r),
                    };
                    *sum += outer * middle * number(&first, r, inner, i);
                }
            }
        }
        let whole: Vec<f32> = whole.into_iter().map(|sum| sum as f32).collect();
        let dims = match first.as_ref().or(core.as_ref()).map(|(dims, _)| dims.len()) {
            Some(2) => vec![out, inner],
            _ => vec![out, layer.whole.size, layer.whole.size, inner],
        };
        tensors.insert(format!("{name}.weight"), Tensor::from_vec(whole, dims, &Device::Cpu).expect("a tensor"));
    }
    tensors
}

#[test]
fn whole_weights_of_a_rank_answer_as_the_factors_that_they_were_made_of() {
    let folder = tempfile::tempdir().expect("a folder");
    for kind in [ModelKind::Mlp, ModelKind::Cnn, ModelKind::Sepcnn, ModelKind::Vit, ModelKind::Mixer, ModelKind::Unet] {
        let mut narrow = small(kind);
        narrow.model.depth = 3;
        narrow.low_rank.rank = 4;
        // Pixels are scaled alike for any weights.
        narrow.data.normalise = Normalise::Dataset;
        let own = folder.path().join(kind.key());
        kept(&narrow, &own);
        let planned = plan(&narrow);
        assert!(planned.resolved.factored().len() > 1, "{kind:?}");
        // The plan has fewer parameters than that of whole layers.
        assert!(planned.parameters < plan(&narrow.whole()).parameters);
        let file = folder.path().join(format!("{}.safetensors", kind.key()));
        safetensors::save(&multiplied_out(&own, &planned), &file).expect("written");
        let of_factors = evaluated(&narrow, Some(own.clone()));
        // As one whole, and factored again: the layers have this rank.
        let mut whole = narrow.whole();
        whole.weights.path = Some(file.clone());
        let again = factored(&narrow, &file, 4);
        for other in [evaluated(&whole, None), evaluated(&again, None)] {
            assert!((other.loss - of_factors.loss).abs() < 2e-5, "{kind:?}: {}, {}", other.loss, of_factors.loss);
            assert!(other.took.measured <= other.took.predicted);
        }
        // The factors of a kept run begin another one of the same ranks.
        let same = evaluated(&factored(&narrow, &own, 4), None);
        assert_eq!(same.loss.to_bits(), of_factors.loss.to_bits(), "{kind:?}");
    }
}

#[test]
fn a_trained_model_of_lower_rank_comes_back_to_within_a_point() {
    let folder = tempfile::tempdir().expect("a folder");
    for (kind, rank) in [(ModelKind::Mlp, 16), (ModelKind::Cnn, 12), (ModelKind::Vit, 16)] {
        let of_whole = digits(kind);
        let own = folder.path().join(kind.key());
        let whole = kept(&of_whole, &own).test_accuracy.expect("tested");
        let mut narrow = factored(&of_whole, &own, rank);
        (narrow.run.epochs, narrow.optimizer.learning_rate) = (Some(6), 0.001);
        let (summary, outcome) = run(Start::new(narrow.clone()));
        assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
        let accuracy = summary.test_accuracy.expect("tested");
        assert!(whole > 0.9 && accuracy > whole - 0.01, "{kind:?}: {whole} whole, {accuracy} of rank {rank}");
        // What is told of its size is what was planned.
        let size = summary.factored.expect("factored");
        let (planned, of_whole) = (plan(&narrow), plan(&of_whole));
        assert_eq!((size.bytes.0, size.whole_bytes.0), (4 * planned.parameters, 4 * of_whole.parameters), "{kind:?}");
        assert_eq!(size.layers, planned.resolved.factored().len() as u64);
        assert!(summary.measured.live <= summary.predicted.live);
        // Factoring takes host memory, as is predicted.
        let (host, factors) = (summary.host, planned.host.factors.0);
        assert!(host.measured <= host.predicted && host.measured.0 * 2 > factors, "{kind:?}: {host:?} of {factors}");
        assert!(planned.peak.live < of_whole.peak.live, "{kind:?}");
        let state = |plan: &Plan| plan.steady.points.last().expect("a step").categories.get(Category::OptimizerState).0;
        assert_eq!(state(&planned), 8 * planned.parameters);
        assert_eq!(state(&of_whole), 8 * of_whole.parameters);
    }
}

#[test]
fn a_factored_run_takes_what_was_predicted_and_goes_on_to_the_last_bit() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        (ModelKind::Mlp, Precision::F32, 1, UpdateTime::AfterBackward, Checkpointing::None, Frozen::None),
        (ModelKind::Cnn, Precision::Bf16Mixed, 1, UpdateTime::InBackward, Checkpointing::None, Frozen::Blocks(1)),
        (ModelKind::Vit, Precision::F16Mixed, 2, UpdateTime::AfterBackward, Checkpointing::Blocks, Frozen::None),
        (ModelKind::Resnet, Precision::Bf16, 1, UpdateTime::AfterBackward, Checkpointing::Sqrt, Frozen::None),
        (ModelKind::Llama, Precision::F32, 2, UpdateTime::AfterBackward, Checkpointing::Every(2), Frozen::AllButHead),
        (ModelKind::Unet, Precision::F32, 1, UpdateTime::AfterBackward, Checkpointing::Blocks, Frozen::None),
    ];
    for (at, (kind, precision, accumulation, update, checkpointing, frozen)) in cases.into_iter().enumerate() {
        let mut of_whole = small(kind);
        of_whole.run.steps = Some(2);
        if kind == ModelKind::Resnet {
            (of_whole.model.layers, of_whole.model.width) = (18, 16);
        }
        let own = folder.path().join(at.to_string());
        kept(&of_whole, &own);
        let mut experiment = Experiment { precision, checkpointing, frozen, ..of_whole };
        (experiment.batch.accumulation, experiment.optimizer.update) = (accumulation, update);
        experiment.run.steps = Some(5);
        experiment.weights.path = Some(own);
        match at % 3 {
            0 => experiment.low_rank.rank = 3,
            1 => experiment.low_rank.energy = 0.6,
            _ => experiment.low_rank.size = 0.6,
        }
        if kind == ModelKind::Unet {
            let kind = PruneKind::Magnitude;
            experiment.prune = Prune { kind, every: 1, end_step: 4, ..Prune::default() };
        }
        let run = goes_on(&experiment, 2, &|| format!("{experiment:?}"));
        assert!(!run.plan.resolved.factored().is_empty(), "{kind:?}");
        assert!(run.plan.host.factors > Bytes::ZERO);
        let (predicted, measured) = (run.plan.peak.live.0 as f64, run.summary.measured.live.0 as f64);
        let context = run.plan.categories_at_peak.get(Category::Context).0 as f64;
        let scratch = (Bytes::kib(64) + OF_ENDED_THREADS).0 as f64;
        assert!(predicted <= measured * 1.01 + context + scratch, "{predicted}, {measured}: {experiment:?}");
    }
}

#[test]
fn ranks_that_are_found_hold_the_share_and_outlive_the_weights() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("own");
    kept(&small(ModelKind::Cnn), &own);
    let by = |energy: f64, size: f64| {
        let mut experiment = factored(&small(ModelKind::Cnn), &own, 0);
        (experiment.low_rank.energy, experiment.low_rank.size) = (energy, size);
        experiment
    };
    let whole = plan(&small(ModelKind::Cnn)).parameters;
    let parameters: Vec<u64> = [0.2, 0.5, 0.8].map(|energy| plan(&by(energy, 0.0)).parameters).to_vec();
    assert!(parameters.is_sorted() && parameters[0] < parameters[2] && parameters[2] <= whole, "{parameters:?}");
    let sized: Vec<u64> = [0.3, 0.6, 0.9].map(|size| plan(&by(0.0, size)).parameters).to_vec();
    for (parameters, size) in sized.iter().zip([0.3, 0.6, 0.9]) {
        let share = *parameters as f64 / whole as f64;
        assert!(share <= size && share > size - 0.25, "{share} of {size}");
    }
    // Another share is found from what was seen of the same files.
    let machine = Machine::nominal();
    let first = Resolved::new(&by(0.5, 0.0), &machine).expect("possible");
    let other = first.revised(&by(0.8, 0.0), &machine).expect("possible");
    let afresh = Resolved::new(&by(0.8, 0.0), &machine).expect("possible");
    assert_eq!(other.experiment().low_rank.ranks, afresh.experiment().low_rank.ranks);
    assert_ne!(other.experiment().low_rank.ranks, first.experiment().low_rank.ranks);

    let student = folder.path().join("student");
    kept(&by(0.5, 0.0), &student);
    let saved = Checkpoint::open(student.join("last.safetensors")).expect("saved").experiment().expect("readable");
    assert_eq!(saved.low_rank.ranks, first.experiment().low_rank.ranks);
    fs::remove_dir_all(&own).expect("ours");
    let longer = |experiment: &Experiment| {
        let mut longer = experiment.clone();
        longer.run.steps = Some(7);
        let resume = Some(student.join("last.safetensors"));
        run(Start { keep: Keep::in_folder(&student), resume, is_same_run: true, ..Start::new(longer) })
    };
    // As it was chosen, without the ranks, and as the checkpoint has it.
    for experiment in [by(0.5, 0.0), saved] {
        evaluated(&experiment, Some(student.clone()));
        let (summary, outcome) = longer(&experiment);
        assert!(matches!(outcome, Outcome::Finished) || format!("{outcome:?}").contains("7 steps"), "{outcome:?}");
        assert!(summary.factored.is_some() || summary.steps == 0, "{summary:?}");
    }
    assert!(problems(&by(0.7, 0.0))[0].contains("weights.path"), "its weights are gone");
    // What is factored already is so by its own choice.
    let mut next = small(ModelKind::Cnn);
    (next.weights.path, next.low_rank.energy) = (Some(student.clone()), 0.5);
    assert_eq!(plan(&next).parameters, parameters[1]);
    next.low_rank.energy = 0.9;
    let said = problems(&next);
    assert!(said.len() == 1 && said[0].contains("write low_rank.energy = 0.5"), "{said:?}");
}

#[test]
fn a_factored_run_is_exported_multiplied_out_and_teaches() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut narrow = small(ModelKind::Gpt2);
    narrow.low_rank.rank = 4;
    let own = folder.path().join("own");
    kept(&narrow, &own);
    let info = *Resolved::new(&narrow, &Machine::nominal()).expect("possible").info();
    let out = folder.path().join("out");
    let exported = interop::export(&own.join("last.safetensors"), &out, &narrow, &info, false).expect("exported");
    assert!(exported.notes.iter().any(|note| note.contains("multiplied out")), "{:?}", exported.notes);
    let mut whole = narrow.whole();
    whole.weights.path = Some(out);
    let (of_factors, of_whole) = (evaluated(&narrow, Some(own.clone())), evaluated(&whole, None));
    assert!((of_factors.loss - of_whole.loss).abs() < 1e-5, "{}, {}", of_factors.loss, of_whole.loss);
    // Its own file has the factors.
    let file = folder.path().join("own.safetensors");
    Checkpoint::open(own.join("last.safetensors")).expect("saved").write_weights(&file).expect("written");
    let same = evaluated(&factored(&narrow, &file, 4), None);
    assert_eq!(same.loss.to_bits(), of_factors.loss.to_bits());

    let mut taught = small(ModelKind::Llama);
    taught.distil.teacher = Some(own);
    let (_, outcome) = run(Start::new(taught));
    assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
}

#[test]
fn what_cannot_be_factored_is_refused_with_what_would_be_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = |change: fn(&mut Experiment)| {
        let mut e = small(ModelKind::Gpt2);
        e.low_rank.rank = 4;
        change(&mut e);
        problems(&e)
    };
    assert_eq!(said(|_| {}), [""; 0]);
    let found = said(|e| e.lora.rank = 2);
    assert!(found.len() == 1 && found[0].contains("adapters go next to whole layers"), "{found:?}");
    let found = said(|e| (e.lora.rank, e.frozen, e.quantise.base) = (2, Frozen::All, BaseWeights::Nf4));
    assert!(found.iter().any(|said| said.contains("quantise.base = none")), "{found:?}");
    let found = said(|e| e.low_rank.energy = 0.5);
    assert!(found.iter().any(|said| said.contains("both give the ranks")), "{found:?}");
    let found = said(|e| (e.low_rank.rank, e.low_rank.energy) = (0, 0.5));
    assert!(found.len() == 1 && found[0].contains("none are chosen"), "{found:?}");
    let found = said(|e| (e.low_rank.rank, e.low_rank.energy) = (0, 1.5));
    assert!(found.iter().any(|said| said.contains("low_rank.energy")), "{found:?}");

    let own = folder.path().join("own");
    kept(&small(ModelKind::Cnn), &own);
    let mut tiny = factored(&small(ModelKind::Cnn), &own, 0);
    tiny.low_rank.size = 0.001;
    let found = problems(&tiny);
    assert!(found.len() == 1 && found[0].contains("ranks of 1"), "{found:?}");

    // Factors of another rank, and a whole model.
    let narrow = folder.path().join("narrow");
    kept(&factored(&small(ModelKind::Cnn), &own, 4), &narrow);
    for rank in [0, 5] {
        let (_, outcome) = run(Start::new(factored(&small(ModelKind::Cnn), &narrow, rank)));
        assert!(format!("{outcome:?}").contains("write low_rank.rank = 4"), "{outcome:?}");
    }
}

#[test]
fn what_factoring_took_is_not_counted_with_the_next_run_on_the_same_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut whole = digits(ModelKind::Mlp);
    (whole.run.steps, whole.run.epochs) = (Some(1), None);
    kept(&whole, folder.path());
    let mut found = whole.clone();
    found.weights.path = Some(folder.path().to_owned());
    found.low_rank.energy = 0.6;
    // Of threads that the next run does not have.
    found.run.threads = 1;
    let trainer = Trainer::new(|| {});
    for experiment in [found, whole] {
        trainer.send(Command::Start(Box::new(Start::new(experiment))));
        let ended = || trainer.events().recv_timeout(Duration::from_secs(300)).expect("the trainer goes on");
        let ended = std::iter::repeat_with(ended).find_map(|event| match event {
            Event::Ended { summary, .. } => Some(summary.host),
            _ => None,
        });
        let host = ended.expect("an end");
        assert!(host.measured <= host.predicted && host.measured > Bytes::ZERO, "{host:?}");
    }
}
