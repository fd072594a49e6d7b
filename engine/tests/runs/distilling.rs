//! Runs that a trained model teaches: what that takes, what is learned of it, that a saved run goes on under its teacher, and
//! what cannot teach.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{Checkpointing, DataKind, ModelKind, Precision, PruneKind, UpdateTime, preset},
    hardware::Machine,
    interop,
    memory::Category,
    plan::{Pass, Plan, Resolved},
    train::{Command, Event, Keep, Outcome, Start, StepRecord, Tester, Trainer, Tried},
};

use super::resume::going_on::{OF_ENDED_THREADS, goes_on};

/// A run to its end: its steps, and how it ended.
pub(super) fn run(start: Start) -> (Vec<StepRecord>, Outcome) {
    let trainer = Trainer::new(|| {});
    trainer.send(Command::Start(Box::new(start)));
    let mut steps = Vec::new();
    loop {
        match trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on") {
            Event::Step(record) => steps.push(record),
            Event::Ended { outcome, .. } => return (steps, outcome),
            _ => {}
        }
    }
}

/// Trains a model into `folder`.
pub(super) fn kept(experiment: &Experiment, folder: PathBuf) -> PathBuf {
    let (_, outcome) = run(Start { keep: Keep::in_folder(&folder), ..Start::new(experiment.clone()) });
    assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
    folder
}

pub(super) fn small(kind: ModelKind) -> Experiment {
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

/// The same, taught by what lies at `teacher`.
pub(super) fn taught(experiment: Experiment, teacher: &Path) -> Experiment {
    let mut taught = experiment;
    taught.distil.teacher = Some(teacher.to_owned());
    taught
}

pub(super) fn problems(experiment: &Experiment) -> Vec<String> {
    let found = Resolved::new(experiment, &Machine::nominal()).err().unwrap_or_default();
    found.into_iter().map(|problem| problem.to_string()).collect()
}

#[test]
fn a_taught_run_takes_what_was_predicted_and_goes_on_to_the_last_bit() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        (ModelKind::Cnn, ModelKind::Mlp, Precision::F32, 1, 0, UpdateTime::AfterBackward),
        (ModelKind::Resnet, ModelKind::Cnn, Precision::Bf16Mixed, 2, 0, UpdateTime::AfterBackward),
        (ModelKind::Mlp, ModelKind::Cnn, Precision::F16Mixed, 1, 0, UpdateTime::AfterBackward),
        (ModelKind::Unet, ModelKind::Unet, Precision::F32, 1, 0, UpdateTime::InBackward),
        (ModelKind::Llama, ModelKind::Gpt2, Precision::F32, 2, 7, UpdateTime::AfterBackward),
    ];
    for (at, (teacher, student, precision, accumulation, loss_chunk, update)) in cases.into_iter().enumerate() {
        let mut of_teacher = small(teacher);
        of_teacher.model.width = 32;
        if teacher == ModelKind::Resnet {
            of_teacher.model.layers = 18;
        }
        let teacher = kept(&of_teacher, folder.path().join(at.to_string()));
        let mut experiment = Experiment { precision, loss_chunk, ..taught(small(student), &teacher) };
        (experiment.batch.accumulation, experiment.optimizer.update) = (accumulation, update);
        if student == ModelKind::Gpt2 {
            experiment.checkpointing = Checkpointing::Blocks;
        }
        let run = goes_on(&experiment, 2, &|| format!("{experiment:?}"));
        let (predicted, measured) = (run.plan.peak.live.0 as f64, run.summary.measured.live.0 as f64);
        let context = run.plan.categories_at_peak.get(Category::Context).0 as f64;
        let scratch = (Bytes::kib(64) + OF_ENDED_THREADS).0 as f64;
        assert!(predicted <= measured * 1.01 + context + scratch, "{predicted}, {measured}: {experiment:?}");
    }
}

