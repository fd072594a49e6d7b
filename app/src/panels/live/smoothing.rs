//! How strongly curves are smoothed, in words: over how many steps a mean would follow as slowly.

use eframe::egui::{self, Align, Layout, RichText, TextStyle, Ui, vec2};

use super::figure;
use crate::{
    format,
    view::View,
    widgets::{series::Series, text, tip::Tip as _},
};

/// What the slider is called.
pub(super) const NAME: &str = "Smoothing";
/// The longest words before it.
const STRONGEST: &str = "Mean of 100 steps";

/// The width of [`label`].
pub(super) fn label_width(ui: &Ui) -> f32 {
    text::width(ui, STRONGEST, &TextStyle::Body.resolve(ui.style()))
}

/// The words before the slider, as wide as the longest: the slider stays below the pointer that drags it.
pub(super) fn label(ui: &mut Ui, view: &View) {
    let size = vec2(label_width(ui), ui.spacing().interact_size.y);
    ui.allocate_ui_with_layout(size, Layout::right_to_left(Align::Center), |ui| {
        ui.set_min_width(size.x);
        let words = mean(view).map_or_else(|| NAME.to_owned(), |mean| format::capital(&mean));
        ui.label(RichText::new(words).weak());
    });
}

/// Over how many steps the curves are smoothed: as many as a plain mean has that follows as slowly. `None` where they are as
/// measured.
fn mean(view: &View) -> Option<String> {
    match 1.0 / (1.0 - view.smoothing) {
        steps if steps <= 1.0 => None,
        steps if steps < 1.95 => Some(format!("mean of {steps:.1} steps")),
        steps => Some(format!("mean of {steps:.0} steps")),
    }
}

/// How the curves follow what is measured, in a sentence's words.
pub(super) fn slowly(view: &View) -> String {
    mean(view).map_or_else(
        || "the values are as measured".to_owned(),
        |mean| format!("the curves follow as slowly as a {mean}, in which the latest count most"),
    )
}

/// The same after a figure of a legend.
pub(in crate::panels) fn over(view: &View) -> String {
    mean(view).map(|mean| format!(", {mean}")).unwrap_or_default()
}

/// Says on hover how a figure is smoothed, and what was measured last.
pub(in crate::panels) fn smoothed(chip: egui::Response, view: &View, raw: &Series, words: fn(f64) -> String) {
    if view.smoothing > 0.0 {
        let (slowly, last) = (slowly(view), figure(raw.last(), words));
        chip.tip_above(format!("Smoothed, as the curve is: {slowly}. Measured last: {last}."));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smoothed_figure_says_over_how_many_steps_it_is() {
        let said = |smoothing| over(&View { smoothing, ..View::default() });
        assert_eq!(
            [0.0, 0.2, 0.8, 0.99].map(said),
            ["", ", mean of 1.2 steps", ", mean of 5 steps", ", mean of 100 steps"]
        );
    }
}
