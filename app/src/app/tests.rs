//! The window as its user meets it: controls by their names, with the real planner and the real trainer.

mod devices;
mod edges;
mod files;
mod frames;
mod gallery;
mod keys;
mod messages;
mod models;
mod names;
mod numbers;
mod paging;
mod pictures;
mod pictures_mixed;
mod pictures_over;
mod plots;
mod point_names;
mod points;
mod reach;
mod reading;
mod run_menus;
mod runs;
mod runs_again;
mod runs_deleted;
mod runs_opened;
mod runs_pane;
mod runs_times;
mod starting;
mod steps_back;
mod stillness;
mod tables;
mod takeaway;
mod texts;
mod timeline_words;
mod tips;
mod try_out;
mod words;

use std::{rc::Rc, time::Instant};

use eframe::egui::{Key, Modifiers, Role, Theme, vec2};
use egui_kittest::{Harness, kittest::Queryable};
use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{DataKind, Precision, preset},
    plan::Plan,
    train::Outcome,
};

use super::*;
use crate::{
    command::UiCommand,
    panels::pane::Pane,
    session::Status,
    state::{Dialog, Notice, Then},
    view::LayerColumn,
};

type Window = Harness<'static, Option<App>>;

/// A window on an experiment, its first prediction made.
fn window(experiment: Experiment) -> Window {
    let persisted = PersistedState { experiment: Some(experiment), ..PersistedState::default() };
    let mut window = opened(persisted, None);
    until(&mut window, |app| app.state.plan().is_some() || app.state.prediction.obstacle.is_some());
    window
}

fn opened(persisted: PersistedState, open: Option<PathBuf>) -> Window {
    opened_on(Rc::new(tempfile::tempdir().expect("a folder")), persisted, open)
}

/// A window whose runs are kept in `store`, which is there as long as the window.
fn opened_on(store: Rc<tempfile::TempDir>, persisted: PersistedState, open: Option<PathBuf>) -> Window {
    let mut persisted = Some(persisted);
    let builder = Harness::builder().with_size(vec2(1280.0, 800.0)).with_step_dt(1.0 / 60.0);
    let ui = move |ui: &mut egui::Ui, app: &mut Option<App>| {
        let files = || FileDialogs::none(ui.ctx().clone());
        let new = || {
            let persisted = persisted.take().unwrap_or_default();
            App::new(ui.ctx(), files(), persisted, Ok(store.path().to_owned()), open.as_deref()).expect("threads start")
        };
        let app = app.get_or_insert_with(new);
        app.logic(ui.ctx());
        app.ui(ui);
    };
    builder.with_context_setup(theme::install).build_ui_state(ui, None)
}

fn app(window: &Window) -> &App {
    window.state().as_ref().expect("the window was drawn")
}

/// Between two frames while something is waited for: a window draws no sooner, and the trainer needs its cores.
const FRAME: Duration = Duration::from_millis(10);

