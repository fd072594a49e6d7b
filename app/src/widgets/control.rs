//! A control of the experiment: a name, an editor, and help on hover, with the problem if there is one.
//!
//! Always holds: every control has its effect on memory and time on hover, in two sentences, and the changes by one step
//! less and one more, from dry runs of the changed experiment.

mod change;
mod field;
mod set;
mod value;

use std::{
    cell::{Cell, OnceCell},
    sync::Arc,
};

use eframe::egui::{self, Align, Layout, Rect, Response, RichText, Slider, SliderClamping, Ui};
use plimsoll_engine::{Experiment, error::Problem};

use self::set::Set;
pub(crate) use self::{
    field::{Typed, forget, forget_refused, is_refused, just_refused, number, refuse, refused, refused_setting},
    value::{Choice, Number, Place, Spec},
};
use crate::{
    command::{Action, Sender},
    focus, naming,
    planner::Compared,
    state::State,
    theme,
    widgets::{covered, text, tip},
};

/// A control of a setting: a number, or one of a few.
pub(crate) trait Control {
    /// Its specification.
    fn spec(&self) -> Spec;

    /// Draws it.
    fn ui(&self, ui: &mut Ui, form: &Form<'_>);

    /// The words of its choices.
    #[cfg(test)]
    fn words(&self) -> Vec<&'static str>;
}

impl Control for (Spec, Number) {
    fn spec(&self) -> Spec {
        self.0
    }

    fn ui(&self, ui: &mut Ui, form: &Form<'_>) {
        form.number(ui, self.0, self.1);
    }

    #[cfg(test)]
    fn words(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

impl<T: Copy + PartialEq> Control for (Spec, Choice<T>) {
    fn spec(&self) -> Spec {
        self.0
    }

    fn ui(&self, ui: &mut Ui, form: &Form<'_>) {
        form.choice(ui, self.0, &self.1);
    }

    #[cfg(test)]
    fn words(&self) -> Vec<&'static str> {
        self.1.options.iter().map(|(_, name)| *name).collect()
    }
}

/// The same experiment with other values of a control, each under its name.
type Neighbours = Vec<(String, Experiment)>;

/// The controls of one frame: reads the state, sends the changes.
pub(crate) struct Form<'a> {
    state: &'a State,
    send: &'a Sender,
    /// The settings that are not at their default, once they were asked for.
    set: OnceCell<Arc<Set>>,
    /// The first row drawn whose value is a problem.
    first_problem: Cell<Option<Rect>>,
}

impl<'a> Form<'a> {
    /// Controls over the present experiment.
    pub(crate) fn new(state: &'a State, send: &'a Sender) -> Self {
        Self { state, send, set: OnceCell::new(), first_problem: Cell::default() }
    }

    /// The experiment as it is.
    pub(crate) fn experiment(&self) -> &'a Experiment {
        &self.state.document.experiment
    }

    /// Whether a setting is not at its default.
    pub(crate) fn is_set(&self, ui: &Ui, key: &str) -> bool {
        let set = self.set.get_or_init(|| Set::of(self.experiment(), ui));
        set.changes.iter().any(|change| change.split('=').next() == Some(key))
    }

    /// Sends the experiment after a change by the control `key`.
    pub(crate) fn edit(&self, key: &'static str, change: impl FnOnce(&mut Experiment)) {
        let mut experiment = self.experiment().clone();
        change(&mut experiment);
        if experiment != *self.experiment() {
            self.send.send(Action::Edit { control: key, experiment: Box::new(experiment) });
        }
    }

    /// A number, with a slider over its stops and a field for any value.
    pub(crate) fn number(&self, ui: &mut Ui, spec: Spec, number: Number) {
        let (value, is_whole) = (number.get(spec, self.experiment()), number.is_whole(spec, self.experiment()));
        let hover = self.row(ui, spec, |ui| {
            // From left to right, as the eye and the Tab key go.
            let width = field_width(ui, &number.text(value, is_whole));
            let slider = slider(ui, spec, number, value, width);
            let typed = Typed::setting(spec, number, is_whole, value);
            let (field, typed) = field::number(ui, &typed, value, (width, self.state.document.generation));
            let field = (field.accessible_name(format!("{} value", spec.name)), typed);
            for (response, new) in slider.iter().chain([&field]) {
                follow(response);
                if response.changed() && *new != value {
                    self.edit(spec.key, |experiment| number.set(spec, experiment, *new));
                }
            }
        });
        let title = format!("{}: {}", spec.name, number.text(value, is_whole));
        self.help_of(&hover, spec, &title, || neighbours_of(self.experiment(), spec, number));
    }

