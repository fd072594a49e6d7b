//! The names at the points: whole if there is room, then short, then the number alone, or the day if no other run is of that
//! day; all names are of one form, the longest in which each has room. Runs at one place share a name. The tooltip of a point has
//! the whole name.
//!
//! Always holds: two names that are not the same are not cut to the same words; the number alone stands where they would be.
//!
//! Always holds: a name has a side of its point for as long as its run has a point, and stands elsewhere only while another name or
//! point is there. So names are where they were when a view that was moved is moved back. A name has a ground of its own, so that
//! lines do not strike it through.

use std::{collections::HashMap, sync::Arc};

use eframe::egui::{Color32, FontId, Galley, Painter, Pos2, Rect, Stroke, Ui, Vec2};
use egui_plot::{PlotPoint, PlotTransform};

use super::{ACTIVE, Dot, RING, smaller::Smaller, together};
use crate::{
    naming,
    session::RunKey,
    theme,
    widgets::places::{Placed, Places},
};

/// Among more points only those that nothing beats, and the one that is looked at, have names: others would hide them.
const NAMES: usize = 24;
/// Letters of a whole name, and of ever shorter ones. The form after them is the number alone.
const LETTERS: [usize; 3] = [64, 26, 14];
const FORMS: usize = LETTERS.len() + 1;
/// More runs at one place are counted.
const LISTED: usize = 3;
/// Marks of every shape reach so far in every direction.
const INSIDE: f32 = theme::POINT_RADIUS * 0.4;
/// The ground of a name hides the lines of the grid.
const GROUND: f32 = 1.0;

/// The name of the runs at one place.
struct Name {
    /// Their points, in the order of the runs.
    dots: Vec<usize>,
    key: RunKey,
    is_best: bool,
    /// Whether its point may move.
    is_active: bool,
    is_shown: bool,
}

/// Draws them. A click changes the colour of a name and not its place. `lines` are the lines of the picture that no name may touch.
/// Returns where the names are, each with the index of its first point in `dots`.
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
    let in_view = |dot: &Dot<'_>| Some(place(dot)).filter(|at| frame.contains(*at));
    let names = names(dots, together::by_place(dots, in_view), shown);
    let id = ui.scope_id().with("sides of names");
    let mut homes: HashMap<RunKey, usize> = ui.data(|data| data.get_temp(id)).unwrap_or_default();
    let galleys = galleys(&painter, dots, &names, [palette.weak(), palette.strong()]);
    let sizes: Vec<Sized> = names
        .iter()
        .zip(&galleys)
        .map(|(name, forms)| Sized {
            point: name.dots[0],
            forms: forms.each_ref().map(|galley| galley.size()),
            home: homes.get(&name.key).copied(),
            is_settled: !name.is_active,
        })
        .collect();
    let mut drawn = Vec::new();
    let (after, placed) = settle(&places, &sizes);
    places = after;
    for ((name, forms), placed) in names.iter().zip(&galleys).zip(placed) {
        let Some((form, placed)) = placed else { continue };
        if let Some([_, end]) = placed.leader {
            let is_ringed = |dot: &&usize| Some(dots[**dot].run.key) == shown;
            let ringed = name.dots.iter().find(is_ringed);
            let dot = &dots[*ringed.unwrap_or(&name.dots[0])];
            let radius = if ringed.is_some() { ring_of(dot) } else { INSIDE };
            painter.line_segment(touching(place(dot), radius, end), Stroke::new(0.8, palette.weak()));
        } else {
            homes.entry(name.key).or_insert(placed.side);
        }
        painter.rect_filled(placed.rect.expand(GROUND), 2.0, ui.visuals().panel_fill);
        let color = if name.is_shown { palette.strong() } else { palette.weak() };
        painter.galley(placed.rect.min, Arc::clone(&forms[form]), color);
        drawn.push((name.dots[0], placed.rect));
    }
    #[cfg(test)]
    ui.data_mut(|data| data.insert_temp(seen_id(), drawn.iter().map(|(_, rect)| *rect).collect::<Vec<Rect>>()));
    homes.retain(|key, _| dots.iter().any(|dot| dot.run.key == *key));
    ui.data_mut(|data| data.insert_temp(id, homes));
    let in_view = smaller.iter().enumerate().filter(|(_, smaller)| frame.contains(small(smaller)));
    in_view.for_each(|(index, smaller)| name_of_smaller(ui, &painter, &mut places, dots.len() + index, smaller));
    drawn
}

/// Where a test finds the places of the names that were drawn last.
#[cfg(test)]
pub(crate) fn seen_id() -> eframe::egui::Id {
    eframe::egui::Id::unique("names in memory against accuracy")
}

