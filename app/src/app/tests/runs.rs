//! Kept runs: found in the next window, looked at, opened as they were, named, deleted and brought back, compared.

use egui_kittest::kittest::NodeT;
use plimsoll_engine::store::{RunKey, RunState, Store, StoredRun};

use std::collections::BTreeSet;

use eframe::egui::{Pos2, Rect};

use super::{
    pictures::{SCALES, SIZES, assert_none, judge, pieces, point_at_what_is_cut},
    *,
};
use crate::{
    command::{Action, RunsAction},
    naming::Names,
    view::{ComparePart, Sort},
};

type Folder = Rc<tempfile::TempDir>;

pub(super) fn folder() -> Folder {
    Rc::new(tempfile::tempdir().expect("a folder"))
}

pub(super) fn on(store: &Folder, experiment: Experiment) -> Window {
    on_state(store, PersistedState { experiment: Some(experiment), ..PersistedState::default() })
}

/// The same on a state of the last session.
pub(super) fn on_state(store: &Folder, persisted: PersistedState) -> Window {
    let mut window = opened_on(Rc::clone(store), persisted, None);
    until(&mut window, |app| app.state.plan().is_some() && app.state.runs.is_read);
    window
}

pub(super) fn train(window: &mut Window) {
    let before = app(window).state.session.runs().len();
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(window, |app| app.state.session.runs().len() > before);
    until(window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    until(window, |app| {
        app.state.runs.rows().iter().filter(|row| row.run.state == RunState::Finished).count() > before
    });
}

pub(super) fn close(mut window: Window) {
    window.state_mut().as_mut().expect("drawn").finish();
}

pub(super) fn keys(window: &Window) -> Vec<RunKey> {
    app(window).state.runs.rows().iter().map(|row| row.run.key.clone()).collect()
}

pub(super) fn ask(window: &mut Window, action: RunsAction) {
    window.state_mut().as_mut().expect("drawn").sender.send(Action::Runs(action));
    window.run_steps(3);
}

pub(super) fn show(window: &mut Window, pane: Pane) {
    window.state_mut().as_mut().expect("drawn").layout.set_shown(pane, true);
    window.run_steps(3);
}

/// Two runs of one title, made in a window that is closed by now.
pub(super) fn two_runs() -> (Folder, Vec<f32>) {
    let store = folder();
    let mut window = on(&store, digits());
    train(&mut window);
    let losses = app(&window).state.session.latest().expect("a run").train.loss.raw().values().to_vec();
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    until(&mut window, |app| planned_micro(app) == Some(96));
    train(&mut window);
    assert_eq!(keys(&window).len(), 2);
    close(window);
    (store, losses)
}

#[test]
fn a_run_of_another_sitting_is_looked_at_loaded_and_opened_as_it_was() {
    let (store, losses) = two_runs();
    let mut window = on(&store, Experiment::default());
    assert!(app(&window).state.session.runs().is_empty());
    let rows = app(&window).state.runs.rows();
    assert_eq!((rows.len(), rows[0].differs.as_str(), rows[1].differs.as_str()), (2, "micro-batch 96", ""));
    show(&mut window, Pane::Runs);
    // Picked by a key, its curves and its point are there, and the experiment stays.
    window.get_by_role_and_label(Role::ListBox, "Kept runs: 2").focus();
    window.run_steps(2);
    window.key_press(Key::End);
    until(&mut window, |app| app.state.shown_run().is_some());
    let app_now = app(&window);
    let run = app_now.state.shown_run().expect("looked at");
    assert_eq!(run.train.loss.raw().values(), losses, "the very losses that were measured");
    assert!(run.point().is_some() && matches!(run.status, Status::Kept(RunState::Finished)));
    assert_eq!(app_now.state.document.experiment, Experiment::default());
    window.run_steps(3);
    assert!(window.query_by_label("Memory against accuracy: 2 runs").is_some(), "the other one is there as well");
    window.get_by_role_and_label(Role::Button, "Load settings").click();
    until(&mut window, |app| app.state.document.experiment.title == "Tiny");
    assert_eq!(app(&window).state.document.experiment, digits());
    window.run_steps(3);
    let load = window.get_by_role_and_label(Role::Button, "Load settings");
    assert!(load.accesskit_node().is_disabled(), "they are the present ones");
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment, Experiment::default());
    // A click looks at a run and changes nothing; Enter opens it as it was, and undo takes that back.
    window.get_by_role_and_label(Role::Button, "Run 2: micro-batch 96, Tiny").click();
    let is_looked_at = |app: &App| app.state.shown_run().is_some_and(|run| run.experiment().batch.micro == 96);
    until(&mut window, is_looked_at);
    window.run_steps(5);
    assert!(app(&window).state.wanted.is_none());
    assert_eq!(app(&window).state.document.experiment, Experiment::default());
    window.key_press(Key::Enter);
    until(&mut window, |app| app.state.document.experiment.batch.micro == 96);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment, Experiment::default());
}

