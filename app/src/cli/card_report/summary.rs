//! The results of a report's parts in few figures: the assumptions about a card against the measurements, and whether the
//! predictions were right.

use plimsoll_engine::{experiment::shipped, hardware::kernels_allowed};
use serde::Serialize;
use serde_json::Value;

use super::report::PartReport;

/// The figures.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    selftest: Option<Checks>,
    presets: Option<Verified>,
    drawn: Option<Verified>,
    /// The tightest lines.
    lines: Option<Checks>,
    budget: Option<Checks>,
    /// Median milliseconds of a step, by workload.
    steps: Vec<(String, f64)>,
    assumptions: Vec<Assumption>,
}

/// Checks, and how many of them failed.
#[derive(Debug, Serialize)]
struct Checks {
    count: usize,
    failed: usize,
}

/// Runs whose memory was predicted and measured.
#[derive(Debug, Serialize)]
struct Verified {
    used: Compared,
    reserved: Compared,
    process: Compared,
}

/// Predictions against measurements.
#[derive(Debug, Serialize)]
struct Compared {
    runs: usize,
    /// How many were below the measurement.
    below: usize,
    /// How far the highest prediction was above its measurement.
    above_percent: f64,
}

/// A figure that is assumed before a card is asked, and the card's own figure.
#[derive(Debug, Serialize)]
struct Assumption {
    figure: &'static str,
    assumed: f64,
    measured: Option<f64>,
    unit: &'static str,
}

impl Summary {
    /// Summarises the parts that were asked so far.
    pub(super) fn of(parts: &[PartReport]) -> Self {
        let rows = |name: &str| parts.iter().find(|part| part.name == name).map(|part| part.rows.as_slice());
        let steps = ["bench", "small steps"].into_iter().filter_map(rows).flatten();
        Self {
            selftest: rows("selftest").and_then(checks),
            presets: rows("presets").and_then(verified),
            drawn: rows("drawn").and_then(verified),
            lines: rows("lines").and_then(checks),
            budget: rows("budget").and_then(checks),
            steps: steps.filter_map(|row| Some((row["name"].as_str()?.to_owned(), row["ms"].as_f64()?))).collect(),
            assumptions: assumptions(rows("card").unwrap_or_default(), rows("presets").unwrap_or_default()),
        }
    }
}

fn checks(rows: &[Value]) -> Option<Checks> {
    let of = |ok: bool| rows.iter().filter(|row| row["ok"] == ok).count();
    let (held, failed) = (of(true), of(false));
    (held + failed > 0).then_some(Checks { count: held + failed, failed })
}

fn verified(rows: &[Value]) -> Option<Verified> {
    let measured: Vec<&Value> = rows.iter().filter(|row| row["measured"].is_object()).collect();
    let of = |figure: &str| {
        let pairs = measured
            .iter()
            .filter_map(|row| Some((row["predicted"][figure].as_f64()?, row["measured"][figure].as_f64()?)));
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let above = |(predicted, measured): &(f64, f64)| (predicted / measured.max(1.0) - 1.0) * 100.0;
        Compared {
            runs: pairs.len(),
            below: pairs.iter().filter(|(predicted, measured)| predicted < measured).count(),
            above_percent: pairs.iter().map(above).fold(0.0, f64::max),
        }
    };
    let verified = Verified { used: of("live_bytes"), reserved: of("reserved_bytes"), process: of("process_bytes") };
    (!measured.is_empty()).then_some(verified)
}

