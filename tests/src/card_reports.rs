//! What cards reported (`plimsoll card-report`), as the rows of a table.

use serde_json::Value;

/// The heading of the table, and the line under it.
pub const HEADING: &str = "\
| card | driver, date | used | reserved | process | drawn | tightest lines held | 2 GiB held | selftest |
|---|---|---|---|---|---|---|---|---|";

/// What stands where no card has reported.
pub const NONE: &str = "No card has reported yet.";

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
        return "not measured".to_owned();
    };
    let below = if below == 0 { String::new() } else { format!("; **{below} below**") };
    format!("{runs} runs, above by {above:.2}% at most{below}")
}

/// How many of how many were right.
fn checked(checks: &Value) -> String {
    match (checks["count"].as_u64(), checks["failed"].as_u64()) {
        (Some(count), Some(failed)) => format!("{} of {count}", count - failed),
        _ => "not measured".to_owned(),
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
