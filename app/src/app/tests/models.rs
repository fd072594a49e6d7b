//! Models, their published sizes, and the data that go with them.

use plimsoll_engine::experiment::ModelKind;

use super::*;

/// Chooses from the list of a control.
fn choose(window: &mut Window, control: &str, choice: &str) {
    // Both are pressed by name, wherever they are: an answer of the planner may move the list under a pointer, and the list
    // may be longer than it is high.
    window.get_by_role_and_label(Role::ComboBox, control).click_accesskit();
    window.run_steps(3);
    window.get_by_label(choice).click_accesskit();
    window.run_steps(2);
    window.key_press(Key::Escape);
    window.run_steps(3);
}

fn planned(window: &mut Window) {
    until(window, |app| app.state.plan().is_some() || app.state.prediction.obstacle.is_some());
}

#[test]
fn a_decoder_brings_data_it_can_learn_and_undo_takes_both_back() {
    let mut window = window(digits());
    choose(&mut window, "Kind", "decoder, as Llama");
    planned(&mut window);
    let experiment = &app(&window).state.document.experiment;
    assert_eq!((experiment.model.kind, experiment.data.kind), (ModelKind::Llama, DataKind::Sort));
    assert!(app(&window).state.plan().is_some(), "{:?}", app(&window).state.prediction.problems());
    unfold(&mut window);
    for control in
        ["Heads", "Key heads", "Feed-forward", "Window", "Rotary base", "Loss in rows", "Length", "Vocabulary"]
    {
        assert!(window.query_all_by_label(control).next().is_some(), "{control}");
    }
    assert!(window.query_all_by_label("Horizontal flip").next().is_none());
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment, digits());
}

#[test]
fn masks_bring_a_model_for_pixels() {
    let mut window = window(digits());
    choose(&mut window, "Source", "shapes with masks");
    planned(&mut window);
    assert_eq!(app(&window).state.document.experiment.model.kind, ModelKind::Unet);
    assert!(window.query_all_by_label("Levels").next().is_some());
}

#[test]
fn a_published_size_is_one_choice_and_is_planned_whole() {
    let mut window = window(digits());
    choose(&mut window, "Kind", "decoder, as GPT-2");
    choose(&mut window, "Size", "XL");
    planned(&mut window);
    let model = &app(&window).state.document.experiment.model;
    assert_eq!((model.width, model.depth, model.heads, model.hidden), (1600, 48, 25, 6400));
    let parameters = app(&window).state.plan().expect("a plan").parameters;
    // The published 1 557 611 200 less what the small vocabulary and length leave out.
    assert!((1_475_000_000..1_476_000_000).contains(&parameters), "{parameters}");
}

#[test]
fn a_run_over_tokens_says_what_its_accuracy_is() {
    let mut experiment = digits();
    (experiment.model.kind, experiment.model.width, experiment.model.depth) = (ModelKind::Gpt2, 16, 1);
    (experiment.model.heads, experiment.model.hidden) = (2, 32);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("text.txt");
    std::fs::write(&path, "the quick brown fox jumps over the lazy dog. ".repeat(200)).expect("writes");
    (experiment.data.kind, experiment.data.path, experiment.data.length) = (DataKind::Text, Some(path), 16);
    let mut window = window(experiment);
    window.get_by_role_and_label(Role::Button, "Train").click();
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    let run = app(&window).state.session.latest().expect("a run");
    assert!(matches!(run.status, Status::Ended(Outcome::Finished)), "{:?}", run.status);
    assert!(window.query_by_label("Next-byte accuracy").is_some());
    assert!(window.query_by_label_contains("bits/byte").is_some());
    // Predicted in the bottom bar, measured over the curve.
    assert_eq!(window.query_all_by_label_contains("tokens/s").count(), 2);
}

#[test]
fn weights_to_begin_with_are_typed_and_what_is_wrong_with_them_is_said_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pytorch_model.bin");
    std::fs::write(&path, "pickled").expect("writes");
    let mut experiment = digits();
    experiment.weights.path = Some(path);
    let mut window = window(experiment);
    until(&mut window, |app| !app.state.prediction.problems().is_empty());
    assert_eq!(app(&window).state.prediction.problems()[0].key, "weights.path");
    assert!(window.query_all_by_label_contains("is pickled, and reading a pickled file runs").count() > 0);
    assert!(window.query_by_role_and_label(Role::Button, "Browse for the weights").is_some());
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    window.run_steps(3);
    assert!(app(&window).state.session.runs().is_empty() && !app(&window).state.is_starting);
}
