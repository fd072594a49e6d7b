//! The budget bar: the predicted peak by category against the budget, the verdict in words, the difference to the pin, and
//! other configurations that would fit. Beside it is the bar of host memory.
//!
//! Always holds: it has one height, with any text.

use eframe::egui::{
    self, Button, CornerRadius, FontId, Label, Rect, RichText, Sense, Stroke, Ui, UiBuilder, Vec2, pos2, vec2,
};

use plimsoll_engine::{
    Bytes,
    memory::{Categories, Category},
    plan::Plan,
};

use super::{PanelContext, host_bar, legend, offers};
use crate::{
    command::UiCommand,
    format,
    limit::{Limit, verdict_words},
    naming, peak,
    planner::Obstacle,
    theme::{self, Palette},
    widgets::{
        button, chip,
        ends::{Room, ends},
        stack::{self, Segment},
        text,
        tip::Tip as _,
    },
};

/// Around the words on the chip of the budget.
const CHIP_MARGIN: Vec2 = vec2(5.0, 2.0);
/// How much is left of the colour of what the budget does not count.
const UNCOUNTED: f32 = 0.4;
/// Why it may lie past the line.
pub(super) const UNCOUNTED_WORDS: &str = "On the processor the budget does not count it.";
/// Lines of the legend: it may wrap without moving the rows below.
const LEGEND_LINES: usize = 2;

/// Draws the bar.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    let legend_lines = if ui.ctx().content_rect().height() < theme::LOW_WINDOW { 1 } else { LEGEND_LINES };
    let legend_height = theme::LEGEND_LINE * legend_lines as f32;
    ui.set_height(theme::LINE_HEIGHT + legend_height);
    let Some(plan) = context.state.newest_plan() else {
        let words = match &context.state.prediction.obstacle {
            Some(Obstacle::Problems(problems)) => {
                let family = context.state.document.experiment.model.kind;
                problems.first().map(|problem| naming::problem(problem, family)).unwrap_or_default()
            }
            Some(Obstacle::Failure(why)) => format::in_groups(why),
            None => "Planning…".to_owned(),
        };
        text::cut(ui, RichText::new(&words).weak().heading(), &words);
        return;
    };
    let stale = context.state.prediction.obstacle.is_some();
    ui.horizontal(|ui| {
        ui.set_height(theme::VERDICT_HEIGHT);
        let left = |ui: &mut Ui| {
            verdict(ui, context, plan, stale);
            peak_place(ui, plan);
        };
        ends(ui, "verdict", Room::Now, left, |ui| pin_button(ui, context));
    });
    let pin = context.state.pin.as_ref();
    let length = |plan: &Plan| plan.load().max(plan.peak.reserved);
    let full = [length(plan), Limit::of(plan).bytes, pin.map_or(Bytes::ZERO, |pin| length(pin))];
    let full = Bytes((full.into_iter().max().unwrap_or_default().0 as f64 * 1.02) as u64);
    let pin = pin.map(|pin| &**pin);
    let row = vec2(ui.available_width(), theme::BAR_HEIGHT);
    let (row, _) = ui.allocate_exact_size(row, Sense::hover());
    let (device, host) = row.split_left_right_at_x(row.right() - host_bar::width(row.width()));
    bar(ui, device, plan, full, pin, stale);
    let of_pin = (pin, pinned_height(pin));
    host_bar::ui(
        ui,
        host.with_min_x(host.left() + theme::WIDE_GAP),
        plan,
        of_pin,
        context.state.shown_run(),
        fade(stale),
    );
    let lines = vec2(ui.available_width(), legend_height);
    let (rect, _) = ui.allocate_exact_size(lines, Sense::hover());
    // A child that takes no room of its own: the lines are there in any case.
    let mut child = ui.new_child(UiBuilder::new().max_rect(rect));
    legend::ui(&mut child, plan, pin, legend_lines);
    offers::ui(ui, context, plan);
}

