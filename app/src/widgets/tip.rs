//! Tooltips: shown while the pointer or the keyboard's focus rests on a widget. A screen reader gets the same text as the
//! description of the widget.
//!
//! Owns whether the pointer or the keyboard was used last. Always holds: only the one that was used last shows a tooltip, so a
//! resting pointer covers nothing that the keys lead to. No tooltip appears while text is typed.

use eframe::egui::{
    Context, Event, Id, Label, Order, Popup, Pos2, RectAlign, Response, Tooltip, Ui, WidgetText, accesskit,
};

use crate::theme;

/// Seconds that the focus rests before the tooltip appears, so that nothing flickers while Tab moves on.
const PAUSE: f64 = 0.7;

/// The state of the keyboard that decides about tooltips.
#[derive(Debug, Clone, Copy, Default)]
struct Keys {
    /// The keyboard was used after the pointer.
    are_last: bool,
    /// The widget with the focus.
    focused: Option<Id>,
    /// The frame that began with the focus there.
    came: u64,
    /// Seconds at which the focus came there, or at which a key was pressed after that.
    since: f64,
    /// A text was typed since the focus came.
    is_typing: bool,
    /// The frame in which a tooltip was shown for the focus: one is enough.
    shown: Option<(u64, Id)>,
}

impl Keys {
    fn id() -> Id {
        Id::unique("keys and tooltips")
    }

    fn of(ctx: &Context) -> Self {
        ctx.data(|data| data.get_temp(Self::id())).unwrap_or_default()
    }
}

/// Looks at what was pressed and moved, before anything is drawn.
pub(crate) fn follow(ctx: &Context) {
    let mut keys = Keys::of(ctx);
    ctx.input(|input| {
        for event in &input.events {
            match event {
                // A screen reader leads the focus as keys do.
                Event::Key { pressed: true, .. } | Event::AccessKitActionRequest(_) => {
                    (keys.are_last, keys.since) = (true, input.time);
                }
                Event::Text(_) | Event::Ime(_) => keys.is_typing = true,
                Event::PointerMoved(_)
                | Event::PointerButton { .. }
                | Event::MouseWheel { .. }
                | Event::Touch { .. } => {
                    keys.are_last = false;
                }
                _ => {}
            }
        }
    });
    let focused = ctx.memory(|memory| memory.focused());
    if focused != keys.focused {
        (keys.focused, keys.since, keys.is_typing) = (focused, ctx.input(|input| input.time), false);
        keys.came = ctx.cumulative_frame_nr();
    }
    ctx.data_mut(|data| data.insert_temp(Keys::id(), keys));
}

/// The tooltip of a widget, open while the pointer or the focus rests on it or on a part of it.
pub(crate) fn of(response: &Response) -> Tooltip<'_> {
    let is_open = response.enabled() && is_open(response);
    let mut tooltip = Tooltip::for_widget(response);
    tooltip.popup = tooltip.popup.open(is_open);
    if response.layer_id.order == Order::Foreground {
        // In a menu the next entries are below.
        tooltip.popup = at_side(tooltip.popup);
    }
    tooltip
}

/// The tooltip of a widget at its side, where it covers none of the rows that come next.
pub(crate) fn beside(response: &Response) -> Tooltip<'_> {
    let mut tooltip = of(response);
    tooltip.popup = at_side(tooltip.popup);
    tooltip
}

/// The tooltip of one of several widgets in a row, above it: at its side it would cover the next one, and below it what follows.
fn above(response: &Response) -> Tooltip<'_> {
    let mut tooltip = of(response);
    if response.layer_id.order == Order::Foreground {
        return tooltip;
    }
    tooltip.popup = tooltip.popup.align(RectAlign::TOP_START).align_alternatives(&[
        RectAlign::TOP_END,
        // At the top of the window.
        RectAlign::RIGHT_START,
        RectAlign::RIGHT_END,
        RectAlign::LEFT_START,
        RectAlign::LEFT_END,
        RectAlign::BOTTOM_START,
    ]);
    tooltip
}

/// Shows the contents that `add` draws, if the tooltip is open. One function for all contents, because a popup generates much
/// code.
pub(crate) fn show<'a>(tooltip: Tooltip<'_>, add: impl FnOnce(&mut Ui) + 'a) {
    fn show(tooltip: Tooltip<'_>, add: Box<dyn FnOnce(&mut Ui) + '_>) {
        tooltip.show(add);
    }
    show(tooltip, Box::new(add));
}

/// Where a picture speaks of one of its places.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Speaks {
    /// Next to the place, which is the pointer's.
    At(Pos2),
    /// At the side of the picture, of which it hides nothing: keys lead from place to place, and need no room for a hand.
    Beside,
}

/// The tooltip of a place in a picture, open in any case.
pub(crate) fn speaking(picture: &Response, speaks: Speaks) -> Tooltip<'_> {
    let mut tooltip = Tooltip::for_widget(picture).gap(theme::WIDE_GAP);
    tooltip.popup = match speaks {
        Speaks::At(place) => tooltip.popup.at_position(place),
        Speaks::Beside => at_side(tooltip.popup),
    };
    tooltip
}

/// Whether the focus rests on a list whose rows keys lead through: the row that they are at speaks.
pub(crate) fn rests_on(ctx: &Context, list: Id) -> bool {
    let keys = Keys::of(ctx);
    keys.are_last && keys.focused == Some(list) && has_rested(ctx, keys)
}

