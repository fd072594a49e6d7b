//! `plimsoll compare`: two to six runs or plans side by side.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use plimsoll_engine::{
    Bytes, plan,
    report::{
        Comparison, Ran, Subject,
        comparison::{AliveRow, CategoryRow, FEWEST, MOST, PeakPlace, SettingRow},
    },
};
use serde::Serialize;

use crate::{
    cli::{
        Misuse, complete,
        in_store::InStore,
        out, plain,
        subject::{self, Named},
        table::aligned,
    },
    format,
};

/// Rows of tensors that are listed for people.
const LISTED: usize = 12;
/// Letters of a line, where names can be left out of it.
const LINE: usize = 120;

/// Compare two to six runs or presets: the settings that differ, the memory of each, the results
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll compare cnn-shapes cnn-shapes-bf16
  plimsoll compare last 20261122-14
  plimsoll compare before.toml after.toml --device rtx4060-8g
  plimsoll compare before.toml after.toml --json | jq '.settings'

It shows the settings that differ, the peaks by category, and which tensors are alive at one peak and not, or not as large,
at another.")]
pub(super) struct Compare {
    /// Kept runs, preset files, or names of shipped presets
    #[arg(required = true, value_name = "RUN|PRESET", add = complete::subjects())]
    subjects: Vec<PathBuf>,
    /// Plan all presets for this device
    #[arg(long, value_name = "D", add = complete::devices())]
    device: Option<String>,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: InStore,
}

#[derive(Serialize)]
struct Json<'a> {
    subjects: Vec<JsonSubject<'a>>,
    settings: &'a [SettingRow],
    categories: &'a [CategoryRow],
    alive: &'a [AliveRow],
}

#[derive(Serialize)]
struct JsonSubject<'a> {
    name: &'a str,
    title: &'a str,
    device: &'a str,
    budget_bytes: u64,
    predicted_bytes: Option<u64>,
    measured_bytes: Option<u64>,
    /// Where the peak is.
    peak: Option<PeakPlace>,
    /// Predicted seconds of a step.
    step_secs: Option<f64>,
    /// The results of the run, if it ran.
    ran: Option<&'a Ran>,
}

impl Compare {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if !(FEWEST..=MOST).contains(&self.subjects.len()) {
            let named = match self.subjects.len() {
                1 => "1 was named".to_owned(),
                named => format!("{named} were named"),
            };
            let message = format!("compare takes {FEWEST} to {MOST} runs or presets; {named}");
            return Err(Misuse(message).into());
        }
        let machine = plan::this_machine();
        let device = self.device.as_deref();
        let named = subject::all(self.subjects.iter().map(PathBuf::as_path), device, &self.store, &machine)?;
        self.are_several(&named)?;
        let subjects = named.into_iter().map(|named| named.subject).collect();
        let comparison = Comparison::of(subjects)?;
        if self.json {
            out::json(&as_json(&comparison))?;
        } else {
            out::text(&describe(&comparison))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Compare {
    /// Refuses a run or a preset that is named twice: nothing differs in it.
    fn are_several(&self, named: &[Named]) -> anyhow::Result<()> {
        for (i, (name, one)) in self.subjects.iter().zip(named).enumerate() {
            for (before, other) in self.subjects.iter().zip(named).take(i) {
                let same = match (&one.kept, &other.kept) {
                    (Some(one), Some(other)) if one.run.key == other.run.key => format!("run, {}", one.run.key),
                    (None, None) if name == before => "preset".to_owned(),
                    _ => continue,
                };
                let (before, name) = (before.display(), name.display());
                return Err(Misuse(format!("`{before}` and `{name}` are one {same}: name another")).into());
            }
        }
        Ok(())
    }
}

fn as_json(comparison: &Comparison) -> Json<'_> {
    Json {
        subjects: comparison
            .subjects
            .iter()
            .zip(comparison.places())
            .map(|(one, peak)| of_subject(one, peak))
            .collect(),
        settings: &comparison.settings,
        categories: &comparison.categories,
        alive: &comparison.alive,
    }
}

fn of_subject(subject: &Subject, peak: Option<PeakPlace>) -> JsonSubject<'_> {
    JsonSubject {
        name: &subject.name,
        title: &subject.experiment.title,
        device: &subject.experiment.device,
        budget_bytes: subject.experiment.budget.0,
        predicted_bytes: subject.predicted().map(|bytes| bytes.0),
        measured_bytes: subject.measured().map(|bytes| bytes.0),
        peak,
        step_secs: subject.estimated_step_secs(),
        ran: subject.ran.as_ref(),
    }
}

/// A row of cells: its name, then one for each subject.
fn row(about: impl Into<String>, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(about.into()).chain(cells).collect()
}

fn bytes(bytes: &[Option<u64>]) -> impl Iterator<Item = String> + '_ {
    bytes.iter().map(|bytes| match bytes {
        Some(0) => "·".to_owned(),
        Some(bytes) => Bytes(*bytes).to_string(),
        None => "–".to_owned(),
    })
}

/// The comparison in tables; where names make them wider than a line, they stand above, a letter for each.
fn describe(comparison: &Comparison) -> String {
    let names: Vec<String> = comparison.subjects.iter().map(|subject| subject.name.clone()).collect();
    let letters: Vec<String> = ('A'..).take(names.len()).map(String::from).collect();
    let whole = tables(comparison, &names);
    let short = tables(comparison, &letters);
    let width = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    if width(&whole) <= LINE || width(&whole) <= width(&short) {
        return whole;
    }
    let legend = letters.iter().zip(&names).map(|(letter, name)| format!("{letter}: {}\n", plain::line(name)));
    format!("{}\n{short}", legend.collect::<String>())
}

