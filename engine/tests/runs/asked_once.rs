//! Runs whose teacher is asked once, before the first step: what that takes, that the same is learned, and where it cannot be.

use std::time::Duration;

use plimsoll_engine::{
    Bytes, Experiment,
    error::LimitedBy,
    experiment::{
        Answers, CachePlace, Checkpointing, DataCache, DataKind, Distil, ModelKind, Placement, Precision, UpdateTime,
    },
    hardware::Machine,
    memory::Category,
    plan::{Change, Limit, Pass, Plan, Verdict, advise, op_secs},
    train::{Command, Event, Outcome, Start, Summary, Trainer},
};

use super::{
    distilling::{kept, problems, run, small, taught},
    resume::going_on::{self, OF_ENDED_THREADS, Run, goes_on},
};

/// The same, with a teacher that is asked once.
fn once(experiment: &Experiment) -> Experiment {
    let mut once = experiment.clone();
    once.distil.answers = Answers::Cached;
    once
}

fn losses(experiment: &Experiment) -> Vec<[u64; 2]> {
    going_on::run(Start::new(experiment.clone()), None).losses()
}

/// Whether two runs learned the same but for the last places: a product may sum a row in another order by where it stands in its
/// micro-batch, and there a sample stands elsewhere when the teacher is asked than when it is trained on.
fn are_close(once: &[[u64; 2]], live: &[[u64; 2]]) -> bool {
    let is_close = |(once, live): (&u64, &u64)| (f64::from_bits(*once) / f64::from_bits(*live) - 1.0).abs() < 1e-3;
    once.len() == live.len() && once.iter().flatten().zip(live.iter().flatten()).all(is_close)
}

/// What is predicted is never below, and above by no more than a hundredth and what is stated for bookkeeping.
fn is_close(run: &Run, case: &Experiment) {
    let (predicted, measured) = (run.plan.peak.live.0 as f64, run.summary.measured.live.0 as f64);
    let context = run.plan.categories_at_peak.get(Category::Context).0 as f64;
    let scratch = (Bytes::kib(64) + OF_ENDED_THREADS).0 as f64;
    assert!(measured <= predicted, "{predicted}, {measured}: {case:?}");
    assert!(predicted <= measured * 1.01 + context + scratch, "{predicted}, {measured}: {case:?}");
    let host = run.summary.host;
    assert!(host.measured <= host.predicted, "{host:?}: {case:?}");
    // Threads and their queues are bounded, not counted.
    let bounded = run.plan.host.workers + Bytes::kib(64);
    assert!(host.predicted.0 <= host.measured.0 + host.measured.0 / 100 + bounded.0, "{host:?}: {case:?}");
    assert!(host.measured_disk <= host.predicted_disk, "{host:?}: {case:?}");
}

