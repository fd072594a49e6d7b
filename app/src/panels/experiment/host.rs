//! The host memory of the data and of the making of batches: a bar of its own, with the measured bytes over it.

use eframe::egui::{self, Color32, CornerRadius, Rect, Sense, Stroke, Ui, vec2};
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
    widgets::{control, tip},
};

/// Draws the bar of `plan`, and the measurement of `run` if it was planned to take the same. The settings in hand may differ
/// from the run's, so the words about it name it.
pub(super) fn ui(ui: &mut Ui, plan: &Plan, run: Option<&RunRecord>) {
    let host = plan.host;
    let measured = run.and_then(|run| run.summary).map(|summary| summary.host);
    let measured = measured.filter(|seen| seen.predicted == host.total() && seen.measured > Bytes::ZERO);
    let budget = plan.experiment.data.host_line();
    let in_run = run.map(RunRecord::label).unwrap_or_default();
    let words = words(&host, budget, measured.map(|seen| (seen.measured, in_run.as_str())));
    let feeding = run.and_then(|run| Some(fed(&run.name(), run.fed?)));
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
        tip::beside(&bar).show(|ui| {
            ui.set_max_width(theme::TOOLTIP_WIDTH);
            ui.label(hover);
        });
    });
    let disk =
        (host.disk > Bytes::ZERO).then(|| disk(&host, measured.map(|seen| (seen.measured_disk, in_run.as_str()))));
    facts(ui, std::iter::once(with_units(&words)).chain(disk).chain(feeding));
}

/// Words in which no line ends between a figure and its unit.
fn with_units(words: &str) -> String {
    let together = |words: String, unit: &str| words.replace(&format!(" {unit}"), &format!("\u{a0}{unit}"));
    ["KiB", "MiB", "GiB", "TiB"].into_iter().fold(words.to_owned(), together)
}

/// The bytes on a disk, in words.
fn disk(host: &HostMemory, measured: Option<(Bytes, &str)>) -> String {
    let seen = measured.map_or(String::new(), |(bytes, run)| format!("; {run}: {bytes} measured"));
    format!("On disk: {}{seen}", host.disk)
}

/// How the run of a name is fed, in words: whether its data keep up, and the figures that show it.
fn fed(name: &str, (share, feeding): (f64, Feeding)) -> String {
    let Feeding { ready, room, read } = feeding;
    let so = if share > HELD_BACK { "its data hold it back" } else { "its data keep up" };
    // Between two batches the one that the model is about to take is ready as well.
    let ahead = match ready.min(room) {
        _ if room == 0 => String::new(),
        ready => format!(". At its last step {ready} of at most {room} batches were ready"),
    };
    let read = if read > Bytes::ZERO { format!(". Read from files: {read}") } else { String::new() };
    format!("{name} spent {:.0}% of its whole time waiting for data: {so}{ahead}{read}", share * 100.0)
}

/// The bar's figures in words, and the measurement with its run.
fn words(host: &HostMemory, budget: Option<Bytes>, measured: Option<(Bytes, &str)>) -> String {
    let HostMemory { data, cache, answers, batches, workers, factors, .. } = host;
    let kept = if *cache > Bytes::ZERO { format!("kept {cache}, ") } else { String::new() };
    let said = if *answers > Bytes::ZERO { format!("teacher's answers {answers}, ") } else { String::new() };
    let factored = if *factors > Bytes::ZERO { format!(", or to factor layers {factors}") } else { String::new() };
    let limit = budget.map_or(String::new(), |budget| format!(" of a budget of {budget}"));
    let seen = measured.map_or(String::new(), |(bytes, run)| format!("; {run}: {bytes} measured"));
    format!("{}{limit}: data {data}, {kept}{said}batches {batches}, threads {workers}{factored}{seen}", host.total())
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
        let told = fed("Run 4", (0.004, feeding(3, Bytes::ZERO)));
        let ready = "At its last step 2 of at most 2 batches were ready";
        assert_eq!(told, format!("Run 4 spent 0% of its whole time waiting for data: its data keep up. {ready}"));
        let told = fed("Run 4", (0.4, Feeding { room: 0, ..feeding(0, Bytes::mib(3)) }));
        assert_eq!(
            told,
            "Run 4 spent 40% of its whole time waiting for data: its data hold it back. Read from files: 3.00 MiB"
        );
    }

    #[test]
    fn what_was_measured_names_its_run() {
        let host = HostMemory::default();
        assert!(!words(&host, None, None).contains("measured"));
        let told = words(&host, None, Some((Bytes::mib(3), "Run 4")));
        assert!(told.ends_with("; Run 4: 3.00 MiB measured"), "{told}");
        assert!(disk(&host, Some((Bytes::mib(3), "Run 4"))).ends_with("; Run 4: 3.00 MiB measured"));
    }
}
