//! When runs began, as the table of runs tells it.

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
