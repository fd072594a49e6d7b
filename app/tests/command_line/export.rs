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
fn a_kept_run_is_exported_in_every_format_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let store = store.to_str().expect("text");
    let small = ["--set", "model.width=16", "--set", "run.evaluate_every=3"];
    let trained = [&["train", "mlp-digits", "--steps", "6", "--json", "--store", store], &small[..]].concat();
    let events = lines(&stdout(&trained));
    let losses: Vec<f64> = events.iter().filter(|e| e["event"] == "step").filter_map(|e| e["loss"].as_f64()).collect();
    let taken = |name: &str, arguments: &[&str]| {
        exported(folder.path(), name, &[&["last", "--store", store, "--format"], arguments].concat())
    };
    let rows = lines(&text(&taken("run.jsonl", &["jsonl"])));
    let read: Vec<f64> = rows.iter().filter_map(|row| row["train/loss"].as_f64()).collect();
    assert_eq!((read.len(), read), (6, losses), "to the last bit");
    assert!(rows[2]["test/accuracy"].is_f64() && rows[1].get("test/accuracy").is_none());
    assert_eq!(text(&taken("run.csv", &["csv"])).lines().count(), 7);
    let logs = folder.path().join("logs");
    stdout(&["export", "last", "--store", store, "--format", "tensorboard", "-o", logs.to_str().expect("text")]);
    let written = fs::read(logs.join("events.out.tfevents.plimsoll")).expect("an event file");
    for part in [&b"brain.Event:2"[..], b"train/loss", b"_hparams_/session_start_info", b"model.width"] {
        assert!(written.windows(part.len()).any(|bytes| bytes == part), "{}", text(part));
    }
    for (name, what) in [("live.svg", "curves"), ("norm.svg", "gradients"), ("measured.svg", "step")] {
        let svg = text(&taken(name, &["svg", "--what", what]));
        assert!(svg.contains("</svg>") && !svg.contains("NaN"), "{svg}");
        // What was measured lies faint behind what is smoothed.
        assert!(what == "step" || svg.contains("stroke-opacity"), "{what} is not smoothed: {svg}");
    }
    let page = text(&taken("run.html", &["html"]));
    assert!(page.contains("<h2>The run</h2>") && page.matches("<svg").count() == 4, "{page}");
    let weights = taken("weights.safetensors", &["safetensors"]);
    let length = u64::from_le_bytes(weights[..8].try_into().expect("eight")) as usize;
    let head: Value = serde_json::from_slice(&weights[8..8 + length]).expect("a header");
    let names: Vec<&String> = head.as_object().expect("tensors").keys().collect();
    assert!(names.len() > 2 && names.iter().all(|name| !name.starts_with("optimizer.")), "{names:?}");
    let compared = json(&["compare", "last", "mlp-digits", "--store", store, "--json"]);
    let measured = compared["subjects"][0]["measured_bytes"].as_u64().expect("it ran");
    assert!(Some(measured) <= compared["subjects"][0]["predicted_bytes"].as_u64());
    assert_eq!(compared["subjects"][1]["ran"], Value::Null);
}

/// What the system refuses is said before any work is done, with the place and what to do.
#[cfg(unix)]
#[test]
fn odd_places_are_refused_by_name() {
    let long = format!("{}.svg", "x".repeat(300));
    let said = fails(1, &["export", "mlp-digits", "--format", "svg", "-o", &long]);
    assert!(said.contains("xxx.svg: cannot be written: the system allows no such name: it is too long"), "{said}");
    assert!(fails(1, &["lock", "mlp-digits", "-o", &long]).contains("choose another"));
    for place in ["/dev/null", "/dev/null/logs"] {
        let said = fails(1, &["export", "mlp-digits", "--format", "tensorboard", "-o", place]);
        assert!(!said.contains("os error"), "{said}");
    }
    let said = fails(1, &["export", "mlp-digits", "--format", "tensorboard", "-o", "/dev/null"]);
    assert!(said.contains("/dev/null: is a file, a pipe or a device, and a folder is needed; name another"), "{said}");
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
    assert!(
        fails(1, &["export", "mlp-digits", "--format", "tensorboard", "-o", "-"])
            .contains("an event file comes of a run")
    );
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

#[test]
fn a_phase_that_a_run_does_not_have_is_refused_with_those_that_it_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("step.svg");
    let to = to.to_str().expect("UTF-8");
    let refused = fails(2, &["export", "cnn-digits", "--format", "svg", "--phase", "pruned", "-o", to]);
    assert!(refused.contains("no phase `pruned`; it has first, training, evaluating, saving"), "{refused}");
    // The words of `plan --json` as well.
    for phase in ["pruned", "prune", "steady", "training", "evaluate", "save"] {
        let written =
            plimsoll(&["export", "cnn-digits-channels", "--format", "svg", "--phase", phase, "-o", to, "--force"]);
        assert_eq!(written.status.code(), Some(0), "{phase}: {}", text(&written.stderr));
    }
}

