//! Memory against accuracy without a pointer: its points are gone through by keys, and each is named.

use egui_kittest::kittest::NodeT;
use plimsoll_engine::{
    experiment::QuantiseKind,
    hardware::Machine,
    train::{Event, Summary},
};

use super::{
    point_names,
    runs::{close, folder, on, show, train, two_runs},
    *,
};

/// A window with two points: kept runs of a window before it.
fn with_points() -> Window {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Tradeoff);
    assert!(app(&window).state.shown_run().is_none(), "none is looked at");
    assert!(window.query_by_label("Memory against accuracy: 2 runs").is_some(), "they are points all the same");
    window
}

fn shown(window: &Window) -> usize {
    app(window).state.shown_run().expect("one is looked at").experiment().batch.micro
}

fn press(window: &mut Window, key: Key) {
    window.key_press(key);
    window.run_steps(4);
}

/// The point of a run, as it is named.
fn name(window: &Window, micro: usize) -> String {
    let run = app(window).state.session.every().find(|run| run.experiment().batch.micro == micro).expect("a run");
    let best = run.best_accuracy.expect("tested");
    let own = run.name();
    format!("{own}, {}, {}", run.peak_load, crate::format::share(best))
}

#[test]
fn the_points_are_reached_by_tab_and_gone_through_by_arrows() {
    let mut window = with_points();
    let has_focus = |window: &Window| {
        let figure = window.query_all_by_role(Role::Figure);
        figure.into_iter().any(|node| {
            node.is_focused()
                && node.accesskit_node().label().is_some_and(|name| name.starts_with("Memory against accuracy"))
        })
    };
    let mut tabs = 0;
    while !has_focus(&window) {
        press(&mut window, Key::Tab);
        tabs += 1;
        assert!(tabs < 150, "the points are not stops of the Tab key");
    }
    // The larger batch takes more memory.
    press(&mut window, Key::Home);
    assert_eq!(shown(&window), 64);
    let label = format!("Memory against accuracy: 2 runs, at {}", name(&window, 64));
    assert!(window.query_by_label(&label).is_some(), "{label}");
    press(&mut window, Key::ArrowRight);
    assert_eq!(shown(&window), 96);
    press(&mut window, Key::ArrowRight);
    assert_eq!((shown(&window), has_focus(&window)), (96, true), "there is none past the last");
    press(&mut window, Key::ArrowLeft);
    assert_eq!(shown(&window), 64);
    press(&mut window, Key::End);
    assert_eq!(app(&window).state.document.experiment.batch.micro, 64, "looking changes nothing");
    press(&mut window, Key::Enter);
    until(&mut window, |app| app.state.document.experiment.batch.micro == 96);
    window.key_press_modifiers(Modifiers::SHIFT, Key::F10);
    window.run_steps(4);
    assert!(window.query_by_label("Rename").is_some(), "the menu of the point");
    press(&mut window, Key::Escape);
    assert!(window.query_by_label("Rename").is_none() && has_focus(&window));
}

#[test]
fn each_point_has_a_name_and_is_pressed_by_it() {
    let mut window = with_points();
    for micro in [64, 96, 64] {
        let name = name(&window, micro);
        window.get_by_role_and_label(Role::ListItem, &name).click_accesskit();
        window.run_steps(4);
        assert_eq!(shown(&window), micro, "{name}");
    }
}

#[test]
fn the_words_about_a_point_leave_the_field_of_its_name_free() {
    let mut window = with_points();
    for size in [[1280.0, 800.0], [960.0, 600.0]] {
        window.set_size(size.into());
        window.run_steps(3);
        for micro in [64, 96] {
            let name = name(&window, micro);
            let point = window.get_by_role_and_label(Role::ListItem, &name);
            point.click_accesskit();
            point.hover();
            window.run_steps(60);
            let words = window.get_by_label_contains("Click to look at it: its curves").rect();
            let field = window.get_by_role_and_label(Role::TextInput, "Name of the run").rect();
            assert!(!words.intersects(field) && words.bottom() < field.top(), "{size:?}: {words:?}, {field:?}");
        }
    }
}

