//! The test set, leafed through: pictures with what they are and what was answered.

use eframe::egui::{self, Button, Image, RichText, Sense, Ui, Vec2, WidgetInfo, vec2};
use plimsoll_engine::{
    experiment::{DataKind, Task},
    train::{Answer, Evaluation},
};

use super::{PanelContext, bar, rows};
use crate::{
    command::Action,
    format, theme,
    trials::{Subject, TryWith},
    view::{Leaf, TryOut, View},
    widgets::tip::Tip as _,
};

/// Samples of a page.
const PAGE: usize = 12;
/// The most answers for which a bar is shown.
const BARS: usize = 3;
/// A model that finds its answer less likely is unsure.
const UNSURE: f32 = 0.6;
/// The widest bar of a class.
const MOST_BAR: f32 = 120.0;

const LEAVES: [(Leaf, &str, &str); 4] = [
    (Leaf::Wrong, "Wrong", "Answered wrong, the surest first."),
    (Leaf::Right, "Right", "Answered right, the surest first."),
    (Leaf::Unsure, "Unsure", "The answer was less than 60% likely to the model; the least likely first."),
    (Leaf::All, "All", "In the order of the test set."),
];

/// Draws the part.
pub(super) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>, evaluation: &Evaluation) {
    let Some(answers) = &evaluation.answers else { return };
    let samples = &answers.samples;
    let is_mask = evaluation.task == Task::Mask;
    // In one line if there is room: the samples have the rest.
    let (found, page) = ui
        .horizontal_wrapped(|ui| {
            filters(ui, context.view, evaluation, samples);
            let found = leaf(samples, &context.view.try_out);
            let pages = found.len().div_ceil(PAGE).max(1);
            let page = context.view.try_out.page.min(pages - 1);
            context.view.try_out.page = turned(ui, page, pages, "");
            (found, page)
        })
        .inner;
    let shown: Vec<usize> = found.iter().skip(page * PAGE).take(PAGE).copied().collect();
    // A row of a table is not a picture.
    let is_table = Subject::now(context.state).is_some_and(|tried| tried.data().kind == DataKind::Table);
    ask(context, &shown);
    if shown.is_empty() {
        ui.label(RichText::new("There are none of these.").weak());
    }
    let bar = longest_bar(ui, &evaluation.class_names);
    let (side, width) = card_size(is_mask, is_table, bar);
    let columns = ((ui.available_width() + theme::WIDE_GAP) / (width + theme::WIDE_GAP)) as usize;
    for row in shown.chunks(columns.max(1)) {
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = theme::WIDE_GAP;
            for index in row {
                card(ui, context, evaluation, *index, &samples[*index], (side, width));
            }
        });
        ui.add_space(theme::GAP);
    }
}

/// Asks for those samples that were not asked for.
pub(super) fn ask(context: &PanelContext<'_>, shown: &[usize]) {
    let missing: Vec<usize> =
        shown.iter().copied().filter(|index| !context.state.trial.asked.contains(index)).collect();
    if !missing.is_empty() {
        context.send.send(Action::Try(TryWith::Samples(missing)));
    }
}

/// Side of the picture, none of a row, and width of the card with what was answered; a mask is answered in its picture.
fn card_size(is_mask: bool, is_table: bool, bar: f32) -> (f32, f32) {
    let side = theme::SAMPLE_SIDE;
    if is_table {
        return (0.0, side * 2.4);
    }
    if is_mask { (side * 1.6, side * 1.6) } else { (side, (side + theme::GAP + bar).max(side * 2.4)) }
}

/// The width of a bar in which the longest name of a class stands whole beside its share, as far as a card may be that wide.
fn longest_bar(ui: &Ui, names: &[String]) -> f32 {
    let longest = names.iter().max_by_key(|name| name.len()).map_or("", String::as_str);
    super::bar_width(ui, longest).min(MOST_BAR)
}

/// The samples that are leafed through, in order.
fn leaf(samples: &[Answer], tried: &TryOut) -> Vec<usize> {
    let is_one = |index: &usize| {
        let answer = &samples[*index];
        let is_in = match tried.leaf {
            Leaf::All => true,
            Leaf::Right => answer.is_right(),
            Leaf::Wrong => !answer.is_right(),
            Leaf::Unsure => answer.confidence < UNSURE,
        };
        let pair = [answer.label as usize, answer.class() as usize];
        is_in && tried.taken_for.is_none_or(|wanted| wanted == pair)
    };
    let mut found: Vec<usize> = (0..samples.len()).filter(is_one).collect();
    let confidence = |index: &usize| samples[*index].confidence;
    match tried.leaf {
        Leaf::All => {}
        // Of masks, hardly any is right as a whole: the worst first.
        Leaf::Wrong if samples.iter().all(|answer| answer.likeliest().is_empty()) => {
            found.sort_by(|a, b| samples[*a].right.total_cmp(&samples[*b].right));
        }
        Leaf::Right | Leaf::Wrong => found.sort_by(|a, b| confidence(b).total_cmp(&confidence(a))),
        Leaf::Unsure => found.sort_by(|a, b| confidence(a).total_cmp(&confidence(b))),
    }
    found
}

