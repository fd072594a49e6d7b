//! Keyboard control of a plot over ops, steps or seconds. A plot is one stop of the Tab key. The arrows move from place to
//! place, Page Up and Page Down by a tenth of the view, Home and End to the ends. Plus and minus zoom, and 0 shows everything.
//!
//! Owns the current place in each plot. Always holds: the place is in view.

use std::ops::RangeInclusive;

use eframe::egui::{Event, EventFilter, Id, InputState, Key, Modifiers, Response};
use egui_plot::PlotUi;

use super::tip;

/// How much closer one press looks.
const ZOOM: f64 = 1.5;
/// Places of a view that Page Up and Page Down pass over: one of so many.
const PAGES: usize = 10;

/// The places of a picture, from left to right.
pub(crate) struct Places<'a> {
    /// How many there are.
    pub(crate) count: usize,
    /// Where the keys begin.
    pub(crate) first: usize,
    /// Where each lies on the horizontal axis, never falling.
    pub(crate) x: &'a dyn Fn(usize) -> f64,
    /// What all of the picture shows of the axis.
    pub(crate) whole: RangeInclusive<f64>,
}

/// The place that the keys are at, while the picture has the focus.
pub(crate) fn at(plot: &mut PlotUi<'_>, places: &Places<'_>) -> Option<usize> {
    let response = plot.response().clone();
    if !response.has_focus() || places.count == 0 {
        return None;
    }
    keep_arrows(&response);
    if response.gained_focus() || tip::has_come(&response) {
        response.scroll_to_me(None);
    }
    let view = if plot.auto_bounds().x { places.whole.clone() } else { plot.plot_bounds().range_x() };
    #[cfg(test)]
    response.ctx.data_mut(|data| data.insert_temp::<f64>(width_id(response.id), view.end() - view.start()));
    let known = response.ctx.data(|data| data.get_temp::<usize>(place_id(response.id)));
    let at = known.unwrap_or(places.first).min(places.count - 1);
    let in_view = || (0..places.count).filter(|place| view.contains(&(places.x)(*place))).count();
    let to = response.ctx.input_mut(|input| moved(input, at, places.count, || (in_view() / PAGES).max(1)));
    response.ctx.data_mut(|data| data.insert_temp(place_id(response.id), to));
    match response.ctx.input_mut(zoomed) {
        Some(Zoom::All) => plot.set_auto_bounds(true),
        Some(Zoom::By(times)) => show(plot, places, around(&view, places, to, times)),
        None if to != at && !view.contains(&(places.x)(to)) => show(plot, places, around(&view, places, to, 1.0)),
        None => {}
    }
    Some(to)
}

/// Where a test finds how much of its axis a plot showed last.
#[cfg(test)]
pub(crate) fn width_id(plot: Id) -> Id {
    plot.with("width of the view")
}

fn place_id(plot: Id) -> Id {
    plot.with("place of the keys")
}

/// The arrows stay in the picture and do not lead the focus away.
fn keep_arrows(response: &Response) {
    if response.gained_focus() {
        // Only in the frame after it are they kept.
        response.ctx.request_repaint();
    }
    let filter = EventFilter { horizontal_arrows: true, vertical_arrows: true, ..EventFilter::default() };
    response.ctx.memory_mut(|memory| memory.set_focus_lock_filter(response.id, filter));
}

/// The place after the keys that were pressed; `page` is asked for where one of them goes a page.
fn moved(input: &mut InputState, at: usize, count: usize, page: impl FnOnce() -> usize) -> usize {
    let last = count - 1;
    let mut pressed = |key| input.count_and_consume_key(Modifiers::NONE, key) as isize;
    let places = pressed(Key::ArrowRight) - pressed(Key::ArrowLeft);
    let pages = pressed(Key::PageDown) - pressed(Key::PageUp);
    let by = places + if pages == 0 { 0 } else { pages * page() as isize };
    match (pressed(Key::Home) > 0, pressed(Key::End) > 0) {
        (true, _) => 0,
        (_, true) => last,
        _ => at.saturating_add_signed(by).min(last),
    }
}

