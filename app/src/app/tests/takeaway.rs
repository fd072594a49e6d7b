//! Data taken out of a pane: to files, and onto the clipboard.

use std::fs;

use egui::OutputCommand;
use plimsoll_engine::experiment::QuantiseKind;

use super::*;
use crate::{
    command::{Action, RunsAction, UiCommand},
    panels::pane::Pane,
};

fn open_menu(window: &mut Window, pane: Pane) {
    window.get_by_label(&format!("Take away: {}", pane.title())).click();
    window.run_steps(3);
}

/// Chooses an entry of the menu of a pane.
fn take(window: &mut Window, pane: Pane, entry: &str) {
    open_menu(window, pane);
    window.get_by_label(entry).click();
    window.run_steps(3);
}

/// Types a path where one is asked for, and waits until so many files were saved.
fn save(window: &mut Window, path: &Path, count: usize) {
    until(window, |app| matches!(app.state.dialog, Some(Dialog::Path { .. })));
    window.run_steps(2);
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.run_steps(1);
    window.get_by_label("Path").type_text(&path.display().to_string());
    window.run_steps(2);
    window.key_press(Key::Enter);
    until(window, |app| app.state.log.entries.iter().filter(|e| e.text.contains("Saved ")).count() == count);
}

#[test]
fn a_chart_is_saved_as_a_picture_a_drawing_and_a_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut window = window(digits());
    let [svg, png, csv] = ["step.svg", "step.png", "step.csv"].map(|name| folder.path().join(name));
    take(&mut window, Pane::Step, "Save as SVG…");
    save(&mut window, &svg, 1);
    take(&mut window, Pane::Step, "Save as PNG…");
    save(&mut window, &png, 2);
    take(&mut window, Pane::Step, "Save data as CSV…");
    save(&mut window, &csv, 3);
    let plan = app(&window).state.plan().expect("a plan").clone();
    let (svg, csv) = (fs::read_to_string(svg).expect("written"), fs::read_to_string(csv).expect("written"));
    assert!(svg.contains(&plan.peak.live.to_string()) && svg.contains("budget"), "{svg}");
    assert_eq!(fs::read(png).expect("written")[..4], *b"\x89PNG");
    assert_eq!(csv.lines().count(), plan.timeline(plan.peak_pass).points.len() + 1);
}

#[test]
fn a_chart_and_its_data_are_put_on_the_clipboard() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Button, "Train").click();
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| !run.status.is_active()));
    open_menu(&mut window, Pane::Live);
    window.get_by_label("Copy data as CSV").click();
    let copied = |window: &Window| {
        let commands = window.output().platform_output.commands.iter();
        commands.into_iter().find_map(|c| if let OutputCommand::CopyText(text) = c { Some(text.clone()) } else { None })
    };
    let table = (0..10).find_map(|_| {
        window.step();
        copied(&window)
    });
    let table = table.expect("a table on the clipboard");
    assert!(table.starts_with("step,secs,train/loss") && table.lines().count() == 13, "{table}");
    take(&mut window, Pane::Live, "Copy as picture");
    until(&mut window, |app| app.state.log.entries.iter().any(|entry| entry.text.contains("Copied the chart")));
}

#[test]
fn what_became_of_a_model_is_saved_from_its_run_and_its_size_stands_in_the_experiment() {
    let store = runs::folder();
    let mut experiment = digits();
    experiment.quantise.kind = QuantiseKind::After;
    let mut window = runs::on(&store, experiment);
    let planned = app(&window).state.plan().and_then(|plan| plan.smaller).expect("it gets smaller");
    let words = format!("The trained model: {planned}.");
    window.get_by_label("Integers: on").click();
    window.run_steps(3);
    assert!(window.query_by_label(&words).is_some(), "{words}");
    runs::train(&mut window);
    let key = runs::keys(&window)[0].clone();
    let path = store.path().with_extension("safetensors");
    runs::ask(&mut window, RunsAction::Export(key));
    save(&mut window, &path, 1);
    let bytes = fs::read(&path).expect("written");
    fs::remove_file(&path).expect("ours");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight"));
    assert_eq!(bytes.len() as u64 - 8 - length, planned.bytes.0);
}

#[test]
fn a_run_that_was_stopped_before_its_model_was_made_smaller_says_what_finishes_it() {
    let store = runs::folder();
    let mut experiment = digits();
    experiment.quantise.kind = QuantiseKind::After;
    (experiment.run.steps, experiment.run.epochs) = (Some(1_000_000), None);
    let mut window = runs::on(&store, experiment);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.active().is_some_and(|run| run.progress() > 0.0));
    window.state_mut().as_mut().expect("drawn").sender.send(Action::Ui(UiCommand::Stop));
    until(&mut window, |app| app.state.log.entries.iter().any(|entry| entry.text.contains(" was stopped after ")));
    let entries = &app(&window).state.log.entries;
    let stopped = entries.iter().find(|entry| entry.text.contains(" was stopped after ")).expect("said");
    let lacks = ", before its model was made smaller and tested: Continue finishes it";
    assert!(stopped.text.contains(lacks), "{}", stopped.text);
    runs::close(window);
}
