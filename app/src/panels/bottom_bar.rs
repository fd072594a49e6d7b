//! The bottom bar: train, pause, step, stop, evaluate; next to them the forecast for the present configuration and the
//! reason why it cannot train, and below that the progress of the shown run.
//!
//! Always holds: both lines keep their place, with any text; the line of a run names the run.

mod length;
mod pace;

use eframe::egui::{
    self, Align, Button, Color32, Label, Layout, ProgressBar, Response, RichText, Sense, Ui, UiBuilder, vec2,
};

use plimsoll_engine::{experiment::Setting, store::RunState, train::Outcome};

#[cfg(test)]
pub(crate) use self::length::length;
use self::length::planned;
use super::PanelContext;
use crate::{
    command::{Action, RunsAction, UiCommand},
    format,
    runs::{Row, Runs},
    session::{HELD_BACK, RunRecord, Status, USUAL_OF},
    state::State,
    theme::{self, Palette},
    widgets::{
        button,
        ends::{Room, ends},
        text,
        tip::Tip as _,
        toasts::{self, Place},
    },
};

/// In narrower bars the buttons other than *Train* are signs without words.
const WORDS_FROM: f32 = 900.0;
/// In narrower bars the lines are below the buttons.
const BESIDE_FROM: f32 = 560.0;
/// Why a run cannot be paused, stopped or tested.
const NO_RUN: &str = "No run is in progress: press Train to begin one.";
/// The reason why a run that is stopping takes no more requests.
const STOPPING: &str = "The run stops after the step that it is in.";
/// The words of its line meanwhile.
const STOPS: &str = "stops after this step";
/// Share of its line that the name of a run may take.
const NAME_SHARE: f32 = 0.36;

/// Draws the bar.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    let width = ui.available_width();
    ui.horizontal(|ui| {
        ui.scope(|ui| {
            ui.spacing_mut().button_padding = vec2(10.0, 5.0);
            buttons(ui, context, width >= WORDS_FROM);
        });
        if width >= BESIDE_FROM {
            ui.add_space(theme::GAP);
            ui.vertical(|ui| lines(ui, context));
        }
    });
    if width < BESIDE_FROM {
        lines(ui, context);
    }
}

fn buttons(ui: &mut Ui, context: &PanelContext<'_>, in_words: bool) {
    let palette = theme::palette(ui);
    let active = context.state.session.active();
    let reason = context.state.why_no_training();
    let idle = active.is_none() && !context.state.is_starting;
    let accent = Button::new(RichText::new("▶ Train").color(palette.on_accent).strong()).fill(palette.accent);
    let plain = Button::new("▶ Train");
    let ready = idle && reason.is_none();
    let hover = UiCommand::Train.tooltip_with_key(ui.ctx());
    let train = button::enabled(ui, ready, if ready { accent } else { plain }).accessible_name("Train");
    let why = reason.unwrap_or_else(|| "A run is in progress.".to_owned());
    let early = |button: &Response| idle && button::clicked_early(button, context.state.document.generation);
    if early(&train) | train.tip(hover).tip_disabled(&why).clicked() {
        context.send.ui(UiCommand::Train);
    }
    let stopping = context.state.is_stopping;
    let paused = active.is_some_and(|run| matches!(run.status, Status::Paused));
    let (pause, name) = if paused { ("▶", "Resume") } else { ("⏸", "Pause") };
    let may_step = active.is_some() || ready;
    for (command, sign, name, enabled) in [
        (UiCommand::Pause, pause, name, active.is_some() && !stopping),
        (UiCommand::Step, "⏭", "Step", may_step && !stopping),
        (UiCommand::Stop, "⏹", "Stop", active.is_some() && !stopping),
        (UiCommand::Evaluate, "✔", "Evaluate", active.is_some() && !stopping),
    ] {
        let hover = command.tooltip_with_key(ui.ctx());
        let hover = if in_words { hover } else { format!("{name}: {hover}") };
        let words = if in_words { format!("{sign} {name}") } else { sign.to_owned() };
        // As wide as *Resume* in any case, so that the next controls stay where they are.
        let least = if command == UiCommand::Pause && in_words { widest_pause(ui) } else { 0.0 };
        let button = Button::new(words).min_size(vec2(least, 0.0));
        let button = button::enabled(ui, enabled, button).accessible_name(name);
        let reason = match command {
            _ if stopping => STOPPING,
            UiCommand::Step => why.as_str(),
            _ => NO_RUN,
        };
        let is_early = command == UiCommand::Step && early(&button);
        if button.tip(&hover).tip_disabled(format!("{reason}\n\n{hover}")).clicked() || is_early {
            context.send.ui(command);
        }
    }
}

