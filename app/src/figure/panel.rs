//! A frame with two axes, and the places of values in it.

use super::{
    Figure,
    svg::{Anchor, Pen, Words, fitted, palette},
};
use crate::{
    theme::print,
    widgets::axes::{Round, round_values},
};

/// An axis: which of its values are round, and the words for one.
pub(super) struct Axis<'a> {
    pub(super) round: Round,
    pub(super) words: &'a dyn Fn(f64) -> String,
    /// Its name; empty if the words of its values say so.
    pub(super) name: &'a str,
    /// No value above it is marked: the axis is broken there.
    pub(super) broken_at: Option<f64>,
}

/// A frame in a figure, in points, with the values at its edges.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panel {
    pub(super) left: f32,
    pub(super) top: f32,
    pub(super) right: f32,
    pub(super) bottom: f32,
    x: (f64, f64),
    y: (f64, f64),
}

/// Values from `low` to `high`, with room where both are one.
fn span((low, high): (f64, f64)) -> (f64, f64) {
    if high > low { (low, high) } else { (low - 0.5, low + 0.5) }
}

impl Panel {
    /// A frame whose upper left corner is at a place.
    pub(super) fn new([left, top]: [f32; 2], [width, height]: [f32; 2], x: (f64, f64), y: (f64, f64)) -> Self {
        Self { left, top, right: left + width, bottom: top + height, x: span(x), y: span(y) }
    }

    /// Where a value of the horizontal axis lies, inside the frame.
    pub(super) fn x(&self, value: f64) -> f32 {
        let share = ((value - self.x.0) / (self.x.1 - self.x.0)).clamp(0.0, 1.0);
        self.left + (self.right - self.left) * share as f32
    }

    /// Where a value of the vertical axis lies, inside the frame.
    pub(super) fn y(&self, value: f64) -> f32 {
        let share = ((value - self.y.0) / (self.y.1 - self.y.0)).clamp(0.0, 1.0);
        self.bottom - (self.bottom - self.top) * share as f32
    }

    /// Where a point lies.
    pub(super) fn at(&self, [x, y]: [f64; 2]) -> [f32; 2] {
        [self.x(x), self.y(y)]
    }

    /// Draws grid lines at round values with their words, and the names of the axes.
    pub(super) fn axes(&self, figure: &mut Figure, x: &Axis<'_>, y: &Axis<'_>) {
        let (rule, weak) = (Pen::solid(palette().rule, print::HAIR), palette().weak());
        let small = Words::new(print::SMALL, weak);
        let least =
            |(low, high): (f64, f64), length: f32, apart: f32| (high - low) * f64::from(apart / length.max(1.0));
        let rows = round_values(y.round, least(self.y, self.bottom - self.top, print::ROW), self.y);
        for value in rows.into_iter().filter(|value| y.broken_at.is_none_or(|broken| *value <= broken)) {
            let at = self.y(value);
            figure.line([self.left, at], [self.right, at], rule);
            let text = fitted(&(y.words)(value), self.left, small);
            figure.words([self.left - 4.0, at + print::SMALL * 0.35], &text, small.at(Anchor::End));
        }
        for value in round_values(x.round, least(self.x, self.right - self.left, print::COLUMN), self.x) {
            let at = self.x(value);
            figure.line([at, self.top], [at, self.bottom], rule);
            figure.words([at, self.bottom + print::LINE - 1.0], &(x.words)(value), small.at(Anchor::Middle));
        }
        let middle = f32::midpoint(self.left, self.right);
        if !x.name.is_empty() {
            figure.words([middle, self.bottom + print::LINE * 2.0 - 2.0], x.name, small.at(Anchor::Middle));
        }
        if !y.name.is_empty() {
            figure.words([self.left - print::LABELS + 4.0, self.top - 4.0], y.name, small);
        }
    }

    /// Draws the edge.
    pub(super) fn frame(&self, figure: &mut Figure) {
        let corners = [
            [self.left, self.top],
            [self.right, self.top],
            [self.right, self.bottom],
            [self.left, self.bottom],
            [self.left, self.top],
        ];
        figure.lines(&corners, Pen::solid(palette().weak(), print::HAIR));
    }
}

impl<'a> Axis<'a> {
    /// An axis without a break.
    pub(super) fn new(round: Round, words: &'a dyn Fn(f64) -> String, name: &'a str) -> Self {
        Self { round, words, name, broken_at: None }
    }
}
