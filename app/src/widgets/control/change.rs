//! What a neighbour of the present value would change: memory and time, in a line.
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

/// One line: the neighbour's name, and its effect on the peak and on the time of a sample.
pub(super) fn line(ui: &mut Ui, neighbour: &Neighbour, now: Outcome) {
    let palette = theme::palette(ui);
    ui.spacing_mut().interact_size.y = theme::CHIP;
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new(format!("{}:", neighbour.name)).strong());
        match &neighbour.outcome {
            Ok(outcome) => {
                let color = match outcome.peak.cmp(&now.peak) {
                    _ if is_about_the_same(*outcome, now) => palette.weak(),
                    Ordering::Less => palette.good,
                    Ordering::Equal => palette.weak(),
                    Ordering::Greater => palette.warn,
                };
                ui.label(RichText::new(format!("{},", memory_change(*outcome, now))).color(color));
                ui.label(text::estimate(time_change(*outcome, now)));
            }
            Err(reason) => {
                ui.label(RichText::new(format!("not possible: {reason}")).color(palette.bad));
            }
        }
    });
}

/// Whether two peaks differ by less than a reader of either could see.
fn is_about_the_same(new: Outcome, now: Outcome) -> bool {
    new.peak != now.peak && new.peak.0.abs_diff(now.peak.0) < UNSEEN.0.max(now.peak.0 / UNSEEN_SHARE)
}

/// The change of the peak.
fn memory_change(new: Outcome, now: Outcome) -> String {
    match new.peak.cmp(&now.peak) {
        Ordering::Equal => "the same memory".to_owned(),
        _ if is_about_the_same(new, now) => "about the same memory".to_owned(),
        _ => new.peak.difference(now.peak),
    }
}

/// The change of time per sample: a larger batch takes longer per step, which by itself is not a loss.
fn time_change(new: Outcome, now: Outcome) -> String {
    let each = |o: Outcome| o.step_secs / o.samples.max(1) as f64;
    let text = format::time_ratio(each(new) / each(now));
    if new.samples == now.samples { text } else { format!("{text} per sample") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_that_no_figure_of_the_peak_shows_is_none() {
        let of = |peak: u64| Outcome { peak: Bytes(peak), step_secs: 1.0, samples: 1 };
        let changed = |by: i64| memory_change(of(2_000_000u64.saturating_add_signed(by)), of(2_000_000));
        assert_eq!([0, 168, -999].map(changed), ["the same memory", "about the same memory", "about the same memory"]);
        assert_eq!([2048, -2048].map(changed), ["+2.00 KiB", "-2.00 KiB"]);
    }
}
