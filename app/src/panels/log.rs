//! The log: the events of this session, newest last, to read and to copy.

use std::borrow::Cow;

use eframe::egui::{self, RichText, ScrollArea, Ui};

use super::PanelContext;
use crate::{
    command::Action,
    format, naming,
    session::Session,
    state::{Level, LogEntry},
    theme,
    widgets::{chip, tip::Tip as _},
};

/// Draws the log.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    let entries = &context.state.log.entries;
    if entries.is_empty() {
        chip::empty(ui, "Train a run: its result, and every warning, appears here.");
        return;
    }
    ui.horizontal(|ui| {
        if ui.button("Copy all").tip("Put the whole log on the clipboard.").clicked() {
            let lines: Vec<String> = entries.iter().map(|entry| line(entry, &context.state.session)).collect();
            context.send.send(Action::Copy(lines.join("\n")));
        }
        if ui.button("Clear").tip("Empty the log.").clicked() {
            context.send.send(Action::ClearLog);
        }
    });
    ui.label(RichText::new("Times are since the start of the program.").weak().small());
    ui.add_space(theme::GAP);
    ScrollArea::vertical().auto_shrink(false).stick_to_bottom(true).show(ui, |ui| {
        entries.iter().for_each(|entry| row(ui, context, entry));
    });
}

/// An entry, in which a kept run has its name; on hover, the key is there as well.
fn row(ui: &mut Ui, context: &PanelContext<'_>, entry: &LogEntry) {
    let palette = theme::palette(ui);
    let color = match entry.level {
        Level::Note => ui.visuals().text_color(),
        Level::Warning => palette.warn,
        Level::Error => palette.bad,
    };
    ui.horizontal_top(|ui| {
        let time = RichText::new(time(entry.at_secs)).weak().small().monospace();
        ui.label(time).tip(format!("{} after the start of the program", format::secs(entry.at_secs)));
        let runs = &context.state.runs;
        let text = entry.told(&context.state.session);
        let told = naming::in_words(&text, |key| runs.called(key));
        let label =
            ui.add(egui::Label::new(RichText::new(format::in_groups(&told)).color(color)).wrap().selectable(true));
        let names_a_run = matches!(told, Cow::Owned(_));
        if names_a_run || entry.about.is_some() {
            label.tip_ui(|ui| {
                if names_a_run {
                    ui.label(naming::in_words(&text, |key| runs.called_with_key(key)));
                }
                if let Some(about) = &entry.about {
                    ui.label(about);
                }
            });
        }
    });
}

fn line(entry: &LogEntry, session: &Session) -> String {
    let level = match entry.level {
        Level::Note => "note",
        Level::Warning => "warning",
        Level::Error => "error",
    };
    let about = entry.about.as_ref().map(|about| format!(" ({about})")).unwrap_or_default();
    format!("{:.1} s after the start, {level}: {}{about}", entry.at_secs, entry.told(session))
}

/// A time since the start of the program, in whole seconds.
fn time(secs: f64) -> String {
    if secs < 59.5 { format!("{secs:.0} s") } else { format::secs(secs.round()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds() {
        assert_eq!([0.4, 4.0, 59.4, 59.6, 125.0].map(time), ["0 s", "4 s", "59 s", "1 min", "2 min 5 s"]);
    }

    #[test]
    fn a_copied_line_says_what_its_time_counts_from() {
        let entry =
            LogEntry { at_secs: 155.02, level: Level::Warning, text: "slow".to_owned(), about: None, run: None };
        assert_eq!(line(&entry, &Session::default()), "155.0 s after the start, warning: slow");
        let entry = LogEntry { about: Some("here".to_owned()), ..entry };
        assert_eq!(line(&entry, &Session::default()), "155.0 s after the start, warning: slow (here)");
    }
}
