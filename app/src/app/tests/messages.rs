//! Short messages, between the title and the device, or in the bottom bar.

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
    assert!(first.right() < second.left(), "{first:?}, {second:?}: the newer at the right end");
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

/// The frame that is drawn below a message.
fn message(window: &Window, text: &str) -> egui::Rect {
    window.get_by_label_contains(text).rect().expand2(vec2(9.0, 3.0))
}

/// Holds a message to where it covers nothing that is read or pressed at the moment.
fn covers_nothing(window: &Window, text: &str, what: &str) {
    let message = message(window, text);
    assert!(window.ctx.content_rect().contains_rect(message), "{what}: {message:?}");
    if app(window).state.dialog.is_some() {
        // What lies below the dialog is not to be pressed.
        for close in window.query_all_by_label("Close") {
            assert!(!close.rect().intersects(message), "{what}: {close:?} below {message:?}");
        }
        return;
    }
    let roles = [Role::Button, Role::TextInput, Role::Slider, Role::ComboBox, Role::CheckBox, Role::SpinButton];
    // What is scrolled below the end of a pane is not there to be pressed; the bottom bar has buttons alone.
    let end = window.get_by_role_and_label(Role::Button, "Train").rect().top();
    let controls =
        roles.into_iter().flat_map(|role| window.query_all_by_role(role).map(move |control| (role, control)));
    let in_sight = controls.filter(|(role, control)| *role == Role::Button || control.rect().bottom() <= end);
    for (_, control) in in_sight {
        assert!(!control.rect().intersects(message), "{what}: {control:?} below {message:?}");
    }
    for words in ["Fits: ", "Tiny"] {
        for read in
            window.query_all_by_role(Role::Label).filter(|label| label.value().is_some_and(|v| v.contains(words)))
        {
            assert!(!read.rect().intersects(message), "{what}: {read:?} below {message:?}");
        }
    }
}

const SIZES: [[f32; 2]; 3] = [[1280.0, 800.0], [960.0, 600.0], [640.0, 480.0]];

#[test]
fn a_newer_message_of_a_kind_takes_the_place_of_the_older_and_none_lies_over_a_control() {
    let mut window = window(digits());
    for (size, text) in SIZES.into_iter().zip(["One", "Two", "Three"]) {
        window.set_size(size.into());
        window.run_steps(3);
        window.state_mut().as_mut().expect("drawn").toasts.info(text);
        window.state_mut().as_mut().expect("drawn").toasts.warning(format!("{text} of another kind"));
        window.run_steps(3);
        for shown in [format!("ℹ  {text}"), format!("⚠  {text} of another kind")] {
            covers_nothing(&window, &shown, &shown);
        }
    }
    assert!(window.query_by_label_contains("One").is_none() && window.query_by_label_contains("Two").is_none());
}

#[test]
fn a_long_message_covers_neither_the_verdict_nor_a_control_nor_what_a_dialog_asks() {
    let mut window = window(digits());
    let long =
        "Your changes to an experiment with a title of many words are kept as a draft: the gallery has it. ".repeat(3);
    for size in SIZES {
        window.set_size(size.into());
        for dialog in [None, Some(Dialog::Presets), Some(Dialog::Shortcuts)] {
            let what = format!("{size:?}, {dialog:?}");
            window.state_mut().as_mut().expect("drawn").state.dialog = dialog;
            window.run_steps(5);
            window.state_mut().as_mut().expect("drawn").toasts.info(&long);
            window.run_steps(3);
            covers_nothing(&window, "ℹ  Your changes", &what);
        }
        window.state_mut().as_mut().expect("drawn").state.dialog = None;
    }
}

#[test]
fn a_click_on_a_run_tells_nothing() {
    let (store, _) = super::runs::two_runs();
    let mut window = super::runs::on(&store, Experiment::default());
    super::runs::show(&mut window, Pane::Runs);
    window.get_by_role_and_label(Role::Button, "Run 2: micro-batch 96, Tiny").click();
    until(&mut window, |app| app.state.shown_run().is_some());
    assert!(app(&window).toasts.is_empty());
}

#[test]
fn the_list_of_keys_leaves_room_beside_the_longest() {
    let mut window = window(digits());
    for (size, scale) in [([1280.0, 800.0], 1.0), ([960.0, 600.0], 1.0), ([1280.0, 800.0], 2.0)] {
        pictures::set_size(&mut window, size, scale);
        window.run_steps(2);
        window.state_mut().as_mut().expect("drawn").sender.send(crate::command::Action::Ui(UiCommand::Shortcuts));
        window.run_steps(4);
        let dialog = window.ctx.memory(|memory| memory.area_rect(egui::Id::unique("dialog"))).expect("it is open");
        for keys in ["drag, Ctrl+wheel, double-click", "arrows, Shift+arrows, Ctrl+A"] {
            let keys = window.get_by_label(keys).rect();
            assert!(
                keys.right() + crate::theme::WIDE_GAP <= dialog.right(),
                "{size:?} at {scale}: {keys:?} in {dialog:?}"
            );
        }
        for name in ["Move a plot, zoom, show all again", "Table of runs: menu of the picked runs"] {
            let name = window.get_by_label(name).rect();
            assert!(dialog.x_range().contains(name.left()) && name.right() < dialog.right(), "{name:?} in {dialog:?}");
        }
        window.get_by_label("Close").click();
        window.run_steps(2);
    }
}
