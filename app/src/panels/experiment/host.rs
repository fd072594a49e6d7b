//! The host memory of the data and of the making of batches: a bar of its own, with the measured bytes over it.

use eframe::egui::{self, Color32, CornerRadius, Rect, Sense, Stroke, Ui, text::LayoutJob, vec2};
use plimsoll_engine::{
    Bytes,
    data::HostMemory,
    memory::Category,
    plan::Plan,
    train::{Feeding, HostUse},
};

use super::facts;
use crate::{
    session::{HELD_BACK, RunRecord},
    theme::{self, Palette},
    widgets::{
        control,
        tip::{self, Tip as _},
    },
};

/// Draws the bar of `plan`, and the measurement of `run` if it was planned to take the same. The settings in hand may differ
/// from the run's, so the words about it name it.
pub(super) fn ui(ui: &mut Ui, plan: &Plan, run: Option<&RunRecord>) {
    let host = plan.host;
    let measured = run.and_then(|run| run.summary).map(|summary| summary.host);
    let measured = measured.filter(|seen| seen.predicted == host.total() && seen.measured > Bytes::ZERO);
    let budget = plan.experiment.data.host_line();
    let words = words(&host, budget);
    let hover = format!(
        "{words}. It lies in the memory of the machine (RAM), outside the budget. It has the batches that are made ahead and \
         the one that is learned from, for training and for a test."
    );
    ui.horizontal(|ui| {
        let width = control::name_width(ui);
        ui.allocate_ui(vec2(width, theme::ROW_HEIGHT), |ui| {
            ui.set_min_width(width);
            ui.add(egui::Label::new("Host memory").truncate());
        });
        let bar = bar(ui, &host, budget, measured, &words);
        tip::show(tip::beside(&bar), |ui| {
            ui.set_max_width(theme::TOOLTIP_WIDTH);
            ui.label(hover);
        });
    });
    let disk = (host.disk > Bytes::ZERO).then(|| format!("On disk: {}", host.disk));
    facts(ui, std::iter::once(with_units(&words)).chain(disk));
    of_run(ui, &run.map_or_else(|| NONE.to_owned(), |run| told(&run.label(), measured, run.fed)));
}

/// Lines that are reserved for the words about a run, so that nothing below moves when one begins.
const LINES: usize = 3;
/// What stands there before a run.
const NONE: &str = "Once a run starts, its host memory and the time it waited for data stand here.";

/// Draws the words of a run in the lines for them; the whole of them is shown on hover.
fn of_run(ui: &mut Ui, words: &str) {
    let font = egui::TextStyle::Small.resolve(ui.style());
    let (width, line) = (ui.available_width(), ui.text_style_height(&egui::TextStyle::Small));
    let mut job = LayoutJob::simple(words.to_owned(), font, theme::palette(ui).weak(), width);
    job.wrap.max_rows = LINES;
    let size = vec2(width, (line * LINES as f32).ceil());
    let label = ui.allocate_ui_with_layout(size, egui::Layout::top_down(egui::Align::Min), |ui| {
        ui.set_min_size(size);
        ui.add(egui::Label::new(job).show_tooltip_when_elided(false).sense(Sense::hover()))
    });
    label.inner.tip(words);
}

/// Words in which no line ends between a figure and its unit.
fn with_units(words: &str) -> String {
    let together = |words: String, unit: &str| words.replace(&format!(" {unit}"), &format!("\u{a0}{unit}"));
    ["KiB", "MiB", "GiB", "TiB"].into_iter().fold(words.to_owned(), together)
}

/// What a run took and how it was fed, in words: its name, its measured bytes, and whether its data keep up.
fn told(name: &str, measured: Option<HostUse>, fed: Option<(f64, Feeding)>) -> String {
    let took = measured.map(|seen| {
        let disk = seen.measured_disk;
        let disk = if disk > Bytes::ZERO { format!(", {disk} on disk") } else { String::new() };
        format!("{} measured{disk}", seen.measured)
    });
    let facts: Vec<String> = took.into_iter().chain(fed.into_iter().flat_map(kept_up)).collect();
    if facts.is_empty() {
        format!("{name}: no measurement of its host memory.")
    } else {
        format!("{name}: {}.", facts.join("; "))
    }
}

