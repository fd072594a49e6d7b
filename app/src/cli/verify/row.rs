//! The report of one run: an object of JSON, or the cells of a row.

use plimsoll_engine::plan::{Peak, Plan};
use serde::Serialize;

use crate::cli::provenance::Provenance;

/// A run that this machine cannot train, or not in good time, or whose data are not here.
#[derive(Serialize)]
pub(super) struct Skipped<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) predicted: Option<Peak>,
    pub(super) skipped: &'a str,
}

/// Predicted and measured.
#[derive(Serialize)]
pub(super) struct Pair {
    pub(super) predicted: Peak,
    pub(super) measured: Peak,
}

/// A run that was measured.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    pub(super) name: &'a str,
    #[serde(flatten)]
    pub(super) pair: Pair,
    /// Live, predicted less measured.
    pub(super) difference_bytes: i64,
    pub(super) difference_percent: f64,
    /// Host memory of data and loaders, predicted and measured.
    pub(super) host_bytes: [u64; 2],
    pub(super) ok: bool,
    /// The line it had to keep to.
    pub(super) budget_bytes: Option<u64>,
    pub(super) micro: usize,
    pub(super) steps: u64,
    /// The step after which channels were taken out, if they were.
    pub(super) channels_out_after: Option<u64>,
    /// On a GPU, the run that loaded the kernels.
    pub(super) first: Option<Pair>,
    #[serde(flatten)]
    pub(super) provenance: &'a Provenance,
    /// The seed that it was drawn by.
    pub(super) seed: Option<u64>,
}

impl Row<'_> {
    /// A line below the table, about a preset whose run lost channels: its own step for that comes later.
    pub(super) fn note(&self) -> Option<String> {
        let after = self.channels_out_after.filter(|_| self.seed.is_none())?;
        Some(format!("{} lost channels after step {after} of {}\n", self.name, self.steps))
    }
}

/// The cells of a run that is planned only.
pub(super) fn unmeasured(name: &str, plan: &Plan) -> [String; 8] {
    let none = || "-".to_owned();
    let (live, reserved) = (plan.peak.live.to_string(), plan.peak.reserved.to_string());
    [name.to_owned(), live, none(), none(), none(), reserved, plan.peak.process.to_string(), "skipped".to_owned()]
}

/// The cells of a run that was measured.
pub(super) fn cells(row: &Row<'_>) -> [String; 8] {
    let Pair { predicted, measured } = &row.pair;
    [
        row.name.to_owned(),
        predicted.live.to_string(),
        measured.live.to_string(),
        predicted.live.difference(measured.live),
        format!("{:+.2}%", row.difference_percent),
        format!("{} / {}", predicted.reserved, measured.reserved),
        format!("{} / {}", predicted.process, measured.process),
        if row.ok { "right" } else { "WRONG" }.to_owned(),
    ]
}
