//! What a card reports of itself, whole and where parts of the report fail.

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
