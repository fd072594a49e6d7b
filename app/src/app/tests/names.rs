//! Knowledge of a run stays with it: its number, the findings about its model, and whether the panes speak of it.

use egui_kittest::kittest::NodeT;

use super::{
    pictures::PATIENCE,
    runs::{ask, close, folder, keys, on, show, train, two_runs},
    *,
};
use crate::{
    command::{Action, RunsAction, UiCommand},
    view::TryPart,
};

fn send(window: &mut Window, action: Action) {
    window.state_mut().as_mut().expect("drawn").sender.send(action);
    window.run_steps(3);
}

fn labels(window: &Window) -> Vec<String> {
    app(window).state.session.all().map(crate::session::RunRecord::label).collect()
}

#[test]
fn what_was_found_of_a_model_is_there_again_when_its_run_is_looked_at_again() {
    let store = folder();
    let mut window = on(&store, digits());
    show(&mut window, Pane::TryOut);
    train(&mut window);
    until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.kept.is_some()));
    let [first] = keys(&window).try_into().expect("one run");
    ask(&mut window, RunsAction::Pick(vec![first.clone()]));
    window.get_by_role_and_label(Role::Button, "Test").click();
    until(&mut window, |app| app.state.trial.evaluation.is_some());
    window.get_by_role_and_label(Role::Button, "Your own").click();
    window.run_steps(2);
    train(&mut window);
    let state = &app(&window).state;
    assert!(state.trial.evaluation.is_none(), "of the second run nothing is known");
    let front = state.runs.front().map(|row| row.run.key.clone());
    assert!(front.is_some_and(|front| front != first), "the pane of runs speaks of the run that began");
    let key = state.session.own(&first).expect("of this session").key;
    send(&mut window, Action::ShowRun(key));
    assert!(app(&window).state.trial.evaluation.is_some(), "it was tested");
    assert_eq!(app(&window).view.try_out.part, TryPart::Picture);
    assert!(window.query_by_label_contains("Not tested").is_none());
}

#[test]
fn a_run_has_one_name_in_every_pane() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    for pane in [Pane::Runs, Pane::Compare] {
        show(&mut window, pane);
    }
    let all = keys(&window);
    ask(&mut window, RunsAction::Pick(all.clone()));
    until(&mut window, |app| app.state.session.all().count() == 2);
    ask(&mut window, RunsAction::Compare(all));
    until(&mut window, |app| app.state.compared.is_some());
    let state = &app(&window).state;
    let mut rows: Vec<String> = state.runs.rows().iter().map(crate::runs::Row::name).collect();
    let mut looked: Vec<String> = state.session.all().map(crate::session::RunRecord::name).collect();
    let compared = &state.compared.as_ref().expect("there").comparison.subjects;
    let mut compared: Vec<String> = compared.iter().map(|subject| subject.name.clone()).collect();
    [&mut rows, &mut looked, &mut compared].into_iter().for_each(|names| names.sort());
    assert_eq!(rows, ["Run 1: Tiny", "Run 2: micro-batch 96"]);
    assert_eq!((&looked, &compared), (&rows, &rows));
}

#[test]
fn the_log_calls_a_run_as_the_table_does_when_others_have_joined_it() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    for pane in [Pane::Log, Pane::Runs] {
        show(&mut window, pane);
    }
    train(&mut window);
    until(&mut window, |app| app.state.shown_run().is_some_and(|run| run.kept.is_some()));
    let mut other = digits();
    other.run.seed = 7;
    send(&mut window, Action::Adopt(Box::new(other)));
    until(&mut window, |app| app.state.plan().is_some());
    train(&mut window);
    until(&mut window, |app| app.state.runs.rows().len() == 4);
    show(&mut window, Pane::Log);
    window.run_steps(3);
    let state = &app(&window).state;
    let entries = || state.log.entries.iter().filter(|entry| entry.run.is_some());
    assert!(entries().all(|entry| entry.text == entry.told(&state.session)), "no name has changed");
    let told: Vec<String> = entries().map(|entry| entry.told(&state.session).into_owned()).collect();
    for run in [3, 4] {
        let row = state.runs.rows().iter().find(|row| row.run.number == run).expect("kept");
        let begins = format!("{} begins", row.name());
        assert!(told.contains(&begins), "{begins} is not in {told:?}");
        assert!(window.query_all_by_label(&begins).next().is_some(), "{begins} is not drawn");
    }
}

