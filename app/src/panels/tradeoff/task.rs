//! Tasks: runs can be compared if they saw the same data and their memory was measured in the same way.

use plimsoll_engine::experiment::{Data, Labelled};

use super::{super::experiment::source_words, Dot};
use crate::{
    session::{self, RunRecord, Session},
    state::State,
};

/// Runs that compare.
#[derive(Debug)]
pub(super) struct Task<'a> {
    data: &'a Data,
    is_gpu: bool,
    /// Its name: `shapes, 32 x 32, 10 classes`.
    pub(super) name: String,
    /// The task's runs that have a point, oldest first.
    pub(super) runs: Vec<&'a RunRecord>,
}

impl<'a> Task<'a> {
    fn of(run: &'a RunRecord) -> Self {
        let (data, is_gpu) = (&run.tested_on, run.is_gpu);
        let name = if is_gpu { format!("{}, on a GPU", name(data)) } else { name(data) };
        Self { data, is_gpu, name, runs: vec![run] }
    }

    /// Whether a run is about it.
    pub(super) fn has(&self, run: &RunRecord) -> bool {
        self.is_of(&run.tested_on, run.is_gpu)
    }

    fn is_of(&self, data: &Data, is_gpu: bool) -> bool {
        self.is_gpu == is_gpu && *self.data == *data
    }

    /// Whether values are learned: its runs are judged by R².
    pub(super) fn is_of_values(&self) -> bool {
        self.data.labelled() == Labelled::Value
    }

    /// The task's points; those of a task that is not in focus are dimmed.
    pub(super) fn dots(&self, in_focus: bool) -> Vec<Dot<'a>> {
        let points: Vec<(&RunRecord, [f64; 2])> =
            self.runs.iter().filter_map(|run| Some((*run, run.point()?))).collect();
        let mut are_best = vec![false; points.len()];
        let at: Vec<[f64; 2]> = points.iter().map(|(_, at)| *at).collect();
        for best in session::frontier(&at, |i| !points[i].0.status.is_over_budget()) {
            are_best[best] = true;
        }
        let dot = |((run, at), is_best): ((&'a RunRecord, _), _)| {
            let is_cut_off = run.status.is_over_budget();
            Dot { run, at, is_best, is_cut_off, in_focus }
        };
        points.into_iter().zip(are_best).map(dot).collect()
    }
}

/// The tasks of the runs that have a point, in the order of their first runs.
pub(super) fn tasks(session: &Session) -> Vec<Task<'_>> {
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for run in session.every().filter(|run| run.point().is_some()) {
        let known = tasks.iter_mut().find(|task| task.has(run));
        match known {
            Some(task) => task.runs.push(run),
            None => tasks.push(Task::of(run)),
        }
    }
    tasks
}

/// Which of the tasks is in focus: that of the run that is looked at, or that of the present settings, whichever came last. A
/// run that is looked at and has no point leaves the focus to the settings. `None` if no run on those data has a point.
pub(super) fn in_focus(tasks: &[Task<'_>], state: &State) -> Option<usize> {
    let present = &state.document.experiment;
    let of_shown = || state.shown_run().and_then(|shown| tasks.iter().position(|task| task.has(shown)));
    let of_present = || {
        let data = session::tested_on(&present.data);
        tasks.iter().position(|task| task.is_of(&data, !present.is_on_cpu()))
    };
    if state.compares_present { of_present() } else { of_shown().or_else(of_present) }
}

fn name(data: &Data) -> String {
    let file = data.path.as_ref().filter(|_| data.kind.is_on_disk()).and_then(|path| path.file_name());
    let file = file.map(|name| name.to_string_lossy().into_owned());
    let settings = data.kind.traits().settings.iter().filter_map(|setting| source_words(*setting, data));
    std::iter::once(data.kind.key().to_owned()).chain(file).chain(settings).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_engine::{Experiment, experiment::DataKind, hardware::Machine, plan::Plan, train::Event};

    use super::*;
    use crate::session::RunKey;

    fn run(session: &mut Session, key: RunKey, change: impl FnOnce(&mut Experiment)) {
        let mut experiment = Experiment::default();
        change(&mut experiment);
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
        session.receive(&Event::Started { run: key, plan: Arc::new(plan) });
        session.receive(&Event::Evaluated { step: 1, at_secs: 1.0, loss: 1.0, accuracy: 0.5, errors: None });
    }

    #[test]
    fn runs_on_the_same_data_are_one_task_and_each_task_has_its_frontier() {
        let mut session = Session::default();
        run(&mut session, 1, |_| ());
        run(&mut session, 2, |e| e.batch.micro = 32);
        run(&mut session, 3, |e| e.data.kind = DataKind::Shapes);
        run(&mut session, 4, |e| e.data.flip = true);
        let tasks = tasks(&session);
        let keys = |task: &Task<'_>| task.runs.iter().map(|run| run.key).collect::<Vec<_>>();
        assert_eq!(tasks.iter().map(keys).collect::<Vec<_>>(), [vec![1, 2, 4], vec![3]]);
        assert_eq!([&tasks[0].name, &tasks[1].name], ["digits", "shapes, 32 x 32, 10 classes, 4\u{a0}000 samples"]);
        for task in &tasks {
            assert!(task.dots(true).iter().any(|dot| dot.is_best));
        }
    }

    #[test]
    fn runs_are_named_by_what_differs_or_as_their_user_names_them() {
        let mut session = Session::default();
        run(&mut session, 1, |e| e.title = "Digits".to_owned());
        let names = |session: &Session| session.runs().iter().map(|run| run.name()).collect::<Vec<_>>();
        assert_eq!(names(&session), ["Run 1: Digits"]);
        run(&mut session, 2, |e| (e.title, e.batch.micro) = ("Digits".to_owned(), 32));
        assert_eq!(names(&session), ["Run 1: Digits", "Run 2: micro-batch 32"]);
        run(&mut session, 3, |e| (e.title, e.run.seed) = ("Other".to_owned(), 2));
        assert_eq!(names(&session), ["Run 1: Digits", "Run 2: micro-batch 32", "Run 3: Other"]);
        session.rename(2, " small ");
        assert_eq!(names(&session)[1], "Run 2: small");
        session.rename(2, "");
        assert_eq!(names(&session)[1], "Run 2: micro-batch 32");
    }
}
