//! A confusion matrix: a table for few classes, the most frequent mistakes for many.
//!
//! Always holds: a row is a class of the labels, a column one of the answers; a cell is a button that leafs through its
//! samples.

use std::f32::consts::FRAC_PI_2;

use eframe::egui::{
    Align2, Button, Color32, CornerRadius, FontId, Label, Pos2, Rect, RichText, Role, Sense, Ui, WidgetInfo,
    epaint::TextShape, lerp, pos2, vec2,
};
use plimsoll_engine::{
    experiment::Task,
    train::{Answers, Evaluation},
};

use crate::{
    format, theme,
    view::{Leaf, TryPart, View},
    widgets::{text, tip::Tip as _},
};

/// The most classes for which the whole table is shown.
const MOST_SHOWN: usize = 20;
/// Mistakes that are listed of more classes.
const LISTED: usize = 40;
/// What stands where in the table.
pub(super) const ABOUT: &str = "Rows: the class. Columns: the answer. At the end: how much of the class is right.";
/// In a part that is lower, the table has all of the room: what stands where is said by the button above it.
const LOW: f32 = 150.0;
/// Of the room in sight, turned heads take no more than this share: longer names lose their middle.
const HEADS: f32 = 0.5;
/// The least side of a cell.
const LEAST_CELL: f32 = 18.0;
/// The highest head of a column, where it is turned.
const MOST_HEAD: f32 = 90.0;

/// Draws the part; this much of it is in sight.
pub(super) fn ui(ui: &mut Ui, view: &mut View, evaluation: &Evaluation, height: f32) {
    let Some(answers) = &evaluation.answers else { return };
    let classes = answers.classes.len();
    if classes <= MOST_SHOWN {
        table(ui, view, evaluation, answers, height);
        return;
    }
    ui.label(RichText::new("The most frequent mistakes").strong());
    for (count, label, answer) in mistakes(answers).into_iter().take(LISTED) {
        let names = &evaluation.class_names;
        let words = format!("{} taken for {}: {}", names[label], names[answer], times(count));
        if ui.add(Button::new(words).frame(false)).clicked() {
            leaf_through(view, [label, answer]);
        }
    }
}

/// Pairs of classes that were taken for each other, the most frequent first.
fn mistakes(answers: &Answers) -> Vec<(u64, usize, usize)> {
    let classes = answers.classes.len();
    let pairs = (0..classes * classes).map(|at| (at / classes, at % classes)).filter(|(a, b)| a != b);
    let mut mistakes: Vec<_> = pairs.map(|(a, b)| (answers.confused(a, b), a, b)).filter(|pair| pair.0 > 0).collect();
    mistakes.sort_by_key(|(count, a, b)| (std::cmp::Reverse(*count), *a, *b));
    mistakes
}

fn leaf_through(view: &mut View, pair: [usize; 2]) {
    let tried = &mut view.try_out;
    (tried.part, tried.taken_for, tried.page) = (TryPart::Samples, Some(pair), 0);
    tried.leaf = Leaf::All;
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{} times", format::count(count)) }
}

/// Where the table is, and what it is written with.
struct Grid {
    /// The left and upper corner of the cells.
    corner: Pos2,
    side: f32,
    /// Where the column of the shares ends.
    right: f32,
    /// How long a head of the columns may be where they are turned, and read upwards: one of them is wider than its column.
    turned: Option<f32>,
    font: FontId,
}

