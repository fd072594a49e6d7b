//! Kept runs taken up again: opened as they were, gone on with, brought back by undo, told apart, and saved when a signal comes.

use std::{collections::BTreeSet, sync::Arc};

use plimsoll_engine::{
    Bytes,
    hardware::Machine,
    plan::Plan,
    store::{Origin, Recorder, Recording, RunKey, RunState, Store},
    train::{Event, Outcome, Summary},
};

use super::{
    runs::{ask, close, folder, keys, on, on_state, show, train, two_runs},
    *,
};
use crate::command::RunsAction;

#[test]
fn a_double_click_opens_a_run_as_it_was() {
    let (store, losses) = two_runs();
    let mut window = on(&store, Experiment::default());
    show(&mut window, Pane::Runs);
    double_click(&mut window, "Run 1: Tiny");
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.experiment.title == "Tiny"));
    until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.last.is_some()));
    let shown = app(&window);
    assert_eq!(shown.state.document.experiment, digits(), "its settings");
    let run = shown.state.shown_run().expect("opened");
    assert_eq!(run.train.loss.raw().values(), losses, "its curves");
    assert!(shown.state.pin.is_none() && !shown.view.show_before, "the picture is of the run alone");
    let step = crate::panels::timeline::Shown::of(&shown.state, &shown.view).expect("its step");
    let predicted = &step.filled.timeline(step.pass).points;
    assert_eq!(*step.filled.experiment, digits());
    assert_eq!(step.measured.len(), predicted.len(), "measured over predicted");
    assert!(step.measured.iter().zip(predicted).all(|(mib, point)| *mib <= point.live.as_mib() + 1e-9));
    window.run_steps(3);
    assert!(window.query_by_label("measured").is_some() && window.query_by_label("Loss plot").is_some());
    // One step back is the experiment before.
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment, Experiment::default());
}

/// A run that another program planned: what is drawn of it is of this one.
#[test]
fn a_run_that_is_planned_otherwise_now_says_so() {
    let store = folder();
    let record = |more: u64| {
        let mut plan = Plan::of(&digits(), &Machine::nominal()).expect("a plan");
        plan.peak.live += Bytes(more);
        let recording =
            Recording { folder: store.path().to_owned(), origin: Origin::Window, is_forced: false, continued: None };
        let recorder = Recorder::new(recording);
        recorder.take(&Event::Started { run: 1, plan: Arc::new(plan) });
        recorder.take(&Event::Evaluating { step: 0 });
        let (outcome, summary) = (Outcome::Stopped, Summary::default());
        recorder.take(&Event::Ended { run: 1, outcome, summary: Box::new(summary) });
        let key = recorder.key().clone();
        assert_eq!(recorder.finish(), None);
        key
    };
    let [same, other] = [0, 1 << 20].map(record);
    let mut window = on(&store, Experiment::default());
    for (key, is_said) in [(same, false), (other, true)] {
        ask(&mut window, RunsAction::Open(key));
        until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.experiment.title == "Tiny"));
        until(&mut window, |app| app.state.shown_run().is_some() && app.state.wanted.is_none());
        window.run_steps(3);
        assert_eq!(window.query_by_label_contains("Planned again: ").is_some(), is_said);
    }
}

fn double_click(window: &mut Window, row: &str) {
    for _ in 0..2 {
        window.get_by_role_and_label(Role::Button, row).click();
        window.step();
    }
}

#[test]
fn what_was_deleted_is_gone_with_the_window_and_what_was_brought_back_is_not() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    let keys = keys(&window);
    let kept = |key| store.path().join("runs").join(format!("{key}")).exists();
    for key in &keys {
        ask(&mut window, RunsAction::Delete(vec![key.clone()]));
        until(&mut window, |app| !app.state.runs.rows().iter().any(|row| row.run.key == *key));
    }
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    until(&mut window, |app| app.state.runs.rows().len() == 1);
    assert!(kept(&keys[0]) && kept(&keys[1]), "both can be brought back");
    close(window);
    assert!(!kept(&keys[0]) && kept(&keys[1]));
}