/// Draws frames until `done`.
fn until(window: &mut Window, done: impl Fn(&App) -> bool) {
    let start = Instant::now();
    // What was asked for is done at the start of the next frame: before that, all is as it was.
    window.step();
    loop {
        window.step();
        if done(app(window)) {
            window.step();
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain");
        std::thread::sleep(FRAME);
    }
}

/// Draws frames until the machine is measured and what else fits is known and drawn: no answer is on its way that would
/// change what a click meets.
fn settle(window: &mut Window) {
    until(window, |app| app.state.machine.version() > 0 && app.services.planner.is_at_rest());
    window.run_steps(2);
}

/// Opens what is folded away in the experiment's pane.
fn unfold(window: &mut Window) {
    for name in ["More about memory", "Trained parameters", "More about the data", "More about the optimizer"] {
        if let Some(heading) = window.query_by_label_contains(name) {
            heading.click_accesskit();
        }
    }
    window.run_steps(30);
}

fn digits() -> Experiment {
    let mut experiment = Experiment { title: "Tiny".to_owned(), ..Experiment::default() };
    experiment.model.width = 32;
    (experiment.run.steps, experiment.run.evaluate_every) = (Some(12), 4);
    experiment
}

fn planned_micro(app: &App) -> Option<usize> {
    app.state.plan().map(|plan| plan.experiment.batch.micro)
}

#[test]
fn a_control_changes_the_prediction_and_undo_takes_it_back() {
    let mut window = window(digits());
    let before = app(&window).state.plan().expect("a plan").peak.live;
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    until(&mut window, |app| planned_micro(app) == Some(96));
    assert!(app(&window).state.plan().expect("a plan").peak.live > before);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    until(&mut window, |app| planned_micro(app) == Some(64));
    assert_eq!(app(&window).state.plan().expect("a plan").peak.live, before);
    for (modifiers, key) in [(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z), (Modifiers::COMMAND, Key::Y)] {
        window.key_press_modifiers(modifiers, key);
        until(&mut window, |app| planned_micro(app) == Some(96));
        window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
        until(&mut window, |app| planned_micro(app) == Some(64));
    }
}

#[test]
fn a_choice_is_made_in_its_list_and_shows_only_the_controls_that_matter() {
    let mut window = window(digits());
    assert!(window.query_by_label("Kernel").is_none());
    window.get_by_role_and_label(Role::ComboBox, "Kind").click();
    window.run_steps(3);
    window.get_by_label("CNN").click();
    until(&mut window, |app| app.state.plan().is_some_and(|p| p.layers.iter().any(|l| l.path.contains("conv"))));
    assert!(window.query_all_by_label("Kernel").next().is_some());
}

#[test]
fn pointing_at_a_control_tells_what_its_neighbours_would_change() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Slider, "Width").hover();
    until(&mut window, |app| {
        let neighbours = app.state.prediction.neighbours.as_ref();
        neighbours.is_some_and(|n| n.control == "model.width" && n.answer.is_some())
    });
    window.run_steps(2);
    assert!(window.query_by_label("One notch less, 24:").is_some());
    assert!(window.query_by_label("One notch more, 48:").is_some());
}

#[test]
fn a_run_goes_from_the_button_to_its_point_and_its_memory_stays_below_what_was_predicted() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Button, "Train").click();
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    let run = app(&window).state.session.latest().expect("a run");
    assert!(matches!(run.status, Status::Ended(Outcome::Finished)), "{:?}", run.status);
    assert_eq!((run.train.steps.len(), run.test.steps.len()), (12, 3));
    assert!(run.peak_load > Bytes::ZERO && run.peak_load <= run.predicted && run.point().is_some());
    assert!(window.query_by_label("finished").is_some());
    let result = format!("{}, peak {} measured", run.result().split(',').next().expect("a score"), run.peak_load);
    let log = &app(&window).state.log.entries;
    assert!(
        log.iter().any(|entry| entry.text.contains(" finished after 12 steps: best ") && entry.text.ends_with(&result))
    );
}

#[test]
fn a_run_can_be_begun_step_by_step_and_stopped() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Button, "Step").click();
    let steps = |app: &App| app.state.session.latest().and_then(|run| run.last).map_or(0, |step| step.step);
    until(&mut window, |app| steps(app) == 1);
    until(&mut window, |app| matches!(app.state.session.latest().map(|r| &r.status), Some(Status::Paused)));
    window.key_press(Key::F10);
    until(&mut window, |app| steps(app) == 2);
    window.get_by_role_and_label(Role::Button, "Stop").click();
    until(&mut window, |app| app.state.session.active().is_none());
    let status = &app(&window).state.session.latest().expect("a run").status;
    assert!(matches!(status, Status::Ended(Outcome::Stopped)), "{status:?}");
}

