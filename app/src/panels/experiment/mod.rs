//! The experiment: every choice, in groups. Only settings that matter for the chosen kinds are shown.

mod adapters;
mod controls;
mod data;
mod description;
mod distil;
mod host;
mod length;
mod low_rank;
mod offered;
mod order;
mod path;
mod problems;
mod rows;
mod table;
mod trained;

use std::{cell::Cell, path::PathBuf};

use eframe::egui::{self, CollapsingHeader, Rect, RichText, ScrollArea, Ui};
use plimsoll_engine::experiment::{BlockSet, Checkpointing, check, preset};

pub(super) use self::controls::{model_words, source_words};
pub(crate) use self::{
    controls::{family, family_of, optimizer_of, optimizer_words},
    order::{names_for_family, names_of_settings, settings_in_order},
};
use self::{path::PathRow, rows::Row};
use super::{PanelContext, pane::Pane};
use crate::{
    command::Action,
    format,
    layout::paging,
    naming::listed,
    passes, runs, theme,
    widgets::{
        control::{Form, Spec, follow, name_width},
        covered, text,
    },
};

/// Draws the pane.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    problems::below(ui, context, |ui| settings(ui, context));
}

/// The settings, in an area that scrolls.
fn settings(ui: &mut Ui, context: &PanelContext<'_>) {
    let area = from_the_top(ui, context.state.opened).show(ui, |ui| {
        // Room for the scroll bar, which floats.
        ui.set_width(ui.available_width() - theme::GAP);
        let covered = covered::measure(ui);
        let form = Form::new(context.state, context.send);
        let grown = description::shown(ui, context);
        // The card is drawn next to the heading; the Tab key reaches the heading first.
        let (line, is_open) = (ui.cursor(), Cell::new(false));
        group(ui, "Memory", |ui| {
            is_open.set(true);
            offered::card(ui, line, &form, context);
            rows::ui(ui, &form, context, controls::MEMORY);
        });
        if !is_open.get() {
            offered::card(ui, line, &form, context);
        }
        more(ui, &form, context, "More about memory", controls::MEMORY_REST);
        if !form.experiment().is_on_cpu() {
            group(ui, "GPU", |ui| rows::ui(ui, &form, context, controls::GPU));
        }
        group(ui, "Model", |ui| {
            model(ui, &form, context);
            let kind = form.experiment().model.kind;
            let offered = Some(("Runs to take the weights of", runs_that(context, |row| row.is_of(kind))));
            let row = PathRow { spec: WEIGHTS, hint: "random", browse: Action::BrowseWeights, offered };
            path::ui(ui, &form, context, row, |experiment| &mut experiment.weights.path);
        });
        more(ui, &form, context, "Trained parameters", controls::TRAINED);
        more(ui, &form, context, "Low rank", controls::RANKS);
        more(ui, &form, context, "Pruning", controls::PRUNING);
        more(ui, &form, context, "Integers", controls::INTEGERS);
        more(ui, &form, context, "Distillation", controls::DISTILLATION);
        group(ui, "Data", |ui| data::ui(ui, &form, context));
        more(ui, &form, context, "More about the data", controls::DATA_REST);
        group(ui, "Optimizer", |ui| rows::ui(ui, &form, context, controls::RULE));
        more(ui, &form, context, "More about the optimizer", controls::RULE_REST);
        group(ui, "Run", |ui| rows::ui(ui, &form, context, controls::RUN));
        group(ui, "Title and description", |ui| description::edited(ui, &form));
        uncover(ui, covered, form.first_problem());
        paging::begin(ui, Pane::Experiment);
        grown
    });
    let offset = area.state.clamped_offset().y;
    if area.inner != 0.0 && offset > 0.0 {
        // The rows in sight stay where they are.
        ui.data_mut(|data| data.insert_temp(ui.scope_id().with("offset"), (offset + area.inner).max(0.0)));
        passes::again(ui.ctx(), "the description has another height");
    }
}

