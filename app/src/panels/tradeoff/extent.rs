//! The room of the picture of memory against accuracy, the visible part of its axes, and the name of the vertical one.

use eframe::egui::{TextStyle, Ui};

use crate::{format, theme, widgets::text};

/// The height of a plot that its horizontal axis takes, and that of the words below it.
const BELOW_PLOT: f32 = 40.0;
const WORDS: f32 = 14.0;

/// How high the picture is in a pane that leaves `room` to it and to the lines below it. Where both have none, the lines are
/// wholly out of sight, and none is sliced.
pub(super) fn plot_height(room: f32, lines: f32) -> f32 {
    if room - lines >= theme::LOWEST_PLOT { room - lines } else { room.max(theme::LOWEST_PLOT - WORDS) }
}

/// The words for the horizontal axis. Empty in a picture so low that they would be cut, because the pane's title has them as
/// well.
pub(super) fn across(height: f32) -> &'static str {
    if height < theme::LOWEST_PLOT { "" } else { "measured peak" }
}

/// The height of a picture without its horizontal axis.
pub(super) fn above_axis(height: f32) -> f32 {
    height - if across(height).is_empty() { BELOW_PLOT - WORDS } else { BELOW_PLOT }
}

/// The words for the vertical axis. They are no longer than a plot of this height, because they are upright next to it.
pub(super) fn measure(ui: &Ui, height: f32, is_of_values: bool) -> &'static str {
    let font = TextStyle::Small.resolve(ui.style());
    let room = above_axis(height);
    let words = measures(is_of_values);
    words.into_iter().find(|words| text::width(ui, words, &font) <= room).unwrap_or_default()
}

/// The words for the vertical axis, in full and as one word.
pub(super) fn measures(is_of_values: bool) -> [&'static str; 2] {
    if is_of_values { ["best test R²", format::R2] } else { ["best test accuracy", "accuracy"] }
}

/// The most memory in view.
pub(super) fn widest(points: &[[f64; 2]]) -> f64 {
    points.iter().fold(0.0f64, |widest, [x, _]| widest.max(*x)) * 1.15
}

/// The ratio of a picture's height to the part that reaches up to `above` points below its top.
pub(super) fn whole(height: f32, above: f32) -> f64 {
    f64::from(height / (height - above).max(above))
}

/// The accuracies in view: a single run is not drawn as if a thousandth were the world.
pub(super) fn accuracies(points: &[[f64; 2]]) -> (f64, f64) {
    let low = points.iter().fold(1.0f64, |low, [_, y]| low.min(*y));
    let high = points.iter().fold(0.0f64, |high, [_, y]| high.max(*y));
    let around = ((high - low) * 0.15).max(0.02);
    (if low < 0.0 { low - around } else { (low - around).max(0.0) }, high + around)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_below_the_picture_are_whole_or_out_of_sight() {
        assert_eq!(plot_height(300.0, 58.0), 242.0);
        assert_eq!(plot_height(100.0, 58.0), 100.0, "they begin where the pane ends");
        assert_eq!(plot_height(20.0, 58.0), theme::LOWEST_PLOT - WORDS);
        assert_eq!([70.0, 76.0].map(across), ["", "measured peak"]);
        assert_eq!(above_axis(62.0), above_axis(76.0), "the picture itself is as high");
    }
}