/// The tables, with these names of the subjects.
fn tables(comparison: &Comparison, names: &[String]) -> String {
    let subjects = &comparison.subjects;
    let of = |value: &dyn Fn(&Subject) -> Option<String>| -> Vec<String> {
        subjects.iter().map(|subject| value(subject).unwrap_or_else(|| "–".to_owned())).collect()
    };
    let heading = |about: &str| row(about, names.iter().cloned());
    let mut text = String::new();
    // A heading over no row says nothing: a sentence stands for it.
    let mut tell = |rows: Vec<Vec<String>>, none: &str| {
        let rows: Vec<&[String]> = rows.iter().map(Vec::as_slice).collect();
        text.push_str(&if rows.len() > 1 { aligned(&rows, 1) } else { format!("{none}\n") });
        text.push('\n');
    };
    let settings = comparison.settings.iter().map(|SettingRow { key, values }| {
        row(*key, values.iter().map(|value| value.clone().unwrap_or_else(|| "–".to_owned())))
    });
    tell(std::iter::once(heading("settings that differ")).chain(settings).collect(), format::NO_SETTING);
    let categories = comparison.categories.iter().map(|c| row(c.category.name(), bytes(&c.bytes)));
    let mut peaks: Vec<Vec<String>> = std::iter::once(heading("at the peak")).chain(categories).collect();
    peaks.push(row("predicted peak", of(&|s| s.predicted().map(|bytes| bytes.to_string()))));
    if subjects.iter().any(|subject| subject.ran.is_some()) {
        peaks.push(row("measured peak", of(&|s| s.measured().map(|bytes| bytes.to_string()))));
        if subjects.iter().any(|subject| format::cut_off(subject).is_some()) {
            peaks.push(row("the run", of(&format::cut_off)));
        }
        peaks.push(row("test accuracy", of(&format::last_score)));
        peaks.push(row("best test accuracy", of(&format::best_score)));
        if subjects.iter().any(|subject| format::smaller(subject).is_some()) {
            peaks.push(row("the model in the end", of(&format::smaller)));
        }
        peaks.push(row("measured time of a step", of(&|s| s.ran.as_ref()?.step_secs.map(format::secs))));
    }
    peaks.push(row("estimated time of a step", of(&format::estimate)));
    let places = comparison.places();
    let place = |place: &Option<PeakPlace>, what: &dyn Fn(&PeakPlace) -> String| {
        place.as_ref().map_or_else(|| "–".to_owned(), what)
    };
    peaks.push(row("in phase", places.iter().map(|p| place(p, &|p| p.pass.name().to_owned()))));
    peaks.push(row("in layer", places.iter().map(|p| place(p, &|p| p.layer.clone()))));
    peaks.push(row("in op", places.iter().map(|p| place(p, &|p| p.op.to_owned()))));
    tell(peaks, "");
    let alive = comparison.alive.iter().take(LISTED);
    let alive = alive.map(|a| row(format!("{} {} ({})", a.layer, a.name, a.category.name()), bytes(&a.bytes)));
    tell(
        std::iter::once(heading("alive at one peak, less at another")).chain(alive).collect(),
        format::nothing_alive(subjects),
    );
    let more = comparison.alive.len().saturating_sub(LISTED);
    if more > 0 {
        text.push_str(&format!("{more} more; --json lists all\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_engine::{Experiment, hardware::Machine, plan::Plan};

    use super::*;

    #[test]
    fn long_names_stand_above_the_tables() {
        let planned = |name: &str, seed: u64| {
            let mut experiment = Experiment::default();
            experiment.run.seed = seed;
            let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
            Subject::of_plan(name.to_owned(), Arc::new(plan))
        };
        let described = |names: [&str; 4]| {
            let subjects = names.iter().zip(1..).map(|(name, seed)| planned(name, seed)).collect();
            describe(&Comparison::of(subjects).expect("four"))
        };
        assert!(described(["a", "b", "c", "d"]).starts_with("settings that differ  a  b"));
        let long = ["a", "b", "c", "d"].map(|name| name.repeat(40));
        let told = described([&long[0], &long[1], &long[2], &long[3]]);
        assert!(told.starts_with(&format!("A: {}\nB: ", long[0])), "{told}");
        assert!(told.lines().all(|line| line.chars().count() <= LINE), "{told}");
    }

    #[test]
    fn a_table_without_a_row_is_a_sentence() {
        let plan = Arc::new(Plan::of(&Experiment::default(), &Machine::nominal()).expect("a plan"));
        let planned = |name: &str| Subject::of_plan(name.to_owned(), Arc::clone(&plan));
        let lost = Subject { plan: None, ..planned("b") };
        for (other, sentence) in [(planned("b"), "the same tensors are alive"), (lost, "is not known")] {
            let told = describe(&Comparison::of(vec![planned("a"), other]).expect("two"));
            assert!(told.starts_with("No setting differs.\n\nat the peak  "), "{told}");
            assert!(told.contains(sentence) && !told.contains("alive at one peak"), "{told}");
        }
    }
}
