//! The tabs of a pane, turned by keys.

use eframe::egui::{Context, Id, Key, Modifiers};
use egui_tiles::{Container, Tile, TileId};

use super::Layout;
use crate::{panels::pane::Pane, regions};

/// The region of some tabs and the pane below them.
pub(super) fn region_of(tabs: TileId) -> Id {
    Id::unique(("region", tabs))
}

/// Whether the next tab is asked for, or the one before.
fn asked(ctx: &Context) -> Option<bool> {
    // The one with more keys first: the other is a part of it.
    let pressed = |modifiers| ctx.input_mut(|input| input.consume_key(modifiers, Key::Tab));
    if pressed(Modifiers::CTRL | Modifiers::SHIFT) { Some(false) } else { pressed(Modifiers::CTRL).then_some(true) }
}

impl Layout {
    /// Shows the next pane, or the one before, where the window has room for one.
    pub(super) fn turn_front(&mut self, ctx: &Context) {
        let panes: Vec<Pane> = Pane::ALL.iter().copied().filter(|pane| self.shows(*pane)).collect();
        let at = panes.iter().position(|pane| *pane == self.front);
        if let Some((at, forward)) = at.and_then(|at| Some((at, asked(ctx)?))) {
            self.front = panes[(at + if forward { 1 } else { panes.len() - 1 }) % panes.len()];
        }
    }

    /// Shows the next tab, or the one before, of the pane that has the focus, and gives it the focus. Where nothing has the
    /// focus, the pane is the one below the pointer.
    pub(super) fn turn(&mut self, ctx: &Context) {
        let focused = ctx.memory(|memory| memory.focused()).and_then(|id| ctx.read_response(id));
        let at = focused.map(|response| response.rect.center());
        let Some(at) = at.or_else(|| ctx.pointer_hover_pos()) else { return };
        let here = |(id, tile): (&TileId, &Tile<Pane>)| {
            let rect = self.tree.tiles.rect(*id)?;
            (matches!(tile, Tile::Container(Container::Tabs(_))) && rect.contains(at)).then_some(*id)
        };
        let Some(id) = self.tree.tiles.iter().find_map(here) else { return };
        let Some(forward) = asked(ctx) else { return };
        let Some(mut tile) = self.tree.tiles.remove(id) else { return };
        if let Tile::Container(Container::Tabs(tabs)) = &mut tile {
            tabs.cycle_active(&self.tree.tiles, forward);
        }
        self.tree.tiles.insert(id, tile);
        regions::want(ctx, region_of(id));
    }
}
