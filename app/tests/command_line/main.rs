//! The program as scripts meet it: what it writes where, and how it exits.

mod compressed;
mod export;
#[cfg(target_os = "linux")]
mod guarded;
mod kept;
#[cfg(target_os = "linux")]
mod limits;
mod lock;
mod misuse;
mod offers;
#[cfg(unix)]
mod owned;
#[cfg(target_os = "linux")]
mod process;
mod signals;
#[cfg(unix)]
mod store;
mod tried;
mod verify;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::LazyLock,
};

use serde_json::Value;

/// The store of these tests.
fn program_store() -> &'static Path {
    static STORE: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("command_line");
        // What the tests before left.
        let _ = fs::remove_dir_all(&folder);
        folder
    });
    &STORE
}

/// The program, its runs kept in the store of these tests.
fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    program.env("PLIMSOLL_STORE", program_store());
    program
}

fn plimsoll(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// What a command that must succeed wrote to stdout.
#[track_caller]
fn stdout(arguments: &[&str]) -> String {
    let output = plimsoll(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The one object a command wrote.
#[track_caller]
fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(arguments)).expect("one JSON object")
}

/// The objects a command wrote, one a line.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

/// What a command that must fail with `status` wrote to stderr; it must not have written JSON.
#[track_caller]
fn fails(status: i32, arguments: &[&str]) -> String {
    let output = plimsoll(arguments);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {stderr}{}", text(&output.stdout));
    assert!(!stderr.is_empty() && !stderr.contains("panicked"), "{stderr}");
    stderr
}

#[track_caller]
fn has_keys(object: &Value, keys: &[&str]) {
    for key in keys {
        assert!(object.get(key).is_some(), "no {key} in {object}");
    }
}

const PEAK: [&str; 3] = ["live_bytes", "reserved_bytes", "process_bytes"];

#[test]
fn plan_tells_peak_categories_and_timeline() {
    let plan = json(&["plan", "cnn-digits", "--json"]);
    has_keys(&plan, &["fits", "budget_bytes", "peak", "categories_at_peak", "alive_at_peak", "timeline"]);
    has_keys(&plan, &["parameters", "plan_secs"]);
    // 1797 images of 8 x 8 with a label, and the scaling of a row.
    assert_eq!(plan["host_data_bytes"], 1797 * 65 + 64);
    has_keys(&plan["peak"], &PEAK);
    has_keys(&plan["alive_at_peak"][0], &["name", "layer", "category", "bytes"]);
    has_keys(&plan["timeline"][0], &["op", "layer", "phase", "live_bytes"]);

    let live = plan["peak"]["live_bytes"].as_u64().expect("bytes");
    let sum = |value: u64, bytes: &Value| value + bytes.as_u64().expect("bytes");
    let categories = plan["categories_at_peak"].as_object().expect("an object");
    let counted = categories.iter().filter(|(name, _)| *name != "slack").map(|(_, bytes)| bytes).fold(0, sum);
    assert_eq!(counted, live);
    let alive = plan["alive_at_peak"].as_array().expect("a list").iter().map(|block| &block["bytes"]);
    assert_eq!(alive.fold(0, sum), live);
    let highest = plan["timeline"].as_array().expect("a list").iter().map(|point| point["live_bytes"].as_u64()).max();
    assert_eq!(highest.flatten(), Some(live));
}

#[test]
fn one_of_something_has_its_singular() {
    for arguments in [&["plan"][..], &["train"]] {
        let said = stdout(&[arguments, &["mlp-digits", "--set", "run.steps=1"]].concat());
        assert!(said.contains(" 1 step"), "{said}");
        assert!(!said.contains("1 steps"), "{said}");
    }
}

#[test]
fn changes_on_the_command_line_change_the_plan() {
    let live = |arguments: &[&str]| {
        let plan = json(&[&["plan", "cnn-digits", "--json"], arguments].concat());
        plan["peak"]["live_bytes"].as_u64().expect("bytes")
    };
    let plain = live(&[]);
    assert!(live(&["--set", "batch.micro=32"]) < plain);
    assert!(live(&["--set", "model.width=64", "--set", "batch.micro=128"]) > plain);
    for size in ["-1", "-5GiB", "much"] {
        let refused = fails(2, &["plan", "cnn-digits", "--budget", size]);
        assert!(refused.contains(&format!("`{size}` is not a size: write a number and a unit")), "{refused}");
    }
    let tight = json(&["plan", "cnn-digits", "--budget", "100KiB", "--device", "cpu", "--json"]);
    assert_eq!((tight["fits"].as_bool(), tight["budget_bytes"].as_u64()), (Some(false), Some(102_400)));
    assert!(stdout(&["plan", "cnn-digits"]).contains("It fits"));
}

#[test]
fn train_tells_every_event_and_ends_with_what_came_of_it() {
    let events = lines(&stdout(&["train", "mlp-digits", "--steps", "30", "--json"]));
    let named = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((named("started"), named("step"), named("finished")), (1, 30, 1));
    assert!(named("evaluated") >= 2, "after an epoch and at the end");
    let last = events.last().expect("events");
    assert_eq!((last["event"].as_str(), last["steps"].as_u64()), (Some("finished"), Some(30)));
    has_keys(last, &["secs", "train_loss", "test_accuracy"]);
    has_keys(&last["predicted"], &PEAK);
    has_keys(&last["measured"], &PEAK);
    assert!(last["test_accuracy"].as_f64().expect("a share") > 0.3, "30 steps learn something: {last}");
    assert_eq!(last["left_over_bytes"], 0);
}

#[test]
fn training_past_the_line_is_refused_with_the_changes_that_fit() {
    let refused = fails(1, &["train", "cnn-shapes-over-budget"]);
    for part in ["more for", "budget of", "What would fit"] {
        assert!(refused.contains(part), "{refused}");
    }
    let stopped = fails(1, &["train", "cnn-shapes-over-budget", "--anyway"]);
    assert!(stopped.contains("budget of"), "{stopped}");
    let output = plimsoll(&["train", "cnn-shapes-over-budget", "--json"]);
    let events = lines(&text(&output.stdout));
    let last = events.last().expect("events");
    has_keys(last, &["during", "layer", "asked_bytes", "live_bytes", "budget_bytes", "would_fit"]);
    assert_eq!((last["event"].as_str(), last["left_over_bytes"].as_u64()), (Some("over_budget"), Some(0)));
}

#[test]
fn what_fit_finds_does_fit() {
    let found = json(&["fit", "cnn-shapes-over-budget", "--json"]);
    assert_eq!(found["fits"], false);
    let budget = found["budget_bytes"].as_u64().expect("bytes").to_string();
    let candidates = found["candidates"].as_array().expect("a list");
    assert!(candidates.len() >= 3, "{found}");
    for candidate in candidates.iter().take(3) {
        has_keys(candidate, &["change", "step_secs", "time_ratio", "micro", "accumulation", "precision"]);
        let mut arguments = vec!["plan", "cnn-shapes-over-budget", "--json", "--budget", &budget];
        for assignment in candidate["set"].as_array().expect("a list") {
            arguments.extend(["--set", assignment.as_str().expect("text")]);
        }
        let plan = json(&arguments);
        assert_eq!((&plan["fits"], &plan["peak"]["live_bytes"]), (&Value::Bool(true), &candidate["peak_bytes"]));
    }
    let (fill, before) = (&found["fill"], found["peak"]["live_bytes"].as_u64());
    assert!(fill["micro"].as_u64() > Some(0) && fill["peak_bytes"].as_u64() < before, "{fill}");
    let filled = format!("batch.micro={}", fill["micro"]);
    let plan = json(&["plan", "cnn-shapes-over-budget", "--json", "--budget", &budget, "--set", &filled]);
    assert_eq!((&plan["fits"], &plan["peak"]["live_bytes"]), (&Value::Bool(true), &fill["peak_bytes"]));
    assert!(stdout(&["fit", "cnn-shapes", "--budget", "40MiB"]).contains("largest micro-batch that fits is"));
    assert!(fails(1, &["fit", "cnn-shapes", "--budget", "1KiB"]).contains("nothing"));
}

#[test]
fn where_nothing_fits_the_answer_says_why_and_what_would() {
    let output = plimsoll(&["fit", "cnn-shapes", "--budget", "2MiB", "--json", "--set", "model.dense=4096"]);
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let bytes = |key: &str| found[key].as_u64().expect("bytes");
    assert!(bytes("held_bytes") > bytes("budget_bytes") && bytes("least_bytes") >= bytes("held_bytes"), "{found}");
    assert_eq!((&found["candidates"], &found["complete"]), (&Value::Array(Vec::new()), &Value::Bool(true)));
    let said = stdout(&["plan", "cnn-shapes", "--budget", "2MiB", "--set", "model.dense=4096"]);
    assert!(said.contains("Weights and optimizer state alone take") && said.contains("It does not fit"), "{said}");
    let said = stdout(&["plan", "cnn-shapes", "--budget", "50MiB", "--set", "model.dense=4096"]);
    assert!(said.contains("changes the training:") && said.contains("LoRA adapters of rank 8"), "{said}");
}

#[test]
fn a_script_can_check_whether_a_run_fits() {
    assert_eq!(plimsoll(&["plan", "cnn-digits", "--check"]).status.code(), Some(0));
    assert_eq!(plimsoll(&["plan", "cnn-shapes-over-budget"]).status.code(), Some(0));
    let output = plimsoll(&["plan", "cnn-shapes-over-budget", "--check", "--json"]);
    let plan: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((output.status.code(), &plan["fits"]), (Some(1), &Value::Bool(false)));
}

#[test]
fn the_presets_are_listed_for_scripts() {
    let rows = lines(&stdout(&["presets", "--json"]));
    assert_eq!(rows.len(), stdout(&["presets"]).lines().count() - 1);
    for row in &rows {
        has_keys(row, &["name", "title", "description", "model", "device", "budget_bytes"]);
    }
    let row = rows.iter().find(|row| row["name"] == "llama-7b-lora-plan").expect("ships");
    assert_eq!(row["model"], "llama");
}

#[test]
fn bench_times_the_named_workloads() {
    let rows = lines(&stdout(&["bench", "mlp-digits-b64", "cnn-digits-b64", "--steps", "5", "--json"]));
    // A layer has weights and biases.
    let parameters = [64 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10, 320 + 18_496 + 256 * 64 + 64 + 640 + 10];
    assert_eq!(rows.iter().map(|row| row["parameters"].as_u64()).collect::<Vec<_>>(), parameters.map(Some));
    for row in rows {
        has_keys(&row, &["name", "peak_bytes"]);
        assert!(row["ms"].as_f64() >= row["min_ms"].as_f64() && row["min_ms"].as_f64() > Some(0.0), "{row}");
    }
    assert!(fails(2, &["bench", "nothing-b64"]).contains("mlp-digits-b64"));
}

#[test]
fn bench_times_a_workload_once_however_often_it_is_named() {
    let names = ["vit-s-b128-s224-tf32", "vit-s", "mlp", "mlp-digits-b64", "vit-s-b128-s224-tf32", "mlp"];
    let rows = lines(&stdout(&[&["bench", "--expected", "--json"], &names[..]].concat()));
    let told: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(told, ["vit-s-b128-s224-tf32", "vit-s-b128-s224-f32", "vit-s-b128-s224-bf16", "mlp-digits-b64"]);
}

#[test]
#[cfg(feature = "cuda")]
fn a_report_of_a_card_that_is_not_here_is_refused_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("card.json");
    let said = fails(1, &["card-report", "--device", "cuda:97", "-o", file.to_str().expect("text")]);
    assert!(said.contains("no card to report on") && said.contains("there is no GPU cuda:97 here"), "{said}");
    assert!(!file.exists());
    assert!(fails(2, &["card-report", "--device", "cpu"]).contains("such as cuda:0"));
}