#[test]
fn what_does_not_fit_is_refused_with_changes_that_would_and_trains_anyway_only_to_the_line() {
    let mut experiment = digits();
    experiment.model.width = 256;
    experiment.batch.micro = 512;
    experiment.budget = Bytes::mib(2);
    let mut window = window(experiment);
    until(&mut window, |app| !app.state.prediction.options.nearest.is_empty());
    assert!(app(&window).state.why_no_training().is_some_and(|why| why.contains("does not fit")));
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    window.run_steps(3);
    assert!(app(&window).state.session.runs().is_empty());
    window.get_by_role_and_label(Role::Button, "Train anyway").click();
    until(&mut window, |app| app.state.notice.is_some());
    assert!(matches!(app(&window).state.notice, Some(Notice::Run(Outcome::OverBudget(_)))));
    assert!(window.query_by_label("Stopped at the budget.").is_some());
    settle(&mut window);
    let advice = app(&window).state.prediction.options.nearest[0].clone();
    let name = crate::advice::words(&advice);
    let buttons: Vec<_> = window.get_all_by_role_and_label(Role::Button, &name).collect();
    buttons[0].click();
    drop(buttons);
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.fits()));
    assert_eq!(app(&window).state.document.experiment, advice.experiment);
    assert!(app(&window).state.why_no_training().is_none());
    assert!(app(&window).state.notice.is_none(), "what would fit was told of other settings");
}

#[test]
fn a_line_is_filled_by_one_click() {
    let mut window = window(Experiment { budget: Bytes::mib(6), ..digits() });
    settle(&mut window);
    let fill = app(&window).state.prediction.options.fill.clone().expect("there is room");
    let before = app(&window).state.document.experiment.batch.micro;
    window.get_by_role_and_label(Role::Button, "Fill the budget").click();
    until(&mut window, |app| app.state.document.experiment == fill.experiment && app.state.plan().is_some());
    until(&mut window, |app| app.state.prediction.options.fill.is_none());
    assert!(fill.experiment.batch.micro > before && app(&window).state.plan().is_some_and(|plan| plan.fits()));
    assert!(window.query_by_label("Fill the budget").is_none(), "it is full");
}

#[test]
fn a_preset_opens_by_its_path_and_a_bad_one_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (good, bad) = (folder.path().join("good.toml"), folder.path().join("bad.toml"));
    let experiment = Experiment { precision: Precision::Bf16Mixed, ..digits() };
    preset::write(&good, &experiment).expect("writes");
    std::fs::write(&bad, "version = 1\n[batch]\nmicro = \"many\"\n").expect("writes");
    let mut window = opened(PersistedState::default(), Some(good.clone()));
    until(&mut window, |app| app.state.plan().is_some());
    assert_eq!(app(&window).state.document.experiment, experiment);
    assert_eq!(
        (app(&window).state.document.path.clone(), app(&window).state.recent.files.clone()),
        (Some(good.clone()), vec![good])
    );
    window.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::O);
    window.run_steps(3);
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.run_steps(1);
    window.get_by_label("Path").type_text(&bad.display().to_string());
    window.run_steps(2);
    window.get_by_role_and_label(Role::Button, "Open").click();
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment, experiment);
    assert!(app(&window).state.log.entries.iter().any(|entry| entry.text.contains("batch.micro")));
}

#[test]
fn changes_are_asked_about_before_another_experiment_takes_their_place() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Slider, "Accumulation").increment_accesskit();
    window.run_steps(2);
    window.key_press_modifiers(Modifiers::COMMAND, Key::N);
    window.run_steps(3);
    assert!(window.query_by_label("Save the changes?").is_some());
    window.get_by_label("Cancel").click();
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment.batch.accumulation, 2);
    window.key_press_modifiers(Modifiers::COMMAND, Key::N);
    window.run_steps(3);
    window.get_by_label("Don't save").click();
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment, Experiment::default());
    assert!(!app(&window).state.document.history.can_undo());
}

#[test]
fn the_theme_changes_and_is_remembered() {
    let mut window = window(digits());
    assert_eq!(window.ctx.theme(), Theme::Dark);
    window.get_by_label("Light theme").click();
    window.run_steps(3);
    assert_eq!(window.ctx.theme(), Theme::Light);
    let text = serde_json::to_string(&app(&window).persisted()).expect("plain data");
    let again: PersistedState = serde_json::from_str(&text).expect("as written");
    assert_eq!(again.view.theme, egui::ThemePreference::Light);
    assert_eq!(again.experiment.as_ref(), Some(&app(&window).state.document.experiment));
    assert!(again.layout.is_some_and(|layout| layout.is_whole()));
}

