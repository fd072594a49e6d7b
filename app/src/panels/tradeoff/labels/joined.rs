//! Names that stand with another: in a crowd a point may have no room even for its number. That is told in the name of a point
//! near it, with a line from the point to it. Nothing that is in the picture moves for it as long as there is a name next to which
//! it has room.

use eframe::egui::{Color32, FontId, Painter, Pos2};

use super::{Dot, Laid, Name, settle::AROUND_MARK, words::listed};
use crate::{
    session::RunKey,
    theme,
    widgets::places::{Placed, Places},
};

/// The names, each with those that joined it. `host` says which run's name one stands with.
pub(super) fn to_hosts(names: Vec<Name>, host: impl Fn(RunKey) -> Option<RunKey>) -> Vec<Name> {
    let keys: Vec<RunKey> = names.iter().filter(|name| !name.is_active).map(|name| name.key).collect();
    let host = |run: &RunKey| host(*run).filter(|host| keys.contains(host));
    let last_host = |name: &Name| {
        let hosts = std::iter::successors(Some(name.key), host).take(keys.len());
        if name.is_active { name.key } else { hosts.last().unwrap_or(name.key) }
    };
    let (mut own, others): (Vec<Name>, Vec<Name>) = names.into_iter().partition(|name| last_host(name) == name.key);
    for name in others {
        let last = last_host(&name);
        if let Some(host) = own.iter_mut().find(|own| own.key == last) {
            host.dots.extend(name.dots);
            host.is_shown |= name.is_shown;
        }
    }
    own
}

/// A name that has no place, and the one that it is to join: the nearest whose own place has room for both, or else the nearest.
pub(super) fn next(painter: &Painter, dots: &[Dot<'_>], at: &[Pos2], laid: &Laid) -> Option<(RunKey, RunKey)> {
    let Laid { names, places, found, .. } = laid;
    let without = names.iter().zip(found).find(|(name, found)| found.is_none() && !name.is_active);
    let (without, _) = without?;
    let away = |name: &Name| at[name.dots[0]].distance_sq(at[without.dots[0]]);
    let placed = |(name, found)| Some((name, found?)).filter(|(name, _): &(&Name, _)| !name.is_active);
    let mut hosts: Vec<(&Name, (usize, Placed))> = names.iter().zip(found.iter().copied()).filter_map(placed).collect();
    hosts.sort_by(|(a, _), (b, _)| away(a).total_cmp(&away(b)));
    let has_room = |(host, (_, placed)): &&(&Name, (usize, Placed))| {
        let runs = host.dots.iter().chain(&without.dots).map(|dot| dots[*dot].run);
        let numbers = listed(runs.map(|run| run.short_label()).collect());
        let font = FontId::proportional(theme::SMALL_TEXT);
        let size = painter.layout_no_wrap(numbers, font, Color32::PLACEHOLDER).size();
        let places: Places = places.without(placed.rect).closer(AROUND_MARK);
        places.stay_at(host.dots[0], size, placed.side).is_some()
    };
    let (host, _) = hosts.iter().find(has_room).or(hosts.first())?;
    Some((without.key, host.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: RunKey) -> Name {
        Name { dots: vec![key as usize], key, is_active: key == 9, is_shown: key == 5 }
    }

    #[test]
    fn a_name_stands_with_the_one_that_it_joined_while_that_is_in_view() {
        let names = |keys: &[RunKey], host: &[(RunKey, RunKey)]| -> Vec<(RunKey, Vec<usize>, bool)> {
            let host = |run| host.iter().find(|(own, _)| *own == run).map(|(_, host)| *host);
            let joined = to_hosts(keys.iter().copied().map(name).collect(), host);
            joined.into_iter().map(|name| (name.key, name.dots, name.is_shown)).collect()
        };
        assert_eq!(names(&[1, 5, 9], &[(5, 1)]), [(1, vec![1, 5], true), (9, vec![9], false)]);
        assert_eq!(names(&[5, 9], &[(5, 1)]), [(5, vec![5], true), (9, vec![9], false)], "the other is out of view");
        assert_eq!(names(&[1, 2, 5], &[(5, 2), (2, 1)]), [(1, vec![1, 2, 5], true)]);
        assert_eq!(names(&[1, 9], &[(1, 9), (9, 1)]).len(), 2, "a point that moves has a name of its own");
    }
}
