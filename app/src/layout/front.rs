//! The panes in front: those of which the tabs show the contents, and the one that a narrow window shows.

use eframe::egui::Ui;
use egui_tiles::{Container, TileId};

use super::Layout;
use crate::panels::pane::Pane;

impl Layout {
    /// Whether a pane is drawn: no other one of its tabs covers it.
    pub(crate) fn is_in_front(&self, pane: Pane) -> bool {
        self.front == pane || self.tabs_that_show(pane).is_some()
    }

    /// The tabs, or the row or column, that show a pane.
    fn tabs_that_show(&self, pane: Pane) -> Option<TileId> {
        let tiles = &self.tree.tiles;
        let id = tiles.find_pane(&pane)?;
        let parent = tiles.parent_of(id)?;
        let is_active = match tiles.get_container(parent)? {
            Container::Tabs(tabs) => tabs.active == Some(id),
            Container::Linear(_) | Container::Grid(_) => tiles.is_visible(id),
        };
        is_active.then_some(parent)
    }

    /// Notes the pane that a narrow window shows: the pane that was pressed last, or the tab that covers it now.
    pub(super) fn follow(&mut self, ui: &Ui) {
        let pressed = ui.input(|input| input.pointer.any_pressed().then(|| input.pointer.interact_pos()).flatten());
        let tiles = &self.tree.tiles;
        let own = tiles.find_pane(&self.front).and_then(|id| tiles.parent_of(id));
        let is_meant = |parent: TileId| match pressed {
            Some(at) => tiles.rect(parent).is_some_and(|rect| rect.contains(at)),
            None => Some(parent) == own,
        };
        let is_found = |pane: &Pane| self.tabs_that_show(*pane).is_some_and(is_meant);
        let found: Vec<Pane> = Pane::ALL.iter().copied().filter(is_found).collect();
        if let Some(first) = found.first().filter(|_| !found.contains(&self.front)) {
            self.front = *first;
        }
    }
}
