//! The state of the window: the document, its prediction, the runs, the log. Panels read it; `dispatch` changes it.

mod log;

use std::{path::PathBuf, sync::Arc};

use plimsoll_engine::{
    Experiment,
    device::target,
    error::Problem,
    hardware::{Devices, Machine},
    plan::{Plan, Verdict},
    store::RunKey as Kept,
    train::{Latest, Outcome, Start},
};

pub(crate) use self::log::{Level, Log, LogEntry};
use crate::{
    budgets::Budgets,
    drafts::Drafts,
    files::Purpose,
    format,
    gallery::Gallery,
    librarian::{Compared, Comparing},
    limit, naming, peak,
    planner::{Compared as NeighboursCompared, Generation, Obstacle, Options},
    presets::Shipped,
    recent::Recent,
    runs::Runs,
    session::{RunRecord, Session},
    takeaway::{Content, Take},
    trials::Trial,
};
pub(crate) use crate::{document::Document, session::RunKey};

/// The planner's results for the document.
#[derive(Debug, Default)]
pub(crate) struct Prediction {
    /// The newest plan; it may be of an older generation while the next is on its way or impossible.
    pub(crate) plan: Option<Arc<Plan>>,
    /// The generation of that plan.
    pub(crate) plan_generation: Generation,
    /// Why the present generation has no plan.
    pub(crate) obstacle: Option<Obstacle>,
    /// The newest options.
    pub(crate) options: Options,
    /// The generation of those options.
    pub(crate) options_generation: Generation,
    /// The neighbours that were last asked for, and the answer.
    pub(crate) neighbours: Option<Neighbours>,
    /// The run that begins once its generation has a plan.
    pub(crate) awaited: Option<Awaited>,
}

/// A run that was asked for while its prediction was on its way. A later edit takes it back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    /// The generation it was asked in.
    pub(crate) generation: Generation,
    /// Whether it begins even if it does not fit.
    pub(crate) anyway: bool,
    /// Whether it halts after every step.
    pub(crate) paused: bool,
}

/// A run that begins once its teacher is trained.
#[derive(Debug)]
pub(crate) struct Taught {
    /// The run.
    pub(crate) start: Start,
    /// Whether its teacher is there.
    pub(crate) is_due: bool,
}

/// A question about the neighbours of a control, and its answer.
#[derive(Debug)]
pub(crate) struct Neighbours {
    /// The control.
    pub(crate) control: &'static str,
    /// The generation it was asked in.
    pub(crate) generation: Generation,
    /// The answer, once it is there.
    pub(crate) answer: Option<NeighboursCompared>,
}

impl Prediction {
    /// Problems with the experiment as it is.
    pub(crate) fn problems(&self) -> &[Problem] {
        match &self.obstacle {
            Some(Obstacle::Problems(problems)) => problems,
            _ => &[],
        }
    }

    /// Other configurations that fit, once they are known for the newest plan.
    pub(crate) fn newest_options(&self) -> Option<&Options> {
        (self.options_generation == self.plan_generation).then_some(&self.options)
    }
}

/// A message that stays on screen until it is read.
#[derive(Debug, Clone)]
pub(crate) enum Notice {
    /// How the last run ended, where that needs the eye.
    Run(Outcome),
    /// A file that could not be saved, and why.
    Unsaved(String),
    /// A file that could not be opened, and why.
    Unopened(String),
}

/// The action once the question of unsaved changes is settled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Then {
    /// Start afresh.
    New,
    /// Choose a file.
    Open,
    /// Type a path.
    OpenPath,
    /// Open this file.
    OpenFile(PathBuf),
    /// Open the subject that the command line names: a file, or a shipped preset.
    OpenNamed(PathBuf),
    /// Open this shipped preset.
    OpenShipped(usize),
    /// Open this draft.
    OpenDraft(usize),
    /// Open the settings of a kept run.
    OpenKept(Box<Experiment>),
    /// Close the window.
    Quit,
}

/// The purpose of reading a kept run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// To show it as it was.
    Shown,
    /// To make its settings the present ones.
    Loaded,
    /// To go on with it.
    Continued,
}

