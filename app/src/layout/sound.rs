//! Whether a layout that was kept can be drawn: every pane has room in it.
//!
//! Refuses a tree that has no root, lacks a part or has one twice, and shares of the room in which something has none.

use std::collections::HashSet;

use egui_tiles::{Container, Tile, Tree};

use crate::panels::pane::Pane;

/// The least share of the room of those next to each other. The borders between panes are not dragged to a smaller one.
const LEAST: f32 = 0.002;

/// What makes it impossible to draw a layout; `None` if nothing does.
pub(super) fn fault(tree: &Tree<Pane>) -> Option<&'static str> {
    let Some(root) = tree.root() else { return Some("it has no panes") };
    let (mut seen, mut open) = (HashSet::new(), vec![root]);
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            return Some("a part of it stands in two places");
        }
        match tree.tiles.get(id) {
            None => return Some("a part of it is missing"),
            Some(Tile::Pane(_)) => {}
            Some(Tile::Container(container)) if have_room(container) => open.extend(container.children().copied()),
            Some(Tile::Container(_)) => return Some("a pane has no room in it"),
        }
    }
    None
}

/// Whether each part of a container has a share of its room.
fn have_room(container: &Container) -> bool {
    match container {
        Container::Tabs(_) => true,
        Container::Linear(linear) => are_shares(linear.children.iter().map(|child| linear.shares[*child])),
        Container::Grid(grid) => {
            [&grid.col_shares, &grid.row_shares].into_iter().all(|s| are_shares(s.iter().copied()))
        }
    }
}

fn are_shares(shares: impl Iterator<Item = f32> + Clone) -> bool {
    let all: f32 = shares.clone().sum();
    all.is_finite() && shares.into_iter().all(|share| share > 0.0 && share >= LEAST * all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_leave_each_its_room() {
        let sound = |shares: &[f32]| are_shares(shares.iter().copied());
        assert!(sound(&[]) && sound(&[1.0]) && sound(&[0.235, 0.42, 0.345]) && sound(&[200.0, 1.0]));
        for shares in [[0.0, 1.0], [-1.0, 2.0], [1e9, 1.0], [f32::INFINITY, 1.0], [f32::NAN, 1.0]] {
            assert!(!sound(&shares), "{shares:?}");
        }
    }
}
