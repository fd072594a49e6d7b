//! Every key does what the list of keys says.

use eframe::egui::pos2;
use egui_kittest::kittest::{By, NodeT};

use super::*;

const SHIFT: Modifiers = Modifiers::SHIFT;

fn press(window: &mut Window, modifiers: Modifiers, key: Key) {
    window.key_press_modifiers(modifiers, key);
    window.run_steps(3);
}

#[test]
fn keys_begin_pause_step_test_and_end_a_run() {
    let mut long = digits();
    long.run.steps = Some(1_000_000);
    let mut window = window(long);
    let status = |app: &App| app.state.session.latest().map(|run| run.status.clone());
    let steps = |app: &App| app.state.session.latest().and_then(|run| run.last).map_or(0, |last| last.step);
    press(&mut window, Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| steps(app) > 2);
    press(&mut window, Modifiers::NONE, Key::Space);
    until(&mut window, |app| matches!(status(app), Some(Status::Paused)));
    assert!(window.query_by_label("Resume").is_some());
    let before = steps(app(&window));
    press(&mut window, Modifiers::NONE, Key::F10);
    until(&mut window, |app| steps(app) == before + 1);
    let tests = |app: &App| app.state.session.latest().map_or(0, |run| run.test.steps.len());
    let tested = tests(app(&window));
    press(&mut window, Modifiers::COMMAND, Key::E);
    until(&mut window, |app| tests(app) == tested + 1);
    assert!(matches!(status(app(&window)), Some(Status::Paused)));
    press(&mut window, Modifiers::NONE, Key::Space);
    until(&mut window, |app| steps(app) > before + 1);
    press(&mut window, Modifiers::COMMAND, Key::Period);
    until(&mut window, |app| matches!(status(app), Some(Status::Ended(Outcome::Stopped))));
}

#[test]
fn keys_change_what_is_seen() {
    let mut window = window(digits());
    press(&mut window, Modifiers::COMMAND, Key::D);
    assert_eq!(window.ctx.theme(), Theme::Light);
    press(&mut window, Modifiers::COMMAND, Key::P);
    assert!(app(&window).state.pin.is_some());
    press(&mut window, Modifiers::COMMAND, Key::P);
    assert!(app(&window).state.pin.is_none());
    window.state_mut().as_mut().expect("drawn").layout.set_shown(Pane::Live, false);
    press(&mut window, Modifiers::COMMAND | SHIFT, Key::L);
    assert!(app(&window).layout.shows(Pane::Live));
    press(&mut window, Modifiers::NONE, Key::F12);
    assert!(app(&window).view.frame_times);
    press(&mut window, Modifiers::NONE, Key::F1);
    assert_eq!(app(&window).state.dialog, Some(Dialog::Shortcuts));
    press(&mut window, Modifiers::NONE, Key::Escape);
    assert_eq!(app(&window).state.dialog, None);
    press(&mut window, Modifiers::COMMAND | SHIFT, Key::O);
    assert!(matches!(app(&window).state.dialog, Some(Dialog::Path { .. })));
}

#[test]
fn ctrl_and_tab_turn_the_tabs_of_the_pane_that_has_the_focus() {
    let mut window = window(digits());
    settle(&mut window);
    let is_shown = |window: &Window, text: &str| window.query_all_by_label_contains(text).next().is_some();
    window.get_by_label("Layers").focus();
    window.run_steps(3);
    let mut turn = |modifiers, tab: &str| {
        press(&mut window, modifiers, Key::Tab);
        assert!(window.get_by_label(tab).is_focused(), "{tab}");
    };
    turn(Modifiers::CTRL, "Runs");
    turn(Modifiers::CTRL, "Alive at the peak");
    turn(Modifiers::CTRL | SHIFT, "Runs");
    turn(Modifiers::CTRL | SHIFT, "Layers");
    // From within the pane as well, whose pane is then another.
    window.get_by_label("Sort by parameters").focus();
    window.run_steps(2);
    press(&mut window, Modifiers::CTRL | SHIFT, Key::Tab);
    let focused = window.ctx.memory(|memory| memory.focused()).and_then(|id| window.ctx.read_response(id));
    assert!(window.get_by_label("Log").is_focused(), "{focused:?}");
    assert!(!is_shown(&window, "of the peak"), "the table of layers is gone");
}

