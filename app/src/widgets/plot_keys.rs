//! A picture over ops, steps or seconds by keys. It is one stop of the Tab key: the arrows lead from place to place along it,
//! Page Up and Page Down a tenth of what is in view, Home and End to its ends; plus and minus zoom, and 0 shows all of it.
//!
//! Owns the place that the keys are at in each picture. Always holds: the place is in view.

use std::ops::RangeInclusive;

use eframe::egui::{Event, EventFilter, Id, InputState, Key, Modifiers, Response};
use egui_plot::PlotUi;

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
    let view = if plot.auto_bounds().x { places.whole.clone() } else { plot.plot_bounds().range_x() };
    let known = response.ctx.data(|data| data.get_temp::<usize>(place_id(response.id)));
    let at = known.unwrap_or(places.first).min(places.count - 1);
    let in_view = (0..places.count).filter(|place| view.contains(&(places.x)(*place))).count();
    let to = response.ctx.input_mut(|input| moved(input, at, places.count, (in_view / PAGES).max(1)));
    response.ctx.data_mut(|data| data.insert_temp(place_id(response.id), to));
    match response.ctx.input_mut(zoomed) {
        Some(Zoom::All) => plot.set_auto_bounds(true),
        Some(Zoom::By(times)) => plot.set_plot_bounds_x(around(&view, &places.whole, (places.x)(to), times)),
        None if to != at && !view.contains(&(places.x)(to)) => {
            plot.set_plot_bounds_x(around(&view, &places.whole, (places.x)(to), 1.0));
        }
        None => {}
    }
    Some(to)
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

/// The place after the keys that were pressed.
fn moved(input: &mut InputState, at: usize, count: usize, page: usize) -> usize {
    let last = count - 1;
    let mut pressed = |key| input.count_and_consume_key(Modifiers::NONE, key);
    let by = (pressed(Key::ArrowRight) + page * pressed(Key::PageDown)) as isize
        - (pressed(Key::ArrowLeft) + page * pressed(Key::PageUp)) as isize;
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

/// A view that is `times` as close, around a place, and within the whole of the picture.
fn around(view: &RangeInclusive<f64>, whole: &RangeInclusive<f64>, x: f64, times: f64) -> RangeInclusive<f64> {
    let all = whole.end() - whole.start();
    let width = ((view.end() - view.start()) / times).min(all);
    let share = if view.contains(&x) { (x - view.start()) / (view.end() - view.start()) } else { 0.5 };
    let from = (x - width * share).clamp(*whole.start(), whole.end() - width);
    from..=from + width
}
