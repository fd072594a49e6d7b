//! Nothing moves under the pointer: whatever is edited, every pane stays where it is.

use egui_kittest::kittest::NodeT;

use super::*;

/// Draws until what else fits is known, and holds every pane to its place in every frame.
fn settle(window: &mut Window, what: &str) {
    let rects = app(window).layout.rects();
    let start = Instant::now();
    loop {
        window.step();
        assert_eq!(app(window).layout.rects(), rects, "{what}");
        let state = &app(window).state;
        let prediction = &state.prediction;
        let is_settled = prediction.options_generation == state.document.generation || prediction.obstacle.is_some();
        if is_settled {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{what}: waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
    window.run_steps(2);
    assert_eq!(app(window).layout.rects(), rects, "{what}");
}

fn names(window: &Window, role: Role) -> Vec<String> {
    let nodes = window.get_all_by_role(role);
    nodes.filter_map(|node| node.accesskit_node().label()).collect()
}

/// Chooses what stands first in a list, if that is another than what is chosen.
fn choose_first(window: &mut Window, list: &str) {
    window.get_by_role_and_label(Role::ComboBox, list).click_accesskit();
    window.run_steps(3);
    for key in [Key::Tab, Key::Enter, Key::Escape] {
        window.key_press(key);
        window.run_steps(2);
    }
}

#[test]
fn no_edit_of_a_control_moves_a_pane() {
    // The budget has room at first, and is crossed by some of the edits.
    let mut window = window(Experiment { budget: Bytes::kib(700), ..digits() });
    unfold(&mut window);
    settle(&mut window, "at first");
    let sliders = names(&window, Role::Slider);
    assert!(sliders.len() > 8, "{sliders:?}");
    for name in &sliders {
        // A list chosen before may have taken a control away.
        if window.query_all_by_role_and_label(Role::Slider, name).count() == 1 {
            window.get_by_role_and_label(Role::Slider, name).increment_accesskit();
            settle(&mut window, name);
        }
    }
    for name in names(&window, Role::ComboBox) {
        if window.query_all_by_role_and_label(Role::ComboBox, &name).count() == 1 {
            choose_first(&mut window, &name);
            settle(&mut window, &name);
        }
    }
}

#[test]
fn neither_a_pin_nor_an_offer_nor_a_run_that_is_refused_moves_a_pane() {
    let mut experiment = digits();
    experiment.model.width = 256;
    experiment.batch.micro = 512;
    experiment.budget = Bytes::mib(2);
    let mut window = window(experiment);
    settle(&mut window, "does not fit");
    let rects = app(&window).layout.rects();
    window.get_by_role_and_label(Role::Button, "Pin").click();
    settle(&mut window, "pinned");
    window.get_by_role_and_label(Role::Button, "Train anyway").click();
    until(&mut window, |app| app.state.notice.is_some());
    settle(&mut window, "refused");
    let nearest = app(&window).state.prediction.options.nearest[0].experiment.clone();
    window.state_mut().as_mut().expect("drawn").sender.send(crate::command::Action::Adopt(Box::new(nearest)));
    settle(&mut window, "an offer");
    settle(&mut window, "fits");
    assert!(app(&window).state.plan().is_some_and(|plan| plan.fits()));
    assert_eq!(app(&window).layout.rects(), rects);
}
