//! Tooltips and pictures by keys: what the pointer shows, the keyboard's focus shows too.

use std::sync::Arc;

use egui_kittest::kittest::NodeT as _;

use super::*;

/// Tooltips whose text begins so.
fn shown(window: &Window, text: &str) -> usize {
    window.query_all_by_role(Role::Label).filter(|label| label.value().is_some_and(|v| v.starts_with(text))).count()
}

/// Steps to a control with Tab, which has the first control in the window focused before.
fn tab_to(window: &mut Window, role: Role, name: &str) {
    window.get_by_role_and_label(role, name).focus();
    window.run_steps(2);
    for modifiers in [Modifiers::NONE, Modifiers::SHIFT] {
        window.key_press_modifiers(modifiers, Key::Tab);
        window.run_steps(2);
    }
    assert!(window.get_by_role_and_label(role, name).is_focused(), "{name}");
}

/// How much of its horizontal axis the plot that has the focus shows.
fn width(window: &Window) -> f64 {
    let plot = window.ctx.memory(|memory| memory.focused()).expect("a plot has the focus");
    window.ctx.data(|data| data.get_temp(crate::widgets::plot_keys::width_id(plot))).expect("it is a plot")
}

/// A second at sixty frames each.
fn rest(window: &mut Window) {
    window.run_steps(60);
}

#[test]
fn the_focus_shows_the_same_tooltip_as_the_pointer_after_a_rest_and_no_other() {
    let mut window = window(digits());
    settle(&mut window);
    let help = "Samples that go through the model at once";
    tab_to(&mut window, Role::Slider, "Micro-batch");
    window.run_steps(3);
    assert_eq!(shown(&window, help), 0, "not before a rest");
    rest(&mut window);
    assert_eq!(shown(&window, help), 1);
    // The focus leads to another control: its words and no others.
    window.key_press(Key::Tab);
    window.run_steps(2);
    assert_eq!(shown(&window, help), 0);
    // A pointer that moves takes the word.
    tab_to(&mut window, Role::Slider, "Micro-batch");
    rest(&mut window);
    assert_eq!(shown(&window, help), 1);
    let away = window.get_by_label_contains("Predicted memory of one step").rect().center();
    window.hover_at(away);
    rest(&mut window);
    assert_eq!(shown(&window, help), 0);
}

#[test]
fn a_resting_pointer_shows_nothing_while_keys_are_used() {
    let mut window = window(digits());
    settle(&mut window);
    let place = window.get_by_role_and_label(Role::Slider, "Micro-batch").rect().center();
    let help = "Samples that go through the model at once";
    window.hover_at(place);
    rest(&mut window);
    assert_eq!(shown(&window, help), 1);
    window.get_by_role_and_label(Role::Button, "Presets").focus();
    window.key_press(Key::Tab);
    rest(&mut window);
    assert_eq!(shown(&window, help), 0);
}

#[test]
fn who_types_into_a_field_is_not_spoken_to() {
    let mut window = window(digits());
    settle(&mut window);
    let help = "The most memory the run may take";
    tab_to(&mut window, Role::TextInput, "Budget");
    rest(&mut window);
    assert_eq!(shown(&window, help), 1);
    window.get_by_role_and_label(Role::TextInput, "Budget").type_text("3");
    rest(&mut window);
    assert_eq!(shown(&window, help), 0);
}