/// Room to scroll covered rows out from below a notice. When a notice or a problem comes, the control that has the focus is
/// brought out, or else the row of the first `problem` if it was in sight.
fn uncover(ui: &mut Ui, covered: f32, problem: Option<Rect>) {
    let id = ui.scope_id().with("covered");
    let before: f32 = ui.data(|data| data.get_temp(id)).unwrap_or_default();
    let now = covered + problems::taken(ui);
    ui.data_mut(|data| data.insert_temp(id, now));
    let pane = ui.min_rect();
    ui.add_space(covered);
    let focused = ui.memory(|memory| memory.focused()).and_then(|id| ui.ctx().read_response(id));
    let focused = focused.map(|focused| focused.rect).filter(|rect| pane.contains_rect(*rect));
    // A row that was not in sight before does not come into it: the rows in sight stay where they are.
    let was_seen = ui.clip_rect().with_max_y(ui.clip_rect().bottom() + now - before);
    let problem = problem.filter(|row| was_seen.y_range().contains(row.bottom()));
    if let Some(rect) = focused.or(problem).filter(|_| now > before) {
        ui.scroll_to_rect(covered::clear(ui.ctx(), rect), None);
    }
}

/// The latest kept runs that `suit` and whose weights are there, by their names.
fn runs_that(context: &PanelContext<'_>, suit: impl Fn(&runs::Row) -> bool) -> Vec<(String, PathBuf)> {
    const OFFERED: usize = 12;
    let is_one = |row: &&runs::Row| row.saved.is_some() && suit(row);
    let mut found: Vec<&runs::Row> = context.state.runs.rows().iter().filter(is_one).collect();
    found.sort_by_key(|row| std::cmp::Reverse(row.run.started));
    found.truncate(OFFERED);
    let named = |row: &runs::Row| format!("{}, {}", row.name(), runs::when(row.run.started));
    found.into_iter().filter_map(|row| Some((named(row), row.saved.clone()?))).collect()
}

fn group(ui: &mut Ui, name: &str, contents: impl FnOnce(&mut Ui)) {
    let open = name != "Title and description";
    let title = RichText::new(name).strong();
    let header = CollapsingHeader::new(title).id_salt(name).default_open(open).show_unindented(ui, |ui| {
        contents(ui);
        ui.add_space(theme::GAP);
    });
    follow(&header.header_response);
}

/// Settings that the heading of a folded group names.
const NAMED: usize = 2;

/// Settings that few change, folded away. Closed, the heading names those that are not at their default; one that stands in
/// the way of a plan opens it.
fn more(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>, name: &str, rows: &[Row]) {
    let keys: Vec<&str> = rows::specs(rows).iter().map(|spec| spec.key).collect();
    let set = rows::named(rows).into_iter().filter(|spec| form.is_set(ui, spec.key));
    // The choice of a kind is what the group is about, and its name would repeat the group's.
    let said = |spec: Spec| if spec.key.ends_with(".kind") { "on".to_owned() } else { format::small(spec.name) };
    let set: Vec<String> = set.map(said).collect();
    let title = heading(ui, name, &set);
    let open = form.has_problem(&keys).then_some(true);
    let header = CollapsingHeader::new(RichText::new(title).color(theme::palette(ui).weak())).id_salt(name).open(open);
    let header = header.show_unindented(ui, |ui| {
        rows::ui(ui, form, context, rows);
        ui.add_space(theme::GAP);
    });
    follow(&header.header_response);
}

/// A heading with as many of `set` as have room: a longer one would widen the pane's rows beyond the visible part.
fn heading(ui: &Ui, name: &str, set: &[String]) -> String {
    let font = egui::TextStyle::Button.resolve(ui.style());
    // The sign before it, and the space around both.
    let room = ui.available_width() - ui.spacing().indent - 2.0 * ui.spacing().button_padding.x;
    let naming = |most: usize| match (set.len(), most) {
        (0, _) => name.to_owned(),
        (count, 0) => format!("{name}: {}", format::counted(count as u64, "setting")),
        _ => format!("{name}: {}", listed(set, most)),
    };
    let fits = |title: &String| text::width(ui, title, &font) <= room;
    (0..=NAMED).rev().map(naming).find(fits).unwrap_or_else(|| name.to_owned())
}

/// Samples of an update that have room where the usual ones stand.
const USUAL_MOST: u64 = 8_888;

/// Always there, and at one place, so that nothing moves while the accumulation is dragged.
fn samples_an_update(ui: &mut Ui, form: &Form<'_>) {
    let batch = &form.experiment().batch;
    let samples = batch.micro.saturating_mul(batch.accumulation);
    let words = |samples| format!("{} an update", format::counted(samples, "sample"));
    figures(ui, &[words(samples as u64)], &words(USUAL_MOST));
}