#[test]
fn runs_are_searched_sorted_starred_named_noted_and_tagged() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let shown = |window: &Window, name: &str| window.query_by_role_and_label(Role::Button, name).is_some();
    window.get_by_role_and_label(Role::TextInput, "Search runs").focus();
    window.run_steps(2);
    window.get_by_role_and_label(Role::TextInput, "Search runs").type_text("96 tiny");
    window.run_steps(3);
    assert!(shown(&window, "Run 2: micro-batch 96, Tiny") && !shown(&window, "Run 1: Tiny"));
    window.state_mut().as_mut().expect("drawn").view.run_search.clear();
    window.run_steps(3);
    let top = |window: &Window, a: &str, b: &str| {
        let place = |name| window.get_by_role_and_label(Role::Button, name).rect().top();
        place(a) < place(b)
    };
    window.get_by_label("Sort by peak").click();
    window.run_steps(3);
    assert!(top(&window, "Run 2: micro-batch 96, Tiny", "Run 1: Tiny"), "the largest first");
    window.get_by_label("Sort by peak").click();
    window.run_steps(3);
    assert!(top(&window, "Run 1: Tiny", "Run 2: micro-batch 96, Tiny"));
    for first_is_on_top in [true, false] {
        window.get_by_label("Sort by run").click();
        window.run_steps(3);
        assert_eq!(top(&window, "Run 1: Tiny", "Run 2: micro-batch 96, Tiny"), first_is_on_top, "by their numbers");
    }
    window.get_by_role_and_label(Role::Button, "Run 1: Tiny").click();
    window.run_steps(3);
    for (field, text) in [("Name of the kept run", "small"), ("Note", "the good one"), ("Tags", "b, a, b")] {
        window.get_by_role_and_label(Role::TextInput, field).focus();
        window.run_steps(2);
        window.get_by_role_and_label(Role::TextInput, field).type_text(text);
        window.run_steps(2);
        window.key_press(Key::Enter);
        window.run_steps(3);
    }
    window.get_by_role_and_label(Role::Button, "Star").click();
    until(&mut window, |app| app.state.runs.rows().iter().any(|row| row.run.is_starred));
    until(&mut window, |app| app.state.runs.rows().iter().any(|row| !row.run.tags.is_empty()));
    // Kept, and not only shown.
    let kept = Store::open(store.path()).expect("a store").list().expect("runs");
    let run = kept.iter().find(|run| run.is_starred).expect("one is starred");
    assert_eq!((run.name.as_deref(), run.note.as_str()), (Some("small"), "the good one"));
    assert_eq!(run.tags, ["a", "b"]);
}

