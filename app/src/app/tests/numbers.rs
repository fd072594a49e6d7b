//! Values that a setting cannot have: what is typed into a field of a number and is none, and what stands in the way of a run.

use super::*;

/// Types a text in place of what the field holds, without a key that ends it.
pub(super) fn type_over(window: &mut Window, field: &str, text: &str) {
    window.get_by_role_and_label(Role::SpinButton, field).focus();
    window.run_steps(2);
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.run_steps(1);
    match text {
        "" => window.key_press(Key::Delete),
        text => window.event(egui::Event::Text(text.to_owned())),
    }
    window.run_steps(2);
}

/// The same, with Enter after it.
fn enter(window: &mut Window, field: &str, text: &str) {
    type_over(window, field, text);
    window.key_press(Key::Enter);
    window.run_steps(4);
}

/// The words of the pane about what was typed.
fn said(window: &Window) -> Vec<String> {
    let labels = window.query_all_by_role(Role::Label).filter_map(|label| label.value());
    labels.filter(|text| text.contains("It is still")).collect()
}

#[test]
fn letters_in_a_field_of_a_number_are_said_and_the_value_stays() {
    let mut window = window(digits());
    settle(&mut window);
    let row = window.get_by_role_and_label(Role::SpinButton, "Width value").rect();
    for (typed, fault) in [
        ("abc", "is not a whole number"),
        ("12 units", "is not a whole number"),
        ("nan", "is not a whole number"),
        ("48.5", "is not a whole number"),
        ("-8", "is below 0"),
        ("1e30", "is too large"),
    ] {
        enter(&mut window, "Width value", typed);
        let words = format!("Width: “{typed}” {fault}; write a whole number. It is still 32.");
        assert_eq!(said(&window), [words]);
        assert_eq!(app(&window).state.document.experiment.model.width, 32);
        assert!(app(&window).state.why_no_training().is_none(), "the settings are as good as before");
    }
    let now = window.get_by_role_and_label(Role::SpinButton, "Width value").rect();
    assert_eq!(now, row, "nothing moves");
    // Another field says it of itself, and a number ends it.
    enter(&mut window, "Learning rate value", "fast");
    assert_eq!(said(&window).len(), 1);
    assert!(said(&window)[0].starts_with("Learning rate: “fast” is not a number"), "{:?}", said(&window));
    enter(&mut window, "Width value", "48");
    assert!(said(&window).is_empty());
    assert_eq!(app(&window).state.document.experiment.model.width, 48);
    // The value as it is is nothing to speak of.
    for typed in ["abc", "48", "abc"] {
        enter(&mut window, "Width value", typed);
        assert_eq!(said(&window).len(), usize::from(typed == "abc"), "{typed}");
    }
    enter(&mut window, "Width value", "");
    assert_eq!(said(&window), ["Width: the field was left empty; write a whole number. It is still 48."]);
    // A run begins with the settings as they are, once the words were there to be read.
    enter(&mut window, "Width value", "abc");
    assert_eq!(said(&window).len(), 1);
    window.run_steps(60);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.active().is_some() || !app.state.session.runs().is_empty());
    window.run_steps(3);
    assert!(said(&window).is_empty());
}

#[test]
fn a_text_that_is_no_number_is_neither_saved_nor_told_of_after_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.toml");
    plimsoll_engine::experiment::preset::write(&file, &digits()).expect("written");
    let mut window = window(digits());
    window.state_mut().as_mut().expect("drawn").state.document.path = Some(file.clone());
    let asked = |window: &mut Window, field: &str, text: &str| {
        type_over(window, field, text);
        window.key_press_modifiers(Modifiers::COMMAND, Key::S);
        window.run_steps(4);
    };
    let told = |window: &Window, words: &str| window.query_all_by_label_contains(words).count();
    asked(&mut window, "Width value", "yy");
    assert_eq!(told(&window, "Width: “yy” is not a whole number"), 2, "in the pane and in a message");
    assert_eq!(told(&window, "Saved"), 0);
    // Once another text is refused, the message is of that.
    enter(&mut window, "Learning rate value", "zz");
    assert_eq!((told(&window, "“yy”"), told(&window, "“zz”")), (0, 1));
    asked(&mut window, "Width value", "48");
    assert!(told(&window, "Saved") > 0);
    let saved = plimsoll_engine::experiment::preset::read(&file).expect("there");
    assert_eq!(saved.model.width, 48);
}