#[test]
fn what_it_takes_is_predicted_and_the_same_is_learned() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        (ModelKind::Cnn, ModelKind::Mlp, Precision::F32, 1, 0, Placement::Host, CachePlace::Ram),
        (ModelKind::Resnet, ModelKind::Cnn, Precision::Bf16Mixed, 2, 0, Placement::Streamed, CachePlace::Disk),
        (ModelKind::Mlp, ModelKind::Cnn, Precision::F16Mixed, 1, 0, Placement::Device, CachePlace::Ram),
        (ModelKind::Unet, ModelKind::Unet, Precision::F32, 1, 0, Placement::Host, CachePlace::Disk),
        (ModelKind::Llama, ModelKind::Gpt2, Precision::F32, 2, 24, Placement::Host, CachePlace::Ram),
    ];
    for (at, (teacher, student, precision, accumulation, loss_chunk, placement, cache_in)) in
        cases.into_iter().enumerate()
    {
        let mut of_teacher = small(teacher);
        of_teacher.model.width = 32;
        if teacher == ModelKind::Resnet {
            of_teacher.model.layers = 18;
        }
        let teacher = kept(&of_teacher, folder.path().join(at.to_string()));
        let mut live = Experiment { precision, loss_chunk, ..taught(small(student), &teacher) };
        (live.batch.accumulation, live.data.samples) = (accumulation, 100);
        (live.data.placement, live.data.cache_in) = (placement, cache_in);
        live.data.cache_folder = (cache_in == CachePlace::Disk).then(|| folder.path().to_owned());
        if student == ModelKind::Unet {
            live.optimizer.update = UpdateTime::InBackward;
        }
        if student == ModelKind::Gpt2 {
            live.checkpointing = Checkpointing::Blocks;
        }
        let asked = once(&live);
        let run = goes_on(&asked, 2, &|| format!("{asked:?}"));
        is_close(&run, &asked);
        assert!(are_close(&run.losses(), &losses(&live)), "{asked:?}");
        // Where a sample cannot stand elsewhere, it is the same to the last bit.
        let mut alone = live.clone();
        (alone.batch.micro, alone.run.steps) = (1, Some(2));
        assert_eq!(losses(&once(&alone)), losses(&alone), "{alone:?}");
        let plan = Plan::of(&live, &Machine::nominal()).expect("a plan");
        assert!(run.plan.peak.live < plan.peak.live, "{} and {}: {asked:?}", run.plan.peak.live, plan.peak.live);
        assert!(run.plan.steady.peak() < plan.steady.peak(), "{asked:?}");
    }
}

#[test]
fn micro_batches_and_chunks_that_cut_samples_change_no_more_than_the_last_places() {
    let folder = tempfile::tempdir().expect("a folder");
    let teacher = kept(&small(ModelKind::Llama), folder.path().join("teacher"));
    for (micro, loss_chunk) in [(4, 7), (5, 0), (7, 24)] {
        let mut live = Experiment { loss_chunk, ..taught(small(ModelKind::Gpt2), &teacher) };
        live.batch.micro = micro;
        let [once, live] = [once(&live), live].map(|experiment| losses(&experiment));
        assert!(are_close(&once, &live), "{once:?} and {live:?}");
    }
}

#[test]
fn a_teacher_that_is_larger_than_all_the_rest_is_the_peak_and_is_refused_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut large = small(ModelKind::Mlp);
    large.model.width = 700;
    let teacher = kept(&large, folder.path().join("teacher"));
    let asked = once(&taught(small(ModelKind::Mlp), &teacher));
    let run = goes_on(&asked, 2, &|| format!("{asked:?}"));
    is_close(&run, &asked);
    let plan = &*run.plan;
    assert_eq!(plan.peak_pass, Pass::Teach);
    let steps = plan.steady.peak().max(plan.first.peak());
    assert!(steps < Bytes(plan.peak.live.0 / 2), "{steps} in a step, {} in all", plan.peak.live);
    assert_eq!(plan.passes().next(), Some(Pass::Teach));
    let is_teachers = |pass: Pass| {
        let timeline = plan.timeline(pass);
        timeline.points.iter().filter(|point| timeline.layer(point.layer).starts_with("teacher/")).count()
    };
    assert!(is_teachers(Pass::Teach) > 5 && [Pass::First, Pass::Steady, Pass::Save].map(is_teachers) == [0; 3]);
    let row = plan.layers.iter().find(|row| row.path == "teacher").expect("a row");
    assert!(row.parameters > 700 * 700 && row.weight_bytes == 0 && row.peak_bytes >= 4 * row.parameters);
    let held = plan.layers.iter().map(|row| row.peak_bytes).sum::<u64>();
    let outside = plan.alive_at_peak.iter().filter(|a| a.layer == "run").map(|a| a.bytes).sum::<u64>();
    assert_eq!(held + outside, plan.peak.live.0);
    let secs: f64 = op_secs(plan, Pass::Teach).expect("seconds").iter().sum();
    // One micro-batch of 60.
    assert!((secs * 60.0 / plan.teach_secs - 1.0).abs() < 1e-3, "{secs}, {}", plan.teach_secs);

    // To the byte at the line, it runs; a byte below, it is refused, and where it runs anyway, it ends at the line.
    let within = Experiment { budget: plan.peak.live, ..asked.clone() };
    assert!(matches!(self::run(Start::new(within)).1, Outcome::Finished));
    let below = Experiment { budget: plan.peak.live - Bytes(1), ..asked.clone() };
    let predicted = Plan::of(&below, &Machine::nominal()).expect("a plan");
    assert!(matches!(predicted.verdict(), Verdict::OverBudget { .. }));
    let far_below = Experiment { budget: steps + Bytes::kib(200), ..asked };
    for (experiment, anyway) in [(below, false), (far_below, true)] {
        let (steps, outcome) = self::run(Start { anyway, ..Start::new(experiment) });
        let Outcome::OverBudget(refusal) = outcome else { panic!("{outcome:?}") };
        assert!(refusal.error.layer.starts_with("teacher/"), "{}", refusal.error);
        assert!(steps.is_empty() && refusal.error.limited_by == LimitedBy::Budget);
    }
}

