//! Tasks: runs compare where they saw the same data and their memory was measured the same way.

use plimsoll_engine::{
    Bytes,
    experiment::{CachePlace, Data, DataCache, Labelled, Normalise, Placement},
};

use super::{super::experiment::source_words, Dot};
use crate::session::{self, RunKey, RunRecord, Session};

/// Runs that compare.
#[derive(Debug)]
pub(super) struct Task {
    data: Data,
    is_gpu: bool,
    /// What it is called: `shapes, 32 x 32, 10 classes`.
    pub(super) name: String,
    /// The task's runs that have a point, oldest first.
    pub(super) runs: Vec<RunKey>,
}

impl Task {
    fn of(run: &RunRecord) -> Self {
        let (data, is_gpu) = (plain(&run.experiment().data), run.is_gpu);
        let name = if is_gpu { format!("{}, on a GPU", name(&data)) } else { name(&data) };
        Self { data, is_gpu, name, runs: Vec::new() }
    }

    /// Whether a run is about it.
    pub(super) fn has(&self, run: &RunRecord) -> bool {
        self.is_gpu == run.is_gpu && self.data == plain(&run.experiment().data)
    }

    /// Whether values are learned: its runs are judged by R².
    pub(super) fn is_of_values(&self) -> bool {
        self.data.labelled() == Labelled::Value
    }

    /// The task's points.
    pub(super) fn dots<'a>(&self, session: &'a Session, in_focus: bool) -> Vec<Dot<'a>> {
        let runs = self.runs.iter().filter_map(|key| session.get(*key));
        let points: Vec<(&RunRecord, [f64; 2])> = runs.filter_map(|run| Some((run, run.point()?))).collect();
        let best = session::frontier(&points.iter().map(|(_, at)| *at).collect::<Vec<_>>());
        let dot = |(i, (run, at))| Dot { run, at, is_best: best.contains(&i), in_focus };
        points.into_iter().enumerate().map(dot).collect()
    }
}

/// The tasks of the runs that have a point, in the order of their first runs.
pub(super) fn tasks(session: &Session) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    for run in session.all().filter(|run| run.point().is_some()) {
        let known = tasks.iter_mut().find(|task| task.has(run));
        match known {
            Some(task) => task.runs.push(run.key),
            None => tasks.push(Task { runs: vec![run.key], ..Task::of(run) }),
        }
    }
    tasks
}

/// What of the data decides the test: neither where the samples lie nor how those for training are changed.
fn plain(data: &Data) -> Data {
    let normalise = Normalise::Auto;
    let (workers, prefetch, host_budget, cache) = (0, 0, Bytes::ZERO, DataCache::None);
    let (cache_in, cache_folder) = (CachePlace::Ram, None);
    let data = Data { workers, prefetch, host_budget, cache, cache_in, cache_folder, ..data.clone() };
    Data { placement: Placement::Host, normalise, flip: false, crop_padding: 0, color_jitter: 0.0, ..data }
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
        assert_eq!(tasks.iter().map(|task| task.runs.clone()).collect::<Vec<_>>(), [vec![1, 2, 4], vec![3]]);
        assert_eq!([&tasks[0].name, &tasks[1].name], ["digits", "shapes, 32 x 32, 10 classes, 4000 samples"]);
        for task in &tasks {
            assert!(task.dots(&session, true).iter().any(|dot| dot.is_best));
        }
    }

    #[test]
    fn runs_are_named_by_what_differs_or_as_their_user_names_them() {
        let mut session = Session::default();
        run(&mut session, 1, |e| e.title = "Digits".to_owned());
        let names = |session: &Session| session.runs().iter().map(|run| session.name(run)).collect::<Vec<_>>();
        assert_eq!(names(&session), ["Run 1: Digits"]);
        run(&mut session, 2, |e| (e.title, e.batch.micro) = ("Digits".to_owned(), 32));
        assert_eq!(names(&session), ["Run 1: batch 64", "Run 2: batch 32"]);
        run(&mut session, 3, |e| (e.title, e.run.seed) = ("Other".to_owned(), 2));
        assert_eq!(names(&session), ["Run 1: batch 64, Digits", "Run 2: batch 32, Digits", "Run 3: Other"]);
        session.rename(2, " small ");
        assert_eq!(names(&session)[1], "Run 2: small");
        session.rename(2, "");
        assert_eq!(names(&session)[1], "Run 2: batch 32, Digits");
    }
}