#[test]
fn a_run_is_exported_after_its_data_and_its_weights_are_gone() {
    let kept = super::kept::Kept::new();
    let at = |name: &str| kept.0.path().join(name).to_str().expect("text").to_owned();
    fs::create_dir(at("model")).expect("made");
    let config =
        r#"{"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 8, "vocab_size": 300}"#;
    fs::write(at("model/config.json"), config).expect("written");
    fs::write(at("lines.jsonl"), "{\"text\": \"the line of the ship\"}\n".repeat(20)).expect("written");
    let path = format!("data.path={}", at("lines.jsonl"));
    let data = ["--set", "data.kind=jsonl", "--set", &path, "--set", "data.length=8", "--set", "batch.micro=2"];
    kept.told(&[&["train", &at("model"), "--steps", "2", "--quiet"], &data[..]].concat());
    fs::remove_file(at("lines.jsonl")).expect("ours");
    let output = kept.output(&["export", "last", "--format", "huggingface", "-o", &at("out")]);
    let said = text(&output.stderr);
    assert!(output.status.success() && !said.contains("planned") && !said.contains("Planned"), "{said}");
    assert!(Path::new(&at("out/model.safetensors")).is_file());
    let again = kept.output(&["export", "last", "--format", "safetensors", "-o", &at("w.safetensors")]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    let written = kept.told(&["try", "last", "--prompt", "the ", "--tokens", "4", "--json", "--quiet"]);
    let written: Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!(written["prompt_tokens"], 4, "{written}");
}

#[test]
fn what_became_of_a_model_is_planned_told_and_written_with_the_same_bytes() {
    let kept = super::kept::Kept::new();
    let path = |name: &str| kept.0.path().join(name).to_str().expect("text").to_owned();
    let settings = ["--set", "model.width=8", "--set", "run.epochs=1", "--set", "run.save_best=true"];
    let plan = json(&[&["plan", "cnn-digits-int8", "--json"], &settings[..]].concat());
    let told = kept.told(&[&["train", "cnn-digits-int8", "--json"], &settings[..]].concat());
    let events = lines(&told);
    let bytes = events.last().expect("events")["compressed"]["bytes"].as_u64();
    assert!(bytes.is_some() && plan["compressed"]["bytes"].as_u64() == bytes, "{plan}");
    assert_eq!(
        (&plan["compressed"]["became"], &plan["compressed"]["is_estimate"]),
        (&"integers".into(), &false.into())
    );
    let said = stdout(&[&["plan", "cnn-digits-int8"], &settings[..]].concat());
    assert!(said.contains("The trained model: as 8-bit integers ") && said.contains(" in place of "), "{said}");
    let export = ["export", "last", "--format", "safetensors", "--compressed", "--json", "-o"];
    let written: Value =
        serde_json::from_str(&kept.told(&[&export[..], &[&path("c.safetensors")]].concat())).expect("JSON");
    assert_eq!(written["tensor_bytes"].as_u64(), bytes);
    assert_eq!(plan["compressed"]["file_bytes"].as_u64(), bytes);
    assert_eq!(written["bytes"].as_u64(), fs::metadata(path("c.safetensors")).ok().map(|file| file.len()));
    let refused = |arguments: &[&str], code: i32| {
        let output = kept.output(&[&["export", "last", "-o", &path("other")], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let best = refused(&["--format", "safetensors", "--compressed", "--best"], 2);
    assert!(best.contains("leave --best out"), "{best}");
    let folder = refused(&["--format", "huggingface", "--compressed"], 2);
    assert!(folder.contains("only --format safetensors"), "{folder}");
    kept.train("2", &[]);
    let plain = refused(&["--format", "safetensors", "--compressed"], 1);
    assert!(plain.contains("its model stayed as it was") && plain.contains("quantise.kind = after"), "{plain}");
}

#[test]
fn a_pruned_model_is_planned_about_and_its_best_weights_leave_without_zeros() {
    let kept = super::kept::Kept::new();
    let path = kept.0.path().join("c.safetensors").to_str().expect("text").to_owned();
    let settings = ["--set", "model.width=8", "--set", "run.epochs=20", "--set", "run.save_best=true"];
    let plan = json(&[&["plan", "cnn-digits-pruned", "--json"], &settings[..]].concat());
    let events = lines(&kept.told(&[&["train", "cnn-digits-pruned", "--json"], &settings[..]].concat()));
    let bytes = events.last().expect("events")["compressed"]["bytes"].as_u64().expect("pruned");
    let planned = plan["compressed"]["bytes"].as_u64().expect("planned");
    assert!(plan["compressed"]["is_estimate"] == true && planned.abs_diff(bytes) * 100 <= bytes, "{planned} {bytes}");
    let said = stdout(&[&["plan", "cnn-digits-pruned"], &settings[..]].concat());
    assert!(said.contains("The trained model: without its pruned parts about "), "{said}");
    assert!(said.contains("; its tensors take about "), "{said}");
    // A bit a weight, next to the parameters, of which there are no fewer.
    let (added, parameters) = (plan["pruning_bytes"].as_u64().expect("masks"), plan["parameters"].as_u64());
    assert!(added > parameters.expect("parameters") / 9, "{added}");
    assert!(said.contains("Pruning saves no memory while the run trains") && said.contains("masks"), "{said}");
    let plain = json(&[&["plan", "cnn-digits-pruned", "--json", "--set", "prune.kind=none"], &settings[..]].concat());
    assert_eq!((&plain["pruning_bytes"], &plain["compressed"]), (&0.into(), &Value::Null));
    let live = |plan: &Value| plan["peak"]["live_bytes"].as_u64().expect("live bytes");
    assert!(live(&plan) >= live(&plain) + added);
    let of_file = plan["compressed"]["file_bytes"].as_u64().expect("planned");
    for best in [&["--best"][..], &[]] {
        let export = ["export", "last", "--format", "safetensors", "--compressed", "--json", "--force", "-o", &path];
        let written = kept.output(&[&export[..], best].concat());
        assert!(written.status.success(), "{}", text(&written.stderr));
        let summary: Value = serde_json::from_slice(&written.stdout).expect("JSON");
        let tensors = summary["tensor_bytes"].as_u64().expect("bytes");
        assert!(of_file.abs_diff(tensors) * 100 <= tensors, "{of_file} planned, {tensors}");
        assert!(text(&written.stderr).contains("the published layout adds"), "{}", text(&written.stderr));
    }
}
