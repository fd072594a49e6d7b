//! A model that is tried: its figures are those of the run, its memory is known beforehand, and what cannot be is refused.

use std::{ops::ControlFlow, path::Path, time::Duration};

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{DataKind, EvaluationBatch, ModelKind, Normalise, Placement, Precision, PruneKind},
    hardware::Machine,
    interop::export,
    plan::Resolved,
    train::{
        Checkpoint, Command, Evaluation, Event, Keep, Outcome, Sampling, Shown, Start, Tester, Trainer, Tried,
        WeightsFrom,
    },
};

/// Small, of each way to evaluate: classes, masks, next tokens whose loss comes in chunks.
fn small(kind: ModelKind) -> Experiment {
    let mut e = Experiment { budget: Bytes::mib(512), ..Experiment::default() };
    e.model.kind = kind;
    (e.model.width, e.model.depth, e.model.dense, e.model.heads, e.model.hidden) = (8, 2, 8, 2, 16);
    (e.data.kind, e.data.side, e.data.samples, e.data.length, e.data.classes) = (DataKind::Shapes, 16, 60, 6, 4);
    match kind {
        ModelKind::Unet => e.data.kind = DataKind::Masks,
        kind if kind.is_decoder() => {
            (e.data.kind, e.loss_chunk, e.model.dropout, e.data.vocabulary) = (DataKind::Sort, 5, 0.1, 10);
        }
        _ => {}
    }
    e.model.kv_heads = 2;
    (e.batch.micro, e.run.steps, e.run.evaluate_every, e.run.save_best) = (8, Some(3), 3, false);
    e
}

/// Trains in `folder`; loss and accuracy of the last test.
fn trained(trainer: &Trainer, experiment: &Experiment, folder: &Path) -> (f64, f64) {
    let start = Start { keep: Keep::in_folder(folder), ..Start::new(experiment.clone()) };
    trainer.send(Command::Start(Box::new(start)));
    let mut test = None;
    loop {
        match trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on") {
            Event::Evaluated { loss, accuracy, .. } => test = Some((loss, accuracy)),
            Event::Ended { outcome: Outcome::Finished, .. } => return test.expect("it was tested"),
            Event::Ended { outcome, .. } => panic!("{outcome:?}"),
            _ => {}
        }
    }
}

fn of(experiment: &Experiment, folder: &Path) -> Tried {
    let checkpoint = Some(Checkpoint::at(folder).expect("it was saved"));
    Tried { experiment: experiment.clone(), checkpoint }
}

/// The prediction bounds the measurement, and by no more than a hundredth and the stated bookkeeping.
#[track_caller]
fn is_predicted(took: plimsoll_engine::train::Took) {
    let [predicted, measured] = [took.predicted.0, took.measured.0];
    assert!(measured <= predicted, "{measured} measured, {predicted} predicted");
    // The constant for what a dry run does not show, what structures of another moment hold, and the scratch of threads that
    // came too late for a piece of a kernel.
    let most = measured + measured / 100 + Bytes::kib(384).0;
    assert!(predicted <= most, "{predicted} predicted, {measured} measured");
}

#[test]
fn a_checkpoint_has_the_figures_that_its_run_reported_to_the_last_bit() {
    let (trainer, mut tester) = (Trainer::new(|| {}), Tester::new());
    for kind in [ModelKind::Cnn, ModelKind::Resnet, ModelKind::Unet, ModelKind::Gpt2, ModelKind::Llama] {
        for (precision, placement) in [(Precision::F32, Placement::Host), (Precision::Bf16Mixed, Placement::Device)] {
            let mut experiment = small(kind);
            (experiment.precision, experiment.data.placement) = (precision, placement);
            let folder = tempfile::tempdir().expect("a folder");
            let reported = trained(&trainer, &experiment, folder.path());
            let found = tester.evaluate(&of(&experiment, folder.path())).expect("it can be tried");
            let bits = |(loss, accuracy): (f64, f64)| (loss.to_bits(), accuracy.to_bits());
            assert_eq!(bits((found.loss, found.accuracy)), bits(reported), "{kind:?}, {precision:?}");
            assert!(matches!(found.weights, WeightsFrom::Checkpoint { step: 3, .. }), "{:?}", found.weights);
            is_counted(&found);
            is_predicted(found.took);
        }
    }
}

