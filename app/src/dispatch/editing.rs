//! Changes of the experiment in hand, and steps back and forth among them.

use std::time::Instant;

use eframe::egui;
use plimsoll_engine::Experiment;

use super::Dispatcher;
use crate::{
    command::UiCommand,
    format,
    state::{Level, State, Then},
    widgets::control,
};

impl Dispatcher<'_> {
    /// Makes `experiment` the one in hand, as `control` changed it.
    pub(super) fn edit(&mut self, control: &'static str, mut experiment: Experiment) {
        // The number of the present press tells one drag from the next.
        let press = self.ctx.input(|input| {
            let start = input.pointer.press_start_time()?;
            input.pointer.any_down().then_some(start.to_bits())
        });
        let State { document, budgets, machine, .. } = &mut *self.state;
        if control == "whole" && experiment.title != document.experiment.title {
            // The settings come from a run of another experiment.
            budgets.closing(&document.experiment);
        }
        if control == "device" {
            experiment.budget = budgets.moving(&document.experiment, &experiment.device, machine);
        }
        document.changes(control, press, Instant::now());
        let before = std::mem::replace(&mut document.experiment, experiment);
        self.toasts.refused_is_over();
        self.say_what_followed(control, &before);
        self.changed();
    }

    /// A model and its data go together, and a device and its budget: says so if a change of the one changed the other.
    fn say_what_followed(&mut self, control: &str, before: &Experiment) {
        let now = &self.state.document.experiment;
        let model = (control == "data.kind" && now.model.kind != before.model.kind).then_some("model");
        let data = (control == "model.kind" && now.data.kind != before.data.kind).then_some("data");
        if let Some(other) = model.or(data) {
            let learned = now.model.kind.task().name();
            self.toasts.followed(format!("The {other} changed as well: now both are about {learned}."));
        }
        if control == "device" && now.budget != before.budget {
            let device = format::device(&now.device);
            let text = format!("The budget changed as well: {} for {device}", now.budget);
            self.toasts.followed(text.as_str());
            self.state.log.add(Level::Note, text);
        }
    }

    /// Makes a whole configuration the present one, as an edit that can be undone.
    pub(super) fn adopt(&mut self, experiment: Experiment) {
        if experiment != self.state.document.experiment {
            self.edit("whole", experiment);
        }
    }

    /// Adopts the settings of a kept run in the same way; they are there as long as the run is. Those of another experiment are
    /// a document of their own: they are no version of the one in hand.
    pub(super) fn adopt_kept(&mut self, experiment: Experiment) {
        let document = &self.state.document;
        let is_of_another = [&document.saved, &document.experiment].iter().all(|own| own.title != experiment.title);
        self.take_kept(experiment, is_of_another);
    }

    /// Opens the settings of a kept run as they were. In the document of a file they would be written over it by a save.
    pub(super) fn open_kept(&mut self, experiment: Experiment) {
        match self.state.document.path {
            Some(_) => self.take_kept(experiment, true),
            None => self.adopt_kept(experiment),
        }
    }

    fn take_kept(&mut self, mut experiment: Experiment, is_document: bool) {
        // A new run computes its own ranks, because its weights may differ by now.
        experiment.low_rank.ranks.clear();
        if is_document {
            return self.guarded(Then::OpenKept(Box::new(experiment)));
        }
        self.state.document.loads(&experiment);
        self.adopt(experiment);
    }

    /// Whether what was just typed is no value; says so. Nothing is done with the value before, which is not asked for.
    pub(super) fn was_just_refused(&mut self) -> bool {
        let refused = control::just_refused(self.ctx, self.state.document.generation);
        let is_refused = refused.is_some();
        refused.into_iter().for_each(|words| self.toasts.refused_text(words));
        is_refused
    }

    /// Undoes or redoes a step.
    pub(super) fn travel(&mut self, command: UiCommand) {
        if command == UiCommand::Undo && self.state.deleted_last() {
            return self.restore_runs();
        }
        // A choice in a list that stays open would be made in another experiment.
        egui::Popup::close_all(self.ctx);
        let document = &mut self.state.document;
        let moved = match command {
            UiCommand::Undo => document.history.undo(&mut document.experiment),
            _ => document.history.redo(&mut document.experiment),
        };
        if moved {
            self.toasts.settings_changed();
            self.changed();
        } else {
            self.travel_between_documents(command == UiCommand::Undo);
        }
    }
}
