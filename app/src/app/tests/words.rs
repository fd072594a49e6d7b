//! Words on screen: a setting is called as its control is, and a change tells all that it takes.

use plimsoll_engine::experiment::Placement;

use super::{
    runs::{ask, keys, on, show, two_runs},
    *,
};
use crate::command::RunsAction;

/// Shapes, all of which are held in host memory.
fn shapes() -> Experiment {
    let mut experiment = digits();
    (experiment.data.kind, experiment.data.placement) = (DataKind::Shapes, Placement::Host);
    (experiment.data.side, experiment.data.samples) = (16, 2000);
    experiment
}

#[test]
fn pointing_at_a_control_of_the_data_tells_the_change_of_host_memory() {
    let mut window = window(shapes());
    settle(&mut window);
    window.get_by_role_and_label(Role::Slider, "Samples").focus();
    window.run_steps(10);
    window.get_by_role_and_label(Role::Slider, "Samples").hover();
    until(&mut window, |app| {
        let neighbours = app.state.prediction.neighbours.as_ref();
        neighbours.is_some_and(|n| n.control == "data.samples" && n.answer.is_some())
    });
    window.run_steps(2);
    for (change, words) in
        [("One notch less, 1\u{a0}000:", "host memory -"), ("One notch more, 4\u{a0}000:", "host memory +")]
    {
        assert!(window.query_by_label(change).is_some(), "{change}");
        assert!(window.query_by_label_contains(words).is_some(), "{words}");
    }
    assert_eq!(window.query_all_by_label("the same memory of the budget,").count(), 2);
}

#[test]
fn data_past_the_host_budget_are_told_by_the_name_of_its_control() {
    let mut experiment = shapes();
    experiment.data.host_budget = Bytes::mib(1);
    let mut window = window(experiment);
    settle(&mut window);
    let state = &app(&window).state;
    let why = state.why_no_training().expect("it does not fit");
    assert!(why.starts_with("The data do not fit the host budget: raise it"), "{why}");
    for said in ["Does not fit the host budget: the data take ", "raise the host budget"] {
        assert!(window.query_all_by_label_contains(said).next().is_some(), "{said}");
    }
    assert!(window.query_all_by_label_contains("host_budget").next().is_none());
}

#[test]
fn the_budget_is_one_row_where_runs_are_compared_whether_it_differs_or_not() {
    let (store, _) = two_runs();
    for budget in [digits().budget, Bytes::mib(7)] {
        let mut window = on(&store, Experiment { budget, ..digits() });
        show(&mut window, Pane::Compare);
        let run = keys(&window)[0].clone();
        ask(&mut window, RunsAction::CompareWithPresent(run));
        until(&mut window, |app| app.state.compared.is_some());
        window.run_steps(3);
        let (_, pane) =
            app(&window).layout.rects().into_iter().find(|(pane, _)| *pane == Pane::Compare).expect("there");
        let pane = pane.expect("drawn");
        let rows = window.query_all_by_role_and_label(Role::Label, "budget");
        assert_eq!(rows.filter(|row| pane.contains_rect(row.rect())).count(), 1, "{budget}");
    }
}

#[test]
fn the_present_settings_next_to_a_run_are_the_present_ones_once_they_change() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    let run = keys(&window)[0].clone();
    ask(&mut window, RunsAction::CompareWithPresent(run));
    let compared = |app: &App| {
        let subjects = &app.state.compared.as_ref()?.comparison.subjects;
        Some((subjects.len(), subjects.last()?.experiment.batch.micro))
    };
    until(&mut window, |app| compared(app) == Some((2, digits().batch.micro)));
    let mut other = digits();
    other.batch.micro = 17;
    let edit = crate::command::Action::Edit { control: "batch.micro", experiment: Box::new(other) };
    window.state_mut().as_mut().expect("drawn").sender.send(edit);
    until(&mut window, |app| compared(app) == Some((2, 17)));
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    until(&mut window, |app| compared(app) == Some((2, digits().batch.micro)));
    // Two runs stay as they are.
    let both = keys(&window);
    ask(&mut window, RunsAction::Compare(both));
    until(&mut window, |app| app.state.comparing.as_ref().is_some_and(|comparing| !comparing.is_asked));
    assert!(app(&window).state.comparing.as_ref().is_some_and(|comparing| comparing.present.is_none()));
}
