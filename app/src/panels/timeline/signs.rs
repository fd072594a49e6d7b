//! What the lines of a timeline mean: in a line above the picture, or within it where the pane is too low for one.

use eframe::egui::{Align, Layout, Rect, RichText, TextStyle, Ui, UiBuilder, Vec2, vec2};
use plimsoll_engine::memory::Phase;

use super::Shown;
use crate::{
    theme,
    widgets::{chip, text, tip::Tip as _},
};

/// What the outline is, and what is filled where that is not the present plan.
const COMPARED: [(&str, &str, &str); 2] = [
    (
        "pinned",
        "",
        "The plan that is pinned. What is filled is that of the present settings, as all else in the window.",
    ),
    (
        "present",
        "filled: the pinned plan",
        "The plan of the present settings. What is filled is the pinned one; all else in the window is of the present.",
    ),
];
const MEASURED: &str = "measured";

/// The lines that are in a picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signs {
    /// There is an outline, and the pinned plan is filled or not.
    outline: Option<bool>,
    is_measured: bool,
}

impl Signs {
    /// Those of what is shown.
    pub(super) fn of(shown: &Shown<'_>, is_before: bool) -> Self {
        Self { outline: shown.outline.map(|_| is_before), is_measured: !shown.measured.is_empty() }
    }

    /// These, if there are any.
    pub(super) fn any(self) -> Option<Self> {
        (self.outline.is_some() || self.is_measured).then_some(self)
    }

    /// The room that they take within a picture.
    pub(super) fn size(self, ui: &Ui) -> Vec2 {
        let font = TextStyle::Small.resolve(ui.style());
        let words = |filled: &str| if filled.is_empty() { 0.0 } else { theme::GAP + text::width(ui, filled, &font) };
        let outline = self.outline.map(|is_before| {
            let (outline, filled, _) = COMPARED[usize::from(is_before)];
            chip::stroke_width(ui, outline) + words(filled)
        });
        let measured = self.is_measured.then(|| chip::stroke_width(ui, MEASURED));
        let between = if outline.is_some() && measured.is_some() { theme::GAP } else { 0.0 };
        vec2((outline.unwrap_or_default() + between + measured.unwrap_or_default()).ceil(), theme::SMALL_ROW)
    }

    /// Draws them within a picture.
    pub(super) fn within(self, ui: &mut Ui, place: Rect) {
        let builder = UiBuilder::new().max_rect(place).layout(Layout::left_to_right(Align::Center));
        let ui = &mut ui.new_child(builder);
        (ui.spacing_mut().item_spacing.x, ui.spacing_mut().interact_size.y) = (theme::GAP, theme::SMALL_ROW);
        self.compared(ui);
        self.measured(ui);
    }

    fn compared(self, ui: &mut Ui) {
        let Some(is_before) = self.outline else { return };
        let palette = theme::palette(ui);
        let (outline, filled, hover) = COMPARED[usize::from(is_before)];
        chip::stroke(ui, palette.outline, true, RichText::new(outline).small()).tip(hover);
        if !filled.is_empty() {
            ui.label(RichText::new(filled).small().color(palette.warn)).tip(hover);
        }
    }

    fn measured(self, ui: &mut Ui) {
        if self.is_measured {
            let hover = "Measured by the allocator during each op of a recent step, independent of the prediction.";
            let color = theme::palette(ui).measured;
            chip::stroke(ui, color, false, RichText::new(MEASURED).small()).tip(hover);
        }
    }
}

/// Draws them in a line of their own, with the sign of what is computed again.
pub(super) fn line(ui: &mut Ui, shown: &Shown<'_>, is_before: bool) {
    let signs = Signs::of(shown, is_before);
    signs.compared(ui);
    let timeline = shown.filled.timeline(shown.pass);
    if timeline.points.iter().any(|point| point.phase == Phase::Recompute) {
        let hover = "The forward pass of a checkpointed segment, run again during the backward pass.";
        let color = theme::palette(ui).phase(Phase::Recompute).to_opaque();
        chip::chip(ui, color, RichText::new("recompute").small()).tip(hover);
    }
    signs.measured(ui);
}
