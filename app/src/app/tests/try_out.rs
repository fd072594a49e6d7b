//! The pane that tries a model: it tests, leafs through, answers a drawing and writes on, during a run as well, and by loaded
//! weights without any run.

mod sampling;
mod weights;

use eframe::egui::{Event, PointerButton, pos2};
use egui_kittest::kittest::{By, NodeT};
use plimsoll_engine::experiment::{DataKind, ModelKind, Run};

use super::{
    pictures,
    runs::{folder, on, show, train},
    *,
};
use crate::command::Action;

fn press(window: &mut Window, name: &str) {
    window.get_by_role_and_label(Role::Button, name).click();
    window.run_steps(2);
}

fn tested(window: &mut Window) {
    press(window, "Test");
    until(window, |app| app.state.trial.evaluation.is_some());
}

#[test]
fn the_test_set_is_leafed_through_by_what_was_answered() {
    let store = folder();
    let mut window = on(&store, digits());
    show(&mut window, Pane::TryOut);
    assert!(window.query_by_label_contains("Press Train to see how its model answers").is_some());
    train(&mut window);
    until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.kept.is_some()));
    tested(&mut window);
    let trial = &app(&window).state.trial;
    let evaluation = trial.evaluation.as_ref().expect("tested");
    let last = app(&window).state.session.latest().and_then(|run| run.summary).expect("it ended");
    assert_eq!(Some(evaluation.accuracy), last.test_accuracy, "the figures are the run's");
    assert!(evaluation.took.measured <= evaluation.took.predicted);
    let answers = evaluation.answers.as_ref().expect("classes");
    let wrong = answers.samples.iter().filter(|answer| !answer.is_right()).count();
    // A cell of the table leafs through its samples.
    let often = |at: &usize| answers.confused(*at, *at) > 1;
    let label = (0..10).find(often).expect("some class is learned");
    let (answer, times) = (label, answers.confused(label, label));
    press(&mut window, &format!("{label} answered as {answer}: {times} times"));
    until(&mut window, |app| !app.state.trial.samples.is_empty());
    assert!(window.query_by_label(&format!("All {times}")).is_some());
    press(&mut window, "Show all pairs of classes");
    press(&mut window, &format!("Wrong {wrong}"));
    until(&mut window, |app| app.state.trial.samples.len() > 8);
    window.run_steps(2);
    assert!(window.query_all_by_label_contains("Sample ").count() >= wrong.min(12));
    press(&mut window, "Next page");
    assert_eq!(app(&window).view.try_out.page, 1);
}

#[test]
fn a_test_under_way_says_so_and_how_far_it_is() {
    let store = folder();
    let mut window = on(&store, digits());
    show(&mut window, Pane::TryOut);
    train(&mut window);
    until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.kept.is_some()));
    window.run_steps(2);
    assert!(window.query_by_label_contains("Press Test to see what").is_some());
    // As it is while a long test goes on.
    let mut under_way = |tested| {
        let trial = &mut window.state_mut().as_mut().expect("drawn").state.trial;
        (trial.is_testing, trial.tested) = (true, tested);
        window.run_steps(2);
        assert!(window.query_by_label_contains("Press Test").is_none());
        assert!(window.query_by_label_contains("The test is under way. Here you will see what").is_some());
        window.query_by_label("Testing: 128 of 359 samples answered").is_some()
    };
    assert!(!under_way(None) && under_way(Some((128, 359))));
    let trial = &mut window.state_mut().as_mut().expect("drawn").state.trial;
    (trial.is_testing, trial.tested) = (false, None);
    window.run_steps(2);
    tested(&mut window);
    let trial = &app(&window).state.trial;
    assert!(!trial.is_testing && trial.tested.is_none());
}

#[test]
fn the_heads_of_the_classes_are_in_sight_in_the_least_window() {
    let store = folder();
    let mut experiment = digits();
    experiment.data.kind = DataKind::Shapes;
    (experiment.data.side, experiment.data.samples, experiment.data.classes) = (16, 400, 8);
    let mut window = on(&store, experiment);
    window.set_size(vec2(960.0, 600.0));
    show(&mut window, Pane::TryOut);
    train(&mut window);
    until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.kept.is_some()));
    tested(&mut window);
    window.run_steps(2);
    let (_, pane) = app(&window).layout.rects().into_iter().find(|(pane, _)| *pane == Pane::TryOut).expect("there");
    let pane = pane.expect("drawn");
    let names = app(&window).state.trial.evaluation.as_ref().expect("tested").class_names.clone();
    assert_eq!(names.len(), 8);
    for name in &names {
        let head = window.get_by_label(&format!("Answered as {name}")).rect();
        assert!(pane.contains_rect(head), "{name}: {head:?} in {pane:?}");
        assert!(head.height() > head.width() || name.len() < 6, "{name} is turned");
    }
    let first = window.get_by_label_contains(&format!("{0} answered as {0}:", names[0])).rect();
    assert!(pane.contains_rect(first), "a row of figures is in sight below them: {first:?}");
}

