//! The names at the points: whole if there is room, then short, then the number alone, or the day if no other run is of that
//! day; all names are of one form, the longest in which each has room. Runs at one place share a name. The tooltip of a point has
//! the whole name, and the legend lists those whose numbers alone are there.
//!
//! Always holds: two names that are not the same are not cut to the same words; the number alone stands where they would be.
//!
//! Always holds: a name stays at its side of its point while the picture keeps its size, whatever runs come. It is cut short before
//! it moves, and moves only where a point that stays covers even its number. In a view that was moved, a name is at the first side
//! that it had, if that is free. A name has a ground of its own, so that lines do not strike it through.

mod kept;
mod settle;

use std::sync::Arc;

use eframe::egui::{Color32, FontId, Galley, Painter, Pos2, Rect, Stroke, Ui, Vec2};
use egui_plot::{PlotPoint, PlotTransform};

pub(super) use self::kept::are_numbers;
use self::{
    kept::{Picture, Sides, Told},
    settle::{Found, Sized, settle},
};
use super::{ACTIVE, Dot, RING, smaller::Smaller, together};
use crate::{
    naming,
    session::RunKey,
    theme,
    widgets::places::{Placed, Places},
};

/// Of more points only the numbers are shown: names would hide the points.
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
    /// Whether its point may move.
    is_active: bool,
    is_shown: bool,
}

/// Draws them. A click changes the colour of a name and not its place. `lines` are the lines of the picture that no name may touch,
/// and a picture that `is_whole` has axes that grow with its points. Returns where the names are, each with the index of its first
/// point in `dots`.
pub(super) fn draw(
    ui: &Ui,
    (dots, smaller): (&[Dot<'_>], &[Smaller<'_>]),
    shown: Option<RunKey>,
    (transform, is_whole): (&PlotTransform, bool),
    lines: Vec<[Pos2; 2]>,
) -> Vec<(usize, Rect)> {
    let frame = *transform.frame();
    let painter = ui.painter_at(frame);
    let palette = theme::palette(ui);
    let place = |dot: &Dot<'_>| transform.position_from_point(&PlotPoint::new(dot.at[0], dot.at[1]));
    let small = |smaller: &Smaller<'_>| transform.position_from_point(&PlotPoint::new(smaller.at[0], smaller.at[1]));
    let names = names(dots, |dot| Some(place(dot)).filter(|at| frame.contains(*at)), shown);
    let told = told(ui, dots, &names);
    let galleys = galleys(&painter, &names, &told, [palette.weak(), palette.strong()]);
    let (mut sides, stays) = Sides::of_last(ui, transform, is_whole);
    let sized = names.iter().zip(&galleys).map(|(name, forms)| Sized {
        point: name.dots[0],
        forms: forms.each_ref().map(|galley| galley.size()),
        home: sides.get(name.key, stays),
        stays: stays && sides.get(name.key, stays).is_some(),
        is_settled: !name.is_active,
    });
    let rooms = (dots.iter().map(|dot| around(place(dot))))
        .chain(smaller.iter().map(|smaller| Smaller::around(small(smaller))))
        .collect();
    let (mut places, placed) = placed(ui, dots, (frame, rooms, lines), sized.collect());
    let placed_forms: Vec<usize> = placed.iter().flatten().map(|(form, _)| *form).collect();
    let mut drawn = Vec::new();
    for ((name, forms), placed) in names.iter().zip(&galleys).zip(placed) {
        let Some((form, placed)) = placed else { continue };
        sides.stands(name.key, placed.side, placed.leader.is_some());
        if let Some([_, end]) = placed.leader {
            let is_ringed = |dot: &&usize| Some(dots[**dot].run.key) == shown;
            let ringed = name.dots.iter().find(is_ringed);
            let dot = &dots[*ringed.unwrap_or(&name.dots[0])];
            let radius = if ringed.is_some() { ring_of(dot) } else { INSIDE };
            painter.line_segment(touching(place(dot), radius, end), Stroke::new(0.8, palette.weak()));
        }
        // A point that passes by is seen, and not hidden.
        let is_passed = |dot: &Dot<'_>| dot.run.status.is_active() && mark(place(dot)).intersects(placed.rect);
        if !dots.iter().any(is_passed) {
            painter.rect_filled(placed.rect.expand(GROUND), 2.0, ui.visuals().panel_fill);
        }
        let color = if name.is_shown { palette.strong() } else { palette.weak() };
        painter.galley(placed.rect.min, Arc::clone(&forms[form]), color);
        drawn.push((name.dots[0], placed.rect));
    }
    #[cfg(test)]
    ui.data_mut(|data| {
        let seen = drawn.iter().map(|(dot, rect)| {
            let run = dots[*dot].run.key;
            let side = sides.get(run, true).expect("it has a place");
            let runs = names.iter().find(|name| name.dots[0] == *dot).map_or(0, |name| name.dots.len());
            Seen { run, runs, at: place(&dots[*dot]), rect: *rect, side }
        });
        data.insert_temp(seen_id(), seen.collect::<Vec<Seen>>());
    });
    sides.keep(ui);
    kept::note_numbers(ui, placed_forms.contains(&(FORMS - 1)));
    let in_view = smaller.iter().enumerate().filter(|(_, smaller)| frame.contains(small(smaller)));
    in_view.for_each(|(index, smaller)| name_of_smaller(ui, &painter, &mut places, dots.len() + index, smaller));
    drawn
}

