//! The names at the points: whole if there is room, then short, then the number alone, or the day if no other run is of that
//! day; all names are of one form, the longest in which each has room. Runs at one place share a name, and so do runs of which one
//! has no room even for its number. The tooltip of a point has the whole name, and the legend lists those whose numbers alone are
//! there. Where many points are in view, only those that nothing beats have names, if there is room next to them.
//!
//! Always holds: two names that are not the same are not cut to the same words; the number alone stands where they would be.
//!
//! Always holds: a name stays at its side of its point while the picture keeps its size, whatever runs come. It is cut short before
//! it moves, and moves only where a point that stays covers even its number. In a view that was moved, a name is at the first side
//! that it had, if that is free. A name has a ground of its own, so that lines do not strike it through.

mod joined;
mod kept;
mod settle;
mod words;

use std::sync::Arc;

use eframe::egui::{Color32, FontId, Galley, Painter, Pos2, Rect, Stroke, Ui, Vec2};
use egui_plot::{PlotPoint, PlotTransform};

pub(super) use self::kept::are_numbers;
use self::{
    kept::{Picture, Sides, Told},
    settle::{Found, Sized, settle},
    words::{FORMS, in_order, listed, one_name, texts, unlike},
};
use super::{ACTIVE, Dot, RING, smaller::Smaller, together};
use crate::{
    session::{RunKey, RunRecord},
    theme,
    widgets::places::{Placed, Places},
};

/// Of more points only the numbers are shown: names would hide the points.
const NAMES: usize = 24;
/// Of more points in view only those that nothing beats are named: names of the others would hide the picture.
pub(crate) const CROWD: usize = 40;
/// Marks of every shape reach so far in every direction.
const INSIDE: f32 = theme::POINT_RADIUS * 0.4;
/// The ground of a name hides the lines of the grid.
const GROUND: f32 = 1.0;

/// The name of the runs at one place, and of those that joined them.
struct Name {
    /// Their points, in the order of the runs: first those at the place of the name.
    dots: Vec<usize>,
    key: RunKey,
    /// Whether its point may move.
    is_active: bool,
    is_shown: bool,
}

/// A name in the picture.
pub(super) struct Named {
    /// The points that it is the name of.
    pub(super) dots: Vec<usize>,
    pub(super) rect: Rect,
}

/// The names with their places.
struct Laid {
    names: Vec<Name>,
    galleys: Vec<[Arc<Galley>; FORMS]>,
    places: Places,
    found: Vec<Found>,
}

