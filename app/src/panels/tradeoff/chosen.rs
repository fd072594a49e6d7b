//! The run that is looked at: its name, how its settings differ from the present ones, and the button that loads them.

use eframe::egui::{Align, Button, Id, Layout, RichText, TextStyle, Ui, UiBuilder, vec2};

use plimsoll_engine::store::RunState;

use crate::{
    command::Action,
    naming,
    panels::PanelContext,
    session::{RunKey, RunRecord, Status},
    theme,
    widgets::{
        button,
        ends::{Room, ends},
        run_name, text,
        tip::Tip as _,
    },
};

/// The button that makes its settings the present ones.
const LOAD: &str = "Load its settings";

/// A hint if no run is looked at.
const CHOOSE: &str = "Click a point to look at its run.";

/// The height of the two lines.
pub(super) fn height(ui: &Ui) -> f32 {
    ui.spacing().interact_size.y * 2.0 + ui.spacing().item_spacing.y * 2.0
}

/// Draws the two lines.
pub(super) fn ui(ui: &mut Ui, context: &PanelContext<'_>, run: Option<&RunRecord>) {
    let Some(run) = run else {
        row(ui, |ui| drop(text::cut(ui, RichText::new(CHOOSE).weak(), CHOOSE)));
        row(ui, |_| {});
        return;
    };
    let present = &*context.state.document.experiment.decided_as(run.experiment());
    let is_present = present == run.experiment();
    let name = |ui: &mut Ui| {
        ui.label(RichText::new(run.label()).strong());
        own_name(ui, context, run);
    };
    let load = |ui: &mut Ui| _ = load(ui, context, run);
    let font = TextStyle::Button.resolve(ui.style());
    let room = Room::From(text::width(ui, LOAD, &font) + 2.0 * ui.spacing().button_padding.x);
    row(ui, |ui| ends(ui, "looked at", room, name, load));
    row(ui, |ui| {
        // To compare all settings takes a while, in every frame.
        let differ = |from, to| {
            if is_present { Vec::new() } else { naming::changes(from, to, |key| context.state.runs.called(key)) }
        };
        let changes = differ(present, run.experiment());
        // A setting that is used now and was not then is a change in the other direction alone.
        let added = if changes.is_empty() { differ(run.experiment(), present) } else { Vec::new() };
        let words = if run.point().is_none() {
            without_point(run).to_owned()
        } else if is_present {
            "Its settings are the present ones.".to_owned()
        } else if !added.is_empty() {
            format!("Against the present, without: {}", added.join(", "))
        } else if changes.is_empty() {
            "Only its title and description differ from the present ones.".to_owned()
        } else {
            format!("Against the present: {}", changes.join(", "))
        };
        text::cut(ui, RichText::new(&words).small().weak(), &words);
    });
}

/// Why a run has no point.
fn without_point(run: &RunRecord) -> &'static str {
    if run.status.is_active() || matches!(run.status, Status::Kept(RunState::Running)) {
        "It has no point yet: its first test on held-out data is still to come."
    } else {
        "It has no point: it ended before its first test on held-out data."
    }
}

/// The button that makes its settings the present ones; whether it was clicked.
pub(super) fn load(ui: &mut Ui, context: &PanelContext<'_>, run: &RunRecord) -> bool {
    let is_present = *context.state.document.experiment.decided_as(run.experiment()) == *run.experiment();
    let load = button::enabled(ui, !is_present, Button::new(LOAD));
    let hover = "Make the settings of this run the present ones; undo takes it back.";
    let load = load.tip(hover).tip_disabled("Its settings are the present ones.");
    if load.clicked() {
        context.send.send(Action::Adopt(Box::new(run.experiment().clone())));
    }
    load.clicked()
}

fn row(ui: &mut Ui, contents: impl FnOnce(&mut Ui)) {
    let size = vec2(ui.available_width(), ui.spacing().interact_size.y);
    let (_, rect) = ui.allocate_space(size);
    // A child that takes no room of its own: the line is as high as it was promised.
    contents(&mut ui.new_child(UiBuilder::new().max_rect(rect).layout(Layout::left_to_right(Align::Center))));
}

/// The field for the name of a run.
pub(super) fn name_field(run: RunKey) -> Id {
    Id::unique(("name of the run", run))
}

/// A field with the name that the run was given; while it is empty, it shows the run's distinguishing settings.
fn own_name(ui: &mut Ui, context: &PanelContext<'_>, run: &RunRecord) {
    let known = run.own_name.as_deref().unwrap_or_default();
    let hint = run.short_name();
    let width = (ui.available_width() - theme::GAP).max(1.0);
    let about = |text: &str| {
        let text = if text.is_empty() { &hint } else { text };
        format!("{text}. Type a name of its own for this run.")
    };
    let of = (&context.state.runs, run.kept.as_ref());
    let field = (name_field(run.key), "Name of the run", hint.as_str());
    if let Some(name) = run_name::field(ui, of, field, known, width, about) {
        context.send.send(Action::NameRun(run.key, name));
    }
}