#[test]
fn kept_runs_on_other_data_are_compared_when_their_data_are_chosen() {
    let (store, _) = two_runs();
    let has_list = |window: &Window| window.query_by_role_and_label(Role::ComboBox, "Runs compared").is_some();
    assert!(!has_list(&on(&store, digits())), "they are of these data");
    let mut other = digits();
    other.data.kind = DataKind::Shapes;
    let mut window = on(&store, other);
    let are_drawn = |window: &Window| window.query_by_label("Memory against accuracy: 2 runs").is_some();
    assert!(!are_drawn(&window) && window.query_by_label_contains("No run on these data was tested yet").is_some());
    assert!(has_list(&window));
    window.get_by_role_and_label(Role::ComboBox, "Runs compared").click();
    window.run_steps(3);
    window.get_by_label("digits").click();
    until(&mut window, |app| app.state.shown_run().is_some());
    assert!(are_drawn(&window), "the runs on the data that were chosen");
}

#[test]
fn runs_like_the_settings_are_compared_once_their_data_change_and_runs_like_the_one_that_is_looked_at() {
    let (store, _) = two_runs();
    let mut other = digits();
    other.data.kind = DataKind::Shapes;
    let mut window = on(&store, other.clone());
    train(&mut window);
    let compared = |window: &Window| {
        let (name, dots) = crate::panels::tradeoff::in_focus(&app(window).state).expect("points");
        (name.split(',').next().map(str::to_owned), dots.len())
    };
    assert_eq!(compared(&window), (Some("shapes".to_owned()), 1), "those of the run");
    let set = |window: &mut Window, experiment: &Experiment| {
        let app = window.state_mut().as_mut().expect("drawn");
        app.sender
            .send(crate::command::Action::Edit { control: "data.kind", experiment: Box::new(experiment.clone()) });
        until(window, |app| app.state.plan().is_some_and(|plan| plan.experiment.data == experiment.data));
    };
    set(&mut window, &digits());
    assert_eq!(compared(&window), (Some("digits".to_owned()), 2), "those of the settings");
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.experiment.data == other.data));
    assert_eq!(compared(&window), (Some("shapes".to_owned()), 1), "undo takes that back");
    let run = app(&window).state.session.every().find(|run| run.experiment().data == digits().data).expect("kept").key;
    window.state_mut().as_mut().expect("drawn").sender.send(crate::command::Action::ShowRun(run));
    window.run_steps(4);
    assert_eq!(compared(&window), (Some("digits".to_owned()), 2), "those of the run that is looked at");
}

#[test]
fn a_run_that_was_ended_at_its_budget_beats_no_other() {
    let mut window = window(digits());
    let plan = std::sync::Arc::new(Plan::of(&digits(), &Machine::nominal()).expect("a plan"));
    let session = &mut window.state_mut().as_mut().expect("drawn").state.session;
    for run in 1..=2 {
        session.receive(&Event::Started { run, plan: std::sync::Arc::clone(&plan) });
        let accuracy = if run == 1 { 0.9 } else { 0.5 };
        session.receive(&Event::Evaluated { step: 1, at_secs: 1.0, loss: 1.0, accuracy, errors: None });
        let summary = Box::new(Summary::default());
        session.receive(&Event::Ended { run, outcome: Outcome::Finished, summary });
    }
    session.all_mut().next().expect("the first").status = Status::KeptOverBudget;
    show(&mut window, Pane::Tradeoff);
    assert!(window.query_by_label("ended at its budget").is_some());
    assert!(window.query_by_label("beaten").is_none(), "the other is the best of the whole ones");
}

#[test]
fn a_run_without_a_point_says_why_it_has_none() {
    let mut window = with_points();
    window.get_by_role_and_label(Role::Button, "Step").click();
    until(&mut window, |app| app.state.session.latest().and_then(|run| run.last).is_some());
    window.run_steps(3);
    assert!(window.query_by_label_contains("It has no point yet").is_some());
    window.get_by_role_and_label(Role::Button, "Stop").click();
    until(&mut window, |app| app.state.session.active().is_none() && !app.state.session.runs().is_empty());
}

#[test]
fn what_the_model_of_a_kept_run_became_is_joined_to_its_point() {
    let store = folder();
    let mut experiment = digits();
    experiment.quantise.kind = QuantiseKind::After;
    let mut window = on(&store, experiment.clone());
    train(&mut window);
    let known = app(&window).state.session.latest().expect("a run").smaller;
    assert!(known.is_some());
    close(window);
    let window = on(&store, experiment);
    let kept: Vec<_> = app(&window).state.session.every().map(|run| run.smaller).collect();
    assert_eq!(kept, [known]);
    assert!(window.query_by_label_contains("hollow: the model alone").is_some());
}

