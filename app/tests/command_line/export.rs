//! What is exported is read back.

use super::*;

/// Runs `plimsoll export` on the arguments, into `folder`; what was written.
#[track_caller]
fn exported(folder: &Path, name: &str, arguments: &[&str]) -> Vec<u8> {
    let path = folder.join(name);
    let path = path.to_str().expect("text");
    let said = stdout(&[&["export"], arguments, &["-o", path]].concat());
    assert_eq!(said.trim(), path);
    fs::read(path).expect("written")
}

#[test]
fn a_plan_is_exported_as_a_trace_and_as_tables_that_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let csv = text(&exported(folder.path(), "step.csv", &["cnn-digits", "--format", "csv"]));
    let jsonl = text(&exported(folder.path(), "step.jsonl", &["cnn-digits", "--format", "jsonl"]));
    let trace = exported(folder.path(), "step.json", &["cnn-digits", "--format", "perfetto"]);
    let rows = lines(&jsonl);
    assert_eq!(csv.lines().count(), rows.len() + 1);
    let trace: Value = serde_json::from_slice(&trace).expect("JSON");
    let ops: Vec<&Value> = trace["traceEvents"]
        .as_array()
        .expect("events")
        .iter()
        .filter(|event| event["args"]["live_bytes"].is_u64())
        .collect();
    assert_eq!(ops.len(), rows.len());
    let plan = json(&["plan", "cnn-digits", "--json"]);
    let highest = rows.iter().filter_map(|row| row["live_bytes"].as_u64()).max();
    assert_eq!(highest, plan["peak"]["live_bytes"].as_u64());
    let sum: u64 = ["layers", "alive"]
        .map(|what| lines(&text(&exported(folder.path(), what, &["cnn-digits", "--format", "jsonl", "--what", what]))))
        [1]
    .iter()
    .filter_map(|row| row["bytes"].as_u64())
    .sum();
    assert_eq!(Some(sum), plan["peak"]["live_bytes"].as_u64());
}

#[test]
fn a_plan_is_exported_as_pictures_and_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    for what in ["step", "layers"] {
        let svg =
            text(&exported(folder.path(), &format!("{what}.svg"), &["cnn-digits", "--format", "svg", "--what", what]));
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        let png = exported(folder.path(), &format!("{what}.png"), &["cnn-digits", "--format", "png", "--what", what]);
        assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
        let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four"));
        assert_eq!(side(16), 1950, "six and a half inches at 300 dots");
    }
    let page = text(&exported(folder.path(), "page.html", &["cnn-digits", "--format", "html"]));
    assert!(page.starts_with("<!DOCTYPE html>") && page.matches("<svg").count() == 2);
    let both = ["cnn-shapes", "cnn-shapes-bf16", "--format", "html"];
    let page = text(&exported(folder.path(), "both.html", &both));
    assert!(page.contains("precision") && page.matches("<svg").count() == 2);
}

#[test]
fn nothing_is_written_over_without_being_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("step.svg");
    fs::write(&path, "mine").expect("written");
    let shown = path.to_str().expect("text");
    assert!(fails(1, &["export", "mlp-digits", "--format", "svg", "-o", shown]).contains("--force"));
    assert_eq!(fs::read(&path).expect("there"), b"mine");
    stdout(&["export", "mlp-digits", "--format", "svg", "-o", shown, "--force"]);
    assert_ne!(fs::read(&path).expect("there"), b"mine");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    assert!(
        fails(1, &["export", "mlp-digits", "--format", "svg", "-o", folder.path().to_str().expect("text")])
            .contains("folder")
    );
}

#[test]
fn what_only_a_run_has_is_not_asked_of_a_preset() {
    assert!(fails(1, &["export", "mlp-digits", "--format", "tensorboard", "-o", "-"]).contains("come of a run"));
    assert!(
        fails(1, &["export", "mlp-digits", "--format", "svg", "--what", "curves", "-o", "-"]).contains("come of a run")
    );
    fails(2, &["export", "mlp-digits", "--format", "svg", "--what", "alive", "-o", "-"]);
    fails(2, &["export", "mlp-digits", "cnn-digits", "--format", "csv", "-o", "-"]);
    fails(2, &["export", "mlp-digits"]);
    let none = tempfile::tempdir().expect("a folder");
    let folder = none.path().join("store");
    let said = fails(1, &["export", "last", "--format", "csv", "-o", "-", "--store", folder.to_str().expect("text")]);
    assert!(said.contains("no runs are kept"), "{said}");
}
