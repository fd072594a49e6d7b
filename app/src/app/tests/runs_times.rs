//! When runs began, as the table of runs tells it, and how long the steps of a kept one took.

use plimsoll_engine::store::{RunKey, StoredRun};

use super::{
    pictures::set_size,
    runs::{on, show, two_runs},
    runs_pane::with_settings,
    *,
};
use crate::naming::Names;

#[test]
fn all_runs_of_today_are_told_to_the_second_where_two_share_a_minute() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    set_size(&mut window, [1920.0, 1080.0], 1.0);
    show(&mut window, Pane::Runs);
    // The middle of the last whole minute, of today but for the first two minutes of a day.
    let minute = jiff::Timestamp::now().as_second().div_euclid(60) * 60;
    let at = |number, second| {
        let started = jiff::Timestamp::from_second(second).expect("a moment");
        let settings = &[format!("run.seed={number}")];
        let run = with_settings(&window, number, &[settings[0].as_str()]);
        StoredRun { started, key: RunKey::new(started), ..run }
    };
    let runs = [at(1, minute - 200), at(2, minute - 50), at(3, minute - 20)];
    let words =
        |run: &StoredRun, form: &str| run.started.to_zoned(jiff::tz::TimeZone::system()).strftime(form).to_string();
    for (runs, form) in [(&runs[..2], "%H:%M"), (&runs[..], "%H:%M:%S")] {
        let rows = crate::runs::rows(runs.to_vec(), |_| None, &mut Names::default());
        window.state_mut().as_mut().expect("drawn").state.runs.read(rows);
        window.run_steps(5);
        for words in runs.iter().map(|run| words(run, form)) {
            assert_eq!(window.query_all_by_label(&words).count(), 1, "{words}");
        }
    }
}

#[test]
fn when_a_run_began_and_its_accuracy_are_read_beside_names_of_one_title() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let run = |number: u64| {
        let settings = ["batch.micro=16", "batch.accumulation=4", "checkpointing=\"blocks\"", "run.seed=3"];
        // Of other years, whose words are the longest.
        let started = jiff::Timestamp::from_second(1_700_000_000 + number as i64 * 90_000).expect("a moment");
        let run = with_settings(&window, number, &settings[..number as usize]);
        StoredRun { started, key: RunKey::new(started), ..run }
    };
    let of_today = |run: StoredRun| {
        let started = jiff::Timestamp::now();
        StoredRun { started, key: RunKey::new(started), ..run }
    };
    let states = [vec![run(1), run(2), run(4)], vec![of_today(run(4))]];
    for (size, scale) in
        [([1280.0, 800.0], 1.0), ([1280.0, 800.0], 1.3), ([960.0, 600.0], 1.0), ([1920.0, 1080.0], 2.0)]
    {
        set_size(&mut window, size, scale);
        for runs in &states {
            let rows = crate::runs::rows(runs.clone(), |_| None, &mut Names::default());
            window.state_mut().as_mut().expect("drawn").state.runs.read(rows);
            window.run_steps(5);
            let has = |column: &str| window.query_by_label(&format!("Sort by {column}")).is_some();
            let state = format!("{size:?} at {scale}, {}", runs.len());
            assert!(has("peak") && has("accuracy"), "{state}");
            // A whole date with its year is as wide as two figures.
            let has_room = runs.len() == 1 || (size, scale) == ([1280.0, 800.0], 1.0);
            assert!(!has_room || has("when"), "{state}");
        }
    }
}

#[test]
fn a_kept_run_with_the_same_steps_tells_a_new_window_how_long_they_take() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    let until = |window: &mut Window, is_there: &dyn Fn(&Window) -> bool| {
        (0..200).any(|_| {
            window.run_steps(5);
            is_there(window)
        })
    };
    assert!(until(&mut window, &|window| app(window).state.devices.is_some() && app(window).state.plan().is_some()));
    let forecast = |window: &Window, words: &str| window.query_by_label_contains(words).is_some();
    let name = app(&window).state.devices.as_ref().and_then(|devices| devices.cpu.name.clone().ok());
    let known = app(&window).state.runs.rows()[0].run.clone();
    let same = plimsoll_engine::experiment::preset::changes(&Experiment::default(), &digits());
    let run = |settings: &[String], device_name: &str| StoredRun {
        settings: settings.to_vec(),
        device_name: device_name.to_owned(),
        number: 7,
        steps: 100,
        step_secs: Some(0.5),
        ..known.clone()
    };
    let name = name.expect("a processor with a name");
    let mut others = same.clone();
    others.retain(|setting| !setting.starts_with("batch.micro="));
    others.push("batch.micro=3".to_owned());
    for (run, is_told) in
        [(run(&others, &name), false), (run(&same, "Another processor"), false), (run(&same, &name), true)]
    {
        let rows = crate::runs::rows(vec![run], |_| None, &mut Names::default());
        window.state_mut().as_mut().expect("drawn").state.runs.read(rows);
        window.run_steps(5);
        assert_eq!(forecast(&window, "about 500 ms a step as in run 7"), is_told);
    }
}