#[test]
fn a_search_leaves_no_run_picked_that_it_does_not_find() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let both = keys(&window);
    ask(&mut window, RunsAction::Pick(both));
    assert_eq!(app(&window).state.runs.picked().len(), 2);
    window.state_mut().as_mut().expect("drawn").view.run_search = "batch.micro=96".to_owned();
    until(&mut window, |app| app.state.runs.picked().len() == 1);
    assert_eq!(app(&window).state.runs.front().expect("picked").differs, "micro-batch 96");
    // What it took out comes back with its rows, unless others were picked since.
    let search = |window: &mut Window, words: &str| {
        window.state_mut().as_mut().expect("drawn").view.run_search = words.to_owned();
        window.run_steps(5);
        app(window).state.runs.picked().to_vec()
    };
    assert_eq!(search(&mut window, "").len(), 2);
    let found = search(&mut window, "batch.micro=96");
    ask(&mut window, RunsAction::Pick(Vec::new()));
    assert_eq!((found.len(), search(&mut window, "").len()), (1, 0));
}

#[test]
fn a_picked_run_that_a_search_hides_keeps_its_curves_and_comes_back_only_without_another_pick() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let both = keys(&window);
    let has_curves = |app: &App| app.state.shown_run().is_some_and(|run| run.last.is_some());
    ask(&mut window, RunsAction::Pick(vec![both[1].clone()]));
    until(&mut window, has_curves);
    let search = |window: &mut Window, words: &str| {
        window.state_mut().as_mut().expect("drawn").view.run_search = words.to_owned();
        window.run_steps(5);
    };
    search(&mut window, "batch.micro=96");
    assert!(app(&window).state.runs.picked().is_empty() && has_curves(app(&window)), "it is still shown");
    // Another is picked, and goes.
    ask(&mut window, RunsAction::Pick(vec![both[0].clone()]));
    ask(&mut window, RunsAction::Delete(vec![both[0].clone()]));
    until(&mut window, |app| app.state.runs.rows().len() == 1);
    search(&mut window, "");
    assert!(app(&window).state.runs.picked().is_empty());
}

/// The steps that the latest run has made.
fn done(app: &App) -> u64 {
    app.state.session.latest().and_then(|run| run.last).map_or(0, |step| step.step)
}

/// Begins a run that halts after every step, and has it make so many.
fn step_to(window: &mut Window, last: u64) {
    window.get_by_role_and_label(Role::Button, "Step").click();
    for steps in 1..last {
        until(window, |app| done(app) == steps);
        window.key_press(Key::F10);
    }
    until(window, |app| done(app) == last);
}

