//! The common look of all plots: quiet grid lines at round values, small labels, no background.

use eframe::egui::{FontId, Rect, Ui, pos2};
use egui_plot::{AxisHints, GridInput, GridMark, Plot, PlotResponse, PlotUi};

use super::text;
use crate::{focus, theme};

/// Grid lines of the vertical axis are at least this far apart.
const ROW: f32 = 26.0;
/// Grid lines of the horizontal axis are this many times as far apart: their labels are wide.
const COLUMN: f64 = 3.0;
/// Up to this distance from the right end of a plot, the words of a line are complete: the margin of the pane has room for the
/// rest.
const END: f32 = 12.0;
/// More lines than any screen has room for: bounds that are not yet settled may ask for any number.
const MOST: f64 = 500.0;

/// Which values are round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// 1, 2, 5, 10, ...
    Decimal,
    /// Rounds in the same way, without fractions.
    Whole,
    /// Powers of two: for amounts of memory.
    Binary,
    /// Values are decimal logarithms.
    Log,
}

/// A plot as all plots here look.
pub(crate) fn plot<'a>(ui: &Ui, name: &str, x: Round, y: Round) -> Plot<'a> {
    Plot::new(ui.scope_id().with(name))
        .allow_scroll(false)
        .min_size(theme::LEAST_PLOT)
        .show_background(false)
        .grid_color(theme::palette(ui).rule)
        .grid_fade(0.0)
        .grid_spacing(ROW..=ROW * 2.0)
        .x_grid_spacer(move |input| columns(x, &input))
        .y_grid_spacer(at_least_two_up_to(y, f64::INFINITY))
}

/// Draws a plot. The ring of the keyboard's focus goes around it with its axes, whose labels it would strike.
pub(crate) fn show<'a, R>(ui: &mut Ui, plot: Plot<'a>, add: impl FnOnce(&mut PlotUi<'a>) -> R + 'a) -> PlotResponse<R> {
    let start = ui.cursor().min;
    let shown = plot.show(ui, add);
    let end = pos2(shown.response.rect.right(), ui.cursor().top() - ui.spacing().item_spacing.y);
    let whole = shown.response.rect.union(Rect::from_two_pos(start, end));
    focus::ring_around(&shown.response, whole.intersect(ui.clip_rect()));
    shown
}

/// Lines of a horizontal axis: none at its right end, where the words below it would be cut.
fn columns(round: Round, input: &GridInput) -> Vec<GridMark> {
    let end = input.bounds.1 - input.base_step_size * f64::from(END / ROW);
    let marks = marks(round, input.base_step_size * COLUMN, input);
    marks.into_iter().filter(|mark| mark.value <= end).collect()
}

/// Lines at round values, none above `highest`; closer to each other where there would be no second one.
pub(crate) fn at_least_two_up_to(round: Round, highest: f64) -> impl Fn(GridInput) -> Vec<GridMark> {
    move |input| {
        let at = |share: f64| {
            let marks = marks(round, input.base_step_size * share, &input);
            marks.into_iter().filter(|mark| mark.value <= highest).collect::<Vec<_>>()
        };
        let shares = [1.0, 0.7, 0.5];
        let two = |marks: &Vec<GridMark>| marks.len() > 1;
        let found = shares.into_iter().map(at).find(two);
        // All values may lie between two of 1, 2, 5 and 10.
        let within = || shares.into_iter().map(|share| within_a_decade(input.base_step_size * share, input.bounds));
        let found = found.or_else(|| (round == Round::Log).then(within)?.find(two));
        found.unwrap_or_else(|| at(0.5))
    }
}

/// A value whose label is as long as any, with all digits that labels have: `1.50 MiB`.
const LONG: f64 = 1.5;
/// The room that the toolkit leaves on both sides of a label.
const BESIDE_LABEL: f32 = 4.0;
/// The least width of a vertical axis.
const LEAST_AXIS: f32 = 44.0;

/// A horizontal axis with small labels.
pub(crate) fn x_axis<'a>(ui: &Ui, words: impl Fn(f64) -> String + 'a) -> AxisHints<'a> {
    axis(ui, AxisHints::new_x(), words)
}

/// A vertical axis with small labels. It has the room of a label from the start: where a frame is laid out again, the toolkit
/// forgets what the labels took.
pub(crate) fn y_axis<'a>(ui: &Ui, words: impl Fn(f64) -> String + 'a) -> AxisHints<'a> {
    let font = FontId::proportional(theme::SMALL_TEXT);
    let label = text::width(ui, &words(LONG), &font) + 2.0 * BESIDE_LABEL;
    axis(ui, AxisHints::new_y(), words).min_thickness(label.max(LEAST_AXIS))
}

fn axis<'a>(ui: &Ui, hints: AxisHints<'a>, words: impl Fn(f64) -> String + 'a) -> AxisHints<'a> {
    hints
        .formatter(move |mark, _| words(mark.value))
        .label_spacing(1.0..=2.0)
        .tick_label_color(theme::palette(ui).weak())
        .tick_label_font(FontId::proportional(theme::SMALL_TEXT))
}

