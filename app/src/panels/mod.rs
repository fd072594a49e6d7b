//! One file per pane. A pane reads the [`State`](crate::state::State), may change how things look in the [`View`](crate::view::View), and sends what the user
//! asks for; it never changes the state.

mod alive;
mod bottom_bar;
mod budget_bar;
mod devices;
mod dialogs;
mod experiment;
mod gradients;
mod layers;
mod legend;
mod live;
mod log;
mod notice;
pub(crate) mod pane;
mod timeline;
mod top_bar;
mod tradeoff;

use eframe::egui::{self, Panel, Ui};

use crate::{layout::Layout, theme};

#[cfg(test)]
pub(crate) use bottom_bar::length;
use pane::Pane;
pub(crate) use pane::PanelContext;

/// Draws a pane.
pub(crate) fn draw(ui: &mut Ui, pane: Pane, context: &mut PanelContext<'_>) {
    match pane {
        Pane::Experiment => experiment::ui(ui, context),
        Pane::Step => timeline::ui(ui, context),
        Pane::Live => live::ui(ui, context),
        Pane::Gradients => gradients::ui(ui, context),
        Pane::Tradeoff => tradeoff::ui(ui, context),
        Pane::Layers => layers::ui(ui, context),
        Pane::Alive => alive::ui(ui, context),
        Pane::Devices => devices::ui(ui, context),
        Pane::Log => log::ui(ui, context),
    }
}

/// Draws what is around the panes: the top bar, the budget bar, the bottom bar.
pub(crate) fn around(ui: &mut Ui, context: &mut PanelContext<'_>, layout: &mut Layout) {
    let palette = theme::palette(ui);
    let frame = |fill, y| egui::Frame::new().fill(fill).inner_margin(egui::Margin::symmetric(12, y));
    Panel::top("top bar").frame(frame(palette.tabs, 5)).show_separator_line(false).show(ui, |ui| {
        top_bar::ui(ui, context, layout);
    });
    Panel::bottom("bottom bar").frame(frame(palette.tabs, 6)).show_separator_line(false).show(ui, |ui| {
        bottom_bar::ui(ui, context);
    });
    Panel::top("line")
        .frame(frame(palette.pane, 8))
        .show_separator_line(false)
        .show(ui, |ui| budget_bar::ui(ui, context));
    if context.state.notice.is_some() {
        Panel::bottom("notice").frame(frame(palette.pane, 8)).show_separator_line(false).show(ui, |ui| {
            notice::ui(ui, context);
        });
    }
}

/// Draws what lies over the panes: dialogs, and the hint while a file is dragged over the window.
pub(crate) fn over(ui: &mut Ui, context: &mut PanelContext<'_>) {
    dialogs::ui(ui, context);
}
