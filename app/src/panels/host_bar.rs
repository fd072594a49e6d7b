//! The host bar, beside the budget's: the predicted host memory of the data and of the making of batches, by part, against its
//! own budget, with the measured bytes over it.
//!
//! Always holds: its scale is its own, because it is other memory than the device's.

use eframe::egui::{self, Color32, CornerRadius, FontId, Painter, Rect, Sense, Stroke, Ui, pos2, vec2};
use plimsoll_engine::{Bytes, data::HostMemory, memory::Category, plan::Plan, train::HostUse};

use super::budget_bar::clear_of;
use crate::{
    format,
    session::RunRecord,
    theme::{self, Palette},
    widgets::{chip, tip},
};

/// Its share of the row that it has with the budget's bar.
const SHARE: f32 = 0.26;
/// The least that it takes of it, so that its name has room.
const LEAST: f32 = 176.0;
/// Around the words on its name.
const NAME_MARGIN: egui::Vec2 = vec2(5.0, 2.0);

/// The width that it takes of a row.
pub(super) fn width(of_row: f32) -> f32 {
    (SHARE * of_row).max(LEAST)
}

/// A part of the host memory.
struct Part {
    name: &'static str,
    bytes: Bytes,
    color: Color32,
}

/// The parts in the order of the bar, with the colours of similar parts of a step. Those that nothing takes are left out.
fn parts(host: &HostMemory, palette: &Palette) -> Vec<Part> {
    // What comes before the first batch, as far as it is more than what comes after it.
    let before = [
        ("to factor layers", host.factors.saturating_sub(host.batches + host.workers)),
        ("to normalise", host.normalising.saturating_sub(host.fed_later())),
    ];
    let lasting = [
        ("data", host.data, Category::Parameters),
        ("kept samples", host.cache, Category::Activations),
        ("teacher's answers", host.answers, Category::Gradients),
        ("batches", host.batches, Category::Batch),
        ("threads", host.workers, Category::Scratch),
    ];
    let before = before.map(|(name, bytes)| (name, bytes, Category::Slack));
    let all = lasting.into_iter().chain(before).filter(|(_, bytes, _)| *bytes > Bytes::ZERO);
    all.map(|(name, bytes, category)| Part { name, bytes, color: palette.category(category) }).collect()
}

/// What a run was measured to take, or takes so far, if the same parts of the same sizes were planned for it as for `plan`.
pub(super) fn measured(plan: &Plan, run: Option<&RunRecord>) -> Option<HostUse> {
    let run = run?;
    let planned = run.plan.as_ref().filter(|planned| planned.host == plan.host)?;
    let so_far = || {
        let (_, feeding) = run.fed?;
        Some(HostUse { predicted: planned.host.total(), measured: feeding.held, ..HostUse::default() })
    };
    let seen = run.summary.map(|summary| summary.host).or_else(so_far);
    seen.filter(|seen| seen.predicted == plan.host.total() && seen.measured > Bytes::ZERO)
}

/// The bar's figures in words.
pub(super) fn words(plan: &Plan) -> String {
    let HostMemory { data, cache, answers, batches, workers, factors, normalising, .. } = plan.host;
    let some = |bytes: Bytes, words: &str| {
        if bytes > Bytes::ZERO { words.replace('_', &bytes.to_string()) } else { String::new() }
    };
    let limit = plan.experiment.data.host_line().map_or(String::new(), |budget| format!(" of a budget of {budget}"));
    format!(
        "{}{limit}: data {data}, {}{}batches {batches}, threads {workers}{}{}",
        plan.host.total(),
        some(cache, "kept _, "),
        some(answers, "teacher's answers _, "),
        some(factors, ", or to factor layers _"),
        if normalising > plan.host.fed_later() { some(normalising, ", or to normalise _") } else { String::new() },
    )
}

/// A bar, and the bytes of its whole length.
struct Bar {
    rect: Rect,
    full: f64,
}

impl Bar {
    /// Where so many bytes end.
    fn place(&self, bytes: Bytes) -> f32 {
        self.rect.left() + self.rect.width() * (bytes.0 as f64 / self.full) as f32
    }

    /// The room of each part.
    fn rooms(&self, host: &HostMemory, palette: &Palette) -> impl Iterator<Item = (Part, Rect)> {
        parts(host, palette).into_iter().scan(Bytes::ZERO, |from, part| {
            let begin = self.place(*from);
            *from += part.bytes;
            Some((part, Rect::from_x_y_ranges(begin..=self.place(*from), self.rect.y_range())))
        })
    }

    fn fill(&self, painter: &Painter, host: &HostMemory, palette: &Palette, strength: f32) {
        painter.rect_filled(self.rect, CornerRadius::same(4), palette.trough);
        for (part, room) in self.rooms(host, palette) {
            painter.rect_filled(room, CornerRadius::ZERO, part.color.gamma_multiply(strength));
        }
    }

