//! The page next to a report's file: the same for people, in Markdown. It is made of the file's contents alone.

use std::fmt::Write;

use plimsoll_engine::Bytes;
use serde_json::Value;

use crate::format;

/// The page of a report.
pub(super) fn page(report: &Value) -> String {
    let mut page = String::new();
    let device = report["device"].as_str().unwrap_or("a card without a name");
    // Writing to a string cannot fail.
    let _ = writeln!(page, "# {device}: what it is and does\n\n{}\n", made(report));
    if report["quick"] == true {
        page += "This report covers only a part (`--quick`), as for a simulated card.\n\n";
    }
    page += &assumptions(&report["summary"]["assumptions"]);
    page += &predictions(&report["summary"]);
    for part in report["parts"].as_array().into_iter().flatten() {
        let text = |key: &str| part[key].as_str().unwrap_or_default();
        let _ = writeln!(page, "## {}\n\n{}\n", format::capital(text("name")), text("asks"));
        let rows = part["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        page += &match text("name") {
            "card" => card(rows),
            "selftest" => failed(rows),
            "presets" | "drawn" | "budget" => verified(rows),
            "lines" => lines(rows),
            "kernels" => kernels(rows),
            _ => steps(rows),
        };
        let secs = part["secs"].as_f64().unwrap_or_default();
        let _ = writeln!(page, "`{}` took {secs:.0} s and ended {}.\n", text("command"), text("ended"));
        if text("ended") != "well" && !text("said").is_empty() {
            let _ = writeln!(page, "It said:\n\n```text\n{}\n```\n", text("said"));
        }
    }
    page
}

fn made(report: &Value) -> String {
    let text = |key: &str| report[key].as_str().unwrap_or("unknown").to_owned();
    format!(
        "Driver {}, {}; Plimsoll {}, {}. Made by `plimsoll card-report`. The file next to this page has every figure.",
        text("driver"),
        text("system"),
        text("version"),
        text("date")
    )
}

/// A table; nothing without rows.
fn table<const N: usize>(heading: [&str; N], rows: Vec<[String; N]>) -> String {
    if rows.is_empty() {
        return "Nothing was measured.\n\n".to_owned();
    }
    let line = |cells: &[String]| {
        format!("| {} |\n", cells.iter().map(|c| c.replace('|', "/")).collect::<Vec<_>>().join(" | "))
    };
    let mut text = line(&heading.map(str::to_owned)) + &format!("|{}\n", "---|".repeat(N));
    rows.iter().for_each(|row| text += &line(row));
    text + "\n"
}

fn bytes(of: &Value) -> String {
    of.as_f64().map_or_else(|| "not known".to_owned(), |bytes| Bytes(bytes as u64).to_string())
}

fn words(of: &Value) -> String {
    of.as_str().unwrap_or_default().to_owned()
}

fn assumptions(all: &Value) -> String {
    let row = |of: &Value| [words(&of["figure"]), bytes(&of["assumed"]), bytes(&of["measured"])];
    let rows = all.as_array().into_iter().flatten().map(row).collect();
    "## Assumed and measured\n\n".to_owned() + &table(["figure", "assumed", "measured"], rows)
}

fn predictions(summary: &Value) -> String {
    let mut rows = Vec::new();
    for of in ["presets", "drawn"] {
        for figure in ["used", "reserved", "process"] {
            let found = &summary[of][figure];
            if let (Some(runs), Some(below), Some(above)) =
                (found["runs"].as_u64(), found["below"].as_u64(), found["above_percent"].as_f64())
            {
                rows.push([
                    of.to_owned(),
                    figure.to_owned(),
                    runs.to_string(),
                    below.to_string(),
                    format!("{above:.2}%"),
                ]);
            }
        }
    }
    "## Predicted and measured\n\n".to_owned()
        + &table(["runs", "memory", "how many", "below", "above by at most"], rows)
}

fn card(rows: &[Value]) -> String {
    let Some(card) = rows.first() else { return String::new() };
    let (described, told) = (&card["described"], &card["told_of_process_bytes"]);
    let rate = |figure: &str| format!("{:.1} T", card["opened"]["rates"][figure].as_f64().unwrap_or_default() / 1e12);
    let mut facts = vec![
        ["compute capability".to_owned(), described["capability"].to_string()],
        ["multiprocessors".to_owned(), described["multiprocessors"].to_string()],
        ["memory".to_owned(), bytes(&described["total_bytes"])],
        ["peak, f32, TF32 and half".to_owned(), ["f32", "tf32", "half"].map(rate).join(", ")],
        ["memory's peak in a second".to_owned(), rate("bytes") + "B"],
        ["CUDA of the driver".to_owned(), words(&described["driver"])],
        [
            "tensors of a run".to_owned(),
            described["maps_memory"].as_bool().map_or("not known", format::tensors_lie).to_owned(),
        ],
        [
            "cuDNN".to_owned(),
            card["cudnn"].as_str().map_or_else(|| words(&card["cudnn"]["unavailable"]), str::to_owned),
        ],
        [
            "NVML reports for this process".to_owned(),
            told["unavailable"].as_str().map_or_else(|| bytes(told), str::to_owned),
        ],
        ["taken for what it holds".to_owned(), bytes(&card["held_bytes"])],
    ];
    for answer in card["pool"].as_array().into_iter().flatten() {
        let did = answer["fault"].as_str().map_or_else(|| pool(answer), |fault| format!("failed: {fault}"));
        facts.push([format!("pools: {}", words(&answer["question"])), did]);
    }
    table(["figure", "what it is"], facts)
}

