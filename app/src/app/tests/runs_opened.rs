//! Kept runs that are opened: the document that they become, and the one that they take the place of.

use std::sync::Arc;

use plimsoll_engine::{
    hardware::Machine,
    plan::{Pass, Plan},
    store::{Origin, Recorder, Recording},
    train::{Event, Latest, Outcome, Summary},
};

use super::{
    runs::{ask, folder, keys, on, on_state, two_runs},
    *,
};
use crate::command::RunsAction;

#[test]
fn a_run_of_another_experiment_is_opened_as_a_document_of_its_own() {
    let (store, _) = two_runs();
    let shipped = presets::shipped();
    let persisted = PersistedState {
        experiment: Some(shipped[1].experiment.clone()),
        saved: Some(shipped[1].experiment.clone()),
        shipped: Some(shipped[1].name.clone()),
        ..PersistedState::default()
    };
    let mut window = on_state(&store, persisted);
    let run = keys(&window)[0].clone();
    ask(&mut window, RunsAction::Open(run));
    until(&mut window, |app| app.state.document.experiment.title == "Tiny");
    let document = &app(&window).state.document;
    assert_eq!((document.shipped.as_ref(), document.saved.title.as_str()), (None, "Tiny"));
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(3);
    let document = &app(&window).state.document;
    assert_eq!((document.shipped.as_ref(), &document.experiment), (Some(&shipped[1].name), &shipped[1].experiment));
    assert_eq!(app(&window).state.drafts.iter().count(), 0, "nothing was changed");
}

#[test]
fn a_run_that_is_opened_takes_no_place_of_a_files_changes_without_a_question() {
    let (store, _) = two_runs();
    // A file may have the title of the run, as a copy of its preset has.
    for title in ["Of a file", "Tiny"] {
        let saved = Experiment { title: title.to_owned(), ..Experiment::default() };
        let mut edited = saved.clone();
        edited.batch.micro = 33;
        let persisted = PersistedState {
            experiment: Some(edited.clone()),
            saved: Some(saved),
            path: Some(store.path().join("a.toml")),
            ..PersistedState::default()
        };
        let mut window = on_state(&store, persisted);
        let run = keys(&window)[0].clone();
        ask(&mut window, RunsAction::Open(run));
        until(&mut window, |app| matches!(app.state.dialog, Some(Dialog::Unsaved(Then::OpenKept(_)))));
        assert_eq!(app(&window).state.document.experiment, edited);
        window.get_by_role_and_label(Role::Button, "Don't save").click();
        until(&mut window, |app| app.state.document.experiment.batch.micro == 96);
        assert!(app(&window).state.document.path.is_none(), "nothing of it is written to the file");
        window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
        window.run_steps(3);
        let document = &app(&window).state.document;
        assert!(document.experiment == edited && document.path.is_some());
    }
}

/// A run of a GPU keeps which way each convolution ran.
#[test]
fn an_opened_run_tells_how_its_ops_ran() {
    let (store, plan) = (folder(), Plan::of(&digits(), &Machine::nominal()).expect("a plan"));
    let points = &plan.timeline(Pass::Steady).points;
    let peak = plan.timeline(Pass::Steady).peak_index().expect("a step has ops");
    let mut ways = vec![""; points.len()];
    ways[peak] = "cuDNN";
    let latest = Latest {
        run: 1,
        measured_step: points.iter().map(|point| point.live).collect(),
        ways: ways.into(),
        measured_in_step: 2,
        ..Latest::default()
    };
    let recording =
        Recording { folder: store.path().to_owned(), origin: Origin::Window, is_forced: false, continued: None };
    let recorder = Recorder::new(recording);
    recorder.take(&Event::Started { run: 1, plan: Arc::new(plan) });
    recorder.take(&Event::Evaluating { step: 0 });
    recorder.take_latest(&latest);
    recorder.take(&Event::Ended { run: 1, outcome: Outcome::Stopped, summary: Box::<Summary>::default() });
    let key = recorder.key().clone();
    assert_eq!(recorder.finish(), None);

    let mut window = on(&store, Experiment::default());
    ask(&mut window, RunsAction::Open(key));
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.experiment.title == "Tiny"));
    until(&mut window, |app| app.state.shown_run().is_some() && app.state.wanted.is_none());
    window.run_steps(3);
    let tells = |window: &mut Window| {
        window.run_steps(3);
        window.query_by_label("ran by cuDNN").is_some()
    };
    // The keys lead to the peak first.
    window.get_by_label_contains("Predicted memory of one step").focus();
    assert!(tells(&mut window));
    window.key_press(Key::ArrowRight);
    assert!(!tells(&mut window), "another op ran in the one way that it has");
}
