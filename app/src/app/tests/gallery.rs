//! The gallery: presets are found, opened and kept.

use super::*;
use crate::command::UiCommand;

const FIRST: &str = "MLP on hand-written digits";
const SECOND: &str = "CNN on hand-written digits";

/// A window as it is at the first start.
fn fresh() -> Window {
    let mut window = opened(PersistedState::default(), None);
    until(&mut window, |app| app.state.plan().is_some());
    window
}

fn show(window: &mut Window) {
    window.key_press_modifiers(Modifiers::COMMAND, Key::G);
    window.run_steps(3);
    assert_eq!(app(window).state.dialog, Some(Dialog::Presets));
}

/// Opens the first card of this title.
fn open(window: &mut Window, title: &str) {
    show(window);
    let cards: Vec<_> = window.get_all_by_role_and_label(Role::Button, title).collect();
    cards[0].click_accesskit();
    drop(cards);
    window.run_steps(3);
    assert_eq!(app(window).state.dialog, None);
    assert_eq!(app(window).state.document.experiment.title, title);
}

fn micro(window: &Window) -> usize {
    app(window).state.document.experiment.batch.micro
}

fn touch(window: &mut Window) {
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    window.run_steps(2);
}

#[test]
fn a_touched_lesson_is_left_without_a_question_found_again_and_discarded() {
    let mut window = fresh();
    let written = micro(&window);
    touch(&mut window);
    let touched = micro(&window);
    assert_ne!(written, touched);
    open(&mut window, SECOND);
    assert_eq!(app(&window).state.drafts.iter().count(), 1);
    // The draft stands before the shipped preset, and still knows its steps back.
    open(&mut window, FIRST);
    assert_eq!((micro(&window), app(&window).state.drafts.iter().count()), (touched, 0));
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(2);
    assert_eq!(micro(&window), written);
    open(&mut window, SECOND);
    assert_eq!(app(&window).state.drafts.iter().count(), 0, "nothing was left of it to keep");
    open(&mut window, FIRST);
    touch(&mut window);
    open(&mut window, SECOND);
    show(&mut window);
    window.get_by_label(&format!("Discard the draft {FIRST}")).click();
    window.run_steps(3);
    assert_eq!(app(&window).state.drafts.iter().count(), 0);
    let shown = window.query_all_by_role_and_label(Role::Button, FIRST).count();
    assert_eq!(shown, 2, "the shipped one stays, and was opened before");
}

#[test]
fn drafts_and_the_name_of_the_preset_outlive_the_window() {
    let mut window = fresh();
    touch(&mut window);
    open(&mut window, SECOND);
    touch(&mut window);
    let text = serde_json::to_string(&app(&window).persisted()).expect("plain data");
    let mut again = opened(serde_json::from_str(&text).expect("as written"), None);
    until(&mut again, |app| app.state.plan().is_some());
    assert_eq!(app(&again).state.drafts.iter().count(), 1);
    assert!(app(&again).state.document.draft().is_some());
    open(&mut again, FIRST);
    assert_eq!(app(&again).state.drafts.iter().count(), 1, "one was opened, the other kept");
}

#[test]
fn the_gallery_is_searched_and_used_by_keys() {
    let mut window = fresh();
    show(&mut window);
    window.get_by_role_and_label(Role::TextInput, "Search presets").type_text("checkpoint instead");
    window.run_steps(3);
    assert_eq!(window.query_all_by_role_and_label(Role::Button, FIRST).count(), 0);
    window.key_press(Key::Enter);
    window.run_steps(3);
    assert_eq!(app(&window).state.document.shipped.as_deref(), Some("cnn-shapes-checkpoint"));
    show(&mut window);
    // The first row has what was just opened, the second has the lessons.
    for key in [Key::ArrowDown, Key::ArrowDown, Key::ArrowRight] {
        window.key_press(key);
        window.run_steps(3);
    }
    window.key_press(Key::Enter);
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment.title, SECOND);
    show(&mut window);
    window.key_press(Key::Escape);
    window.run_steps(3);
    assert_eq!(app(&window).state.dialog, None);
}