impl Grid {
    /// Takes the room of a table of `names`: what is in sight, unless a cell would hold no figure then.
    fn new(ui: &mut Ui, names: &[String], height: f32) -> Self {
        let font = FontId::proportional(theme::SMALL_TEXT);
        let widest = names.iter().map(|name| text::width(ui, name, &font)).fold(0.0, f32::max);
        let figure = text::width(ui, "100.0%", &font) + theme::GAP;
        let (beside, classes) = (widest + theme::GAP, names.len() as f32);
        let room = (ui.available_width() - beside - figure - theme::WIDE_GAP) / classes;
        let side = |head: f32| room.min((height - head) / classes).clamp(LEAST_CELL, theme::CONFUSION_CELL);
        let level = side(height / (classes + 1.0));
        let same = same_beginning(names);
        let is_turned =
            names.iter().any(|name| head(name, same, |text| text::width(ui, text, &font) <= level).is_none());
        let turned = is_turned.then(|| widest.min(MOST_HEAD).min(height * HEADS).max(level));
        let above = turned.map_or(level, |longest| longest + theme::GAP);
        let side = if is_turned { side(above) } else { level };
        let size = vec2(beside + side * classes + figure, above + side * classes);
        let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
        Self { corner: rect.min + vec2(beside, above), side, right: rect.right(), turned, font }
    }

    fn write(&self, ui: &Ui, at: Pos2, align: Align2, words: &str, color: Color32) {
        ui.painter().text(at, align, words, self.font.clone(), color);
    }

    /// The names of the classes, and the share of each that is right.
    fn names(&self, ui: &Ui, names: &[String], answers: &Answers) {
        let (palette, corner) = (theme::palette(ui), self.corner);
        (0..names.len()).for_each(|at| self.head(ui, names, at));
        for (at, name) in names.iter().enumerate() {
            let middle = (at as f32 + 0.5) * self.side;
            let left = pos2(corner.x - theme::GAP, corner.y + middle);
            self.write(ui, left, Align2::RIGHT_CENTER, name, palette.strong());
            let recall = answers.classes[at].recall().map_or("-".to_owned(), format::share);
            let right = pos2(self.right, corner.y + middle);
            self.write(ui, right, Align2::RIGHT_CENTER, &recall, palette.strong());
        }
    }
}

impl Grid {
    /// The head of a column; what is left out of a name is shown on hover.
    fn head(&self, ui: &Ui, names: &[String], at: usize) {
        let (name, color) = (&names[at], theme::palette(ui).strong());
        let foot = self.corner + vec2((at as f32 + 0.5) * self.side, -theme::GAP / 2.0);
        let width = |words: &str| text::width(ui, words, &self.font);
        let (short, place) = if let Some(longest) = self.turned {
            let short = text::shortened(name, |words| width(words) <= longest);
            let galley = ui.painter().layout_no_wrap(short.clone(), self.font.clone(), color);
            let (left, size) = (pos2(foot.x - galley.size().y / 2.0, foot.y), galley.size());
            ui.painter().add(TextShape::new(left, galley, color).with_angle(-FRAC_PI_2));
            (short, vec2(size.y, size.x))
        } else {
            let short = head(name, same_beginning(names), |words| width(words) <= self.side);
            let short = short.unwrap_or_else(|| name.clone());
            self.write(ui, foot, Align2::CENTER_BOTTOM, &short, color);
            (short, vec2(self.side, self.side))
        };
        let head = Rect::from_center_size(foot - vec2(0.0, place.y / 2.0), place);
        let response = ui.interact(head, ui.scope_id().with(("head", at)), Sense::hover());
        response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("Answered as {name}")));
        if short != *name {
            response.tip(name);
        }
    }
}

/// The name of a class as it stands level over its column: whole, or without the `same` bytes that all names begin with, which
/// distinguish none of them; `None` if neither fits.
fn head(name: &str, same: usize, fits: impl Fn(&str) -> bool) -> Option<String> {
    let rest = (same > 0).then(|| format!("…{}", &name[same..]));
    std::iter::once(name.to_owned()).chain(rest).find(|words| fits(words))
}