/// The places of names that are drawn: first of those whose points stay, then of those that move.
fn placed(
    ui: &Ui,
    dots: &[Dot<'_>],
    (frame, rooms, lines): (Rect, Vec<Rect>, Vec<[Pos2; 2]>),
    mut names: Vec<Sized>,
) -> (Places, Vec<Found>) {
    let mut places = Places::new(frame, rooms.clone());
    lines.iter().for_each(|[from, to]| places.line(*from, *to));
    let is_active = |at: usize| dots.get(at).is_some_and(|dot| dot.run.status.is_active());
    (0..dots.len()).filter(|at| is_active(*at)).for_each(|at| places.passes(at));
    let rooms = rooms.into_iter().enumerate().filter(|(at, _)| !is_active(*at)).map(|(_, room)| room).collect();
    let first = if names.len() > NAMES { FORMS - 1 } else { 0 };
    // They are last in the order of names.
    let moving = names.split_off(names.partition_point(|name| name.is_settled));
    let (places, mut found) = kept::settled(ui, &places, Picture { frame, rooms, lines, names, first });
    if moving.is_empty() {
        return (places, found);
    }
    let (places, of_moving) = settle(&places, &moving, first);
    found.extend(of_moving);
    (places, found)
}

/// The room of a point: as large as while it trains and is looked at, so that no name moves when that begins.
fn around(at: Pos2) -> Rect {
    Rect::from_center_size(at, Vec2::splat((theme::POINT_RADIUS + ACTIVE + RING) * 2.0))
}

/// The mark of a run that trains.
fn mark(at: Pos2) -> Rect {
    Rect::from_center_size(at, Vec2::splat((theme::POINT_RADIUS + ACTIVE) * 2.0))
}

/// A name that was drawn, for tests.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Seen {
    pub(crate) run: RunKey,
    /// How many runs share it.
    pub(crate) runs: usize,
    /// Its point.
    pub(crate) at: Pos2,
    pub(crate) rect: Rect,
    /// Which of the places of its point it has.
    pub(crate) side: usize,
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

/// The names of the points that are in view, where `at` says: those of older runs first, and last those of runs that train, whose
/// points move and have names of their own.
fn names(dots: &[Dot<'_>], at: impl Fn(&Dot<'_>) -> Option<Pos2>, shown: Option<RunKey>) -> Vec<Name> {
    let is_active = |dot: &Dot<'_>| dot.run.status.is_active();
    let resting = together::by_place(dots, |dot| at(dot).filter(|_| !is_active(dot)));
    let is_moving = |dot: &Dot<'_>| dot.in_focus && is_active(dot) && at(dot).is_some();
    let moving = (0..dots.len()).filter(|dot| is_moving(&dots[*dot])).map(|dot| vec![dot]);
    let name = |here: Vec<usize>| Name {
        key: dots[here[0]].run.key,
        is_active: is_active(&dots[here[0]]),
        is_shown: here.iter().any(|dot| Some(dots[*dot].run.key) == shown),
        dots: here,
    };
    let mut names: Vec<Name> = resting.into_iter().chain(moving).map(name).collect();
    names.sort_by_key(|name| (name.is_active, name.key));
    names
}

/// The words of each name, in all forms.
fn told(ui: &Ui, dots: &[Dot<'_>], names: &[Name]) -> Arc<Told> {
    let runs = |name: &Name| name.dots.iter().map(|dot| dots[*dot].run).collect::<Vec<_>>();
    let own = names.iter().map(|name| one_name(runs(name).iter().map(|run| run.short_name())));
    let numbers = names.iter().map(|name| listed(runs(name).iter().map(|run| run.short_label()).collect()));
    kept::told(ui, own.collect(), numbers.collect(), |own, numbers| {
        let texts = (0..own.len()).map(|at| {
            let is_one = numbers.iter().filter(|number| **number == numbers[at]).count() == 1;
            texts(&numbers[at], (own, at), is_one)
        });
        unlike(texts.collect(), numbers, own)
    })
}

/// All forms of each name.
fn galleys(painter: &Painter, names: &[Name], told: &Told, [weak, strong]: [Color32; 2]) -> Vec<[Arc<Galley>; FORMS]> {
    let font = || FontId::proportional(theme::SMALL_TEXT);
    let of = |(texts, name): (&[String; FORMS], &Name)| {
        let color = if name.is_shown { strong } else { weak };
        texts.each_ref().map(|text| painter.layout_no_wrap(text.clone(), font(), color))
    };
    told.texts.iter().zip(names).map(of).collect()
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