/// The radius of the ring around a point.
fn ring_of(dot: &Dot<'_>) -> f32 {
    theme::POINT_RADIUS + RING + if dot.run.status.is_active() { ACTIVE } else { 0.0 }
}

/// The line from a mark at `at`, which reaches as far as `radius` in every direction, to the name that ends it.
fn touching(at: Pos2, radius: f32, end: Pos2) -> [Pos2; 2] {
    [at + (end - at).normalized() * radius.min(at.distance(end)), end]
}

/// The names of the points, by `places`: those of older runs first, and last those of runs that train, whose points move.
fn names(dots: &[Dot<'_>], places: Vec<Vec<usize>>, shown: Option<RunKey>) -> Vec<Name> {
    let name = |here: Vec<usize>| {
        let any = |is: &dyn Fn(&Dot<'_>) -> bool| here.iter().any(|dot| is(&dots[*dot]));
        Name {
            key: dots[here[0]].run.key,
            is_best: any(&|dot| dot.is_best),
            is_active: any(&|dot| dot.run.status.is_active()),
            is_shown: any(&|dot| Some(dot.run.key) == shown),
            dots: here,
        }
    };
    let mut names: Vec<Name> = places.into_iter().map(name).collect();
    names.sort_by_key(|name| (name.is_active, name.key));
    if names.len() > NAMES {
        names.retain(|name| name.is_best || name.is_shown);
    }
    names.truncate(NAMES);
    names
}

/// All forms of each name.
fn galleys(
    painter: &Painter,
    dots: &[Dot<'_>],
    names: &[Name],
    [weak, strong]: [Color32; 2],
) -> Vec<[Arc<Galley>; FORMS]> {
    let runs = |name: &Name| name.dots.iter().map(|dot| dots[*dot].run).collect::<Vec<_>>();
    let own: Vec<String> = names.iter().map(|name| one_name(runs(name).iter().map(|run| run.short_name()))).collect();
    let numbers: Vec<String> =
        names.iter().map(|name| listed(runs(name).iter().map(|run| run.short_label()).collect())).collect();
    let texts = (0..names.len()).map(|at| {
        let is_one = numbers.iter().filter(|number| **number == numbers[at]).count() == 1;
        texts(&numbers[at], (&own, at), is_one)
    });
    let texts = unlike(texts.collect(), &numbers, &own);
    texts
        .into_iter()
        .zip(names)
        .map(|(texts, name)| {
            let color = if name.is_shown { strong } else { weak };
            texts.map(|text| painter.layout_no_wrap(text, FontId::proportional(theme::SMALL_TEXT), color))
        })
        .collect()
}

/// The name of runs at one place: what each is called, once.
fn one_name(names: impl Iterator<Item = String>) -> String {
    let mut once: Vec<String> = Vec::new();
    names.for_each(|name| {
        if !once.contains(&name) {
            once.push(name);
        }
    });
    once.join(" / ")
}

/// The numbers of runs at one place: `1, 2`, `1, 2, 3 and 4 more`.
fn listed(mut numbers: Vec<String>) -> String {
    numbers.sort_by_cached_key(|number| (number.parse::<u64>().ok(), number.clone()));
    numbers.dedup();
    match numbers.len().checked_sub(LISTED) {
        None | Some(0) => numbers.join(", "),
        Some(more) => format!("{} and {more} more", numbers[..LISTED].join(", ")),
    }
}

/// Words for a place in each form, from the longest on: one of the names in sight, whole, then short with what tells it from the
/// others. Its number alone comes last, if no other place has it.
fn texts(number: &str, (names, at): (&[String], usize), is_one: bool) -> [String; FORMS] {
    let others = || names[..at].iter().chain(&names[at + 1..]);
    let form = |letters| naming::fitting(&names[at], others(), |form| form.chars().count() <= letters);
    let [whole, short, shortest] = LETTERS.map(|letters| format!("{number}: {}", form(letters)));
    let last = if is_one { number.to_owned() } else { shortest.clone() };
    [whole, short, shortest, last]
}

/// The same, with the last form in place of one that says of two names the same where they are not: what they differ in has
/// no room in it.
fn unlike(mut texts: Vec<[String; FORMS]>, numbers: &[String], names: &[String]) -> Vec<[String; FORMS]> {
    for form in 0..FORMS - 1 {
        let words: Vec<&str> =
            texts.iter().zip(numbers).map(|(text, number)| text[form].trim_start_matches(number.as_str())).collect();
        let says_another =
            |at: &usize| (0..names.len()).any(|other| names[other] != names[*at] && words[other] == words[*at]);
        let alike: Vec<usize> = (0..names.len()).filter(says_another).collect();
        for at in alike {
            texts[at][form] = texts[at][FORMS - 1].clone();
        }
    }
    texts
}

/// A name that looks for a place.
struct Sized {
    /// Its point, of those of the places.
    point: usize,
    forms: [Vec2; FORMS],
    /// The side that it has.
    home: Option<usize>,
    /// Whether its point stays.
    is_settled: bool,
}

/// Names that found no place are tried first so many times, before a shorter form is.
const TRIES: usize = 4;

/// The places of names with those names in them, and for each its form and place, if it has room. The form is the longest in which
/// all that are settled have room; others may have a shorter one.
fn settle(places: &Places, names: &[Sized]) -> (Places, Vec<Option<(usize, Placed)>>) {
    for form in 0..FORMS {
        let mut order: Vec<usize> = (0..names.len()).collect();
        for attempt in 0..TRIES {
            let (tried, found) = placed(places, names, &order, form);
            let lacks = |name: &usize| found[*name].is_none() && names[*name].is_settled;
            let Some(without) = order.iter().position(lacks) else { return (tried, found) };
            if form + 1 == FORMS && attempt + 1 == TRIES {
                return (tried, found);
            }
            order[..=without].rotate_right(1);
        }
    }
    (places.clone(), names.iter().map(|_| None).collect())
}

/// The same in one form, one name after the other in an order.
fn placed(places: &Places, names: &[Sized], order: &[usize], form: usize) -> (Places, Vec<Option<(usize, Placed)>>) {
    let (mut tried, mut found) = (places.clone(), vec![None; names.len()]);
    for at in order {
        let name = &names[*at];
        let forms = if name.is_settled { form..form + 1 } else { form..FORMS };
        found[*at] = forms.into_iter().find_map(|form| {
            let size = name.forms[form];
            let at_home = name.home.and_then(|home| tried.place_at(name.point, size, (home, true)));
            let anywhere = || tried.place(name.point, size).or_else(|| tried.place_over_lines(name.point, size));
            Some((form, at_home.or_else(anywhere)?))
        });
        if let Some((_, placed)) = found[*at] {
            tried.take(placed.rect, placed.leader);
        }
    }
    (tried, found)
}

/// A smaller model's point is joined to that of its run: a name that has no room next to it is left out.
fn name_of_smaller(ui: &Ui, painter: &Painter, places: &mut Places, index: usize, smaller: &Smaller<'_>) {
    let color = theme::palette(ui).weak();
    let galley = painter.layout_no_wrap(smaller.name(), FontId::proportional(theme::SMALL_TEXT), color);
    if let Some(Placed { rect, leader: None, .. }) = places.place(index, galley.size()) {
        painter.rect_filled(rect.expand(GROUND), 2.0, ui.visuals().panel_fill);
        painter.galley(rect.min, galley, color);
        places.take(rect, None);
    }
}

#[cfg(test)]
mod tests {
    use eframe::egui::pos2;

    use super::*;

    /// A picture with points of names whose whole form is `width` wide.
    fn picture(width: f32, points: &[(f32, f32)]) -> Places {
        let point = |(x, y): &(f32, f32)| Rect::from_center_size(pos2(*x, *y), Vec2::splat(10.0));
        Places::new(Rect::from_min_size(Pos2::ZERO, Vec2::new(width, 100.0)), points.iter().map(point).collect())
    }

    fn named(point: usize, home: Option<usize>) -> Sized {
        let forms = [60.0, 40.0, 30.0, 8.0].map(|width| Vec2::new(width, 12.0));
        Sized { point, forms, home, is_settled: true }
    }

    #[test]
    fn a_name_is_at_its_side_whenever_it_has_room_there() {
        let place = |places: &Places, home| settle(places, &[named(0, home)]).1[0].expect("there is room");
        let (form, first) = place(&picture(300.0, &[(200.0, 50.0)]), None);
        assert_eq!((form, first.rect.left() > 200.0), (0, true));
        // No room at the right for a moment.
        let (form, aside) = place(&picture(230.0, &[(200.0, 50.0)]), Some(first.side));
        assert_eq!((form, aside.rect.right() < 200.0), (0, true));
        let again = place(&picture(300.0, &[(200.0, 50.0)]), Some(first.side));
        assert_eq!(again, (0, first));
        // Another point where it stands.
        let (_, moved) = place(&picture(300.0, &[(200.0, 50.0), (240.0, 50.0)]), Some(first.side));
        assert_ne!(moved.side, first.side);
        // A side that is not the best stays.
        let (_, stays) = place(&picture(300.0, &[(200.0, 50.0)]), Some(aside.side));
        assert_eq!(stays.side, aside.side);
    }

    #[test]
    fn all_names_have_one_form_the_longest_for_which_there_is_room() {
        let forms = |width: f32, points: &[(f32, f32)]| -> Vec<usize> {
            let names: Vec<Sized> = (0..points.len()).map(|point| named(point, None)).collect();
            settle(&picture(width, points), &names)
                .1
                .into_iter()
                .map(|placed| placed.map_or(9, |(form, _)| form))
                .collect()
        };
        assert_eq!(forms(300.0, &[(50.0, 30.0), (200.0, 70.0)]), [0, 0]);
        // The picture is too narrow for a whole name, and in the end for any.
        assert_eq!(forms(55.0, &[(20.0, 20.0), (20.0, 80.0)]), [1, 1]);
        assert_eq!(forms(25.0, &[(12.0, 20.0), (12.0, 80.0)]), [3, 3]);
        // A name of a run that trains changes none of the others.
        let mut moving = named(1, None);
        moving.is_settled = false;
        let places = picture(300.0, &[(100.0, 50.0), (297.0, 3.0)]);
        let (_, placed) = settle(&places, &[named(0, None), moving]);
        assert_eq!(placed[0].map(|(form, _)| form), Some(0));
    }

    #[test]
    fn a_name_is_whole_where_it_can_be() {
        let names = ["Digits, batch 64, checkpoint every block", "Digits, batch 32"].map(str::to_owned);
        let whole = format!("3: {}", names[0]);
        let told = texts("3", (&names, 0), true);
        assert_eq!((&told[0], told[3].as_str()), (&whole, "3"));
        assert!(told.is_sorted_by_key(|text| std::cmp::Reverse(text.chars().count())), "{told:?}");
        assert!(told[1].chars().count() <= 29 && told[1].starts_with("3: … "), "{told:?}");
        assert_eq!(texts("4", (&names, 1), true)[2..], ["4: … batch 32", "4"]);
        let of_day = texts("22 Nov", (&names, 0), false);
        assert_eq!(of_day[3], of_day[2], "a day of several tells none of them");
    }

    #[test]
    fn two_short_names_of_different_runs_are_never_equal_but_for_their_numbers() {
        let names = ["micro-batch 256, width 64", "micro-batch 256, width 128", "seed 6"].map(str::to_owned);
        let numbers = ["4", "5", "6"].map(str::to_owned);
        let forms = |words: [&str; 3]| {
            let form = |(number, words): (&String, &str)| {
                let short = format!("{number}: {words}");
                [format!("{number}: whole {number}"), short.clone(), short, number.clone()]
            };
            numbers.iter().zip(words).map(form).collect::<Vec<_>>()
        };
        let cut = unlike(forms(["micro… 256 …", "micro… 256 …", "seed 6"]), &numbers, &names);
        assert_eq!([&cut[0], &cut[1]].map(|forms| forms[1].as_str()), ["4", "5"]);
        assert_eq!((cut[0][0].as_str(), cut[2][1].as_str()), ("4: whole 4", "6: seed 6"));
        // Runs of the same settings have the same name.
        let same = [names[0].clone(), names[0].clone(), names[2].clone()];
        let kept = forms(["micro… 256 …", "micro… 256 …", "seed 6"]);
        assert_eq!(unlike(kept.clone(), &numbers, &same), kept);
    }

    #[test]
    fn a_leader_touches_its_point_and_its_name() {
        let [from, end] = touching(pos2(50.0, 50.0), INSIDE, pos2(80.0, 50.0));
        assert_eq!((from, end), (pos2(50.0 + INSIDE, 50.0), pos2(80.0, 50.0)));
        // A triangle is no nearer to its middle than half of its radius.
        assert!(from.x < 50.0 + theme::POINT_RADIUS / 2.0);
    }

    #[test]
    fn runs_at_one_place_share_a_name() {
        let list = |numbers: &[&str]| listed(numbers.iter().map(|number| (*number).to_owned()).collect());
        assert_eq!([list(&["10", "2"]), list(&["22 Nov", "22 Nov"])], ["2, 10", "22 Nov"]);
        assert_eq!(list(&["1", "2", "3", "4", "7"]), "1, 2, 3 and 2 more");
        let name = |names: &[&str]| one_name(names.iter().map(|name| (*name).to_owned()));
        assert_eq!([name(&["CNN", "CNN"]), name(&["seed 1", "seed 2"])], ["CNN", "seed 1 / seed 2"]);
    }
}