#[test]
fn arrows_lead_along_the_step_from_its_peak_and_signs_zoom() {
    let mut window = window(digits());
    settle(&mut window);
    let said = |window: &Window| {
        let plot = window.get_by_label_contains("Predicted memory of one step");
        plot.accesskit_node().label().unwrap_or_default()
    };
    let plan = Arc::clone(app(&window).state.plan().expect("a plan"));
    let timeline = plan.timeline(plan.peak_pass);
    let (peak, ops) = (timeline.peak_index().expect("a peak"), timeline.points.len());
    let at = |index: usize| format!(", at op {} of {ops}, {}: ", index + 1, timeline.points[index].phase.name());
    assert!(!said(&window).contains(", at op"), "only with the focus");
    window.get_by_label_contains("Predicted memory of one step").focus();
    window.run_steps(3);
    assert!(said(&window).contains(&at(peak)), "{}", said(&window));
    assert_eq!(shown(&window, &format!("predicted {}", timeline.points[peak].live)), 1);
    let mut press = |key, index: usize| {
        window.key_press(key);
        window.run_steps(2);
        assert!(said(&window).contains(&at(index)), "{key:?}: {}", said(&window));
        let words = format!("predicted {}", timeline.points[index].live);
        assert_eq!(shown(&window, &words), 1, "{key:?}");
    };
    press(Key::ArrowLeft, peak - 1);
    press(Key::Home, 0);
    press(Key::ArrowLeft, 0);
    press(Key::ArrowRight, 1);
    press(Key::End, ops - 1);
    press(Key::ArrowRight, ops - 1);
    press(Key::PageUp, ops - 1 - ops / 10);
    // Closer, to the left end and beyond what is in view, and all of it again: the focus never leaves.
    let all = width(&window);
    for sign in ["+", "+", "+"] {
        window.event(egui::Event::Text(sign.to_owned()));
        window.run_steps(2);
    }
    assert!((width(&window) * 1.5f64.powi(3) - all).abs() < all * 0.02, "{} of {all}", width(&window));
    window.key_press(Key::Home);
    window.run_steps(3);
    assert!(said(&window).contains(&at(0)));
    assert_eq!(shown(&window, &format!("predicted {}", timeline.points[0].live)), 1);
    window.event(egui::Event::Text("0".to_owned()));
    window.run_steps(3);
    assert!((width(&window) - all).abs() < all * 0.02, "{} of {all}", width(&window));
    assert!(window.get_by_label_contains("Predicted memory of one step").is_focused());
}

#[test]
fn arrows_lead_along_the_curves_of_a_run() {
    let mut window = window(digits());
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    settle(&mut window);
    window.get_by_label("Loss plot").focus();
    window.run_steps(3);
    let steps = app(&window).state.session.latest().map(|run| run.train.steps.clone()).expect("a run");
    let run_has = |window: &Window, text: &str| window.query_all_by_label_contains(text).count();
    let at = |step: f64| format!("Loss plot, at step {step}, train ");
    assert_eq!(run_has(&window, &at(steps[steps.len() - 1])), 1);
    window.key_press(Key::ArrowLeft);
    window.run_steps(2);
    assert_eq!(run_has(&window, &at(steps[steps.len() - 2])), 1);
    window.key_press(Key::Home);
    window.run_steps(2);
    assert_eq!(run_has(&window, &at(steps[0])), 1);
    let tip = format!("step {}", steps[0]);
    assert_eq!(window.query_all_by_label(&tip).count(), 1);
}

#[test]
fn a_tooltip_covers_nothing_that_follows() {
    let mut window = window(digits());
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    settle(&mut window);
    let offer = {
        let options = &app(&window).state.prediction.options;
        crate::advice::words(options.best.first().or(options.nearest.first()).expect("something is offered"))
    };
    let cases = [(Role::Button, offer.as_str(), "Peak "), (Role::CheckBox, "reserved", "")];
    for (role, name, begins) in cases {
        let at = window.get_by_role_and_label(role, name).rect();
        window.hover_at(at.center());
        rest(&mut window);
        let tips = window
            .query_all_by_role(Role::Label)
            .filter(|label| label.value().is_some_and(|text| text.starts_with(begins) && text.contains("Click to")));
        let tips: Vec<egui::Rect> = tips.map(|tip| tip.rect()).collect();
        assert_eq!(tips.len(), 1, "{name}: {tips:?}");
        assert!(tips[0].bottom() <= at.top(), "{name} at {at:?}: {tips:?}");
    }
}
