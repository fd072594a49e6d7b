//! The measurements that are kept (`tests/measurements`), and that the pages for readers say no more than they do.

use std::{fs, path::Path};

use plimsoll_engine::Bytes;
use plimsoll_tests::card_reports;
use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/measurements");
const README: &str = include_str!("../../README.md");
/// The page with the tables.
const PAGE: &str = include_str!("../MEASUREMENTS.md");

/// Every line of every file, with the file's name.
fn all() -> Vec<(String, Value)> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(FOLDER).expect("the folder") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            let name = name(&path);
            let text = fs::read_to_string(&path).expect("text");
            rows.extend(text.lines().map(|line| {
                (name.clone(), serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {error}: {line}")))
            }));
        }
    }
    assert!(!rows.is_empty(), "there are no measurements");
    rows
}

/// What cards reported: every file that `plimsoll card-report` wrote, as it is.
fn reports() -> Vec<Value> {
    let files = fs::read_dir(FOLDER).expect("the folder").map(|entry| entry.expect("a file").path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let read = |path: std::path::PathBuf| {
        let text = fs::read_to_string(&path).expect("text");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    files.map(read).collect()
}

fn name(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

fn bytes(of: &Value, figure: &str) -> Bytes {
    Bytes(of[figure].as_u64().unwrap_or_else(|| panic!("no {figure} in {of}")))
}

fn is_measured(row: &Value) -> bool {
    row["measured"].is_object()
}

#[test]
fn every_measurement_says_where_and_when_it_was_made() {
    for (file, row) in all().into_iter().filter(|(_, row)| is_measured(row)) {
        for key in ["on", "device", "date", "version"] {
            assert!(row[key].as_str().is_some_and(|text| !text.is_empty()), "{file}: no {key} in {row}");
        }
        let is_gpu = row["on"].as_str().is_some_and(|on| on.starts_with("cuda:"));
        assert_eq!(row["driver"].is_string(), is_gpu, "{file}: {row}");
        assert!(!row["device"].as_str().is_some_and(|name| name.contains("Simulated")), "{file} is of no real device");
    }
}

#[test]
fn no_prediction_that_was_measured_was_below() {
    for (file, row) in all().into_iter().filter(|(_, row)| is_measured(row)) {
        assert_eq!(row["ok"], true, "{file}: {row}");
        assert!(bytes(&row["predicted"], "live_bytes") >= bytes(&row["measured"], "live_bytes"), "{file}: {row}");
    }
}

/// The cells of the page's tables whose first cell is `first`, without it.
fn cells(first: &str) -> Vec<Vec<&'static str>> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = rows.map(|row| row.split(" | ").map(str::trim).collect::<Vec<_>>());
    rows.filter(|cells| cells.first() == Some(&first)).map(|cells| cells[1..].to_vec()).collect()
}

#[test]
fn the_page_tells_what_was_measured_on_the_processor() {
    let rows = all();
    let presets: Vec<_> = rows.iter().filter(|(file, row)| file == "verify-cpu" && is_measured(row)).collect();
    assert!(presets.len() >= 17, "{}", presets.len());
    for (_, row) in presets {
        let (predicted, measured) = (&row["predicted"], &row["measured"]);
        let (predicted, measured) = (bytes(predicted, "live_bytes"), bytes(measured, "live_bytes"));
        let name = row["name"].as_str().expect("a name");
        let told = [predicted.to_string(), measured.to_string(), (predicted - measured).to_string()];
        assert!(cells(name).iter().any(|cells| *cells == told), "the page lacks {name}: {told:?}");
    }
}

#[test]
fn the_page_tells_what_random_experiments_came_to() {
    let rows = all();
    let drawn: Vec<_> = rows.iter().filter(|(file, _)| file == "drawn-cpu").map(|(_, row)| row).collect();
    assert!(drawn.len() >= 100, "{}", drawn.len());
    for family in plimsoll_engine::selftest::experiments::families() {
        let of = |row: &&&Value| row["name"].as_str().is_some_and(|n| n.split_once(' ').is_some_and(|n| n.1 == family));
        let of: Vec<_> = drawn.iter().filter(of).collect();
        let above = |row: &Value| bytes(&row["predicted"], "live_bytes") - bytes(&row["measured"], "live_bytes");
        let most = of.iter().map(|row| above(row)).max().unwrap_or_default();
        let large = of.iter().filter(|row| bytes(&row["measured"], "live_bytes") >= Bytes::mib(10));
        let share = large.filter_map(|row| row["difference_percent"].as_f64()).reduce(f64::max);
        let share = share.map_or("none drawn".to_owned(), |share| format!("{share:.2}%"));
        let told = [of.len().to_string(), most.to_string(), share];
        assert!(cells(family).iter().any(|cells| *cells == told), "the page lacks {family}: {told:?}");
    }
}

#[test]
fn the_page_tells_how_near_predicted_processes_are() {
    let rows = all();
    let told = [
        ("planned", "kept_measured", "`plan`"),
        ("predicted", "measured", "`finished`"),
        ("kept_predicted", "kept_measured", "`finished`, kept"),
        ("again_predicted", "again_measured", "`finished`, kept again"),
        ("planned_again", "again_measured", "`plan` after them"),
    ];
    for (of, (figure, measured, name)) in ["presets", "drawn"].into_iter().flat_map(|of| told.map(|told| (of, told))) {
        let name = format!("{of}, {name}");
        let of = rows.iter().filter(|(file, row)| file == "process-cpu" && row["of"] == of).map(|(_, row)| row);
        let bytes = |row: &Value, figure: &str| row[figure].as_f64().expect("bytes");
        let mut off: Vec<f64> = of.map(|row| (bytes(row, figure) / bytes(row, measured) - 1.0) * 100.0).collect();
        off.sort_by(f64::total_cmp);
        let mut sizes: Vec<f64> = off.iter().map(|percent| percent.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        assert!(off.len() >= 25, "{name}: {}", off.len());
        let told = [
            off.len().to_string(),
            format!("{:.2}%", sizes[sizes.len() / 2]),
            format!("{:+.2}%", off[0]),
            format!("{:+.2}%", off[off.len() - 1]),
            off.iter().filter(|percent| **percent < 0.0).count().to_string(),
        ];
        assert!(cells(&name).iter().any(|cells| *cells == told), "the page lacks {name}: {told:?}");
    }
}

/// The mean of the accuracies of a preset's runs with a rule and so many times its learning rate, in per cent, and how far
/// apart they are.
fn accuracies(rows: &[(String, Value)], preset: &str, (rule, times): (&str, u64)) -> (f64, f64) {
    let of = |(file, row): &&(String, Value)| {
        let is_of_rule = row["optimizer"] == rule && row["times"] == times;
        file == "optimizers-cpu" && row["name"] == preset && is_of_rule
    };
    let shares = rows.iter().filter(of).map(|(_, row)| 100.0 * row["accuracy"].as_f64().expect("a share"));
    let shares: Vec<f64> = shares.collect();
    assert_eq!(shares.len(), 3, "{preset} with {rule}");
    let [least, most] = [f64::min, f64::max].map(|of| shares.iter().copied().reduce(of).expect("three"));
    (shares.iter().sum::<f64>() / 3.0, most - least)
}

#[test]
fn the_page_tells_what_other_rules_than_adamw_came_to() {
    let rows = all();
    for preset in ["mlp-digits", "cnn-digits", "vit-digits", "sort-llama"] {
        let (adamw, spread) = accuracies(&rows, preset, ("adamw", 1));
        let of_rule = |rule: (&str, u64)| format!("{:+.2}", accuracies(&rows, preset, rule).0 - adamw);
        let mut told = vec![format!("{adamw:.2}%"), format!("{spread:.2}")];
        let of_adamw = [("adamw8bit", 1), ("adamw4bit", 1), ("flash-adamw", 1)];
        let others = [("muon", 1), ("apollo-mini", 1), ("apollo-mini", 5)];
        told.extend(of_adamw.into_iter().chain(others).map(of_rule));
        assert!(cells(preset).iter().any(|cells| *cells == told), "the page lacks {preset}: {told:?}");
    }
}

#[test]
fn the_page_tells_what_a_teacher_was_worth() {
    let rows: Vec<Value> =
        all().into_iter().filter(|(file, _)| file == "distillation-cpu").map(|(_, row)| row).collect();
    let of = |name: &str, taught_by: &str| -> Vec<f64> {
        let of = rows.iter().filter(|row| row["name"] == name && row["taught_by"] == taught_by);
        of.map(|row| 100.0 * row["accuracy"].as_f64().expect("a share")).collect()
    };
    for (teacher, student, is_better_with_each) in
        [("cnn-digits-teacher", "mlp-digits-student", false), ("modular-grokking", "modular-student", true)]
    {
        let (alone, taught) = (of(student, "labels"), of(student, teacher));
        assert_eq!((alone.len(), taught.len()), (3, 3));
        assert!(taught.iter().sum::<f64>() > alone.iter().sum::<f64>(), "{alone:?}, {taught:?}");
        let is_better = alone.iter().zip(&taught).all(|(alone, taught)| taught > alone);
        assert!(is_better || !is_better_with_each, "{student}: {alone:?}, {taught:?}");
        let told = [
            (format!("`{teacher}`"), of(teacher, "labels")),
            (format!("`{student}`, labels alone"), alone),
            (format!("`{student}`, labels and the teacher"), taught),
        ];
        for (first, shares) in told {
            let told: Vec<String> = shares.iter().map(|share| format!("{share:.2}%")).collect();
            assert!(cells(&first).iter().any(|cells| *cells == told), "the page lacks {first}: {told:?}");
        }
    }
}

#[test]
fn no_page_claims_a_gpu_that_was_not_measured() {
    let rows = all().into_iter().map(|(_, row)| row).chain(reports());
    let measured = rows.into_iter().any(|row| row["on"].as_str().is_some_and(|on| on.starts_with("cuda:")));
    assert_eq!(README.contains("**No figure here was measured on a real GPU: none was available.**"), !measured);
    assert_eq!(PAGE.contains("**No figure below was measured on a real GPU: none was available.**"), !measured);
    let cells = PAGE.lines().filter(|line| line.starts_with("| ") && line.contains("| not measured |")).count();
    assert!(measured || cells == 7, "{cells} cells say that they were not measured");
}

#[test]
fn the_page_tells_what_cards_reported() {
    let reports = reports();
    for report in &reports {
        assert!(
            !report["device"].as_str().is_some_and(|name| name.contains("Simulated")),
            "a report of no real device"
        );
        assert_eq!(report["quick"], false, "a report of a part of everything");
    }
    let (_, rest) = PAGE.split_once("<!-- cards -->\n").expect("the page has a place for them");
    let (told, _) = rest.split_once("\n<!-- end of cards -->").expect("the place ends");
    assert_eq!(told, card_reports::table(&reports), "write what is on the right between the marks");
}

#[test]
fn the_readme_tells_what_cards_measured_of_each_prediction() {
    let rows = README.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows: Vec<Vec<&str>> =
        rows.map(|row| row.split(" | ").collect()).filter(|row: &Vec<&str>| row.len() == 4).collect();
    for (prediction, cell) in card_reports::measured(&reports()) {
        let row = rows.iter().find(|row| row[0] == prediction).unwrap_or_else(|| panic!("no row of {prediction}"));
        assert_eq!(row[3], cell, "write what is on the right into the last column of {prediction}");
    }
}
