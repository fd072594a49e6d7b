//! The table: as many columns as the pane has room for, and only the rows in sight.

use eframe::egui::{
    Align, Context, Id, Label, Layout, Modifiers, Response, RichText, Role, Sense, TextStyle, Ui, UiBuilder,
    WidgetInfo, vec2,
};
use egui_extras::{Column, TableRow};
use plimsoll_engine::store::{RunKey, RunState};

use super::{
    PanelContext, about, ask,
    columns::{BETWEEN, Named, Widths, columns, numbered, told_once},
    front, is_first, keys, menu, pick,
};
use crate::{
    command::RunsAction,
    format,
    runs::{self, Row, Runs},
    theme,
    view::{self, RunColumn},
    widgets::{
        table, text,
        tip::{self, Speaks, Tip as _},
    },
};

/// A height in which the last row that is seen at first is whole, at most `height`.
pub(super) fn whole_rows(height: f32) -> f32 {
    // The heading is one of them, and rows stand without a gap: they are told apart by their stripes.
    (height / theme::RUN_ROW).floor() * theme::RUN_ROW
}

/// Draws it.
pub(super) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>, order: &[usize]) {
    let state = context.state;
    let runs = &state.runs;
    let at = keys::ui(ui, context, order).or_else(|| lost(ui, runs, order));
    let widths = *context.view.shown_runs.widths.get_or_insert_with(|| Widths::of(ui, context.state, order));
    let columns = columns(ui, widths);
    let title = told_once(&columns, widths).map(|i| state.runs.rows()[i].run.title.as_str());
    let sort = &mut context.view.runs;
    ui.spacing_mut().item_spacing = vec2(BETWEEN, 0.0);
    let salt = ("runs", columns.len());
    let is_first = is_first(ui, salt);
    let mut table = table::filling(ui, salt).sense(Sense::CLICK).cell_layout(Layout::right_to_left(Align::Center));
    for (_, width) in &columns {
        table = table.column(Column::exact(*width).clip(true));
    }
    if is_first {
        table = table.vertical_scroll_offset(0.0);
    }
    if let Some(at) = at {
        // At once: a way that is measured anew on the way goes too far.
        table = table.scroll_to_row(at, None).animate_scrolling(false);
    }
    let table = table.header(theme::RUN_ROW, |mut header| {
        for ((column, name, about), width) in &columns {
            header.col(|ui| {
                let of = title
                    .filter(|_| *column == RunColumn::Name)
                    .map(|title| table::heading_of(ui, name, title, *width));
                let shown = of.as_deref().unwrap_or(name);
                let about = match title.filter(|_| of.is_some()) {
                    Some(title) => format!("{about} Each is a run of {title}"),
                    None => (*about).to_owned(),
                };
                let has_words =
                    matches!(column, RunColumn::Name | RunColumn::Details | RunColumn::State | RunColumn::Device);
                let layout = if has_words { Layout::left_to_right(Align::Center) } else { *ui.layout() };
                ui.with_layout(layout, |ui| {
                    table::heading_as(ui, (sort, view::RUNS), *column, (name, shown, &about), has_words);
                });
            });
        }
    });
    let context = &*context;
    table.body(|body| {
        body.rows(theme::RUN_ROW, order.len(), |mut row| {
            let index = row.index();
            let shown = &runs.rows()[order[index]];
            cells(&mut row, context, (order, index), &columns);
            let response = row.response();
            clicks(&response, context, order, index);
            let is_front = runs.front().is_some_and(|front| front.run.key == shown.run.key);
            if is_front {
                keys::front_is_at(&response.ctx, response.rect);
            }
            if is_front && tip::rests_on(&response.ctx, keys::id()) {
                tip::show(tip::speaking(&response, Speaks::Beside), |ui| about(ui, shown));
            } else {
                tip::show(tip::beside(&response), |ui| about(ui, shown));
            }
        });
    });
    menu::ui(ui, keys::menu(), |ui, (key, picked): &(RunKey, Vec<RunKey>)| match runs.get(key) {
        Some(row) => menu::entries(ui, context, row, picked, front::name_field(key)),
        // Another program deleted it.
        None => ui.close(),
    });
}

/// A row of an order.
type Of<'a> = (&'a [usize], usize);