fn table(ui: &mut Ui, view: &mut View, evaluation: &Evaluation, answers: &Answers, height: f32) {
    let (names, classes) = (&evaluation.class_names, answers.classes.len());
    let is_mask = evaluation.task == Task::Mask;
    let top = ui.cursor().top();
    if height >= LOW {
        ui.add(Label::new(RichText::new(ABOUT).small().weak()).wrap());
    }
    let grid = Grid::new(ui, names, height - (ui.cursor().top() - top));
    grid.names(ui, names, answers);
    for label in 0..classes {
        for answer in 0..classes {
            let count = answers.confused(label, answer);
            let words = format!("{} answered as {}: {}", names[label], names[answer], times(count));
            let share = count as f32 / answers.classes[label].labels.max(1) as f32;
            // Pixels of a mask are not leafed through.
            let leads = count > 0 && !is_mask;
            let shown = if is_mask { format::share(f64::from(share)) } else { count.to_string() };
            let shown = if count == 0 { String::new() } else { shown };
            if cell(ui, &grid, [label, answer], leads, (&shown, share), &words) {
                leaf_through(view, [label, answer]);
            }
        }
    }
}

/// A cell of the table; whether it was clicked. A cell that leads nowhere is not a stop for the keyboard.
fn cell(
    ui: &Ui,
    grid: &Grid,
    [label, answer]: [usize; 2],
    leads: bool,
    (shown, share): (&str, f32),
    words: &str,
) -> bool {
    let min = grid.corner + vec2(answer as f32, label as f32) * grid.side;
    let rect = Rect::from_min_size(min, vec2(grid.side, grid.side)).shrink(0.5);
    let sense = if leads { Sense::click() } else { Sense::hover() };
    let response = ui.interact(rect, ui.scope_id().with((label, answer)), sense);
    let role = if leads { Role::Button } else { Role::Label };
    response.widget_info(|| WidgetInfo::labeled(role, true, words));
    let (fill, ink) = colors(ui, share, label == answer);
    ui.painter().rect_filled(rect, CornerRadius::same(2), fill);
    let percent = if shown.is_empty() { String::new() } else { format!("{:.0}%", share * 100.0) };
    let fits = |words: &&str| text::width(ui, words, &grid.font) <= grid.side;
    // Without room for either, the fill says it, and the words on hover.
    let shown = [shown, &percent].into_iter().find(fits).unwrap_or_default();
    grid.write(ui, rect.center(), Align2::CENTER_CENTER, shown, ink);
    response.tip(words).clicked()
}

/// The fill of a cell and the colour of its figure: right answers and mistakes, the fuller the more there are.
fn colors(ui: &Ui, share: f32, is_right: bool) -> (Color32, Color32) {
    let palette = theme::palette(ui);
    if share == 0.0 {
        return (palette.trough.gamma_multiply(0.6), palette.weak());
    }
    let full = if is_right { palette.good } else { palette.bad };
    let strength = lerp(0.22..=0.62, share.sqrt());
    (palette.pane.lerp_to_gamma(full, strength), palette.strong())
}

/// Bytes that all names begin with, where every name goes on after them.
fn same_beginning(names: &[String]) -> usize {
    let Some((first, others)) = names.split_first() else { return 0 };
    let same = |name: &String| first.char_indices().zip(name.chars()).take_while(|((_, a), b)| a == b).count();
    let count = others.iter().map(same).min().unwrap_or_default();
    let shortest = names.iter().map(|name| name.chars().count()).min().unwrap_or_default();
    first.char_indices().nth(count).filter(|_| count < shortest).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::{head, same_beginning};

    #[test]
    fn a_head_that_has_no_room_is_not_cut_but_turned() {
        let level = |name: &str, same, most: usize| head(name, same, |words| words.chars().count() <= most);
        assert_eq!(level("ring", 0, 4).as_deref(), Some("ring"));
        assert_eq!(level("thing 12", 6, 4).as_deref(), Some("…12"));
        assert_eq!([level("triangle", 0, 4), level("thing 12345", 6, 4)], [None, None]);
    }

    #[test]
    fn what_all_names_begin_with_is_left_out_where_each_goes_on() {
        let of = |names: &[&str]| same_beginning(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["thing 0", "thing 1", "thing 12"]), 6);
        assert_eq!(of(&["été 1", "été 2"]), "été ".len());
        assert_eq!([of(&["ring", "rings"]), of(&["cat", "dog"]), of(&["one"]), of(&[])], [0; 4]);
    }
}
