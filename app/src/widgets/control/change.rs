//! What a neighbour of the present value would change: memory, that of the host as well, and time, in a line.
//!
//! Always holds: a difference that the figures of neither peak show is told as none.

use std::cmp::Ordering;

use eframe::egui::{RichText, Ui};
use plimsoll_engine::Bytes;

use crate::{
    format,
    planner::{Neighbour, Outcome},
    theme,
    widgets::text,
};

/// A smaller difference is that of the records of a step, and of no tensor.
const UNSEEN: Bytes = Bytes(1 << 10);
/// One over the share of the peak that is not seen in it.
const UNSEEN_SHARE: u64 = 2000;
/// One over the share of the host memory that no one asks for: it has no line as near as the budget.
const UNASKED_SHARE: u64 = 100;
/// What does not change, in a sentence.
const MEMORY: &str = "memory";
/// The settings that are there for what waits and works in host memory: of these it is always told.
const OF_HOST: [&str; 2] = ["data.workers", "data.prefetch"];
/// Settings that decide how long a batch takes to make.
const FEEDING: [&str; 10] = [
    "data.workers",
    "data.prefetch",
    "data.load_side",
    "data.normalise_when",
    "data.placement",
    "data.cache",
    "data.cache_in",
    "data.flip",
    "data.crop_padding",
    "data.color_jitter",
];

/// One line: the neighbour's name, and its effect on the peak, on the host memory of the data and on the time of a sample. `key` is
/// the setting's.
pub(super) fn line(ui: &mut Ui, key: &str, neighbour: &Neighbour, now: Outcome) {
    let palette = theme::palette(ui);
    ui.spacing_mut().interact_size.y = theme::CHIP;
    let color = |new: Bytes, old: Bytes| match new.cmp(&old) {
        _ if is_about_the_same(new, old) => palette.weak(),
        Ordering::Less => palette.good,
        Ordering::Equal => palette.weak(),
        Ordering::Greater => palette.warn,
    };
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new(format!("{}:", neighbour.name)).strong());
        match &neighbour.outcome {
            Ok(outcome) => {
                let host = host_change(key, *outcome, now);
                let memory = memory_change(outcome.peak, now.peak);
                // What stays is not all the memory that there is.
                let is_part = host.is_some() && memory.ends_with(MEMORY);
                let memory = if is_part { format!("{memory} of the budget,") } else { format!("{memory},") };
                ui.label(RichText::new(memory).color(color(outcome.peak, now.peak)));
                if let Some(words) = host {
                    ui.label(RichText::new(format!("{words},")).color(color(outcome.host, now.host)));
                }
                ui.label(text::estimate(time_change(key, *outcome, now)));
            }
            Err(reason) => {
                ui.label(RichText::new(format!("not possible: {reason}")).color(palette.bad));
            }
        }
    });
}

/// Whether two amounts differ by less than a reader of either could see.
fn is_about_the_same(new: Bytes, now: Bytes) -> bool {
    new != now && new.0.abs_diff(now.0) < UNSEEN.0.max(now.0 / UNSEEN_SHARE)
}

/// The change of the peak.
fn memory_change(new: Bytes, now: Bytes) -> String {
    match new.cmp(&now) {
        Ordering::Equal => format!("the same {MEMORY}"),
        _ if is_about_the_same(new, now) => format!("about the same {MEMORY}"),
        _ => new.difference(now),
    }
}

/// The change of the host memory of the data by the setting `key`, where it is more than a small share of that, or what the
/// setting is there for.
fn host_change(key: &str, new: Outcome, now: Outcome) -> Option<String> {
    let least = if OF_HOST.contains(&key) { UNSEEN.0 } else { UNSEEN.0.max(now.host.0 / UNASKED_SHARE) };
    let is_told = new.host.0.abs_diff(now.host.0) >= least;
    is_told.then(|| format!("host memory {}", new.host.difference(now.host)))
}

/// The change of the time of a step; per sample where there are more of them: a larger batch takes longer per step, which by
/// itself is not a loss.
fn time_change(key: &str, new: Outcome, now: Outcome) -> String {
    let each = |o: Outcome| o.step_secs / o.samples.max(1) as f64;
    let text = format::time_ratio(each(new) / each(now));
    let of = if new.samples == now.samples { "a step" } else { "a sample" };
    // How long batches take to make is not foretold.
    let apart = if FEEDING.contains(&key) { ", without making its batch" } else { "" };
    format!("{text} {of}{apart}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_that_no_figure_of_the_peak_shows_is_none() {
        let changed = |by: i64| memory_change(Bytes(2_000_000u64.saturating_add_signed(by)), Bytes(2_000_000));
        assert_eq!([0, 168, -999].map(changed), ["the same memory", "about the same memory", "about the same memory"]);
        assert_eq!([2048, -2048].map(changed), ["+2.00 KiB", "-2.00 KiB"]);
    }

    #[test]
    fn a_change_of_host_memory_is_told_where_the_peak_stays() {
        let of = |host: u64| Outcome { peak: Bytes::mib(1), host: Bytes(host), step_secs: 1.0, samples: 1 };
        let changed = |key, by: i64| host_change(key, of(2_000_000u64.saturating_add_signed(by)), of(2_000_000));
        assert_eq!([0, 168, 4096].map(|by| changed("batch.micro", by)), [const { None }; 3]);
        assert_eq!(changed("batch.micro", -1_048_576).as_deref(), Some("host memory -1.00 MiB"));
        // Each worker has its own, however little that is beside the data.
        assert_eq!([0, 168].map(|by| changed("data.workers", by)), [const { None }; 2]);
        assert_eq!(changed("data.workers", 4096).as_deref(), Some("host memory +4.00 KiB"));
    }
}