/// The manner of a pool, in a line.
fn pool(answer: &Value) -> String {
    if let Some(blocks) = answer["blocks"]["blocks"].as_array() {
        let one = |b: &Value| {
            format!(
                "{}: {} used, {} reserved",
                bytes(&b["asked_bytes"]),
                bytes(&b["used_bytes"]),
                bytes(&b["reserved_bytes"])
            )
        };
        return blocks.iter().map(one).collect::<Vec<_>>().join("; ");
    }
    if let Some(limits) = answer["limits"].as_array() {
        let one = |l: &Value| {
            let all = if l["gives_all"] == true { "gives" } else { "does not give" };
            let (limit, reserved) = (bytes(&l["limit_bytes"]), bytes(&l["reserved_bytes"]));
            format!("{limit}: {} blocks of 1 MiB in {reserved}, {all} all at once", l["blocks"])
        };
        return limits.iter().map(one).collect::<Vec<_>>().join("; ");
    }
    let (freed, joined, followed) = (&answer["freed"], &answer["joined"], &answer["followed"]);
    if freed.is_object() {
        let again = if freed["same_address"] == true { "the same address again" } else { "another address" };
        let [before, after] = ["used_before_bytes", "used_after_bytes"].map(|key| bytes(&freed[key]));
        return format!("{before} used before a free, {after} after the call; {again}");
    }
    if joined.is_object() {
        let [near, apart] = ["neighbours_grew_bytes", "apart_grew_bytes"].map(|key| bytes(&joined[key]));
        return format!(
            "for a block of two free chunks' size the pool grew by {near}; where they are apart, by {apart}"
        );
    }
    if followed.is_object() {
        let [reserved, fell, kept] = ["reserved_bytes", "fell_bytes", "kept_bytes"].map(|key| bytes(&followed[key]));
        return format!("{reserved} reserved, {fell} less free on the card, {kept} still gone after");
    }
    let mapped = &answer["mapped"];
    if mapped.is_object() {
        if mapped["granularity_bytes"].is_null() {
            return "the device has none".to_owned();
        }
        let keys = ["granularity_bytes", "mapped_bytes", "counted_bytes", "fell_bytes", "kept_bytes"];
        let [step, whole, counted, fell, kept] = keys.map(|key| bytes(&mapped[key]));
        return format!(
            "in steps of {step}: {whole} mapped, of which the driver tells {counted}; {fell} less free on the card, {kept} \
             still gone after"
        );
    }
    match (answer["fitted"]["hole"].as_str(), answer["called"]["secs"].as_f64()) {
        (Some(hole), _) => format!("a block goes to the {hole} hole"),
        (_, Some(secs)) => format!("a free and an allocation take {:.2} us", secs * 1e6),
        (None, None) => answer.to_string(),
    }
}

/// The checks that failed.
fn failed(rows: &[Value]) -> String {
    let count = rows.iter().filter(|row| row["ok"].is_boolean()).count();
    let failed = rows.iter().filter(|row| row["ok"] == false);
    let failed: Vec<_> = failed.map(|row| [words(&row["name"]), words(&row["fault"])]).collect();
    let head = format!("{}, {} failed.\n\n", format::counted(count as u64, "check"), failed.len());
    if failed.is_empty() { head } else { head + &table(["check", "fault"], failed) }
}

fn verified(rows: &[Value]) -> String {
    let cell = |row: &Value, figure: &str| {
        let [predicted, measured] = ["predicted", "measured"].map(|side| bytes(&row[side][figure]));
        format!("{predicted} / {measured}")
    };
    let row = |row: &Value| {
        let verdict = match (row["ok"].as_bool(), row["skipped"].as_str()) {
            (Some(true), _) => "right".to_owned(),
            (Some(false), _) => "**WRONG**".to_owned(),
            (None, why) => format!("skipped: {}", why.unwrap_or_default()),
        };
        [words(&row["name"]), cell(row, "live_bytes"), cell(row, "reserved_bytes"), cell(row, "process_bytes"), verdict]
    };
    table(["run", "used, predicted / measured", "reserved", "process", "verdict"], rows.iter().map(row).collect())
}

fn lines(rows: &[Value]) -> String {
    let row = |row: &Value| {
        let verdict =
            if row["ok"] == true { "held".to_owned() } else { format!("**not held** {}", words(&row["fault"])) };
        [words(&row["name"]), bytes(&row["budget_bytes"]), bytes(&row["process_bytes"]), verdict]
    };
    table(["run", "line", "process", "verdict"], rows.iter().map(row).collect())
}

fn kernels(rows: &[Value]) -> String {
    let row = |row: &Value| {
        let us = |key: &str| row[key].as_f64().map_or_else(|| "-".to_owned(), |secs| format!("{:.1}", secs * 1e6));
        let share =
            row["share"].as_f64().map_or_else(|| words(&row["fault"]), |share| format!("{:.0}%", share * 100.0));
        [words(&row["name"]), words(&row["arithmetic"]), us("secs"), us("peak_secs"), share]
    };
    table(["kernel", "arithmetic", "us", "us at the peak", "of the peak"], rows.iter().map(row).collect())
}

fn steps(rows: &[Value]) -> String {
    let row = |row: &Value| {
        let ms = |key: &str| row[key].as_f64().map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2}"));
        [words(&row["name"]), ms("ms"), ms("min_ms"), ms("predicted_ms"), bytes(&row["peak_bytes"])]
    };
    table(["workload", "median ms", "least ms", "ms at the peak", "used"], rows.iter().map(row).collect())
}