/// The share of its time that a run waited for data, how many batches were ready, and what was read.
fn kept_up((share, feeding): (f64, Feeding)) -> impl Iterator<Item = String> {
    let Feeding { ready, room, read } = feeding;
    let so = if share > HELD_BACK { "held it back" } else { "kept up" };
    let waited = format!("waited {:.0}% of its time for data, which {so}", share * 100.0);
    // Between two batches the one that the model is about to take is ready as well.
    let ahead = (room > 0).then(|| format!("{} of at most {room} batches ready at its last step", ready.min(room)));
    let read = (read > Bytes::ZERO).then(|| format!("{read} read from files"));
    std::iter::once(waited).chain(ahead).chain(read)
}

/// The bar's figures in words.
fn words(host: &HostMemory, budget: Option<Bytes>) -> String {
    let HostMemory { data, cache, answers, batches, workers, factors, .. } = host;
    let kept = if *cache > Bytes::ZERO { format!("kept {cache}, ") } else { String::new() };
    let said = if *answers > Bytes::ZERO { format!("teacher's answers {answers}, ") } else { String::new() };
    let factored = if *factors > Bytes::ZERO { format!(", or to factor layers {factors}") } else { String::new() };
    let limit = budget.map_or(String::new(), |budget| format!(" of a budget of {budget}"));
    format!("{}{limit}: data {data}, {kept}{said}batches {batches}, threads {workers}{factored}", host.total())
}

fn bar(
    ui: &mut Ui,
    host: &HostMemory,
    budget: Option<Bytes>,
    measured: Option<HostUse>,
    words: &str,
) -> egui::Response {
    let palette = theme::palette(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), theme::HOST_BAR), Sense::hover());
    let painter = ui.painter_at(rect.expand(2.0));
    painter.rect_filled(rect, CornerRadius::same(3), palette.trough);
    let seen = measured.map_or(0, |seen| seen.measured.0);
    let full = host.total().0.max(seen).max(budget.map_or(0, |budget| budget.0)).max(1);
    let place = |bytes: u64| rect.left() + rect.width() * (bytes as f64 / full as f64) as f32;
    let mut from = 0;
    for (bytes, color) in parts(host, palette) {
        let part = Rect::from_x_y_ranges(place(from)..=place(from + bytes.0), rect.y_range());
        painter.rect_filled(part, CornerRadius::same(3), color);
        from += bytes.0;
    }
    if let Some(seen) = measured {
        painter.vline(
            place(seen.measured.0).min(rect.right() - 1.0),
            rect.y_range(),
            Stroke::new(2.0, palette.strong()),
        );
    }
    if let Some(budget) = budget {
        let color = if host.total() > budget { palette.bad } else { palette.good };
        painter.vline(place(budget.0).min(rect.right() - 1.0), rect.y_range(), Stroke::new(2.0, color));
    }
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Figure, true, format!("Host memory: {words}")));
    response
}

/// The parts of the bar, with the colours of similar parts of a step.
fn parts(host: &HostMemory, palette: &Palette) -> [(Bytes, Color32); 6] {
    let color = |category| palette.category(category);
    [
        (host.data, color(Category::Parameters)),
        (host.cache, color(Category::Activations)),
        (host.answers, color(Category::Gradients)),
        (host.batches, color(Category::Batch)),
        (host.workers, color(Category::Scratch)),
        // The memory before the first batch, as far as it is more than batches and threads.
        (host.factors.saturating_sub(host.batches + host.workers), color(Category::Slack)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_run_is_fed_says_whether_its_data_keep_up() {
        let feeding = |ready, read| Feeding { ready, room: 2, read };
        assert_eq!(
            told("Run 4", None, Some((0.004, feeding(3, Bytes::ZERO)))),
            "Run 4: waited 0% of its time for data, which kept up; 2 of at most 2 batches ready at its last step."
        );
        assert_eq!(
            told("Run 4", None, Some((0.4, Feeding { room: 0, ..feeding(0, Bytes::mib(3)) }))),
            "Run 4: waited 40% of its time for data, which held it back; 3.00 MiB read from files."
        );
    }

    #[test]
    fn what_was_measured_is_told_with_its_run() {
        let seen = HostUse { measured: Bytes::mib(3), measured_disk: Bytes::mib(1), ..HostUse::default() };
        assert_eq!(told("Run 4", Some(seen), None), "Run 4: 3.00 MiB measured, 1.00 MiB on disk.");
        assert_eq!(told("Run 4", None, None), "Run 4: no measurement of its host memory.");
    }
}
