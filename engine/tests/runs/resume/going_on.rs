//! A drawn experiment that is trained in one go, and in two with a checkpoint between them: what must be the same.
//!
//! `PLIMSOLL_DRAWN=N` draws another number of experiments, `PLIMSOLL_SEED=N` those of a seed.

use std::{fs, path::Path, sync::Arc, time::Duration};

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{DataCache, DataKind, NormaliseWhen, Placement},
    memory::Category,
    plan::{Pass, Plan},
    selftest::{
        draw::fresh_seed,
        experiments::{Drawn, Experiments},
    },
    train::{Command, Compressed, Event, Keep, Outcome, SaveReason, Start, Summary, Trainer},
};

const STEPS: u64 = 5;
const LONGEST: Duration = Duration::from_secs(300);
/// What the threads of runs that ended in other tests leave, which any thread frees later, a metered one too: 4.4 KiB a thread
/// (`Local` and `Bag` of crossbeam-epoch).
pub(crate) const OF_ENDED_THREADS: Bytes = Bytes::kib(64);

/// The same model without how long its tests took, which differs each time.
pub(crate) fn untimed(compressed: Compressed) -> Compressed {
    Compressed { test_secs: 0.0, trained_test_secs: None, ..compressed }
}

/// The results of a run.
pub(crate) struct Run {
    pub(crate) plan: Arc<Plan>,
    /// Step, loss, norm, scale, rate and whether it was skipped, bit by bit.
    steps: Vec<(u64, [u64; 4], bool)>,
    /// Loss and accuracy of each test, bit by bit.
    tests: Vec<(u64, [u64; 2])>,
    /// Bytes that were measured while a checkpoint was written.
    saving: Vec<Bytes>,
    pub(crate) summary: Summary,
}

impl Run {
    /// Losses and norms of gradients, step by step, bit by bit.
    pub(crate) fn losses(&self) -> Vec<[u64; 2]> {
        self.steps.iter().map(|(_, [loss, norm, ..], _)| [*loss, *norm]).collect()
    }
}

/// Runs to the end, or through `stop_after` steps one by one.
pub(crate) fn run(start: Start, stop_after: Option<u64>) -> Run {
    let trainer = Trainer::new(|| {});
    let start = Start { paused: stop_after.is_some(), ..start };
    trainer.send(Command::Start(Box::new(start)));
    if stop_after.is_some() {
        trainer.send(Command::Step);
    }
    let (mut plan, mut steps, mut tests, mut saving) = (None, Vec::new(), Vec::new(), Vec::new());
    loop {
        match trainer.events().recv_timeout(LONGEST).expect("the trainer goes on") {
            Event::Started { plan: started, .. } => plan = Some(started),
            Event::Step(record) => {
                let numbers = [record.loss, record.gradient_norm, record.loss_scale, record.learning_rate];
                steps.push((record.step, numbers.map(f64::to_bits), record.skipped));
                match stop_after {
                    Some(last) if steps.len() as u64 == last => trainer.send(Command::Stop),
                    Some(_) => trainer.send(Command::Step),
                    None => {}
                }
            }
            Event::Evaluated { step, loss, accuracy, .. } => tests.push((step, [loss.to_bits(), accuracy.to_bits()])),
            Event::Saved { live, bytes, path, why, .. } => {
                assert_eq!(fs::metadata(path).expect("it is there").len(), bytes.0);
                assert!(matches!(why, SaveReason::Stop | SaveReason::End), "{why:?}");
                saving.push(live);
            }
            Event::Ended { outcome, summary, .. } => {
                match (&outcome, stop_after) {
                    (Outcome::Finished, None) | (Outcome::Stopped, Some(_)) => {}
                    _ => panic!("{outcome:?}"),
                }
                return Run { plan: plan.expect("it began"), steps, tests, saving, summary: *summary };
            }
            _ => {}
        }
    }
}

/// The elements of every tensor of a checkpoint.
fn elements(folder: &Path) -> Vec<u8> {
    let bytes = fs::read(folder.join("last.safetensors")).expect("a checkpoint");
    let header = u64::from_le_bytes(*bytes.first_chunk().expect("a header")) as usize;
    bytes[8 + header..].to_vec()
}

/// What is predicted is never below, and above by no more than a hundredth and what is stated for bookkeeping.
fn holds(run: &Run, case: &dyn Fn() -> String) {
    let measured = run.summary.measured;
    assert!(measured.live <= run.plan.peak.live, "{}: {measured:?}, {:?}", case(), run.plan.peak);
    assert!(measured.reserved <= run.plan.peak.reserved, "{}: {measured:?}, {:?}", case(), run.plan.peak);
    assert_eq!(run.summary.left_over, Bytes::ZERO, "{}", case());
    let save = run.plan.timeline(Pass::Save);
    let highest = &save.points[save.peak_index().expect("a checkpoint has tensors")];
    let context = highest.categories.get(Category::Context);
    // What corrects narrow weights is allocated by the first update, as the optimizer's state is.
    let by_updates = [Category::OptimizerState, Category::MasterWeights].map(|part| highest.categories.get(part));
    let by_updates = by_updates[0] + by_updates[1];
    let beside = context.0 as f64 + OF_ENDED_THREADS.0 as f64;
    // Predicted is the highest checkpoint of a run. One that is written after channels are gone is smaller, unless the run has
    // gone on from there.
    let goes_on_thinned = run.plan.resolved.resumed().is_some_and(|resumed| resumed.counters.is_thinned);
    let is_highest = goes_on_thinned || run.plan.thinned_after.is_none_or(|after| run.summary.steps < after);
    for live in &run.saving {
        assert!(*live <= highest.live, "{}: {live} while saving, {} predicted", case(), highest.live);
        // Where f16 skipped every update, neither is there.
        let without = if run.summary.skipped_steps > 0 { by_updates } else { Bytes::ZERO };
        let most = live.0 as f64 * 1.01 + beside + without.0 as f64;
        let is_close = !is_highest || highest.live.0 as f64 <= most;
        assert!(is_close, "{}: {live} while saving, {} predicted", case(), highest.live);
    }
}

