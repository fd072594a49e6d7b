//! Runs and pins that are asked for before the prediction is there, and the messages about a run beforehand.

use super::*;
use crate::command::{Action, UiCommand};

/// Makes an edit and takes it back: to redo it is a change that no planner has answered yet.
fn edit_and_undo(window: &mut Window) {
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    until(window, |app| planned_micro(app) == Some(96));
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    until(window, |app| planned_micro(app) == Some(64));
}

/// Sends commands that all arrive in one frame, before the planner can answer any.
fn at_once(window: &mut Window, commands: &[UiCommand]) {
    let sender = &window.state_mut().as_mut().expect("drawn").sender;
    commands.iter().for_each(|command| sender.send(Action::Ui(*command)));
    window.step();
}

#[test]
fn a_run_asked_for_with_an_edit_begins_with_it() {
    let mut window = window(digits());
    edit_and_undo(&mut window);
    at_once(&mut window, &[UiCommand::Redo, UiCommand::Train]);
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    assert_eq!(app(&window).state.session.latest().expect("a run").experiment().batch.micro, 96);
    assert_eq!(app(&window).state.session.runs().len(), 1);
}

#[test]
fn an_edit_takes_back_a_run_that_waits_for_its_prediction() {
    let mut window = window(digits());
    edit_and_undo(&mut window);
    at_once(&mut window, &[UiCommand::Redo, UiCommand::Train, UiCommand::Undo]);
    until(&mut window, |app| app.state.plan().is_some() && app.state.prediction.awaited.is_none());
    window.run_steps(3);
    let state = &app(&window).state;
    assert!(state.session.runs().is_empty() && !state.is_starting);
    assert_eq!(state.document.experiment.batch.micro, 64);
}

#[test]
fn a_configuration_pinned_with_an_edit_is_the_edited_one() {
    let mut window = window(digits());
    edit_and_undo(&mut window);
    at_once(&mut window, &[UiCommand::Redo, UiCommand::Pin]);
    until(&mut window, |app| app.state.pin.is_some());
    assert_eq!(app(&window).state.pin.as_ref().map(|pin| pin.experiment.batch.micro), Some(96));
    at_once(&mut window, &[UiCommand::Pin, UiCommand::Undo, UiCommand::Pin, UiCommand::Pin]);
    until(&mut window, |app| planned_micro(app) == Some(64));
    window.run_steps(3);
    assert!(app(&window).state.pin.is_none() && app(&window).state.pin_asked.is_none());
}

#[test]
fn what_the_present_configuration_takes_is_said_before_during_and_after_a_run() {
    let mut window = window(digits());
    let said = |window: &Window| {
        let plan = app(window).state.plan().expect("a plan").clone();
        window.query_by_label(&crate::panels::length(&plan)).is_some()
    };
    assert!(said(&window));
    window.get_by_role_and_label(Role::Button, "Step").click();
    until(&mut window, |app| app.state.session.active().is_some_and(|run| run.last.is_some()));
    assert!(said(&window));
    window.get_by_role_and_label(Role::Button, "Stop").click();
    until(&mut window, |app| app.state.session.active().is_none());
    window.get_by_role_and_label(Role::Slider, "Width").increment_accesskit();
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.experiment.model.width == 48));
    assert!(said(&window));
    window
        .state_mut()
        .as_mut()
        .expect("drawn")
        .sender
        .send(crate::command::Action::Adopt(Box::new(Experiment { budget: Bytes::kib(64), ..digits() })));
    until(&mut window, |app| app.state.plan().is_some_and(|plan| !plan.fits()));
    assert!(said(&window));
    let why = app(&window).state.why_no_training().expect("it does not fit");
    assert!(window.query_by_label(&why).is_some());
}

#[test]
fn where_no_change_fits_none_is_told_to_be_chosen() {
    // Weights and optimizer state alone take more, so that nothing is there to be offered.
    let mut window = window(Experiment { budget: Bytes::kib(64), ..digits() });
    until(&mut window, |app| {
        let options = app.state.prediction.newest_options().filter(|_| app.state.plan().is_some());
        options.is_some_and(|options| options.shortfall.is_some() && options.has_no_change())
    });
    window.run_steps(2);
    assert!(window.query_by_label_contains("Raise the budget, or choose a smaller model, and press Train").is_some());
    assert!(window.query_by_label_contains("Choose one of the changes that fit").is_none());
}