#[test]
fn a_run_that_goes_on_is_shown_from_its_first_step() {
    let store = folder();
    let mut window = on(&store, digits());
    step_to(&mut window, 6);
    let stop = |window: &mut Window| {
        window.get_by_role_and_label(Role::Button, "Stop").click();
        until(window, |app| app.state.runs.rows().first().is_some_and(|row| row.checkpoint().is_some()));
    };
    stop(&mut window);
    let first = app(&window).state.session.latest().expect("a run").train.loss.raw().values().to_vec();
    let key = keys(&window)[0].clone();
    let whole = |window: &mut Window, from: usize| {
        ask(window, RunsAction::Continue(key.clone()));
        until(window, |app| app.state.session.active().is_none() && done(app) == 12);
        let session = &app(window).state.session;
        let run = session.latest().expect("a run");
        let steps: Vec<f64> = (1..=12).map(f64::from).collect();
        assert_eq!((&run.train.steps, &run.test.steps), (&steps, &vec![4.0, 8.0, 12.0]), "went on from {from}");
        assert_eq!(run.train.loss.raw().values()[..first.len()], first);
        assert!(run.train.secs.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(session.all().filter(|run| run.kept.as_ref() == Some(&key)).count(), 1, "it is one run");
        run.label()
    };
    assert_eq!(whole(&mut window, 6), "Run 1");
    assert!(window.query_by_label_contains("Run 2").is_none());
}

#[test]
fn a_run_of_another_sitting_goes_on_with_its_curves() {
    let store = folder();
    let mut long = digits();
    long.run.steps = Some(40);
    let mut window = on(&store, long.clone());
    // Step by step: it cannot end before the window does.
    step_to(&mut window, 4);
    close(window);
    let mut window = on(&store, digits());
    until(&mut window, |app| app.state.runs.rows().iter().any(|row| row.checkpoint().is_some()));
    let key = keys(&window)[0].clone();
    ask(&mut window, RunsAction::Continue(key));
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    let run = app(&window).state.session.latest().expect("a run");
    assert_eq!(run.train.steps, (1..=40).map(f64::from).collect::<Vec<_>>());
    assert!(run.when.is_some() && run.step_secs().is_some_and(|secs| secs > 0.0));
}

#[test]
fn a_run_that_the_end_of_the_window_stopped_is_offered_at_the_next_start() {
    let store = folder();
    let mut long = digits();
    long.run.steps = Some(40);
    let mut window = on(&store, long);
    step_to(&mut window, 4);
    close(window);
    let mut window = on(&store, digits());
    until(&mut window, |app| app.state.runs.rows().iter().any(|row| row.checkpoint().is_some()));
    window.run_steps(2);
    assert!(window.query_by_label("Stopped at step 4 of 40: Run 1: Tiny").is_some());
    window.get_by_role_and_label(Role::Button, "Continue the interrupted run").click();
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    let run = app(&window).state.session.latest().expect("a run");
    assert_eq!(run.train.steps, (1..=40).map(f64::from).collect::<Vec<_>>());
}

#[test]
fn a_run_that_was_interrupted_before_it_saved_anything_is_named_at_the_next_start() {
    let store = folder();
    let recording =
        Recording { folder: store.path().to_owned(), origin: Origin::Window, is_forced: false, continued: None };
    let recorder = Recorder::new(recording);
    let plan = Plan::of(&digits(), &Machine::nominal()).expect("a plan");
    recorder.take(&Event::Started { run: 1, plan: Arc::new(plan) });
    recorder.take(&Event::Evaluating { step: 0 });
    assert_eq!(recorder.finish(), None);
    let mut window = on(&store, digits());
    until(&mut window, |app| !app.state.runs.rows().is_empty());
    window.run_steps(2);
    let steps = app(&window).state.runs.rows()[0].run.total_steps;
    let words = format!("Interrupted at step 0 of {steps}, before its first checkpoint: Run 1: Tiny");
    assert!(window.query_by_label(&words).is_some());
    assert!(window.query_by_label("Continue the interrupted run").is_none(), "there is nothing to go on from");
}

#[test]
fn undo_brings_a_deleted_run_back_once_later_changes_are_undone() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    let undo = |window: &mut Window| {
        window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
        window.run_steps(3);
    };
    let key = keys(&window)[0].clone();
    ask(&mut window, RunsAction::Delete(vec![key.clone()]));
    until(&mut window, |app| app.state.runs.rows().len() == 1);
    undo(&mut window);
    until(&mut window, |app| app.state.runs.picked() == std::slice::from_ref(&key));
    assert!(app(&window).state.runs.deletions.is_empty() && app(&window).state.runs.rows().len() == 2);
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    window.run_steps(2);
    ask(&mut window, RunsAction::Delete(vec![key]));
    until(&mut window, |app| app.state.runs.rows().len() == 1);
    window.get_by_role_and_label(Role::Slider, "Width").increment_accesskit();
    window.run_steps(2);
    undo(&mut window);
    assert_eq!(app(&window).state.document.experiment.model.width, 32, "what was done last is undone first");
    assert!(!app(&window).state.runs.deletions.is_empty());
    undo(&mut window);
    until(&mut window, |app| app.state.runs.rows().len() == 2);
    assert_eq!(app(&window).state.document.experiment.batch.micro, 96);
    undo(&mut window);
    assert_eq!(app(&window).state.document.experiment, digits());
}