/// The highest bytes of tensors in some passes. The bookkeeping differs by some kilobytes in a run that has read a checkpoint.
fn tensors(plan: &Plan, passes: &[Pass]) -> Option<Bytes> {
    let points = passes.iter().flat_map(|pass| &plan.timeline(*pass).points);
    points.map(|point| point.live - point.categories.get(Category::Context)).max()
}

fn with_augmentation(drawn: &Drawn) -> Experiment {
    let mut experiment = drawn.experiment.clone();
    // Small, for every step of each of them is made twice.
    experiment.batch.micro = experiment.batch.micro.min(6);
    experiment.data.samples = 300;
    experiment.run.steps = Some(STEPS);
    experiment.run.evaluate_every = 1 + drawn.also(5, 3) as u64;
    experiment.optimizer.warmup_steps = drawn.also(6, 3) as u64;
    experiment.budget = Bytes::gib(4);
    let is_drawn_over = matches!(experiment.data.kind, DataKind::Digits | DataKind::Shapes | DataKind::Masks);
    if is_drawn_over {
        // Of a few different sequences, so small a share is too few to test on.
        experiment.data.test_fraction = 0.02;
    }
    let can_vary = experiment.data.placement != Placement::Device && !experiment.distil.is_asked_before();
    if is_drawn_over && can_vary {
        (experiment.data.flip, experiment.data.crop_padding) = (drawn.also(7, 2) == 0, drawn.also(8, 3));
        if experiment.data.kind != DataKind::Masks {
            experiment.data.color_jitter = [0.0, 0.2][drawn.also(9, 2)];
        }
    }
    let data = &mut experiment.data;
    let is_varied = data.flip || data.crop_padding > 0 || data.color_jitter > 0.0;
    if matches!(data.cache, DataCache::Augmented(_)) && !is_varied {
        // Variants of what does not vary are refused.
        data.cache = DataCache::Decoded;
    }
    if data.color_jitter > 0.0 && data.cache.copies().is_none() {
        // So are colours that change after pixels were normalised.
        data.normalise_when = NormaliseWhen::OnTheFly;
    }
    experiment
}

/// Trains `count` drawn experiments on `device`, each in one go, and in two with a checkpoint between them.
pub(crate) fn is_the_run_that_was_never_stopped(device: &str, count: usize) {
    let count = std::env::var("PLIMSOLL_DRAWN").ok().and_then(|n| n.parse().ok()).unwrap_or(count);
    let seed = fresh_seed();
    let text = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/src/backend/ops/norm.rs"));
    let folder = tempfile::tempdir().expect("a folder");
    for (i, drawn) in Experiments::new(seed, device, Some(text)).take(count).enumerate() {
        let drawn = drawn.with_weights_in(folder.path()).expect("a disk with room");
        let experiment = with_augmentation(&drawn);
        let case = || format!("seed {seed}, experiment {i}: {experiment:?}");
        goes_on(&experiment, 1 + drawn.also(4, STEPS as usize - 1) as u64, &case);
    }
}

/// Trains `experiment` in one go, and in two with a checkpoint after `stop_after` steps; gives the run in one go.
pub(crate) fn goes_on(experiment: &Experiment, stop_after: u64, case: &dyn Fn() -> String) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    let start = |folder: &Path| Start { keep: Keep::in_folder(folder), ..Start::new(experiment.clone()) };
    let all = run(start(&whole), None);
    let begun = run(start(&parts), Some(stop_after));
    let resume = Some(parts.join("last.safetensors"));
    let rest = run(Start { resume, ..start(&parts) }, None);

    let steps: Vec<_> = begun.steps.iter().chain(&rest.steps).copied().collect();
    assert_eq!(steps, all.steps, "{}", case());
    let tests: Vec<_> = begun.tests.iter().chain(&rest.tests).copied().collect();
    assert_eq!(tests, all.tests, "{}", case());
    assert!(elements(&parts) == elements(&whole), "other weights: {}", case());
    let results = |run: &Run| {
        let Summary { steps, train_loss, test_accuracy, best_test_accuracy, skipped_steps, compressed, .. } =
            run.summary;
        (steps, train_loss, test_accuracy, best_test_accuracy, skipped_steps, compressed.map(untimed))
    };
    // A loss that is not a number is equal to itself when it is written.
    assert_eq!(format!("{:?}", results(&rest)), format!("{:?}", results(&all)), "{}", case());
    // What goes on without its channels has been pruned from its first step.
    let is_thinned = rest.plan.resolved.resumed().is_some_and(|resumed| resumed.counters.is_thinned);
    let later = if is_thinned { Pass::Pruned } else { Pass::Steady };
    assert_eq!(tensors(&rest.plan, &[Pass::Steady]), tensors(&all.plan, &[later]), "{}", case());
    for run in [&all, &begun, &rest] {
        holds(run, case);
    }
    if rest.steps.len() > 1 && all.summary.skipped_steps == 0 && !is_thinned {
        assert_eq!(tensors(&rest.plan, &Pass::ALL), tensors(&all.plan, &Pass::ALL), "{}", case());
    }
    all
}