#[test]
fn a_name_given_in_either_pane_is_the_name_in_all() {
    let store = folder();
    let mut window = on(&store, digits());
    train(&mut window);
    let key = keys(&window)[0].clone();
    ask(&mut window, RunsAction::Name(key, "thin".to_owned()));
    assert!(window.query_by_label("Run 1: thin").is_some(), "in the bottom bar");
    let session = &app(&window).state.session;
    assert_eq!(session.latest().expect("a run").name(), "Run 1: thin");
    window.state_mut().as_mut().expect("drawn").sender.send(Action::NameRun(1, "thinner".to_owned()));
    until(&mut window, |app| app.state.runs.rows()[0].run.name.as_deref() == Some("thinner"));
    // A run of another session follows as well.
    close(window);
    let mut window = on(&store, digits());
    let key = keys(&window)[0].clone();
    ask(&mut window, RunsAction::Pick(vec![key.clone()]));
    until(&mut window, |app| app.state.shown_run().is_some());
    ask(&mut window, RunsAction::Name(key, "thin again".to_owned()));
    let shown = app(&window).state.shown_run().expect("looked at");
    assert_eq!(shown.own_name.as_deref(), Some("thin again"));
}

#[test]
fn a_deleted_run_is_gone_and_undo_brings_it_back() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    window.get_by_role_and_label(Role::Button, "Run 1: Tiny").click();
    window.run_steps(3);
    window.key_press(Key::Delete);
    until(&mut window, |app| app.state.runs.rows().len() == 1);
    window.run_steps(2);
    window.get_by_role_and_label(Role::Button, "Bring the deleted runs back").click();
    until(&mut window, |app| app.state.runs.rows().len() == 2);
    window.run_steps(2);
    assert!(window.query_by_label("Bring the deleted runs back").is_none());
}

#[test]
fn a_deleted_run_leaves_the_screen_under_its_name_and_comes_back_to_it() {
    let store = folder();
    let mut window = on(&store, digits());
    train(&mut window);
    let key = keys(&window)[0].clone();
    ask(&mut window, RunsAction::Name(key.clone(), "thin".to_owned()));
    until(&mut window, |app| app.state.runs.rows()[0].run.name.is_some());
    show(&mut window, Pane::Runs);
    ask(&mut window, RunsAction::Delete(vec![key]));
    until(&mut window, |app| app.state.runs.rows().is_empty());
    window.run_steps(3);
    assert!(window.query_by_label("Deleted: Run 1: thin").is_some());
    assert!(app(&window).state.shown_run().is_none() && app(&window).state.session.all().next().is_none());
    assert!(window.query_by_label("Press Train to begin a run.").is_some());
    ask(&mut window, RunsAction::Restore);
    assert!(app(&window).state.shown_run().is_some_and(|run| run.point().is_some()));
    assert!(window.query_all_by_label("Run 1: thin").next().is_some());
}

#[test]
fn the_table_is_gone_through_by_keys() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let picked = |window: &Window| app(window).state.runs.picked().to_vec();
    let keys = keys(&window);
    window.get_by_role_and_label(Role::ListBox, "Kept runs: 2").focus();
    window.run_steps(2);
    window.key_press(Key::ArrowDown);
    window.run_steps(3);
    assert_eq!(picked(&window), keys[..1]);
    window.key_press(Key::ArrowDown);
    window.run_steps(3);
    assert_eq!(picked(&window), keys[1..]);
    window.key_press_modifiers(Modifiers::SHIFT, Key::ArrowUp);
    window.run_steps(3);
    assert_eq!(picked(&window).len(), 2);
    window.key_press(Key::Enter);
    until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.last.is_some()) && app.state.wanted.is_none());
    assert_eq!(picked(&window).len(), 1);
}

