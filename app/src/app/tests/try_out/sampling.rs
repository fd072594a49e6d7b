//! The numbers that a text is written by.

use super::*;
use crate::app::tests::numbers::type_over;

#[test]
fn a_number_that_cannot_be_writes_nothing_and_says_why() {
    let store = folder();
    let mut window = on(&store, sorts(3));
    show(&mut window, Pane::TryOut);
    train(&mut window);
    until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.kept.is_some()));
    window.run_steps(3);
    let said = |window: &Window, words: &str| window.query_all_by_label_contains(words).count() > 0;
    for (field, typed, words) in [
        ("Tokens", "many", "Tokens: “many” is not a whole number; write a whole number. It is still 4."),
        ("Tokens", "", "Tokens: the field was left empty; write a whole number. It is still 4."),
        ("Temperature", "7", "Temperature: “7” is too large; write 2 or less. It is still 0.8."),
        ("Top-p", "0", "Top-p: “0” is too small; write 0.05 or more. It is still 0.95."),
    ] {
        type_over(&mut window, field, typed);
        press(&mut window, "Write on");
        window.run_steps(3);
        assert!(said(&window, words), "{words}");
        let trial = &app(&window).state.trial;
        assert!(!trial.is_writing && trial.written.is_empty(), "{typed}");
    }
    // Escape takes back what was typed, and its words from the pane.
    let before = window.query_all_by_label_contains("It is still 0.95").count();
    type_over(&mut window, "Top-p", "0.5");
    window.key_press(Key::Escape);
    window.run_steps(4);
    assert_eq!(app(&window).view.try_out.sampling.top_p, 0.95);
    assert!(window.query_all_by_label_contains("It is still 0.95").count() < before);
    // A number that can be is taken by the click that follows.
    type_over(&mut window, "Tokens", "2");
    press(&mut window, "Write on");
    until(&mut window, |app| app.state.trial.wrote.is_some());
    assert_eq!(app(&window).view.try_out.sampling.tokens, Some(2));
    assert!(!said(&window, "It is still"), "what was refused is over");
}