#[test]
fn a_problem_is_shown_at_its_control_and_keeps_a_run_from_beginning() {
    let mut experiment = digits();
    experiment.data.kind = DataKind::Idx;
    let mut window = window(experiment);
    assert_eq!(app(&window).state.prediction.problems()[0].key, "data.path");
    let told = "Path of the data: no file or folder is chosen; write the folder that holds the IDX files";
    let (_, pane) = app(&window).layout.rects().into_iter().find(|(pane, _)| *pane == Pane::Experiment).expect("there");
    let pane = pane.expect("drawn");
    assert!(window.query_all_by_label(told).any(|message| pane.contains_rect(message.rect())), "it is not in the pane");
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    window.run_steps(3);
    assert!(app(&window).state.session.runs().is_empty() && !app(&window).state.is_starting);
}

#[test]
fn a_budget_that_is_no_size_is_said_until_another_is_typed() {
    let mut window = window(Experiment { budget: Bytes::mib(16), ..digits() });
    settle(&mut window);
    let enter = |window: &mut Window, text: &str, leave: Key| {
        window.get_by_role_and_label(Role::TextInput, "Budget").focus();
        window.run_steps(2);
        window.key_press_modifiers(Modifiers::COMMAND, Key::A);
        window.run_steps(1);
        window.get_by_role_and_label(Role::TextInput, "Budget").type_text(text);
        window.run_steps(2);
        window.key_press(leave);
        window.run_steps(60);
    };
    let words = "Budget: `abc` is not a size: write a number and a unit, such as 512 MiB or 8 GiB. It is still 16 MiB.";
    enter(&mut window, "abc", Key::Enter);
    assert_eq!(said(&window), [words]);
    assert_eq!(window.get_by_role_and_label(Role::TextInput, "Budget").value().as_deref(), Some("16 MiB"));
    enter(&mut window, "16 MiB", Key::Enter);
    assert!(said(&window).is_empty(), "it is a size");
    enter(&mut window, "abc", Key::Escape);
    assert!(said(&window).is_empty(), "it was taken back");
    enter(&mut window, " ", Key::Enter);
    let words = "Budget: the field was left empty; write a size, such as 512 MiB. It is still 16 MiB.";
    assert_eq!(said(&window), [words]);
    for text in ["-4 MiB", "12"] {
        enter(&mut window, text, Key::Enter);
        assert_eq!(said(&window).len(), 1, "{text}");
    }
    assert!(said(&window)[0].starts_with("Budget: `12` has no unit: write 12 MiB or 12 GiB. It is still"));
    enter(&mut window, "8 MiB", Key::Enter);
    assert!(said(&window).is_empty());
    assert_eq!(app(&window).state.document.experiment.budget, Bytes::mib(8));
}

#[test]
fn a_budget_is_the_whole_text_where_its_letters_and_the_key_after_them_come_in_one_frame() {
    let mut window = window(digits());
    let events = |letters: &str| {
        let letters = letters.chars().map(|letter| egui::Event::Text(letter.to_string()));
        let key = |pressed| egui::Event::Key {
            key: Key::Enter,
            physical_key: None,
            pressed,
            repeat: false,
            modifiers: Modifiers::NONE,
        };
        letters.chain([key(true), key(false)]).collect::<Vec<_>>()
    };
    for (first, rest, bytes) in [("", "12 MiB", Bytes::mib(12)), ("1", "3 MiB", Bytes::mib(13))] {
        window.get_by_role_and_label(Role::TextInput, "Budget").focus();
        window.run_steps(2);
        window.key_press_modifiers(Modifiers::COMMAND, Key::A);
        window.run_steps(1);
        if !first.is_empty() {
            window.event(egui::Event::Text(first.to_owned()));
            window.step();
        }
        window.input_mut().events.extend(events(rest));
        window.run_steps(4);
        assert_eq!(app(&window).state.document.experiment.budget, bytes);
    }
}