/// The button that begins a run that does not fit. It is at the end of the line of the forecast, so that it moves no other
/// control.
fn anyway(ui: &mut Ui, context: &PanelContext<'_>) {
    let idle = context.state.session.active().is_none() && !context.state.is_starting;
    if !idle || !context.state.may_train_anyway() {
        return;
    }
    let mut end = ui.new_child(UiBuilder::new().max_rect(ui.max_rect()).layout(Layout::right_to_left(Align::Center)));
    let anyway = Button::new(RichText::new("Train anyway").color(theme::palette(ui).bad)).small();
    let anyway = end.add(anyway).tip(UiCommand::TrainAnyway.tooltip());
    if anyway.clicked() {
        context.send.ui(UiCommand::TrainAnyway);
    }
    ui.set_max_width(ui.available_width() - anyway.rect.width() - theme::GAP);
}

fn widest_pause(ui: &Ui) -> f32 {
    let font = egui::TextStyle::Button.resolve(ui.style());
    let width = ["▶ Resume", "⏸ Pause"].map(|words| text::width(ui, words, &font)).into_iter().fold(0.0, f32::max);
    width + 2.0 * ui.spacing().button_padding.x
}

/// The forecast of a run, and the progress of one: two lines of the same height in every state. The reason why none can
/// begin takes the place of the progress of a run that is over: it says what to do next, and *Live* still shows the run.
fn lines(ui: &mut Ui, context: &PanelContext<'_>) {
    ui.spacing_mut().item_spacing.y = 0.0;
    line(ui, |ui| {
        anyway(ui, context);
        toasts::keep_room(ui, Place::BottomBar, ui.max_rect());
        planned(ui, context);
    });
    line(ui, |ui| match (shown(context), why_not(context)) {
        _ if context.state.is_starting => drop(ui.label(RichText::new("Preparing data…").weak())),
        (_, Some(reason)) => why(ui, &reason),
        (Some(run), None) => progress(ui, context, run),
        (None, None) => match broken_off(&context.state.runs) {
            Some(row) => may_go_on(ui, context, row),
            None => drop(ui.label(RichText::new("Press Train to begin a run.").weak())),
        },
    });
}

/// The newest kept run, if it ended before its last step and can go on, or was interrupted before it saved anything.
fn broken_off(runs: &Runs) -> Option<&Row> {
    let newest = runs.rows().iter().max_by_key(|row| row.run.started);
    newest.filter(|row| match row.run.state {
        RunState::Stopped => row.checkpoint().is_some(),
        RunState::Interrupted => true,
        _ => false,
    })
}

/// Where the newest run was interrupted, and the button that continues it if it saved a checkpoint. The name of the run comes
/// last: it is cut if there is no room.
fn may_go_on(ui: &mut Ui, context: &PanelContext<'_>, row: &Row) {
    let run = &row.run;
    let can_go_on = row.checkpoint().is_some();
    if can_go_on {
        let button = ui.small_button("Continue").accessible_name("Continue the interrupted run");
        let hover = "Go on from its last checkpoint: the losses are those that it would have had without a stop.";
        if button.tip(hover).clicked() {
            context.send.send(Action::Runs(RunsAction::Continue(run.key.clone())));
        }
    }
    let [done, all] = [run.steps, run.total_steps].map(format::count);
    let state = format::capital(run.status());
    let unsaved = if can_go_on { "" } else { ", before its first checkpoint" };
    let words = format!("{state} at step {done} of {all}{unsaved}: {}", row.name());
    text::cut_at_bottom(ui, RichText::new(&words).weak(), &words);
}