#[test]
fn rows_of_a_table_are_tried_as_they_stand_in_it() {
    let (trainer, mut tester) = (Trainer::new(|| {}), Tester::new());
    for label in ["type", "deadweight_t"] {
        let mut experiment = small(ModelKind::Mlp);
        experiment.data.kind = DataKind::Table;
        (experiment.data.path, experiment.data.label) = (Some("shipped:ships.csv".into()), label.to_owned());
        let folder = tempfile::tempdir().expect("a folder");
        let reported = trained(&trainer, &experiment, folder.path());
        let tried = of(&experiment, folder.path());
        let found = tester.evaluate(&tried).expect("it can be tried");
        assert_eq!((found.loss, found.accuracy), reported, "{label}");
        is_predicted(found.took);
        let reply = tester.show(&tried, Shown::Sample(0)).expect("a row");
        let row = reply.row.expect("a row");
        assert_eq!((row.columns.len(), &*row.label.0, reply.picture), (9, label, None));
        is_predicted(reply.took);
        if label == "type" {
            is_counted(&found);
            let sample = &found.answers.expect("classes").samples[0];
            assert_eq!(reply.class_names[sample.label as usize], row.label.1);
            assert_eq!((reply.shares.len(), reply.value), (5, None));
            assert!((reply.shares[sample.class() as usize] - sample.confidence).abs() < 1e-5);
        } else {
            let errors = found.errors.expect("errors of values");
            assert!(errors.rmse >= errors.mae && errors.r2 == found.accuracy && found.answers.is_none(), "{errors:?}");
            assert!(reply.value.is_some_and(f64::is_finite) && row.value.is_some() && reply.shares.is_empty());
        }
        assert!(tester.show(&tried, Shown::Sample(180)).is_err());
    }
}

/// What is counted by class and by sample is what the loss has counted.
#[track_caller]
fn is_counted(evaluation: &Evaluation) {
    let Some(answers) = &evaluation.answers else {
        assert_eq!(evaluation.perplexity(), Some(evaluation.loss.exp()));
        return;
    };
    assert_eq!(answers.samples.len(), evaluation.samples);
    let sum = |of: fn(&plimsoll_engine::train::OfClass) -> u64| answers.classes.iter().map(of).sum::<u64>();
    let (labels, right) = (sum(|class| class.labels), sum(|class| class.right));
    assert_eq!((right as f64 / labels as f64).to_bits(), evaluation.accuracy.to_bits());
    let table = answers.confusion.as_ref().expect("few classes");
    let classes = answers.classes.len();
    assert_eq!(table.iter().sum::<u64>(), labels);
    for (class, of_class) in answers.classes.iter().enumerate() {
        assert_eq!(table[class * classes..][..classes].iter().sum::<u64>(), of_class.labels);
        assert_eq!((answers.confused(class, class), evaluation.class_names.len()), (of_class.right, classes));
    }
}

#[test]
fn a_sample_is_answered_alone_as_among_others() {
    let (trainer, mut tester) = (Trainer::new(|| {}), Tester::new());
    for kind in [ModelKind::Cnn, ModelKind::Unet] {
        let experiment = small(kind);
        let folder = tempfile::tempdir().expect("a folder");
        trained(&trainer, &experiment, folder.path());
        let tried = of(&experiment, folder.path());
        let all = tester.evaluate(&tried).expect("tried").answers.expect("images");
        for (index, answer) in all.samples.iter().enumerate().take(4) {
            let reply = tester.show(&tried, Shown::Sample(index)).expect("tried");
            is_predicted(reply.took);
            assert!((reply.shares.iter().sum::<f32>() - 1.0).abs() < 1e-3, "{:?}", reply.shares);
            if kind == ModelKind::Unet {
                assert_eq!(reply.mask.len(), 16 * 16);
            } else {
                let first = reply.ranked()[0];
                assert_eq!(first.class, answer.class());
                assert!((first.probability - answer.confidence).abs() < 1e-4);
            }
        }
        let far = tester.show(&tried, Shown::Sample(1000)).expect_err("there are 12").to_string();
        assert!(far.contains("no sample 1000"), "{far}");
    }
}

