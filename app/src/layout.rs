//! The panes and where they are. The user may drag them anywhere; [`Layout::default`] is where they begin. In a window
//! without room for them side by side one pane at a time is shown, chosen from a list.

mod edges;
mod front;
pub(crate) mod paging;
mod sound;
mod titles;
mod turning;

use eframe::egui::{self, Button, ComboBox, Id, Rect, Response, Ui, UiBuilder, WidgetText};
use egui_tiles::{Container, Linear, LinearDir, SimplificationOptions, Tabs, Tile, TileId, Tiles, Tree, UiResponse};
use serde::{Deserialize, Serialize};

use crate::{
    panels::pane::{Pane, PanelContext},
    regions, takeaway, theme,
    widgets::tip::Tip as _,
};

/// Draws a pane.
pub(crate) type Draw = fn(&mut Ui, Pane, &mut PanelContext<'_>);

/// In less room one pane at a time is shown.
const ROOM: egui::Vec2 = egui::vec2(720.0, 300.0);

/// Between two panes.
const GAP: f32 = 4.0;

/// Height of the tabs above a pane.
const TAB_BAR: f32 = 26.0;

/// Where the panes are.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Tree<Pane>", into = "Tree<Pane>")]
pub(crate) struct Layout {
    tree: Tree<Pane>,
    /// The pane that is shown if there is room for one.
    front: Pane,
}

impl TryFrom<Tree<Pane>> for Layout {
    type Error = &'static str;

    fn try_from(tree: Tree<Pane>) -> Result<Self, Self::Error> {
        match sound::fault(&tree) {
            Some(fault) => Err(fault),
            None => Ok(Self::of(tree)),
        }
    }
}

impl From<Layout> for Tree<Pane> {
    fn from(layout: Layout) -> Self {
        layout.tree
    }
}

impl Default for Layout {
    fn default() -> Self {
        let mut tiles = Tiles::default();
        let tab = |tiles: &mut Tiles<Pane>, pane: Pane| {
            let panes = Pane::ALL.iter().filter(|other| other.next_to() == pane);
            let panes = panes.map(|pane| tiles.insert_pane(*pane)).collect();
            tiles.insert_tab_tile(panes)
        };
        let experiment = tab(&mut tiles, Pane::Experiment);
        let step = tab(&mut tiles, Pane::Step);
        let live = tab(&mut tiles, Pane::Live);
        let tradeoff = tab(&mut tiles, Pane::Tradeoff);
        let layers = tab(&mut tiles, Pane::Layers);
        let middle = split(&mut tiles, LinearDir::Vertical, &[(step, 0.48), (live, 0.52)]);
        let right = split(&mut tiles, LinearDir::Vertical, &[(tradeoff, 0.445), (layers, 0.555)]);
        let root = split(&mut tiles, LinearDir::Horizontal, &[(experiment, 0.235), (middle, 0.42), (right, 0.345)]);
        Self::of(Tree::new(Id::unique("panes"), root, tiles))
    }
}

fn split(tiles: &mut Tiles<Pane>, dir: LinearDir, parts: &[(TileId, f32)]) -> TileId {
    let mut linear = Linear::new(dir, parts.iter().map(|(id, _)| *id).collect());
    for (id, share) in parts {
        linear.shares.set_share(*id, *share);
    }
    tiles.insert_container(Container::Linear(linear))
}

impl Layout {
    fn of(tree: Tree<Pane>) -> Self {
        Self { tree, front: Pane::Experiment }
    }

    /// Draws the panes, each by `draw`.
    pub(crate) fn ui(&mut self, ui: &mut Ui, context: &mut PanelContext<'_>, draw: Draw) {
        if ui.available_width() < ROOM.x || ui.available_height() < ROOM.y {
            self.turn_front(ui.ctx());
            let room = ui.available_rect_before_wrap();
            page(ui, self.front);
            regions::region(ui, "pane", |ui| self.one_at_a_time(ui, context, draw));
            paging::end(ui, self.front, room);
        } else {
            let has_pointer = edges::has_pointer(ui);
            self.turn(ui.ctx());
            let least = self.least(ui);
            self.tree.ui(&mut Behavior { context, draw, has_pointer, least, wanted: None, take: None }, ui);
            self.follow(ui);
        }
    }

    /// A list of the panes, and the chosen one in the whole room.
    fn one_at_a_time(&mut self, ui: &mut Ui, context: &mut PanelContext<'_>, draw: Draw) {
        let palette = theme::palette(ui);
        let panes: Vec<Pane> = Pane::ALL.iter().copied().filter(|pane| self.shows(*pane)).collect();
        let Some(first) = panes.first() else { return };
        let place = panes.iter().position(|pane| *pane == self.front).unwrap_or_default();
        let mut front = panes.get(place).copied().unwrap_or(*first);
        egui::Frame::new().fill(palette.tabs).inner_margin(egui::Margin::symmetric(theme::PANE_MARGIN, 2)).show(
            ui,
            |ui| {
                ui.set_min_width(ui.available_width());
                ui.horizontal(|ui| {
                    let list =
                        ComboBox::from_id_salt("pane").width(theme::TOOLTIP_WIDTH * 0.75).selected_text(front.title());
                    let list = list.show_ui(ui, |ui| {
                        for pane in &panes {
                            ui.selectable_value(&mut front, *pane, pane.title());
                        }
                    });
                    list.response.accessible_name("Pane").tip("The pane that is shown: the window has room for one.");
                    for (sign, name, to) in
                        [("◀", "Pane before", place + panes.len() - 1), ("▶", "Next pane", place + 1)]
                    {
                        if ui.add(Button::new(sign)).accessible_name(name).tip(name).clicked() {
                            front = panes[to % panes.len()];
                        }
                    }
                    takeaway::menu(ui, front, context.view, context.send);
                });
            },
        );
        self.front = front;
        let frame = egui::Frame::new().inner_margin(theme::PANE_MARGIN);
        frame.show(ui, |ui| {
            ui.set_min_size(ui.available_size());
            ui.push_id(front, |ui| draw(ui, front, context));
        });
    }

    /// Whether a pane can be seen or found on a tab.
    pub(crate) fn shows(&self, pane: Pane) -> bool {
        self.tree.tiles.find_pane(&pane).is_some_and(|id| self.tree.tiles.is_visible(id))
    }

    /// Brings a pane to the front of its tabs, or hides it.
    pub(crate) fn set_shown(&mut self, pane: Pane, shown: bool) {
        if let Some(id) = self.tree.tiles.find_pane(&pane) {
            self.tree.set_visible(id, shown);
            if shown {
                self.front = pane;
                self.tree.make_active(|tile, _| tile == id);
            }
        }
    }

    /// The layout with every pane in it: one that an older program saved lacks the panes that came since. They join the
    /// tabs of the pane they stand next to.
    pub(crate) fn completed(mut self) -> Self {
        for pane in Pane::ALL {
            if self.tree.tiles.find_pane(pane).is_none() && !self.insert(*pane) {
                return Self::default();
            }
        }
        self
    }

    /// Adds a tab for a pane; false where the layout has no place for it.
    fn insert(&mut self, pane: Pane) -> bool {
        let tiles = &mut self.tree.tiles;
        let neighbour = tiles.find_pane(&pane.next_to()).and_then(|id| tiles.parent_of(id));
        let Some(parent) = neighbour.or(self.tree.root) else { return false };
        let tile = tiles.insert_pane(pane);
        match tiles.get_mut(parent) {
            Some(Tile::Container(container)) => container.add_child(tile),
            Some(Tile::Pane(_)) | None => return false,
        }
        true
    }

    /// Where the panes were last drawn.
    #[cfg(test)]
    pub(crate) fn rects(&self) -> Vec<(Pane, Option<egui::Rect>)> {
        let rect = |pane: &Pane| self.tree.tiles.find_pane(pane).and_then(|id| self.tree.tiles.rect(id));
        Pane::ALL.iter().map(|pane| (*pane, rect(pane))).collect()
    }

    /// Whether every pane is somewhere.
    #[cfg(test)]
    pub(crate) fn is_whole(&self) -> bool {
        Pane::ALL.iter().all(|pane| self.tree.tiles.find_pane(pane).is_some())
    }
}

struct Behavior<'a, 'b> {
    context: &'a mut PanelContext<'b>,
    draw: Draw,
    has_pointer: bool,
    /// The width or the height that a drag of an edge leaves a pane.
    least: f32,
    /// The tab that is to have the focus.
    wanted: Option<TileId>,
    /// The room, at the right end of the tabs, of the menu for the pane below.
    take: Option<(Pane, Rect)>,
}

impl Behavior<'_, '_> {
    /// The button at the end of the tabs. It is added after the tabs, so that the focus moves in the order of the screen; its
    /// room was reserved before them.
    fn take(&mut self, ui: &mut Ui, pane: Pane) {
        let Some((_, rect)) = self.take.take_if(|(of, _)| *of == pane) else { return };
        let mut ui = ui.new_child(UiBuilder::new().id_salt("take").max_rect(rect));
        ui.set_clip_rect(rect.expand(theme::FOCUS_RING));
        takeaway::menu(&mut ui, pane, self.context.view, self.context.send);
    }
}

/// Scrolls a pane by keys. The settings have areas inside them that scroll as well, and do it themselves.
fn page(ui: &Ui, pane: Pane) {
    if pane != Pane::Experiment {
        paging::begin(ui, pane);
    }
}

impl egui_tiles::Behavior<Pane> for Behavior<'_, '_> {
    fn pane_ui(&mut self, ui: &mut Ui, _: TileId, pane: &mut Pane) -> UiResponse {
        self.take(ui, *pane);
        let rect = ui.max_rect();
        let with_tabs = rect.with_min_y(rect.top() - TAB_BAR);
        page(ui, *pane);
        let frame = egui::Frame::new().inner_margin(theme::PANE_MARGIN);
        frame.show(ui, |ui| {
            // The pane fills its tile, with any contents.
            ui.set_min_size(ui.available_size());
            ui.push_id(*pane, |ui| (self.draw)(ui, *pane, self.context));
        });
        paging::end(ui, *pane, with_tabs);
        UiResponse::None
    }

    fn tab_title_for_pane(&mut self, pane: &Pane) -> WidgetText {
        titles::of_pane(*pane, &self.context.state.log).into()
    }

    fn tab_title_for_tile(&mut self, tiles: &Tiles<Pane>, tile: TileId) -> WidgetText {
        titles::of_tile(tiles, tile, &self.context.state.log).into()
    }

    fn simplification_options(&self) -> SimplificationOptions {
        SimplificationOptions { all_panes_must_have_tabs: true, ..SimplificationOptions::default() }
    }

    /// A tab is dragged by itself: the bar behind the tabs is not a widget, and so not a stop of the Tab key.
    fn is_tile_draggable(&self, tiles: &Tiles<Pane>, tile: TileId) -> bool {
        matches!(tiles.get(tile), Some(Tile::Pane(_)))
    }

    fn is_container_resizable(&self, _: &Tiles<Pane>, _: TileId) -> bool {
        self.has_pointer
    }

    /// Runs before the tabs are drawn: notes their region, and takes the room at their end.
    fn top_bar_right_ui(&mut self, tiles: &Tiles<Pane>, ui: &mut Ui, id: TileId, tabs: &Tabs, _: &mut f32) {
        let rect = tiles.rect(id).unwrap_or(Rect::NOTHING);
        if regions::enter(ui.ctx(), turning::region_of(id), rect) {
            self.wanted = tabs.active;
        }
        if let Some(Tile::Pane(pane)) = tabs.active.and_then(|id| tiles.get(id))
            && let Some(size) = takeaway::size(ui, *pane, self.context.view)
        {
            self.take = Some((*pane, ui.allocate_space(size).1));
        }
    }

    fn on_tab_button(&mut self, _: &mut Tiles<Pane>, id: TileId, tab: Response) -> Response {
        if self.wanted.take_if(|wanted| *wanted == id).is_some() {
            tab.request_focus();
        }
        tab
    }

    fn tab_bar_height(&self, _: &egui::Style) -> f32 {
        TAB_BAR
    }

    fn gap_width(&self, _: &egui::Style) -> f32 {
        GAP
    }

    fn min_size(&self) -> f32 {
        self.least
    }

    fn tab_bar_color(&self, visuals: &egui::Visuals) -> egui::Color32 {
        theme::of(visuals.dark_mode).tabs
    }

    fn resize_stroke(&self, style: &egui::Style, state: egui_tiles::ResizeState) -> egui::Stroke {
        let palette = theme::of(style.visuals.dark_mode);
        match state {
            egui_tiles::ResizeState::Idle => egui::Stroke::new(self.gap_width(style), palette.ground),
            _ => egui::Stroke::new(self.gap_width(style), palette.accent),
        }
    }

    fn tab_outline_stroke(
        &self,
        _: &egui::Visuals,
        _: &Tiles<Pane>,
        _: TileId,
        _: &egui_tiles::TabState,
    ) -> egui::Stroke {
        egui::Stroke::NONE
    }

    fn tab_text_color(
        &self,
        visuals: &egui::Visuals,
        _: &Tiles<Pane>,
        _: TileId,
        state: &egui_tiles::TabState,
    ) -> egui::Color32 {
        let palette = theme::of(visuals.dark_mode);
        if state.active { palette.strong() } else { palette.weak() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_layout_holds_every_pane_and_survives_being_saved() {
        let layout = Layout::default();
        assert!(layout.is_whole());
        let text = serde_json::to_string(&layout).expect("a layout is plain data");
        let again: Layout = serde_json::from_str(&text).expect("as written");
        assert!(again.is_whole() && Pane::ALL.iter().all(|pane| again.shows(*pane)));
    }

    #[test]
    fn a_layout_without_a_pane_keeps_its_shape_and_gets_the_pane() {
        for missing in Pane::ALL.iter().copied() {
            let mut old = Layout::default();
            let root = old.tree.root;
            let id = old.tree.tiles.find_pane(&missing).expect("there by default");
            old.tree.remove_recursively(id);
            old.set_shown(Pane::Step, missing == Pane::Step);
            assert!(!old.is_whole());
            let new = old.completed();
            assert!(new.is_whole() && new.shows(missing), "{missing:?}");
            assert_eq!(new.tree.root, root);
            // Hidden panes stay hidden: the layout is the old one.
            assert!(!new.shows(Pane::Step) || missing == Pane::Step);
        }
    }

    #[test]
    fn a_layout_of_unknown_panes_or_without_room_for_one_is_refused() {
        let text = serde_json::to_string(&Layout::default()).expect("a layout is plain data");
        let fault = |text: &str| serde_json::from_str::<Layout>(text).expect_err("refused").to_string();
        assert!(fault(&text.replace("Tradeoff", "Nonesuch")).contains("Nonesuch"));
        for share in ["0.0", "-0.42", "1e-9", "1e30", "1e300"] {
            assert!(text.contains(":0.42"), "the share of the middle");
            assert!(fault(&text.replace(":0.42", &format!(":{share}"))).contains("no room"), "{share}");
        }
        let root = format!("\"root\":{}", serde_json::to_string(&Layout::default().tree.root).expect("a number"));
        assert!(fault(&text.replace(&root, "\"root\":null")).contains("no panes"));
        assert!(fault(&text.replace(&root, "\"root\":4096")).contains("missing"));
    }
}
