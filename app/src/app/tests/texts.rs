//! Texts: their controls, and the words about them before a run.

use plimsoll_engine::experiment::{DataKind, ModelKind};

use super::*;

fn lines(folder: &tempfile::TempDir) -> Experiment {
    let path = folder.path().join("lines.jsonl");
    let line =
        |i: usize| format!("{{\"prompt\": \"the ship \", \"completion\": \"{}\"}}\n", "sails ".repeat(1 + i % 5));
    std::fs::write(&path, (0..50).map(line).collect::<String>()).expect("writes");
    let mut experiment = digits();
    (experiment.model.kind, experiment.model.width, experiment.model.depth) = (ModelKind::Gpt2, 16, 1);
    (experiment.model.heads, experiment.model.hidden) = (2, 32);
    (experiment.data.kind, experiment.data.path, experiment.data.length) = (DataKind::Jsonl, Some(path), 24);
    (experiment.batch.micro, experiment.data.vocabulary) = (4, 0);
    experiment
}

#[test]
fn json_lines_show_what_padding_wastes_and_packing_takes_it_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut window = window(lines(&folder));
    until(&mut window, |app| app.state.plan().is_some());
    for control in ["Tokenizer", "Sequences", "Scored", "Broken lines", "Length", "Vocabulary"] {
        assert!(window.query_all_by_label(control).next().is_some(), "{control}");
    }
    assert!(window.query_by_role_and_label(Role::Button, "Browse for the tokenizer").is_some());
    assert!(window.query_by_label_contains("of positions are padding").is_some());
    assert!(window.query_by_label_contains("no tokenizer: bytes are the tokens").is_some());
    let before = app(&window).state.plan().expect("a plan").peak.live;
    window.get_by_role_and_label(Role::ComboBox, "Sequences").click_accesskit();
    window.run_steps(3);
    window.get_by_label("packed").click_accesskit();
    window.run_steps(3);
    assert!(app(&window).state.document.experiment.data.packing);
    until(&mut window, |app| {
        app.state.plan().is_some_and(|plan| plan.resolved.data().text_facts().is_some_and(|facts| facts.is_packed))
    });
    window.run_steps(2);
    assert!(window.query_by_label_contains("no position is padding").is_some());
    assert_eq!(app(&window).state.plan().expect("a plan").peak.live, before);
}

#[test]
fn a_broken_line_is_named_beside_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = lines(&folder);
    let path = experiment.data.path.clone().expect("a file");
    let mut text = std::fs::read_to_string(&path).expect("ours");
    text.push_str("{\"text\": 5}\n");
    std::fs::write(&path, text).expect("writes");
    let mut window = window(experiment);
    until(&mut window, |app| !app.state.prediction.problems().is_empty());
    assert_eq!(app(&window).state.prediction.problems()[0].key, "data.path");
    assert!(window.query_all_by_label_contains("(line 51, column 10)").next().is_some());
}

#[test]
fn a_path_is_taken_once_its_field_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = lines(&folder);
    let path = experiment.data.path.clone().expect("a file");
    let mut window = window(experiment);
    until(&mut window, |app| app.state.plan().is_some());
    let (field, other) = ((Role::TextInput, "File"), folder.path().join("other.jsonl"));
    std::fs::copy(&path, &other).expect("copies");
    window.get_by_role_and_label(field.0, field.1).focus();
    window.run_steps(2);
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.run_steps(2);
    for letter in other.to_str().expect("text").chars() {
        window.get_by_role_and_label(field.0, field.1).type_text(&letter.to_string());
        window.run_steps(1);
        assert_eq!(app(&window).state.document.experiment.data.path.as_ref(), Some(&path), "on the way");
    }
    window.key_press(Key::Enter);
    window.run_steps(2);
    assert_eq!(app(&window).state.document.experiment.data.path, Some(other));
}

#[test]
fn an_experiment_that_cannot_be_has_a_way_back_in_the_place_of_offers() {
    let mut window = window(digits());
    until(&mut window, |app| app.state.plan().is_some());
    let mut broken = app(&window).state.document.experiment.clone();
    broken.model.width = 0;
    let before = app(&window).state.document.experiment.clone();
    app(&window).sender.send(crate::command::Action::Edit { control: "model.width", experiment: Box::new(broken) });
    until(&mut window, |app| !app.state.prediction.problems().is_empty());
    window.run_steps(2);
    assert!(window.query_by_label("Fill the budget").is_none());
    window.get_by_role_and_label(Role::Button, "Undo the change").click_accesskit();
    until(&mut window, |app| app.state.prediction.obstacle.is_none());
    assert_eq!(app(&window).state.document.experiment, before);
}
