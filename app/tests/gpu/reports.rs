//! What a card reports of itself, whole and where parts of the report fail.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use super::{Card, text};

#[test]
fn a_card_reports_what_it_is_and_does() {
    let pools = ["PLIMSOLL_SIM_POOL_STEP_MIB", "PLIMSOLL_SIM_VIRTUAL"];
    if plimsoll_tests::is_left_out(&pools, "what the report says of the usual driver's pools") {
        return;
    }
    let card = Card::new(&[("PLIMSOLL_SIM_NAME", "NVIDIA H100, 80GB \"PCIe\"")]);
    let file = card.cache.path().join("card.json");
    let place = file.to_str().expect("text");
    let output = card.run(&["card-report", "--device", "cuda:0", "--quick", "-o", place]);
    let said = text(&output.stderr);
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
    let parts = report["parts"].as_array().expect("parts");
    for part in parts {
        assert_eq!(part["ended"], "well", "{said}{part:#}");
        assert!(part["rows"].as_array().is_some_and(|rows| !rows.is_empty()), "{part:#}");
        assert!(said.contains(part["name"].as_str().expect("a name")), "{said}");
    }
    assert!(output.status.success() && parts.len() == 9, "{said}");
    assert!(said.contains("at most 10 min left"), "{said}");
    // Kernels of every family run at these sizes.
    let kernels =
        parts.iter().find(|part| part["name"] == "kernels").expect("kernels")["rows"].as_array().expect("rows");
    assert!(kernels.len() >= 50 && kernels.iter().all(|row| row["share"].is_number()), "{kernels:#?}");
    // The simulated driver does what its sources say.
    let rows = parts[0]["rows"][0]["pool"].as_array().expect("answers");
    let answer = |question: &str| rows.iter().find(|row| row["question"] == question).expect("an answer");
    assert_eq!(answer("rounding")["blocks"]["blocks"][0]["used_bytes"], 512);
    assert_eq!(answer("growth")["blocks"]["blocks"][1]["reserved_bytes"], (32 + 34) << 20);
    assert_eq!(answer("holes")["fitted"]["hole"], "best");
    assert_eq!(answer("joining")["joined"]["neighbours_grew_bytes"], 64 << 20);
    assert_eq!(answer("limits")["limits"][5]["blocks"], 128);
    for figure in ["mapped_bytes", "counted_bytes", "fell_bytes"] {
        assert_eq!(answer("virtual memory")["mapped"][figure], (32 + 34) << 20);
    }
    assert!(!report.to_string().contains("504c494d"), "the card's own number is in it");
    // What a table is made of, and the page.
    let row = plimsoll_tests::card_reports::row(&report);
    assert!(row.contains("| NVIDIA H100, 80GB \"PCIe\" |") && row.contains("2 runs, above by 0.00%"), "{row}");
    assert!(!row.contains("not measured"), "{row}");
    let page = std::fs::read_to_string(file.with_extension("md")).expect("a page");
    for words in [
        "## Assumed and measured",
        "| context |",
        "| a pool's granule | 512 B | 512 B |",
        "held",
        "of the peak",
        "| tensors of a run |",
    ] {
        assert!(page.contains(words), "{words} is missing:\n{page}");
    }
}

#[test]
fn a_report_survives_a_card_that_fails_in_each_of_its_parts() {
    let card = Card::new(&[("PLIMSOLL_SIM_FAIL_KERNEL", "9")]);
    let file = card.cache.path().join("card.json");
    let output = card.run(&["card-report", "--quick", "-o", file.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
    let ended: Vec<&str> =
        report["parts"].as_array().expect("parts").iter().filter_map(|p| p["ended"].as_str()).collect();
    assert_eq!(ended.len(), 9, "{ended:?}");
    assert!(ended.iter().filter(|ended| **ended == "with status 1").count() >= 4, "{ended:?}");
    let page = std::fs::read_to_string(file.with_extension("md")).expect("a page");
    assert!(page.contains("an illegal memory access was encountered"), "{page}");
}

/// Starts a program that is not listened to.
fn silent(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
}

/// The processes that this one started, which are still there.
fn started_by(parent: u32) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").expect("Linux").filter_map(|entry| Some(entry.ok()?.path()));
    let is_child = |process: &PathBuf| {
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        let is_alive = !status.lines().any(|line| line.starts_with("State:\tZ"));
        is_alive && status.lines().any(|line| line == format!("PPid:\t{parent}"))
    };
    processes.filter(is_child).collect()
}

/// Whether a process has ended; one that nobody has asked about stays as a zombie.
fn has_ended(process: &Path) -> bool {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    status.lines().find(|line| line.starts_with("State:")).is_none_or(|line| line.starts_with("State:\tZ"))
}

#[test]
fn the_part_of_a_report_that_is_killed_ends_with_it() {
    let card = Card::new(&[]);
    let file = card.cache.path().join("card.json");
    // A part that is not told of the end goes on until it writes its next row.
    let mut report = silent(&mut card.command(&["card-report", "-o", file.to_str().expect("text")]));
    let part = loop {
        assert!(report.try_wait().expect("a child").is_none(), "the report ended before a part was seen");
        let watched = |part: &PathBuf| {
            let variables = fs::read(part.join("environ")).unwrap_or_default();
            let input = fs::read_link(part.join("fd/0")).unwrap_or_default();
            let is_told = variables.split(|byte| *byte == 0).any(|line| line.starts_with(b"PLIMSOLL_PART_OF_REPORT="));
            is_told && input.to_string_lossy().starts_with("pipe:")
        };
        if let Some(part) = started_by(report.id()).into_iter().find(watched) {
            break part;
        }
        thread::sleep(Duration::from_millis(5));
    };
    report.kill().expect("killed");
    report.wait().expect("it has ended");
    while !has_ended(&part) {
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_part_goes_on_as_long_as_its_report_lives_and_no_longer() {
    // Hours of steps.
    let bench = ["bench", "gpt-d256-l6-t128-b16", "--steps", "1000000"];
    let card = Card::new(&[]);
    let mut part = silent(card.command(&bench).env("PLIMSOLL_PART_OF_REPORT", "1").stdin(Stdio::piped()));
    thread::sleep(Duration::from_secs(1));
    assert!(part.try_wait().expect("a child").is_none(), "its report lives");
    drop(part.stdin.take());
    assert_eq!(part.wait().expect("it ends").code(), Some(1));
}
