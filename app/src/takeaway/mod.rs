//! Content that can be taken out of a pane: its chart as a picture, its data as a table.
//!
//! Owns the content that a pane can give, and the thread that draws pictures and writes files. Always holds: the content is
//! the one that the pane shows; a file is written whole or not at all. Drawing a picture takes longer than a frame, so it is
//! never done in one.

mod content;
mod porter;

use eframe::egui::{Button, TextStyle, Ui, Vec2, vec2};
use strum::VariantArray;

pub(crate) use self::{
    content::{Content, content, file_name},
    porter::Porter,
};
use crate::{
    command::{Action, Sender},
    panels::pane::Pane,
    view::View,
    widgets::{text, tip::Tip as _},
};

/// A form in which something is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray)]
pub(crate) enum Take {
    /// The chart, to be printed.
    SavePng,
    /// The chart, to be edited.
    SaveSvg,
    /// The chart, onto the clipboard.
    CopyPicture,
    /// The data, to a file.
    SaveCsv,
    /// The data, onto the clipboard.
    CopyCsv,
    /// A run's compressed model.
    SaveCompressed,
}

impl Take {
    /// The name in menus.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::SavePng => "Save as PNG…",
            Self::SaveSvg => "Save as SVG…",
            Self::CopyPicture => "Copy as picture",
            Self::SaveCsv => "Save data as CSV…",
            Self::CopyCsv => "Copy data as CSV",
            Self::SaveCompressed => "Export compressed model…",
        }
    }

    pub(crate) fn tooltip(self) -> &'static str {
        match self {
            Self::SavePng => "Write the chart at print size, light, with 300 dots an inch.",
            Self::SaveSvg => "Write the chart at print size, light, as lines and text.",
            Self::CopyPicture => "Put the chart on the clipboard, light, at print size.",
            Self::SaveCsv => "Write the figures that the pane draws as a table.",
            Self::CopyCsv => "Put the figures that the pane draws on the clipboard as a table.",
            Self::SaveCompressed => {
                "Write the compressed model as a file: integers with their scales, or pruned weights without their zeros, in \
                 the layouts of compressed-tensors."
            }
        }
    }

    /// The ending of its files; `None` if it is copied.
    pub(crate) fn ending(self) -> Option<&'static str> {
        match self {
            Self::SavePng => Some("png"),
            Self::SaveSvg => Some("svg"),
            Self::SaveCsv => Some("csv"),
            Self::SaveCompressed => Some("safetensors"),
            Self::CopyPicture | Self::CopyCsv => None,
        }
    }

    /// Whether a pane gives it, and not a run.
    fn is_of_pane(self) -> bool {
        self != Self::SaveCompressed
    }

    /// Whether it is a chart.
    pub(crate) fn is_picture(self) -> bool {
        matches!(self, Self::SavePng | Self::SaveSvg | Self::CopyPicture)
    }
}

/// Whether a pane has a chart to give, as it is looked at; `None` for one that has nothing.
fn has_chart(pane: Pane, view: &View) -> Option<bool> {
    match pane {
        Pane::Step | Pane::Live | Pane::Gradients | Pane::Tradeoff | Pane::Layers => Some(true),
        Pane::Compare => Some(view.compare.is_chart()),
        Pane::Alive | Pane::Runs => Some(false),
        Pane::Experiment | Pane::Devices | Pane::Log | Pane::TryOut => None,
    }
}

/// The sign of the menu.
const SIGN: &str = "⬇";

/// The size of the button of the menu; `None` of a pane that has nothing to give.
pub(crate) fn size(ui: &Ui, pane: Pane, view: &View) -> Option<Vec2> {
    has_chart(pane, view)?;
    let width = text::width(ui, SIGN, &TextStyle::Button.resolve(ui.style())) + 2.0 * ui.spacing().button_padding.x;
    Some(vec2(width, ui.spacing().interact_size.y))
}

/// The menu of a pane that has something to give.
pub(crate) fn menu(ui: &mut Ui, pane: Pane, view: &View, send: &Sender) {
    let Some(has_chart) = has_chart(pane, view) else { return };
    let menu = ui.menu_button(SIGN, |ui| {
        let takes = Take::VARIANTS.iter().copied().filter(|take| take.is_of_pane());
        for take in takes.filter(|take| has_chart || !take.is_picture()) {
            if ui.add(Button::new(take.label())).tip(take.tooltip()).clicked() {
                send.send(Action::Take(pane, take));
                ui.close();
            }
        }
    });
    let what = if has_chart { "Save or copy this chart and its data." } else { "Save or copy this table." };
    menu.response.accessible_name(format!("Take away: {}", pane.title())).tip(what);
}