#[test]
fn home_and_end_go_to_the_first_card_and_the_last_and_ctrl_f_to_the_search() {
    let mut window = fresh();
    show(&mut window);
    let focused = |window: &Window| {
        let id = window.ctx.memory(|memory| memory.focused()).expect("something has it");
        window.ctx.read_response(id).expect("it was drawn")
    };
    for key in [Key::ArrowDown, Key::Home] {
        window.key_press(key);
        window.run_steps(24);
    }
    let first = focused(&window);
    window.key_press(Key::End);
    window.run_steps(24);
    let last = focused(&window);
    assert!(
        last.id != first.id && last.interact_rect.height() >= last.rect.height() * 0.9,
        "{:?} is in sight",
        last.rect
    );
    window.key_press(Key::ArrowRight);
    window.run_steps(24);
    assert_eq!(focused(&window).id, last.id, "there is none past it");
    window.key_press(Key::Home);
    window.run_steps(24);
    assert_eq!(focused(&window).id, first.id);
    let search = |window: &mut Window, text: &str| {
        window.key_press_modifiers(Modifiers::COMMAND, Key::F);
        window.run_steps(3);
        window.event(egui::Event::Text(text.to_owned()));
        window.run_steps(24);
        let field = window.get_by_role_and_label(Role::TextInput, "Search presets");
        assert!(field.is_focused());
        assert_eq!(field.value().as_deref(), Some(text), "it takes the place of what was there");
    };
    search(&mut window, "mlp");
    search(&mut window, "cnn");
    // In a text, End is of the text; without one, it leads to the last card.
    window.key_press(Key::End);
    window.run_steps(3);
    assert!(window.get_by_role_and_label(Role::TextInput, "Search presets").is_focused());
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.key_press(Key::Backspace);
    window.run_steps(24);
    window.key_press(Key::End);
    window.run_steps(24);
    assert_eq!(focused(&window).id, last.id);
}

#[test]
fn the_arrows_go_to_the_card_beside_and_below_and_it_is_in_sight() {
    let mut window = fresh();
    show(&mut window);
    let mut press = |key| {
        window.key_press(key);
        window.run_steps(24);
        let id = window.ctx.memory(|memory| memory.focused()).expect("a card");
        let card = window.ctx.read_response(id).expect("it was drawn");
        assert!(card.interact_rect.height() >= card.rect.height() * 0.9, "{:?} is in sight", card.rect);
        card.rect
    };
    let mut at = press(Key::ArrowDown);
    for _ in 0..3 {
        let next = press(Key::ArrowRight);
        assert!(next.left() > at.right() && next.top() == at.top(), "{next:?} next to {at:?}");
        at = next;
    }
    let next = press(Key::ArrowRight);
    assert!(next.left() < at.left() && next.top() > at.bottom(), "on to the next row");
    assert_eq!(press(Key::ArrowLeft).right(), at.right(), "and back");
    for _ in 0..2 {
        let next = press(Key::ArrowDown);
        assert_eq!(next.right(), at.right(), "below");
    }
    for _ in 0..4 {
        press(Key::ArrowDown);
    }
    for _ in 0..7 {
        press(Key::ArrowUp);
    }
    assert!(window.get_by_role_and_label(Role::TextInput, "Search presets").is_focused());
}