const WEIGHTS: Spec = Spec {
    key: "weights.path",
    name: "Weights",
    help: "The weights that the model begins with: a folder with model.safetensors, or a .safetensors file, with the names \
            of transformers, timm or torchvision, or of a run of this program. Nothing is downloaded. If empty, the \
            weights are drawn at random. Loading takes no memory in addition to the weights, and a run that goes on from a \
            checkpoint does not need them any more.",
};

const PICKED: Spec = Spec {
    key: "checkpointing",
    name: "Blocks",
    help: "The blocks that the backward pass recomputes: only their inputs are kept, not the activations inside. Each \
            costs the time of its forward pass once more.",
};

/// A box for every block, where blocks are picked.
fn picked(ui: &mut Ui, form: &Form<'_>) {
    let Checkpointing::Pick(set) = form.experiment().checkpointing else { return };
    let blocks = form.experiment().model.blocks().min(BlockSet::MOST);
    let hover = form.row(ui, PICKED, |ui| {
        ui.horizontal_wrapped(|ui| {
            for number in 1..=blocks {
                let mut is_in = set.contains(number);
                let name = format!("Recompute block {number}");
                let check = ui.checkbox(&mut is_in, number.to_string()).accessible_name(&name);
                follow(&check);
                if check.changed() {
                    form.edit(PICKED.key, |experiment| {
                        let mut changed = set;
                        changed.set(number, is_in);
                        experiment.checkpointing = Checkpointing::Pick(changed);
                    });
                }
            }
        });
    });
    form.help(&hover, PICKED, Vec::new);
}

fn model(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>) {
    form.choice(ui, controls::MODEL.0, &controls::MODEL.1);
    let model = &form.experiment().model;
    if let Some((spec, sizes)) = controls::published(model.kind) {
        form.choice(ui, spec, sizes);
    }
    model.kind.traits().settings.iter().for_each(|setting| controls::model_row(*setting).ui(ui, form, context));
}

/// The area that scrolls: from its top whenever another document was opened, so that its description is seen; and otherwise
/// from its kept place.
fn from_the_top(ui: &Ui, opened: u64) -> ScrollArea {
    let area = ScrollArea::vertical().auto_shrink(false);
    let id = ui.scope_id().with("opened");
    if ui.data(|data| data.get_temp(id)) == Some(opened) {
        let offset: Option<f32> = ui.data_mut(|data| data.remove_temp(ui.scope_id().with("offset")));
        return match offset {
            Some(offset) => area.vertical_scroll_offset(offset),
            None => area,
        };
    }
    ui.data_mut(|data| data.insert_temp(id, opened));
    area.vertical_scroll_offset(0.0)
}

/// A hint about a choice of the control `key` that was probably not meant, and a button that mends it.
fn hint(ui: &mut Ui, form: &Form<'_>, key: &'static str) {
    let hints = check::hints(form.experiment(), None).into_iter().filter(|hint| hint.problem.key == key);
    for hint in hints {
        let text = RichText::new(format::in_groups(&hint.problem.message)).color(theme::palette(ui).warn).small();
        ui.add(egui::Label::new(text).wrap());
        let value = hint.change.split('=').next_back().unwrap_or_default();
        let mend = ui.button(format!("Use {value}"));
        follow(&mend);
        if mend.clicked() {
            form.edit(key, |experiment| {
                // The engine's tests hold every hint's change to be one.
                let _ = preset::set(experiment, hint.change);
            });
        }
    }
}

/// A figure that follows from the controls above it: under their editors if it has room, else in the whole width.
pub(super) fn fact(ui: &mut Ui, text: &str) {
    facts(ui, std::iter::once(text.to_owned()));
}

/// Several such figures, with one left edge: under the editors where all have room there.
pub(super) fn facts(ui: &mut Ui, lines: impl Iterator<Item = String>) {
    figures(ui, &lines.collect::<Vec<_>>(), "");
}

/// Such figures; where `widest` has room, there they are.
fn figures(ui: &mut Ui, lines: &[String], widest: &str) {
    let indent = name_width(ui) + theme::GAP;
    let (room, font) = (ui.available_width() - indent, egui::TextStyle::Small.resolve(ui.style()));
    let have_room = lines.iter().map(String::as_str).chain([widest]).all(|line| text::width(ui, line, &font) <= room);
    for line in lines {
        ui.horizontal(|ui| {
            if have_room {
                ui.add_space(indent);
            }
            ui.add(egui::Label::new(RichText::new(line).weak().small()).wrap());
        });
    }
}
