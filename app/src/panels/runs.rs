//! The kept runs: a table of all, of this session and of those before it; found by words, sorted by any column, and below it
//! the run that was picked, with its name, its note and what can be done with it.
//!
//! Always holds: only rows in sight are drawn, and nothing is read here. A click and the arrow keys pick a run and show it;
//! with Ctrl or Shift they pick several. That changes nothing of the experiment: a button loads the settings of a run, and a
//! double click, or Enter, opens it as it was.

mod columns;
mod deeds;
mod front;
mod keys;
pub(super) mod menu;
mod table;

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    mem::take,
    sync::Arc,
};

use eframe::egui::{self, Align, Button, Id, Layout, RichText, TextEdit, Ui, vec2};
use plimsoll_engine::{report::comparison, store::RunKey};

use super::PanelContext;
use crate::{
    command::{Action, RunsAction},
    runs::{self, Row},
    theme,
    view::{RunColumn, Sort, View},
    widgets::{button, chip, draft, tip::Tip as _},
};

/// The order of the rows, until the rows, the search or the sorting are others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    version: u64,
    search: String,
    sort: Sort<RunColumn>,
    order: Arc<Vec<usize>>,
    /// How wide the texts of the rows are, once they were measured.
    widths: Option<columns::Widths>,
    /// The picked runs as a search left them, and those that it took out, which come back with their rows.
    picked: Vec<RunKey>,
    hidden: Vec<RunKey>,
    /// The names that have no room, as short as they are shown, by row and width.
    short: RefCell<HashMap<(usize, u32), String>>,
}

impl Shown {
    /// The rows that are shown, in order: indices.
    fn order(&mut self, runs: &runs::Runs, search: &str, sort: Sort<RunColumn>) -> Arc<Vec<usize>> {
        if (self.version, self.search.as_str(), self.sort) != (runs.version, search, sort) {
            let order = Arc::new(runs::order(runs.rows(), search, sort));
            let (picked, hidden) = (take(&mut self.picked), take(&mut self.hidden));
            let search = search.to_owned();
            *self = Self { version: runs.version, search, sort, order, picked, hidden, ..Self::default() };
        }
        Arc::clone(&self.order)
    }

    /// Notes which runs are picked. Once others are, those that a search took out do not come back; a deletion is no pick.
    fn follow_picks(&mut self, runs: &runs::Runs) {
        self.picked.retain(|key| runs.get(key).is_some());
        if self.picked != runs.picked() {
            self.hidden.clear();
            self.picked = runs.picked().to_vec();
        }
    }

    /// The runs that stay picked with a new search, where that is a change: what is done to the picked runs is done to none
    /// that is out of sight.
    fn stays_picked(&mut self, runs: &runs::Runs) -> Option<Vec<RunKey>> {
        self.follow_picks(runs);
        let found: HashSet<&RunKey> = self.order.iter().map(|i| &runs.rows()[*i].run.key).collect();
        let all = take(&mut self.hidden).into_iter().chain(runs.picked().iter().cloned());
        (self.picked, self.hidden) = all.partition(|key| found.contains(key));
        (self.picked != runs.picked()).then(|| self.picked.clone())
    }
}

/// Draws the pane.
pub(crate) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>) {
    let runs = &context.state.runs;
    if let Some(why) = &runs.trouble {
        chip::empty(ui, &format!("Runs are not kept: {why}"));
        return;
    }
    if let Some(missing) = &runs.missing {
        ui.add(egui::Label::new(RichText::new(missing).color(theme::palette(ui).bad)).wrap());
    }
    if runs.rows().is_empty() && runs.deletions.is_empty() {
        let text = if runs.is_read {
            "Press Train: every run is kept here from its first step, for this session and all later ones."
        } else {
            "Reading the kept runs…"
        };
        chip::empty(ui, text);
        return;
    }
    let View { run_search, runs: sort, shown_runs, .. } = &mut *context.view;
    let is_new_search = shown_runs.search != *run_search;
    let order = shown_runs.order(runs, run_search, *sort);
    match is_new_search {
        true => shown_runs.stays_picked(runs).into_iter().for_each(|picked| pick(context, picked)),
        false => shown_runs.follow_picks(runs),
    }
    head(ui, context, order.len());
    // A pane without room for rows above the lines of a run is scrolled through.
    let mut area = egui::ScrollArea::vertical().id_salt("kept runs").auto_shrink(false);
    if is_first(ui, "kept runs") {
        area = area.vertical_scroll_offset(0.0);
    }
    area.show(ui, |ui| {
        let height = (ui.available_height() - front::height(ui, runs)).max(theme::LOWEST_TABLE);
        let height = table::whole_rows(height);
        let size = vec2(ui.available_width(), height);
        ui.allocate_ui_with_layout(size, Layout::top_down(Align::Min), |ui| {
            ui.set_min_size(size);
            if order.is_empty() {
                let is_searched = !context.view.run_search.trim().is_empty();
                let words = if is_searched { "No kept run has all these words." } else { "No run is kept." };
                chip::empty(ui, words);
            } else {
                table::ui(ui, context, &order);
            }
        });
        front::ui(ui, context);
        follow_focus(ui);
    });
}

