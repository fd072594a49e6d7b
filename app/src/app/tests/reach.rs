//! Everything in the window is reached by keys, in the order of the eye, in sight and with a name.

use eframe::egui::{Id, Rect};
use egui_kittest::kittest::{By, NodeT};

use super::*;

/// Frames in which a pane scrolls to what got the focus, at most.
const SCROLLING: usize = 24;
/// Frames after which what moves has begun to.
const BEGUN: usize = 3;

/// The control that has the focus: its id, and its name for a screen reader.
fn focused(window: &Window) -> Option<(Id, String)> {
    let id = window.ctx.memory(|memory| memory.focused())?;
    let node = window.query(By::new().predicate(|node| node.is_focused()));
    let name = node.and_then(|node| node.accesskit_node().label().or(node.accesskit_node().value()));
    Some((id, name.unwrap_or_default()))
}

/// Where a widget is, and how much of it is in sight.
fn place(window: &Window, id: Id) -> (Rect, Rect) {
    let response = window.ctx.read_response(id).expect("it was drawn");
    (response.rect, response.interact_rect)
}

/// The part of the window that a place belongs to: bars and panes, numbered in the order of the eye.
fn region(window: &Window, rect: Rect) -> usize {
    let panes = app(window).layout.rects();
    // The bar of tabs above a pane belongs to it.
    let holds = |rect: &Rect, at| rect.with_min_y(rect.top() - 30.0).contains(at);
    let at = rect.center();
    let top = panes.iter().filter_map(|(_, rect)| *rect).map(|rect| rect.top()).fold(f32::MAX, f32::min);
    let bottom = panes.iter().filter_map(|(_, rect)| *rect).map(|rect| rect.bottom()).fold(0.0, f32::max);
    match at.y {
        y if y < top - 30.0 => 0,
        y if y > bottom => 1000,
        _ => 1 + panes.iter().position(|(_, pane)| pane.is_some_and(|pane| holds(&pane, at))).unwrap_or_default(),
    }
}

/// Draws frames until what has the focus stays where it is.
fn scrolled(window: &mut Window) {
    let focus = |window: &Window| window.ctx.memory(|memory| memory.focused()).map(|id| (id, place(window, id)));
    window.run_steps(BEGUN);
    for _ in BEGUN..SCROLLING {
        let before = focus(window);
        window.step();
        if focus(window) == before {
            break;
        }
    }
}

/// Goes through the window by the Tab key until it comes round. What it reaches has a name, is in sight, and comes in the
/// order of the eye; the names come back.
fn tab_through(window: &mut Window) -> Vec<String> {
    // Where nothing has the focus and the pointer is pressed, Tab begins anew and goes on from nothing.
    window.ctx.memory_mut(|memory| memory.focused().into_iter().for_each(|id| memory.surrender_focus(id)));
    window.drag_at(egui::pos2(2.0, 2.0));
    window.step();
    window.drop_at(egui::pos2(2.0, 2.0));
    window.remove_cursor();
    window.step();
    let mut seen: Vec<(Id, String)> = Vec::new();
    loop {
        window.key_press(Key::Tab);
        scrolled(window);
        let (id, name) = focused(window).expect("something has the focus");
        if seen.iter().any(|(known, _)| *known == id) {
            break;
        }
        assert!(!name.is_empty(), "what comes after {:?} has no name", seen.last());
        let (rect, shown) = place(window, id);
        assert!(shown.height() >= rect.height() * 0.9, "{name} is not in sight: {shown:?} of {rect:?}");
        if let Some((before, before_name)) = seen.last() {
            let (last, _) = place(window, *before);
            let is_next_part = region(window, last) < region(window, rect);
            let is_below = rect.center().y > last.center().y - 2.0 && rect.bottom() > last.top();
            let is_right = rect.left() >= last.left() && rect.top() < last.bottom();
            assert!(is_next_part || is_below || is_right, "{name} at {rect:?} after {before_name} at {last:?}");
        }
        seen.push((id, name));
        assert!(seen.len() < 400, "it never comes round");
    }
    seen.into_iter().map(|(_, name)| name).collect()
}

fn assert_reached(names: &[String], wanted: &[&str]) {
    for name in wanted {
        assert!(names.iter().any(|known| known == name), "{name} is not reached: {names:?}");
    }
}

#[test]
fn the_tab_key_goes_through_the_window_as_the_eye_does_and_what_it_reaches_is_seen_and_named() {
    let mut window = window(digits());
    settle(&mut window);
    unfold(&mut window);
    let names = tab_through(&mut window);
    let reached =
        ["Presets", "Device", "Budget", "Pin", "Micro-batch", "Precision", "Retain graph", "Clip norm", "Train"];
    assert_reached(&names, &reached);
    let at = |name: &str| names.iter().position(|known| known == name);
    assert!(at("Presets") < at("Budget") && at("Budget") < at("Micro-batch") && at("Micro-batch") < at("Train"));
    assert!(at("Layers") < at("Take away: Layers"), "what stands at the end of the tabs comes after them");
}

#[test]
fn a_key_goes_from_region_to_region_and_round() {
    let mut window = window(digits());
    let mut press = |modifiers| {
        window.key_press_modifiers(modifiers, Key::F6);
        window.run_steps(3);
        focused(&window).expect("something has the focus").1
    };
    assert_eq!(press(Modifiers::SHIFT), "Train", "without a focus, back is the bottom bar");
    let names: Vec<String> = (0..8).map(|_| press(Modifiers::NONE)).collect();
    let panes = ["Experiment", "One step", "Live", "Memory against accuracy", "Layers"];
    assert_eq!((names[0].as_str(), &names[2..7]), ("File", &panes.map(str::to_owned)[..]), "{names:?}");
    assert_eq!(names[7], "Train");
    assert_eq!(press(Modifiers::SHIFT), "Layers");
    // The front tab of a pane, and from there what the pane holds.
    window.state_mut().as_mut().expect("drawn").layout.set_shown(Pane::Gradients, true);
    for _ in 0..2 {
        window.key_press_modifiers(Modifiers::SHIFT, Key::F6);
        window.run_steps(3);
    }
    assert_eq!(focused(&window).expect("a tab").1, Pane::Gradients.title());
}

