//! The titles of tabs.

use egui_tiles::{Container, Tile, TileId, Tiles};

use crate::{
    panels::pane::Pane,
    state::{Level, Log},
};

/// That of a pane; with the warnings of the log that were not read.
pub(super) fn of_pane(pane: Pane, log: &Log) -> String {
    let unread = match pane {
        Pane::Log => log.entries.iter().filter(|entry| entry.level != Level::Note).count(),
        _ => 0,
    };
    if unread > 0 { format!("{} ({unread})", pane.title()) } else { pane.title().to_owned() }
}

/// That of a tab. One that holds several panes side by side has the names of all.
pub(super) fn of_tile(tiles: &Tiles<Pane>, tile: TileId, log: &Log) -> String {
    panes(tiles, tile).into_iter().map(|pane| of_pane(pane, log)).collect::<Vec<_>>().join(" + ")
}

/// The panes that are seen in a tile: of those behind one another, the one in front.
fn panes(tiles: &Tiles<Pane>, tile: TileId) -> Vec<Pane> {
    match tiles.get(tile) {
        Some(Tile::Pane(pane)) => vec![*pane],
        Some(Tile::Container(Container::Tabs(tabs))) => {
            tabs.active.iter().flat_map(|tile| panes(tiles, *tile)).collect()
        }
        Some(Tile::Container(container)) => container.children().flat_map(|tile| panes(tiles, *tile)).collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tab_of_several_panes_has_the_names_of_those_that_are_seen() {
        let mut tiles = Tiles::default();
        let [step, layers, runs] = [Pane::Step, Pane::Layers, Pane::Runs].map(|pane| tiles.insert_pane(pane));
        let behind = tiles.insert_tab_tile(vec![layers, runs]);
        let both = tiles.insert_horizontal_tile(vec![step, behind]);
        let log = Log::new();
        assert_eq!(of_tile(&tiles, step, &log), "One step");
        assert_eq!(of_tile(&tiles, both, &log), "One step + Layers");
    }
}