/// Draws them. A click changes the colour of a name and not its place. `lines` are the lines of the picture that no name may touch,
/// and a picture that `is_whole` has axes that grow with its points. Returns where the names are.
pub(super) fn draw(
    ui: &Ui,
    (dots, smaller): (&[Dot<'_>], &[Smaller<'_>]),
    shown: Option<RunKey>,
    (transform, is_whole): (&PlotTransform, bool),
    lines: Vec<[Pos2; 2]>,
) -> Vec<Named> {
    let frame = *transform.frame();
    let painter = ui.painter_at(frame);
    let palette = theme::palette(ui);
    let place = |dot: &Dot<'_>| transform.position_from_point(&PlotPoint::new(dot.at[0], dot.at[1]));
    let at: Vec<Pos2> = dots.iter().map(place).collect();
    let small = |smaller: &Smaller<'_>| transform.position_from_point(&PlotPoint::new(smaller.at[0], smaller.at[1]));
    let rooms: Vec<Rect> =
        at.iter().copied().map(around).chain(smaller.iter().map(|smaller| Smaller::around(small(smaller)))).collect();
    let is_crowd = is_crowd(dots, &at, frame);
    let (mut sides, stays) = Sides::of_last(ui, transform, is_whole, is_crowd);
    let lay = |sides: &Sides| laid(ui, (dots, &at, shown), (sides, stays, is_crowd), (frame, &rooms, &lines));
    let mut laid = lay(&sides);
    while !is_crowd && let Some((name, host)) = joined::next(&painter, dots, &at, &laid) {
        sides.join(name, host);
        laid = lay(&sides);
    }
    let Laid { names, galleys, mut places, found } = laid;
    let are_numbers = found.iter().flatten().any(|(form, _)| *form == FORMS - 1);
    let mut drawn = Vec::new();
    for ((name, forms), found) in names.into_iter().zip(&galleys).zip(found) {
        let Some((form, placed)) = found.filter(|(_, placed)| !is_crowd || placed.leader.is_none()) else { continue };
        sides.stands(name.key, (placed.side, placed.leader.is_some()), !name.is_active);
        leaders(&painter, (dots, &at, shown), &name, &placed, palette.weak());
        // A point that passes by is seen, and not hidden.
        let is_passed = |(dot, at): (&Dot<'_>, &Pos2)| dot.run.status.is_active() && mark(*at).intersects(placed.rect);
        if !dots.iter().zip(&at).any(is_passed) {
            painter.rect_filled(placed.rect.expand(GROUND), 2.0, ui.visuals().panel_fill);
        }
        let color = if name.is_shown { palette.strong() } else { palette.weak() };
        painter.galley(placed.rect.min, Arc::clone(&forms[form]), color);
        drawn.push(Named { dots: name.dots, rect: placed.rect });
    }
    #[cfg(test)]
    Seen::note(ui, (dots, &at), &drawn, &sides);
    sides.keep(ui);
    kept::note_numbers(ui, are_numbers);
    let in_view = smaller.iter().enumerate().filter(|(_, smaller)| frame.contains(small(smaller)));
    in_view.for_each(|(index, smaller)| name_of_smaller(ui, &painter, &mut places, dots.len() + index, smaller));
    drawn
}

/// The points with their places in the picture, and the run that is looked at.
type Points<'a> = (&'a [Dot<'a>], &'a [Pos2], Option<RunKey>);

/// Finds a place for each name.
fn laid(
    ui: &Ui,
    (dots, at, shown): Points<'_>,
    (sides, stays, is_crowd): (&Sides, bool, bool),
    (frame, rooms, lines): (Rect, &[Rect], &[[Pos2; 2]]),
) -> Laid {
    let palette = theme::palette(ui);
    let names = names((dots, at, shown), frame, (sides, is_crowd));
    let told = told(ui, dots, &names);
    let galleys = galleys(ui.painter(), &names, &told, [palette.weak(), palette.strong()]);
    let sized = names.iter().zip(&galleys).map(|(name, forms)| Sized {
        point: name.dots[0],
        forms: forms.each_ref().map(|galley| galley.size()),
        home: sides.get(name.key, stays),
        stays: stays && (name.is_active || sides.is_settled(name.key)),
        is_settled: !name.is_active,
    });
    let (places, found) = placed(ui, (dots, is_crowd), (frame, rooms.to_vec(), lines.to_vec()), sized.collect());
    Laid { names, galleys, places, found }
}

/// The lines from points to their name, where it has no place next to them.
fn leaders(painter: &Painter, (dots, at, shown): Points<'_>, name: &Name, placed: &Placed, color: Color32) {
    let is_ringed = |dot: usize| Some(dots[dot].run.key) == shown;
    let line = |dot: usize, end: Pos2| {
        let radius = if is_ringed(dot) { ring_of(&dots[dot]) } else { INSIDE };
        painter.line_segment(touching(at[dot], radius, end), Stroke::new(0.8, color));
    };
    let (here, joined): (Vec<usize>, Vec<usize>) =
        name.dots.iter().partition(|dot| together::is_one(at[**dot], at[name.dots[0]]));
    if let Some([_, end]) = placed.leader {
        line(here.iter().copied().find(|dot| is_ringed(*dot)).unwrap_or(here[0]), end);
    }
    joined.into_iter().for_each(|dot| line(dot, placed.rect.clamp(at[dot])));
}

/// The places of names that are drawn: first of those whose points stay, then of those that move.
fn placed(
    ui: &Ui,
    (dots, is_crowd): (&[Dot<'_>], bool),
    (frame, rooms, lines): (Rect, Vec<Rect>, Vec<[Pos2; 2]>),
    mut names: Vec<Sized>,
) -> (Places, Vec<Found>) {
    let mut places = Places::new(frame, rooms.clone());
    lines.iter().for_each(|[from, to]| places.line(*from, *to));
    let is_active = |at: usize| dots.get(at).is_some_and(|dot| dot.run.status.is_active());
    (0..dots.len()).filter(|at| is_active(*at)).for_each(|at| places.passes(at));
    let rooms = rooms.into_iter().enumerate().filter(|(at, _)| !is_active(*at)).map(|(_, room)| room).collect();
    let first = if is_crowd || names.len() > NAMES { FORMS - 1 } else { 0 };
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
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) run: RunKey,
    /// All runs that it is the name of.
    pub(crate) runs: Vec<RunKey>,
    /// How many of them lie elsewhere.
    pub(crate) joined: usize,
    /// Its point.
    pub(crate) at: Pos2,
    pub(crate) rect: Rect,
    /// Which of the places of its point it has.
    pub(crate) side: usize,
}

#[cfg(test)]
impl Seen {
    fn note(ui: &Ui, (dots, at): (&[Dot<'_>], &[Pos2]), drawn: &[Named], sides: &Sides) {
        let seen = drawn.iter().map(|Named { dots: own, rect }| {
            let runs: Vec<RunKey> = own.iter().map(|dot| dots[*dot].run.key).collect();
            let joined = own.iter().filter(|dot| !together::is_one(at[**dot], at[own[0]])).count();
            let side = sides.get(runs[0], true).expect("it has a place");
            Self { run: runs[0], runs, joined, at: at[own[0]], rect: *rect, side }
        });
        let seen: Vec<Self> = seen.collect();
        ui.data_mut(|data| data.insert_temp(seen_id(), seen));
    }
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

/// Whether more points are in view than can be named.
fn is_crowd(dots: &[Dot<'_>], at: &[Pos2], frame: Rect) -> bool {
    dots.iter().zip(at).filter(|(dot, at)| dot.in_focus && frame.contains(**at)).count() > CROWD
}

/// The names of the points that are in view, in a crowd of those that nothing beats: the names of older runs first, and last those
/// of runs that train, whose points move and have names of their own.
fn names((dots, at, shown): Points<'_>, frame: Rect, (sides, is_crowd): (&Sides, bool)) -> Vec<Name> {
    let is_active = |dot: usize| dots[dot].run.status.is_active();
    let seen = |dot: usize| Some(at[dot]).filter(|at| frame.contains(*at));
    let is_named = |dot: usize| !is_active(dot) && (!is_crowd || dots[dot].is_best);
    let resting = together::by_place(dots, |dot| seen(dot).filter(|_| is_named(dot)));
    let is_moving = |dot: &usize| dots[*dot].in_focus && is_active(*dot) && seen(*dot).is_some();
    let moving = (0..dots.len()).filter(is_moving).map(|dot| vec![dot]);
    let name = |here: Vec<usize>| Name {
        key: dots[here[0]].run.key,
        is_active: is_active(here[0]),
        is_shown: here.iter().any(|dot| Some(dots[*dot].run.key) == shown),
        dots: here,
    };
    let names: Vec<Name> = resting.into_iter().chain(moving).map(name).collect();
    let mut names = joined::to_hosts(names, |run| sides.host(run).filter(|_| !is_crowd));
    names.sort_by_key(|name| (name.is_active, name.key));
    names
}

/// The words of each name, in all forms.
fn told(ui: &Ui, dots: &[Dot<'_>], names: &[Name]) -> Arc<Told> {
    // In the order of their numbers, which stand before them.
    let runs = |name: &Name| {
        let mut runs: Vec<&RunRecord> = name.dots.iter().map(|dot| dots[*dot].run).collect();
        runs.sort_by_cached_key(|run| in_order(run.short_label()));
        runs
    };
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
    fn a_leader_touches_its_point_and_its_name() {
        let [from, end] = touching(pos2(50.0, 50.0), INSIDE, pos2(80.0, 50.0));
        assert_eq!((from, end), (pos2(50.0 + INSIDE, 50.0), pos2(80.0, 50.0)));
        // A triangle is no nearer to its middle than half of its radius.
        assert!(from.x < 50.0 + theme::POINT_RADIUS / 2.0);
    }
}