#[test]
fn a_drawing_is_answered_and_cleared() {
    let store = folder();
    let mut window = on(&store, digits());
    show(&mut window, Pane::TryOut);
    train(&mut window);
    until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.kept.is_some()));
    press(&mut window, "Your own");
    let square = window.get_by_label("Draw here with the pointer").rect();
    let (from, to) = (square.center_top() + vec2(0.0, 20.0), square.center_bottom() - vec2(0.0, 20.0));
    let button = |pos, pressed| Event::PointerButton {
        pos,
        button: PointerButton::Primary,
        pressed,
        modifiers: Modifiers::NONE,
    };
    for event in [Event::PointerMoved(from), button(from, true), Event::PointerMoved(to), button(to, false)] {
        window.event(event);
        window.step();
    }
    until(&mut window, |app| app.state.trial.reply.is_some());
    let (reply, _) = app(&window).state.trial.reply.as_ref().expect("answered");
    let picture = reply.picture.as_ref().expect("a picture");
    assert_eq!((reply.shares.len(), picture.width), (10, 8));
    assert!(picture.pixels.iter().any(|ink| *ink > 9) && !app(&window).view.try_out.strokes.is_empty());
    press(&mut window, "Clear");
    assert!(app(&window).view.try_out.strokes.is_empty());
    window.event(Event::PointerMoved(pos2(0.0, 0.0)));
    window.get_by_role_and_label(Role::TextInput, "Path of an image").focus();
    window.run_steps(2);
    window.get_by_role_and_label(Role::TextInput, "Path of an image").type_text("nowhere.png");
    window.run_steps(2);
    window.key_press(Key::Enter);
    until(&mut window, |app| app.state.trial.trouble.as_ref().is_some_and(|why| why.contains("nowhere.png")));
}

#[test]
fn beside_a_run_its_last_checkpoint_is_tried_and_the_run_keeps_its_line() {
    let store = folder();
    let mut experiment = digits();
    experiment.run.steps = Some(100_000);
    let mut window = on(&store, experiment);
    show(&mut window, Pane::TryOut);
    press(&mut window, "Train");
    until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.kept.is_some() && run.last.is_some()));
    let is_disabled =
        |window: &Window| window.get_by_role_and_label(Role::Button, "Test").accesskit_node().is_disabled();
    assert!(is_disabled(&window) && window.query_by_label_contains("The run has no checkpoint yet").is_some());
    press(&mut window, "Stop");
    until(&mut window, |app| app.state.session.active().is_none());
    tested(&mut window);
    // The next run saves as it goes.
    let mut edited = app(&window).state.document.experiment.clone();
    edited.run.save_every = 2;
    app(&window).sender.send(Action::Adopt(Box::new(edited)));
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.experiment.run.save_every == 2));
    press(&mut window, "Train");
    until(&mut window, |app| {
        app.state.session.active().and_then(|run| run.last).is_some_and(|last| last.step > 4)
            && app.state.shown_run().is_some_and(|run| run.kept.is_some())
    });
    tested(&mut window);
    assert!(app(&window).state.session.active().is_some(), "it trains on");
    let took = app(&window).state.trial.evaluation.as_ref().map(|evaluation| evaluation.took).expect("tested");
    assert!(took.measured <= took.predicted);
    press(&mut window, "Stop");
    until(&mut window, |app| app.state.session.active().is_none());
    let run = app(&window).state.session.latest().and_then(|run| run.summary).expect("it ended");
    assert!(run.measured.live <= run.predicted.live);
}

/// A decoder that sorts, trained for so many steps.
fn sorts(steps: u64) -> Experiment {
    let mut experiment = digits();
    experiment.model.kind = ModelKind::Gpt2;
    (experiment.model.width, experiment.model.depth, experiment.model.heads) = (16, 1, 2);
    (experiment.data.kind, experiment.data.length, experiment.data.vocabulary) = (DataKind::Sort, 4, 10);
    (experiment.data.samples, experiment.run.steps) = (400, Some(steps));
    experiment
}

