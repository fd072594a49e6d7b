//! Tables: their controls, and the words about them before a run.

use plimsoll_engine::experiment::{DataKind, TableTask};

use super::*;

#[test]
fn a_table_offers_its_columns_as_labels_and_says_what_was_recognised() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ships.csv");
    let row = |i: usize| format!("{i},{},{}.5\n", ["barge", "ferry"][i % 2], i * 7 % 40);
    std::fs::write(&path, format!("number,type,load\n{}", (0..60).map(row).collect::<String>())).expect("writes");
    let mut experiment = digits();
    (experiment.data.kind, experiment.data.path, experiment.batch.micro) = (DataKind::Table, Some(path), 8);
    let mut window = window(experiment);
    until(&mut window, |app| app.state.plan().is_some());
    window.run_steps(2);
    for control in ["Label", "Learned", "Categories", "Left out", "Broken lines", "Test share"] {
        assert!(window.query_all_by_label(control).next().is_some(), "{control}");
    }
    assert!(window.query_by_label_contains("60 rows of 3 columns, separated by commas").is_some());
    assert!(window.query_by_label_contains("learned: the value of load").is_some());
    assert!(window.query_by_label_contains("type: 2 categories").is_some());
    let plan = app(&window).state.plan().expect("a plan");
    assert_eq!((plan.experiment.data.task, &*plan.experiment.data.label), (TableTask::Regression, "load"));
    window.get_by_role_and_label(Role::ComboBox, "Label").click_accesskit();
    window.run_steps(3);
    window.get_by_role_and_label(Role::Button, "type").click_accesskit();
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment.data.label, "type");
    let is_of_classes = |app: &App| {
        let plan = app.state.plan();
        plan.is_some_and(|plan| plan.resolved.data().table_facts().is_some_and(|facts| facts.classes.len() == 2))
    };
    until(&mut window, is_of_classes);
    window.run_steps(2);
    assert!(window.query_by_label_contains("learned: the class of type, one of 2: barge, ferry").is_some());
}