#[test]
fn runs_and_the_present_settings_stand_beside_each_other() {
    let (store, _) = two_runs();
    let mut window = on(&store, Experiment { budget: Bytes::mib(3), ..digits() });
    show(&mut window, Pane::Compare);
    assert!(window.query_by_label_contains("press Compare there").is_some());
    let keys = keys(&window);
    ask(&mut window, RunsAction::Compare(keys.clone()));
    until(&mut window, |app| app.state.compared.is_some());
    let part = |window: &mut Window, part| {
        window.state_mut().as_mut().expect("drawn").view.compare = part;
        window.run_steps(3);
    };
    // What is saved is what is seen: the menu has a picture where the part is a chart.
    let pictures = |window: &mut Window| {
        window.get_by_label("Take away: Compare runs").click();
        window.run_steps(4);
        let count = window.query_all_by_label("Save as PNG…").count();
        assert_eq!(window.query_all_by_label("Save data as CSV…").count(), 1, "the menu is open");
        window.key_press(Key::Escape);
        window.run_steps(4);
        count
    };
    part(&mut window, ComparePart::Settings);
    assert_eq!(pictures(&mut window), 0);
    let compared = app(&window).state.compared.as_ref().expect("there");
    assert_eq!(compared.comparison.settings.iter().map(|row| row.key).collect::<Vec<_>>(), ["batch.micro"]);
    assert!(
        window.query_by_label("micro-batch").is_some()
            && window.query_all_by_label("Run 2: micro-batch 96").count() > 0
    );
    part(&mut window, ComparePart::Step);
    assert_eq!(pictures(&mut window), 1);
    assert!(window.query_by_label_contains("Memory of one step, peaks: ").is_some());
    part(&mut window, ComparePart::Curves);
    assert!(window.query_by_label("Compared loss plot").is_some());
    part(&mut window, ComparePart::Alive);
    assert!(app(&window).state.compared.as_ref().is_some_and(|compared| !compared.comparison.alive.is_empty()));
    ask(&mut window, RunsAction::CompareWithPresent(keys[1].clone()));
    until(&mut window, |app| {
        let compared = app.state.compared.as_ref();
        compared.is_some_and(|c| c.comparison.settings.iter().any(|row| row.key == "budget") && c.runs[1].is_none())
    });
}

#[test]
fn closing_the_window_during_a_run_keeps_what_it_did() {
    let store = folder();
    let mut long = digits();
    long.run.steps = Some(1_000_000);
    let mut window = on(&store, long);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.active().and_then(|run| run.last).is_some_and(|last| last.step > 5));
    close(window);
    let kept = Store::open(store.path()).expect("a store");
    let run = kept.list().expect("runs").remove(0);
    assert_eq!(run.state, RunState::Stopped);
    assert!(run.steps > 5 && kept.series(&run.key).expect("its series").steps.len() as u64 == run.steps);
}

#[test]
fn a_store_that_cannot_be_opened_is_said_and_the_window_trains_all_the_same() {
    let store = folder();
    std::fs::write(store.path().join("runs.db"), "no database at all, but a text that is long enough to be read")
        .expect("written");
    let persisted = PersistedState { experiment: Some(digits()), ..PersistedState::default() };
    let mut window = opened_on(store, persisted, None);
    until(&mut window, |app| app.state.plan().is_some() && app.state.runs.trouble.is_some());
    show(&mut window, Pane::Runs);
    assert!(window.query_all_by_label_contains("Runs are not kept: ").count() > 0);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
}

#[test]
fn what_of_a_damaged_store_is_missing_is_said_beside_what_is_shown() {
    let (store, _) = two_runs();
    // One byte of the first run's state: no program writes such a word.
    let path = store.path().join("runs.db");
    let mut bytes = std::fs::read(&path).expect("a store");
    let place = bytes.windows(8).rposition(|part| part == b"finished").expect("a state");
    bytes[place] = b'x';
    std::fs::write(&path, bytes).expect("written");
    let mut window = on(&store, digits());
    let said = |window: &Window| {
        window.query_all_by_label_contains("1 run of it cannot be read. The other one is shown").count()
    };
    window.run_steps(3);
    assert_eq!(said(&window), 1, "also where the pane of runs is behind another");
    show(&mut window, Pane::Runs);
    assert_eq!(keys(&window).len(), 1);
    assert_eq!(said(&window), 2, "in the message that goes, and in the pane");
}

