//! The one place that changes the state: every [`Action`] of the panels, every answer of the threads.

mod comparing;
mod documents;
mod editing;
mod recorders;
mod runs;
mod takeaway;
mod teaching;
mod try_out;

use std::{path::PathBuf, sync::Arc};

use eframe::egui;
use plimsoll_engine::{
    Experiment,
    hardware::Watcher,
    plan::Plan,
    train::{Command, Event, Outcome, Summary, Trainer},
};

pub(crate) use self::recorders::Recorders;

use crate::{
    command::{Action, UiCommand},
    files::{Chosen, FileDialogs, Purpose},
    format,
    gallery::Painter,
    layout::Layout,
    librarian::Librarian,
    planner::{Answer, Planner, Question},
    regions,
    session::{RunRecord, is_one_task},
    state::{Dialog, Level, Neighbours, Notice, State, Taught, Then},
    takeaway::Porter,
    trials::Trials,
    view::View,
    widgets::toasts::Toasts,
};

/// Events taken from the trainer in one frame: a frame stays short however fast the steps are.
const EVENTS_A_FRAME: usize = 4096;

/// The threads that work for the window.
pub(crate) struct Services {
    /// Plans.
    pub(crate) planner: Planner,
    /// Makes the gallery's pictures.
    pub(crate) painter: Painter,
    /// Trains.
    pub(crate) trainer: Trainer,
    /// Looks at the devices.
    pub(crate) watcher: Watcher,
    /// Reads and changes the kept runs.
    pub(crate) librarian: Librarian,
    /// The folder of the kept runs; `None` if none are kept.
    pub(crate) store: Option<PathBuf>,
    /// Asks for paths.
    pub(crate) files: FileDialogs,
    /// Draws pictures and writes files.
    pub(crate) porter: Porter,
    /// Tries models.
    pub(crate) trials: Trials,
}

/// The state that an action may touch.
pub(crate) struct Dispatcher<'a> {
    /// The window's drawing context.
    pub(crate) ctx: &'a egui::Context,
    /// The state of the window.
    pub(crate) state: &'a mut State,
    /// How it looks.
    pub(crate) view: &'a mut View,
    /// Where the panes are.
    pub(crate) layout: &'a mut Layout,
    /// The window's threads.
    pub(crate) services: &'a Services,
    /// The recorders of its runs.
    pub(crate) recorders: &'a mut Recorders,
    /// Short messages.
    pub(crate) toasts: &'a mut Toasts,
}

