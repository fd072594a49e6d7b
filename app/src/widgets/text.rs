//! Text that may be longer than its place, paths that lose their middle, and figures that are estimates.
//!
//! Always holds: a cut text is shown in full on hover.

use eframe::egui::{
    self, FontId, Label, RectAlign, Response, RichText, Sense, TextStyle, TextWrapMode, Ui, WidgetText,
};

use crate::{
    theme,
    widgets::tip::{self, Tip as _},
};

/// One line that is cut at its end if it has no room. `about` is shown on hover, next to it: the whole text, or more. Where
/// it is the text that stands there, nothing is.
pub(crate) fn cut(ui: &mut Ui, text: RichText, about: &str) -> Response {
    let (response, says_it) = one_line(ui, text, about);
    if says_it { response } else { response.tip_beside(about) }
}

/// The same at the bottom of the window: what is shown on hover is above the line, where it covers no button of the bar.
pub(crate) fn cut_at_bottom(ui: &mut Ui, text: RichText, about: &str) -> Response {
    let (response, says_it) = one_line(ui, text, about);
    if says_it { response } else { response.tip_above(about) }
}

/// A line that is cut at its end if it has no room, and whether all of `about` stands there.
fn one_line(ui: &mut Ui, text: RichText, about: &str) -> (Response, bool) {
    let has_room = || {
        let words = WidgetText::from(text.clone());
        !words.into_galley(ui, Some(TextWrapMode::Truncate), ui.available_width(), TextStyle::Body).elided
    };
    let says_it = text.text() == about && has_room();
    // The label shows the whole text on hover by itself where it is cut; `about` has it too.
    (ui.add(Label::new(text).truncate().show_tooltip_when_elided(false).sense(Sense::hover())), says_it)
}

/// A figure that no dry run gave: slanted, as all estimates are.
pub(crate) fn estimate(text: impl Into<String>) -> RichText {
    RichText::new(text).italics()
}

/// A path in one line, without its middle if it has no room: `layers/…/weight`. The whole of it is shown on
/// hover, with `about` below: next to it, where it covers none of the rows that come next.
pub(crate) fn path(ui: &mut Ui, path: &str, about: &str) -> Response {
    let font = TextStyle::Body.resolve(ui.style());
    let width = |text: &str| width(ui, text, &font);
    let short = shortened(path, |text| width(text) <= ui.available_width());
    let response = ui.add(Label::new(&short).truncate().show_tooltip_when_elided(false).sense(Sense::hover()));
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, path));
    if short == path && about.is_empty() {
        return response;
    }
    let mut help = tip::of(&response);
    help.popup = help.popup.align(RectAlign::LEFT_START).align_alternatives(&[
        RectAlign::LEFT_END,
        RectAlign::RIGHT_START,
        RectAlign::RIGHT_END,
    ]);
    tip::show(help, |ui| {
        ui.set_max_width(theme::TOOLTIP_WIDTH);
        ui.strong(path);
        if !about.is_empty() {
            ui.label(about);
        }
    });
    response
}

/// The path of a file as far as it fits: its name, and as many of the folders that it lies in as have room, the nearest first.
/// A name that does not fit loses its middle.
pub(crate) fn file(path: &str, fits: impl Fn(&str) -> bool) -> String {
    if fits(path) {
        return path.to_owned();
    }
    let is_part = |sign: char| sign == '/' || sign == std::path::MAIN_SEPARATOR;
    let ends = path.trim_end_matches(is_part).match_indices(is_part).map(|(at, _)| at);
    let within = ends.map(|at| format!("…{}", &path[at..])).find(|end| fits(end));
    within.unwrap_or_else(|| shortened(path.rsplit(is_part).find(|part| !part.is_empty()).unwrap_or(path), fits))
}

/// How wide a text is in one line.
pub(crate) fn width(ui: &Ui, text: &str, font: &FontId) -> f32 {
    ui.painter().layout_no_wrap(text.to_owned(), font.clone(), ui.visuals().text_color()).size().x
}

/// The longest of `text`, its first and last parts around `…`, and its end, that fits.
pub(crate) fn shortened(text: &str, fits: impl Fn(&str) -> bool) -> String {
    if fits(text) {
        return text.to_owned();
    }
    const TAIL: usize = 4;
    let letters: Vec<char> = text.chars().collect();
    let first = letters.iter().position(|letter| *letter == '/').unwrap_or(0);
    let without = |left_out: usize| {
        let kept = letters.len() - left_out;
        // The end says more than the beginning, so it gets two thirds. The first part numbers the block and stays whole.
        let head = if first + TAIL <= kept { first.max(kept / 3) } else { kept / 3 };
        letters[..head].iter().chain(['…'].iter()).chain(&letters[letters.len() - (kept - head)..]).collect::<String>()
    };
    let (mut least, mut most) = (1, letters.len().saturating_sub(2).max(1));
    while least < most {
        let middle = (least + most) / 2;
        if fits(&without(middle)) { most = middle } else { least = middle + 1 }
    }
    without(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_name_and_the_folders_that_have_room() {
        let within =
            |most: usize| file("/tmp/runs/of/today/model.safetensors", move |text| text.chars().count() <= most);
        assert_eq!(within(40), "/tmp/runs/of/today/model.safetensors");
        assert_eq!(within(30), "…/of/today/model.safetensors");
        assert_eq!(within(25), "…/today/model.safetensors");
        assert_eq!(within(24), "…/model.safetensors");
        assert_eq!(within(17), "model.safetensors");
        assert_eq!(within(12), "mod…etensors");
        assert_eq!(file("folder/weights/", |text| text.chars().count() <= 10), "…/weights/");
    }

    #[test]
    fn a_path_loses_its_middle_and_no_more_than_it_must() {
        let within = |most: usize| shortened("block12/attention/projection", move |text| text.chars().count() <= most);
        assert_eq!(within(28), "block12/attention/projection");
        assert_eq!(within(16), "block12…ojection");
        assert_eq!(within(10), "blo…ection");
        // Nothing fits: something is shown all the same.
        assert_eq!(within(0), "…on");
        assert_eq!(shortened("ab", |_| false), "…b");
    }
}