#[test]
fn each_column_of_a_comparison_can_be_reached_in_a_narrow_pane_by_keyboard() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    window.set_size(vec2(960.0, 600.0));
    show(&mut window, Pane::Compare);
    train(&mut window);
    until(&mut window, |app| app.state.runs.rows().len() == 3);
    let all = keys(&window);
    ask(&mut window, RunsAction::Compare(all));
    until(&mut window, |app| app.state.compared.is_some());
    window.run_steps(3);
    let first = "Columns 1 to 2 of 3";
    for (line, on) in [(first, "Next columns"), ("Columns 2 to 3 of 3", "Columns before"), (first, "Next columns")] {
        let lines = window.query_all_by_role(Role::Label).filter_map(|node| node.accesskit_node().value());
        let lines: Vec<String> = lines.collect();
        assert!(lines.iter().any(|text| text == line), "{line}: {lines:?}");
        window.get_by_role_and_label(Role::Button, on).focus();
        window.run_steps(2);
        window.key_press(Key::Enter);
        window.run_steps(3);
    }
}

#[test]
fn the_heads_of_what_is_compared_take_a_second_line_only_for_a_long_name() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Compare);
    let all = keys(&window);
    let compare = |window: &mut Window, name: &str| {
        ask(window, RunsAction::Compare(all.clone()));
        until(window, |app| {
            let subjects = app.state.compared.iter().flat_map(|compared| &compared.comparison.subjects);
            subjects.into_iter().any(|subject| subject.name.contains(name))
        });
        window.run_steps(3);
        window.get_by_label("micro-batch").rect().top()
    };
    let short = compare(&mut window, "micro-batch 96");
    let head = window.get_all_by_label("Run 1: Tiny").map(|node| node.rect()).find(|rect| rect.bottom() <= short);
    let line = head.expect("over its column").height();
    let long = "everything as before and a learning rate that falls more slowly towards the end";
    ask(&mut window, RunsAction::Name(all[0].clone(), long.to_owned()));
    until(&mut window, |app| app.state.runs.rows().iter().any(|row| row.run.name.as_deref() == Some(long)));
    let below = compare(&mut window, long) - short;
    assert!((below - line).abs() < line / 2.0, "a line more: {below} of {line}");
    let (_, pane) = app(&window).layout.rects().into_iter().find(|(pane, _)| *pane == Pane::Compare).expect("there");
    let heads = window.get_all_by_label_contains(long).map(|node| node.rect());
    let mut heads = heads.filter(|rect| pane.is_some_and(|pane| pane.contains_rect(*rect)));
    let head = heads.next().expect("over its column");
    assert!(head.height() > 1.5 * line, "and it is written in both: {head:?}");
}

#[test]
fn settings_are_named_in_the_order_of_the_experiments_pane_whatever_sets_a_run_apart() {
    let store = folder();
    let mut window = on(&store, digits());
    for (count, change) in [(1, None), (2, Some("batch.micro=96")), (3, Some("run.seed=7"))] {
        if let Some(change) = change {
            let mut next = app(&window).state.document.experiment.clone();
            plimsoll_engine::experiment::preset::set(&mut next, change).expect("a setting");
            send(&mut window, Action::Adopt(Box::new(next.clone())));
            until(&mut window, |app| app.state.plan().is_some_and(|plan| *plan.experiment == next));
        }
        window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
        until(&mut window, |app| app.state.session.active().is_none() && app.state.runs.rows().len() == count);
    }
    let named = ["Run 1: Tiny", "Run 2: micro-batch 96", "Run 3: micro-batch 96, seed 7"];
    let state = &app(&window).state;
    let mut rows: Vec<String> = state.runs.rows().iter().map(crate::runs::Row::name).collect();
    rows.sort();
    let own: Vec<String> = state.session.all().map(crate::session::RunRecord::name).collect();
    assert_eq!((rows.as_slice(), own.as_slice()), (named.map(str::to_owned).as_slice(), rows.as_slice()));
}