#[test]
fn the_teachers_weights_and_passes_are_in_the_plan_by_their_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let teacher = kept(&Experiment { precision: Precision::F32, ..small(ModelKind::Cnn) }, folder.path().join("cnn"));
    let alone = Plan::of(&small(ModelKind::Mlp), &Machine::nominal()).expect("a plan");
    let of_teacher = Plan::of(&small(ModelKind::Cnn), &Machine::nominal()).expect("a plan");
    for (precision, bytes) in [(Precision::F32, 4), (Precision::Bf16Mixed, 2)] {
        let experiment = Experiment { precision, ..taught(small(ModelKind::Mlp), &teacher) };
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
        let row = plan.layers.iter().find(|row| row.path == "teacher").expect("a row");
        assert_eq!((row.parameters, row.trained), (of_teacher.parameters, 0));
        // Frozen: no master weights, no gradients and no state.
        assert_eq!(row.weight_bytes, bytes * of_teacher.parameters);
        assert_eq!((row.gradient_bytes, row.optimizer_bytes), (0, 0));
        assert_eq!(plan.layers.iter().filter(|row| row.path.starts_with("teacher")).count(), 1);
        assert_eq!((plan.parameters, plan.trained), (alone.parameters, alone.trained));
        let asked = plan.steady.points.iter().filter(|point| plan.steady.layer(point.layer).starts_with("teacher/"));
        assert!(asked.count() > 5);
        let at_peak = plan.alive_at_peak.iter().filter(|block| block.layer.starts_with("teacher/"));
        assert!(at_peak.map(|block| block.bytes).sum::<u64>() >= row.weight_bytes);
        // The seed decides what is held out.
        assert!(plan.resolved.notes().iter().all(|note| !note.contains("teacher")));
        let mut other = experiment.clone();
        other.run.seed = 2;
        let other = Plan::of(&other, &Machine::nominal()).expect("a plan");
        assert!(other.resolved.notes().iter().any(|note| note.contains("held out other samples")));
        // A test asks no teacher.
        let tested = &plan.timeline(Pass::Evaluate).points;
        assert!(tested.iter().all(|point| !plan.evaluate.layer(point.layer).starts_with("teacher/")));
        let held = plan.layers.iter().map(|row| row.peak_bytes).sum::<u64>();
        let outside = plan.alive_at_peak.iter().filter(|a| a.layer == "run").map(|a| a.bytes).sum::<u64>();
        assert_eq!(held + outside, plan.peak.live.0);
    }
}

#[test]
fn a_model_that_lost_channels_teaches_with_those_that_stayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut whole = small(ModelKind::Cnn);
    let parameters = |teacher: &Path| {
        let plan = Plan::of(&taught(small(ModelKind::Mlp), teacher), &Machine::nominal()).expect("a plan");
        plan.layers.iter().find(|row| row.path == "teacher").expect("a row").parameters
    };
    let of_whole = parameters(&kept(&whole, folder.path().join("whole")));
    (whole.prune.kind, whole.prune.final_sparsity, whole.prune.begin_step) = (PruneKind::Channels, 0.5, 3);
    let thinned = kept(&whole, folder.path().join("thinned"));
    assert!(parameters(&thinned) < of_whole * 7 / 10);
    goes_on(&taught(small(ModelKind::Mlp), &thinned), 2, &|| "a thinned teacher".to_owned());
    // Of a run that ended before its channels went, all are there.
    (whole.prune.begin_step, whole.run.steps) = (0, Some(1));
    assert_eq!(parameters(&kept(&whole, folder.path().join("before"))), of_whole);
    // A thinned run may be taught as well, and loses its channels with its teacher.
    let mut both = taught(small(ModelKind::Cnn), &thinned);
    (both.prune.kind, both.prune.begin_step) = (PruneKind::Channels, 3);
    let plan = Plan::of(&both, &Machine::nominal()).expect("a plan");
    assert!(plan.thinned_after.is_some());
    let (steps, outcome) = run(Start::new(both));
    assert!(steps.len() == 5 && matches!(outcome, Outcome::Finished), "{outcome:?}");
}