#[test]
fn kept_runs_and_their_comparison_can_be_read_in_every_size_scale_and_theme() {
    let (store, _) = two_runs();
    let mut window = on(&store, Experiment { budget: Bytes::mib(3), ..digits() });
    let keys = keys(&window);
    ask(&mut window, RunsAction::Pick(keys.clone()));
    ask(&mut window, RunsAction::Compare(keys));
    until(&mut window, |app| app.state.compared.is_some() && app.state.shown_run().is_some());
    window.ctx.all_styles_mut(|style| style.animation_time = 0.0);
    let (mut all, mut known) = (BTreeSet::new(), BTreeSet::new());
    for (size, scale) in SIZES.into_iter().flat_map(|size| SCALES.map(|scale| (size, scale))) {
        let pixels = vec2(size[0], size[1]);
        let scale = crate::zoom::allowed(pixels, scale);
        window.set_pixels_per_point(scale);
        window.run_steps(2);
        window.set_size(pixels / scale);
        let screen = Rect::from_min_size(Pos2::ZERO, pixels / scale);
        for dark in [true, false] {
            let theme = if dark { egui::ThemePreference::Dark } else { egui::ThemePreference::Light };
            window.state_mut().as_mut().expect("drawn").view.theme = theme;
            let parts = [ComparePart::Settings, ComparePart::Curves, ComparePart::Step, ComparePart::Alive];
            for (pane, part) in parts
                .map(|part| (Pane::Compare, part))
                .into_iter()
                .chain([Pane::Runs, Pane::Tradeoff].map(|pane| (pane, parts[0])))
            {
                window.state_mut().as_mut().expect("drawn").view.compare = part;
                show(&mut window, pane);
                let mut faults = BTreeSet::new();
                judge(&pieces(&window), screen, &mut faults);
                point_at_what_is_cut(&mut window, &mut known, &mut faults);
                let place = format!("{pane:?} {part:?}, {} x {} at {scale}, dark {dark}", size[0], size[1]);
                all.extend(faults.into_iter().map(|fault| format!("{place}: {fault}")));
            }
        }
    }
    assert_none(&all);
}

#[test]
fn of_ten_thousand_runs_those_in_sight_are_drawn() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    let known = app(&window).state.runs.rows()[0].run.clone();
    let many = (0..10_000u64).map(|i| {
        let started = known.started - jiff::SignedDuration::from_secs(i as i64);
        let settings = vec![format!("batch.micro={}", 8 << (i % 5)), format!("run.seed={}", i % 7)];
        let best_test_accuracy = Some(i as f64 / 10_000.0);
        StoredRun { key: RunKey::new(started), started, settings, best_test_accuracy, ..known.clone() }
    });
    let many: Vec<StoredRun> = many.collect();
    show(&mut window, Pane::Runs);
    let start = Instant::now();
    let rows = crate::runs::rows(many, |_| None, &mut Names::default());
    let made = start.elapsed();
    window.state_mut().as_mut().expect("drawn").state.runs.read(rows);
    let start = Instant::now();
    window.step();
    let drawn = start.elapsed();
    let rows = || window.query_all_by_label_contains(", Tiny").count();
    assert!((3..60).contains(&rows()), "{} rows", rows());
    println!("10,000 rows: made in {made:?}, first frame in {drawn:?}");
    // The least accurate is the one that began first.
    let sort = Sort { column: crate::view::RunColumn::Accuracy, falling: true };
    let order = crate::runs::order(app(&window).state.runs.rows(), "seed 3 tiny", sort);
    assert!(order.len() > 1000 && order.windows(2).all(|pair| pair[0] > pair[1]));
}