/// A dialog over the window.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Dialog {
    /// Type a path.
    Path {
        /// The purpose of the path.
        purpose: Purpose,
        /// The initial text of the field.
        suggestion: String,
        /// Tells one such dialog from the next.
        number: u64,
        /// Why what was typed last is not taken.
        trouble: Option<String>,
    },
    /// A file of this name exists: replace it?
    Replace(PathBuf),
    /// Replace the document's own file, which another program changed.
    ReplaceChanged(PathBuf),
    /// A file stands where a chart or its data were to be written: replace it?
    ReplaceTaken(PathBuf),
    /// Save first?
    Unsaved(Then),
    /// A run is in progress: stop it and close?
    StopAndQuit,
    /// The list of keys.
    Shortcuts,
    /// Every preset.
    Presets,
}

/// Everything the panels read.
#[derive(Debug)]
pub(crate) struct State {
    /// The experiment in hand.
    pub(crate) document: Document,
    /// The planner's results for it.
    pub(crate) prediction: Prediction,
    /// The runs of this session.
    pub(crate) session: Session,
    /// The kept runs, of this session and of those before it.
    pub(crate) runs: Runs,
    /// The kept run that is being read, and the purpose.
    pub(crate) wanted: Option<(Kept, Wanted)>,
    /// Runs and plans side by side.
    pub(crate) compared: Option<Compared>,
    /// The request that they are the answer to, or will be.
    pub(crate) comparing: Option<Comparing>,
    /// The model that is tried, and the findings about it.
    pub(crate) trial: Trial,
    /// The trainer's latest values.
    pub(crate) latest: Latest,
    /// The run whose curves are shown, if not the newest.
    pub(crate) shown: Option<RunKey>,
    /// The data or the device of the settings changed since a run was last looked at: runs like these settings are compared.
    pub(crate) compares_present: bool,
    /// The content to be written once its place is chosen.
    pub(crate) taken: Option<(Content, Take)>,
    /// The message that needs the eye.
    pub(crate) notice: Option<Notice>,
    /// The path that was typed last, and its purpose: where it could not be used, it is there again to be mended.
    pub(crate) typed: Option<(Purpose, PathBuf)>,
    /// The plan held for comparison.
    pub(crate) pin: Option<Arc<Plan>>,
    /// It was pinned in another document, and is not compared with the plan of this one yet.
    pub(crate) pin_is_of_another: bool,
    /// A pinned plan that is put aside: it is too small or too large next to the present one. It comes back once the two fit into
    /// one picture.
    pub(crate) pin_at_rest: Option<Arc<Plan>>,
    /// The experiment whose plan is to be held, until it is there.
    pub(crate) pin_asked: Option<Experiment>,
    /// The log of events.
    pub(crate) log: Log,
    /// The budgets of devices that were left for another.
    pub(crate) budgets: Budgets,
    /// What was opened before.
    pub(crate) recent: Recent,
    /// The presets that ship with the program.
    pub(crate) shipped: Vec<Shipped>,
    /// Shipped presets that were touched and left.
    pub(crate) drafts: Drafts,
    /// The content of the gallery.
    pub(crate) gallery: Gallery,
    /// The machine as far as it is known.
    pub(crate) machine: Machine,
    /// The devices' own figures.
    pub(crate) devices: Option<Arc<Devices>>,
    /// The open dialog.
    pub(crate) dialog: Option<Dialog>,
    /// Documents opened so far.
    pub(crate) opened: u64,
    /// Paths asked for so far.
    pub(crate) paths_asked: u64,
    /// The action once the changes are saved.
    pub(crate) after_saving: Option<Then>,
    /// The user has agreed to close the window.
    pub(crate) closing: bool,
    /// A start was sent and the trainer has not answered yet.
    pub(crate) is_starting: bool,
    /// The run under way was told to stop: it does so after the step that it is in.
    pub(crate) is_stopping: bool,
    /// The run whose teacher is being trained.
    pub(crate) taught: Option<Taught>,
}

impl State {
    /// The state of a window that just opened on a document.
    pub(crate) fn new(document: Document, recent: Recent, shipped: Vec<Shipped>) -> Self {
        Self {
            document,
            prediction: Prediction::default(),
            session: Session::default(),
            runs: Runs::default(),
            wanted: None,
            compared: None,
            comparing: None,
            trial: Trial::default(),
            latest: Latest::default(),
            shown: None,
            compares_present: false,
            taken: None,
            notice: None,
            typed: None,
            pin: None,
            pin_is_of_another: false,
            pin_at_rest: None,
            pin_asked: None,
            log: Log::new(),
            budgets: Budgets::default(),
            recent,
            shipped,
            drafts: Drafts::default(),
            gallery: Gallery::default(),
            machine: Machine::nominal(),
            devices: None,
            dialog: None,
            opened: 0,
            paths_asked: 0,
            after_saving: None,
            closing: false,
            is_starting: false,
            is_stopping: false,
            taught: None,
        }
    }