    /// A choice among a few values, in a drop-down list.
    pub(crate) fn choice<T: Copy + PartialEq>(&self, ui: &mut Ui, spec: Spec, choice: &Choice<T>) {
        let present = choice.get(spec, self.experiment());
        let name = |value: T| choice.options.iter().find(|(v, _)| *v == value).map_or("other", |(_, name)| *name);
        let hover = self.row(ui, spec, |ui| {
            // A list is as long as it needs to be; the window bounds it.
            let room = ui.ctx().content_rect().height() * theme::LIST_SHARE;
            let combo = egui::ComboBox::from_id_salt(spec.key).width(ui.available_width()).height(room).truncate();
            let combo = combo.selected_text(name(present));
            let mut is_chosen_by_key = false;
            let combo = combo.show_ui(ui, |ui| {
                let is_new = focus::opens(ui, spec.key);
                for (value, name) in choice.options {
                    let entry = ui.selectable_label(*value == present, *name);
                    // The keys go on from the present value.
                    if is_new && *value == present {
                        entry.request_focus();
                    }
                    follow(&entry);
                    if entry.clicked() {
                        self.edit(spec.key, |experiment| choice.set(spec, experiment, *value));
                        // A click of the pointer closes the list by itself, and leaves the focus where it was.
                        is_chosen_by_key = !ui.input(|input| input.pointer.any_released());
                        ui.close();
                    }
                }
            });
            if is_chosen_by_key {
                combo.response.request_focus();
            }
            follow(&combo.response.accessible_name(spec.name));
        });
        let title = format!("{}: {}", spec.name, name(present));
        self.help_of(&hover, spec, &title, || {
            let others = choice.options.iter().filter(|(value, _)| *value != present);
            others
                .map(|(value, name)| ((*name).to_owned(), changed(self.experiment(), |e| choice.set(spec, e, *value))))
                .collect()
        });
    }

    /// A row with the name on the left, in red where its value is a problem, and `editor` on the right; the response is that of
    /// the whole row.
    pub(crate) fn row(&self, ui: &mut Ui, spec: Spec, editor: impl FnOnce(&mut Ui)) -> Response {
        let problem = self.problem(spec.key);
        let width = name_width(ui);
        let hover = ui.horizontal(|ui| {
            let size = egui::vec2(width, ui.spacing().interact_size.y);
            let is_wrong = problem.is_some() || is_refused(ui.ctx(), spec.key, self.state.document.generation);
            let color = if is_wrong { theme::palette(ui).bad } else { ui.visuals().text_color() };
            ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
                ui.set_min_width(width);
                ui.add(egui::Label::new(RichText::new(spec.name).color(color)).truncate());
            });
            editor(ui);
        });
        if problem.is_some() && self.first_problem.get().is_none() {
            self.first_problem.set(Some(hover.response.rect));
        }
        hover.response
    }

    /// Where the first row lies whose value is a problem, of those that were drawn.
    pub(crate) fn first_problem(&self) -> Option<Rect> {
        self.first_problem.get()
    }

    fn problem(&self, key: &str) -> Option<&'a Problem> {
        self.state.prediction.problems().iter().find(|problem| problem.key == key)
    }

    /// The help of a control, next to its row, while the pointer rests on the row.
    pub(crate) fn help(&self, row: &Response, spec: Spec, neighbours: impl FnOnce() -> Neighbours) {
        self.help_of(row, spec, spec.name, neighbours);
    }

    /// The same help under a title that says more than the control's name, such as a value that may be cut in the row.
    pub(crate) fn help_of(&self, row: &Response, spec: Spec, title: &str, neighbours: impl FnOnce() -> Neighbours) {
        tip::show(tip::beside(row), |ui| self.lesson(ui, spec, title, Box::new(neighbours)));
    }

    /// The effect of a control on memory and time, and the changes to its neighbours.
    fn lesson(&self, ui: &mut Ui, spec: Spec, title: &str, neighbours: Box<dyn FnOnce() -> Neighbours + '_>) {
        ui.set_max_width(theme::TOOLTIP_WIDTH);
        ui.strong(title);
        if let Some(problem) = self.problem(spec.key) {
            let words = naming::problem_alone(problem, self.experiment().model.kind);
            ui.label(RichText::new(words).color(theme::palette(ui).bad));
        }
        ui.label(spec.help);
        let neighbours = neighbours();
        if neighbours.is_empty() {
            return;
        }
        ui.separator();
        let generation = self.state.document.generation;
        let known = self.state.prediction.neighbours.as_ref();
        match known.filter(|known| known.control == spec.key && known.generation == generation) {
            Some(known) => match &known.answer {
                Some(Compared { now: Ok(now), neighbours }) => {
                    neighbours.iter().for_each(|n| change::line(ui, spec.key, n, *now))
                }
                Some(Compared { now: Err(_), .. }) => weak(ui, "There is no prediction to compare with."),
                None => weak(ui, "Planning…"),
            },
            None => {
                weak(ui, "Planning…");
                self.send.send(Action::AskNeighbours { control: spec.key, neighbours });
            }
        }
    }

    /// Whether one of the settings of these keys stands in the way of a plan.
    pub(crate) fn has_problem(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.problem(key).is_some())
    }
}