/// Types a text in place of what a field holds, and presses a key.
fn type_in(window: &mut Window, field: &str, text: &str, (modifiers, key): (Modifiers, Key)) {
    window.get_by_role_and_label(Role::SpinButton, field).focus();
    window.run_steps(2);
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.run_steps(1);
    // The letters and the key come in one frame, as in a slow window.
    let pressed = egui::Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers };
    window.input_mut().events.extend([egui::Event::Text(text.to_owned()), pressed]);
    window.run_steps(6);
}

#[test]
fn escape_takes_back_what_was_typed() {
    let mut window = window(digits());
    settle(&mut window);
    let width = |window: &Window| app(window).state.document.experiment.model.width;
    type_in(&mut window, "Width value", "48", (Modifiers::NONE, Key::Escape));
    assert_eq!(width(&window), 32);
    assert!(said(&window).is_empty() && !app(&window).state.document.can_undo());
    // Nothing of it comes back with the focus.
    window.get_by_role_and_label(Role::SpinButton, "Width value").focus();
    window.run_steps(2);
    window.key_press(Key::Enter);
    window.run_steps(4);
    assert_eq!(width(&window), 32);
    type_in(&mut window, "Width value", "abc", (Modifiers::NONE, Key::Escape));
    assert!(said(&window).is_empty());
    type_in(&mut window, "Width value", "48", (Modifiers::NONE, Key::Enter));
    assert_eq!(width(&window), 48);
    let budget = app(&window).state.document.experiment.budget;
    window.get_by_role_and_label(Role::TextInput, "Budget").focus();
    window.run_steps(2);
    window.get_by_role_and_label(Role::TextInput, "Budget").type_text("7");
    window.run_steps(2);
    window.key_press(Key::Escape);
    window.run_steps(4);
    assert_eq!(app(&window).state.document.experiment.budget, budget);
    // Tab takes it.
    type_in(&mut window, "Width value", "64", (Modifiers::NONE, Key::Tab));
    assert_eq!(width(&window), 64);
}

#[test]
fn a_command_finds_what_was_typed_before_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("typed.toml");
    let mut short = digits();
    short.run.steps = Some(1);
    let mut window = window(short);
    settle(&mut window);
    window.state_mut().as_mut().expect("drawn").state.document.path = Some(path.clone());
    let width = |window: &Window| app(window).state.document.experiment.model.width;
    type_in(&mut window, "Width value", "48", (Modifiers::COMMAND, Key::S));
    let saved = preset::read(&path).expect("it was written");
    assert_eq!((width(&window), saved.model.width), (48, 48));
    // The focus is back, and undo takes back what was typed there, in one step.
    window.event(egui::Event::Text("64".to_owned()));
    window.run_steps(1);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(6);
    assert_eq!(width(&window), 32);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Y);
    window.run_steps(6);
    assert_eq!(width(&window), 64);
    type_in(&mut window, "Width value", "40", (Modifiers::COMMAND, Key::Enter));
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| !run.status.is_active()));
    let trained = app(&window).state.session.latest().map(|run| run.experiment().model.width);
    assert_eq!(trained, Some(40));
}