#[test]
fn tab_goes_on_from_the_control_that_a_key_took_the_focus_from() {
    let mut long = digits();
    long.run.steps = Some(1_000_000);
    let mut window = window(long);
    settle(&mut window);
    let focused = |window: &Window| window.ctx.memory(|memory| memory.focused());
    let after = |window: &mut Window, leave: Key| {
        window.get_by_role_and_label(Role::TextInput, "Budget").focus();
        window.run_steps(2);
        press(window, Modifiers::NONE, leave);
        assert_eq!(focused(window), None, "{leave:?}");
        press(window, Modifiers::NONE, Key::Tab);
        assert!(window.get_by_label("Common budgets").is_focused(), "{leave:?}");
    };
    after(&mut window, Key::Escape);
    after(&mut window, Key::Enter);
    // Where the pointer was pressed, if nothing has the focus: the pane of the tab.
    press(&mut window, Modifiers::NONE, Key::Escape);
    window.get_by_label("Devices").click();
    window.run_steps(3);
    press(&mut window, Modifiers::NONE, Key::Tab);
    assert!(window.get_by_label("Devices").is_focused());
    // A button that has nothing to do any more: the first of its bar that has.
    window.get_by_role_and_label(Role::Button, "Train").focus();
    window.run_steps(2);
    press(&mut window, Modifiers::NONE, Key::Space);
    until(&mut window, |app| app.state.session.active().is_some());
    window.run_steps(2);
    press(&mut window, Modifiers::NONE, Key::Tab);
    assert!(window.get_by_role_and_label(Role::Button, "Pause").is_focused());
}

#[test]
fn no_key_acts_on_what_an_open_dialog_hides() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    until(&mut window, |app| planned_micro(app) == Some(96));
    for (modifiers, key) in [(Modifiers::NONE, Key::F1), (Modifiers::COMMAND, Key::G)] {
        press(&mut window, modifiers, key);
        let dialog = app(&window).state.dialog.clone();
        assert!(dialog.is_some(), "{key:?}");
        for key in [Key::Enter, Key::Z, Key::P, Key::N] {
            press(&mut window, Modifiers::COMMAND, key);
        }
        press(&mut window, Modifiers::NONE, Key::F10);
        let state = &app(&window).state;
        assert!(state.session.runs().is_empty() && !state.is_starting && state.prediction.awaited.is_none());
        assert!(state.pin.is_none() && state.document.experiment.batch.micro == 96 && state.dialog == dialog);
        press(&mut window, Modifiers::NONE, Key::Escape);
        assert_eq!(app(&window).state.dialog, None);
    }
}

#[test]
fn a_plain_key_belongs_to_the_field_in_which_one_types() {
    let mut window = window(digits());
    press(&mut window, Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.latest().is_some());
    window.get_by_role_and_label(Role::TextInput, "Budget").focus();
    window.run_steps(2);
    press(&mut window, Modifiers::NONE, Key::Space);
    until(&mut window, |app| app.state.session.active().is_none());
    let status = &app(&window).state.session.latest().expect("a run").status;
    assert!(matches!(status, Status::Ended(Outcome::Finished)), "{status:?}");
}

#[test]
fn a_click_on_a_run_looks_at_it_and_a_button_loads_its_configuration() {
    let mut window = window(digits());
    let ended = |count: usize| {
        move |app: &App| app.state.session.runs().iter().filter(|r| r.summary.is_some()).count() == count
    };
    press(&mut window, Modifiers::COMMAND, Key::Enter);
    until(&mut window, ended(1));
    let small = app(&window).state.document.experiment.clone();
    window.get_by_role_and_label(Role::Slider, "Width").increment_accesskit();
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.experiment.model.width == 48));
    press(&mut window, Modifiers::COMMAND, Key::Enter);
    until(&mut window, ended(2));
    let wide = app(&window).state.document.experiment.clone();
    let words = |node: egui_kittest::Node<'_>| [node.accesskit_node().label(), node.accesskit_node().value()];
    let called: Vec<_> = window.query_all_by_label_contains("Run ").flat_map(words).flatten().collect();
    assert!(called.iter().any(|name| name == "Run 2: width 48"), "named by what differs: {called:?}");
    let plot = window.get_by_label("Memory against accuracy: 2 runs").rect();
    // Point by point, as one who looks for the smaller run: the tooltip names it.
    let mut places = (0..80).flat_map(|i| (0..30).map(move |j| (i, j)));
    let found = places.find_map(|(i, j)| {
        let at = plot.min + vec2(i as f32 + 0.5, j as f32 + 0.5) * 10.0;
        plot.contains(at).then_some(())?;
        window.hover_at(at);
        window.step();
        // Its point has a longer name for a screen reader.
        let is_named = window.query_all_by_label("Run 1: Tiny").next().is_some();
        (is_named && window.query_by_label_contains("Click to look").is_some()).then_some(at)
    });
    let at = found.expect("the point of the first run");
    window.drag_at(at);
    window.step();
    window.drop_at(at);
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment, wide, "looking changes nothing");
    assert_eq!(app(&window).state.shown, Some(1));
    window.hover_at(pos2(1.0, 1.0));
    window.run_steps(3);
    assert!(window.query_by_label("Run 1: Tiny").is_some(), "the bottom bar speaks of the run that is looked at");
    assert!(window.query_by_label("Against the present: width 48 → 32").is_some());
    window.get_by_label("Load its settings").click();
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment, small);
    press(&mut window, Modifiers::COMMAND, Key::Z);
    assert_eq!(app(&window).state.document.experiment.model.width, 48, "it is an edit like any other");
}