fn assumptions(card: &[Value], presets: &[Value]) -> Vec<Assumption> {
    let Some(card) = card.first() else { return Vec::new() };
    let size = |profile: &Value, figure: &str| size(&profile[figure]);
    let (assumed, opened) = (&card["assumed"], &card["opened"]);
    let mut all = Vec::new();
    let mut bytes = |figure, assumed: Option<f64>, measured: Option<f64>| {
        if let Some(assumed) = assumed {
            all.push(Assumption { figure, assumed, measured, unit: "bytes" });
        }
    };
    // A context that is only a bound is not a measurement.
    let is_told = opened["measured"].is_string();
    bytes("context", size(assumed, "context"), size(opened, "context").filter(|_| is_told));
    for (figure, key) in [("a pool's granule", "granule"), ("its least growth", "segment"), ("its step", "page")] {
        bytes(figure, size(&assumed["pool"], key), size(&opened["pool"], key));
    }
    let answer = |question: &str| {
        card["pool"].as_array().and_then(|all| all.iter().find(|answer| answer["question"] == question))
    };
    let first = answer("rounding").and_then(|answer| answer["blocks"]["blocks"].get(0));
    bytes("what a byte counts as", size(&assumed["pool"], "granule"), first.and_then(|b| b["used_bytes"].as_f64()));
    for (figure, convolves) in [("kernels of a run never seen", false), ("the same with convolutions", true)] {
        bytes(figure, Some(kernels_allowed(convolves).0 as f64), kernels(opened, presets, convolves));
    }
    all
}

/// The most that the kernels of presets that convolve, or of those that do not, took in addition to the context that was there
/// before any. Kernels of the presets before it are still there.
fn kernels(opened: &Value, presets: &[Value], convolves: bool) -> Option<f64> {
    let context = size(&opened["context"])?;
    let is_of_kind = |row: &&Value| {
        let preset = row["name"].as_str().and_then(|name| shipped::open(name).ok());
        preset.is_some_and(|preset| preset.experiment.model.kind.convolves() == convolves)
    };
    let took = presets.iter().filter(is_of_kind).filter_map(|row| {
        let measured = &row["measured"];
        Some(measured["process_bytes"].as_f64()? - measured["reserved_bytes"].as_f64()? - context)
    });
    took.reduce(f64::max).map(|most| most.max(0.0))
}

/// A size in a profile: a number of bytes, or as people write it.
fn size(of: &Value) -> Option<f64> {
    let text = || of.as_str()?.parse::<plimsoll_engine::Bytes>().ok().map(|bytes| bytes.0 as f64);
    of.as_f64().or_else(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kernels_are_told_apart_by_whether_they_convolve() {
        let mib = |mib: u64| mib << 20;
        let row = |name: &str, process: u64| {
            let measured = json!({"process_bytes": mib(process), "reserved_bytes": mib(32)});
            json!({"name": name, "measured": measured})
        };
        let card = json!({"assumed": {}, "opened": {"context": mib(300)}});
        let presets = [row("mlp-digits", 372), row("cnn-digits", 452), row("sort-llama", 392), row("other", 9000)];
        let found = assumptions(&[card], &presets);
        let of = |figure: &str| {
            let found = found.iter().find(|found| found.figure == figure).expect("an assumption");
            (found.assumed, found.measured)
        };
        let allowed = |convolves| kernels_allowed(convolves).0 as f64;
        assert_eq!(of("kernels of a run never seen"), (allowed(false), Some(mib(60) as f64)));
        assert_eq!(of("the same with convolutions"), (allowed(true), Some(mib(120) as f64)));
        assert!(allowed(true) > allowed(false));
    }

    #[test]
    fn figures_are_those_of_the_rows() {
        let row = |predicted: u64, measured: u64| {
            let of = |bytes: u64| json!({"live_bytes": bytes, "reserved_bytes": bytes, "process_bytes": bytes});
            json!({"predicted": of(predicted), "measured": of(measured), "ok": predicted >= measured})
        };
        let rows = [row(101, 100), row(99, 100), row(100, 100), json!({"name": "x", "skipped": "too large"})];
        let found = verified(&rows).expect("three of them ran").used;
        assert_eq!((found.runs, found.below), (3, 1));
        assert!((found.above_percent - 1.0).abs() < 1e-9, "{found:?}");
        let found = checks(&rows).expect("three");
        assert_eq!((found.count, found.failed), (3, 1));
        assert!(verified(&rows[3..]).is_none() && checks(&[]).is_none());
    }
}
