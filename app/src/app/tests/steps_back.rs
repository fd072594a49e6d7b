//! Undo takes back every change of the present settings: a control, an offer, a document that was opened.

use super::*;

fn undo(window: &mut Window) {
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(3);
}

fn redo(window: &mut Window) {
    window.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z);
    window.run_steps(3);
}

fn open_shipped(window: &mut Window, name: &str) {
    let index = app(window).state.shipped.iter().position(|shipped| shipped.name == name).expect("ships");
    let app = window.state_mut().as_mut().expect("drawn");
    app.sender.send(crate::command::Action::OpenShipped(index));
    window.run_steps(3);
}

fn shipped(window: &Window) -> Option<&str> {
    app(window).state.document.shipped.as_deref()
}

fn drafts(window: &Window) -> usize {
    app(window).state.drafts.iter().count()
}

#[test]
fn a_lesson_that_was_opened_gives_its_place_back_to_what_was_there() {
    let mut window = opened(PersistedState::default(), None);
    until(&mut window, |app| app.state.plan().is_some());
    let (first, written) = (shipped(&window).map(str::to_owned), app(&window).state.document.experiment.clone());
    assert!(!app(&window).state.document.can_undo());
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    window.run_steps(2);
    let touched = app(&window).state.document.experiment.clone();
    open_shipped(&mut window, "cnn-digits");
    open_shipped(&mut window, "vit-digits");
    assert_eq!((shipped(&window), drafts(&window)), (Some("vit-digits"), 1));
    undo(&mut window);
    assert_eq!(shipped(&window), Some("cnn-digits"));
    undo(&mut window);
    // It is the document again, touched as it was, and no draft.
    assert_eq!((shipped(&window).map(str::to_owned), drafts(&window)), (first, 0));
    assert_eq!(app(&window).state.document.experiment, touched);
    redo(&mut window);
    redo(&mut window);
    assert_eq!((shipped(&window), drafts(&window)), (Some("vit-digits"), 1));
    assert!(!app(&window).state.document.can_redo());
    (0..3).for_each(|_| undo(&mut window));
    assert_eq!(app(&window).state.document.experiment, written, "its own steps are there as well");
    until(&mut window, |app| app.state.plan().is_some_and(|plan| *plan.experiment == written));
    // A change forgets what was undone.
    window.get_by_role_and_label(Role::Slider, "Width").increment_accesskit();
    window.run_steps(2);
    assert!(!app(&window).state.document.can_redo());
}

#[test]
fn changes_that_were_not_saved_are_found_again() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Slider, "Accumulation").increment_accesskit();
    window.run_steps(2);
    let changed = app(&window).state.document.experiment.clone();
    window.key_press_modifiers(Modifiers::COMMAND, Key::N);
    window.run_steps(3);
    window.get_by_label("Don't save").click();
    window.run_steps(3);
    assert_ne!(app(&window).state.document.experiment, changed);
    undo(&mut window);
    assert_eq!(app(&window).state.document.experiment, changed);
    assert!(app(&window).state.document.is_changed());
}

#[test]
fn an_offer_that_was_taken_is_given_back() {
    let before = Experiment { budget: Bytes::mib(6), ..digits() };
    let mut window = window(before.clone());
    settle(&mut window);
    window.get_by_role_and_label(Role::Button, "Fill the budget").click();
    window.run_steps(3);
    assert_ne!(app(&window).state.document.experiment, before);
    undo(&mut window);
    assert_eq!(app(&window).state.document.experiment, before);
    settle(&mut window);
    let best = app(&window).state.prediction.options.best.clone();
    for offer in best.iter().take(2) {
        let name = crate::advice::words(offer);
        let Some(button) = window.query_all_by_role_and_label(Role::Button, &name).next() else { continue };
        button.click();
        window.run_steps(3);
        assert_eq!(app(&window).state.document.experiment, offer.experiment);
        undo(&mut window);
        assert_eq!(app(&window).state.document.experiment, before, "{name}");
        settle(&mut window);
    }
}

#[test]
fn another_source_has_its_usual_length_and_undo_gives_the_chosen_one_back() {
    let mut experiment = digits();
    experiment.model.kind = plimsoll_engine::experiment::ModelKind::Gpt2;
    (experiment.model.width, experiment.model.heads, experiment.model.depth) = (16, 2, 1);
    (experiment.data.kind, experiment.data.length, experiment.data.vocabulary) = (DataKind::Tokens, 256, 10);
    let mut window = window(experiment.clone());
    let choose = |window: &mut Window, name: &str| {
        window.get_by_role_and_label(Role::ComboBox, "Source").click_accesskit();
        window.run_steps(3);
        window.get_by_label(name).click_accesskit();
        window.run_steps(3);
    };
    choose(&mut window, "digits to sort");
    let data = &app(&window).state.document.experiment.data;
    assert_eq!((data.kind, data.length), (DataKind::Sort, 8), "256 digits were not chosen");
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.experiment.data.length == 8));
    undo(&mut window);
    assert_eq!(app(&window).state.document.experiment, experiment);
    choose(&mut window, "balanced brackets");
    assert_eq!(app(&window).state.document.experiment.data.length, 10);
}

#[test]
fn a_list_that_is_open_closes_where_a_step_is_undone() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    until(&mut window, |app| planned_micro(app) == Some(96));
    window.get_by_role_and_label(Role::ComboBox, "Kind").click();
    window.run_steps(3);
    assert!(window.query_by_label("CNN").is_some(), "it is open");
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    until(&mut window, |app| planned_micro(app) == Some(64));
    assert!(window.query_by_label("CNN").is_none());
}

#[test]
fn the_words_about_undo_name_the_step_that_it_takes_back() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    window.run_steps(2);
    let said = |window: &mut Window, words: &str| {
        window.get_by_role_and_label(Role::Button, "Undo").hover();
        window.run_steps(60);
        window.query_by_label_contains(words).is_some()
    };
    assert!(said(&mut window, "Now: micro-batch 64 → 96."));
    undo(&mut window);
    window.hover_at(eframe::egui::pos2(640.0, 400.0));
    open_shipped(&mut window, "cnn-digits");
    assert!(said(&mut window, "Now: the opening of "));
}
