//! How far the edges between panes may be dragged.

use eframe::egui::{Id, Key, Ui};
use egui_tiles::{Container, LinearDir, Tile, TileId};

use super::{GAP, Layout};

/// A pane is made no narrower and no lower than this by a drag of its edge: what stands in every pane has room.
const NARROWEST: f32 = 260.0;
const LOWEST: f32 = 120.0;

/// Whether the borders between panes are there to be dragged: they are the pointer's, and no stop on the way of the keys
/// that move the focus.
pub(super) fn has_pointer(ui: &Ui) -> bool {
    const MOVE_THE_FOCUS: [Key; 5] = [Key::Tab, Key::ArrowUp, Key::ArrowDown, Key::ArrowLeft, Key::ArrowRight];
    ui.input(|input| input.pointer.has_pointer() && !MOVE_THE_FOCUS.iter().any(|key| input.key_pressed(*key)))
}

impl Layout {
    /// How narrow, or how low, a pane is made at most by what is dragged.
    pub(super) fn least(&self, ui: &Ui) -> f32 {
        if self.is_widened(ui) { NARROWEST } else { LOWEST }
    }

    /// Whether what is dragged is an edge between panes that are side by side, as it was when the pointer was pressed on it.
    fn is_widened(&self, ui: &Ui) -> bool {
        let known = Id::unique("edge between panes side by side");
        if let Some(at) = ui.input(|input| input.pointer.any_pressed().then(|| input.pointer.press_origin()).flatten())
        {
            let tiles = &self.tree.tiles;
            let near = ui.style().interaction.resize_grab_radius_side + GAP;
            let ends_here = |tile: &TileId| {
                tiles
                    .rect(*tile)
                    .is_some_and(|rect| (rect.right() - at.x).abs() <= near && rect.y_range().contains(at.y))
            };
            let is_edge = tiles.tiles().any(|tile| match tile {
                Tile::Container(Container::Linear(linear)) => {
                    linear.dir == LinearDir::Horizontal && linear.children.iter().any(ends_here)
                }
                _ => false,
            });
            ui.data_mut(|data| data.insert_temp(known, is_edge));
        }
        ui.data(|data| data.get_temp(known)).unwrap_or_default()
    }
}
