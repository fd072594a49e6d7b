//! Runs that are deleted, and those that cannot be.

use plimsoll_engine::store::RunKey;

use super::{
    runs::{ask, keys, on, show, two_runs},
    *,
};
use crate::command::RunsAction;

#[test]
fn runs_that_cannot_be_deleted_stay_on_screen_with_their_points() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    until(&mut window, |app| app.state.session.every().count() == 2);
    let both = keys(&window);
    // The store refuses all of them for one: here for one that another program has deleted.
    let gone = RunKey::new(app(&window).state.runs.rows()[0].run.started - jiff::SignedDuration::from_secs(60));
    ask(&mut window, RunsAction::Delete([both.clone(), vec![gone]].concat()));
    until(&mut window, |app| !app.toasts.is_empty() && app.state.runs.deletions.is_empty());
    until(&mut window, |app| app.state.session.every().count() == 2);
    let app = app(&window);
    assert!(app.state.runs.put_away.is_empty() && app.state.runs.rows().len() == 2);
    assert!(app.state.log.entries.iter().any(|entry| entry.level == Level::Warning), "and it is said");
}

#[test]
fn a_comparison_says_which_of_its_runs_were_deleted() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Compare);
    let both = keys(&window);
    ask(&mut window, RunsAction::Compare(both.clone()));
    until(&mut window, |app| app.state.compared.is_some());
    window.run_steps(3);
    assert!(window.query_by_label_contains("Deleted since").is_none());
    ask(&mut window, RunsAction::Delete(both[..1].to_vec()));
    until(&mut window, |app| app.state.runs.rows().len() == 1);
    window.run_steps(3);
    let said: Vec<_> = window.query_all_by_label_contains("Deleted since").collect();
    assert_eq!(said.len(), 1);
    drop(said);
    ask(&mut window, RunsAction::Restore);
    until(&mut window, |app| app.state.runs.rows().len() == 2);
    window.run_steps(3);
    assert!(window.query_by_label_contains("Deleted since").is_none());
}

#[test]
fn deletions_are_undone_one_after_another_the_last_first() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let both = keys(&window);
    for (at, left) in [(0, 1), (1, 0)] {
        ask(&mut window, RunsAction::Delete(vec![both[at].clone()]));
        until(&mut window, |app| app.state.runs.rows().len() == left);
    }
    window.run_steps(3);
    assert!(window.query_all_by_label_contains("(and a deletion before)").count() > 0);
    let line = |window: &Window| window.query_by_label("Bring the deleted runs back").map(|button| button.rect());
    let place = line(&window).expect("the first click");
    for back in [vec![both[1].clone()], both.clone()] {
        window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
        until(&mut window, |app| app.state.runs.rows().len() == back.len());
        window.run_steps(3);
        assert_eq!(keys(&window), back);
        assert!(line(&window).is_none_or(|now| now == place), "a second click finds the same place");
        let table = window.get_by_role(Role::ListBox).rect();
        assert!(table.bottom() <= place.top(), "no row is where the button was: {table:?} {place:?}");
    }
    assert!(app(&window).state.runs.deletions.is_empty() && app(&window).state.runs.put_away.is_empty());
}
