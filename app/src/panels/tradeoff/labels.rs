//! The names at the points: whole if there is room, then short, then the number alone, or the day if no other run is of that
//! day; none if no form has room. The tooltip of a point has the whole name.
//!
//! Always holds: a name stays at its side of its point as long as it has room there, whatever runs come.

use std::{collections::HashMap, sync::Arc};

use eframe::egui::{FontId, Painter, Pos2, Rect, Stroke, Ui, Vec2};
use egui_plot::{PlotPoint, PlotTransform};

use super::{ACTIVE, Dot, RING, smaller::Smaller};
use crate::{
    naming,
    session::RunKey,
    theme,
    widgets::places::{Placed, Places},
};

/// Among more points only those that nothing beats, and the one that is looked at, have names: others would hide them.
const NAMES: usize = 24;
/// Letters of a whole name, and of ever shorter ones.
const LETTERS: [usize; 3] = [64, 26, 14];

/// Draws them: runs that nothing beats first. A click changes the colour of a name and not its place. `lines` are the lines of
/// the picture that no name may touch. Returns where the names are, each with the index of its point in `dots`.
pub(super) fn draw(
    ui: &Ui,
    (dots, smaller): (&[Dot<'_>], &[Smaller<'_>]),
    shown: Option<RunKey>,
    transform: &PlotTransform,
    lines: &[[Pos2; 2]],
) -> Vec<(usize, Rect)> {
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
    let id = ui.scope_id().with("sides of names");
    let known: HashMap<RunKey, Side> = ui.data(|data| data.get_temp(id)).unwrap_or_default();
    let (mut sides, mut drawn) = (HashMap::new(), Vec::new());
    // Those that have a side come first, so that a new one takes it from none.
    order.sort_by_key(|(_, dot)| (!known.contains_key(&dot.run.key), !dot.is_best, dot.run.key));
    if order.len() > NAMES {
        order.retain(|(_, dot)| dot.is_best || Some(dot.run.key) == shown);
    }
    order.truncate(NAMES);
    let names: Vec<String> = order.iter().map(|(_, dot)| dot.run.short_name()).collect();
    for (at, (index, dot)) in order.into_iter().enumerate() {
        let color = if Some(dot.run.key) == shown { palette.strong() } else { palette.weak() };
        let number = dot.run.short_label();
        let is_one = dots.iter().filter(|other| other.run.short_label() == number).count() == 1;
        let font = || FontId::proportional(theme::SMALL_TEXT);
        let texts = texts(&number, (&names, at), is_one);
        let galleys: Vec<_> = texts.into_iter().map(|text| painter.layout_no_wrap(text, font(), color)).collect();
        let sizes: Vec<Vec2> = galleys.iter().map(|galley| galley.size()).collect();
        let kept = known.get(&dot.run.key).copied();
        let Some((form, placed)) = choose(&places, index, (&sizes, is_one), kept) else { continue };
        if let Some(leader) = placed.leader {
            painter.line_segment(leader, Stroke::new(0.8, palette.weak()));
        }
        painter.galley(placed.rect.min, Arc::clone(&galleys[form]), color);
        places.take(placed.rect, placed.leader);
        drawn.push((index, placed.rect));
        sides.insert(dot.run.key, Side { side: placed.side, form });
    }
    ui.data_mut(|data| data.insert_temp(id, sides));
    let in_view = smaller.iter().enumerate().filter(|(_, smaller)| frame.contains(small(smaller)));
    in_view.for_each(|(index, smaller)| name_of_smaller(ui, &painter, &mut places, dots.len() + index, smaller));
    drawn
}

/// A smaller model's point is joined to that of its run: a name that has no room next to it is left out.
fn name_of_smaller(ui: &Ui, painter: &Painter, places: &mut Places, index: usize, smaller: &Smaller<'_>) {
    let color = theme::palette(ui).weak();
    let galley = painter.layout_no_wrap(smaller.name(), FontId::proportional(theme::SMALL_TEXT), color);
    if let Some(Placed { rect, leader: None, .. }) = places.place(index, galley.size()) {
        painter.galley(rect.min, galley, color);
        places.take(rect, None);
    }
}

/// Where a name stands at its point, and which of its forms that is.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Side {
    side: usize,
    form: usize,
}

/// The form of a name that has room, and its place: at the side that is `kept` if the form of then or a longer one has room
/// there, else the longest form at any side. A number, which is the last form where `has_number`, comes after all names.
fn choose(
    places: &Places,
    index: usize,
    (sizes, has_number): (&[Vec2], bool),
    kept: Option<Side>,
) -> Option<(usize, Placed)> {
    let names = sizes.len() - usize::from(has_number);
    let at_side = |kept: Side, forms: std::ops::Range<usize>| {
        forms.into_iter().find_map(|form| Some((form, places.place_at(index, sizes[form], kept.side)?)))
    };
    let anywhere =
        |mut forms: std::ops::Range<usize>| forms.find_map(|form| Some((form, places.place(index, sizes[form])?)));
    let named = kept.filter(|kept| kept.form < names).and_then(|kept| at_side(kept, 0..kept.form + 1));
    let number = || kept.and_then(|kept| at_side(kept, names..sizes.len()));
    named.or_else(|| anywhere(0..names)).or_else(number).or_else(|| anywhere(names..sizes.len()))
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
    use eframe::egui::pos2;

    use super::*;

    #[test]
    fn a_name_stays_at_its_side_as_long_as_it_has_room_there() {
        let point = |(x, y): &(f32, f32)| Rect::from_center_size(pos2(*x, *y), Vec2::splat(10.0));
        let picture = |width: f32, points: &[(f32, f32)]| {
            Places::new(Rect::from_min_size(Pos2::ZERO, Vec2::new(width, 100.0)), points.iter().map(point).collect())
        };
        let sizes = [Vec2::new(60.0, 12.0), Vec2::new(30.0, 12.0), Vec2::new(8.0, 12.0)];
        let choose = |places: &Places, kept| choose(places, 0, (&sizes, true), kept).expect("there is room");
        let side = |(form, placed): (usize, Placed)| Side { side: placed.side, form };
        // No room at the right for a moment: the name goes to the left, and stays there.
        let right = choose(&picture(300.0, &[(200.0, 50.0)]), None);
        assert_eq!((right.0, right.1.rect.left() > 200.0), (0, true));
        let left = choose(&picture(230.0, &[(200.0, 50.0)]), Some(side(right)));
        assert_eq!((left.0, left.1.rect.right() < 200.0), (0, true));
        let again = choose(&picture(300.0, &[(200.0, 50.0)]), Some(side(left)));
        assert_eq!(side(again), side(left));
        // Another point where it stands.
        let moved = choose(&picture(300.0, &[(200.0, 50.0), (160.0, 50.0)]), Some(side(left)));
        assert_eq!((moved.0, moved.1.leader), (0, None));
        assert_ne!(moved.1.side, left.1.side);
        // A number alone gives way to a name that has room, wherever it stands.
        let number = choose(&picture(30.0, &[(12.0, 50.0)]), None);
        assert_eq!(number.0, 2);
        assert_eq!(choose(&picture(300.0, &[(12.0, 50.0)]), Some(side(number))).0, 0);
    }

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
