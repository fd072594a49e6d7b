//! What cards reported (`plimsoll card-report`), as the rows of a table.

use serde_json::Value;

/// The heading of the table, and the line under it.
pub const HEADING: &str = "\
| card | driver, date | used | reserved | process | drawn | tightest lines held | 2 GiB held | selftest |
|---|---|---|---|---|---|---|---|---|";

/// What stands where no card has reported.
pub const NONE: &str = "No card has reported yet.";
/// What stands in a cell that no report fills.
const NOT_MEASURED: &str = "not measured";

/// The row of a report.
///
/// # Panics
/// It is not a report, or it lacks a figure that every report has.
pub fn row(report: &Value) -> String {
    assert_eq!(report["card_report"], 1, "no report of this form: {report}");
    let text = |key: &str| report[key].as_str().unwrap_or_else(|| panic!("no {key} in the report"));
    let summary = &report["summary"];
    let cells = [
        text("device").to_owned(),
        format!("{}, {}", text("driver"), text("date")),
        compared(&summary["presets"]["used"]),
        compared(&summary["presets"]["reserved"]),
        compared(&summary["presets"]["process"]),
        compared(&summary["drawn"]["used"]),
        checked(&summary["lines"]),
        checked(&summary["budget"]),
        checked(&summary["selftest"]),
    ];
    format!("| {} |", cells.map(|cell| cell.replace('|', "/")).join(" | "))
}

/// By how much predictions were above, and how many were below.
fn compared(figures: &Value) -> String {
    let (Some(runs), Some(below), Some(above)) =
        (figures["runs"].as_u64(), figures["below"].as_u64(), figures["above_percent"].as_f64())
    else {
        return NOT_MEASURED.to_owned();
    };
    let below = if below == 0 { String::new() } else { format!("; **{below} below**") };
    format!("{runs} runs, above by {above:.2}% at most{below}")
}

/// How many of how many were right.
fn checked(checks: &Value) -> String {
    match (checks["count"].as_u64(), checks["failed"].as_u64()) {
        (Some(count), Some(failed)) => format!("{} of {count}", count - failed),
        _ => NOT_MEASURED.to_owned(),
    }
}

/// The table of these reports, or the sentence that there are none.
///
/// # Panics
/// One of them is not a report.
pub fn table(reports: &[Value]) -> String {
    if reports.is_empty() {
        return NONE.to_owned();
    }
    let mut rows: Vec<String> = reports.iter().map(row).collect();
    rows.sort();
    format!("{HEADING}\n{}", rows.join("\n"))
}

/// What these reports measured of each prediction in the README's table: the row's first cell, and its last one.
pub fn measured(reports: &[Value]) -> [(&'static str, String); 6] {
    let of = |paths: &[&str]| -> Vec<&Value> {
        reports.iter().flat_map(|report| paths.iter().filter_map(|path| report["summary"].pointer(path))).collect()
    };
    let steps =
        reports.iter().filter(|report| report["summary"]["steps"].as_array().is_some_and(|all| !all.is_empty()));
    let steps = match steps.count() {
        0 => NOT_MEASURED.to_owned(),
        cards => format!("*measured* on {}", counted(cards as u64, "card")),
    };
    [
        (
            "live and reserved bytes",
            all_compared(&of(&["/presets/used", "/presets/reserved", "/drawn/used", "/drawn/reserved"])),
        ),
        ("bytes of the process", all_compared(&of(&["/presets/process", "/drawn/process"]))),
        ("how a pool rounds, grows and joins", pools(reports)),
        ("that the budget holds", all_checked(&of(&["/lines", "/budget"]))),
        ("losses and gradients", all_checked(&of(&["/selftest"]))),
        ("seconds a step", steps),
    ]
}

fn counted(count: u64, of: &str) -> String {
    if count == 1 { format!("1 {of}") } else { format!("{count} {of}s") }
}

/// Comparisons of all reports in one cell.
fn all_compared(all: &[&Value]) -> String {
    let sum = |key: &str| all.iter().filter_map(|figures| figures[key].as_u64()).sum::<u64>();
    if sum("runs") == 0 {
        return NOT_MEASURED.to_owned();
    }
    let above = all.iter().filter_map(|figures| figures["above_percent"].as_f64()).fold(0.0, f64::max);
    let below = if sum("below") == 0 { String::new() } else { format!("; **{} below**", sum("below")) };
    format!("*measured*: {}, above by {above:.2}% at most{below}", counted(sum("runs"), "comparison"))
}

/// Checks of all reports in one cell.
fn all_checked(all: &[&Value]) -> String {
    let sum = |key: &str| all.iter().filter_map(|checks| checks[key].as_u64()).sum::<u64>();
    match sum("count") {
        0 => NOT_MEASURED.to_owned(),
        count => format!("*measured*: {} of {count}", count - sum("failed")),
    }
}

/// How many figures of pools are what was assumed.
fn pools(reports: &[Value]) -> String {
    const FIGURES: [&str; 4] = ["a pool's granule", "its least growth", "its step", "what a byte counts as"];
    let is_of_pool = |found: &&Value| found["figure"].as_str().is_some_and(|figure| FIGURES.contains(&figure));
    let all = reports.iter().flat_map(|report| report["summary"]["assumptions"].as_array().into_iter().flatten());
    let all: Vec<&Value> = all.filter(is_of_pool).filter(|found| found["measured"].is_number()).collect();
    match all.len() {
        0 => NOT_MEASURED.to_owned(),
        figures => {
            let alike = all.iter().filter(|found| found["measured"] == found["assumed"]).count();
            format!("*measured*: {alike} of {figures} figures as they were assumed")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_are_made_of_all_reports() {
        assert!(measured(&[]).iter().all(|(_, cell)| cell == NOT_MEASURED));
        let report = |above: f64, below: u64| {
            let compared = json!({"runs": 3, "below": below, "above_percent": above});
            let of = json!({"used": compared, "reserved": compared, "process": compared});
            let pool = json!({"figure": "its step", "assumed": 2, "measured": 2 + below, "unit": "bytes"});
            let kernels = json!({"figure": "kernels of a run never seen", "assumed": 2, "measured": 1});
            let checks = json!({"count": 10, "failed": below});
            json!({"summary": {
                "presets": of, "drawn": of, "lines": checks, "budget": checks, "selftest": checks,
                "steps": [["a", 1.0]], "assumptions": [pool, kernels],
            }})
        };
        let cells = measured(&[report(0.5, 0), report(1.25, 1)]).map(|(_, cell)| cell);
        assert_eq!(
            cells,
            [
                "*measured*: 24 comparisons, above by 1.25% at most; **4 below**",
                "*measured*: 12 comparisons, above by 1.25% at most; **2 below**",
                "*measured*: 1 of 2 figures as they were assumed",
                "*measured*: 38 of 40",
                "*measured*: 19 of 20",
                "*measured* on 2 cards",
            ]
        );
    }
}
