//! The tabs of a pane, turned by keys.

use eframe::egui::{Context, Id, Key, Modifiers};
use egui_tiles::{Container, Tile, TileId};

use super::Layout;
use crate::{panels::pane::Pane, regions};

/// The region of some tabs and the pane below them.
pub(super) fn region_of(tabs: TileId) -> Id {
    Id::unique(("region", tabs))
}

impl Layout {
    /// Shows the next tab, or the one before, of the pane that has the focus, and gives it the focus. Where nothing has the
    /// focus, the pane is the one below the pointer, and the toolkit does it.
    pub(super) fn turn(&mut self, ctx: &Context) {
        let focused = ctx.memory(|memory| memory.focused()).and_then(|id| ctx.read_response(id));
        let Some(at) = focused.map(|response| response.rect.center()) else { return };
        let here = |(id, tile): (&TileId, &Tile<Pane>)| {
            let rect = self.tree.tiles.rect(*id)?;
            (matches!(tile, Tile::Container(Container::Tabs(_))) && rect.contains(at)).then_some(*id)
        };
        let Some(id) = self.tree.tiles.iter().find_map(here) else { return };
        // The one with more keys first: the other is a part of it.
        let pressed = |modifiers| ctx.input_mut(|input| input.consume_key(modifiers, Key::Tab));
        let forward = !pressed(Modifiers::CTRL | Modifiers::SHIFT);
        if forward && !pressed(Modifiers::CTRL) {
            return;
        }
        let Some(mut tile) = self.tree.tiles.remove(id) else { return };
        if let Tile::Container(Container::Tabs(tabs)) = &mut tile {
            tabs.cycle_active(&self.tree.tiles, forward);
        }
        self.tree.tiles.insert(id, tile);
        regions::want(ctx, region_of(id));
    }
}