#[test]
fn where_a_run_does_not_fit_with_its_teacher_it_is_offered_to_ask_it_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut large = small(ModelKind::Cnn);
    large.model.width = 24;
    let teacher = kept(&large, folder.path().join("teacher"));
    let mut live = taught(small(ModelKind::Cnn), &teacher);
    let [with, without] = [&live, &once(&live)].map(|e| Plan::of(e, &Machine::nominal()).expect("a plan").peak.live);
    assert!(without < with, "{without} and {with}");
    live.budget = Bytes((with.0 + without.0) / 2);
    let plan = Plan::of(&live, &Machine::nominal()).expect("a plan");
    let offers = advise(&plan, 20, Limit::NONE).expect("offers");
    let offer = offers.iter().find(|advice| advice.changes == [Change::Answers(Answers::Cached)]).expect("offered");
    assert!(offer.peak == without && offer.time_ratio < 1.0, "{offer:?}");
    // Nothing of it is offered where nothing can be kept.
    live.data.flip = true;
    let plan = Plan::of(&live, &Machine::nominal()).expect("a plan");
    let offers = advise(&plan, 20, Limit::NONE).expect("offers");
    assert!(offers.iter().all(|advice| advice.experiment.distil.answers == Answers::Live));
}

#[test]
fn samples_that_are_others_in_every_epoch_are_refused_with_what_would_be_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let teacher = kept(&small(ModelKind::Cnn), folder.path().join("images"));
    let asked = once(&taught(small(ModelKind::Mlp), &teacher));
    let refused = |experiment: &Experiment, change: fn(&mut Experiment)| {
        let mut other = experiment.clone();
        change(&mut other);
        let said: Vec<String> = problems(&other).into_iter().filter(|p| p.starts_with("distil.answers")).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        // In every step it is asked about any sample.
        other.distil.answers = Answers::Live;
        assert!(problems(&other).iter().all(|problem| !problem.starts_with("distil.answers")));
        said[0].clone()
    };
    assert!(problems(&asked).is_empty());
    for change in [
        (|e| e.data.flip = true) as fn(&mut Experiment),
        |e| e.data.crop_padding = 2,
        |e| e.data.color_jitter = 0.2,
        |e| {
            (e.data.placement, e.data.flip) = (Placement::Streamed, true);
            e.data.cache = DataCache::Augmented(2);
        },
    ] {
        assert!(refused(&asked, change).contains("data.flip = false"));
    }

    let file = folder.path().join("lines.jsonl");
    let lines: String = (0..60).map(|n| format!("{{\"text\": \"line number {n} of this file\"}}\n")).collect();
    std::fs::write(&file, &lines).expect("written");
    let mut texts = small(ModelKind::Gpt2);
    (texts.data.kind, texts.data.path) = (DataKind::Jsonl, Some(file));
    let teacher = kept(&texts, folder.path().join("texts"));
    let asked = once(&taught(texts, &teacher));
    assert!(refused(&asked, |e| e.data.packing = true).contains("data.packing = false"));
    assert!(refused(&asked, |e| e.data.kind = DataKind::Text).contains("data.kind = \"jsonl\""));
    // Lines that stay as they are, read again in every epoch.
    let mut streamed = asked;
    streamed.data.placement = Placement::Streamed;
    let mut live = streamed.clone();
    live.distil.answers = Answers::Live;
    assert!(are_close(&losses(&streamed), &losses(&live)));
}

