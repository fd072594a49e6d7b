//! Where the names stand: a name that was in the picture stays at its side of its point, whatever names come after it. It is cut
//! short before it moves, and moves only where a point that stays covers even its number.

use eframe::egui::Vec2;

use super::words::FORMS;
use crate::{
    panels::tradeoff::{ACTIVE, RING},
    widgets::places::{Placed, Places},
};

/// The room that a mark leaves free around it for the ring, in the picture of a run that trains.
pub(super) const AROUND_MARK: f32 = ACTIVE + RING;
/// Names that found no place are tried first so many times, before a shorter form is.
const TRIES: usize = 4;

/// A name that looks for a place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sized {
    /// Its point, of those of the places.
    pub(super) point: usize,
    pub(super) forms: [Vec2; FORMS],
    /// The side that it has.
    pub(super) home: Option<usize>,
    /// Whether it stands there in the very picture that is drawn again.
    pub(super) stays: bool,
    /// Whether its point stays.
    pub(super) is_settled: bool,
}

/// A name's form and place, if it has room.
pub(super) type Found = Option<(usize, Placed)>;

/// The places of names with those names in them, and what each found. The form is the longest, from `first` on, in which all that
/// are settled have room; others may have a shorter one.
pub(super) fn settle(places: &Places, names: &[Sized], first: usize) -> (Places, Vec<Found>) {
    let (mut staying, others): (Vec<usize>, Vec<usize>) = (0..names.len()).partition(|at| names[*at].stays);
    // One that a run has joined is wider: it moves before a neighbour does.
    staying.sort_by(|a, b| names[*a].forms[FORMS - 1].x.total_cmp(&names[*b].forms[FORMS - 1].x));
    for form in first..FORMS {
        let is_last = form + 1 == FORMS;
        let (mut kept, mut found) = (places.clone(), vec![None; names.len()]);
        staying.iter().for_each(|at| found[*at] = take(&mut kept, &names[*at], form, stay));
        let yields = |at: &usize| found[*at].is_none() && names[*at].is_settled;
        if !is_last && staying.iter().any(yields) {
            continue;
        }
        let yielding = staying.iter().copied().filter(|at| found[*at].is_none());
        let mut order: Vec<usize> = yielding.chain(others.iter().copied()).collect();
        for attempt in 0..TRIES {
            let (mut tried, mut found) = (kept.clone(), found.clone());
            order.iter().for_each(|at| found[*at] = take(&mut tried, &names[*at], form, anywhere));
            let lacks = |name: &usize| found[*name].is_none() && names[*name].is_settled;
            let Some(without) = order.iter().position(lacks) else { return (tried, found) };
            if is_last && attempt + 1 == TRIES {
                return (tried, found);
            }
            order[..=without].rotate_right(1);
        }
    }
    (places.clone(), vec![None; names.len()])
}

/// Gives a name a place in a form, or one that is not settled in a shorter one.
fn take(places: &mut Places, name: &Sized, form: usize, place: fn(&Places, &Sized, usize) -> Option<Placed>) -> Found {
    let forms = if name.is_settled { form..form + 1 } else { form..FORMS };
    let found = forms.into_iter().find_map(|form| Some((form, place(places, name, form)?)));
    if let Some((_, placed)) = found {
        places.take(placed.rect, placed.leader);
    }
    found
}

/// The place of a name that stays where it is. Its number stays there as well where another point is near, as long as none
/// covers it.
fn stay(places: &Places, name: &Sized, form: usize) -> Option<Placed> {
    let (home, size) = (name.home?, name.forms[form]);
    let near = || places.closer(AROUND_MARK).stay_at(name.point, size, home);
    let free = places.place_at(name.point, size, (home, true));
    if form + 1 == FORMS { free.or_else(near) } else { free }
}