fn verdict(ui: &mut Ui, context: &PanelContext<'_>, plan: &Plan, stale: bool) {
    let palette = theme::palette(ui);
    if stale {
        let reason = context.state.why_no_training().unwrap_or_default();
        text::cut(ui, RichText::new(&reason).heading().color(palette.bad), &reason);
        return;
    }
    let color = if plan.verdict().fits() { palette.good } else { palette.bad };
    let peak = plan.peak;
    let figures = match plan.target.profile() {
        None => format!(
            "{} live, {} reserved, and as an estimate {} in the whole process",
            peak.live, peak.reserved, peak.process
        ),
        Some(card) => format!(
            "{} used of the pool, {} reserved by the pool, {} in the process with the context of {}, which is what counts \
             on a GPU",
            peak.live, peak.reserved, peak.process, card.context
        ),
    };
    let hover = format!(
        "Predicted by a dry run of the training step: {figures}. Planned in {}.{}",
        format::secs(plan.plan_secs),
        estimated(plan)
    );
    let words = verdict_words(plan);
    text::cut(ui, RichText::new(&words).heading().color(color), &format!("{words}. {hover}"));
}

/// Which figures of a card are estimates, and whether the card is smaller than the budget.
fn estimated(plan: &Plan) -> String {
    let Some(card) = plan.target.profile() else { return String::new() };
    let mut text = String::new();
    if card.is_estimate() {
        text.push_str(" The context and the growth of the pool are estimates until they are measured on such a card.");
    }
    if let Some(room) = plan.card_below_budget() {
        text.push_str(&format!(" The budget is more than a process may use of the card, so the limit is {room}."));
    }
    text
}

/// Where the peak is, at the end of the line: the whole place, or only the layer, as there is room.
fn peak_place(ui: &mut Ui, plan: &Plan) {
    let words = peak::place(plan);
    let layer = peak::layer(plan).unwrap_or_default();
    let font = egui::TextStyle::Body.resolve(ui.style());
    let room = ui.available_width() - theme::GAP;
    let shorter = [words.clone(), format!("peak at {layer}"), layer.to_owned()];
    let shown = shorter.iter().map(|words| (words, text::width(ui, words, &font))).find(|(_, width)| *width <= room);
    match shown {
        Some((shown, width)) => {
            ui.add_space(room - width);
            ui.add(Label::new(RichText::new(shown).weak()).extend().sense(Sense::hover())).tip(words);
        }
        None if room >= theme::SHORTEST_TEXT => drop(text::path(ui, layer, &words)),
        None => {}
    }
}

fn pin_button(ui: &mut Ui, context: &PanelContext<'_>) {
    let pinned = context.state.pin.as_ref();
    let text = if pinned.is_some() { "Unpin" } else { "Pin" };
    let enabled = pinned.is_some() || context.state.plan().is_some();
    let hover = UiCommand::Pin.tooltip_with_key(ui.ctx());
    let button = Button::selectable(pinned.is_some(), text).frame_when_inactive(true);
    // As wide as *Unpin* in any case, so that the next control stays where it is.
    let font = egui::TextStyle::Button.resolve(ui.style());
    let least = text::width(ui, "Unpin", &font) + 2.0 * ui.spacing().button_padding.x;
    let button = button::enabled(ui, enabled, button.min_size(vec2(least, 0.0)));
    if button.tip(hover).clicked() {
        context.send.ui(UiCommand::Pin);
    }
}

/// The height that the pinned bar takes from the bar above it, and from nothing else.
fn pinned_height(pin: Option<&Plan>) -> f32 {
    if pin.is_some() { theme::PINNED_HEIGHT } else { 0.0 }
}

/// How strong the colours of a bar are.
fn fade(stale: bool) -> f32 {
    if stale { theme::STALE / 2.0 } else { 1.0 }
}

