//! The edges between panes: when they can be dragged, and how far.

use eframe::egui::{Id, Key, Ui};
use egui_tiles::{Container, LinearDir, Tile, TileId};

use super::{GAP, Layout};

/// A drag leaves a pane this width. The contents of every pane have room in it.
const LEAST_WIDTH: f32 = 260.0;
/// A drag leaves a pane this height.
const LEAST_HEIGHT: f32 = 120.0;

/// Whether the edges can be dragged: they are the pointer's, and no stop on the way of the keys that move the focus.
pub(super) fn has_pointer(ui: &Ui) -> bool {
    const MOVE_THE_FOCUS: [Key; 5] = [Key::Tab, Key::ArrowUp, Key::ArrowDown, Key::ArrowLeft, Key::ArrowRight];
    ui.input(|input| input.pointer.has_pointer() && !MOVE_THE_FOCUS.iter().any(|key| input.key_pressed(*key)))
}

impl Layout {
    /// The width or the height that the drag in progress leaves a pane. The toolkit asks for one number for both.
    pub(super) fn least(&self, ui: &Ui) -> f32 {
        if self.is_dragged_sideways(ui) { LEAST_WIDTH } else { LEAST_HEIGHT }
    }

    /// Whether the pointer was last pressed on an edge between panes that are side by side. The edge moves during the drag, so
    /// the press decides.
    fn is_dragged_sideways(&self, ui: &Ui) -> bool {
        let known = Id::unique("the pointer was pressed on an edge between panes side by side");
        let pressed = ui.input(|input| input.pointer.any_pressed().then(|| input.pointer.press_origin()).flatten());
        if let Some(at) = pressed {
            let tiles = &self.tree.tiles;
            let near = ui.style().interaction.resize_grab_radius_side + GAP;
            let ends_here = |tile: &TileId| {
                let rect = tiles.rect(*tile);
                rect.is_some_and(|rect| (rect.right() - at.x).abs() <= near && rect.y_range().contains(at.y))
            };
            let has_it = |tile: &Tile<_>| match tile {
                Tile::Container(Container::Linear(row)) => {
                    row.dir == LinearDir::Horizontal && row.children.iter().any(ends_here)
                }
                _ => false,
            };
            let is_edge = tiles.tiles().any(has_it);
            ui.data_mut(|data| data.insert_temp(known, is_edge));
        }
        ui.data(|data| data.get_temp(known)).unwrap_or_default()
    }
}
