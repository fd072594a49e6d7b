//! The group of the data: the source, and the settings that it needs.

use eframe::egui::Ui;
use plimsoll_engine::{
    Experiment,
    experiment::{DataKind, DataSetting, PathUse, Placement},
};

use super::{PanelContext, controls, fact, facts, host, path, path::PathRow};
use crate::{
    command::Action,
    samples,
    widgets::control::{Form, Spec},
};

const FOLDER: Spec = Spec {
    key: "data.path",
    name: "Folder",
    help: "The folder with the files of the data set; nothing is downloaded. The samples are held in host memory, outside the \
            budget, and reading them takes time only at the start of a run.",
};

pub(super) const FILE: Spec = Spec {
    key: "data.path",
    name: "File",
    help: "The text to learn; nothing is downloaded. With a tokenizer it is text in UTF-8; without one any file will do, \
            whose bytes are the tokens. The text is held in host memory, outside the budget, or streamed, however large it \
            is.",
};

const LINES: Spec = Spec {
    key: "data.path",
    name: "File",
    help: "A file of JSON lines, or a folder of them and of .txt files; nothing is downloaded. Each line is looked at once \
            before a run, and read again when its turn comes. The file is held in host memory, outside the budget, or \
            streamed.",
};

const TABLE: Spec = Spec {
    key: "data.path",
    name: "File",
    help: "A file of comma-separated values with a line of names; nothing is downloaded. It is read once, and its columns \
            are held as numbers in host memory, outside the budget: four bytes for each number, so a step takes the same \
            memory however many rows there are.",
};

pub(super) const CACHE_FOLDER: Spec = Spec {
    key: "data.cache_folder",
    name: "Cache folder",
    help: "The folder for the file of kept samples, or of a teacher's answers. If empty, the program's cache folder. A quick disk \
            with room saves time; the memory stays the same.",
};

pub(super) const TOKENIZER: Spec = Spec {
    key: "data.tokenizer",
    name: "Tokenizer",
    help: "A tokenizer.json, or a folder with one, as published models have it: text then becomes the model's own tokens. \
            If empty, the tokenizer in the folder of the weights; without one, bytes are the tokens. The more tokens it \
            has, the larger are the embedding and the logits. The loader's thread cuts the text while the model trains.",
};

/// Draws the group.
pub(super) fn ui(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>) {
    form.choice(ui, controls::DATA.0, &controls::DATA.1);
    let source = form.experiment().data.kind.traits();
    if let Some(PathUse { is_file, holds, .. }) = source.path {
        let spec = match (is_file, form.experiment().data.kind) {
            (true, DataKind::Jsonl) => LINES,
            (true, DataKind::Table) => TABLE,
            (true, _) => FILE,
            (false, _) => FOLDER,
        };
        // Short enough for the field of a narrow pane.
        let hint = if is_file { "a file" } else { "a folder" };
        let row = PathRow { spec, hint, browse: Action::BrowseData, offered: None };
        path::ui(ui, form, context, row, |experiment| &mut experiment.data.path);
        fact(ui, holds);
    }
    let row = |setting: &DataSetting| controls::source_row(*setting, &form.experiment().data);
    source.settings.iter().map(row).for_each(|row| row.ui(ui, form, context));
    if let Some(plan) = context.state.newest_plan() {
        let data = plan.resolved.data();
        let table = data.table_facts().into_iter().flat_map(samples::table_lines);
        let texts = data.text_facts().into_iter().flat_map(samples::lines);
        facts(ui, plan.resolved.notes().into_iter().chain(table).chain(texts));
        host::ui(ui, plan, context.state.shown_run());
    }
}

/// Draws the cache of streamed images. An impossible choice stays in sight, so that it can be mended.
pub(super) fn kept(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>) {
    let data = &form.experiment().data;
    let is_streamed = data.kind.can_keep() && data.placement == Placement::Streamed;
    if !is_streamed && data.cache.is_none() {
        return;
    }
    form.choice(ui, controls::CACHE.0, &controls::CACHE.1);
    if !is_streamed || data.cache.is_none() {
        return;
    }
    if data.cache.copies().is_some() {
        form.number(ui, controls::COPIES.0, controls::COPIES.1);
    }
    kept_at(ui, form, context);
}

/// Draws where a teacher's answers are kept, if they are. Samples that are kept share the setting and draw it themselves.
pub(super) fn answers_place(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>) {
    let Experiment { data, distil, .. } = form.experiment();
    let are_samples_kept = data.kind.can_keep() && data.placement == Placement::Streamed && !data.cache.is_none();
    if distil.is_asked_before() && !are_samples_kept {
        kept_at(ui, form, context);
    }
}

fn kept_at(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>) {
    form.choice(ui, controls::CACHE_PLACE.0, &controls::CACHE_PLACE.1);
    if form.experiment().keeps_on_disk() {
        let row = PathRow { spec: CACHE_FOLDER, hint: "default", browse: Action::BrowseCache, offered: None };
        path::ui(ui, form, context, row, |experiment| &mut experiment.data.cache_folder);
    }
}

/// Draws the tokenizer's row.
pub(super) fn tokenizer(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>) {
    let row = PathRow { spec: TOKENIZER, hint: "as weights", browse: Action::BrowseTokenizer, offered: None };
    path::ui(ui, form, context, row, |experiment| &mut experiment.data.tokenizer);
}
