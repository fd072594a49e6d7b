//! The host memory of the data and of the making of batches, in words; the bar of it is beside the budget's.

use eframe::egui::{self, Sense, Ui, text::LayoutJob, vec2};
use plimsoll_engine::{
    Bytes,
    plan::Plan,
    train::{Feeding, HostUse},
};

use super::{super::host_bar, facts};
use crate::{
    session::{HELD_BACK, RunRecord},
    theme,
    widgets::tip::Tip as _,
};

/// Writes what `plan` takes of it, and how `run` was fed. The settings in hand may differ from the run's, so the words about it
/// name it.
pub(super) fn ui(ui: &mut Ui, plan: &Plan, run: Option<&RunRecord>) {
    let disk = (plan.host.disk > Bytes::ZERO).then(|| format!("On disk: {}", plan.host.disk));
    facts(ui, std::iter::once(with_units(&format!("Host memory: {}", host_bar::words(plan)))).chain(disk));
    let told = |run: &RunRecord| told(&run.label(), host_bar::measured(plan, Some(run)), run.fed);
    of_run(ui, &run.map_or_else(|| NONE.to_owned(), told));
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
    let Feeding { ready, room, read, .. } = feeding;
    let so = if share > HELD_BACK { "held it back" } else { "kept up" };
    let waited = format!("waited {:.0}% of its time for data, which {so}", share * 100.0);
    // Between two batches the one that the model is about to take is ready as well.
    let ahead = (room > 0).then(|| format!("{} of at most {room} batches ready at its last step", ready.min(room)));
    let read = (read > Bytes::ZERO).then(|| format!("{read} read from files"));
    std::iter::once(waited).chain(ahead).chain(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_run_is_fed_says_whether_its_data_keep_up() {
        let feeding = |ready, read| Feeding { ready, room: 2, read, held: Bytes::mib(1) };
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