/// Round values between two bounds, at least `least` apart.
pub(crate) fn round_values(round: Round, least: f64, bounds: (f64, f64)) -> Vec<f64> {
    let input = GridInput { bounds, base_step_size: least };
    marks(round, least, &input).into_iter().map(|mark| mark.value).collect()
}

/// Round values in view, at least `least` apart.
fn marks(round: Round, least: f64, input: &GridInput) -> Vec<GridMark> {
    if !(least.is_finite() && least > 0.0) {
        return Vec::new();
    }
    if round == Round::Log && least < 1.0 / 3.0 {
        return decades(input.bounds);
    }
    let step = match round {
        Round::Decimal => nice(least),
        Round::Whole | Round::Log => nice(least).max(1.0),
        Round::Binary => least.log2().ceil().exp2(),
    };
    let (from, to) = ((input.bounds.0 / step).ceil(), (input.bounds.1 / step).floor());
    if (to - from).is_nan() || to - from > MOST {
        return Vec::new();
    }
    (from as i64..=to as i64).map(|i| GridMark { value: i as f64 * step, step_size: step }).collect()
}

/// 1, 2 and 5 of every decade.
fn decades((low, high): (f64, f64)) -> Vec<GridMark> {
    let (from, to) = (low.floor().max(-30.0) as i32, high.ceil().min(30.0) as i32);
    let values = (from..=to).flat_map(|k| [1.0f64, 2.0, 5.0].map(|m| f64::from(k) + m.log10()));
    values.filter(|v| (low..=high).contains(v)).map(|value| GridMark { value, step_size: 0.3 }).collect()
}

/// Logarithms of values that are evenly apart, at least `least` on screen: for bounds that are near to each other.
fn within_a_decade(least: f64, (low, high): (f64, f64)) -> Vec<GridMark> {
    let (from, to) = (10f64.powf(low), 10f64.powf(high));
    // They are the nearest to each other at the upper end.
    let step = nice(least * to * std::f64::consts::LN_10);
    if !(step.is_finite() && step > 0.0) || (to - from) / step > MOST {
        return Vec::new();
    }
    let values = ((from / step).ceil() as i64..=(to / step).floor() as i64).map(|i| i as f64 * step);
    values.filter(|value| *value > 0.0).map(|value| GridMark { value: value.log10(), step_size: least }).collect()
}

/// The least of 1, 2, 5, 10, ... that is not below `least`.
fn nice(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * decade)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(decade * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stand_at_round_values_not_too_close() {
        assert_eq!(round_values(Round::Decimal, 0.3, (0.2, 1.9)), [0.5, 1.0, 1.5]);
        assert_eq!(round_values(Round::Whole, 0.1, (0.0, 3.0)), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(round_values(Round::Binary, 0.2, (0.0, 1.1)), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(round_values(Round::Log, 2.0, (-4.0, 2.0)), [-4.0, -2.0, 0.0, 2.0]);
        assert_eq!(round_values(Round::Log, 0.1, (-0.1, 1.0)).len(), 4);
    }

    #[test]
    fn an_axis_has_a_second_line_where_there_is_any_room_for_it() {
        let values = |least: f64, bounds: (f64, f64)| -> Vec<f64> {
            let marks = at_least_two_up_to(Round::Decimal, 1.0)(GridInput { bounds, base_step_size: least });
            marks.into_iter().map(|mark| mark.value).collect()
        };
        assert_eq!(values(0.3, (0.8, 1.05)), [0.8, 1.0]);
        assert_eq!(values(0.1, (0.78, 1.05)), [0.8, 0.9, 1.0]);
    }

    #[test]
    fn a_logarithmic_axis_within_a_decade_has_marks() {
        let values = |least: f64, bounds: (f64, f64)| -> Vec<f64> {
            let bounds = (bounds.0.log10(), bounds.1.log10());
            let marks = at_least_two_up_to(Round::Log, f64::INFINITY)(GridInput { bounds, base_step_size: least });
            marks.into_iter().map(|mark| (10f64.powf(mark.value) * 1e6).round() / 1e6).collect()
        };
        assert_eq!(values(0.05, (1.1, 1.9)), [1.2, 1.4, 1.6, 1.8]);
        assert_eq!(values(0.1, (0.5, 40.0)), [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
    }

    #[test]
    fn no_words_stand_at_the_right_end() {
        let values = |most: f64| -> Vec<f64> {
            // 26 points for each 0.1.
            let input = GridInput { bounds: (0.0, most), base_step_size: 0.1 };
            columns(Round::Decimal, &input).into_iter().map(|mark| mark.value).collect()
        };
        assert_eq!(values(1.0), [0.0, 0.5]);
        assert_eq!(values(1.03), [0.0, 0.5]);
        assert_eq!(values(1.05), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn bounds_that_are_not_settled_draw_nothing() {
        assert!(round_values(Round::Decimal, f64::NAN, (0.0, 1.0)).is_empty());
        assert!(round_values(Round::Decimal, 1e-9, (0.0, 1e9)).is_empty());
        assert!(round_values(Round::Decimal, 0.0, (0.0, f64::INFINITY)).is_empty());
    }
}