/// Looks closer at a place of the picture.
fn zoom_in(window: &mut Window, at: egui::Pos2) {
    window.hover_at(at);
    window.run_steps(2);
    window.event(egui::Event::Zoom(8.0));
    window.run_steps(3);
}

fn place(window: &Window, micro: usize) -> Option<egui::Rect> {
    window.query_by_role_and_label(Role::ListItem, &name(window, micro)).map(|point| point.rect())
}

#[test]
fn a_view_follows_the_arrows_to_a_point_outside_it() {
    let mut window = with_points();
    let picture = window.get_by_label("Memory against accuracy: 2 runs").rect();
    let before = place(&window, 64).expect("in view");
    zoom_in(&mut window, before.center());
    let closer = place(&window, 64).expect("in view");
    assert!(place(&window, 96).is_none(), "the other is out of view");
    window.get_by_label("Memory against accuracy: 2 runs").focus();
    window.run_steps(3);
    press(&mut window, Key::Home);
    let stays = place(&window, 64).expect("in view");
    assert_eq!(stays, closer, "it is in view already");
    for (key, micro) in [(Key::ArrowRight, 96), (Key::ArrowLeft, 64)] {
        press(&mut window, key);
        assert_eq!(shown(&window), micro);
        let point = place(&window, micro).expect("the view follows");
        let edge = picture.right() - point.center().x;
        assert!(picture.contains_rect(point), "{point:?} in {picture:?}");
        assert!(key == Key::ArrowLeft || edge < 40.0, "no farther than needed: {edge}");
    }
    assert!(place(&window, 96).is_none(), "it is the view of before, moved");
}

#[test]
fn a_double_click_that_shows_all_again_looks_at_no_run() {
    let mut window = with_points();
    let [small, large] = [64, 96].map(|micro| place(&window, micro).expect("in view").center());
    window.get_by_role_and_label(Role::ListItem, &name(&window, 64)).click_accesskit();
    window.run_steps(4);
    zoom_in(&mut window, small);
    assert!(place(&window, 96).is_none());
    let click = |window: &mut Window| {
        window.event(egui::Event::PointerMoved(large));
        for pressed in [true, false] {
            let (button, modifiers) = (egui::PointerButton::Primary, Modifiers::NONE);
            window.event(egui::Event::PointerButton { pos: large, button, pressed, modifiers });
            window.run_steps(2);
        }
    };
    click(&mut window);
    click(&mut window);
    window.run_steps(3);
    assert!(place(&window, 96).is_some(), "all is in view");
    assert_eq!(shown(&window), 64);
    // A click on the point means it.
    window.run_steps(60);
    click(&mut window);
    window.run_steps(3);
    assert_eq!(shown(&window), 96);
}

#[test]
fn the_words_about_a_point_cover_no_part_of_its_name() {
    let mut window = with_points();
    for micro in [64, 96] {
        let point = place(&window, micro).expect("in view");
        window.hover_at(point.center());
        window.run_steps(60);
        let names = point_names::seen(&window);
        let own = names.iter().map(|name| name.rect).min_by(|a, b| {
            let [a, b] = [a, b].map(|name| name.distance_to_pos(point.center()));
            a.total_cmp(&b)
        });
        let words = window.get_by_label_contains("Click to look at it: its curves").rect();
        let status = window.get_by_label_contains("measured peak ").rect();
        let own = own.expect("it has a name");
        assert!(!words.union(status).intersects(own), "{micro}: {words:?} over {own:?}");
    }
}

#[test]
fn the_ring_of_the_focus_goes_around_a_picture_with_its_labels() {
    let mut window = with_points();
    window.get_by_label("Memory against accuracy: 2 runs").focus();
    window.run_steps(3);
    let id = window.ctx.memory(|memory| memory.focused()).expect("it has the focus");
    let picture = window.ctx.read_response(id).expect("drawn");
    let ring = crate::focus::ring_of(&picture).expect("not around the picture alone");
    let (_, pane) = app(&window).layout.rects().into_iter().find(|(pane, _)| *pane == Pane::Tradeoff).expect("there");
    assert!(pane.expect("drawn").contains_rect(ring), "{ring:?}");
    assert!(ring.left() < picture.rect.left() - 20.0 && ring.bottom() > picture.rect.bottom() + 10.0, "{ring:?}");
    assert!((ring.right(), ring.top()) == (picture.rect.right(), picture.rect.top()), "{ring:?}, {picture:?}");
}
