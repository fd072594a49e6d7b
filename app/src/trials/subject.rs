//! The model that is tried: the model of the shown run, or the one with the weights that the present experiment begins with.
//!
//! Always holds: weights are one choice in addition to the run, and the one that is chosen if no run is shown. Settings that
//! affect only training do not make another model of the same weights.

use std::path::Path;

use plimsoll_engine::{
    Experiment,
    experiment::{Checkpointing, Data, DataKind, Distil, Optimizer, Prune, Run, TableTask},
    store::RunKey as Kept,
    train::Checkpoint,
};

use crate::{naming, runs::Runs, session::RunRecord, state::State};

/// Whose model is tried.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// The model of the run that is shown.
    Run(&'a RunRecord),
    /// The model with the weights that the present experiment begins with.
    Weights {
        /// The experiment.
        experiment: &'a Experiment,
        /// Its data, with the facts that were found about them.
        data: &'a Data,
        /// The weights.
        path: &'a Path,
    },
}

/// The model that findings belong to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Of {
    /// A kept run's.
    Run(Kept),
    /// The model with an experiment's weights, without settings that affect only training.
    Weights(Box<Experiment>),
}

impl<'a> Subject<'a> {
    /// Whose model is tried now; `None` without a run and without weights.
    pub(crate) fn now(state: &'a State) -> Option<Self> {
        let run = state.shown_run().map(Self::Run);
        let weights = || Self::weights(state);
        if state.trial.prefers_weights { weights().or(run) } else { run.or_else(weights) }
    }

    /// The weights that the present experiment begins with.
    pub(crate) fn weights(state: &'a State) -> Option<Self> {
        let experiment = &state.document.experiment;
        let planned = state.newest_plan().map(|plan| &plan.experiment.data);
        let data = planned.filter(|planned| is_decided_as(&experiment.data, planned)).unwrap_or(&experiment.data);
        experiment.weights.chosen().map(|path| Self::Weights { experiment, data, path })
    }

    /// The experiment that decides the model and its data.
    pub(crate) fn experiment(&self) -> &'a Experiment {
        match self {
            Self::Run(run) => run.experiment(),
            Self::Weights { experiment, .. } => experiment,
        }
    }

    /// The data that it answers.
    pub(crate) fn data(&self) -> &'a Data {
        match self {
            Self::Run(run) => &run.experiment().data,
            Self::Weights { data, .. } => data,
        }
    }

    /// Its name; a kept run whose weights they are has its own.
    pub(crate) fn name(&self, runs: &Runs) -> String {
        match self {
            Self::Run(run) => run.name(),
            Self::Weights { path, .. } => {
                let place = naming::place(path);
                format!("Weights of {}", runs.called(&place).unwrap_or(place))
            }
        }
    }

    /// Whether it is the model of weights.
    pub(crate) fn is_weights(&self) -> bool {
        matches!(self, Self::Weights { .. })
    }

    /// A warning before it answers: published weights open on generated data, which stand in for others.
    pub(crate) fn caution(&self) -> Option<&'static str> {
        let Self::Weights { data, path, .. } = self else { return None };
        let is_of_a_run = path.file_name().is_some_and(|name| Checkpoint::NAMES.iter().any(|own| name == *own));
        let is_stand_in = matches!(data.kind, DataKind::Shapes | DataKind::Tokens);
        (is_stand_in && !is_of_a_run).then_some("generated data replace its own: choose those under Data")
    }

    /// The model that findings belong to; `None` for a run that is not kept.
    pub(crate) fn of(&self) -> Option<Of> {
        match self {
            Self::Run(run) => run.kept.clone().map(Of::Run),
            Self::Weights { experiment, .. } => Some(Of::Weights(Box::new(answering(experiment)))),
        }
    }
}

/// Whether `planned` follows from a table's `chosen` data, whose label and task may have been left open.
fn is_decided_as(chosen: &Data, planned: &Data) -> bool {
    let is_label = chosen.label.is_empty() || chosen.label == planned.label;
    let is_task = chosen.task == TableTask::Auto || chosen.task == planned.task;
    let decided = || Data { label: planned.label.clone(), task: planned.task, ..chosen.clone() };
    chosen.kind == DataKind::Table && is_label && is_task && decided() == *planned
}

/// The experiment without the settings that decide training alone.
fn answering(experiment: &Experiment) -> Experiment {
    let run = &experiment.run;
    Experiment {
        title: String::new(),
        description: String::new(),
        checkpointing: Checkpointing::None,
        optimizer: Optimizer::default(),
        prune: Prune::default(),
        distil: Distil::default(),
        run: Run { seed: run.seed, threads: run.threads, ..Run::default() },
        ..experiment.clone()
    }
}