/// Whether the focus came to a widget with this frame, by any key: the toolkit tells it of Tab alone.
pub(crate) fn has_come(response: &Response) -> bool {
    let keys = Keys::of(&response.ctx);
    keys.focused == Some(response.id) && keys.came == response.ctx.cumulative_frame_nr()
}

fn at_side(popup: Popup<'_>) -> Popup<'_> {
    popup.align(RectAlign::RIGHT_START).align_alternatives(&[
        RectAlign::RIGHT_END,
        RectAlign::LEFT_START,
        RectAlign::LEFT_END,
        // A narrow window has room at neither side: what the words are about stays in sight.
        RectAlign::BOTTOM_START,
        RectAlign::TOP_START,
    ])
}

/// Whether a picture has the focus and keys led there: its tooltip is of the place that they are at, not of the pointer's.
pub(crate) fn is_at_focus(picture: &Response) -> bool {
    Keys::of(&picture.ctx).are_last && picture.has_focus()
}

fn is_open(response: &Response) -> bool {
    let keys = Keys::of(&response.ctx);
    if keys.are_last { is_open_by_keys(response, keys) } else { Tooltip::should_show_tooltip(response, true) }
}

fn is_open_by_keys(response: &Response, keys: Keys) -> bool {
    let ctx = &response.ctx;
    let Some(focused) = keys.focused.filter(|focused| holds(response, *focused)) else { return false };
    // What opened is over the window, and the focus with it.
    let is_below = response.layer_id.order == Order::Background && Popup::is_any_open(ctx);
    let is_seen = ctx.read_response(focused).is_some_and(|part| part.interact_rect.is_positive());
    if keys.is_typing || is_below || !is_seen {
        return false;
    }
    if !has_rested(ctx, keys) {
        return false;
    }
    let frame = ctx.cumulative_frame_nr();
    // The part is drawn before the whole, and knows more.
    if keys.shown.is_some_and(|(last, by)| last == frame && by != response.id) {
        return false;
    }
    ctx.data_mut(|data| {
        data.insert_temp(Keys::id(), Keys { shown: Some((frame, response.id)), focused: Some(focused), ..keys })
    });
    true
}

/// Whether no key was pressed for a while; a frame is asked for when that is so.
fn has_rested(ctx: &Context, keys: Keys) -> bool {
    let left = keys.since + PAUSE - ctx.input(|input| input.time);
    if left > 0.0 {
        ctx.request_repaint_after_secs(left as f32);
    }
    left <= 0.0
}

/// Whether a widget has the focus, or a part of it has.
fn holds(response: &Response, focused: Id) -> bool {
    response.id == focused
        || response.ctx.read_response(focused).is_some_and(|part| {
            part.layer_id == response.layer_id && response.rect.expand(1.0).contains_rect(part.rect)
        })
}

/// Tooltips of a widget.
pub(crate) trait Tip: Sized {
    /// Shows `words` if the widget is enabled.
    fn tip(self, words: impl Into<WidgetText>) -> Self;

    /// The same at the widget's side, where it covers none of the rows that come next.
    fn tip_beside(self, words: impl Into<WidgetText>) -> Self;

    /// The same above the widget, one of several in a row.
    fn tip_above(self, words: impl Into<WidgetText>) -> Self;

    /// Shows `words` if the widget is disabled: the reason.
    fn tip_disabled(self, words: impl Into<WidgetText>) -> Self;

    /// Shows the contents that `add` draws if the widget is enabled.
    fn tip_ui(self, add: impl FnOnce(&mut Ui)) -> Self;
}

impl Tip for Response {
    fn tip(self, words: impl Into<WidgetText>) -> Self {
        let words = words.into();
        if self.enabled() {
            describe(&self, &words);
        }
        written(of(&self), words);
        self
    }

    fn tip_beside(self, words: impl Into<WidgetText>) -> Self {
        let words = words.into();
        if self.enabled() {
            describe(&self, &words);
        }
        written(beside(&self), words);
        self
    }

    fn tip_above(self, words: impl Into<WidgetText>) -> Self {
        let words = words.into();
        if self.enabled() {
            describe(&self, &words);
        }
        written(above(&self), words);
        self
    }

    fn tip_disabled(self, words: impl Into<WidgetText>) -> Self {
        let words = words.into();
        if !self.enabled() {
            describe(&self, &words);
        }
        written(Tooltip::for_disabled(&self), words);
        self
    }

    fn tip_ui(self, add: impl FnOnce(&mut Ui)) -> Self {
        show(of(&self), add);
        self
    }
}

fn written(tooltip: Tooltip<'_>, words: WidgetText) {
    show(tooltip, |ui| {
        ui.set_max_width(ui.spacing().tooltip_width);
        ui.add(Label::new(words));
    });
}

/// A screen reader reads the words after the name, or as the name of a widget that is a sign alone. What is told only of a
/// place on the screen gets no node of its own.
fn describe(response: &Response, words: &WidgetText) {
    if !response.ctx.has_accesskit_node(response.id) {
        return;
    }
    response.ctx.accesskit_node_builder(response.id, |node: &mut accesskit::Node| {
        if node.description().is_none() {
            node.set_description(words.text());
        }
        let is_nameless = node.labelled_by().is_empty() && node.label().is_none_or(str::is_empty);
        if is_nameless && node.role() != accesskit::Role::Label {
            node.set_label(words.text());
        }
    });
}