#[test]
fn a_prompt_is_written_on_by_the_seed_and_by_none_but_the_tokens_of_the_data() {
    let mut tester = Tester::new();
    let mut experiment = small(ModelKind::Gpt2);
    experiment.loss_chunk = 0;
    let tried = Tried::begun(experiment);
    let mut write = |seed, prompt: &str| {
        let mut said = String::new();
        let sampling = Sampling { seed, tokens: Some(12), ..Sampling::default() };
        let written = tester.write(&tried, prompt, sampling, &mut |text| {
            said.push_str(text);
            ControlFlow::Continue(())
        });
        written.map(|written| {
            assert_eq!((written.tokens.len(), &said), (12, &written.text));
            is_predicted(written.took);
            written.text
        })
    };
    let first = write(1, "3 1 2 0 9 9").expect("written");
    assert_eq!(write(1, "3 1 2 0 9 9").expect("written"), first);
    assert_ne!(write(2, "3 1 2 0 9 9").expect("written"), first);
    assert!(write(1, "3 x").expect_err("no digit").to_string().contains("`x` is not a number below 10"));
    let images =
        tester.write(&Tried::begun(small(ModelKind::Cnn)), "1", Sampling::default(), &mut |_| ControlFlow::Break(()));
    assert!(images.expect_err("images").to_string().contains("--image"));
}

#[test]
fn what_would_cross_the_line_and_what_is_of_another_model_is_refused_in_words() {
    let (trainer, mut tester) = (Trainer::new(|| {}), Tester::new());
    let experiment = small(ModelKind::Cnn);
    let folder = tempfile::tempdir().expect("a folder");
    trained(&trainer, &experiment, folder.path());
    let whole = tester.evaluate(&of(&experiment, folder.path())).expect("it fits");
    let held_to =
        |budget| Tried { experiment: Experiment { budget, ..experiment.clone() }, ..of(&experiment, folder.path()) };
    let refused = tester.evaluate(&held_to(whole.took.predicted - Bytes(1))).expect_err("a byte too few").to_string();
    let offered =
        refused.split_once("; write batch.evaluation=").map(|(before, batch)| (before, batch.split_once(' ')));
    let Some((before, Some((batch, _)))) = offered else { panic!("{refused}") };
    assert!(before.starts_with("in the test: ") && before.contains("of a budget of"), "{refused}");
    let mut smaller = held_to(whole.took.predicted - Bytes(1));
    smaller.experiment.batch.evaluation = EvaluationBatch::Samples(batch.parse().expect("a number"));
    assert_eq!(tester.evaluate(&smaller).expect("what is offered fits").accuracy, whole.accuracy);
    assert_eq!(tester.evaluate(&held_to(whole.took.predicted)).expect("it just fits").loss, whole.loss);
    let mut other = of(&experiment, folder.path());
    other.experiment.model.width = 16;
    let error = tester.evaluate(&other).expect_err("another width").to_string();
    assert!(
        error.contains("differs in model.width (here 8, chosen 16)") && error.contains("another architecture"),
        "{error}"
    );
    let mut fewer = of(&experiment, folder.path());
    fewer.experiment.data.classes = 3;
    let error = tester.evaluate(&fewer).expect_err("fewer classes").to_string();
    assert!(error.contains("another architecture") && error.contains("tensor "), "{error}");
    let cut = folder.path().join("cut.safetensors");
    let bytes = std::fs::read(folder.path().join("last.safetensors")).expect("there");
    std::fs::write(&cut, &bytes[..bytes.len() - 7]).expect("written");
    let error = tester.evaluate(&Tried { checkpoint: Some(cut), ..of(&experiment, folder.path()) }).expect_err("cut");
    assert!(error.to_string().contains("cut.safetensors"), "{error}");
    let none = tester.show(&of(&experiment, folder.path()), Shown::File(Path::new("nowhere.png"))).expect_err("none");
    assert!(none.to_string().contains("nowhere.png: is not an image"), "{none}");
}

