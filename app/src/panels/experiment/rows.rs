//! The rows of a group, as its table in `controls` lists them, each with the condition for drawing it.
//!
//! Always holds: the words of a group's heading and its rows come from the same table.

use eframe::egui::Ui;
use plimsoll_engine::{Experiment, experiment::Setting};

use super::PanelContext;
use crate::{
    format,
    widgets::control::{Control, Form, Spec},
};

/// Draws something that is more than a control.
type Draw = fn(&mut Ui, &Form<'_>, &PanelContext<'_>);

/// A row of a group.
#[derive(Clone, Copy)]
pub(super) struct Row {
    what: What,
    is_there: fn(&Experiment) -> bool,
    is_named: bool,
    /// The name of its setting where the heading of its group does not stand above it.
    alone: Option<&'static str>,
}

#[derive(Clone, Copy)]
enum What {
    Control(&'static dyn Control),
    Drawn { specs: &'static [Spec], draw: Draw },
}

impl Row {
    /// A control. It is there while the experiment uses its setting.
    pub(super) const fn of(control: &'static dyn Control) -> Self {
        Self { what: What::Control(control), is_there: |_| true, is_named: true, alone: None }
    }

    /// A row that `draw` draws: the settings of `specs`, or a fact.
    pub(super) const fn drawn(specs: &'static [Spec], draw: Draw) -> Self {
        Self { what: What::Drawn { specs, draw }, is_there: |_| true, is_named: true, alone: None }
    }

    /// Only there while this holds as well.
    pub(super) const fn when(self, is_there: fn(&Experiment) -> bool) -> Self {
        Self { is_there, ..self }
    }

    /// Not named by the heading of a group that is folded away: another setting brings its value along.
    pub(super) const fn unnamed(self) -> Self {
        Self { is_named: false, ..self }
    }

    /// Another name for its setting where the heading of its group does not stand above it, in lower case.
    pub(super) const fn alone(self, name: &'static str) -> Self {
        Self { alone: Some(name), ..self }
    }

    /// The keys of its settings, each with the name that is understood without the heading of its group.
    fn names(&self) -> Vec<(&'static str, String)> {
        let name = |spec: &Spec| self.alone.map_or_else(|| format::small(spec.name), str::to_owned);
        self.specs().iter().map(|spec| (spec.key, name(spec))).collect()
    }

    /// The settings that it draws.
    fn specs(&self) -> Vec<Spec> {
        match self.what {
            What::Control(control) => vec![control.spec()],
            What::Drawn { specs, .. } => specs.to_vec(),
        }
    }

    /// The words of its choices.
    #[cfg(test)]
    pub(super) fn words(&self) -> Vec<&'static str> {
        match self.what {
            What::Control(control) => control.words(),
            What::Drawn { .. } => Vec::new(),
        }
    }

    /// Draws the row, where it is there.
    pub(super) fn ui(&self, ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>) {
        let experiment = form.experiment();
        if !(self.is_there)(experiment) {
            return;
        }
        match self.what {
            What::Control(control) => {
                let setting = Setting::of(control.spec().key);
                if setting.is_none_or(|setting| setting.is_used(experiment)) {
                    control.ui(ui, form);
                }
            }
            What::Drawn { draw, .. } => draw(ui, form, context),
        }
    }
}

/// Draws the rows of a group.
pub(super) fn ui(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>, rows: &[Row]) {
    rows.iter().for_each(|row| row.ui(ui, form, context));
}

/// The settings of a group.
pub(super) fn specs(rows: &[Row]) -> Vec<Spec> {
    rows.iter().flat_map(Row::specs).collect()
}

/// The keys of a group's settings, each with the name that is understood without the group's heading.
pub(super) fn names(rows: &[Row]) -> Vec<(&'static str, String)> {
    rows.iter().flat_map(Row::names).collect()
}

/// Those that a heading may name.
pub(super) fn named(rows: &[Row]) -> Vec<Spec> {
    rows.iter().filter(|row| row.is_named).flat_map(Row::specs).collect()
}