/// The reason why no run can begin, while none is active.
fn why_not(context: &PanelContext<'_>) -> Option<String> {
    let state = context.state;
    state.shown_reason().filter(|_| state.session.active().is_none())
}

fn why(ui: &mut Ui, reason: &str) {
    text::cut_at_bottom(ui, RichText::new(reason).color(theme::palette(ui).warn), reason);
}

fn line(ui: &mut Ui, contents: impl FnOnce(&mut Ui)) {
    let size = vec2(ui.available_width(), theme::ROW_HEIGHT);
    let (_, rect) = ui.allocate_space(size);
    // A child that takes no room of its own: an empty line is as high as one of buttons and bars.
    let builder = egui::UiBuilder::new().max_rect(rect).layout(Layout::left_to_right(Align::Center));
    contents(&mut ui.new_child(builder));
}

/// The run that the bar describes: the active one, else the one whose curves are shown.
fn shown<'a>(context: &PanelContext<'a>) -> Option<&'a RunRecord> {
    context.state.session.active().or_else(|| context.state.shown_run())
}

/// How a run stands, in a word or two, with its colour.
fn standing(run: &RunRecord, is_stopping: bool, palette: &Palette) -> (String, Color32) {
    if is_stopping {
        return (STOPS.to_owned(), palette.warn);
    }
    let text = match &run.status {
        _ if run.is_evaluating => "testing…".to_owned(),
        Status::Running if let Some((done, of)) = run.asked => format!("asks its teacher: {done} of {of}"),
        Status::Running => {
            let left = run.secs_left().map(|secs| format!("{} left", format::about_secs(secs)));
            left.unwrap_or_else(|| "begins…".to_owned())
        }
        other => other.name().to_owned(),
    };
    let color = match &run.status {
        Status::Ended(Outcome::Finished) | Status::Kept(RunState::Finished) => palette.good,
        Status::Ended(Outcome::Stopped) | Status::Kept(RunState::Stopped) | Status::Running => palette.strong(),
        Status::Kept(RunState::Running) => palette.test,
        Status::Paused | Status::Kept(RunState::Interrupted) => palette.warn,
        Status::Ended(_) | Status::Kept(RunState::Failed) | Status::KeptOverBudget => palette.bad,
    };
    (text, color)
}

/// The share of a run's time in which it waited for batches, in words.
fn waiting(run: &RunRecord) -> String {
    let Some((share, _)) = run.fed else { return String::new() };
    let percent = format!("{:.0}%", share * 100.0);
    let has_workers = Setting::of("data.workers").is_some_and(|workers| workers.is_used(run.experiment()));
    let why = match (share <= HELD_BACK, has_workers) {
        (false, _) if run.experiment().data.is_resized_on_the_fly() => {
            "images that are resized before they wait would help"
        }
        (true, _) => "they are made as quickly as it learns",
        (false, true) => "more workers, or samples that wait in memory, would help",
        (false, false) => "its steps are hardly longer than it takes to put a batch together",
    };
    format!("It waited for batches in {percent} of that time: {why}.")
}

fn progress(ui: &mut Ui, context: &PanelContext<'_>, run: &RunRecord) {
    let room = ui.available_width();
    let is_wide = room >= BESIDE_FROM;
    // A run that is over needs no spare room.
    let is_active = run.status.is_active();
    let most = widest_figures(ui, run, is_wide);
    let given = if is_active { Room::Most(most) } else { Room::Soon(most) };
    let left = |ui: &mut Ui| {
        called(ui, context.state, run, room * NAME_SHARE);
        steps(ui, run);
    };
    let is_stopping = is_active && context.state.is_stopping;
    ends(ui, ("progress", run.key, is_wide, is_active), given, left, |ui| figures(ui, run, is_stopping, is_wide));
}

