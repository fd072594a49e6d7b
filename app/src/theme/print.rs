//! Distances of figures that leave the program, in points of 1/72 inch, and how fine their pictures are.

/// The width of a figure: the width of a page's text.
pub(crate) const PAGE: f32 = 468.0;
/// The height of a chart with its axes.
pub(crate) const CHART: f32 = 230.0;
/// The height of a chart next to others.
pub(crate) const SMALL_CHART: f32 = 170.0;
/// Around a figure.
pub(crate) const EDGE: f32 = 8.0;
/// Between a mark and its words, and between two charts.
pub(crate) const BESIDE: f32 = 6.0;
/// Left of a chart: the labels of its vertical axis.
pub(crate) const LABELS: f32 = 46.0;
/// Below a chart: the labels of its horizontal axis.
pub(crate) const BELOW: f32 = 26.0;
/// The height of a line of words.
pub(crate) const LINE: f32 = 11.0;
/// The height of a bar of a layer.
pub(crate) const BAR: f32 = 9.0;
/// The side of a colour's square in a legend.
pub(crate) const SWATCH: f32 = 7.0;
/// Length of a line in a legend: two dashes and the gap between them.
pub(crate) const STRETCH: f32 = 11.0;
/// The radius of a point.
pub(crate) const DOT: f32 = 3.0;
/// Sizes of words: titles, words, labels of axes.
pub(crate) const TITLE: f32 = 10.0;
/// Words of a legend.
pub(crate) const WORDS: f32 = 8.0;
/// Labels of axes.
pub(crate) const SMALL: f32 = 7.0;
/// The width of a curve.
pub(crate) const CURVE: f32 = 1.0;
/// The width of the budget's line.
pub(crate) const BUDGET: f32 = 1.2;
/// The width of a grid line.
pub(crate) const HAIR: f32 = 0.5;
/// Grid lines are at least this far apart: on the vertical axis, and on the horizontal one.
pub(crate) const ROW: f32 = 22.0;
/// Grid lines of the horizontal axis are at least this far apart.
pub(crate) const COLUMN: f32 = 56.0;
/// Pixels an inch of a picture.
pub(crate) const DOTS_PER_INCH: f32 = 300.0;
