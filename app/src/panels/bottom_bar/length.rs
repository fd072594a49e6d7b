//! The forecast for the present configuration, in one line.
//!
//! Always holds: steps, duration, time of a step and rate are shown at any width; with less room words go. Hover and a screen
//! reader have the whole. The run that tells the pace is named.

use eframe::egui::{self, Response, Role, Ui, WidgetInfo};
use plimsoll_engine::plan::Plan;

use super::pace::{Pace, Source};
use crate::{format, panels::PanelContext, saves::Saves, theme, widgets::text};

/// The forecast for the present configuration.
pub(super) fn planned(ui: &mut Ui, context: &PanelContext<'_>) {
    let state = context.state;
    let Some(plan) = state.newest_plan().filter(|_| state.prediction.obstacle.is_none()) else { return };
    // Until the next plan is there, this is the plan before it: the line does not blink.
    let color = if state.plan().is_some() { ui.visuals().text_color() } else { theme::palette(ui).weak() };
    let (font, room) = (egui::TextStyle::Body.resolve(ui.style()), ui.available_width());
    let pace = Pace::known(ui.ctx(), state, plan);
    let lengths = lengths(plan, &pace);
    let fits = |words: &str| text::width(ui, words, &font) <= room;
    let words = chosen(&lengths, fits);
    let whole = about_length(plan, &pace);
    let about = if fits(words) { whole } else { format!("{words}. {whole}") };
    let cut = text::cut_at_bottom(ui, text::estimate(words).color(color), &about);
    spoken(&cut, &lengths[0]);
}

/// The longest words that have room, or the shortest: no figure is left out.
fn chosen(lengths: &[String; 5], fits: impl Fn(&str) -> bool) -> &str {
    lengths.iter().find(|words| fits(words)).unwrap_or(&lengths[4])
}

/// Gives a screen reader the whole words, also where the line has room for fewer.
fn spoken(response: &Response, whole: &str) {
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, whole));
}

/// The forecast before a run has taken such steps.
#[cfg(test)]
pub(crate) fn length(plan: &Plan) -> String {
    let [whole, ..] = lengths(plan, &Pace::predicted(plan));
    whole
}

/// `1 438 steps in about 12.4 s with 12 tests, plus 3 checkpoints: about 8.6 ms a step as in run 2, 7 400 samples/s`, then
/// shorter and shorter versions of it, each with all four figures; the test and the checkpoint of the end go without saying.
fn lengths(plan: &Plan, pace: &Pace) -> [String; 5] {
    let experiment = &plan.experiment;
    let (unit, each) = format::throughput(&experiment.data);
    let rate = (experiment.batch.effective() * each) as f64 / pace.step_secs;
    // A sign is there in the shortest text as well: a card's time is a bound, a processor's an estimate, and neither a
    // measurement of the run to come.
    let (about, sign) =
        if plan.target.is_gpu() && pace.source == Source::Predicted { ("at least", "≥ ") } else { ("about", "≈ ") };
    let saves = match Saves::of(plan).count {
        0 | 1 => String::new(),
        count => format!(", plus {}", format::counted(count, "checkpoint")),
    };
    let tests = match plan.tests() {
        0 | 1 => String::new(),
        count => format!(" with {}", format::counted(count, "test")),
    };
    let steps = format::counted(plan.total_steps, "step");
    let [whole, step] = [pace.corrected(plan.run_secs(), plan), pace.step_secs].map(format::secs);
    let rate = if rate.is_finite() { format::count(rate.round() as u64) } else { "…".to_owned() };
    let rate_and_unit = format!("{rate} {unit}");
    let like = pace.words();
    [
        format!("{steps} in {about} {whole}{tests}{saves}: {about} {step} a step{like}, {rate_and_unit}"),
        format!("{steps} in {about} {whole}: {about} {step} a step{like}, {rate_and_unit}"),
        format!("{steps}, {sign}{whole}: {sign}{step} a step, {rate_and_unit}"),
        format!("{steps}, {sign}{whole}: {sign}{step}, {rate_and_unit}"),
        format!("{steps}, {sign}{whole}: {sign}{step}, {rate}/s"),
    ]
}