#[test]
fn every_card_gets_the_picture_of_its_prediction() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.toml");
    preset::write(&path, &digits()).expect("writes");
    let mut window = opened(PersistedState::default(), Some(path));
    until(&mut window, |app| app.state.plan().is_some());
    show(&mut window);
    until(&mut window, |app| app.state.gallery.entries.iter().all(|entry| entry.picture.is_some()));
    let (state, plan) = (&app(&window).state, app(&window).state.plan().expect("a plan"));
    for entry in &state.gallery.entries {
        let picture = entry.picture.as_ref().expect("made").as_ref();
        let path = entry.experiment.as_ref().and_then(|experiment| experiment.data.path.as_ref());
        if let Some(path) = path.filter(|path| !path.starts_with("shipped:ships.csv")) {
            // Its data are a folder of the user's, which is not here.
            assert!(picture.expect_err("no data").contains(&path.display().to_string()), "{}", entry.title());
            continue;
        }
        assert!(!picture.unwrap_or_else(|why| panic!("{}: {why}", entry.title())).columns.is_empty());
    }
    let mine = state.gallery.entries.iter().find(|entry| entry.title() == "Tiny").expect("a recent file");
    assert_eq!(mine.picture.as_ref().and_then(|p| p.as_ref().ok()).map(|p| p.load), Some(plan.load()));
    assert!(window.query_by_role_and_label(Role::Button, "Tiny").is_some());
}

#[test]
fn a_preset_that_was_opened_is_opened_again_from_its_own_heading_and_from_the_menu() {
    let mut window = fresh();
    open(&mut window, SECOND);
    let state = &app(&window).state;
    let name = state.document.shipped.clone().expect("it ships");
    assert_eq!(state.recent.shipped, [name]);
    show(&mut window);
    assert!(window.query_by_label(crate::presets::Group::Recent.title()).is_some());
    assert_eq!(window.get_all_by_role_and_label(Role::Button, SECOND).count(), 2);
    window.key_press(Key::Escape);
    window.run_steps(2);
    open(&mut window, FIRST);
    window.get_by_label("File").click();
    window.run_steps(3);
    window.get_by_label("Recent").click();
    window.run_steps(3);
    window.get_by_role_and_label(Role::Button, SECOND).click();
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment.title, SECOND);
}

#[test]
fn a_search_shows_the_best_that_it_finds_wherever_the_gallery_was_scrolled_to() {
    let mut window = fresh();
    show(&mut window);
    let search = |window: &mut Window, words: &str| {
        let field = window.get_by_role_and_label(Role::TextInput, "Search presets");
        field.type_text(words);
        window.run_steps(4);
    };
    let at = window.get_by_role_and_label(Role::TextInput, "Search presets").rect();
    window.hover_at(at.center() + vec2(0.0, 300.0));
    window.run_steps(2);
    let delta = vec2(0.0, -3000.0);
    window.event(egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Point,
        source: egui::MouseWheelSource::Wheel,
        delta,
        modifiers: Modifiers::NONE,
        phase: egui::TouchPhase::Move,
    });
    window.run_steps(30);
    let top = |window: &Window| {
        let cards = window.query_all_by_role(Role::Button).map(|card| card.rect());
        cards.filter(|card| card.height() > 100.0).map(|card| card.top()).fold(f32::INFINITY, f32::min)
    };
    assert!(top(&window) < at.bottom(), "it is scrolled");
    search(&mut window, "e");
    assert!(top(&window) > at.bottom(), "the first card is in sight");
}

#[test]
fn a_search_that_finds_nothing_goes_on_after_the_enter_key() {
    let mut window = fresh();
    show(&mut window);
    window.get_by_role_and_label(Role::TextInput, "Search presets").type_text("no such preset");
    window.run_steps(3);
    window.key_press(Key::Enter);
    window.run_steps(3);
    assert!(window.get_by_role_and_label(Role::TextInput, "Search presets").is_focused());
    assert_eq!(app(&window).state.dialog, Some(Dialog::Presets));
}

#[test]
fn a_pin_is_there_again_at_the_next_start() {
    let mut window = window(digits());
    window.key_press_modifiers(Modifiers::COMMAND, Key::P);
    window.run_steps(3);
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    window.run_steps(3);
    let text = serde_json::to_string(&app(&window).persisted()).expect("plain data");
    let mut window = opened(serde_json::from_str(&text).expect("it was written"), None);
    until(&mut window, |app| app.state.pin.is_some());
    let state = &app(&window).state;
    assert_eq!(*state.pin.as_ref().expect("pinned").experiment, digits());
    assert_ne!(state.document.experiment, digits());
}