/// The cells of a run's row.
fn cells(row: &mut TableRow<'_, '_>, context: &PanelContext<'_>, of: Of<'_>, columns: &[(Named, f32)]) {
    let (order, index) = of;
    let shown = &context.state.runs.rows()[order[index]];
    let is_picked = context.state.runs.picked().contains(&shown.run.key);
    row.set_selected(is_picked);
    let has_details = columns.iter().any(|((column, ..), _)| *column == RunColumn::Details);
    let has_star = columns.iter().any(|((column, ..), _)| *column == RunColumn::Star);
    // Where its name leaves nothing out, it has the room of both.
    let flows = has_details && shown.in_table.is_empty();
    let mut from = 0.0;
    for ((column, ..), _) in columns {
        let (_, cell) = row.col(|ui| {
            if is_picked {
                // Every colour of text stands out from the pane, and not from what is selected.
                ui.visuals_mut().override_text_color = Some(theme::palette(ui).strong());
            }
            match column {
                RunColumn::Name if flows => from = numbered_alone(ui, shown, is_picked),
                RunColumn::Details if flows => flowing(ui, context, of, from),
                RunColumn::Name => named(ui, context, of, (is_picked, has_star)),
                _ => cell(ui, context, shown, *column, is_picked),
            }
        });
        if *column == RunColumn::Name {
            // For a screen reader the row is the cell with its name.
            cell.widget_info(|| WidgetInfo::selected(Role::Button, true, is_picked, spoken(shown)));
        }
    }
}

/// What a click on a row does: one picks it, two open the run, the right button opens the menu.
fn clicks(response: &Response, context: &PanelContext<'_>, order: &[usize], index: usize) {
    let runs = &context.state.runs;
    let key = &runs.rows()[order[index]].run.key;
    if response.clicked() || response.container_secondary_clicked() {
        stays(&response.ctx);
    }
    if response.double_clicked() {
        ask(context, RunsAction::Open(key.clone()));
    } else if response.clicked() {
        let modifiers = response.ctx.input(|input| input.modifiers);
        clicked(context, order, index, modifiers);
        keys::ask_for_focus(&response.ctx);
    }
    if response.container_secondary_clicked() {
        let picked = if runs.picked().contains(key) { runs.picked().to_vec() } else { vec![key.clone()] };
        pick(context, picked.iter().filter(|one| *one != key).chain([key]).cloned().collect());
        keys::ask_for_focus(&response.ctx);
        menu::open(&response.ctx, keys::menu(), (key.clone(), picked));
    }
}

/// Notes that the pointer picks a row: it is in sight, and nothing moves under the pointer.
fn stays(ctx: &Context) {
    // Before the data are locked: they and the frame have one lock.
    let frame = ctx.cumulative_frame_nr();
    ctx.data_mut(|data| data.insert_temp(Id::unique("kept run picked by the pointer"), frame));
}

/// Whether the pointer picked a row a moment ago.
fn is_pointed(ui: &Ui, frame: u64) -> bool {
    let picked: Option<u64> = ui.data(|data| data.get_temp(Id::unique("kept run picked by the pointer")));
    picked.is_some_and(|picked| frame <= picked + SEEKING)
}

/// The row of the run that was picked last, where it is another than before, or the table has another height: it may be out of
/// sight.
fn lost(ui: &Ui, runs: &Runs, order: &[usize]) -> Option<usize> {
    let front = runs.front();
    let (id, frame) = (Id::unique("kept run in sight"), ui.ctx().cumulative_frame_nr());
    let now = (ui.available_height().round(), front.map(|row| row.run.key.clone()));
    let before: Option<(Sought, u64)> = ui.data(|data| data.get_temp(id));
    // Long ago, where nothing is to be sought.
    let begun = if is_pointed(ui, frame) { 0 } else { frame };
    let since = before.filter(|(sought, _)| *sought == now).map_or(begun, |(_, since)| since);
    ui.data_mut(|data| data.insert_temp(id, (now, since)));
    // The rows may be laid out anew in the frames after it, with what is read of the run.
    let front = front.filter(|_| since > 0 && frame < since + SEEKING)?;
    ui.ctx().request_repaint();
    order.iter().position(|i| runs.rows()[*i].run.key == front.run.key)
}

/// In what height which run is to be seen.
type Sought = (f32, Option<RunKey>);
/// Frames in which its row is brought into sight.
const SEEKING: u64 = 4;