fn about_length(plan: &Plan, pace: &Pace) -> String {
    let source = match &pace.source {
        Source::Same(run) => format!("An estimate: the same steps took so long in {}.", run.to_lowercase()),
        Source::Like(run) => format!(
            "An estimate: the predicted time, {} a step, corrected by how long {} took against its own prediction. The \
             more the steps differ, the smaller is the correction.",
            format::secs(plan.step_secs),
            run.to_lowercase()
        ),
        Source::Predicted if plan.target.is_gpu() => {
            "An estimate: the arithmetic and the memory traffic of the step at the \
             rates of the card's data sheet, which no run reaches."
                .to_owned()
        }
        Source::Predicted => {
            "An estimate: the arithmetic and the memory traffic of the step at the rates of this processor, \
             as far as they were measured."
                .to_owned()
        }
    };
    let saves = Saves::of(plan).words();
    let of_best = if plan.experiment.run.save_best { ", in addition to those of the best tests" } else { "" };
    let asked = match plan.teach_secs {
        0.0 => String::new(),
        secs => format!(
            " and about {} in which the teacher is asked before the first step",
            format::secs(pace.corrected(secs, plan))
        ),
    };
    format!(
        "What the present configuration takes: {}. {source} In it are {} on held-out data of about {} each{asked}. On top comes \
         the writing of {saves}{of_best}.",
        lengths(plan, pace)[0],
        format::counted(plan.tests(), "test"),
        format::secs(pace.corrected(plan.test_secs, plan)),
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{Experiment, hardware::Machine};

    use super::*;

    /// A plan of known times, whose run has one test.
    fn plan() -> Plan {
        let mut experiment = Experiment::default();
        experiment.run.evaluate_every = 10_000;
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("the default experiment");
        Plan { total_steps: 1438, step_secs: 0.0086, test_secs: 0.01, ..plan }
    }

    #[test]
    fn a_plan_says_how_long_it_lasts() {
        let plan = plan();
        assert_eq!(length(&plan), "1\u{a0}438 steps in about 12.4 s: about 8.60 ms a step, 7\u{a0}442 samples/s");
        let about = about_length(&plan, &Pace::predicted(&plan));
        assert!(about.contains("An estimate") && about.contains("1 checkpoint of about"));
        let mut often = (*plan.experiment).clone();
        often.run.save_every = 10;
        let told = length(&Plan { experiment: often.into(), ..plan });
        assert!(told.starts_with("1\u{a0}438 steps in about 12.4 s, plus 144 checkpoints: "), "{told}");
        // Tests are in the time of the run, as on the command line.
        let experiment = Experiment::default();
        let tested = Plan::of(&experiment, &Machine::nominal()).expect("the default experiment");
        let tested = Plan { total_steps: 1438, step_secs: 0.0086, test_secs: 0.1, ..tested };
        let (tests, whole) = (tested.tests(), format::secs(1438.0 * 0.0086 + 0.1 * tested.tests() as f64));
        assert!(tests > 10 && length(&tested).contains(&format!(" in about {whole} with {tests} tests: ")), "{tests}");
    }

    #[test]
    fn the_steps_of_a_run_take_the_place_of_the_estimate() {
        let plan = plan();
        let pace = Pace { step_secs: 0.02, source: Source::Same("Run 3".to_owned()) };
        let [whole, ..] = lengths(&plan, &pace);
        let secs = format::secs((1438.0 * 0.0086 + 0.01) * 0.02 / 0.0086);
        assert_eq!(
            whole,
            format!("1\u{a0}438 steps in about {secs}: about 20.0 ms a step as in run 3, 3\u{a0}200 samples/s")
        );
        assert!(about_length(&plan, &pace).contains("the same steps took so long in run 3"));
        let pace = Pace { source: Source::Like("Run 3".to_owned()), ..pace };
        let [whole, ..] = lengths(&plan, &pace);
        assert!(whole.contains("20.0 ms a step by the pace of run 3, "), "{whole}");
        assert!(about_length(&plan, &pace).contains("the predicted time, 8.60 ms a step, corrected by"));
    }

    #[test]
    fn what_is_said_shorter_keeps_every_figure() {
        let plan = plan();
        let lengths = |plan: &Plan| super::lengths(plan, &Pace::predicted(plan));
        assert_eq!(lengths(&plan)[2], "1\u{a0}438 steps, ≈ 12.4 s: ≈ 8.60 ms a step, 7\u{a0}442 samples/s");
        let experiment = Experiment { device: "rtx4060-8g".to_owned(), ..Experiment::default() };
        let on_a_card = Plan::of(&experiment, &Machine::nominal()).expect("a card to plan for");
        let told = lengths(&on_a_card);
        assert!(told[..2].iter().all(|words| words.contains("at least ")), "{told:?}");
        assert!(told[2..].iter().all(|words| words.contains(", ≥ ")), "{told:?}");
        let lengths = lengths(&plan);
        let chosen = |room| chosen(&lengths, |words| words.chars().count() <= room);
        assert_eq!([chosen(200), chosen(50), chosen(10)], [&lengths[0], &lengths[3], &lengths[4]], "{lengths:?}");
        for figure in ["1\u{a0}438 steps", "12.4 s", "8.60 ms", "7\u{a0}442"] {
            assert!(lengths.iter().all(|words| words.contains(figure)), "{figure}: {lengths:?}");
        }
    }
}