/// Types into a field as a hand does, a letter a frame, and leaves it.
fn write(window: &mut Window, field: &str, text: &str) {
    window.get_by_role_and_label(Role::TextInput, field).focus();
    window.run_steps(2);
    for letter in text.chars() {
        window.get_by_role_and_label(Role::TextInput, field).type_text(&letter.to_string());
        window.run_steps(2);
    }
    press(window, Modifiers::NONE, Key::Enter);
}

#[test]
fn a_run_has_a_name_of_its_own_with_all_that_was_typed() {
    let mut window = window(digits());
    press(&mut window, Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    write(&mut window, "Name of the run", "a b c d ");
    assert!(window.query_by_label("Run 1: a b c d").is_some());
}

#[test]
fn a_name_that_is_refused_stays_in_its_field_to_be_mended() {
    let mut window = window(digits());
    press(&mut window, Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    write(&mut window, "Name of the run", "last");
    assert!(app(&window).state.session.latest().is_some_and(|run| run.own_name.is_none()), "it means another run");
    let field = |window: &Window| window.get_by_role_and_label(Role::TextInput, "Name of the run").value();
    assert_eq!(field(&window).as_deref(), Some("last"));
    write(&mut window, "Name of the run", " one");
    assert!(window.query_by_label("Run 1: last one").is_some());
}

#[test]
fn the_list_of_keys_has_those_of_the_table_of_runs_and_of_the_zoom() {
    let mut window = window(digits());
    press(&mut window, Modifiers::NONE, Key::F1);
    window.run_steps(3);
    let key = |modifiers, key| window.ctx.format_shortcut(&egui::KeyboardShortcut::new(modifiers, key));
    for keys in [
        "Enter, S, Delete",
        &key(Modifiers::SHIFT, Key::F10),
        &key(Modifiers::COMMAND, Key::A),
        &key(Modifiers::COMMAND, Key::Minus),
    ] {
        assert!(window.query_all_by_label_contains(keys).next().is_some(), "{keys}");
    }
}

#[test]
fn a_notice_covers_nothing_that_has_the_focus_and_escape_closes_it() {
    let mut window = window(digits());
    unfold(&mut window);
    let missing = PathBuf::from("/not/there.toml");
    let open = |window: &mut Window| {
        let sender = &window.state_mut().as_mut().expect("drawn").sender;
        sender.send(crate::command::Action::OpenFile(missing.clone()));
        until(window, |app| app.state.notice.is_some());
        window.run_steps(5);
    };
    let focused = |window: &Window| {
        let focused = window.ctx.memory(|memory| memory.focused());
        focused.and_then(|id| window.ctx.read_response(id)).expect("has the focus")
    };
    // The last of the settings has the focus, low in the pane, when the notice comes.
    window.get_by_role_and_label(Role::SpinButton, "Seed value").focus();
    window.run_steps(30);
    open(&mut window);
    window.run_steps(30);
    let top = |window: &Window| window.get_by_label("It cannot be opened.").rect().top() - 8.0;
    assert!(focused(&window).interact_rect.is_positive() && focused(&window).rect.bottom() <= top(&window));
    // And so do those that the focus goes to while it is there.
    let names: Vec<_> = ["Micro-batch", "Width", "Depth", "Learning rate", "Warmup", "Steps"].into_iter().collect();
    let mut reached = 0;
    for name in names {
        let Some(slider) = window.query_all_by_role_and_label(Role::Slider, name).next() else { continue };
        slider.focus();
        window.run_steps(30);
        let rect = focused(&window).rect;
        assert!(rect.bottom() <= top(&window), "{name}: {rect:?}");
        reached += 1;
    }
    assert!(reached >= 3, "{reached}");
    let before = focused(&window).id;
    window.key_press(Key::Escape);
    window.run_steps(3);
    assert!(app(&window).state.notice.is_none());
    assert_eq!(focused(&window).id, before, "the focus stays");
    // A dialog over it is closed first.
    open(&mut window);
    window.key_press(Key::F1);
    window.run_steps(3);
    window.key_press(Key::Escape);
    window.run_steps(3);
    assert!(app(&window).state.dialog.is_none() && app(&window).state.notice.is_some());
    window.key_press(Key::Escape);
    window.run_steps(3);
    assert!(app(&window).state.notice.is_none());
}

#[test]
fn the_window_is_zoomed_by_its_menu_as_far_as_it_has_room() {
    let mut window = window(digits());
    let mut choose = |name: &str| {
        window.get_by_role_and_label(Role::Button, "View").click();
        window.run_steps(3);
        let entry = window.get(By::new().role(Role::Button).label_contains(name));
        let is_disabled = entry.accesskit_node().is_disabled();
        entry.click();
        window.run_steps(3);
        window.key_press(Key::Escape);
        window.run_steps(3);
        (is_disabled, window.ctx.zoom_factor())
    };
    assert_eq!(choose("Reset zoom"), (true, 1.0));
    assert_eq!(choose("Zoom in"), (false, 1.1));
    assert_eq!(choose("Zoom out"), (false, 1.0));
    window.ctx.set_zoom_factor(2.0);
    window.run_steps(3);
    let zoom = window.ctx.zoom_factor();
    window.get_by_role_and_label(Role::Button, "View").click();
    window.run_steps(3);
    let entry = window.get(By::new().role(Role::Button).label_contains("Zoom in"));
    assert!(entry.accesskit_node().is_disabled(), "no room for more than {zoom}");
}

#[test]
fn a_zoom_key_that_has_no_room_or_no_smaller_one_says_so() {
    let mut window = window(digits());
    for (zoom, key, words) in [
        (2.0, Key::Plus, "The zoom stays at 200%: a larger one needs a larger window."),
        (0.5, Key::Minus, "The zoom stays at 50%: it is the smallest."),
    ] {
        window.ctx.set_zoom_factor(1.0);
        window.run_steps(3);
        press(&mut window, Modifiers::COMMAND, key);
        assert!(window.query_by_label_contains("The zoom stays").is_none(), "{key:?} has an effect");
        window.ctx.set_zoom_factor(zoom);
        window.run_steps(3);
        press(&mut window, Modifiers::COMMAND, key);
        assert!(window.query_by_label_contains(words).is_some(), "{words}");
        window.run_steps(2);
        assert!((window.ctx.zoom_factor() - zoom).abs() < 1e-3, "{key:?}");
        window.ctx.set_zoom_factor(1.0);
        window.state_mut().as_mut().expect("drawn").toasts = Default::default();
    }
}

#[test]
fn no_picture_points_at_the_place_where_the_pointer_was_before_the_zoom() {
    let mut window = window(digits());
    window.hover_at(pos2(900.0, 300.0));
    window.run_steps(2);
    let is_there = |window: &Window| window.ctx.input(|input| input.pointer.hover_pos()).is_some();
    assert!(is_there(&window));
    press(&mut window, Modifiers::COMMAND, Key::Plus);
    assert!(!is_there(&window), "until it moves");
    window.hover_at(pos2(800.0, 270.0));
    window.run_steps(2);
    assert!(is_there(&window));
}

#[test]
fn a_narrow_window_turns_its_one_pane_by_the_same_keys() {
    let mut window = window(digits());
    window.set_size(vec2(600.0, 400.0));
    window.run_steps(5);
    let shown = |window: &Window| window.get_by_role_and_label(Role::ComboBox, "Pane").value().unwrap_or_default();
    assert_eq!(shown(&window), "Experiment");
    for (modifiers, pane) in
        [(Modifiers::CTRL, "One step"), (Modifiers::CTRL, "Live"), (Modifiers::CTRL | SHIFT, "One step")]
    {
        press(&mut window, modifiers, Key::Tab);
        assert_eq!(shown(&window), pane);
    }
}
