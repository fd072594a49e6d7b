//! Panes scrolled by the keys of pages.

use super::*;

fn press(window: &mut Window, modifiers: Modifiers, key: Key) {
    window.key_press_modifiers(modifiers, key);
    window.run_steps(3);
}

/// Where a pane is drawn.
fn rect(window: &Window, wanted: Pane) -> egui::Rect {
    let rects = app(window).layout.rects();
    rects.into_iter().find(|(pane, _)| *pane == wanted).and_then(|(_, rect)| rect).expect("drawn")
}

fn click(window: &mut Window, at: egui::Pos2) {
    window.event(egui::Event::PointerMoved(at));
    for pressed in [true, false] {
        let (button, modifiers) = (egui::PointerButton::Primary, Modifiers::NONE);
        window.event(egui::Event::PointerButton { pos: at, button, pressed, modifiers });
        window.run_steps(2);
    }
}

#[test]
fn a_pane_is_scrolled_by_the_keys_of_pages() {
    let mut window = window(digits());
    settle(&mut window);
    window.get_by_label("Alive at the peak").click();
    window.run_steps(3);
    window.get_by_label("Alive at the peak").focus();
    window.run_steps(3);
    let plan = app(&window).state.plan().cloned().expect("a plan");
    let (count, last) = (plan.alive_at_peak.len(), plan.alive_at_peak.iter().min_by_key(|block| block.bytes));
    let last = Bytes(last.expect("a block").bytes).to_string();
    let is_seen = |window: &Window, text: &str| {
        window.query_all_by_label(text).any(|cell| rect(window, Pane::Alive).contains(cell.rect().center()))
    };
    assert!(count > 12 && !is_seen(&window, &last), "{count} blocks");
    press(&mut window, Modifiers::NONE, Key::End);
    assert!(is_seen(&window, &last), "{last}");
    press(&mut window, Modifiers::NONE, Key::Home);
    assert!(!is_seen(&window, &last));
    press(&mut window, Modifiers::NONE, Key::PageDown);
    press(&mut window, Modifiers::NONE, Key::PageDown);
    press(&mut window, Modifiers::NONE, Key::PageDown);
    assert!(is_seen(&window, &last));
}

#[test]
fn page_keys_scroll_the_settings_and_leave_the_focus_where_it_is() {
    let mut window = window(digits());
    settle(&mut window);
    window.get_by_role_and_label(Role::Slider, "Micro-batch").focus();
    window.run_steps(3);
    let seed = |window: &Window| window.get_by_role_and_label(Role::SpinButton, "Seed value").rect();
    let before = seed(&window);
    press(&mut window, Modifiers::NONE, Key::PageDown);
    let after = seed(&window);
    assert!(after.top() < before.top() - 100.0, "{after:?} of {before:?}");
    assert!(window.get_by_role_and_label(Role::Slider, "Micro-batch").is_focused());
    press(&mut window, Modifiers::NONE, Key::PageUp);
    assert_eq!(seed(&window), before);
    assert_eq!(app(&window).state.document.experiment, digits());
}

#[test]
fn page_keys_scroll_the_pane_that_was_clicked() {
    let mut window = window(digits());
    settle(&mut window);
    let seed = |window: &Window| window.get_by_role_and_label(Role::SpinButton, "Seed value").rect();
    let before = seed(&window);
    // The ground of the pane, at its edge.
    let ground = rect(&window, Pane::Experiment).left_center() + egui::vec2(2.0, 0.0);
    click(&mut window, ground);
    press(&mut window, Modifiers::NONE, Key::PageDown);
    assert!(seed(&window).top() < before.top() - 100.0);
    press(&mut window, Modifiers::NONE, Key::PageUp);
    assert_eq!(seed(&window), before);
    let other = rect(&window, Pane::Step).left_center() + egui::vec2(2.0, 0.0);
    click(&mut window, other);
    press(&mut window, Modifiers::NONE, Key::PageDown);
    assert_eq!(seed(&window), before, "another pane was clicked");
    // In a field, too: one line has no pages.
    window.get_by_role_and_label(Role::SpinButton, "Micro-batch value").focus();
    window.run_steps(3);
    press(&mut window, Modifiers::NONE, Key::PageDown);
    assert!(seed(&window).top() < before.top() - 100.0);
}

/// The room of a window of 1280 x 800 at 150%.
const LOW: egui::Vec2 = egui::vec2(853.0, 533.0);

#[test]
fn a_table_in_a_low_pane_scrolls_to_its_last_row() {
    let mut window = window(digits());
    window.set_size(LOW);
    settle(&mut window);
    let plan = app(&window).state.plan().cloned().expect("a plan");
    let last = &plan.layers.last().expect("a layer").path;
    let least = Bytes(plan.alive_at_peak.iter().map(|block| block.bytes).min().expect("a block")).to_string();
    for (pane, last) in [(Pane::Layers, last), (Pane::Alive, &least)] {
        window.state_mut().as_mut().expect("drawn").layout.set_shown(pane, true);
        window.run_steps(3);
        let rect = rect(&window, pane);
        click(&mut window, rect.left_center() + egui::vec2(2.0, 0.0));
        press(&mut window, Modifiers::NONE, Key::End);
        let is_seen = window.query_all_by_label(last).any(|cell| rect.contains_rect(cell.rect()));
        assert!(is_seen, "{last} is not in {pane:?} at {rect:?}");
    }
}

#[test]
fn page_keys_in_a_pane_with_nothing_to_scroll_leave_the_others_where_they_are() {
    let mut window = window(digits());
    window.set_size(LOW);
    settle(&mut window);
    window.get_by_role_and_label(Role::Button, "Train").click();
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    let layout = &mut window.state_mut().as_mut().expect("drawn").layout;
    layout.set_shown(Pane::Live, true);
    layout.set_shown(Pane::Compare, true);
    settle(&mut window);
    let shown = |window: &Window| window.get_by_label("Loss plot").rect();
    let before = shown(&window);
    let [ground, below] =
        [Pane::Compare, Pane::Live].map(|pane| rect(&window, pane).left_center() + egui::vec2(2.0, 0.0));
    click(&mut window, ground);
    press(&mut window, Modifiers::NONE, Key::PageDown);
    assert_eq!(shown(&window), before);
    click(&mut window, below);
    press(&mut window, Modifiers::NONE, Key::PageDown);
    assert!(shown(&window).top() < before.top(), "it scrolls where it is meant");
}