#[test]
fn nothing_is_asked_of_a_model_that_cannot_answer_and_the_reason_is_shown() {
    let long = Experiment { run: Run { steps: Some(100_000), ..digits().run }, ..digits() };
    for (experiment, button, part) in [(sorts(100_000), "Write on", None), (long, "Show it", Some("Your own"))] {
        let store = folder();
        let mut window = on(&store, experiment);
        show(&mut window, Pane::TryOut);
        press(&mut window, "Train");
        until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.kept.is_some() && run.last.is_some()));
        window.run_steps(2);
        part.into_iter().for_each(|part| press(&mut window, part));
        window.state_mut().as_mut().expect("drawn").view.try_out.path = "somewhere.png".to_owned();
        window.run_steps(2);
        let place = |window: &Window| window.get_by_role_and_label(Role::Button, button).rect();
        let is_disabled =
            |window: &Window| window.get_by_role_and_label(Role::Button, button).accesskit_node().is_disabled();
        assert!(is_disabled(&window), "{button}");
        let reason = |window: &Window| window.query_all_by_label_contains("The run has no checkpoint yet").count();
        let before = reason(&window);
        window.hover_at(place(&window).center());
        window.run_steps(pictures::PATIENCE);
        assert!(before > 0 && reason(&window) > before, "{button}: said in the pane and on hover");
        press(&mut window, "Stop");
        until(&mut window, |app| app.state.session.active().is_none());
        window.run_steps(2);
        assert!(!is_disabled(&window), "{button}: it is saved now");
    }
}

#[test]
fn a_prompt_is_written_on_in_the_window() {
    let store = folder();
    let mut window = on(&store, sorts(3));
    show(&mut window, Pane::TryOut);
    train(&mut window);
    until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.kept.is_some()));
    window.get_by_role_and_label(Role::MultilineTextInput, "Prompt").focus();
    window.run_steps(2);
    window.get_by_role_and_label(Role::MultilineTextInput, "Prompt").type_text("3 1 2 0");
    window.run_steps(2);
    press(&mut window, "Write on");
    until(&mut window, |app| app.state.trial.wrote.is_some());
    let took = app(&window).state.trial.wrote.expect("it took memory");
    assert!(took.cached.is_some_and(|cached| cached.positions == 7), "{took:?}");
    window.run_steps(2);
    let shown = window.query_all_by_label_contains("key-value cache of 7 positions").count();
    assert!(shown > 0, "what the cache takes is shown");
    let cut = pictures::shortened(&pictures::pieces(&window));
    assert!(cut.iter().all(|(text, _)| !text.contains("Memory of this answer")), "whole where there is room: {cut:?}");
    let written = &app(&window).state.trial.written;
    assert_eq!((written.starts_with("3 1 2 0 "), written.split_whitespace().count()), (true, 8), "{written}");
}

#[test]
fn rows_of_a_table_are_leafed_through_with_what_was_answered() {
    let store = folder();
    for (label, words) in [("deadweight_t", "Off by (deadweight_t)"), ("type", "Unsure")] {
        let mut experiment = digits();
        experiment.data.kind = DataKind::Table;
        experiment.data.path = Some("shipped:ships.csv".into());
        (experiment.data.label, experiment.data.leave_out) = (label.to_owned(), "ship".to_owned());
        (experiment.batch.micro, experiment.run.steps) = (50, Some(3));
        let mut window = on(&store, experiment);
        show(&mut window, Pane::TryOut);
        train(&mut window);
        until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.kept.is_some()));
        tested(&mut window);
        if label == "type" {
            press(&mut window, "Samples");
        }
        until(&mut window, |app| app.state.trial.rows.len() >= 12);
        window.run_steps(2);
        assert!(window.query_by_label_contains(words).is_some());
        let trial = &app(&window).state.trial;
        let (index, reply) = trial.rows.iter().next().expect("a row");
        let row = reply.row.as_ref().expect("of a table");
        assert_eq!(reply.value.is_some(), label == "deadweight_t");
        assert!(trial.asked.contains(index) && row.columns.iter().all(|(name, _)| name != "ship"));
        let line = format!("built {}", row.columns.iter().find(|(name, _)| name == "built").expect("a column").1);
        assert!(window.query_all_by_label_contains(&line).next().is_some(), "{line}");
    }
}

#[test]
fn the_weights_of_a_kept_run_are_one_choice_away() {
    let store = folder();
    let mut window = on(&store, digits());
    let list = |window: &Window| {
        let node = window.get_by_label("Runs to take the weights of");
        (node.rect(), node.accesskit_node().is_disabled())
    };
    let (place, is_disabled) = list(&window);
    assert!(is_disabled, "there is none yet");
    train(&mut window);
    until(&mut window, |app| app.state.runs.rows().iter().any(|row| row.saved.is_some()));
    window.run_steps(3);
    assert_eq!(list(&window), (place, false), "nothing moves for it");
    window.get_by_label("Runs to take the weights of").click_accesskit();
    window.run_steps(3);
    let name = app(&window).state.runs.rows()[0].name();
    // The point of the run is named as well, and is not a button.
    window.get(By::new().role(Role::Button).label_contains(&format!("{name}, "))).click_accesskit();
    window.run_steps(3);
    let chosen = app(&window).state.document.experiment.weights.path.clone().expect("chosen");
    assert!(chosen.ends_with("last.safetensors"), "{}", chosen.display());
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.experiment.weights.path == Some(chosen.clone())));
}

