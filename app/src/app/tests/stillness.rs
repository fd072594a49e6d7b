//! Nothing moves under the pointer: during any edit, every pane stays where it is, and the rows around a number that is
//! edited do.

use std::collections::{BTreeMap, BTreeSet};

use egui_kittest::kittest::NodeT;

use super::*;

/// Draws until what else fits is known, and holds every pane to its place in every frame.
fn settle_in_place(window: &mut Window, what: &str) {
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
        std::thread::sleep(FRAME);
    }
    window.run_steps(2);
    assert_eq!(app(window).layout.rects(), rects, "{what}");
}

fn names(window: &Window, role: Role) -> Vec<String> {
    let nodes = window.query_all_by_role(role);
    nodes.filter_map(|node| node.accesskit_node().label()).collect()
}

/// Chooses what stands second in a list, by keys.
fn choose_second(window: &mut Window, list: &str) {
    window.get_by_role_and_label(Role::ComboBox, list).focus();
    window.run_steps(2);
    for key in [Key::Enter, Key::Tab, Key::Tab, Key::Enter, Key::Escape] {
        window.key_press(key);
        window.run_steps(3);
    }
}

/// How high each row with a number or a list stands.
type Rows = BTreeMap<String, f32>;

fn rows(window: &Window) -> Rows {
    let of = |role| {
        let nodes = window.query_all_by_role(role);
        nodes.filter_map(move |node| Some((format!("{role:?} {}", node.accesskit_node().label()?), node.rect().top())))
    };
    [Role::Slider, Role::SpinButton, Role::ComboBox].into_iter().flat_map(of).collect()
}

/// Holds every row to its place, where the same ones are there.
fn rows_stay(window: &Window, before: &Rows, what: &str) {
    let now = rows(window);
    if now.keys().eq(before.keys()) {
        let moved: Vec<_> =
            now.iter().filter(|(name, top)| before[*name] != **top).map(|(n, top)| (n, before[n], top)).collect();
        assert!(moved.is_empty(), "{what}: {moved:?}");
    }
}

/// Edits every control there is, by `edited`, and undoes it: the next edit is one of the same experiment.
fn edit_each(window: &mut Window, role: Role, edited: fn(&mut Window, &str)) -> usize {
    let names: BTreeSet<String> = names(window, role).into_iter().collect();
    let mut count = 0;
    for name in names {
        if window.query_all_by_role_and_label(role, &name).count() != 1 {
            continue;
        }
        let before = app(window).state.document.experiment.clone();
        // A list that is chosen from by keys comes into sight first, and settings come and go with its choice.
        let is_number = [Role::Slider, Role::SpinButton].contains(&role);
        let places = is_number.then(|| rows(window));
        edited(window, &name);
        planned(window, places.as_ref(), &name);
        count += usize::from(app(window).state.document.experiment != before);
        let sender = &window.state_mut().as_mut().expect("drawn").sender;
        sender.send(crate::command::Action::Adopt(Box::new(before)));
        planned(window, places.as_ref(), &format!("{name}, taken back"));
    }
    count
}