#[test]
fn a_run_has_its_name_from_its_beginning_and_keeps_it_whatever_runs_come_and_go() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    let names = |window: &Window| {
        let mut rows: Vec<String> = app(window).state.runs.rows().iter().map(crate::runs::Row::name).collect();
        rows.sort();
        rows
    };
    let mut known = names(&window);
    assert_eq!(known, ["Run 1: Tiny", "Run 2: micro-batch 96"]);
    // What differs now was the same in all runs so far, and a family has the name that it has elsewhere.
    for (count, change, name) in [
        (3, "run.seed=7", "Run 3: seed 7"),
        (4, "budget=32MiB", "Run 4: seed 7, budget 32 MiB"),
        (5, "optimizer.kind=adamw8bit", "Run 5: 8-bit AdamW, seed 7, budget 32 MiB"),
    ] {
        let mut next = app(&window).state.document.experiment.clone();
        plimsoll_engine::experiment::preset::set(&mut next, change).expect("a setting");
        send(&mut window, Action::Adopt(Box::new(next.clone())));
        until(&mut window, |app| app.state.plan().is_some_and(|plan| *plan.experiment == next));
        window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
        let begun = std::cell::RefCell::new(Vec::new());
        until(&mut window, |app| {
            let own =
                app.state.session.latest().filter(|run| run.label() == format!("Run {count}")).map(|run| run.name());
            begun.borrow_mut().extend(own);
            app.state.session.active().is_none() && app.state.runs.rows().len() == count as usize
        });
        assert!(begun.borrow().iter().all(|own| own == name), "{:?}", begun.borrow());
        known.push(name.to_owned());
        assert_eq!(names(&window), known, "a name has changed");
    }
    let first = app(&window).state.runs.rows().iter().find(|row| row.run.number == 1).expect("kept").run.key.clone();
    ask(&mut window, RunsAction::Delete(vec![first]));
    until(&mut window, |app| app.state.runs.rows().len() == 4);
    assert_eq!(names(&window), known[1..]);
}

#[test]
fn the_order_of_settings_is_that_in_which_they_are_drawn() {
    const SHOWN: [(&str, &str); 8] = [
        ("batch.micro", "Micro-batch"),
        ("batch.accumulation", "Accumulation"),
        ("model.width", "Width"),
        ("lora.rank", "Trained parameters"),
        ("prune.kind", "Pruning"),
        ("data.placement", "More about the data"),
        ("optimizer.learning_rate", "Learning rate"),
        ("run.seed", "Seed"),
    ];
    let window = window(digits());
    let height = |name: &str| {
        let found = window.query_all_by_label_contains(name).map(|node| node.rect()).filter(|rect| rect.left() < 300.0);
        found.map(|rect| rect.center().y).reduce(f32::min).expect("drawn")
    };
    let order = crate::panels::settings_in_order();
    let place = |key: &str| order.iter().position(|known| *known == key).expect("known");
    for pair in SHOWN.windows(2) {
        assert!(place(pair[0].0) < place(pair[1].0), "{pair:?}");
        assert!(height(pair[0].1) < height(pair[1].1), "{pair:?}");
    }
}

#[test]
fn a_number_is_that_of_one_run_for_good_and_none_is_used_up() {
    let store = folder();
    let mut window = on(&store, digits());
    train(&mut window);
    let present = app(&window).state.document.experiment.clone();
    let over = Experiment { budget: Bytes::kib(60), ..present.clone() };
    send(&mut window, Action::Adopt(Box::new(over)));
    until(&mut window, |app| app.state.plan().is_some());
    send(&mut window, Action::Ui(UiCommand::TrainAnyway));
    until(&mut window, |app| app.state.notice.is_some());
    let refused = app(&window).state.session.runs().len() - 1;
    send(&mut window, Action::Adopt(Box::new(present)));
    until(&mut window, |app| app.state.plan().is_some());
    let highest = 2 + refused;
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.runs().len() == highest);
    until(&mut window, |app| app.state.session.active().is_none() && app.state.runs.rows().len() == highest);
    assert_eq!(labels(&window).last(), Some(&format!("Run {highest}")));
    close(window);
    let mut window = on(&store, digits());
    let first = keys(&window).last().expect("kept").clone();
    ask(&mut window, RunsAction::Pick(vec![first]));
    until(&mut window, |app| app.state.session.all().count() == 1);
    assert_eq!(labels(&window), ["Run 1"], "it keeps its number");
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    until(&mut window, |app| app.state.runs.rows().len() == highest + 1);
    assert_eq!(labels(&window).last(), Some(&format!("Run {}", highest + 1)), "the numbers go on");
}