#[test]
fn keys_that_come_in_one_frame_are_all_obeyed_in_their_order() {
    let mut window = window(digits());
    settle(&mut window);
    // One control after the other: changes of the same are one step of undo.
    let fields = ["Width value", "Micro-batch value"];
    for (i, text) in ["40", "41", "44", "45"].into_iter().enumerate() {
        type_in(&mut window, fields[i % 2], text, (Modifiers::NONE, Key::Enter));
        assert_eq!(app(&window).state.document.depth().1, i + 1);
    }
    let mut press = |keys: &[Key]| {
        keys.iter().for_each(|key| window.key_press_modifiers(Modifiers::COMMAND, *key));
        window.run_steps(4);
        let experiment = &app(&window).state.document.experiment;
        (experiment.model.width, experiment.batch.micro)
    };
    assert_eq!(press(&[Key::Z, Key::Z]), (40, 41));
    assert_eq!(press(&[Key::Z, Key::Y, Key::Y]), (44, 41));
    assert_eq!(press(&[Key::Y, Key::Z, Key::Z]), (40, 41));
}

#[test]
fn a_click_on_train_that_takes_a_value_which_fits_begins_the_run() {
    let mut experiment = digits();
    experiment.model.width = 1024;
    experiment.budget = Bytes::mib(2);
    let mut window = window(experiment);
    settle(&mut window);
    let types = |window: &mut Window, text: &str| {
        window.get_by_role_and_label(Role::SpinButton, "Width value").focus();
        window.run_steps(2);
        window.key_press_modifiers(Modifiers::COMMAND, Key::A);
        window.event(egui::Event::Text(text.to_owned()));
        window.run_steps(2);
    };
    let no_run = |window: &Window| app(window).state.session.runs().is_empty() && !app(window).state.is_starting;
    // A click that changes nothing begins nothing, and one that changes to what does not fit begins nothing.
    for text in ["1024", "1000"] {
        types(&mut window, text);
        window.get_by_role_and_label(Role::Button, "Train").click();
        window.run_steps(10);
        settle(&mut window);
        assert!(no_run(&window), "{text}");
    }
    // A press that ends elsewhere is no click.
    types(&mut window, "16");
    let train = window.get_by_role_and_label(Role::Button, "Train").rect().center();
    for (pos, pressed) in [(train, true), (train + vec2(0.0, -300.0), false)] {
        window.hover_at(pos);
        let (button, modifiers) = (egui::PointerButton::Primary, Modifiers::NONE);
        window.event(egui::Event::PointerButton { pos, button, pressed, modifiers });
        window.run_steps(2);
    }
    window.run_steps(10);
    settle(&mut window);
    assert!(no_run(&window));
    types(&mut window, "16");
    window.get_by_role_and_label(Role::Button, "Train").click();
    until(&mut window, |app| !app.state.session.runs().is_empty());
    assert_eq!(app(&window).state.session.runs()[0].experiment().model.width, 16);
    until(&mut window, |app| app.state.session.active().is_none());
    // What is no number is said, and no run begins with the value before: by a click, a key, and one step at a time.
    types(&mut window, "abc");
    window.get_by_role_and_label(Role::Button, "Train").click();
    window.run_steps(10);
    assert!(!said(&window).is_empty() && app(&window).state.session.runs().len() == 1);
    types(&mut window, "abcd");
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    window.run_steps(10);
    assert!(!said(&window).is_empty() && app(&window).state.session.runs().len() == 1);
    types(&mut window, "abcde");
    window.get_by_role_and_label(Role::Button, "Step").click();
    window.run_steps(10);
    assert!(!said(&window).is_empty() && app(&window).state.session.runs().len() == 1);
    // The next click is for the value that is there, unless it is of a double click.
    window.run_steps(60);
    window.get_by_role_and_label(Role::Button, "Train").click();
    until(&mut window, |app| app.state.session.runs().len() == 2);
    until(&mut window, |app| app.state.session.active().is_none());
    // A step is begun by the click as well.
    types(&mut window, "1024");
    window.key_press(Key::Enter);
    window.run_steps(4);
    settle(&mut window);
    types(&mut window, "24");
    window.get_by_role_and_label(Role::Button, "Step").click();
    until(&mut window, |app| app.state.session.runs().len() == 3);
    assert_eq!(app(&window).state.session.runs()[2].experiment().model.width, 24);
}