#[test]
fn the_table_of_layers_sorts_by_the_heading_that_is_clicked() {
    let mut window = window(digits());
    window.get_by_label("Sort by parameters").click();
    window.run_steps(2);
    let sort = app(&window).view.layers;
    assert_eq!((sort.column, sort.falling), (LayerColumn::Parameters, true));
    window.get_by_label("Sort by parameters").click();
    window.run_steps(2);
    assert!(!app(&window).view.layers.falling);
}

#[test]
fn a_pin_shows_the_difference_to_it() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Button, "Pin").click();
    window.run_steps(3);
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    until(&mut window, |app| planned_micro(app) == Some(96));
    assert!(window.query_by_label_contains("against the pin of ").is_some());
    window.get_by_role_and_label(Role::Button, "Unpin").click();
    window.run_steps(3);
    assert!(app(&window).state.pin.is_none());
}

#[test]
fn gradient_norm_and_learning_rate_are_drawn_from_the_steps_of_the_run() {
    let mut experiment = digits();
    experiment.optimizer.clip_norm = 0.5;
    let mut window = window(experiment);
    window.state_mut().as_mut().expect("drawn").layout.set_shown(Pane::Gradients, true);
    window.run_steps(2);
    assert!(window.query_by_label_contains("the learning rate of every step").is_some());
    window.get_by_role_and_label(Role::Button, "Train").click();
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    window.run_steps(3);
    for figure in ["Gradient norm plot", "Learning rate plot"] {
        assert!(window.query_by_role_and_label(Role::Figure, figure).is_some(), "{figure}");
    }
    assert!(window.query_by_label("clipped at 0.5").is_some());
    let run = app(&window).state.session.latest().expect("a run");
    let last = run.last.expect("a step");
    assert_eq!(run.train.gradient_norm.raw().values().len(), 12);
    assert_eq!(run.train.gradient_norm.raw().last(), Some(last.gradient_norm as f32));
    assert_eq!(run.train.learning_rate.last(), Some(last.learning_rate as f32));
    assert!(last.gradient_norm > 0.0 && last.learning_rate > 0.0);
}

#[test]
fn every_pane_draws_without_a_run_and_after_one() {
    let mut window = window(digits());
    let visit = |window: &mut Window| {
        for pane in Pane::ALL.iter().copied() {
            window.state_mut().as_mut().expect("drawn").layout.set_shown(pane, true);
            window.run_steps(2);
        }
    };
    visit(&mut window);
    window.get_by_role_and_label(Role::Button, "Train").click();
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    visit(&mut window);
    window.key_press(Key::F1);
    window.run_steps(3);
    assert!(window.query_by_label("Keys").is_some());
}

#[test]
fn a_pin_and_a_step_of_undo_keep_the_whole_timeline_for_before_and_after() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    until(&mut window, |app| planned_micro(app) == Some(96));
    window.get_by_role_and_label(Role::Button, "Compare").click();
    window.run_steps(3);
    window.get_by_label("Before micro-batch 64 → 96").click();
    until(&mut window, |app| app.state.pin.as_ref().is_some_and(|pin| pin.experiment.batch.micro == 64));
    assert_eq!(app(&window).state.document.experiment.batch.micro, 96, "comparing changes nothing");
    let figure = |window: &Window, plan: &Plan| {
        let name = format!("peak {}, budget", plan.timeline(plan.peak_pass).peak());
        window.query_by_label_contains(&name).is_some()
    };
    let (pin, plan) =
        (app(&window).state.pin.clone().expect("held"), app(&window).state.plan().expect("there").clone());
    assert!(figure(&window, &plan) && !figure(&window, &pin));
    window.get_by_role_and_label(Role::Button, "Before").click();
    window.run_steps(3);
    assert!(figure(&window, &pin) && !figure(&window, &plan));
}
