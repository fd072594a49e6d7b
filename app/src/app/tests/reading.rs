//! The window for a screen reader: everything has a name, and is read in the order of the eye.

use eframe::egui::{Color32, Rect, TextStyle, epaint::text::FontsView};
use egui_kittest::{Node, kittest::NodeT};

use super::*;

/// Roles that mean nothing without a name.
const NAMED: [Role; 13] = [
    Role::Button,
    Role::CheckBox,
    Role::RadioButton,
    Role::ComboBox,
    Role::Slider,
    Role::SpinButton,
    Role::TextInput,
    Role::MultilineTextInput,
    Role::Figure,
    Role::Image,
    Role::Link,
    Role::Tab,
    Role::ProgressIndicator,
];
/// Points by which a place in the tree may be larger than the drawn one.
const SLACK: f32 = 2.0;

/// The controls that are read, in the order of the tree.
fn read(window: &Window) -> Vec<(Role, String, Rect)> {
    let mut found = Vec::new();
    walk(window.root(), &mut found);
    found
}

fn walk(node: Node<'_>, found: &mut Vec<(Role, String, Rect)>) {
    let own = node.accesskit_node();
    let name = own.label().or(own.value()).unwrap_or_default();
    if !own.is_hidden() && own.raw_bounds().is_some() && (NAMED.contains(&own.role()) || own.role() == Role::Label) {
        found.push((own.role(), name, node.rect()));
    }
    node.children().for_each(|child| walk(child, found));
}

/// The pane that holds a place, or the bars above and below.
fn part(panes: &[Rect], rect: Rect) -> usize {
    let top = panes.iter().map(|pane| pane.top()).fold(f32::MAX, f32::min);
    let holds = |pane: &Rect| pane.expand(SLACK).contains_rect(rect);
    match panes.iter().position(holds) {
        Some(pane) => pane,
        None if rect.bottom() < top => usize::MAX - 1,
        None => usize::MAX,
    }
}

fn judge(window: &Window, state: &str) {
    let panes: Vec<Rect> = app(window).layout.rects().into_iter().filter_map(|(_, rect)| rect).collect();
    let read = read(window);
    for (role, name, rect) in &read {
        assert!(!name.trim().is_empty(), "{state}: a {role:?} at {rect:?} has no name");
    }
    for pair in read.windows(2) {
        let [(_, first, before), (_, second, after)] = pair else { continue };
        let (from, to) = (part(&panes, *before), part(&panes, *after));
        if from != to || from == usize::MAX {
            continue;
        }
        let is_inside = before.expand(SLACK).contains_rect(*after) || after.expand(SLACK).contains_rect(*before);
        let is_below = after.center().y > before.center().y - SLACK && after.bottom() > before.top();
        let is_right = after.left() >= before.left() - SLACK && after.top() < before.bottom();
        assert!(
            is_inside || is_right || is_below && after.top() >= before.bottom() - SLACK * 4.0,
            "{state}: {second:?} at {after:?} is read after {first:?} at {before:?}"
        );
    }
    let names: Vec<&str> = read.iter().map(|(_, name, _)| name.as_str()).collect();
    let at = |name: &str| names.iter().position(|known| *known == name);
    assert!(at("Plimsoll").is_some() && at("Plimsoll") < at("Train"), "{state}: {names:?}");
}

fn every_pane(window: &mut Window, state: &str) {
    for pane in Pane::ALL {
        window.state_mut().as_mut().expect("drawn").layout.set_shown(*pane, true);
        window.run_steps(4);
        judge(window, &format!("{state}, {}", pane.title()));
    }
}

#[test]
fn everything_is_named_and_read_as_the_eye_goes_in_every_pane() {
    let mut window = window(digits());
    settle(&mut window);
    unfold(&mut window);
    every_pane(&mut window, "planned");
    for count in 1..=2 {
        window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
        until(&mut window, |app| app.state.session.runs().iter().filter(|run| run.summary.is_some()).count() == count);
        window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
        until(&mut window, |app| app.state.plan().is_some());
    }
    window.key_press_modifiers(Modifiers::COMMAND, Key::P);
    settle(&mut window);
    every_pane(&mut window, "after two runs");
}

#[test]
fn steps_and_minutes_between_checkpoints_are_told_apart_in_names_that_are_not_cut() {
    let mut window = window(digits());
    window.run_steps(2);
    let font = window.ctx.style_of(Theme::Dark).text_styles[&TextStyle::Body].clone();
    for name in ["Save (steps)", "Save (min)"] {
        assert!(window.query_by_role_and_label(Role::Slider, name).is_some(), "{name}");
        let text = |fonts: &mut FontsView<'_>| fonts.layout_no_wrap(name.to_owned(), font.clone(), Color32::WHITE);
        let width = window.ctx.fonts_mut(text).size().x;
        // In the least window as well.
        assert!(width <= crate::theme::NAME_WIDTH * 0.75, "{name} is {width} wide");
    }
}

#[test]
fn everything_is_named_and_read_as_the_eye_goes_for_a_card() {
    let mut window = window(Experiment { device: "rtx4060-8g".to_owned(), budget: Bytes::gib(2), ..digits() });
    settle(&mut window);
    until(&mut window, |app| app.state.devices.is_some());
    unfold(&mut window);
    every_pane(&mut window, "for a card");
}