#[test]
fn a_preset_teaches_once_it_is_trained_under_the_same_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cnn.toml");
    let of_teacher = Experiment { title: "The larger".to_owned(), ..small(ModelKind::Cnn) };
    fs::write(&file, preset::to_text(&of_teacher)).expect("written");
    let student = Experiment { budget: Bytes::mib(64), ..taught(small(ModelKind::Mlp), &file) };
    let plan = Plan::of(&student, &Machine::nominal()).expect("a plan");
    let first = Experiment::clone(plan.resolved.to_train_first().expect("it is to be trained"));
    assert_eq!(first, Experiment { budget: student.budget, ..preset::open(&file).expect("a preset").experiment });
    let alone = Plan::of(&first, &Machine::nominal()).expect("a plan");
    let note = plan.resolved.notes().into_iter().find(|note| note.contains("trained first")).expect("a note");
    assert!(note.contains("The larger") && note.contains(&alone.peak.live.to_string()), "{note}");
    // The engine begins no run whose teacher is not there.
    let (steps, outcome) = run(Start::new(student.clone()));
    assert!(steps.is_empty() && format!("{outcome:?}").contains("not trained yet"), "{outcome:?}");
    // What was predicted with the preset is what is predicted with the run of it, whose path is as long.
    let trained = Experiment {
        budget: student.budget,
        ..taught(small(ModelKind::Mlp), &kept(&first, folder.path().join("cnn.kept")))
    };
    let beside = Plan::of(&trained, &Machine::nominal()).expect("a plan");
    assert!(beside.resolved.to_train_first().is_none());
    assert_eq!((beside.peak, beside.layers), (plan.peak, plan.layers));

    let refused = |change: fn(&mut Experiment), budget| {
        let mut other = of_teacher.clone();
        change(&mut other);
        fs::write(&file, preset::to_text(&other)).expect("written");
        problems(&Experiment { budget, ..student.clone() })
    };
    // The teacher's run takes more than the student's with it.
    let said = refused(|e| e.batch.micro = 64, Bytes::mib(2));
    assert!(said.len() == 1 && said[0].contains("while it is trained") && said[0].contains("2.00 MiB"), "{said:?}");
    let said = refused(|e| e.data.side = 24, student.budget);
    assert!(said.len() == 1 && said[0].starts_with("distil.teacher"), "{said:?}");
    let said = refused(|e| e.data.classes = 4, student.budget);
    assert!(said.len() == 1 && said[0].contains("would learn 4 classes, and the data have 10"), "{said:?}");
    let said = refused(|e| e.prune.kind = PruneKind::Channels, student.budget);
    assert!(said.len() == 1 && said[0].contains("takes channels out"), "{said:?}");
    let said = problems(&taught(small(ModelKind::Mlp), Path::new("cnn-digits-teacher")));
    assert!(said.len() == 1 && said[0].starts_with("distil.teacher"), "{said:?}");
}

#[test]
fn who_knows_what_the_teacher_knows_has_nothing_to_learn_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for kind in [ModelKind::Mlp, ModelKind::Gpt2] {
        let teacher = kept(&small(kind), folder.path().join(kind.key()));
        let mut same = taught(small(kind), &teacher);
        same.weights.path = Some(teacher.clone());
        (same.distil.weight, same.run.steps) = (1.0, Some(1));
        let (steps, _) = run(Start::new(same.clone()));
        assert!(steps[0].loss.abs() < 1e-5 && steps[0].gradient_norm < 1e-4, "{kind:?}: {:?}", steps[0]);
        // The labels have something to say.
        same.distil.weight = 0.5;
        let (steps, _) = run(Start::new(same.clone()));
        assert!(steps[0].loss > 0.01 && steps[0].gradient_norm > 1e-3, "{kind:?}: {:?}", steps[0]);
        // Where the teacher has no share, the losses are those of the labels.
        same.distil.weight = 0.0;
        let (with, _) = run(Start::new(same.clone()));
        same.distil.teacher = None;
        let (without, _) = run(Start::new(same));
        assert!((with[0].loss - without[0].loss).abs() < 1e-6, "{kind:?}: {:?}, {:?}", with[0], without[0]);
        let norms = with[0].gradient_norm / without[0].gradient_norm;
        assert!((norms - 1.0).abs() < 1e-4, "{kind:?}: {norms}");
    }
}