/// Whether something is drawn for the first time in this session: it begins at the top then, wherever it was in the last one,
/// because the newest runs are there.
fn is_first(ui: &Ui, what: impl std::hash::Hash + std::fmt::Debug) -> bool {
    let id = Id::unique(("drawn in this session", what));
    ui.data_mut(|data| !std::mem::replace(data.get_temp_mut_or_default::<bool>(id), true))
}

/// Brings what the Tab key went to into sight. A click moves nothing: the pointer is there.
fn follow_focus(ui: &Ui) {
    let (known, now) = (Id::unique("focus among the kept runs"), ui.memory(|memory| memory.focused()));
    let before: Option<Option<Id>> = ui.data(|data| data.get_temp(known));
    ui.data_mut(|data| data.insert_temp(known, now));
    let is_pointed = ui.input(|input| input.pointer.any_down() || input.pointer.any_released());
    let is_table = now == Some(keys::id());
    if before == Some(now) || is_pointed || is_table {
        return;
    }
    let Some(response) = now.and_then(|id| ui.ctx().read_response(id)) else { return };
    // What is in sight elsewhere belongs to another part of the window.
    let seen = response.interact_rect;
    let is_elsewhere = seen.is_positive() && !ui.clip_rect().intersects(seen);
    if !is_elsewhere && ui.min_rect().contains(response.rect.center()) {
        ui.scroll_to_rect(response.rect, None);
    }
}

/// The search, how many runs it finds, and what is done with all that are picked.
fn head(ui: &mut Ui, context: &mut PanelContext<'_>, found: usize) {
    let runs = &context.state.runs;
    let (all, picked) = (runs.rows().len(), runs.picked().len());
    ui.horizontal(|ui| {
        let may_compare = (1..=comparison::MOST).contains(&picked);
        let words = if picked > 1 { format!("Compare {picked}") } else { "Compare".to_owned() };
        let button = Button::new(words);
        let room = ui.available_width() - theme::COMPARE_WIDTH - ui.spacing().item_spacing.x;
        let hint = format!("Search {}", crate::format::counted(all as u64, "run"));
        let field = TextEdit::singleline(&mut context.view.run_search).hint_text(hint).desired_width(room);
        let field = theme::bordered(ui, |ui| ui.add(field)).accessible_name("Search runs");
        draft::is_no_setting(&field);
        field.tip(format!(
            "Words of a name, a note, a tag, a device or a setting, such as precision=bf16. Runs that have them: {found} of {all}."
        ));
        let compare = button::enabled(ui, may_compare, button).accessible_name("Compare the picked runs");
        let how = format!(
            "Pick one run, to compare it with the present settings, or up to {}: Ctrl+click picks one more, Shift+click all \
             between.",
            comparison::MOST
        );
        let hover = if picked == 1 {
            "Put the run next to the present settings: what differs, and the memory of a step."
        } else {
            "Put the picked runs side by side: settings, curves, the memory of a step."
        };
        if compare.tip(hover).tip_disabled(how).clicked() {
            match runs.picked() {
                [one] => ask(context, RunsAction::CompareWithPresent(one.clone())),
                several => ask(context, RunsAction::Compare(several.to_vec())),
            }
        }
    });
}

/// Asks for something to be done with runs.
fn ask(context: &PanelContext<'_>, action: RunsAction) {
    context.send.send(Action::Runs(action));
}

/// Picks runs.
fn pick(context: &PanelContext<'_>, keys: Vec<RunKey>) {
    ask(context, RunsAction::Pick(keys));
}

/// What a row tells on hover: everything.
fn about(ui: &mut Ui, row: &Row) {
    let run = &row.run;
    ui.set_max_width(theme::TOOLTIP_WIDTH);
    ui.strong(row.name());
    let line = |ui: &mut Ui, text: String| drop(ui.label(text));
    if !run.title.is_empty() {
        line(ui, run.title.clone());
    }
    ui.label(RichText::new(format!("{}, {}", runs::when_exactly(run.started), run.status())).weak());
    if let Some(message) = &run.message {
        ui.add(egui::Label::new(RichText::new(message).color(theme::palette(ui).bad)).wrap());
    }
    if !row.differs.is_empty() {
        line(ui, format!("What sets it apart: {}", row.differs));
    }
    let measured = row.measured().map_or_else(|| "nothing yet".to_owned(), |bytes| bytes.to_string());
    line(ui, format!("peak: measured {measured}, predicted {}, budget {}", row.predicted(), run.budget));
    line(ui, format!("step {} of {}", crate::format::count(run.steps), crate::format::count(run.total_steps)));
    if let Some(secs) = run.step_secs {
        line(ui, format!("{} a step", crate::format::secs(secs)));
    }
    if let Some(best) = run.best_test_accuracy {
        line(
            ui,
            match run.learns_values() {
                true => format!("best test {}", crate::format::kept_score(run, best)),
                false => format!("best test accuracy {}", crate::format::share(best)),
            },
        );
    }
    line(ui, format!("on {}, seed {}", row.device(), run.seed));
    if !run.note.is_empty() {
        ui.add(egui::Label::new(RichText::new(&run.note).italics()).wrap());
    }
    if !run.tags.is_empty() {
        line(ui, format!("tags: {}", run.tags.join(", ")));
    }
    line(ui, format!("{} on the disk, kept as {}", run.on_disk, run.key));
    ui.label(
        RichText::new("Click to look at it, double-click to open it as it was, Ctrl+click to pick several.")
            .weak()
            .small(),
    );
}
