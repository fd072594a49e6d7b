//! Every distance and size on screen, in points.

use eframe::egui::{Margin, Vec2, vec2};

/// Between things that belong together.
pub(crate) const GAP: f32 = 6.0;
/// Between groups.
pub(crate) const WIDE_GAP: f32 = 14.0;
/// Inside a pane, from its border.
pub(crate) const PANE_MARGIN: i8 = 10;
/// Height of the stacked bar of the budget.
pub(crate) const BAR_HEIGHT: f32 = 26.0;
/// Height that the bar of the pinned configuration takes of it.
pub(crate) const PINNED_HEIGHT: f32 = 9.0;
/// Height of the line of the verdict.
pub(crate) const VERDICT_HEIGHT: f32 = 27.0;
/// Height of a line of the legend under the bar.
pub(crate) const LEGEND_LINE: f32 = 17.0;
/// Height of the row of offers.
pub(crate) const OFFERS_HEIGHT: f32 = 24.0;
/// Height of verdict, bar and offers, with the gaps between them and the legend.
pub(crate) const LINE_HEIGHT: f32 = VERDICT_HEIGHT + BAR_HEIGHT + OFFERS_HEIGHT + 3.0 * ROW_GAP;
/// A narrower window shows the controls of its top bar without their names.
pub(crate) const WORDS_FROM: f32 = 760.0;
/// A lower window leaves room to the panes if it can.
pub(crate) const LOW_WINDOW: f32 = 640.0;
/// Between two rows.
pub(crate) const ROW_GAP: f32 = 5.0;
/// Side of a colour chip in a legend.
pub(crate) const CHIP: f32 = 10.0;
/// From a chip to its text.
pub(crate) const CHIP_GAP: f32 = 4.0;
/// Width of a control's name in the experiment pane.
pub(crate) const NAME_WIDTH: f32 = 108.0;
/// Width of the first heading of the experiment pane.
pub(crate) const HEADING_WIDTH: f32 = 84.0;
/// The share of a narrow pane that the names take, so that the values have the rest.
pub(crate) const NAME_SHARE: f32 = 0.42;
/// The least width of a control's name.
pub(crate) const NARROWEST_NAME: f32 = 60.0;
/// Width of a typed number, where its value needs no more.
pub(crate) const NUMBER_WIDTH: f32 = 62.0;
/// A slider that would be shorter is left out.
pub(crate) const SHORTEST_SLIDER: f32 = 22.0;
/// Height of a row in a table.
pub(crate) const ROW_HEIGHT: f32 = 20.0;
/// Height of a row of the table of runs, which stand without a gap.
pub(crate) const RUN_ROW: f32 = 19.0;
/// Height of the bar of a run's progress.
pub(crate) const PROGRESS_HEIGHT: f32 = 10.0;
/// A text that would have less room is left out.
pub(crate) const SHORTEST_TEXT: f32 = 60.0;
/// A bar of progress that would be shorter is left out.
pub(crate) const SHORTEST_BAR: f32 = 40.0;
/// Width of a tooltip with help.
pub(crate) const TOOLTIP_WIDTH: f32 = 320.0;
/// Width of a curve.
pub(crate) const CURVE: f32 = 1.6;
/// Size of text in bars and plots.
pub(crate) const SMALL_TEXT: f32 = 11.0;
/// Size of the verdict.
pub(crate) const VERDICT_TEXT: f32 = 20.0;
/// Size of the program's name.
pub(crate) const NAME_TEXT: f32 = 17.0;
/// How much is left of a control that cannot be used: its words stay readable.
pub(super) const DISABLED: f32 = 0.76;
/// How much is left of a pane whose figures are of an experiment before: its words stay readable.
pub(crate) const STALE: f32 = 0.7;
/// The least size of a plot with a title that takes its room.
pub(crate) const LEAST_PLOT: Vec2 = vec2(48.0, 36.0);
/// A plot is not drawn lower than this.
pub(crate) const LOWEST_PLOT: f32 = 76.0;
/// A table of kept runs is not lower: its heading and a few rows.
pub(crate) const LOWEST_TABLE: f32 = 100.0;
/// A plot with its title and figures is not drawn lower than this.
pub(crate) const LOWEST_TITLED_PLOT: f32 = 84.0;
/// Between short messages and the edges of the window, above a dialog.
pub(crate) const TOAST_MARGIN: Vec2 = vec2(8.0, 2.0);
/// A short message is not wider where its lines have room.
pub(crate) const TOAST_WIDTH: f32 = 420.0;
/// An older message with less room is not shown next to a newer one.
pub(crate) const NARROWEST_TOAST: f32 = 140.0;
/// Short messages do not stand in the top bar if it has less room for them.
pub(crate) const NARROWEST_ROOM: f32 = 320.0;
/// Points of the space around the line of the top bar that a short message may take, above and below.
pub(crate) const TOAST_OVER: f32 = 4.0;
/// Inside a short message, from its border.
pub(crate) const TOAST_PADDING: Margin = Margin::symmetric(8, 2);
/// Share of the window's height that a list may take.
pub(crate) const LIST_SHARE: f32 = 0.8;
/// Width of the ring around the control that has the keyboard's focus.
pub(crate) const FOCUS_RING: f32 = 2.0;
/// Height of the bottom bar before it was first drawn.
pub(crate) const BOTTOM_HEIGHT: f32 = 32.0;
/// In narrower panes the buttons of a kept run have shorter words.
pub(crate) const NARROW_BUTTONS: f32 = 340.0;
/// Left and right of their words, and between them, there.
pub(crate) const NARROW_PADDING: f32 = 4.0;
/// The least width of the menu of a run.
pub(crate) const MENU_WIDTH: f32 = 180.0;
/// Width of the button that compares kept runs.
pub(crate) const COMPARE_WIDTH: f32 = 86.0;
/// The part of the window's height around the content of a dialog that scrolls: its heading, its button and their margins.
pub(crate) const DIALOG_MARGIN: f32 = 140.0;
/// How much of a scroll bar is seen where the pointer is elsewhere: that there is more below is seen then, too.
pub(crate) const SCROLL_SEEN: f32 = 0.6;
/// The margin of the gallery in the window.
pub(crate) const GALLERY_MARGIN: f32 = 72.0;
/// How large the gallery grows.
pub(crate) const GALLERY_SIZE: Vec2 = vec2(1180.0, 900.0);
/// The least width of a card of the gallery, and its height.
pub(crate) const CARD_SIZE: Vec2 = vec2(236.0, 178.0);
/// Between cards.
pub(crate) const CARD_GAP: f32 = 10.0;
/// Height of the timeline on a card.
pub(crate) const PICTURE_HEIGHT: f32 = 62.0;
/// Height of a row of small text.
pub(crate) const SMALL_ROW: f32 = 14.0;
/// The button that discards a draft.
pub(crate) const DISCARD_SIZE: Vec2 = vec2(66.0, 18.0);
/// The notice stays clear of the bottom bar, and of the window's sides.
pub(crate) const NOTICE_MARGIN: f32 = 64.0;
/// Radius of a run's point.
pub(crate) const POINT_RADIUS: f32 = 5.0;
/// The largest side of a cell in the table that shows which class was taken for which.
pub(crate) const CONFUSION_CELL: f32 = 34.0;
/// A pane that is lower has one line in place of two.
pub(crate) const LOW_PANE: f32 = 230.0;
/// Side of a picture of a sample.
pub(crate) const SAMPLE_SIDE: f32 = 56.0;
/// Side of the square that is drawn in, at most.
pub(crate) const DRAWING_SIDE: f32 = 170.0;
/// The least side in a low pane.
pub(crate) const LEAST_DRAWING_SIDE: f32 = 64.0;