#[test]
fn what_is_kept_is_held_against_the_budget_of_the_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let teacher = kept(&small(ModelKind::Unet), folder.path().join("teacher"));
    let mut asked = once(&taught(small(ModelKind::Unet), &teacher));
    let plan = |experiment: &Experiment| Plan::of(experiment, &Machine::nominal()).expect("a plan");
    let (all, info) = (plan(&asked).host, *plan(&asked).resolved.info());
    assert_eq!(all.answers.0, (info.train * info.labels_per_sample * info.classes * 4) as u64);
    asked.data.host_budget = all.total() - Bytes(1);
    let over = plan(&asked);
    assert_eq!(over.verdict(), Verdict::OverHostBudget { by: Bytes(1) });
    let (steps, outcome) = run(Start::new(asked.clone()));
    assert!(steps.is_empty() && format!("{outcome:?}").contains("data.host_budget"), "{outcome:?}");
    asked.data.host_budget = all.total() - Bytes(all.answers.0 / 2);
    let offers: Vec<String> = plan(&asked).host_offers.iter().flat_map(|offer| offer.changes.clone()).collect();
    assert_eq!(offers, ["data.cache_in=\"disk\"", "distil.answers=\"live\""]);
    // Below what either leaves, it takes two changes.
    let live = Experiment { distil: Distil { answers: Answers::Live, ..asked.distil.clone() }, ..asked.clone() };
    let mut pressed = asked.clone();
    pressed.data.host_budget = plan(&live).host.total() - Bytes(1);
    let offers = plan(&pressed).host_offers;
    let is_both = |changes: &[String]| changes.len() == 2 && changes.iter().any(|c| c == "distil.answers=\"live\"");
    assert!(offers.iter().any(|offer| is_both(&offer.changes)), "{offers:?}");
    assert!(offers.iter().all(|offer| plan(&offer.experiment).verdict().fits()));
    asked.data.cache_in = CachePlace::Disk;
    let on_disk = plan(&asked).host;
    assert!(on_disk.answers == Bytes::ZERO && on_disk.disk >= all.answers);
    assert!(matches!(run(Start::new(asked)).1, Outcome::Finished));
}

#[test]
fn it_tells_how_far_it_has_come_and_can_be_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let teacher = kept(&small(ModelKind::Cnn), folder.path().join("teacher"));
    let asked = once(&taught(small(ModelKind::Mlp), &teacher));
    let followed = |stop_at: Option<usize>| -> (Vec<usize>, usize, Outcome, Summary) {
        let trainer = Trainer::new(|| {});
        trainer.send(Command::Start(Box::new(Start::new(asked.clone()))));
        let (mut told, mut steps) = (Vec::new(), 0);
        loop {
            match trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on") {
                Event::Teaching { done, of } => {
                    assert_eq!(of, 240);
                    told.push(done);
                    if stop_at == Some(told.len()) {
                        trainer.send(Command::Stop);
                    }
                }
                Event::Step(_) => steps += 1,
                Event::Ended { outcome, summary, .. } => return (told, steps, outcome, *summary),
                _ => {}
            }
        }
    };
    let (told, steps, outcome, _) = followed(None);
    assert!(told.is_sorted() && (told.first(), told.last()) == (Some(&0), Some(&240)), "{told:?}");
    assert!((20..=102).contains(&told.len()) && steps == 5 && matches!(outcome, Outcome::Finished), "{outcome:?}");
    let (_, steps, outcome, summary) = followed(Some(1));
    assert!(steps == 0 && matches!(outcome, Outcome::Stopped), "{outcome:?}");
    assert_eq!((summary.steps, summary.left_over), (0, Bytes::ZERO));
}