#[test]
fn a_teacher_of_other_classes_or_none_is_refused_with_what_would_be_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let mut few = small(ModelKind::Cnn);
    few.data.classes = 4;
    let few = kept(&few, at("few"));
    let said = problems(&taught(small(ModelKind::Mlp), &few));
    assert!(said.len() == 1 && said[0].contains("answers with 4 classes") && said[0].contains("have 10"), "{said:?}");

    let said = problems(&taught(small(ModelKind::Mlp), &at("nowhere")));
    assert!(said.len() == 1 && said[0].starts_with("distil.teacher") && said[0].contains("nowhere"), "{said:?}");

    fs::create_dir_all(at("none")).expect("a folder");
    let said = problems(&taught(small(ModelKind::Mlp), &at("none")));
    assert!(said.len() == 1 && said[0].contains("has no weights"), "{said:?}");

    let texts = kept(&small(ModelKind::Gpt2), at("texts"));
    let said = problems(&taught(small(ModelKind::Mlp), &texts));
    assert!(said.len() == 1 && said[0].starts_with("distil.teacher"), "{said:?}");

    let mut adapted = small(ModelKind::Gpt2);
    adapted.lora.rank = 2;
    let adapted = kept(&adapted, at("adapted"));
    let said = problems(&taught(small(ModelKind::Gpt2), &adapted));
    assert!(said.len() == 1 && said[0].contains("--merge"), "{said:?}");

    let mut values = small(ModelKind::Mlp);
    (values.data.kind, values.data.path) = (DataKind::Table, Some("shipped:ships.csv".into()));
    values.data.label = "deadweight_t".to_owned();
    let said = problems(&taught(values, &few));
    assert!(said.len() == 1 && said[0].contains("values"), "{said:?}");

    // Samples of another size are told when the experiment is resolved, not when the run begins.
    let mut larger = small(ModelKind::Cnn);
    larger.data.side = 24;
    let said = problems(&taught(larger, &kept(&small(ModelKind::Cnn), at("smaller"))));
    let sizes = "learned from images of 16 x 16 x 3, and these data have images of 24 x 24 x 3";
    assert!(said.len() == 1 && said[0].contains(sizes), "{said:?}");

    // Without a description of the model, its weights are of no use.
    let bare = at("bare");
    fs::create_dir_all(&bare).expect("a folder");
    let tensors = candle_core::safetensors::load(few.join("last.safetensors"), &candle_core::Device::Cpu);
    candle_core::safetensors::save(&tensors.expect("tensors"), bare.join("model.safetensors")).expect("written");
    let said = problems(&taught(small(ModelKind::Mlp), &bare));
    assert!(said.len() == 1 && said[0].contains("says nothing about the model"), "{said:?}");
}

#[test]
fn a_published_model_teaches_what_the_run_that_was_exported_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let of_teacher = small(ModelKind::Gpt2);
    let own = kept(&of_teacher, folder.path().join("own"));
    let info = *Resolved::new(&of_teacher, &Machine::nominal()).expect("possible").info();
    let out = folder.path().join("out");
    fs::create_dir_all(&out).expect("a folder");
    interop::export(&own.join("last.safetensors"), &out, &of_teacher, &info, false).expect("exported");
    let steps = [own, out].map(|teacher| run(Start::new(taught(small(ModelKind::Llama), &teacher))).0);
    assert_eq!(steps[0].len(), 5);
    for (own, published) in steps[0].iter().zip(&steps[1]) {
        assert_eq!((own.loss, own.gradient_norm), (published.loss, published.gradient_norm), "step {}", own.step);
    }
}

#[test]
fn a_run_does_not_go_on_under_another_teacher_and_is_tried_without_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let teacher = kept(&small(ModelKind::Cnn), folder.path().join("teacher"));
    let student = folder.path().join("student");
    let experiment = taught(small(ModelKind::Mlp), &teacher);
    kept(&experiment, student.clone());
    let longer = || {
        let mut longer = experiment.clone();
        longer.run.steps = Some(7);
        let resume = Some(student.join("last.safetensors"));
        run(Start { keep: Keep::in_folder(&student), resume, is_same_run: true, ..Start::new(longer) })
    };
    // Another model of the same architecture lies there now.
    let mut other = small(ModelKind::Cnn);
    other.run.seed = 9;
    fs::remove_dir_all(&teacher).expect("ours");
    kept(&other, teacher.clone());
    let (steps, outcome) = longer();
    assert!(steps.is_empty() && format!("{outcome:?}").contains("the teacher has changed"), "{outcome:?}");
    fs::remove_dir_all(&teacher).expect("ours");
    let (steps, outcome) = longer();
    assert!(steps.is_empty() && format!("{outcome:?}").contains("distil.teacher"), "{outcome:?}");
    // To try what was learned needs no teacher.
    let tried = Tried { experiment: experiment.clone(), checkpoint: Some(student.clone()) };
    let evaluation = Tester::new().evaluate(&tried).expect("the model alone");
    assert!(evaluation.took.measured <= evaluation.took.predicted);
    kept(&small(ModelKind::Cnn), teacher);
    let (steps, outcome) = longer();
    assert!(steps.len() == 2 && matches!(outcome, Outcome::Finished), "{outcome:?}");
}