#[test]
fn a_model_that_lost_channels_has_the_figures_that_its_run_reported() {
    let (trainer, mut tester) = (Trainer::new(|| {}), Tester::new());
    for (kind, precision) in [
        (ModelKind::Mlp, Precision::F32),
        (ModelKind::Cnn, Precision::Bf16Mixed),
        (ModelKind::Resnet, Precision::F32),
        (ModelKind::Mobilenetv2, Precision::Bf16),
    ] {
        let mut experiment = Experiment { precision, ..small(kind) };
        (experiment.prune.kind, experiment.prune.begin_step) = (PruneKind::Channels, 2);
        let folder = tempfile::tempdir().expect("a folder");
        let reported = trained(&trainer, &experiment, folder.path());
        let tried = of(&experiment, folder.path());
        let found = tester.evaluate(&tried).expect("it can be tried");
        assert_eq!((found.loss, found.accuracy), reported, "{kind:?}");
        is_predicted(found.took);
        is_predicted(tester.show(&tried, Shown::Sample(0)).expect("it answers").took);
    }
}

#[test]
fn a_model_without_weights_is_tried_as_it_is_initialised() {
    let mut tester = Tester::new();
    let found = tester.evaluate(&Tried::begun(Experiment::default())).expect("it fits");
    assert_eq!((found.samples, &found.weights), (359, &WeightsFrom::Initialised));
    is_counted(&found);
    is_predicted(found.took);
}

/// A folder of images of two classes, so many of each.
fn images(folder: &Path, count: usize) {
    for (class, ink) in [("ash", 0), ("birch", 200)] {
        std::fs::create_dir_all(folder.join(class)).expect("made");
        for number in 0..count {
            let shade = image::Luma([ink + number as u8]);
            let picture = image::GrayImage::from_pixel(16, 16, shade);
            picture.save(folder.join(class).join(format!("{number:02}.png"))).expect("written");
        }
    }
}

#[test]
fn data_that_have_changed_since_the_run_are_told_of() {
    let (trainer, mut tester) = (Trainer::new(|| {}), Tester::new());
    let place = tempfile::tempdir().expect("a folder");
    let (pictures, letters) = (place.path().join("pictures"), place.path().join("letters.txt"));
    images(&pictures, 20);
    std::fs::write(&letters, "to be or not to be ".repeat(40)).expect("written");
    let mut of_images = small(ModelKind::Cnn);
    (of_images.data.kind, of_images.data.path) = (DataKind::Images, Some(pictures.clone()));
    let mut of_text = small(ModelKind::Gpt2);
    (of_text.data.kind, of_text.data.path) = (DataKind::Text, Some(letters.clone()));
    let runs = [of_images, of_text].map(|experiment| {
        let folder = tempfile::tempdir().expect("a folder");
        trained(&trainer, &experiment, folder.path());
        let tried = of(&experiment, folder.path());
        assert_eq!(tester.evaluate(&tried).expect("it was trained").caution, None, "nothing has changed");
        (folder, tried)
    });
    let [(_, images), (_, text)] = &runs;
    // As many as before, one of them by another name.
    std::fs::rename(pictures.join("ash/03.png"), pictures.join("ash/99.png")).expect("renamed");
    let said = tester.evaluate(images).expect("it answers").caution.expect("told");
    assert!(said.starts_with("the data at data.path are not those that the run learned from"), "{said}");
    let shown = tester.show(images, Shown::Sample(0)).expect("it answers");
    assert_eq!(shown.caution, Some(said), "of one sample as well");
    std::fs::write(&letters, "to be or not to be ".repeat(60)).expect("written");
    let said = tester.evaluate(text).expect("it answers").caution.expect("told");
    assert!(said.contains("training samples, and there are") && said.contains("bring back the data"), "{said}");
    // Who chooses another share to test on knows that it is another.
    let mut chosen = text.clone();
    chosen.experiment.data.test_fraction = 0.5;
    assert_eq!(tester.evaluate(&chosen).expect("it answers").caution, None);
}