#[test]
fn devices_tells_the_processor_and_why_there_is_no_gpu() {
    let devices = json(&["devices", "--json"]);
    assert!(devices["cpu"]["cores"].as_u64() >= Some(1));
    let gpus = &devices["gpus"];
    assert!(gpus.is_array() || gpus["unavailable"].as_str().is_some_and(|why| !why.is_empty()), "{gpus}");
    assert!(stdout(&["devices"]).starts_with("cpu: "));
}

#[test]
fn a_card_that_is_not_here_is_planned_for_by_its_name() {
    let cards = json(&["devices", "--json"])["cards"].as_array().expect("a list").clone();
    assert!(cards.len() > 20);
    has_keys(&cards[0], &["name", "title", "capacity_bytes", "room_bytes", "context_bytes", "is_estimate", "rates"]);
    for card in cards.iter().step_by(6) {
        let name = card["name"].as_str().expect("a name");
        let plan = json(&["plan", "cnn-digits", "--device", name, "--budget", "1GiB", "--json"]);
        assert_eq!((plan["device"].as_str(), plan["fits"].as_bool()), (Some(name), Some(true)));
        has_keys(&plan["card"], &["context_bytes", "is_estimate"]);
        let bytes = |value: &Value| value.as_u64().expect("bytes");
        let peak = ["live_bytes", "reserved_bytes", "process_bytes"].map(|key| bytes(&plan["peak"][key]));
        assert!(peak[0] <= peak[1] && peak[2] == peak[1] + bytes(&card["context_bytes"]), "{peak:?}");
        assert_eq!(plan["load_bytes"].as_u64(), Some(peak[2]));
    }
    let said = stdout(&["plan", "cnn-digits", "--device", "rtx4060-8g"]);
    for part in ["It does not fit", "GeForce RTX 4060, 8 GB", "estimates until they are measured", "budget 448 MiB"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(stdout(&["devices"]).contains("rtx4060-8g"));
}

#[test]
fn the_cpu_passes_its_selftest() {
    let checks = lines(&stdout(&["selftest", "--quick", "--json"]));
    let (summary, checks) = checks.split_last().expect("a summary");
    assert!(checks.len() > 200, "{} checks", checks.len());
    for check in checks {
        has_keys(check, &["name", "compared", "worst_error", "tolerance", "secs"]);
        assert_eq!((&check["ok"], &check["fault"]), (&Value::Bool(true), &Value::Null), "{check}");
    }
    assert_eq!((summary["checks"].as_u64(), summary["failed"].as_u64()), (Some(checks.len() as u64), Some(0)));
    let some = stdout(&["selftest", "--only", "f32/add-bias", "--only", "kernel/f16/relu6-", "--seed", "7"]);
    assert!(some.starts_with("kernel/f32/add-bias ") && some.contains("ok"), "{some}");
    assert!(some.ends_with("(seed 7)\n") && some.contains("cpu: 2 checks, 0 failed"), "{some}");
}

#[test]
fn every_command_explains_itself() {
    assert!(stdout(&["--help"]).contains("plimsoll plan cnn-digits"));
    for command in
        ["plan", "train", "fit", "verify", "bench", "devices", "selftest", "presets", "runs", "show", "resume"]
    {
        let help = stdout(&[command, "--help"]);
        assert!(help.contains("Examples:") && help.contains("--json"), "{help}");
    }
    let presets = stdout(&["presets"]);
    assert!(presets.lines().count() >= 9 && presets.contains("mlp-digits"), "{presets}");
}

#[test]
fn a_preset_file_is_read_from_where_it_lies() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("with a space.toml");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../presets/mlp-digits.toml");
    fs::copy(shipped, &path).expect("copied");
    let plan = json(&["plan", path.to_str().expect("text"), "--json"]);
    assert_eq!(plan["fits"], true);
}

#[test]
fn a_models_configuration_is_planned_as_it_is_and_a_bad_field_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config.json");
    let write = |heads: usize| {
        let fields = format!(
            r#"{{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": {heads}, "n_positions": 1024,
            "vocab_size": 50257, "activation_function": "gelu_new"}}"#
        );
        fs::write(&path, fields).expect("written");
    };
    let name = path.to_str().expect("text");
    write(12);
    let plan = json(&["plan", name, "--json", "--set", "checkpointing=blocks"]);
    assert_eq!(plan["parameters"], 124_439_808);
    write(13);
    let said = fails(1, &["plan", name]);
    assert!(said.contains("(n_head): 13 heads do not divide a width of 768; write one of 1, 2, 3"), "{said}");
    fs::write(&path, r#"{"model_type": "bert"}"#).expect("written");
    assert!(fails(1, &["plan", name]).contains("the kinds are gpt2, llama, mistral, qwen2"));
}
