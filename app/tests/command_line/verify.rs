//! `plimsoll verify`: what it judges, draws and says.

use serde_json::json;

use super::*;

#[test]
fn verify_compares_predicted_with_measured() {
    let rows = lines(&stdout(&["verify", "mlp-digits", "cnn-digits", "--steps", "3", "--json"]));
    assert_eq!(
        rows.iter().map(|row| row["name"].as_str()).collect::<Vec<_>>(),
        [Some("mlp-digits"), Some("cnn-digits")]
    );
    for row in &rows {
        has_keys(&row["predicted"], &PEAK);
        has_keys(&row["measured"], &PEAK);
        assert_eq!(row["ok"], true, "{row}");
        assert!(row["difference_bytes"].as_i64().expect("bytes") >= 0, "{row}");
    }
    assert!(stdout(&["verify", "mlp-digits", "--steps", "2"]).contains("right"));
    let skipped = stdout(&["verify", "gpt2-xl-plan"]);
    assert!(skipped.contains("skipped") && skipped.contains("is planned and not measured"), "{skipped}");
}

#[test]
fn verify_draws_the_same_experiments_by_the_same_seed_and_another_line_is_filled() {
    let drawn = |seed: &str| lines(&stdout(&["verify", "--drawn", "4", "--seed", seed, "--json"]));
    let predicted = |rows: &[Value]| rows.iter().map(|row| row["predicted"]["live_bytes"].clone()).collect::<Vec<_>>();
    let rows = drawn("5");
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!((row["ok"].as_bool(), row["seed"].as_u64()), (Some(true), Some(5)), "{row}");
        has_keys(row, &["device", "date", "threads"]);
    }
    assert_eq!(predicted(&drawn("5")), predicted(&rows));
    assert_ne!(predicted(&drawn("6")), predicted(&rows));

    let row = json(&["verify", "cnn-digits", "--budget", "3MiB", "--steps", "4", "--json"]);
    let (line, live) = (row["budget_bytes"].as_u64(), row["measured"]["live_bytes"].as_u64());
    assert!(row["ok"] == true && live <= line && live > line.map(|line| line / 10 * 9), "{row}");
    assert!(fails(1, &["verify", "cnn-digits", "--budget", "100KiB"]).contains("not even one sample"));
    fails(2, &["verify", "cnn-digits", "--drawn", "3"]);
}

#[test]
fn verify_takes_channels_out_within_its_few_steps_and_says_when() {
    let row = json(&["verify", "cnn-digits-channels", "--json"]);
    assert_eq!([&row["channels_out_after"], &row["steps"], &row["ok"]], [&json!(3), &json!(6), &json!(true)]);
    let [text, whole] = [&["verify", "cnn-digits-channels"], &["verify", "cnn-digits"]].map(|line| stdout(line));
    assert!(text.ends_with("cnn-digits-channels lost channels after step 3 of 6\n"), "{text}");
    assert!(!whole.contains("channels"), "{whole}");
}

/// The tape of a deep model of small layers is gone when the gradients of all layers are there, which is the peak: the
/// bookkeeping is predicted as it is when the backward pass begins.
#[test]
fn verify_allows_for_the_tape_of_a_deep_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("deep.toml");
    let preset =
        "version = 2\nbudget = \"1 GiB\"\n[model]\nkind = \"mlp\"\nwidth = 16\ndepth = 1000\n[batch]\nmicro = 8\n";
    fs::write(&path, preset).expect("a file");
    let row = json(&["verify", path.to_str().expect("a path of text"), "--json"]);
    let (above, live) = (row["difference_bytes"].as_u64(), row["measured"]["live_bytes"].as_u64());
    let without = live.map(|live| live / 100 + (128 << 10));
    assert!(row["ok"] == true && above > without, "{row}");
}