impl Dispatcher<'_> {
    /// Carries out a panel's request.
    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Ui(command) => self.command(command),
            Action::Edit { control, experiment } => self.edit(control, *experiment),
            Action::Adopt(experiment) => {
                let is_kept = |run: &RunRecord| run.kept.is_some() && *run.experiment() == *experiment;
                if self.state.session.every().any(is_kept) {
                    self.adopt_kept(*experiment);
                } else {
                    self.adopt(*experiment);
                }
            }
            Action::PinExperiment(experiment) => {
                self.state.pin_asked = Some(Experiment::clone(&experiment));
                (self.state.pin_is_of_another, self.state.pin_at_rest) = (false, None);
                self.services.planner.pin(*experiment);
            }
            Action::OpenFile(path) => self.guarded(Then::OpenFile(path)),
            Action::OpenShipped(index) => self.guarded(Then::OpenShipped(index)),
            Action::OpenDraft(index) => self.guarded(Then::OpenDraft(index)),
            Action::DiscardDraft(index) => {
                self.state.drafts.take(index);
                self.show_presets();
            }
            Action::UsePath(purpose, path) => self.path_typed(purpose, path),
            Action::BrowseData => {
                let data = &self.state.document.experiment.data;
                let purpose = if data.kind.traits().path.is_some_and(|path| path.is_file) {
                    Purpose::DataFile
                } else {
                    Purpose::DataFolder
                };
                self.services.files.ask(purpose, data.path.clone().unwrap_or_default());
            }
            Action::BrowseWeights => self.browse(Purpose::Weights, |e| e.weights.path.clone()),
            Action::BrowseTeacher => self.browse(Purpose::Teacher, |e| e.distil.teacher.clone()),
            Action::BrowseCache => self.browse(Purpose::Cache, |e| e.data.cache_folder.clone()),
            Action::BrowseTokenizer => self.browse(Purpose::Tokenizer, |e| e.data.tokenizer.clone()),
            Action::AskNeighbours { control, neighbours } => self.ask_neighbours(control, neighbours),
            Action::ShowRun(key) => self.show_run(key),
            Action::NameRun(key, name) => {
                let kept = self.state.session.get(key).and_then(|run| run.kept.clone());
                self.name_run(Some(key), kept, name);
            }
            Action::Runs(action) => self.runs(action),
            Action::Try(with) => self.try_with(with),
            Action::TryWeights(weights) => self.prefer_weights(weights),
            Action::EndText => self.services.trials.stop(),
            Action::CloseDialog => (self.state.dialog, self.state.after_saving) = (None, None),
            Action::Proceed { save } => self.proceed(save),
            Action::DismissNotice => self.state.notice = None,
            Action::ClearLog => self.state.log.entries.clear(),
            Action::Copy(text) => self.ctx.copy_text(text),
            Action::Take(pane, take) => self.take(pane, take),
        }
    }

    fn command(&mut self, command: UiCommand) {
        match command {
            UiCommand::New => self.guarded(Then::New),
            UiCommand::Presets => self.show_presets(),
            UiCommand::Open => self.guarded(Then::Open),
            UiCommand::OpenPath => self.guarded(Then::OpenPath),
            // What was typed was to be saved, and is no value.
            UiCommand::Save | UiCommand::SaveAs if self.was_just_refused() => {}
            UiCommand::Save => self.save(),
            UiCommand::SaveAs => self.ask_where_to_save(),
            UiCommand::Undo | UiCommand::Redo => self.travel(command),
            UiCommand::Train => self.train(false, false),
            UiCommand::TrainAnyway => self.train(true, false),
            UiCommand::Pause => self.pause(),
            UiCommand::Step => match self.state.session.active() {
                Some(_) => self.services.trainer.send(Command::Step),
                None => self.train(false, true),
            },
            UiCommand::Stop => {
                self.state.is_stopping = self.state.session.active().is_some();
                self.to_active(Command::Stop);
            }
            UiCommand::Evaluate => self.to_active(Command::Evaluate),
            UiCommand::Pin => self.pin(),
            UiCommand::Theme => {
                self.view.theme = if self.ctx.theme() == egui::Theme::Dark {
                    egui::ThemePreference::Light
                } else {
                    egui::ThemePreference::Dark
                };
            }
            UiCommand::NextRegion => regions::go(self.ctx, true),
            UiCommand::PreviousRegion => regions::go(self.ctx, false),
            UiCommand::ResetLayout => *self.layout = Layout::default(),
            UiCommand::Shortcuts => self.state.dialog = Some(Dialog::Shortcuts),
            UiCommand::FrameTimes => self.view.frame_times = !self.view.frame_times,
            UiCommand::Quit => self.ctx.send_viewport_cmd(egui::ViewportCommand::Close),
        }
    }

    /// The experiment has changed: plan it.
    pub(crate) fn changed(&mut self) {
        let State { document, prediction, compares_present, .. } = &mut *self.state;
        document.generation += 1;
        prediction.obstacle = None;
        let is_of_plan = |plan: &Arc<Plan>| is_one_task(&plan.experiment, &document.experiment);
        *compares_present |= !prediction.plan.as_ref().is_none_or(is_of_plan);
        self.services.planner.plan(document.generation, document.experiment.clone());
    }

    /// Pins the plan, which may be on its way, or takes the pin out.
    fn pin(&mut self) {
        (self.view.show_before, self.state.pin_is_of_another) = (false, false);
        self.state.pin_at_rest = None;
        // What was said of the pin before.
        self.toasts.settings_changed();
        let was_asked = self.state.pin_asked.take().is_some();
        if self.state.pin.take().is_some() || was_asked {
            return;
        }
        self.state.pin = self.state.plan().cloned();
        if self.state.is_planning() {
            let experiment = self.state.document.experiment.clone();
            self.state.pin_asked = Some(experiment.clone());
            self.services.planner.pin(experiment);
        }
    }

    fn ask_neighbours(&mut self, control: &'static str, neighbours: Vec<(String, Experiment)>) {
        let generation = self.state.document.generation;
        let asked = self.state.prediction.neighbours.as_ref();
        if asked.is_some_and(|n| n.control == control && n.generation == generation) {
            return;
        }
        self.state.prediction.neighbours = Some(Neighbours { control, generation, answer: None });
        let now = self.state.document.experiment.clone();
        self.services.planner.neighbours(Question { generation, control, now, neighbours });
    }

    // ---- answers of the threads

    /// Takes in the threads' messages since the last frame.
    pub(crate) fn receive(&mut self) {
        for answer in self.services.planner.answers() {
            self.answer(answer);
        }
        self.begin_awaited();
        self.follow_the_present();
        for reply in self.services.librarian.replies() {
            self.reply(reply);
        }
        for found in self.services.painter.found() {
            self.state.gallery.receive(found);
        }
        let mut taken = 0;
        for event in self.services.trainer.events().try_iter().take(EVENTS_A_FRAME) {
            self.event(&event);
            taken += 1;
        }
        self.begin_taught();
        self.tell_of_records();
        if taken == EVENTS_A_FRAME {
            self.ctx.request_repaint();
        }
        if taken > 0 {
            self.state.latest = self.services.trainer.latest();
            self.state.session.has_measured(&self.state.latest);
        }
        self.state.devices = self.services.watcher.latest();
        for chosen in self.services.files.chosen() {
            match chosen {
                Chosen::Path(purpose, path) => self.path_chosen(purpose, path),
                Chosen::NoDialog(purpose, suggestion) => self.ask_for_path(purpose, &suggestion),
                Chosen::Nothing => self.state.after_saving = None,
            }
        }
        self.tell_of_taken();
        self.follow_the_tried();
        let (count, last) = self.ctx.input(|input| {
            let files = &input.raw.dropped_files;
            (files.len(), files.last().map(|file| file.path().to_owned()))
        });
        if count > 1 {
            self.toasts.info(format!("{count} files were dropped, and the last one is used."));
        }
        if let Some(path) = last {
            self.dropped(path);
        }
    }

    fn answer(&mut self, answer: Answer) {
        let state = &mut *self.state;
        let present = state.document.generation;
        match answer {
            Answer::Plan(generation, Ok(plan)) => {
                state.prediction.plan = Some(plan);
                state.prediction.plan_generation = generation;
                self.refusal_is_over();
                self.rest_a_pin_that_does_not_compare();
            }
            Answer::Plan(generation, Err(obstacle)) if generation == present => {
                state.prediction.obstacle = Some(obstacle);
            }
            Answer::Options(generation, options) => {
                state.prediction.options = *options;
                state.prediction.options_generation = generation;
            }
            Answer::Pin(Ok(plan)) => {
                let asked = state.pin_asked.take_if(|asked| *asked == *plan.experiment).is_some();
                if asked || state.pin.as_ref().is_some_and(|pin| pin.experiment == plan.experiment) {
                    state.pin = Some(plan);
                    self.rest_a_pin_that_does_not_compare();
                }
            }
            Answer::Pin(Err(_)) => {
                if state.pin_asked.take().is_some() {
                    self.toasts.warning("The settings to compare with cannot be planned here, so the pin was removed.");
                }
            }
            Answer::Neighbours(generation, control, answer) => {
                if let Some(neighbours) = &mut state.prediction.neighbours
                    && (neighbours.generation, neighbours.control) == (generation, control)
                {
                    neighbours.answer = Some(answer);
                }
            }
            Answer::Plan(..) => {}
        }
    }

    /// Drops the notice that a run met its budget once other settings fit: its changes would be of settings that are gone.
    fn refusal_is_over(&mut self) {
        let state = &mut *self.state;
        let refused = state.session.latest().map(RunRecord::experiment);
        let is_over =
            state.plan().is_some_and(|plan| plan.fits() && refused.is_some_and(|run| *run != *plan.experiment));
        if is_over {
            state.notice.take_if(|notice| matches!(notice, Notice::Run(Outcome::OverBudget(_))));
        }
    }

    fn event(&mut self, event: &Event) {
        self.state.session.receive(event);
        self.record(event);
        let state = &mut *self.state;
        match event {
            Event::Machine(machine) => {
                state.machine = machine.clone();
                state.prediction.neighbours = None;
                let pinned = state.pin.as_ref().map(|pin| Experiment::clone(&pin.experiment));
                let pinned = state.pin_asked.clone().or(pinned);
                self.services.planner.learn(machine.clone(), pinned);
                self.services.librarian.learn(machine);
                self.services.trials.learn(machine);
            }
            Event::Started { run, plan } => {
                (state.is_starting, state.is_stopping) = (false, false);
                state.shows(None);
                let name = state.session.get(*run).map(|run| run.name()).unwrap_or_default();
                let begins = if plan.resolved.resumed().is_some() { " goes on" } else { " begins" };
                state.log.add_of(Level::Note, (*run, name), begins, None);
                if let Some(kept) = state.session.get(*run).and_then(|run| run.kept.clone()) {
                    state.runs.begins(kept);
                }
            }
            Event::Warning(text) => state.log.add(Level::Warning, text.clone()),
            Event::Ended { run, outcome, summary } => self.ended(*run, outcome, summary),
            Event::Thinned { step, stripped } => {
                state.log.add(Level::Note, format!("After {} {stripped}", format::counted(*step, "step")));
            }
            Event::Saved { step, path, bytes, .. } => {
                let run = state.session.active().map(|run| (run.key, run.name())).unwrap_or_default();
                let rest = format!(" was saved after {} ({bytes})", format::counted(*step, "step"));
                state.log.add_of(Level::Note, run, &rest, Some(path.display().to_string()));
            }
            Event::Paused(is_paused) => self.services.planner.trains(!is_paused),
            Event::Teaching { .. }
            | Event::Step(_)
            | Event::Ways { .. }
            | Event::Evaluating { .. }
            | Event::Evaluated { .. }
            | Event::Compressed(_) => {}
        }
    }

    /// A run is over: the log says how, and a notice says so where it was refused or failed.
    fn ended(&mut self, run: u64, outcome: &Outcome, summary: &Summary) {
        let state = &mut *self.state;
        (state.is_starting, state.is_stopping) = (false, false);
        // The run that waits begins only where its teacher was trained to the end.
        let is_due = matches!(outcome, Outcome::Finished);
        state.taught = state.taught.take().filter(|_| is_due).map(|taught| Taught { is_due, ..taught });
        self.services.planner.trains(false);
        // A start that was refused has no run.
        let name = state.session.get(run).map(|run| run.name());
        let name = name.unwrap_or_else(|| "The run".to_owned());
        let steps = format::counted(summary.steps, "step");
        let result = state.session.get(run).map(RunRecord::result).unwrap_or_default();
        let (level, rest) = match outcome {
            Outcome::Finished => (Level::Note, format!(" finished after {steps}{result}")),
            Outcome::Stopped => {
                let lacks = state.session.get(run).and_then(RunRecord::lacks).unwrap_or_default();
                (Level::Note, format!(" was stopped after {steps}{result}{lacks}"))
            }
            Outcome::OverBudget(refusal) => (Level::Error, format!(" met its budget: {}", refusal.error)),
            Outcome::Failed(error) => (Level::Error, format!(" failed: {error}")),
        };
        if level == Level::Error {
            state.notice = Some(Notice::Run(outcome.clone()));
        }
        state.log.add_of(level, (run, name), &rest, None);
        if let Some(stripped) = summary.stripped {
            state.log.add(Level::Note, stripped.to_string());
        }
        if let Some(compressed) = summary.compressed {
            state.log.add(Level::Note, compressed.to_string());
        }
        if let Some(factored) = summary.factored {
            state.log.add(Level::Note, factored.to_string());
        }
    }
}
