//! Peaks that are locked, checked and compared.

use super::*;

/// A preset in `folder`, whose model is `width` wide.
fn preset(folder: &Path, width: usize) -> String {
    let path = folder.join("mine.toml");
    let text = format!("version = 2\ntitle = \"Mine\"\nbudget = \"64 MiB\"\n[model]\nwidth = {width}\n");
    fs::write(&path, text).expect("written");
    path.to_string_lossy().into_owned()
}

#[test]
fn a_peak_that_rose_fails_the_check_and_is_told_by_category_and_layer() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mine, lock) = (preset(folder.path(), 32), folder.path().join("memory.lock"));
    let lock = lock.to_str().expect("text");
    let devices = ["--device", "cpu", "--device", "rtx4060-8g"];
    let written = stdout(&[&["lock", "cnn-digits", &mine, "-o", lock], &devices[..]].concat());
    assert_eq!(written.lines().count(), 4, "{written}");
    let said = stdout(&["check", lock]);
    assert_eq!(said.matches("as it was").count(), 4, "{said}");
    preset(folder.path(), 96);
    let output = plimsoll(&["check", lock]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        "./mine.toml on cpu: rose: the peak is",
        "./mine.toml on rtx4060-8g: a phase rose",
        "activations +",
        "training: ",
    ] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    assert_eq!(said.matches("as it was").count(), 2, "the other preset is as it was: {said}");
    let output = plimsoll(&["check", lock, "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((output.status.code(), &found["rose"]), (Some(1), &Value::Bool(true)));
    let rose = &found["peaks"][2];
    has_keys(rose, &["preset", "device", "locked_bytes", "bytes", "categories", "phases"]);
    assert!(rose["bytes"].as_u64() > rose["locked_bytes"].as_u64());
    has_keys(&rose["phases"][0], &["name", "rose", "layer", "op", "categories"]);
    // This much is allowed; and a peak that fell is not a failure.
    stdout(&["check", lock, "--allow", "1000"]);
    preset(folder.path(), 16);
    assert!(stdout(&["check", lock]).contains("since it was locked"));
    // What cannot be checked is not a peak that rose.
    fs::remove_file(&mine).expect("removed");
    assert!(fails(3, &["check", lock]).contains("mine.toml"));
}

#[test]
fn a_lock_is_not_written_over_and_a_foreign_file_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let lock = folder.path().join("memory.lock");
    let lock = lock.to_str().expect("text");
    stdout(&["lock", "mlp-digits", "-o", lock]);
    let before = fs::read(lock).expect("there");
    assert!(fails(1, &["lock", "cnn-digits", "-o", lock]).contains("--force"));
    assert_eq!(fs::read(lock).expect("there"), before);
    stdout(&["lock", "cnn-digits", "-o", lock, "--force"]);
    assert_ne!(fs::read(lock).expect("there"), before);
    assert!(fails(1, &["lock", "cnn-digits", "-o", "-", "--device", "cuda:0"]).len() > 20);
    fs::write(lock, "version = 9\n").expect("written");
    assert!(fails(3, &["check", lock]).contains("version 9"));
    fs::write(lock, [0xff, 0xfe]).expect("written");
    let said = fails(3, &["check", lock]);
    assert!(said.contains("memory.lock: is not UTF-8 text") && said.contains("name a file"), "{said}");
    assert!(fails(3, &["check", "none.lock"]).contains("none.lock"));
    fails(2, &["check", lock, "--allow", "lots"]);
    fails(2, &["lock", "-o", lock]);
}

#[test]
fn a_lock_goes_to_standard_output_alone_and_is_read_from_standard_input() {
    use std::io::Write;

    for more in [&[][..], &["--json"]] {
        let lock = stdout(&[&["lock", "mlp-digits", "-o", "-"], more].concat());
        let mut check = program();
        check.args(["check", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut check = check.spawn().expect("the program starts");
        check.stdin.take().expect("piped").write_all(lock.as_bytes()).expect("read");
        let output = check.wait_with_output().expect("it ends");
        assert!(output.status.success() && text(&output.stdout).contains("as it was"), "{lock}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file_stays_what_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pipe, link, null) = (at("pipe"), at("link"), at("null"));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let mut reader = Command::new("cat").arg(&pipe).stdout(Stdio::piped()).spawn().expect("cat runs");
    stdout(&["lock", "mlp-digits", "-o", &pipe, "--force"]);
    let mut read = String::new();
    std::io::Read::read_to_string(&mut reader.stdout.take().expect("piped"), &mut read).expect("read");
    reader.wait().expect("it ends");
    assert!(read.ends_with("[end]\npeaks = 1\n"), "{read}");
    assert!(fails(3, &["check", &pipe]).contains("is a pipe or a device"), "without waiting for a writer");
    std::os::unix::fs::symlink("/dev/null", &null).expect("made");
    stdout(&["export", "mlp-digits", "--format", "csv", "-o", &null]);
    std::os::unix::fs::symlink("memory.lock", &link).expect("made");
    stdout(&["lock", "mlp-digits", "-o", &link]);
    assert!(fails(1, &["lock", "mlp-digits", "-o", &link]).contains("--force"));
    stdout(&["lock", "mlp-digits", "-o", &link, "--force"]);
    assert_eq!(fs::read_to_string(at("memory.lock")).expect("there"), read);
    for name in [&null, &link] {
        assert!(fs::symlink_metadata(name).expect("there").is_symlink(), "{name}");
    }
}

#[test]
fn plans_are_compared_by_what_differs() {
    let found = json(&["compare", "cnn-shapes", "cnn-shapes-bf16", "--json"]);
    has_keys(&found, &["subjects", "settings", "categories", "alive"]);
    let keys: Vec<&str> =
        found["settings"].as_array().expect("rows").iter().filter_map(|row| row["key"].as_str()).collect();
    assert!(keys.contains(&"precision") && !keys.contains(&"model.kind"), "{keys:?}");
    let sum = |i: usize| {
        let rows = found["categories"].as_array().expect("rows").iter();
        rows.filter_map(|row| row["bytes"][i].as_u64()).sum::<u64>()
    };
    for i in [0, 1] {
        assert_eq!(Some(sum(i)), found["subjects"][i]["predicted_bytes"].as_u64());
        has_keys(&found["subjects"][i]["peak"], &["pass", "layer", "op"]);
    }
    let said = stdout(&["compare", "cnn-shapes", "cnn-shapes-bf16", "mlp-digits"]);
    for part in ["settings that differ", "at the peak", "alive at one peak", "predicted peak", "optimizer state"] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    assert!(fails(2, &["compare", "cnn-shapes"]).contains("2 to 6 runs or presets; 1 was named"));
    assert!(fails(2, &["compare", "mlp-digits", "mlp-digits"]).contains("are one preset"));
    fails(1, &["compare", "cnn-shapes", "no-such-preset"]);
}