fn bar(ui: &mut Ui, rect: Rect, plan: &Plan, full: Bytes, pin: Option<&Plan>, stale: bool) {
    let palette = theme::palette(ui);
    let response = ui.allocate_rect(rect, Sense::hover());
    let main = rect.with_max_y(rect.bottom() - pinned_height(pin));
    let painter = ui.painter_at(rect.expand(2.0));
    painter.rect_filled(main, CornerRadius::same(4), palette.trough);
    let fade = fade(stale);
    let segments = stack::segments(&plan.categories_at_peak, full);
    for segment in &segments {
        let fade = if counts(plan, segment.category) { fade } else { fade * UNCOUNTED };
        fill(&painter, main, segment, palette, fade);
    }
    if let Some(pin) = pin {
        let below = Rect::from_min_max(pos2(rect.left(), main.bottom() + 3.0), rect.max);
        painter.rect_filled(below, CornerRadius::same(2), palette.trough);
        for segment in stack::segments(&pin.categories_at_peak, full) {
            let part = part_of(below, &segment);
            painter.rect_filled(part, CornerRadius::ZERO, palette.category(segment.category).gamma_multiply(0.75));
        }
    }
    let place = |bytes: Bytes| main.left() + main.width() * (bytes.0 as f64 / full.0.max(1) as f64) as f32;
    let limit = Limit::of(plan);
    let (line, peak) = (place(limit.bytes), place(plan.load()));
    if peak > line {
        let past = Rect::from_x_y_ranges(line..=peak, main.y_range());
        let strip = past.with_min_y(past.bottom() - 4.0);
        painter.rect_filled(past, CornerRadius::ZERO, palette.past);
        painter.rect_filled(strip, CornerRadius::ZERO, palette.bad);
    }
    let label = format!("{} {}", limit.whose, format::size(limit.bytes));
    let words = painter.layout_no_wrap(label.clone(), FontId::proportional(theme::SMALL_TEXT), palette.strong());
    let chip = beside_line(main, line, words.size());
    for segment in &segments {
        name(&painter, main, segment, (line, peak > line, chip), palette, fade);
    }
    painter.vline(line, (main.top() - 2.0)..=(rect.bottom() + 2.0), Stroke::new(2.5, palette.budget));
    painter.rect_filled(chip, CornerRadius::same(3), palette.pane);
    painter.galley(chip.min + CHIP_MARGIN, words, palette.strong());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Figure, true, verdict_words(plan)));
    let share_at = |x: f32| (x - main.left()) / main.width();
    let under = response.hover_pos().and_then(|at| segments.iter().find(|s| (s.from..s.to).contains(&share_at(at.x))));
    let hover = match under {
        Some(Segment { category, bytes, .. }) if counts(plan, *category) => {
            let share = format::share(bytes.0 as f64 / plan.load().0.max(1) as f64);
            format!("{}: {bytes}, {share} of the peak", category.name())
        }
        Some(Segment { category, bytes, .. }) => {
            format!("{}: {bytes} on top of the peak. {UNCOUNTED_WORDS}", category.name())
        }
        None => label,
    };
    response.on_hover_text_at_pointer(hover);
}

/// Where the budget's name is: before its line if there is room, else behind it.
fn beside_line(bar: Rect, line: f32, words: Vec2) -> Rect {
    let size = words + 2.0 * CHIP_MARGIN;
    let left = if line - size.x - 6.0 > bar.left() { line - size.x - 5.0 } else { line + 5.0 };
    Rect::from_min_size(pos2(left, bar.center().y - size.y / 2.0), size)
}

/// The part of a room that a chip leaves free: the wider side.
pub(super) fn clear_of(room: Rect, chip: Rect) -> Rect {
    if !room.intersects(chip) {
        return room;
    }
    let (before, behind) = (room.with_max_x(chip.left()), room.with_min_x(chip.right()));
    if before.width() > behind.width() { before } else { behind }
}

fn part_of(bar: Rect, segment: &Segment) -> Rect {
    let x = |share: f32| bar.left() + bar.width() * share;
    Rect::from_min_max(pos2(x(segment.from), bar.top()), pos2(x(segment.to), bar.bottom()))
}

fn fill(painter: &egui::Painter, bar: Rect, segment: &Segment, palette: &Palette, fade: f32) {
    let part = part_of(bar, segment);
    painter.rect_filled(part, CornerRadius::ZERO, palette.category(segment.category).gamma_multiply(fade));
    if part.width() > 2.0 {
        painter.vline(part.right() - 0.5, part.y_range(), Stroke::new(1.0, palette.pane));
    }
}