fn filters(ui: &mut Ui, view: &mut View, evaluation: &Evaluation, samples: &[Answer]) {
    for (leaf_of, name, about) in LEAVES {
        let tried = TryOut { leaf: leaf_of, ..view.try_out.clone() };
        let count = leaf(samples, &tried).len();
        let button = Button::selectable(view.try_out.leaf == leaf_of, format!("{name} {count}"));
        if ui.add(button).tip(about).clicked() {
            (view.try_out.leaf, view.try_out.page) = (leaf_of, 0);
        }
    }
    if let Some([label, answer]) = view.try_out.taken_for {
        let names = &evaluation.class_names;
        let words = format!("{} as {} ✕", names[label], names[answer]);
        let clear = ui.button(words).tip("Only these are shown. Click to show the others as well.");
        if clear.accessible_name("Show all pairs of classes").clicked() {
            (view.try_out.taken_for, view.try_out.page) = (None, 0);
        }
    }
}

/// The buttons that turn pages, and which page it is, with `more` words; the page that is shown from here on.
pub(super) fn turned(ui: &mut Ui, page: usize, pages: usize, more: &str) -> usize {
    let mut now = page;
    for (sign, name, to, is_there) in
        [("◀", "Page before", page.saturating_sub(1), page > 0), ("▶", "Next page", page + 1, page + 1 < pages)]
    {
        if ui.add_enabled(is_there, Button::new(sign)).tip(name).accessible_name(name).clicked() {
            now = to;
        }
    }
    ui.label(RichText::new(format!("Page {} of {pages}{more}", page + 1)).small().weak());
    now
}

fn card(
    ui: &mut Ui,
    context: &PanelContext<'_>,
    evaluation: &Evaluation,
    index: usize,
    answer: &Answer,
    (side, width): (f32, f32),
) {
    let is_mask = evaluation.task == Task::Mask;
    let palette = theme::palette(ui);
    let name = |class: u32| evaluation.class_names.get(class as usize).cloned().unwrap_or_default();
    let color = if answer.is_right() { palette.good } else { palette.bad };
    let words = match (is_mask, answer.is_right()) {
        (true, _) => format!("{} right", format::share(f64::from(answer.right))),
        (false, true) => name(answer.label),
        (false, false) => format!("{} as {}", name(answer.label), name(answer.class())),
    };
    ui.vertical(|ui| {
        ui.set_width(width);
        ui.spacing_mut().item_spacing = vec2(theme::GAP, 2.0);
        ui.horizontal(|ui| {
            if side > 0.0 {
                picture(ui, context, index, &words, side);
            }
            if !is_mask {
                ui.vertical(|ui| {
                    for likely in answer.likeliest().iter().take(BARS) {
                        let is_label = likely.class == answer.label;
                        let color = if is_label { palette.good } else { palette.weak() };
                        bar(ui, &name(likely.class), likely.probability, color, ui.available_width());
                    }
                });
            }
        });
        ui.add(egui::Label::new(RichText::new(words.as_str()).small().color(color)).truncate())
            .tip(format!("Sample {index} of the test set (plimsoll try RUN --sample {index})"));
        if side == 0.0 {
            rows::fields(ui, context.state.trial.rows.get(&index).and_then(|reply| reply.row.as_ref()));
        }
    });
}

/// The picture of a sample, or its place until it is there.
fn picture(ui: &mut Ui, context: &PanelContext<'_>, index: usize, words: &str, side: f32) {
    let size = Vec2::splat(side);
    let (rect, response) = ui.allocate_exact_size(size, Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(egui::Role::Image, true, format!("Sample {index}: {words}")));
    match context.state.trial.samples.get(&index) {
        Some(drawn) => Image::from_texture(&drawn.0).fit_to_exact_size(size).paint_at(ui, rect),
        None => {
            ui.painter().rect_filled(rect, egui::CornerRadius::same(2), theme::palette(ui).trough);
        }
    }
}