#[test]
fn runs_of_the_same_settings_are_told_apart_by_when_they_began() {
    let store = folder();
    let mut window = on(&store, digits());
    train(&mut window);
    std::thread::sleep(std::time::Duration::from_secs(1));
    train(&mut window);
    show(&mut window, Pane::Runs);
    let told = |app: &App| -> BTreeSet<String> { app.state.runs.rows().iter().map(|row| row.whole_name()).collect() };
    assert_eq!(told(app(&window)).len(), 2, "{:?}", told(app(&window)));
    assert!(app(&window).state.runs.rows().iter().all(|row| row.differs.starts_with("began ")));
    let all = keys(&window);
    ask(&mut window, RunsAction::Compare(all.clone()));
    until(&mut window, |app| app.state.compared.is_some());
    let compared = &app(&window).state.compared.as_ref().expect("there").comparison.subjects;
    assert_ne!(compared[0].name, compared[1].name);
    // In another session both are points.
    close(window);
    let mut window = on(&store, digits());
    ask(&mut window, RunsAction::Pick(all));
    until(&mut window, |app| app.state.session.all().count() == 2);
    let session = &app(&window).state.session;
    let names: BTreeSet<String> = session.all().map(|run| run.name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[cfg(unix)]
#[test]
fn a_signal_closes_the_window_during_a_run_without_a_question() {
    use signal_hook::{consts::SIGUSR1, low_level::raise};

    let store = folder();
    let mut long = digits();
    long.run.steps = Some(1_000_000);
    let mut window = on(&store, long);
    let signals = crate::closing::Closing::listen(&[SIGUSR1], || ());
    let drawn = window.state_mut().take().expect("drawn");
    *window.state_mut() = Some(drawn.closed_by(signals));
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.active().and_then(|run| run.last).is_some_and(|last| last.step > 5));
    assert!(!app(&window).state.closing);
    raise(SIGUSR1).expect("raised");
    window.step();
    let asked = |command: &egui::ViewportCommand| *command == egui::ViewportCommand::Close;
    let commands = window.output().viewport_output.values().flat_map(|output| &output.commands);
    assert!(commands.into_iter().any(asked), "the window is asked to close");
    assert!(app(&window).state.closing && app(&window).state.dialog.is_none());
    close(window);
    let kept = Store::open(store.path()).expect("a store");
    let run = kept.list().expect("runs").remove(0);
    assert_eq!(run.state, RunState::Stopped);
    assert!(kept.files(&run.key).join("last.safetensors").is_file(), "its checkpoint is saved");
}

#[test]
fn a_name_that_another_program_gives_is_followed_everywhere() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    train(&mut window);
    until(&mut window, |app| app.state.runs.rows().len() == 3);
    let [own, _, other] = keys(&window).try_into().expect("three runs");
    ask(&mut window, RunsAction::Pick(vec![other.clone(), own.clone()]));
    until(&mut window, |app| app.state.session.all().count() == 2);
    let mut another = Store::open(store.path()).expect("a store");
    another.rename(&own, "mine").expect("named");
    another.rename(&other, "theirs").expect("named");
    let name = |app: &App, key| {
        let run = app.state.session.all().find(|run| run.kept.as_ref() == Some(key));
        run.and_then(|run| run.own_name.clone())
    };
    until(&mut window, |app| name(app, &own).is_some() && name(app, &other).is_some());
    assert_eq!(name(app(&window), &own).as_deref(), Some("mine"));
    window.run_steps(2);
    assert!(window.query_by_label("Run 3: mine").is_some(), "the bottom bar says it");
    another.rename(&own, "").expect("taken away");
    until(&mut window, |app| name(app, &own).is_none());
    // A name that is given here stays, regardless of what was read before.
    ask(&mut window, RunsAction::Name(own.clone(), "here".to_owned()));
    for _ in 0..20 {
        window.step();
        assert_eq!(name(app(&window), &own).as_deref(), Some("here"));
    }
}

#[test]
fn looking_through_runs_leaves_no_drafts_and_loses_no_edits() {
    let (store, _) = two_runs();
    let mut window = on_state(&store, PersistedState::default());
    let both = keys(&window);
    let open = |window: &mut Window, index| {
        window.state_mut().as_mut().expect("drawn").sender.send(crate::command::Action::OpenShipped(index));
        window.run_steps(3);
        assert_eq!(app(window).state.dialog, None);
    };
    let load = |window: &mut Window, key: &RunKey, micro| {
        ask(window, RunsAction::Load(key.clone()));
        until(window, |app| app.state.document.experiment.batch.micro == micro && app.state.wanted.is_none());
    };
    let drafts = |window: &Window| app(window).state.drafts.iter().map(|d| d.experiment.clone()).collect::<Vec<_>>();
    load(&mut window, &both[0], 96);
    load(&mut window, &both[1], 64);
    open(&mut window, 1);
    assert!(drafts(&window).is_empty(), "the runs have their settings");
    // What was changed by hand is kept, though runs were looked at since; with its steps back.
    let written = app(&window).state.document.experiment.clone();
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    window.run_steps(2);
    let edited = app(&window).state.document.experiment.clone();
    load(&mut window, &both[0], 96);
    load(&mut window, &both[1], 64);
    open(&mut window, 2);
    assert_eq!(drafts(&window), std::slice::from_ref(&edited));
    window.state_mut().as_mut().expect("drawn").sender.send(crate::command::Action::OpenDraft(0));
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment, edited);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(2);
    assert_eq!(app(&window).state.document.experiment, written);
    // What is made of the settings of a run that no preset has the title of is asked about: it would be no draft of a preset.
    load(&mut window, &both[0], 96);
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    window.run_steps(2);
    window.state_mut().as_mut().expect("drawn").sender.send(crate::command::Action::OpenShipped(2));
    window.run_steps(3);
    assert_eq!(app(&window).state.dialog, Some(Dialog::Unsaved(Then::OpenShipped(2))));
}