/// The name of a run in at most `most` of the line, and in no more than its steps leave; if that is little, its number.
fn called(ui: &mut Ui, state: &State, run: &RunRecord, most: f32) {
    let (name, label) = (run.name(), run.label());
    let font = egui::TextStyle::Body.resolve(ui.style());
    let least = text::width(ui, &label, &font).ceil();
    let room = ui.available_width() - widest_step(ui, run) - ui.spacing().item_spacing.x;
    let room = room.min(most).max(least.min(ui.available_width() / 2.0));
    let shown = if room < least + theme::SHORTEST_TEXT {
        label
    } else {
        run.fitting_name(state.session.all(), |words| text::width(ui, words, &font) <= room)
    };
    ui.scope(|ui| {
        ui.set_max_width(room);
        text::cut_at_bottom(ui, RichText::new(shown).color(theme::palette(ui).strong()), &name);
    });
}

/// The most room that the figures of a run will take, as far as it is known when it begins.
fn widest_figures(ui: &Ui, run: &RunRecord, is_wide: bool) -> f32 {
    let body = egui::TextStyle::Body.resolve(ui.style());
    let wide = |words: &str| text::width(ui, words, &body);
    let planned = run.plan.as_ref().map_or(0.0, |plan| plan.steps_secs());
    // Digits are as wide as each other: nothing below an hour is wider than 59 minutes, nor below a day than 23 h 50 min.
    let left = format!("{} left", format::about_secs(if planned < 3600.0 { 3540.0 } else { 85_800.0 }));
    let standing = ["testing…", STOPS, "finished", "stopped", left.as_str()].map(wide).into_iter().fold(0.0, f32::max);
    let best = wide(&format::score_among(&run.experiment().data, 0.9999));
    let beside = if is_wide { vec![wide("lately 99.9 ms a step"), wide("best test")] } else { Vec::new() };
    let gaps = ui.spacing().item_spacing.x * (1 + beside.len()) as f32;
    (standing + best + beside.iter().sum::<f32>() + gaps + theme::GAP).ceil()
}

/// The state of a run, the time of its step and its score; with the words for them if the bar `is_wide`.
fn figures(ui: &mut Ui, run: &RunRecord, is_stopping: bool, is_wide: bool) {
    let palette = theme::palette(ui);
    let (standing, color) = standing(run, is_stopping, palette);
    ui.label(RichText::new(standing).color(color));
    if let Some((usual, mean)) = run.usual_step_secs().zip(run.step_secs()).filter(|_| is_wide) {
        let hover = format!(
            "Measured: the median of its last {USUAL_OF} steps, without tests. The mean of all its steps is {}. {}",
            format::secs(mean),
            waiting(run)
        );
        ui.label(RichText::new(format!("lately {} a step", format::secs(usual))).weak()).tip(hover);
    }
    if let Some(best) = run.best_accuracy {
        let hover = format!("Best {} on test data so far.", format::measure(&run.experiment().data));
        if is_wide {
            ui.label(RichText::new("best test").weak()).tip(&hover);
        }
        let best = format::score_among(&run.experiment().data, best);
        ui.label(RichText::new(best).strong().color(palette.test)).tip(hover);
    }
}

fn step_of(run: &RunRecord, step: u64) -> String {
    format!("step {} of {}", format::count(step), format::count(run.total_steps))
}

/// The room of the step that a run is at, in each of them.
fn widest_step(ui: &Ui, run: &RunRecord) -> f32 {
    text::width(ui, &step_of(run, run.total_steps), &egui::TextStyle::Body.resolve(ui.style())).ceil()
}

/// The step that a run is at, and a bar if there is room for one.
fn steps(ui: &mut Ui, run: &RunRecord) {
    let palette = theme::palette(ui);
    let done = run.last.map_or(0, |step| step.step);
    let widest = widest_step(ui, run);
    // The bar begins at the same place in every step.
    let (start, room) = (ui.cursor().left(), ui.available_width());
    ui.add(Label::new(step_of(run, done)).truncate().sense(Sense::hover()));
    ui.add_space((start + widest + theme::GAP - ui.cursor().left()).max(0.0));
    if room < widest + theme::SHORTEST_BAR {
        return;
    }
    ui.visuals_mut().extreme_bg_color = palette.trough;
    let bar = ProgressBar::new(run.progress() as f32)
        .desired_width(ui.available_width())
        .desired_height(theme::PROGRESS_HEIGHT)
        .corner_radius(3.0)
        .fill(if done > 0 { palette.accent } else { palette.trough });
    ui.add(bar).accessible_name("Progress of the run");
}
