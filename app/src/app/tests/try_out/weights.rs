//! Weights that are loaded, tried without any training.

use std::path::PathBuf;

use super::{super::runs, *};
use crate::{files::Purpose, trials::TryWith};

type Folder = Rc<tempfile::TempDir>;

/// A PNG of one grey pixel.
const PNG: &[u8] = b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x01\x00\x00\x00\x01\
    \x08\x00\x00\x00\x00\x3a\x7e\x9b\x55\x00\x00\x00\x0a\x49\x44\x41\x54\x78\x9c\x63\x38\x01\x00\x00\
    \xca\x00\xc9\x99\xca\x5d\x7e\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

/// A trained model: its experiment with its weights to begin with, its accuracy, and the store that they lie in.
fn trained(experiment: Experiment) -> (Experiment, Option<f64>, Folder) {
    let store = folder();
    let mut window = on(&store, experiment.clone());
    train(&mut window);
    let run = app(&window).state.session.latest().and_then(|run| run.summary).expect("it ended");
    let saved = app(&window).state.runs.rows()[0].saved.clone().expect("its weights are kept");
    runs::close(window);
    let mut next = experiment;
    next.weights.path = Some(saved);
    (next, run.test_accuracy, store)
}

/// A window that never trained, on weights, with the pane in sight.
fn opened_on_weights(experiment: &Experiment) -> (Window, Folder) {
    let store = folder();
    let mut window = on(&store, experiment.clone());
    show(&mut window, Pane::TryOut);
    (window, store)
}

fn name(experiment: &Experiment) -> String {
    let folder = experiment.weights.path.as_deref().and_then(std::path::Path::parent).expect("of a run");
    format!("Weights of {}", folder.file_name().expect("a key").to_string_lossy())
}

fn choose(window: &mut Window, model: &str) {
    window.get_by_role_and_label(Role::ComboBox, "Model to try").click_accesskit();
    window.run_steps(3);
    window.get_by_role_and_label(Role::Button, model).click_accesskit();
    window.run_steps(3);
}

/// A small decoder over generated tokens, as a published one opens.
fn decoder() -> Experiment {
    let mut experiment = digits();
    experiment.model.kind = ModelKind::Gpt2;
    (experiment.model.width, experiment.model.depth, experiment.model.heads) = (16, 1, 2);
    (experiment.data.kind, experiment.data.length, experiment.data.vocabulary) = (DataKind::Tokens, 8, 12);
    (experiment.data.samples, experiment.run.steps) = (100, Some(2));
    experiment
}

#[test]
fn loaded_weights_answer_without_training_and_stay_a_choice_beside_the_run() {
    let (experiment, accuracy, _kept) = trained(digits());
    let (mut window, _store) = opened_on_weights(&experiment);
    let name = name(&experiment);
    assert!(window.query_by_label(&name).is_some() && app(&window).state.session.all().next().is_none());
    assert!(window.query_by_role_and_label(Role::ComboBox, "Model to try").is_none(), "there is no other");
    tested(&mut window);
    let trial = &app(&window).state.trial;
    let evaluation = trial.evaluation.as_ref().expect("tested");
    assert_eq!(Some(evaluation.accuracy), accuracy, "the figures of the run that they are of");
    assert!(evaluation.caution.is_none() && evaluation.took.measured <= evaluation.took.predicted);
    let answers = evaluation.answers.as_ref().expect("classes");
    let label = (0..10).find(|at| answers.confused(*at, *at) > 1).expect("some class is learned");
    let times = answers.confused(label, label);
    press(&mut window, &format!("{label} answered as {label}: {times} times"));
    until(&mut window, |app| !app.state.trial.samples.is_empty());
    assert!(window.query_by_label(&format!("All {times}")).is_some());
    // A setting of the training makes no other model of them; one of the model does.
    let edit = |window: &mut Window, change: fn(&mut Experiment)| {
        let mut edited = app(window).state.document.experiment.clone();
        change(&mut edited);
        app(window).sender.send(Action::Adopt(Box::new(edited)));
        window.run_steps(3);
    };
    edit(&mut window, |e| e.optimizer.learning_rate = 0.5);
    assert!(app(&window).state.trial.evaluation.is_some());
    edit(&mut window, |e| e.budget = Bytes::kib(64));
    assert!(app(&window).state.trial.evaluation.is_none());
    press(&mut window, "Test");
    until(&mut window, |app| app.state.trial.trouble.is_some());
    let why = app(&window).state.trial.trouble.clone().unwrap_or_default();
    assert!(why.contains("of a budget of 64.0 KiB"), "refused at the line: {why}");
    edit(&mut window, |e| e.budget = Bytes::mib(64));
    // A run that begins is tried; the weights are one choice away, and so is the run.
    train(&mut window);
    until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.kept.is_some()));
    window.run_steps(2);
    assert!(window.query_by_label_contains("Press Test to see what the model").is_some());
    choose(&mut window, &name);
    // What was found of them is there again.
    assert_eq!(app(&window).state.trial.evaluation.as_ref().map(|found| found.accuracy), accuracy);
    let run = app(&window).state.session.latest().expect("a run").name();
    // A choice that no pointer made leaves the list open.
    window.key_press(Key::Escape);
    window.run_steps(3);
    choose(&mut window, &run);
    assert!(app(&window).state.trial.evaluation.is_none(), "it is the run's model again");
}