/// A segment's name, on the side of the line if it has more room and next to the budget's, in the ink that stands out
/// there.
fn name(
    painter: &egui::Painter,
    bar: Rect,
    segment: &Segment,
    (line, is_over, chip): (f32, bool, Rect),
    palette: &Palette,
    fade: f32,
) {
    let part = part_of(bar, segment);
    let (inside, past) = (part.with_max_x(part.right().min(line)), part.with_min_x(part.left().max(line)));
    let is_past = is_over && past.width() > inside.width();
    let room = if is_past {
        past
    } else if is_over {
        inside
    } else {
        part
    };
    let room = clear_of(room, chip);
    let ground = palette.trough.blend(palette.category(segment.category).gamma_multiply(fade));
    let ink = palette.on(if is_past { ground.blend(palette.past) } else { ground });
    let font = FontId::proportional(theme::SMALL_TEXT);
    let galley = painter.layout_no_wrap(segment.category.name().to_owned(), font, ink);
    if galley.size().x + 10.0 < room.width() {
        painter.galley(room.center() - galley.size() / 2.0, galley, ink);
    }
}

/// Whether the budget counts a category. On the processor it counts tensors alone, and not what the allocator holds besides.
pub(super) fn counts(plan: &Plan, category: Category) -> bool {
    category != Category::Slack || plan.target.is_gpu()
}

/// The meaning of a category, in a sentence.
pub(crate) fn meaning(category: Category) -> &'static str {
    match category {
        Category::Context => {
            "What the program needs in addition to the numbers it computes with. On a graphics card: driver and library state, \
             and the kernels that the run will load; 96 MiB are allowed for those of a run that was never on this card. On the \
             processor: the engine's own bookkeeping."
        }
        Category::Parameters => "The weights that the forward pass reads.",
        Category::MasterWeights => {
            "The f32 copy of narrower weights, which the optimizer updates; of FlashAdamW, the byte that corrects each weight \
             of 16 bits in its place."
        }
        Category::OptimizerState => "Momentum and moments: allocated in the first step, kept for the whole run.",
        Category::Buffers => {
            "Running statistics of batch normalisation: the mean and the variance of each channel. The masks of weights that \
             become zero, which save nothing while a run trains. While a model continues a text, the keys and values of the \
             text so far."
        }
        Category::Batch => "The inputs and labels of one micro-batch; on a graphics card, those of the next as well.",
        Category::Gradients => "Gradients of the parameters, summed over the accumulated micro-batches.",
        Category::Activations => {
            "Outputs of layers kept for the backward pass, and the gradients that flow between layers."
        }
        Category::Scratch => {
            "The working memory of one operation, such as an unfolded image for a convolution. It is free again when the \
             operation is over."
        }
        Category::Slack => {
            "Memory that is held but not in use: blocks are rounded up, and what was freed is kept to be used again."
        }
    }
}

/// Bytes by category of a moment, as lines of a tooltip, largest first.
pub(crate) fn category_lines(ui: &mut Ui, categories: &Categories) {
    let palette = theme::palette(ui);
    ui.spacing_mut().interact_size.y = theme::CHIP;
    let mut shares: Vec<(Category, Bytes)> = categories.iter().filter(|(_, bytes)| bytes.0 > 0).collect();
    shares.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    for (category, bytes) in shares {
        chip::chip(ui, palette.category(category), format!("{} {bytes}", category.name()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_beside_the_chip_of_the_budget() {
        let bar = Rect::from_min_size(pos2(10.0, 0.0), vec2(500.0, 26.0));
        let chip = beside_line(bar, 14.0, vec2(60.0, 14.0));
        assert!(chip.left() > 14.0 && chip.right() < 100.0, "{chip:?}: behind the line");
        let parameters = bar.with_max_x(130.0);
        let left = clear_of(parameters, chip);
        assert!(!left.intersects(chip.shrink(0.1)) && left.right() == 130.0, "{left:?}");
        let far = bar.with_min_x(200.0);
        assert_eq!(clear_of(far, chip), far);
        let before = beside_line(bar, 400.0, vec2(60.0, 14.0));
        assert!(before.right() < 400.0 && clear_of(bar, before).right() == before.left());
    }
}
