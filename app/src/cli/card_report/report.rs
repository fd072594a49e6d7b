//! The content of a report: how each part ended, and its rows as the command wrote them.

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{part::Part, summary::Summary};
use crate::{cli::provenance::Provenance, format};

/// The version of the file's form.
const FORM: u32 = 1;

/// A whole report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    card_report: u32,
    #[serde(flatten)]
    provenance: Provenance,
    /// The operating system and the processor's kind.
    system: String,
    minutes: u64,
    /// Whether it has less of everything: for a simulated card.
    quick: bool,
    /// The results of the parts in few figures.
    summary: Summary,
    parts: Vec<PartReport>,
}

impl Report {
    /// A report without parts yet.
    pub(super) fn new(provenance: Provenance, minutes: u64, quick: bool) -> Self {
        let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
        let summary = Summary::default();
        Self { card_report: FORM, provenance, system, minutes, quick, summary, parts: Vec::new() }
    }

    pub(super) fn add(&mut self, part: PartReport) {
        self.parts.push(part);
        self.summary = Summary::of(&self.parts);
    }

    /// The parts that did not end well.
    pub(super) fn wrong(&self) -> Vec<&'static str> {
        self.parts.iter().filter(|part| !matches!(part.ended, Ended::Well)).map(|part| part.name).collect()
    }
}

/// How a part's process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    Well,
    Status(i32),
    #[cfg_attr(not(unix), expect(dead_code, reason = "only Unix ends processes by signals"))]
    Signal(i32),
    OutOfTime,
    Stopped,
    NotStarted(String),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Well => f.write_str("well"),
            Self::Status(status) => write!(f, "with status {status}"),
            Self::Signal(signal) => write!(f, "by signal {signal}"),
            Self::OutOfTime => f.write_str("out of time"),
            Self::Stopped => f.write_str("stopped"),
            Self::NotStarted(why) => write!(f, "not started: {why}"),
        }
    }
}

impl Serialize for Ended {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The result of a part.
#[derive(Debug, Serialize)]
pub(super) struct PartReport {
    pub(super) name: &'static str,
    asks: &'static str,
    command: String,
    pub(super) secs: f64,
    pub(super) ended: Ended,
    pub(super) rows: Vec<Value>,
    /// The end of its complaints.
    said: String,
}

impl PartReport {
    pub(super) fn new(
        part: &Part,
        arguments: &[String],
        took: Duration,
        ended: Ended,
        rows: Vec<Value>,
        said: String,
    ) -> Self {
        let command = format!("plimsoll {}", arguments.join(" "));
        let said = without_home(said);
        Self { name: part.name, asks: part.asks, command, secs: took.as_secs_f64(), ended, rows, said }
    }

    /// A few words: how many rows, and how it ended if that was not well.
    pub(super) fn in_short(&self) -> String {
        let rows = format::counted(self.rows.len() as u64, "row");
        if self.ended == Ended::Well { rows } else { format!("{rows}, ended {}", self.ended) }
    }
}

/// The text without the name of the user.
fn without_home(said: String) -> String {
    let home = std::env::home_dir().and_then(|home| home.to_str().map(str::to_owned));
    match home.filter(|home| home.len() > 1) {
        Some(home) => said.replace(&home, "~"),
        None => said,
    }
}