#[test]
fn weights_are_tried_beside_a_run_that_keeps_its_line() {
    let (mut experiment, accuracy, _kept) = trained(digits());
    experiment.run.steps = Some(100_000);
    let (mut window, _store) = opened_on_weights(&experiment);
    press(&mut window, "Train");
    until(&mut window, |app| {
        app.state.session.active().and_then(|run| run.last).is_some_and(|last| last.step > 2)
            && app.state.shown_run().is_some_and(|run| run.kept.is_some())
    });
    choose(&mut window, &name(&experiment));
    tested(&mut window);
    let trial = app(&window).state.trial.evaluation.as_ref().expect("tested");
    assert_eq!(Some(trial.accuracy), accuracy, "the weights as they were, and not as the run has them by now");
    assert!(trial.took.measured <= trial.took.predicted && app(&window).state.session.active().is_some());
    press(&mut window, "Stop");
    until(&mut window, |app| app.state.session.active().is_none());
    let run = app(&window).state.session.latest().and_then(|run| run.summary).expect("it ended");
    assert!(run.measured.live <= run.predicted.live);
}

#[test]
fn a_drawing_and_an_image_are_answered_by_loaded_weights() {
    let (experiment, _, _kept) = trained(digits());
    let (mut window, store) = opened_on_weights(&experiment);
    press(&mut window, "Your own");
    let line = vec![vec![[0.5, 0.1], [0.5, 0.9]]];
    app(&window).sender.send(Action::Try(TryWith::Drawing(line)));
    until(&mut window, |app| app.state.trial.reply.is_some());
    assert!(window.query_by_label("What the model saw").is_some());
    let image = store.path().join("grey.png");
    std::fs::write(&image, PNG).expect("written");
    app(&window).sender.send(Action::Try(TryWith::File(image)));
    until(&mut window, |app| {
        let picture = app.state.trial.reply.as_ref().and_then(|(reply, _)| reply.picture.as_ref());
        picture.is_some_and(|picture| picture.pixels.iter().all(|ink| ink == &picture.pixels[0]))
    });
}

#[test]
fn what_is_missing_of_weights_is_said() {
    let mut arms = digits();
    (arms.data.kind, arms.data.classes, arms.run.steps) = (DataKind::Spirals, 3, Some(2));
    let (mut experiment, _, _kept) = trained(arms);
    experiment.data.classes = 5;
    let (mut window, _store) = opened_on_weights(&experiment);
    tested(&mut window);
    window.run_steps(2);
    let said = window.query_all_by_label_contains("until it is trained, its answers are random: head.classes");
    assert!(said.count() > 0);
    // Weights that cannot be read are mended where they are chosen.
    let gone = PathBuf::from("/nowhere/model.safetensors");
    app(&window).sender.send(Action::UsePath(Purpose::Weights, gone));
    until(&mut window, |app| app.state.prediction.obstacle.is_some());
    window.run_steps(2);
    assert!(
        window
            .query_by_label_contains("Fix the settings that the Experiment pane shows in red, and how these")
            .is_some()
    );
}

#[test]
fn a_prompt_for_published_weights_is_text_where_their_tokenizer_is_there() {
    let (mut experiment, _, kept) = trained(decoder());
    let (mut window, _store) = opened_on_weights(&experiment);
    assert!(window.query_by_label_contains("There is no tokenizer next to these weights").is_some());
    assert!(window.query_by_label_contains("generated data replace").is_none(), "a run learned from them");
    let write = |window: &mut Window, prompt: &str| {
        window.get_by_role_and_label(Role::MultilineTextInput, "Prompt").focus();
        window.run_steps(2);
        window.get_by_role_and_label(Role::MultilineTextInput, "Prompt").type_text(prompt);
        window.run_steps(2);
        press(window, "Write on");
    };
    write(&mut window, "3 1");
    until(&mut window, |app| app.state.trial.wrote.is_some());
    let words: Vec<String> = (0..12).map(|at| format!("\"w{at}\": {at}")).collect();
    let tokenizer = format!(
        r#"{{"version": "1.0", "added_tokens": [], "pre_tokenizer": {{"type": "Whitespace"}},
        "model": {{"type": "WordLevel", "vocab": {{{}}}, "unk_token": "w0"}}}}"#,
        words.join(", ")
    );
    std::fs::write(kept.path().join("tokenizer.json"), tokenizer).expect("written");
    experiment.data.tokenizer = Some(kept.path().to_owned());
    let published = kept.path().join("model.safetensors");
    std::fs::copy(experiment.weights.path.as_ref().expect("saved"), &published).expect("copied");
    experiment.weights.path = Some(published);
    let (mut window, _store) = opened_on_weights(&experiment);
    assert!(window.query_by_label_contains("There is no tokenizer next to").is_none());
    assert!(window.query_by_label_contains("generated data replace").is_none(), "a prompt is the model's own");
    write(&mut window, "w3 w1");
    until(&mut window, |app| app.state.trial.wrote.is_some());
    let written = &app(&window).state.trial.written;
    assert!(written.starts_with("w3 w1") && written.matches('w').count() > 2, "{written}");
    tested(&mut window);
    window.run_steps(2);
    assert!(window.query_by_label_contains("generated data replace its own").is_some());
}

#[test]
fn rows_of_a_table_are_answered_by_loaded_weights() {
    let mut ships = digits();
    ships.data.kind = DataKind::Table;
    ships.data.path = Some("shipped:ships.csv".into());
    (ships.data.label, ships.data.leave_out) = ("deadweight_t".to_owned(), "ship".to_owned());
    (ships.batch.micro, ships.run.steps) = (50, Some(3));
    let (experiment, accuracy, _kept) = trained(ships);
    let (mut window, _store) = opened_on_weights(&experiment);
    tested(&mut window);
    until(&mut window, |app| app.state.trial.rows.len() >= 12);
    window.run_steps(2);
    assert!(window.query_by_label_contains("Off by (deadweight_t)").is_some());
    let trial = &app(&window).state.trial;
    assert_eq!(trial.evaluation.as_ref().map(|found| found.accuracy), accuracy);
    assert!(trial.rows.values().all(|reply| reply.value.is_some()));
}