#[test]
fn a_kept_run_teaches_another_model_by_two_clicks() {
    let store = folder();
    let mut window = on(&store, digits());
    train(&mut window);
    until(&mut window, |app| app.state.runs.rows().iter().any(|row| row.saved.is_some()));
    window.run_steps(3);
    window.get_by_label("Distillation").click_accesskit();
    window.run_steps(3);
    assert!(window.query_by_label("Temperature").is_none(), "nothing teaches yet");
    window.get_by_label("Runs that may teach").click_accesskit();
    window.run_steps(3);
    let name = app(&window).state.runs.rows()[0].name();
    window.get(By::new().role(Role::Button).label_contains(&format!("{name}, "))).click_accesskit();
    window.run_steps(3);
    let chosen = app(&window).state.document.experiment.distil.teacher.clone().expect("chosen");
    until(&mut window, |app| {
        let is_it = |plan: &plimsoll_engine::plan::Plan| plan.experiment.distil.teacher.as_ref() == Some(&chosen);
        app.state.plan().is_some_and(|plan| is_it(plan) && plan.layers.iter().any(|layer| layer.path == "teacher"))
    });
    window.run_steps(3);
    assert!(window.query_all_by_label_contains("Teacher's share").next().is_some());
    // Asked once, it is in no step; what it said is on the bar of the host, and can lie on a disk.
    let live = app(&window).state.plan().map(|plan| plan.steady.peak()).expect("a plan");
    assert!(window.query_all_by_label("Kept in").next().is_none());
    window.get_by_role_and_label(Role::ComboBox, "Asked").click_accesskit();
    window.run_steps(3);
    window.get_by_label("once, at the start").click_accesskit();
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.steady.peak() < live && plan.teach_secs > 0.0));
    window.run_steps(3);
    assert!(window.query_all_by_label("Kept in").next().is_some());
    assert!(window.query_all_by_label_contains("teacher's answers").next().is_some());
    train(&mut window);
    let run = app(&window).state.session.latest().expect("a run");
    assert!(matches!(run.status, Status::Ended(Outcome::Finished)), "{:?}", run.status);
    assert!(run.asked.is_none() && run.summary.is_some_and(|summary| summary.host.measured <= summary.host.predicted));
}

#[test]
fn a_preset_that_is_to_teach_is_trained_first_and_then_the_run_begins() {
    let store = folder();
    let presets = folder();
    let preset = presets.path().join("teacher.toml");
    let mut teacher = digits();
    (teacher.title, teacher.run.steps, teacher.run.epochs) = ("The larger".to_owned(), Some(4), None);
    teacher.model.width = 48;
    std::fs::write(&preset, plimsoll_engine::experiment::preset::to_text(&teacher)).expect("written");
    let mut taught = digits();
    taught.distil.teacher = Some(preset);
    let mut window = on(&store, taught);
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.resolved.to_train_first().is_some()));
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| {
        let runs = app.state.session.runs();
        runs.len() == 2 && matches!(runs[1].status, Status::Ended(Outcome::Finished))
    });
    let runs = app(&window).state.session.runs();
    assert_eq!((runs[0].experiment().model.width, runs[0].summary.map(|summary| summary.steps)), (48, Some(4)));
    let folder = runs[1].experiment().distil.teacher.clone().expect("taught");
    assert!(folder.join("last.safetensors").is_file(), "{}", folder.display());
}

#[test]
fn a_test_set_that_has_changed_since_the_run_is_told_of() {
    let place = tempfile::tempdir().expect("a folder");
    let letters = place.path().join("letters.txt");
    std::fs::write(&letters, "to be or not to be ".repeat(40)).expect("written");
    let store = folder();
    let mut experiment = digits();
    experiment.model.kind = ModelKind::Gpt2;
    (experiment.model.width, experiment.model.depth, experiment.model.heads) = (16, 1, 2);
    (experiment.data.kind, experiment.data.path, experiment.data.length) = (DataKind::Text, Some(letters.clone()), 8);
    (experiment.batch.micro, experiment.run.steps) = (4, Some(3));
    let mut window = on(&store, experiment);
    show(&mut window, Pane::TryOut);
    train(&mut window);
    until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.kept.is_some()));
    tested(&mut window);
    assert!(window.query_by_label_contains("the data have changed").is_none());
    std::fs::write(&letters, "to be or not to be ".repeat(60)).expect("written");
    press(&mut window, "Test again");
    until(&mut window, |app| app.state.trial.caution().is_some());
    window.run_steps(2);
    assert!(window.query_by_label_contains("⚠ the run learned from ").is_some());
}