    /// Draws the line of the budget, and what is past it.
    fn line(&self, painter: &Painter, budget: Bytes, total: Bytes, palette: &Palette) {
        let (line, end) = (self.place(budget), self.place(total));
        if end > line {
            let past = Rect::from_x_y_ranges(line..=end, self.rect.y_range());
            painter.rect_filled(past, CornerRadius::ZERO, palette.past);
            painter.rect_filled(past.with_min_y(past.bottom() - 4.0), CornerRadius::ZERO, palette.bad);
        }
        painter.vline(line, self.rect.y_range().expand(2.0), Stroke::new(2.5, palette.budget));
    }

    /// Writes the name of the bar at its end, and those of its parts where they have room before the budget's line.
    fn names(&self, painter: &Painter, host: &HostMemory, budget: Option<Bytes>, palette: &Palette, strength: f32) {
        let short = match budget {
            Some(budget) => format!("host {} of {}", format::size(host.total()), format::size(budget)),
            None => format!("host memory {}", format::size(host.total())),
        };
        let font = FontId::proportional(theme::SMALL_TEXT);
        let words = painter.layout_no_wrap(short, font.clone(), palette.strong());
        let size = words.size() + 2.0 * NAME_MARGIN;
        let middle = pos2(self.rect.right() - size.x / 2.0 - theme::GAP, self.rect.center().y);
        let own = Rect::from_center_size(middle, size);
        let end = budget.map_or(self.rect.right(), |budget| self.place(budget));
        for (part, room) in self.rooms(host, palette) {
            let ink = palette.on(palette.trough.blend(part.color.gamma_multiply(strength)));
            let words = painter.layout_no_wrap(part.name.to_owned(), font.clone(), ink);
            let room = clear_of(room.with_max_x(room.right().min(end)), own);
            if words.size().x + 10.0 < room.width() {
                painter.galley(room.center() - words.size() / 2.0, words, ink);
            }
        }
        painter.rect_filled(own, CornerRadius::same(3), palette.pane);
        painter.galley(own.min + NAME_MARGIN, words, palette.strong());
    }
}

/// Draws the bar of `plan` over `rect`, with that of `pin` below it, which is `pin_height` high, and the measurement of `run`.
pub(super) fn ui(
    ui: &mut Ui,
    rect: Rect,
    plan: &Plan,
    (pin, pin_height): (Option<&Plan>, f32),
    run: Option<&RunRecord>,
    fade: f32,
) {
    let palette = theme::palette(ui);
    let response = ui.allocate_rect(rect, Sense::hover());
    let painter = ui.painter_at(rect.expand(2.0));
    let (host, budget, seen) = (&plan.host, plan.experiment.data.host_line(), measured(plan, run));
    let longest = [budget, pin.map(|pin| pin.host.total()), seen.map(|seen| seen.measured)];
    let full = longest.into_iter().flatten().fold(host.total(), Bytes::max).0.max(1) as f64 * 1.02;
    let bar = Bar { rect: rect.with_max_y(rect.bottom() - pin_height), full };
    bar.fill(&painter, host, palette, fade);
    if let Some(pin) = pin {
        let below = Rect::from_min_max(pos2(rect.left(), bar.rect.bottom() + 3.0), rect.max);
        Bar { rect: below, full }.fill(&painter, &pin.host, palette, 0.75);
    }
    if let Some(budget) = budget {
        bar.line(&painter, budget, host.total(), palette);
    }
    // Its ends are seen above and below a name that it meets.
    if let Some(seen) = seen {
        let at = bar.place(seen.measured).min(bar.rect.right() - 1.0);
        painter.vline(at, bar.rect.y_range().expand(2.0), Stroke::new(2.0, palette.strong()));
    }
    bar.names(&painter, host, budget, palette, fade);
    let said = format!("Host memory: {}", words(plan));
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Figure, true, &said));
    tip::show(tip::of(&response), |ui| {
        ui.set_max_width(theme::TOOLTIP_WIDTH);
        lines(ui, plan, pin, run, seen);
    });
}

/// The tooltip: what it is, and its parts.
fn lines(ui: &mut Ui, plan: &Plan, pin: Option<&Plan>, run: Option<&RunRecord>, seen: Option<HostUse>) {
    let palette = theme::palette(ui);
    let limit = plan.experiment.data.host_line().map_or(String::new(), |budget| format!(", of a budget of {budget}"));
    ui.label(format!("Host memory (RAM) for the data: {}{limit}", plan.host.total()));
    for part in parts(&plan.host, palette) {
        chip::chip(ui, part.color, format!("{} {}", part.name, part.bytes));
    }
    if plan.host.disk > Bytes::ZERO {
        ui.label(format!("On disk: {}.", plan.host.disk));
    }
    if let Some(pin) = pin {
        let (own, pinned) = (plan.host.total(), pin.host.total());
        let than = if own == pinned { "the same".to_owned() } else { own.difference(pinned) };
        ui.label(format!("Against the pin of {pinned}: {than}."));
    }
    if let Some((run, seen)) = run.zip(seen) {
        ui.label(format!("Measured in {}: {}, the line across it.", run.label(), seen.measured));
    }
    ui.label(
        "It is outside the budget, and has a budget of its own under \"More about the data\". It has the batches that are made \
         ahead and the one that is learned from, for training and for a test.",
    );
}