/// A click or a key picks a row; with Ctrl one more or one less, with Shift all from the one picked last.
pub(super) fn clicked(context: &PanelContext<'_>, order: &[usize], index: usize, modifiers: Modifiers) {
    let runs = &context.state.runs;
    let key = |at: usize| runs.rows()[order[at]].run.key.clone();
    let mut picked = runs.picked().to_vec();
    if modifiers.shift && !picked.is_empty() {
        let last = picked.last().and_then(|last| order.iter().position(|i| runs.rows()[*i].run.key == *last));
        let anchor = last.unwrap_or(index);
        let between: Vec<RunKey> = if anchor <= index {
            (anchor..=index).map(key).collect()
        } else {
            (index..=anchor).rev().map(key).collect()
        };
        picked.retain(|known| !between.contains(known));
        picked.extend(between);
    } else if modifiers.command {
        let key = key(index);
        let before = picked.len();
        picked.retain(|known| *known != key);
        if picked.len() == before {
            picked.push(key);
        }
    } else {
        picked = vec![key(index)];
    }
    pick(context, picked);
}

fn cell(ui: &mut Ui, context: &PanelContext<'_>, row: &Row, column: RunColumn, is_picked: bool) {
    let run = &row.run;
    let palette = theme::palette(ui);
    let colored = |text: &str, color| RichText::new(text).color(if is_picked { palette.strong() } else { color });
    match column {
        RunColumn::Star => star(ui, context, row, is_picked),
        // It is told from the rows around it, so it is drawn with them.
        RunColumn::Name => {}
        RunColumn::Details if row.in_table.is_empty() => {}
        RunColumn::Details => {
            let color = if is_picked { palette.strong() } else { palette.weak() };
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                // Its title comes first: its name does not say what its settings are the settings of. The row has the whole
                // on hover.
                let (font, room) = (TextStyle::Body.resolve(ui.style()), ui.available_width());
                let short = text::shortened(&row.in_table, |words| text::width(ui, words, &font) <= room);
                let label = Label::new(RichText::new(short).color(color)).truncate();
                let label = ui.add(label.show_tooltip_when_elided(false).sense(Sense::hover()));
                label.widget_info(|| WidgetInfo::labeled(Role::Label, true, &row.in_table));
            });
        }
        RunColumn::Started => drop(table::text(ui, &runs::when_among(run.started, row.to_the_second))),
        RunColumn::State => left(ui, colored(run.status(), color(ui, run.state))),
        RunColumn::Device => left(ui, RichText::new(row.device())),
        RunColumn::Measured => match row.measured() {
            Some(bytes) => table::bytes(ui, bytes),
            None => table::nothing(ui),
        },
        RunColumn::Predicted => table::bytes(ui, row.predicted()),
        RunColumn::Accuracy => figure(ui, run.best_test_accuracy.map(|best| format::kept_score(run, best))),
        RunColumn::Step => figure(ui, run.step_secs.map(format::secs)),
    }
}

/// The colour of a state.
pub(super) fn color(ui: &Ui, state: RunState) -> eframe::egui::Color32 {
    let palette = theme::palette(ui);
    match state {
        RunState::Running => palette.test,
        RunState::Finished => palette.good,
        RunState::Stopped => palette.strong(),
        RunState::Failed => palette.bad,
        RunState::Interrupted => palette.warn,
    }
}

/// What a screen reader says of a row: its name with what that leaves out, and its state where that is another than finished.
fn spoken(row: &Row) -> String {
    let state = Some(row.run.status()).filter(|_| row.run.state != RunState::Finished);
    std::iter::once(row.whole_name().as_str()).chain(state).collect::<Vec<_>>().join(", ")
}

/// The sign of a state other than finished.
pub(super) fn mark(state: RunState) -> Option<&'static str> {
    match state {
        RunState::Finished => None,
        RunState::Running => Some("▶"),
        RunState::Stopped => Some("⏹"),
        RunState::Failed => Some("✖"),
        RunState::Interrupted => Some("⚠"),
    }
}

/// The number after the sign of the state; answers where the name begins, which goes on into the next cell.
fn numbered_alone(ui: &mut Ui, row: &Row, is_picked: bool) -> f32 {
    ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
        signed(ui, row, is_picked);
        ui.cursor().left()
    })
    .inner
}

