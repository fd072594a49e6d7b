//! The actions for a run stand in a menu where the run is seen: on the right button, and on a key.

use eframe::egui::{Event, PointerButton, Pos2};

use super::{
    runs::{ask, close, keys, on, show, train, two_runs},
    *,
};
use crate::command::{Action, RunsAction};

const ENTRIES: [&str; 7] =
    ["Open", "Load settings", "Compare with present settings", "Export compressed model…", "Star", "Rename", "Delete"];

fn has_menu(window: &Window) -> bool {
    window.query_by_label("Rename").is_some()
}

/// Clicks an entry of the open menu, which is drawn after the buttons of the same name.
fn choose(window: &mut Window, name: &str) {
    let entries: Vec<_> = window.get_all_by_role_and_label(Role::Button, name).collect();
    entries.last().expect("an entry").click();
    drop(entries);
    window.run_steps(4);
}

fn right_click_at(window: &mut Window, pos: Pos2) {
    window.hover_at(pos);
    window.step();
    for pressed in [true, false] {
        let (button, modifiers) = (PointerButton::Secondary, Modifiers::NONE);
        window.event(Event::PointerButton { pos, button, pressed, modifiers });
        window.step();
    }
    window.run_steps(3);
}

fn focused_name(window: &Window) -> Option<String> {
    use egui_kittest::kittest::{By, NodeT};
    let node = window.query(By::new().predicate(|node| node.is_focused()))?;
    node.accesskit_node().label()
}

#[test]
fn the_right_button_on_a_row_does_what_the_buttons_below_do() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let both = keys(&window);
    let before = app(&window).state.document.experiment.clone();
    let row = window.get_by_role_and_label(Role::Button, "Run 2: micro-batch 96, Tiny").rect();
    right_click_at(&mut window, row.center());
    for name in ENTRIES {
        assert!(window.query_all_by_role_and_label(Role::Button, name).next().is_some(), "{name}");
    }
    assert_eq!(app(&window).state.runs.picked(), &both[..1], "it is the run that the buttons mean");
    assert_eq!(app(&window).state.document.experiment, before, "and its settings are not loaded");
    choose(&mut window, "Star");
    assert!(!has_menu(&window));
    until(&mut window, |app| app.state.runs.get(&both[0]).is_some_and(|row| row.run.is_starred));
    right_click_at(&mut window, row.center());
    choose(&mut window, "Rename");
    assert_eq!(focused_name(&window).as_deref(), Some("Name of the kept run"));
    right_click_at(&mut window, row.center());
    choose(&mut window, "Load settings");
    until(&mut window, |app| app.state.document.experiment.batch.micro == 96);
    // With several picked, on one of them, all are meant.
    ask(&mut window, RunsAction::Pick(both.clone()));
    right_click_at(&mut window, row.center());
    choose(&mut window, "Delete 2");
    until(&mut window, |app| app.state.runs.rows().is_empty());
}

#[test]
fn the_menu_key_opens_the_menu_of_the_picked_run_and_gives_the_focus_back() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    window.get_by_role_and_label(Role::ListBox, "Kept runs: 2").focus();
    window.run_steps(2);
    window.key_press(Key::Home);
    window.run_steps(3);
    for (modifiers, key) in [(Modifiers::SHIFT, Key::F10), (Modifiers::NONE, Key::Menu)] {
        window.key_press_modifiers(modifiers, key);
        window.run_steps(4);
        assert!(has_menu(&window), "{key:?}");
        assert_eq!(focused_name(&window).as_deref(), Some("Open"));
        assert!(!app(&window).state.is_starting && app(&window).state.session.runs().is_empty(), "F10 alone steps");
        window.key_press(Key::Escape);
        window.run_steps(4);
        assert!(!has_menu(&window));
        assert!(focused_name(&window).is_some_and(|name| name.starts_with("Kept runs")), "{:?}", focused_name(&window));
    }
}

#[test]
fn the_right_button_on_a_point_has_the_menu_of_its_run() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    let both = keys(&window);
    ask(&mut window, RunsAction::Pick(both.clone()));
    until(&mut window, |app| app.state.session.all().count() == 2);
    window.run_steps(3);
    let plot = window.get_by_label("Memory against accuracy: 2 runs").rect();
    // From the far corner, so that the point lies next to its menu, not below it.
    let mut places = (0..80).rev().flat_map(|i| (0..30).rev().map(move |j| (i, j)));
    let found = places.find_map(|(i, j)| {
        let at = plot.min + vec2(i as f32 + 0.5, j as f32 + 0.5) * 10.0;
        plot.contains(at).then_some(())?;
        window.hover_at(at);
        window.step();
        window.query_by_label_contains("Click to look").is_some().then_some(at)
    });
    let at = found.expect("a point");
    right_click_at(&mut window, at);
    assert!(has_menu(&window));
    // Next to the menu, and nearer to the point.
    window.hover_at(at - vec2(4.0, 4.0));
    window.run_steps(3);
    assert!(has_menu(&window));
    assert!(window.query_by_label_contains("Click to look").is_none(), "nothing lies over the menu");
    let shown = app(&window).state.shown_run().and_then(|run| run.kept.clone()).expect("it is looked at");
    choose(&mut window, "Rename");
    assert_eq!(focused_name(&window).as_deref(), Some("Name of the run"));
    right_click_at(&mut window, at);
    choose(&mut window, "Delete");
    until(&mut window, |app| app.state.runs.rows().len() == 1);
    assert!(keys(&window).iter().all(|key| *key != shown));
    close(window);
}

#[test]
fn a_name_that_another_run_has_is_taken_and_said_beside_the_field() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let both = keys(&window);
    ask(&mut window, RunsAction::Name(both[1].clone(), "base".to_owned()));
    until(&mut window, |app| app.state.runs.get(&both[1]).is_some_and(|row| row.run.name.is_some()));
    ask(&mut window, RunsAction::Pick(vec![both[0].clone()]));
    let said = |window: &Window| window.query_all_by_label_contains("another run").next().is_some();
    assert!(!said(&window));
    // While one types.
    window.get_by_role_and_label(Role::TextInput, "Name of the kept run").focus();
    window.run_steps(2);
    window.get_by_role_and_label(Role::TextInput, "Name of the kept run").type_text("base");
    window.run_steps(3);
    assert!(said(&window));
    // It is taken, and said for as long as it is so.
    window.key_press(Key::Enter);
    until(&mut window, |app| app.state.runs.front().is_some_and(|row| row.run.name.as_deref() == Some("base")));
    window.run_steps(2);
    assert!(said(&window));
    ask(&mut window, RunsAction::Name(both[1].clone(), String::new()));
    until(&mut window, |app| app.state.runs.get(&both[1]).is_some_and(|row| row.run.name.is_none()));
    window.run_steps(2);
    assert!(!said(&window));
    // The same next to the field below the points.
    train(&mut window);
    let own = app(&window).state.session.latest().expect("a run").key;
    window.state_mut().as_mut().expect("drawn").sender.send(Action::NameRun(own, " base ".to_owned()));
    until(&mut window, |app| app.state.runs.rows().iter().filter(|row| row.run.name.is_some()).count() == 2);
    show(&mut window, Pane::Layers);
    assert!(said(&window));
}