#[test]
fn a_pin_stays_for_what_is_opened_next_and_rests_where_one_picture_is_too_small_for_both() {
    let mut window = fresh();
    window.state_mut().as_mut().expect("drawn").sender.ui(UiCommand::Pin);
    window.run_steps(3);
    assert!(app(&window).state.pin.is_some());
    touch(&mut window);
    assert!(app(&window).state.pin.is_some(), "an edit is what it is compared with");
    let pinned = |window: &Window| app(window).state.pin.as_ref().map(|pin| pin.experiment.title.clone());
    open(&mut window, SECOND);
    until(&mut window, |app| app.state.plan().is_some());
    assert_eq!(pinned(&window).as_deref(), Some(FIRST), "a lesson says: pin this, and open the next one");
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    until(&mut window, |app| app.state.plan().is_some());
    assert_eq!(app(&window).state.document.experiment.title, FIRST);
    assert_eq!(pinned(&window).as_deref(), Some(FIRST), "back in the document before");
    let large = app(&window).state.shipped.iter().position(|shipped| shipped.name == "gpt2-xl-plan").expect("ships");
    window.state_mut().as_mut().expect("drawn").sender.send(crate::command::Action::OpenShipped(large));
    window.run_steps(3);
    until(&mut window, |app| app.state.plan().is_some());
    assert_eq!(pinned(&window), None);
    assert!(window.query_by_label_contains("do not fit into one picture").is_some());
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    until(&mut window, |app| app.state.pin.is_some());
    assert_eq!(pinned(&window).as_deref(), Some(FIRST), "it is back where it compares");
    window.state_mut().as_mut().expect("drawn").sender.send(crate::command::Action::OpenShipped(large));
    window.run_steps(3);
    until(&mut window, |app| app.state.plan().is_some() && app.state.pin.is_none());
    let text = serde_json::to_string(&app(&window).persisted()).expect("plain data");
    let mut next = opened(serde_json::from_str(&text).expect("it was written"), None);
    until(&mut next, |app| app.state.pin_at_rest.is_some());
    assert!(app(&next).state.pin.is_none(), "it rests in the next session as well");
    // A pin of the document itself stays, however much an edit changes.
    window.state_mut().as_mut().expect("drawn").sender.ui(UiCommand::Pin);
    window.run_steps(3);
    let mut small = app(&window).state.document.experiment.clone();
    (small.model.depth, small.model.width, small.model.hidden) = (1, 96, 96);
    (small.model.heads, small.budget) = (1, Bytes::gib(24));
    let edit = crate::command::Action::Edit { control: "model.depth", experiment: Box::new(small.clone()) };
    window.state_mut().as_mut().expect("drawn").sender.send(edit);
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.experiment.model == small.model));
    let [before, after] =
        [app(&window).state.pin.as_ref(), app(&window).state.plan()].map(|plan| plan.map(|p| p.load().0));
    assert!(before.expect("pinned") > 10 * after.expect("planned"));
}

#[test]
fn words_typed_right_after_the_key_of_the_gallery_are_in_its_search() {
    let mut window = window(digits());
    settle(&mut window);
    window.get_by_role_and_label(Role::SpinButton, "Width value").focus();
    window.run_steps(2);
    let key = |key, modifiers| egui::Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers };
    let words = "brackets".chars().map(|letter| egui::Event::Text(letter.to_string()));
    window.input_mut().events.push(key(Key::G, Modifiers::COMMAND));
    window.input_mut().events.extend(words);
    window.run_steps(10);
    assert_eq!(window.get_by_role_and_label(Role::TextInput, "Search presets").value().as_deref(), Some("brackets"));
    assert_eq!(app(&window).state.document.experiment, digits());
}
