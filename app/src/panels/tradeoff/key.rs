//! The legend of memory against accuracy: the marks that are in the picture, and no others.

use eframe::egui::{RichText, Ui};
use plimsoll_engine::experiment::ModelKind;

use super::{BUDGET_OF, DIMMED, Dot, MARKERS, labels::CROWD, place, seeds, smaller};
use crate::{
    format,
    runs::Runs,
    theme,
    widgets::{
        legend::{self, Entry},
        text,
    },
};

/// As many runs are listed on lines of their own. The names of more flow, in so many letters: a small window has no room for others.
const LINES: usize = 24;
const LETTERS: usize = 1600;

/// Says so where kept runs are not drawn.
pub(super) fn left_out(ui: &mut Ui, runs: &Runs) {
    let told = match (runs.left_out, runs.without_point) {
        (0, 0) => None,
        (0, left_out) => Some(of_kept(left_out)),
        (left_out, _) => Some(words(runs.picked().len(), left_out)),
    };
    if let Some(words) = told {
        text::cut(ui, RichText::new(&words).weak().small(), &words);
    }
}

fn of_kept(left_out: usize) -> String {
    let left_out = format::counted(left_out as u64, "run");
    format!("Without the oldest kept runs ({left_out}); pick one of them among the kept runs to see its point.")
}

fn words(picked: usize, left_out: usize) -> String {
    let [shown, picked] = [picked.saturating_sub(left_out), picked].map(|runs| format::count(runs as u64));
    format!("{shown} of {picked} picked runs are shown: the newest.")
}

/// The meaning of numbers, colours and shapes, in one line. The words for the vertical axis come first if it is too short to have
/// them, and then the names of the runs if numbers alone stand at their points.
pub(super) fn ui(ui: &mut Ui, dots: &[Dot<'_>], budget: Option<f64>, (axis, are_numbers): (Option<&str>, bool)) {
    let palette = theme::palette(ui);
    let entry =
        |color, text: String, hover: &str| Entry { color, text: RichText::new(text).small(), hover: hover.to_owned() };
    let hover = "No other run on these data takes less memory and is more accurate.";
    let axis = axis.map(|axis| entry(None, format!("↑ {axis}"), "What the vertical axis shows, on test data."));
    let mut entries: Vec<Entry> = axis.into_iter().collect();
    if are_numbers {
        entries.push(entry(None, "numbers: runs".to_owned(), &names(dots)));
    }
    entries.push(entry(Some(palette.frontier), "best for its memory".to_owned(), hover));
    if dots.iter().any(|dot| dot.in_focus && !dot.is_best && !dot.is_cut_off) {
        let hover = "Another run on these data is at least as accurate with less memory.";
        entries.push(entry(Some(palette.process), "beaten".to_owned(), hover));
    }
    if dots.iter().any(|dot| dot.in_focus && dot.is_cut_off) {
        let hover = "The run was ended when it met its budget, so its steps are fewer than those of the others.";
        entries.push(entry(Some(palette.warn), "ended at its budget".to_owned(), hover));
    }
    if dots.iter().any(|dot| dot.run.status.is_active()) {
        entries.push(entry(Some(palette.test), "training now".to_owned(), "Its point moves with every test."));
    }
    if let Some(mib) = budget {
        let hover = "The budget of the present settings. Runs that are shown here may have had others.";
        entries.push(entry(Some(palette.budget), format!("{BUDGET_OF}, {}", format::mib(mib)), hover));
    }
    if !smaller::of(dots).is_empty() {
        entries.push(entry(None, "hollow: the model alone, made smaller".to_owned(), smaller::MEANING));
    }
    if !seeds::groups(dots).is_empty() {
        entries.push(entry(Some(palette.strong()), "mean of seeds".to_owned(), seeds::MEANING));
    }
    if dots.iter().any(|dot| !dot.in_focus) {
        let hover =
            "Runs on other data or another kind of device, as far as they lie in these axes. They cannot be compared.";
        entries.push(entry(Some(palette.process.gamma_multiply(DIMMED)), "other data".to_owned(), hover));
    }
    let mut kinds: Vec<ModelKind> =
        dots.iter().filter(|dot| dot.in_focus).map(|dot| dot.run.experiment().model.kind).collect();
    kinds.sort_by_key(|kind| place(*kind));
    kinds.dedup();
    for kind in kinds.iter().filter(|_| kinds.len() > 1) {
        let (_, sign) = MARKERS[place(*kind) % MARKERS.len()];
        entries.push(entry(None, format!("{sign} {}", super::super::family(*kind)), "The family of the model."));
    }
    legend::ui(ui, &entries, 1);
}

/// The runs in focus by their numbers, in a crowd those that have some.
fn names(dots: &[Dot<'_>]) -> String {
    let is_crowd = dots.iter().filter(|dot| dot.in_focus).count() > CROWD;
    let is_named = |dot: &&Dot<'_>| dot.in_focus && (dot.is_best || !is_crowd);
    let mut runs: Vec<_> = dots.iter().filter(is_named).map(|dot| dot.run).collect();
    runs.sort_by_key(|run| (run.short_label().parse::<u64>().ok(), run.key));
    let listed = if runs.len() <= LINES {
        runs.iter().map(|run| run.name()).collect::<Vec<_>>().join("\n")
    } else {
        flowing(runs.iter().map(|run| format!("{}: {}", run.short_label(), run.short_name())).collect())
    };
    if is_crowd {
        format!(
            "Of more than {CROWD} points only those that nothing beats are numbered, where there is room:\n{listed}"
        )
    } else {
        listed
    }
}

/// Names one after the other, as many as have room.
fn flowing(names: Vec<String>) -> String {
    let mut letters = 0;
    let fits = |name: &&String| {
        letters += name.chars().count();
        letters <= LETTERS
    };
    let told: Vec<&str> = names.iter().take_while(fits).map(String::as_str).collect();
    let left = names.len() - told.len();
    let more =
        (left > 0).then(|| format!("and {} more: point at them, or see the pane Runs", format::count(left as u64)));
    told.into_iter().chain(more.as_deref()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_are_left_out_are_counted() {
        assert_eq!(words(1312, 1112), "200 of 1\u{a0}312 picked runs are shown: the newest.");
    }

    #[test]
    fn names_flow_as_far_as_there_is_room_and_the_others_are_counted() {
        let names = |count: u64| (1..=count).map(|run| format!("{run}: micro-batch {}", run * 16)).collect::<Vec<_>>();
        let few = flowing(names(40));
        assert!(few.starts_with("1: micro-batch 16; 2: ") && few.ends_with("; 40: micro-batch 640"), "{few}");
        let many = flowing(names(200));
        assert!(many.chars().count() < LETTERS * 3 / 2, "{many}");
        let (_, last) = many.rsplit_once("; ").expect("several");
        let left: usize = last.split(' ').nth(1).expect("a number").parse().expect("a number");
        assert_eq!(many.matches(": micro").count() + left, 200, "{last}");
    }
}