/// Width of the column of names, which leaves a narrow pane to the values.
pub(crate) fn name_width(ui: &Ui) -> f32 {
    (ui.available_width() * theme::NAME_SHARE).clamp(theme::NARROWEST_NAME, theme::NAME_WIDTH)
}

/// Width of a field that shows the whole of its value.
fn field_width(ui: &Ui, value: &str) -> f32 {
    let font = egui::TextStyle::Button.resolve(ui.style());
    let value = text::width(ui, value, &font) + 2.0 * ui.spacing().button_padding.x;
    value.ceil().max(theme::NUMBER_WIDTH)
}

/// Brings the control that the keyboard's focus reached into sight, and out from below a notice.
pub(crate) fn follow(response: &Response) {
    if response.gained_focus() || tip::has_come(response) {
        response.clone().with_new_rect(covered::clear(&response.ctx, response.rect)).scroll_to_me(None);
    }
}

fn weak(ui: &mut Ui, text: &str) {
    ui.label(RichText::new(text).weak());
}

fn changed(experiment: &Experiment, change: impl FnOnce(&mut Experiment)) -> Experiment {
    let mut experiment = experiment.clone();
    change(&mut experiment);
    experiment
}

/// The experiment at the stops next to a value.
fn neighbours_of(experiment: &Experiment, spec: Spec, number: Number) -> Neighbours {
    let (value, is_whole) = (number.get(spec, experiment), number.is_whole(spec, experiment));
    let less = number.stops.iter().rev().find(|n| **n < value - value.abs() * 1e-9);
    let more = number.stops.iter().find(|n| **n > value + value.abs() * 1e-9);
    let both = less.map(|n| ("One notch less", *n)).into_iter().chain(more.map(|n| ("One notch more", *n)));
    let name = |which: &str, n: f64| format!("{which}, {}", number.text(n, is_whole));
    both.map(|(which, n)| (name(which, n), changed(experiment, |e| number.set(spec, e, n)))).collect()
}

/// A slider over the stops, in the room that the field leaves; none if that is too little to drag in: the field can be
/// dragged as well.
fn slider(ui: &mut Ui, spec: Spec, number: Number, value: f64, field: f32) -> Option<(Response, f64)> {
    let room = ui.available_width() - field - ui.spacing().item_spacing.x;
    if room < theme::SHORTEST_SLIDER {
        return None;
    }

    let start = position(number.stops, value);
    let mut place = start;
    let last = number.stops.len().saturating_sub(1);
    let slider = Slider::from_get_set(0.0..=last as f64, |set: Option<f64>| {
        place = set.unwrap_or(place);
        place
    });
    ui.spacing_mut().slider_width = room;
    // Clamping would move a value that lies between two stops, unasked.
    let slider = slider.show_value(false).step_by(1.0).clamping(SliderClamping::Never);
    let response = ui.add(slider).accessible_name(spec.name);
    let moved = (place - start).abs() > 1e-9;
    Some((response, if moved { number.stops[(place.round() as usize).min(last)] } else { value }))
}

/// Where a value lies between the stops, by place.
fn position(stops: &[f64], value: f64) -> f64 {
    let above = stops.partition_point(|n| *n < value);
    match (above.checked_sub(1).and_then(|i| stops.get(i)), stops.get(above)) {
        (Some(a), Some(b)) => above as f64 - 1.0 + (value - a) / (b - a),
        (None, _) => 0.0,
        (Some(_), None) => stops.len() as f64 - 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: Number = Number { stops: &[8.0, 16.0, 32.0, 64.0], zero: None, place: Place::Setting };
    const SPEC: Spec = Spec { key: "model.width", name: "Width", help: "" };

    #[test]
    fn a_value_between_stops_has_both_as_neighbours_and_one_at_the_end_has_one() {
        let neighbours = |width| {
            let mut experiment = Experiment::default();
            experiment.model.width = width;
            neighbours_of(&experiment, SPEC, WIDTH)
        };
        let names = |width| neighbours(width).into_iter().map(|n| n.0).collect::<Vec<_>>();
        assert_eq!(names(20), ["One notch less, 16", "One notch more, 32"]);
        assert_eq!(names(16), ["One notch less, 8", "One notch more, 32"]);
        assert_eq!(names(64), ["One notch less, 32"]);
        assert_eq!(neighbours(16)[1].1.model.width, 32);
    }

    #[test]
    fn the_slider_stands_between_stops_where_the_value_does() {
        assert_eq!([8.0, 12.0, 64.0, 100.0, 1.0].map(|v| position(WIDTH.stops, v)), [0.0, 0.5, 3.0, 3.0, 0.0]);
    }
}