#[test]
fn the_key_of_the_regions_closes_a_menu_and_its_button_has_the_focus_again() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Button, "View").focus();
    window.run_steps(2);
    window.key_press(Key::Enter);
    window.run_steps(3);
    assert!(window.query_by_label_contains("Zoom in").is_some(), "the menu is open");
    window.key_press(Key::F6);
    window.run_steps(3);
    assert!(window.query_by_label_contains("Zoom in").is_none());
    assert_eq!(focused(&window).expect("something has the focus").1, "View");
}

#[test]
fn a_list_that_is_open_is_gone_through_by_keys() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::ComboBox, "Precision").focus();
    window.run_steps(2);
    window.key_press(Key::Enter);
    window.run_steps(3);
    window.key_press(Key::Tab);
    window.run_steps(3);
    window.key_press(Key::Enter);
    until(&mut window, |app| app.state.document.experiment.precision == Precision::F64);
    window.run_steps(3);
    // The list is gone, and the keys go on where it was.
    assert!(window.query_by_role_and_label(Role::Button, "bf16 mixed").is_none());
    assert!(window.get_by_role_and_label(Role::ComboBox, "Precision").is_focused());
}

#[test]
fn a_list_that_is_opened_begins_at_the_present_value() {
    let mut experiment = digits();
    experiment.model.kind = plimsoll_engine::experiment::ModelKind::Cnn;
    let mut window = window(experiment);
    let entry = |window: &mut Window| {
        window.get_by_role_and_label(Role::ComboBox, "Kind").focus();
        window.run_steps(2);
        window.key_press(Key::Enter);
        window.run_steps(3);
        focused(window).expect("something has the focus").1
    };
    assert_eq!(entry(&mut window), "CNN");
    window.key_press(Key::Escape);
    window.run_steps(3);
    assert_eq!(focused(&window).expect("something has the focus").1, "Kind");
    assert_eq!(entry(&mut window), "CNN", "the second time as well");
    window.key_press(Key::Tab);
    window.run_steps(2);
    assert_ne!(focused(&window).expect("something has the focus").1, "CNN");
    // By the pointer, too: the arrows then go on from there.
    window.key_press(Key::Escape);
    window.run_steps(3);
    window.get_by_role_and_label(Role::ComboBox, "Kind").click();
    window.run_steps(4);
    assert_eq!(focused(&window).expect("something has the focus").1, "CNN");
}

#[test]
fn what_is_closed_by_a_key_gives_the_focus_back_to_what_it_was_opened_from() {
    let mut window = window(digits());
    settle(&mut window);
    let mut open_and_leave = |role, name: &str| {
        window.get_by_role_and_label(role, name).focus();
        window.run_steps(2);
        let (opener, _) = focused(&window).expect("focused");
        window.key_press(Key::Enter);
        window.run_steps(3);
        window.key_press(Key::Tab);
        window.run_steps(3);
        assert_ne!(focused(&window).map(|(id, _)| id), Some(opener), "the focus is in what was opened from {name}");
        window.key_press(Key::Escape);
        window.run_steps(4);
        assert_eq!(focused(&window).map(|(id, _)| id), Some(opener), "{name}");
    };
    open_and_leave(Role::Button, "File");
    open_and_leave(Role::Button, "View");
    open_and_leave(Role::Button, "Presets");
    open_and_leave(Role::ComboBox, "Precision");
    assert!(app(&window).state.dialog.is_none());
}

/// A window with two runs, a pin and, for a while, a notice: every pane has something to show.
fn used() -> Window {
    let mut window = window(digits());
    for count in 1..=2 {
        window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
        until(&mut window, |app| app.state.session.runs().iter().filter(|run| run.summary.is_some()).count() == count);
        window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
        until(&mut window, |app| app.state.plan().is_some());
    }
    window.key_press_modifiers(Modifiers::COMMAND, Key::P);
    settle(&mut window);
    until(&mut window, |app| app.state.devices.is_some());
    window
}

#[test]
fn what_every_pane_holds_after_runs_is_reached_by_the_tab_key() {
    let mut window = used();
    let fronts: [(&[Pane], &[&str]); 4] = [
        (
            &[Pane::Step, Pane::Live, Pane::Tradeoff, Pane::Layers],
            &[
                "Unpin",
                "Compare",
                "Before",
                "After",
                "Run shown",
                "Smoothing",
                "Log",
                "Name of the run",
                "Sort by layer",
            ],
        ),
        (&[Pane::Gradients, Pane::Devices, Pane::Alive], &["Log norm", "Sort by bytes"]),
        (&[Pane::Log, Pane::TryOut], &["Copy all", "Clear"]),
        (&[Pane::Compare, Pane::Runs], &["Search runs", "Sort by run"]),
    ];
    for (front, reached) in fronts {
        let layout = &mut window.state_mut().as_mut().expect("drawn").layout;
        front.iter().for_each(|pane| layout.set_shown(*pane, true));
        window.run_steps(4);
        let names = tab_through(&mut window);
        assert_reached(&names, reached);
    }
}