/// The name, from where it begins in the cell before this one.
fn flowing(ui: &mut Ui, context: &PanelContext<'_>, of: Of<'_>, from: f32) {
    let rect = ui.max_rect().with_min_x(from);
    let builder = UiBuilder::new().max_rect(rect).layout(Layout::left_to_right(Align::Center));
    let mut ui = ui.new_child(builder);
    // Both cells are one here.
    ui.set_clip_rect(ui.clip_rect().with_min_x(from));
    worded(&mut ui, context, of);
}

/// The name after the number. Where it has no room, one of settings keeps what tells it from the other rows; any other loses
/// its middle. The row shows the whole text on hover.
fn worded(ui: &mut Ui, context: &PanelContext<'_>, (order, index): Of<'_>) {
    let rows = context.state.runs.rows();
    let row = &rows[order[index]];
    let (font, room) = (TextStyle::Body.resolve(ui.style()), ui.available_width());
    let fits = |words: &str| text::width(ui, words, &font) <= room;
    let whole = row.short_name();
    let short = if fits(whole) {
        whole.to_owned()
    } else if row.is_called_by_settings() {
        let mut known = context.view.shown_runs.short.borrow_mut();
        let told = || row.fitting_settings(order.iter().map(|i| &rows[*i]), fits);
        known.entry((index, room.to_bits())).or_insert_with(told).clone()
    } else {
        text::shortened(whole, fits)
    };
    let label = Label::new(short).truncate().show_tooltip_when_elided(false).sense(Sense::hover());
    ui.add(label).widget_info(|| WidgetInfo::labeled(Role::Label, true, whole));
}

/// The sign of the state, and the number.
fn signed(ui: &mut Ui, row: &Row, is_picked: bool) {
    ui.spacing_mut().item_spacing.x = BETWEEN / 2.0;
    if let Some(sign) = mark(row.run.state) {
        let color = if is_picked { theme::palette(ui).strong() } else { color(ui, row.run.state) };
        let sign = ui.add(Label::new(RichText::new(sign).color(color)).sense(Sense::hover()));
        sign.widget_info(|| WidgetInfo::labeled(Role::Label, true, row.run.status()));
    }
    ui.add(Label::new(numbered(row.run.number)).truncate().show_tooltip_when_elided(false).sense(Sense::hover()));
}

/// The number and the name, after the sign of its state, which the row tells on hover, and a star that has no column.
fn named(ui: &mut Ui, context: &PanelContext<'_>, of: Of<'_>, (is_picked, has_star): (bool, bool)) {
    ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
        let row = &context.state.runs.rows()[of.0[of.1]];
        if row.run.is_starred && !has_star {
            let palette = theme::palette(ui);
            let color = if is_picked { palette.strong() } else { palette.warn };
            let star = ui.add(Label::new(RichText::new("★").color(color)).sense(Sense::hover()));
            star.widget_info(|| WidgetInfo::labeled(Role::Label, true, "starred"));
        }
        signed(ui, row, is_picked);
        worded(ui, context, of);
    });
}

fn figure(ui: &mut Ui, text: Option<String>) {
    match text {
        Some(text) => drop(table::text(ui, &text)),
        None => table::nothing(ui),
    }
}

/// A text from the left, cut where it has no room: the row shows the whole text on hover.
fn left(ui: &mut Ui, text: RichText) {
    if text.is_empty() {
        return;
    }
    ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
        ui.add(Label::new(text).truncate().show_tooltip_when_elided(false).sense(Sense::hover()));
    });
}

/// The star, which a click gives or takes.
fn star(ui: &mut Ui, context: &PanelContext<'_>, row: &Row, is_picked: bool) {
    let palette = theme::palette(ui);
    let is_starred = row.run.is_starred;
    let (sign, color) = if is_starred { ("★", palette.warn) } else { ("☆", palette.weak()) };
    let color = if is_picked { palette.strong() } else { color };
    let name = format!("{} {}", if is_starred { "Take the star of" } else { "Star" }, row.name());
    // Not a stop of the Tab key: the star of the picked run is one, below the table.
    let star = ui.add(Label::new(RichText::new(sign).color(color)).sense(Sense::CLICK));
    star.widget_info(|| WidgetInfo::selected(Role::Button, true, is_starred, &name));
    if star.tip(name.clone()).clicked() {
        ask(context, RunsAction::Star(vec![row.run.key.clone()], !is_starred));
    }
}
