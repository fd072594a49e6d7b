//! Short messages over the title.

use super::*;

#[test]
fn a_click_on_a_message_takes_it_away_and_reaches_nothing_below() {
    let mut window = window(digits());
    window.state_mut().as_mut().expect("drawn").toasts.info("Something to know");
    window.state_mut().as_mut().expect("drawn").toasts.warning("Something to mind");
    window.run_steps(3);
    let [first, second] =
        ["Something to know", "Something to mind"].map(|text| window.get_by_label_contains(text).rect());
    let whole = window.ctx.content_rect();
    assert!(whole.contains_rect(first) && whole.contains_rect(second), "{first:?}, {second:?}");
    assert!(first.bottom() < second.top() && first.top() < whole.top() + 40.0, "{first:?}, {second:?}");
    let hit = |window: &Window, at: eframe::egui::Pos2| window.ctx.layer_id_at(at).map(|layer| layer.order);
    assert_eq!(hit(&window, first.center()), Some(eframe::egui::Order::Foreground));
    window.get_by_label_contains("Something to know").click();
    window.run_steps(3);
    assert!(window.query_by_label_contains("Something to know").is_none());
    assert!(window.query_by_label_contains("Something to mind").is_some());
}

#[test]
fn what_is_told_again_is_told_once_and_goes_by_itself() {
    let mut window = window(digits());
    for _ in 0..2 {
        window.state_mut().as_mut().expect("drawn").toasts.info("Hm");
    }
    window.run_steps(3);
    assert_eq!(window.query_all_by_label_contains("Hm").count(), 1);
    let start = Instant::now();
    while window.query_by_label_contains("Hm").is_some() {
        window.step();
        assert!(start.elapsed() < Duration::from_secs(30), "it stays");
    }
    assert!(start.elapsed() > Duration::from_secs(2), "it can be read");
}

#[test]
fn a_newer_message_of_a_kind_takes_the_place_of_the_older_and_none_lies_over_a_control() {
    let mut window = window(digits());
    for (size, text) in [([1280.0, 800.0], "One"), ([960.0, 600.0], "Two"), ([640.0, 480.0], "Three")] {
        window.set_size(size.into());
        window.run_steps(3);
        window.state_mut().as_mut().expect("drawn").toasts.info(text);
        window.state_mut().as_mut().expect("drawn").toasts.warning(format!("{text} of another kind"));
        window.run_steps(3);
        let message = window.get_by_label(&format!("ℹ  {text}")).rect();
        let roles = [Role::Button, Role::TextInput, Role::Slider, Role::ComboBox, Role::CheckBox];
        for control in roles.into_iter().flat_map(|role| window.query_all_by_role(role)) {
            assert!(!control.rect().intersects(message), "{text}: {:?} below {message:?}", control.value());
        }
    }
    assert!(window.query_by_label_contains("One").is_none() && window.query_by_label_contains("Two").is_none());
}

#[test]
fn a_click_on_a_run_tells_nothing() {
    let (store, _) = super::runs::two_runs();
    let mut window = super::runs::on(&store, Experiment::default());
    super::runs::show(&mut window, Pane::Runs);
    window.get_by_role_and_label(Role::Button, "Tiny, batch 96").click();
    until(&mut window, |app| app.state.document.experiment.batch.micro == 96);
    assert!(app(&window).toasts.is_empty());
}