/// The same as [`settle_in_place`], without waiting for what else fits: the row for it has its place in any case.
fn planned(window: &mut Window, places: Option<&Rows>, what: &str) {
    let rects = app(window).layout.rects();
    let start = Instant::now();
    loop {
        window.step();
        assert_eq!(app(window).layout.rects(), rects, "{what}");
        places.into_iter().for_each(|places| rows_stay(window, places, what));
        let state = &app(window).state;
        if state.plan().is_some() || state.prediction.obstacle.is_some() {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{what}: waited in vain");
        std::thread::sleep(FRAME);
    }
    window.run_steps(3);
    assert_eq!(app(window).layout.rects(), rects, "{what}");
    places.into_iter().for_each(|places| rows_stay(window, places, what));
}

/// Edits every slider, typed number, list, box and text of an experiment.
fn edit_all(experiment: Experiment) {
    let what = experiment.title.clone();
    let mut window = window(experiment);
    unfold(&mut window);
    planned(&mut window, None, &what);
    let sliders = edit_each(&mut window, Role::Slider, |window, name| {
        let slider = window.get_by_role_and_label(Role::Slider, name);
        let at_its_end = slider.accesskit_node().numeric_value() == slider.accesskit_node().max_numeric_value();
        if at_its_end { slider.decrement_accesskit() } else { slider.increment_accesskit() }
    });
    let lists = edit_each(&mut window, Role::ComboBox, choose_second);
    edit_each(&mut window, Role::SpinButton, |window, name| {
        window.get_by_role_and_label(Role::SpinButton, name).increment_accesskit();
    });
    edit_each(&mut window, Role::CheckBox, |window, name| {
        window.get_by_role_and_label(Role::CheckBox, name).click_accesskit();
    });
    edit_each(&mut window, Role::TextInput, |window, name| {
        window.get_by_role_and_label(Role::TextInput, name).focus();
        window.run_steps(2);
        window.get_by_role_and_label(Role::TextInput, name).type_text("7");
    });
    assert!(sliders >= 8 && lists >= 3, "{what}: {sliders} sliders, {lists} lists");
}

fn shipped(name: &str) -> Experiment {
    presets::shipped().into_iter().find(|shipped| shipped.name == name).expect("it ships").experiment
}

#[test]
fn no_edit_of_a_control_moves_a_pane() {
    // The budget has room at first, and is crossed by some of the edits.
    edit_all(Experiment { budget: Bytes::kib(700), ..digits() });
}

#[test]
fn no_edit_of_a_control_of_a_card_moves_a_pane() {
    edit_all(Experiment { device: "rtx4060-8g".to_owned(), budget: Bytes::gib(2), ..digits() });
}

#[test]
fn no_edit_of_a_control_of_a_convolutional_lesson_moves_a_pane() {
    edit_all(shipped("cnn-digits"));
}

#[test]
fn no_edit_of_a_control_of_a_lesson_with_patches_moves_a_pane() {
    edit_all(shipped("vit-digits"));
}

#[test]
fn no_edit_of_a_control_of_a_lesson_with_tokens_moves_a_pane() {
    edit_all(shipped("brackets-gpt"));
}

#[test]
fn a_value_that_cannot_be_moves_no_row_and_says_why_below_them() {
    for micro in [1 << 40, 0] {
        let mut window = window(digits());
        settle_in_place(&mut window, "at first");
        let before = rows(&window);
        let mut impossible = digits();
        impossible.batch.micro = micro;
        window.state_mut().as_mut().expect("drawn").sender.send(crate::command::Action::Adopt(Box::new(impossible)));
        let is_told = |app: &App| app.state.prediction.problems().iter().any(|problem| problem.key == "batch.micro");
        let start = Instant::now();
        while !is_told(app(&window)) {
            assert!(start.elapsed() < Duration::from_secs(60), "waited in vain");
            window.step();
        }
        // From the first frame that says it.
        for frame in 0..4 {
            assert_eq!(rows(&window), before, "{micro}, frame {frame}");
            window.step();
        }
        let problem = app(&window).state.prediction.problems()[0].clone();
        let message = window.get_by_label(&crate::naming::problem(&problem, digits().model.kind)).rect();
        let (_, pane) =
            app(&window).layout.rects().into_iter().find(|(pane, _)| *pane == Pane::Experiment).expect("there");
        assert!(pane.expect("drawn").contains_rect(message), "{message:?} is not in {pane:?}");
    }
}

#[test]
fn a_value_that_cannot_be_stays_in_sight_above_what_is_said_of_it() {
    let mut window = window(digits());
    settle_in_place(&mut window, "at first");
    let mut impossible = digits();
    impossible.weights.path = Some("no such folder".into());
    window.state_mut().as_mut().expect("drawn").sender.send(crate::command::Action::Adopt(Box::new(impossible)));
    until(&mut window, |app| app.state.prediction.problems().iter().any(|problem| problem.key == "weights.path"));
    window.run_steps(20);
    let problem = app(&window).state.prediction.problems()[0].clone();
    let message = window.get_by_label(&crate::naming::problem(&problem, digits().model.kind)).rect();
    let rows: Vec<_> = window.query_all_by_label("Weights").map(|row| row.rect()).collect();
    assert!(rows.iter().any(|row| row.top() > 0.0 && row.bottom() <= message.top()), "{rows:?} and {message:?}");
}

#[test]
fn a_description_of_several_lines_is_edited_and_nothing_moves() {
    let lines = "One line that says what to look at.\nAnother that says why.\nAnd a third.";
    let mut window = window(Experiment { description: lines.to_owned(), ..digits() });
    settle_in_place(&mut window, "at first");
    window.get_by_label("Title and description").click_accesskit();
    window.run_steps(30);
    window.get_by_role_and_label(Role::MultilineTextInput, "Description").focus();
    window.run_steps(30);
    let panes = app(&window).layout.rects();
    // In its own pane, the line that is typed stays in sight.
    let still = |window: &Window, what: &str| assert_eq!(app(window).layout.rects(), panes, "{what}");
    for _ in 0..3 {
        window.get_by_role_and_label(Role::MultilineTextInput, "Description").type_text("More of it.");
        window.key_press(Key::Enter);
        for _ in 0..3 {
            window.step();
            still(&window, "while it is typed");
            assert_eq!(window.query_all_by_label(lines).count(), 1, "the text above stays while it is typed");
        }
    }
    let description = app(&window).state.document.experiment.description.clone();
    assert_eq!(description.split('\n').count(), 6, "{description:?}");
    window.get_by_role_and_label(Role::Slider, "Micro-batch").focus();
    window.run_steps(5);
    still(&window, "once the field is left");
    let shown = window.query_all_by_label(&description).count();
    assert_eq!(shown, 1, "above the settings it is the new one");
}

#[test]
fn a_run_moves_no_row_of_the_settings() {
    let mut window = window(digits());
    settle_in_place(&mut window, "at first");
    let before = rows(&window);
    // The pane *Live* has a list of its own once there is a run.
    let those =
        |window: &Window| rows(window).into_iter().filter(|(name, _)| before.contains_key(name)).collect::<Rows>();
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    let start = Instant::now();
    while app(&window).state.session.latest().is_none_or(|run| run.summary.is_none()) {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain");
        window.step();
        assert_eq!(those(&window), before, "while it goes on");
    }
    window.run_steps(5);
    assert_eq!(those(&window), before);
    let told = window.query_all_by_label_contains("of its time for data").count();
    assert_eq!(told, 1, "it is told where a run tells it");
}

#[test]
fn no_edit_moves_a_pane_when_what_else_fits_comes_after_it() {
    let mut window = window(Experiment { budget: Bytes::kib(700), ..digits() });
    settle_in_place(&mut window, "at first");
    for name in ["Micro-batch", "Width", "Accumulation"] {
        for _ in 0..2 {
            window.get_by_role_and_label(Role::Slider, name).increment_accesskit();
            settle_in_place(&mut window, name);
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
    settle_in_place(&mut window, "does not fit");
    let rects = app(&window).layout.rects();
    window.get_by_role_and_label(Role::Button, "Pin").click();
    settle_in_place(&mut window, "pinned");
    window.get_by_role_and_label(Role::Button, "Train anyway").click();
    until(&mut window, |app| app.state.notice.is_some());
    settle_in_place(&mut window, "refused");
    let nearest = app(&window).state.prediction.options.nearest[0].experiment.clone();
    window.state_mut().as_mut().expect("drawn").sender.send(crate::command::Action::Adopt(Box::new(nearest)));
    settle_in_place(&mut window, "an offer");
    settle_in_place(&mut window, "fits");
    assert!(app(&window).state.plan().is_some_and(|plan| plan.fits()));
    assert_eq!(app(&window).layout.rects(), rects);
}