    /// Whether there is a step to undo: of the experiment, or the deletion of runs.
    pub(crate) fn can_undo(&self) -> bool {
        self.document.can_undo() || !self.runs.deletions.is_empty()
    }

    /// Whether the deletion of runs was the last step, and so is undone first.
    pub(crate) fn deleted_last(&self) -> bool {
        self.runs.deletions.last().is_some_and(|deletion| self.document.depth() <= deletion.at)
    }

    /// The plan of the experiment as it is; `None` while it is on its way or impossible.
    pub(crate) fn plan(&self) -> Option<&Arc<Plan>> {
        self.prediction.plan.as_ref().filter(|_| self.prediction.plan_generation == self.document.generation)
    }

    /// The newest plan, even if the experiment has changed since.
    pub(crate) fn newest_plan(&self) -> Option<&Arc<Plan>> {
        self.prediction.plan.as_ref()
    }

    /// The run whose curves are shown.
    pub(crate) fn shown_run(&self) -> Option<&RunRecord> {
        self.shown.and_then(|key| self.session.get(key)).or_else(|| self.session.latest())
    }

    /// Shows the curves of a run, or those of the newest, and compares the runs that are like it.
    pub(crate) fn shows(&mut self, run: Option<RunKey>) {
        (self.shown, self.compares_present) = (run, false);
    }

    /// Whether the experiment as it is has neither a plan yet nor a reason for having none.
    pub(crate) fn is_planning(&self) -> bool {
        self.plan().is_none() && self.prediction.obstacle.is_none()
    }

    /// The reason why no run can begin, in words; `None` if there is no reason, as far as is known before the plan is there.
    pub(crate) fn why_no_training(&self) -> Option<String> {
        self.why_not(self.plan().map(Arc::as_ref))
    }

    /// The same reason as it is shown: until the next plan is there, that of the plan before it, so that it does not blink.
    pub(crate) fn shown_reason(&self) -> Option<String> {
        self.why_not(self.newest_plan().map(Arc::as_ref))
    }

    fn why_not(&self, plan: Option<&Plan>) -> Option<String> {
        match &self.prediction.obstacle {
            Some(Obstacle::Problems(problems)) => {
                let family = self.document.experiment.model.kind;
                let first = problems.first().map(|problem| naming::problem(problem, family)).unwrap_or_default();
                let more = problems.len().saturating_sub(1);
                let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
                return Some(format!("The experiment is not valid: {first}{more}"));
            }
            Some(Obstacle::Failure(text)) => return Some(format::in_groups(text)),
            None => {}
        }
        if let Some(problem) = target::not_trained_on(&self.document.experiment.device) {
            return Some(format!("{}: {}.", problem.message, problem.mend));
        }
        match plan {
            None => None,
            Some(plan) => match limit::verdict(plan) {
                Verdict::Fits { .. } => None,
                Verdict::OverBudget { by } => {
                    let or = if limit::is_past_its_budget_alone(plan) { ", or train anyway" } else { "" };
                    let at = peak::layer(plan).map(|layer| format!(" at {layer}")).unwrap_or_default();
                    let mend = limit::why_not(plan).unwrap_or_else(|| format!("Change something{or}."));
                    Some(format!("The run does not fit: {by} over the budget{at}. {mend}"))
                }
                Verdict::OverMachine { line } => {
                    let [load, line] = line.beside(plan.load());
                    Some(format!("The run does not fit this machine: it takes {load} of {line}. Change something."))
                }
                Verdict::OverHostBudget { .. } | Verdict::NoRoomForData { .. } | Verdict::NoRoomOnDisk { .. } => {
                    limit::why_not(plan)
                }
            },
        }
    }

    /// Whether a run that does not fit may be begun anyway.
    pub(crate) fn may_train_anyway(&self) -> bool {
        let device = &self.document.experiment.device;
        // A budget is a line that the engine holds. Where the machine ends before it, there is none to stop at.
        self.plan().is_some_and(|plan| limit::is_past_its_budget_alone(plan))
            && target::not_trained_on(device).is_none()
    }
}
