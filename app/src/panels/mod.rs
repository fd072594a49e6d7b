//! One file per pane. A pane reads the [`State`], may change how things look in the [`View`], and sends what the user
//! asks for; it never changes the state.

mod alive;
mod bottom_bar;
mod devices;
mod dialogs;
mod experiment;
mod layers;
mod line;
mod live;
mod log;
mod notice;
mod timeline;
mod top_bar;
mod tradeoff;

use eframe::egui::{self, Panel, Ui};

use crate::{
    command::Sender,
    layout::{Layout, Pane},
    state::State,
    theme,
    view::View,
};

/// What a pane works with.
pub(crate) struct Scene<'a> {
    /// What the window knows.
    pub(crate) state: &'a State,
    /// How it looks.
    pub(crate) view: &'a mut View,
    /// Where wishes go.
    pub(crate) send: &'a Sender,
}

/// Draws a pane.
pub(crate) fn pane(ui: &mut Ui, pane: Pane, scene: &mut Scene<'_>) {
    match pane {
        Pane::Experiment => experiment::ui(ui, scene),
        Pane::Step => timeline::ui(ui, scene),
        Pane::Live => live::ui(ui, scene),
        Pane::Tradeoff => tradeoff::ui(ui, scene),
        Pane::Layers => layers::ui(ui, scene),
        Pane::Alive => alive::ui(ui, scene),
        Pane::Devices => devices::ui(ui, scene),
        Pane::Log => log::ui(ui, scene),
    }
}

/// Draws what stands around the panes: the top bar, the line, the bottom bar.
pub(crate) fn around(ui: &mut Ui, scene: &mut Scene<'_>, layout: &mut Layout) {
    let palette = theme::palette(ui);
    let frame = |fill, y| egui::Frame::new().fill(fill).inner_margin(egui::Margin::symmetric(12, y));
    Panel::top("top bar").frame(frame(palette.tabs, 5)).show_separator_line(false).show(ui, |ui| {
        top_bar::ui(ui, scene, layout);
    });
    Panel::bottom("bottom bar").frame(frame(palette.tabs, 6)).show_separator_line(false).show(ui, |ui| {
        bottom_bar::ui(ui, scene);
    });
    Panel::top("line").frame(frame(palette.pane, 8)).show_separator_line(false).show(ui, |ui| line::ui(ui, scene));
    if scene.state.notice.is_some() {
        Panel::bottom("notice").frame(frame(palette.pane, 8)).show_separator_line(false).show(ui, |ui| {
            notice::ui(ui, scene);
        });
    }
}

/// Draws what lies over the panes: dialogs, and the hint while a file is dragged over the window.
pub(crate) fn over(ui: &mut Ui, scene: &mut Scene<'_>) {
    dialogs::ui(ui, scene);
}