#[test]
fn a_run_that_was_told_to_stop_says_so() {
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Button, "Step").click();
    until(&mut window, |app| matches!(app.state.session.latest().map(|run| &run.status), Some(Status::Paused)));
    // As it is while a long step ends.
    window.state_mut().as_mut().expect("drawn").state.is_stopping = true;
    window.run_steps(2);
    assert!(window.query_by_label("stops after this step").is_some());
    assert!(window.get_by_role_and_label(Role::Button, "Stop").accesskit_node().is_disabled());
    send(&mut window, Action::Ui(UiCommand::Stop));
    until(&mut window, |app| app.state.session.active().is_none());
    assert!(!app(&window).state.is_stopping && window.query_by_label("stops after this step").is_none());
}

#[test]
fn a_window_with_room_for_one_pane_shows_the_one_that_was_looked_at() {
    let mut window = window(digits());
    show(&mut window, Pane::Compare);
    window.get_by_role_and_label(Role::Button, "One step").click();
    window.run_steps(3);
    window.set_size(vec2(640.0, 400.0));
    window.run_steps(3);
    let list = window.get_by_role_and_label(Role::ComboBox, "Pane");
    assert_eq!(list.value().as_deref(), Some("One step"));
}

#[test]
fn the_picture_of_a_step_keeps_its_place_with_a_pin_and_without() {
    let shipped = crate::presets::shipped();
    let lesson = shipped.iter().find(|preset| preset.name == "cnn-shapes-checkpoint").expect("it ships");
    let mut window = window(lesson.experiment.clone());
    for size in [[1280.0, 800.0], [853.0, 533.0], [640.0, 400.0]] {
        window.set_size(size.into());
        show(&mut window, Pane::Step);
        let place = |window: &Window| window.get_by_label_contains("Predicted memory of one step").rect();
        let before = place(&window);
        send(&mut window, Action::Ui(UiCommand::Pin));
        assert_eq!(place(&window), before, "{size:?}: pinned");
        window.get_by_role_and_label(Role::Button, "Before").click();
        window.run_steps(3);
        assert_eq!(place(&window), before, "{size:?}: before");
        send(&mut window, Action::Ui(UiCommand::Pin));
        assert_eq!(place(&window), before, "{size:?}: as it was");
    }
}

#[test]
fn a_kept_run_is_called_by_its_name_and_not_by_its_key_in_the_log_and_in_the_steps_to_compare_with() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    let key = keys(&window).last().expect("kept").clone();
    let state = &mut window.state_mut().as_mut().expect("drawn").state;
    state.log.add(crate::state::Level::Note, format!("Run 3: taught by {key} begins"));
    state.log.add(crate::state::Level::Warning, format!("`plimsoll resume {key}` goes on with it"));
    show(&mut window, Pane::Log);
    let entry = window.get_by_label("Run 3: taught by Run 1 begins").rect();
    assert!(window.query_by_label(&format!("`plimsoll resume {key}` goes on with it")).is_some(), "as it is typed");
    window.hover_at(entry.center());
    window.run_steps(PATIENCE);
    assert!(window.query_by_label(&format!("Run 3: taught by Run 1 ({key}) begins")).is_some(), "the key is on hover");
    window.remove_cursor();
    let mut next = app(&window).state.document.experiment.clone();
    next.weights.path = Some(store.path().join("runs").join(key.as_str()).join("last.safetensors"));
    send(&mut window, Action::Adopt(Box::new(next.clone())));
    next.run.seed = 7;
    send(&mut window, Action::Adopt(Box::new(next)));
    show(&mut window, Pane::Step);
    window.get_by_role_and_label(Role::Button, "Compare").click_accesskit();
    window.run_steps(3);
    let of_weights = window.query_all_by_label_contains("weights of ").map(|node| {
        let node = node.accesskit_node();
        node.label().or_else(|| node.value()).unwrap_or_default()
    });
    let of_weights: Vec<String> = of_weights.collect();
    assert!(
        !of_weights.is_empty() && of_weights.iter().all(|words| words.contains("weights of Run 1")),
        "{of_weights:?}"
    );
}
