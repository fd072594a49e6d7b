//! The names at the points: whole if there is room, then short, then the number alone, or the day if no other run is of that
//! day; none if no form has room. The tooltip of a point has the whole name.

use eframe::egui::{FontId, Pos2, Rect, Stroke, Ui, Vec2, pos2};
use egui_plot::{PlotPoint, PlotTransform};

use super::{ACTIVE, Dot, RING, smaller::Smaller};
use crate::{naming, session::RunKey, theme, widgets::places::Places};

/// Among more points only those that nothing beats, and the one that is looked at, have names: others would hide them.
const NAMES: usize = 24;
/// Letters of a whole name, and of ever shorter ones.
const LETTERS: [usize; 3] = [64, 26, 14];

/// Draws them: runs that nothing beats first. A click changes the colour of a name and not its place. `lines` are the lines of
/// the picture that no name may touch.
pub(super) fn draw(
    ui: &Ui,
    (dots, smaller): (&[Dot<'_>], &[Smaller<'_>]),
    shown: Option<RunKey>,
    transform: &PlotTransform,
    lines: &[[Pos2; 2]],
) {
    let frame = *transform.frame();
    let painter = ui.painter_at(frame);
    let palette = theme::palette(ui);
    let place = |dot: &Dot<'_>| transform.position_from_point(&PlotPoint::new(dot.at[0], dot.at[1]));
    // Each as large as while it trains and is looked at: no name moves when that begins.
    let radius = theme::POINT_RADIUS + ACTIVE + RING;
    let around = |dot: &Dot<'_>| Rect::from_center_size(place(dot), Vec2::splat(radius * 2.0));
    let small = |smaller: &Smaller<'_>| transform.position_from_point(&PlotPoint::new(smaller.at[0], smaller.at[1]));
    let rooms = dots.iter().map(around).chain(smaller.iter().map(|smaller| Smaller::around(small(smaller))));
    let mut places = Places::new(frame, rooms.collect());
    lines.iter().for_each(|[from, to]| places.line(*from, *to));
    let in_view = dots.iter().enumerate().filter(|(_, dot)| dot.in_focus && frame.contains(place(dot)));
    let mut order: Vec<(usize, &Dot<'_>)> = in_view.collect();
    order.sort_by_key(|(_, dot)| (!dot.is_best, dot.run.key));
    if order.len() > NAMES {
        order.retain(|(_, dot)| dot.is_best || Some(dot.run.key) == shown);
    }
    order.truncate(NAMES);
    let names: Vec<String> = order.iter().map(|(_, dot)| dot.run.short_name()).collect();
    for (at, (index, dot)) in order.into_iter().enumerate() {
        let color = if Some(dot.run.key) == shown { palette.strong() } else { palette.weak() };
        let number = dot.run.short_label();
        let is_one = dots.iter().filter(|other| other.run.short_label() == number).count() == 1;
        for text in texts(&number, (&names, at), is_one) {
            let galley = painter.layout_no_wrap(text, FontId::proportional(theme::SMALL_TEXT), color);
            let Some((rect, leader)) = places.place(index, galley.size()) else { continue };
            if let Some(leader) = leader {
                painter.line_segment(leader, Stroke::new(0.8, palette.weak()));
            }
            painter.galley(pos2(rect.left(), rect.top()), galley, color);
            places.take(rect, leader);
            break;
        }
    }
    // A smaller model's point is joined to that of its run: a name that has no room next to it is left out.
    for (index, smaller) in smaller.iter().enumerate().filter(|(_, smaller)| frame.contains(small(smaller))) {
        let font = FontId::proportional(theme::SMALL_TEXT);
        let galley = painter.layout_no_wrap(smaller.name(), font, palette.weak());
        if let Some((rect, None)) = places.place(dots.len() + index, galley.size()) {
            painter.galley(pos2(rect.left(), rect.top()), galley, palette.weak());
            places.take(rect, None);
        }
    }
}

/// Words for a point, the best first: one of the names in sight, whole, then short with what tells it from the others. Its number
/// alone comes last, if no other point has it.
fn texts(number: &str, (names, at): (&[String], usize), is_one: bool) -> Vec<String> {
    let others = || names[..at].iter().chain(&names[at + 1..]);
    let form = |letters| naming::fitting(&names[at], others(), |form| form.chars().count() <= letters);
    let mut named: Vec<String> = LETTERS.iter().map(|letters| format!("{number}: {}", form(*letters))).collect();
    named.dedup();
    named.into_iter().chain(is_one.then(|| number.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_whole_where_it_can_be() {
        let names = ["Digits, batch 64, checkpoint every block", "Digits, batch 32"].map(str::to_owned);
        let whole = format!("3: {}", names[0]);
        let told = texts("3", (&names, 0), true);
        assert_eq!((told.first(), told.last().map(String::as_str)), (Some(&whole), Some("3")));
        assert!(told.is_sorted_by_key(|text| std::cmp::Reverse(text.chars().count())), "{told:?}");
        assert!(told[1].chars().count() <= 29 && told[1].starts_with("3: … "), "{told:?}");
        assert_eq!(texts("4", (&names, 1), true), ["4: Digits, batch 32", "4: … batch 32", "4"]);
        assert_eq!(texts("22 Nov", (&names, 0), false).len(), 2, "a day of several tells none of them");
    }
}