/// A place at the side that a name has, or else at any. A number stands even near to a mark that is not its own, rather than
/// nowhere.
fn anywhere(places: &Places, name: &Sized, form: usize) -> Option<Placed> {
    let (point, size) = (name.point, name.forms[form]);
    let at_home = name.home.and_then(|home| places.place_at(point, size, (home, true)));
    let free = at_home.or_else(|| places.place(point, size)).or_else(|| places.place_over_lines(point, size));
    if free.is_some() || form + 1 < FORMS {
        return free;
    }
    let near = places.closer(AROUND_MARK);
    near.place_over_lines(point, size).or_else(|| near.place_uncovered(point, size))
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Pos2, Rect, pos2};

    use super::*;

    /// A picture with points of names whose whole form is `width` wide.
    fn picture(width: f32, points: &[(f32, f32)]) -> Places {
        let point = |(x, y): &(f32, f32)| Rect::from_center_size(pos2(*x, *y), Vec2::splat(22.0));
        Places::new(Rect::from_min_size(Pos2::ZERO, Vec2::new(width, 100.0)), points.iter().map(point).collect())
    }

    fn named(point: usize, home: Option<usize>) -> Sized {
        let forms = [60.0, 40.0, 30.0, 8.0].map(|width| Vec2::new(width, 12.0));
        Sized { point, forms, home, stays: false, is_settled: true }
    }

    fn staying(point: usize, home: usize) -> Sized {
        Sized { stays: true, ..named(point, Some(home)) }
    }

    #[test]
    fn a_name_is_at_its_side_whenever_it_has_room_there() {
        let place = |places: &Places, home| settle(places, &[named(0, home)], 0).1[0].expect("there is room");
        let (form, first) = place(&picture(300.0, &[(200.0, 50.0)]), None);
        assert_eq!((form, first.rect.left() > 200.0), (0, true));
        // No room at the right in another view.
        let (form, aside) = place(&picture(230.0, &[(200.0, 50.0)]), Some(first.side));
        assert_eq!((form, aside.rect.right() < 200.0), (0, true));
        let again = place(&picture(300.0, &[(200.0, 50.0)]), Some(first.side));
        assert_eq!(again, (0, first));
        // A side that is not the best stays.
        let (_, stays) = place(&picture(300.0, &[(200.0, 50.0)]), Some(aside.side));
        assert_eq!(stays.side, aside.side);
    }

    #[test]
    fn a_name_that_is_there_is_cut_short_before_it_moves() {
        let points = [(200.0, 50.0), (256.0, 50.0), (238.0, 50.0), (222.0, 50.0)];
        // Ever nearer to the first: its name is shorter and shorter, and at last another point covers its number.
        for (other, form, stays) in [(0, 0, true), (1, 3, true), (2, 3, true), (3, 3, false)] {
            let points = if other == 0 { &points[..1] } else { &[points[0], points[other]] };
            let mut names = vec![staying(0, 0)];
            names.extend((1..points.len()).map(|point| named(point, None)));
            let (_, found) = settle(&picture(300.0, points), &names, 0);
            let (own, placed) = found[0].expect("it has a place");
            assert_eq!((own, placed.side == 0), (form, stays), "{other}: {found:?}");
            assert!(found.iter().all(Option::is_some), "{other}: {found:?}");
        }
    }

    #[test]
    fn new_names_make_room_for_those_that_are_there() {
        let points = [(100.0, 50.0), (148.0, 50.0)];
        // The second would stand at its left, where it was, if the first were not there.
        let (_, found) = settle(&picture(300.0, &points), &[named(0, Some(0)), staying(1, 1)], 0);
        assert!(found[1].is_some_and(|(_, placed)| placed.side == 1), "{found:?}");
        assert!(found[0].is_some_and(|(_, placed)| placed.side != 0), "{found:?}");
    }

    #[test]
    fn all_names_have_one_form_the_longest_for_which_there_is_room() {
        let forms = |width: f32, points: &[(f32, f32)]| -> Vec<usize> {
            let names: Vec<Sized> = (0..points.len()).map(|point| named(point, None)).collect();
            settle(&picture(width, points), &names, 0)
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
        let moving = Sized { is_settled: false, ..named(1, None) };
        let mut places = picture(300.0, &[(100.0, 50.0), (140.0, 50.0)]);
        places.passes(1);
        let (_, placed) = settle(&places, &[staying(0, 0), moving], 0);
        assert_eq!(placed[0].map(|(form, placed)| (form, placed.side)), Some((0, 0)));
        assert!(placed[1].is_some());
    }

    #[test]
    fn even_points_in_a_crowd_have_numbers() {
        let points: Vec<(f32, f32)> =
            (0..30).map(|i| (20.0 + (i % 6) as f32 * 32.0, 8.0 + (i / 6) as f32 * 20.0)).collect();
        let names: Vec<Sized> = (0..30).map(|point| named(point, None)).collect();
        let (_, found) = settle(&picture(220.0, &points), &names, FORMS - 1);
        assert!(found.iter().all(Option::is_some), "{found:?}");
    }
}