/// What a key asks of the view.
enum Zoom {
    By(f64),
    All,
}

fn zoomed(input: &mut InputState) -> Option<Zoom> {
    // The sign, wherever it lies on the keyboard.
    let is_typed = |input: &InputState, sign: &str| {
        input.events.iter().any(|event| matches!(event, Event::Text(text) if text == sign))
    };
    if is_typed(input, "+") || is_typed(input, "=") {
        return Some(Zoom::By(ZOOM));
    }
    if is_typed(input, "-") {
        return Some(Zoom::By(1.0 / ZOOM));
    }
    is_typed(input, "0").then_some(Zoom::All)
}

/// Shows a view. One of the whole follows it as it grows.
fn show(plot: &mut PlotUi<'_>, places: &Places<'_>, view: Option<RangeInclusive<f64>>) {
    let Some(view) = view else { return };
    let width = |range: &RangeInclusive<f64>| range.end() - range.start();
    if width(&view) >= width(&places.whole) * (1.0 - 1e-9) {
        plot.set_auto_bounds(true);
    } else {
        plot.set_plot_bounds_x(view);
    }
}

/// A view that is `times` as close, around a place, within the whole of the picture and with room for two places. None where
/// the whole has no width.
fn around(view: &RangeInclusive<f64>, places: &Places<'_>, place: usize, times: f64) -> Option<RangeInclusive<f64>> {
    let (start, end, x) = (*places.whole.start(), *places.whole.end(), (places.x)(place));
    let (all, seen) = (end - start, view.end() - view.start());
    if !(all > 0.0 && all.is_finite()) {
        return None;
    }
    let width = (seen / times).max(all * 2.0 / places.count as f64).min(all);
    let share = if seen > 0.0 && view.contains(&x) { (x - view.start()) / seen } else { 0.5 };
    // Rounding may put the end of the whole before its start and a width: so the start is the last to decide.
    let from = (x - width * share).min(end - width).max(start);
    Some(from..=from + width)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_view_has_the_place_in_it_and_is_within_the_whole(
            start in -1e6..1e6f64,
            all in 0.0..1e9f64,
            (count, place) in (1..500usize).prop_flat_map(|count| (Just(count), 0..count)),
            (from, width) in (0.0..1.0f64, 0.0..1.0f64),
            times in 0.1..10.0f64,
        ) {
            let end = start + all;
            let x = move |place: usize| start + (end - start) * place as f64 / (count - 1).max(1) as f64;
            let places = Places { count, first: 0, x: &x, whole: start..=end };
            let view = start + all * from..=start + all * (from + width);
            let Some(shown) = around(&view, &places, place, times) else { return Ok(()) };
            let near = (end - start) * 1e-9 + 1e-6;
            prop_assert!(*shown.start() >= start && *shown.end() <= end + near, "{shown:?} of {start}..={end}");
            prop_assert!(shown.start() - near <= x(place) && x(place) <= shown.end() + near, "{shown:?} without {}", x(place));
        }
    }

    #[test]
    fn the_whole_stays_the_whole_when_it_is_looked_at_from_farther_away() {
        // Ends of which `end - (end - start)` is less than `start` by a rounding.
        let (start, end) = (0.1, 0.7 + 1e-3);
        for start in (1..200).map(|i| start + f64::from(i) * 0.013) {
            let places = Places {
                count: 2,
                first: 0,
                x: &|place| if place == 0 { start } else { end + start },
                whole: start..=end + start,
            };
            let shown = around(&(start..=end + start), &places, 1, 1.0 / ZOOM).expect("it has a width");
            assert!((*shown.start() - start).abs() < 1e-12 && *shown.start() >= start, "{shown:?}");
        }
        let single = Places { count: 1, first: 0, x: &|_| 3.0, whole: 3.0..=3.0 };
        assert_eq!(around(&(3.0..=3.0), &single, 0, ZOOM), None);
    }
}
