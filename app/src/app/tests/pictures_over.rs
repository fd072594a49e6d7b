//! Areas over the window, judged as the panes are: dialogs, menus and the gallery, in both themes and every size and scale.
//! All of each is on the screen, nothing in it is cut or covered, and its text stands out.

use std::collections::BTreeSet;

use eframe::egui::{Color32, CornerRadius, Pos2, Rect, Shape};

use super::{
    pictures::{Piece, SCALES, SIZES, assert_none, judge, pieces, set_size, set_theme},
    *,
};
use crate::{command::Action, files::Purpose, state::Then};

/// Points by which a frame may leave the screen: its line.
const LINE: f32 = 1.0;

/// The frame of a menu or a dialog, the last of its kind, and its index.
fn frame(pieces: &[Piece], radius: u8, fill: Color32) -> Option<(usize, Rect)> {
    pieces.iter().enumerate().rev().find_map(|(i, piece)| match &piece.shape {
        Shape::Rect(rect) if rect.corner_radius == CornerRadius::same(radius) && rect.fill == fill => {
            Some((i, rect.rect))
        }
        _ => None,
    })
}

/// Judges what was drawn from the frame on.
fn judge_over(window: &Window, place: &str, radius: u8, screen: Rect, all: &mut BTreeSet<String>) {
    let pieces = pieces(window);
    let fill = window.ctx.global_style().visuals.window_fill;
    let Some((at, frame)) = frame(&pieces, radius, fill) else {
        all.insert(format!("{place}: nothing lies over the window"));
        return;
    };
    if !screen.expand(LINE).contains_rect(frame) {
        all.insert(format!("{place}: {frame:?} leaves the screen {screen:?}"));
    }
    let mut faults = BTreeSet::new();
    judge(&pieces[at..], screen, &mut faults);
    all.extend(faults.into_iter().map(|fault| format!("{place}: {fault}")));
}

/// Every size, scale and theme of what `open` opens; `close` closes it.
fn every_picture(window: &mut Window, name: &str, radius: u8, open: &dyn Fn(&mut Window), all: &mut BTreeSet<String>) {
    // What opens is there at once.
    window.ctx.all_styles_mut(|style| style.animation_time = 0.0);
    for (size, scale, dark) in SIZES
        .into_iter()
        .flat_map(|size| SCALES.map(|scale| (size, scale)))
        .flat_map(|(size, scale)| [(size, scale, true), (size, scale, false)])
    {
        let (scale, points) = set_size(window, size, scale);
        set_theme(window, dark);
        window.run_steps(2);
        open(window);
        window.run_steps(4);
        let place = format!("{name}, {} x {} at {scale}, {}", size[0], size[1], if dark { "dark" } else { "light" });
        judge_over(window, &place, radius, Rect::from_min_size(Pos2::ZERO, points), all);
        window.key_press(Key::Escape);
        window.run_steps(2);
        window.state_mut().as_mut().expect("drawn").state.dialog = None;
        window.run_steps(1);
    }
}

const DIALOG: u8 = 6;
const MENU: u8 = 6;

#[test]
fn every_dialog_can_be_read_in_every_size_scale_and_theme() {
    let mut window =
        window(Experiment { title: "A title that is longer than there is room for".to_owned(), ..digits() });
    let long = "/home/somebody/experiments/of/this/year/and/of/the/last/one/with-a-name-that-is-long-as-well.toml";
    // A field that is typed in scrolls: what is long is not cut there.
    let path =
        |purpose, number| Dialog::Path { purpose, suggestion: "/home/somebody/".to_owned(), number, trouble: None };
    let dialogs = [
        ("open", path(Purpose::Open, 1)),
        ("folder", path(Purpose::DataFolder, 2)),
        ("replace", Dialog::Replace(long.into())),
        ("replace changed", Dialog::ReplaceChanged(long.into())),
        ("unsaved", Dialog::Unsaved(Then::Quit)),
        ("stop and quit", Dialog::StopAndQuit),
        ("shortcuts", Dialog::Shortcuts),
    ];
    let mut faults = BTreeSet::new();
    for (name, dialog) in dialogs {
        let open = move |window: &mut Window| {
            window.state_mut().as_mut().expect("drawn").state.dialog = Some(dialog.clone());
        };
        every_picture(&mut window, name, DIALOG, &open, &mut faults);
    }
    assert_none(&faults);
}

#[test]
fn the_gallery_can_be_read_in_every_size_scale_and_theme() {
    let mut window = window(digits());
    window.key_press_modifiers(Modifiers::COMMAND, Key::G);
    until(&mut window, |app| !app.state.gallery.entries.is_empty());
    until(&mut window, |app| app.state.gallery.entries.iter().all(|entry| entry.picture.is_some()));
    let open = |window: &mut Window| {
        window.state_mut().as_mut().expect("drawn").state.dialog = Some(Dialog::Presets);
    };
    let mut faults = BTreeSet::new();
    every_picture(&mut window, "gallery", DIALOG, &open, &mut faults);
    assert_none(&faults);
}

#[test]
fn every_menu_can_be_read_in_every_size_scale_and_theme() {
    let mut window = window(digits());
    until(&mut window, |app| app.state.devices.is_some());
    settle(&mut window);
    let mut faults = BTreeSet::new();
    for name in ["File", "View", "Device", "Common budgets", "Compare"] {
        let open = move |window: &mut Window| {
            window.state_mut().as_mut().expect("drawn").layout.set_shown(Pane::Step, true);
            window.run_steps(2);
            let button = window.query_all_by_role_and_label(Role::Button, name).next();
            if let Some(button) = button {
                button.click_accesskit();
            }
        };
        every_picture(&mut window, name, MENU, &open, &mut faults);
    }
    assert_none(&faults);
}

#[test]
fn a_tooltip_is_gone_once_a_dialog_lies_over_the_window() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Slider, "Micro-batch").hover();
    window.run_steps(60);
    let shows = |window: &Window| window.query_by_label_contains("Samples that go through the model at once").is_some();
    assert!(shows(&window));
    window.key_press(Key::F1);
    window.run_steps(3);
    assert!(!shows(&window) && app(&window).state.dialog == Some(Dialog::Shortcuts));
    // Nor does one come while the dialog is there.
    let row = window.get_by_role_and_label(Role::Slider, "Micro-batch").rect();
    window.hover_at(row.center());
    window.run_steps(60);
    assert!(!shows(&window));
    window.state_mut().as_mut().expect("drawn").sender.send(Action::CloseDialog);
    window.run_steps(3);
    window.hover_at(row.center() + vec2(1.0, 0.0));
    window.run_steps(60);
    assert!(shows(&window));
}

#[test]
fn what_cannot_be_pressed_says_why() {
    let mut window = window(digits());
    for name in ["Evaluate", "Pause", "Stop"] {
        window.get_by_role_and_label(Role::Button, name).hover();
        window.run_steps(60);
        assert!(window.query_by_label_contains("No run is in progress: press Train").is_some(), "{name}");
        window.hover_at(egui::pos2(600.0, 300.0));
        window.run_steps(5);
    }
}