#[test]
fn classes_have_the_names_of_the_data_and_those_of_a_loaded_model_where_the_data_have_none() {
    let (trainer, mut tester) = (Trainer::new(|| {}), Tester::new());
    let place = tempfile::tempdir().expect("a folder");
    let at = |name: &str| place.path().join(name);
    images(&at("pictures"), 8);
    let mut experiment = small(ModelKind::Vit);
    (experiment.model.patch, experiment.run.steps) = (8, Some(1));
    (experiment.data.kind, experiment.data.path) = (DataKind::Images, Some(at("pictures")));
    trained(&trainer, &experiment, &at("run"));
    let info = *Resolved::new(&experiment, &Machine::nominal()).expect("possible").info();
    export(&at("run/last.safetensors"), &at("out"), &experiment, &info, false).expect("written");
    let config = std::fs::read_to_string(at("out/config.json")).expect("written");
    let config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!(config["id2label"], serde_json::json!({"0": "ash", "1": "birch"}));
    assert_eq!(config["label2id"], serde_json::json!({"ash": 0, "birch": 1}));
    // Generated images of as many classes: what is loaded has been taught other names than theirs.
    let mut generated = small(ModelKind::Vit);
    (generated.model.patch, generated.data.classes) = (8, 2);
    for weights in ["out", "run"] {
        generated.weights.path = Some(at(weights));
        let tried = Tried::begun(generated.clone());
        assert_eq!(tester.evaluate(&tried).expect("it answers").class_names, ["ash", "birch"], "{weights}");
        assert_eq!(tester.show(&tried, Shown::Sample(0)).expect("it answers").class_names, ["ash", "birch"]);
    }
    // A user's folder names its own classes, and a head for other classes is not that of the names.
    std::fs::rename(at("pictures/ash"), at("pictures/cedar")).expect("renamed");
    experiment.weights.path = Some(at("out"));
    let named = tester.evaluate(&Tried::begun(experiment)).expect("it answers").class_names;
    assert_eq!(named, ["birch", "cedar"]);
    generated.data.classes = 3;
    let named = tester.evaluate(&Tried::begun(generated)).expect("it answers").class_names;
    assert!(named.len() == 3 && named[0] != "ash", "{named:?}");
}

#[test]
fn a_model_is_asked_after_its_data_are_gone_and_a_published_head_answers_with_its_own_classes() {
    let (trainer, mut tester) = (Trainer::new(|| {}), Tester::new());
    let place = tempfile::tempdir().expect("a folder");
    let at = |name: &str| place.path().join(name);
    images(&at("pictures"), 8);
    let mut experiment = small(ModelKind::Vit);
    (experiment.model.patch, experiment.run.steps) = (8, Some(1));
    (experiment.data.kind, experiment.data.path) = (DataKind::Images, Some(at("pictures")));
    experiment.data.normalise = Normalise::Half;
    trained(&trainer, &experiment, &at("run"));
    let picture =
        std::fs::read_dir(at("pictures/ash")).expect("a folder").next().expect("a file").expect("a file").path();
    std::fs::rename(picture, at("ash.png")).expect("renamed");
    let tried = of(&experiment, &at("run"));
    let picture = at("ash.png");
    let whole = tester.show(&tried, Shown::File(&picture)).expect("it answers");
    let checkpoint = Checkpoint::open(at("run/last.safetensors")).expect("saved");
    let info = checkpoint.info().expect("kept");
    // What was another class by its name now is still the run's.
    std::fs::rename(at("pictures/birch"), at("pictures/aaa")).expect("renamed");
    assert_eq!(tester.show(&tried, Shown::File(&picture)).expect("it answers").class_names, ["ash", "birch"]);
    std::fs::remove_dir_all(at("pictures")).expect("ours");
    let reply = tester.show(&tried, Shown::File(&picture)).expect("it answers");
    assert_eq!((&reply.class_names[..], reply.caution), (&["ash".to_owned(), "birch".to_owned()][..], None));
    assert_eq!((&reply.shares, &reply.picture), (&whole.shares, &whole.picture), "to the last bit");
    is_predicted(reply.took);
    assert!(tester.evaluate(&tried).expect_err("no test set").to_string().contains("data.path"));
    // And exported.
    export(checkpoint.path(), &at("out"), &experiment, &info, false).expect("written");
    let mut generated = small(ModelKind::Vit);
    (generated.model.patch, generated.weights.path) = (8, Some(at("out")));
    let reply = tester.show(&Tried::begun(generated.clone()), Shown::File(&picture)).expect("it answers");
    assert_eq!((&reply.class_names[..], reply.caution), (&["ash".to_owned(), "birch".to_owned()][..], None));
    assert_eq!(reply.shares, whole.shares, "scaled as its run scaled it");
    is_predicted(reply.took);
    let config = std::fs::read_to_string(at("out/config.json")).expect("written");
    std::fs::write(at("out/config.json"), config.replace("id2label", "labels")).expect("writable");
    let reply = tester.show(&Tried::begun(generated), Shown::File(&picture)).expect("it answers");
    assert_eq!(reply.class_names, ["class 0", "class 1"]);
}
