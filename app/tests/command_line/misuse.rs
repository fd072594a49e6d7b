//! How wrong commands, presets and paths are answered.

use super::*;

#[test]
#[cfg(target_os = "linux")]
fn a_path_that_is_not_utf_8_is_opened_or_named() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(OsStr::from_bytes(b"caf\xe9.toml"));
    let run = |arguments: &[&OsStr]| program().args(arguments).output().expect("the program starts");
    let missing = run(&[OsStr::new("plan"), path.as_os_str()]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("caf\u{fffd}.toml: cannot be read"), "{}", text(&missing.stderr));
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("../presets/mlp-digits.toml"), &path).expect("copied");
    let output = run(&[OsStr::new("plan"), path.as_os_str(), OsStr::new("--json")]);
    let plan: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&plan["preset"], &plan["fits"]), (&path.to_string_lossy().into_owned().into(), &Value::Bool(true)));
    let misuse = run(&[OsStr::new("verify"), path.as_os_str()]);
    assert_eq!(misuse.status.code(), Some(2));
    assert!(text(&misuse.stderr).contains("caf\u{fffd}.toml` is not UTF-8"), "{}", text(&misuse.stderr));
}

#[test]
fn a_device_that_cannot_be_is_answered_by_its_flag() {
    let said = fails(2, &["plan", "cnn-digits", "--device", "rtx4060-8g", "--budget", "9GiB"]);
    assert!(said.contains("--budget: 9.00 GiB is more than a process may use of GeForce RTX 4060"), "{said}");
    let said = fails(1, &["plan", "cnn-digits", "--device", "rtx-4060"]);
    assert!(said.contains("--device: ") && said.contains("did you mean rtx4060-8g?"), "{said}");
    let said = fails(1, &["train", "cnn-digits", "--device", "rtx4060-8g", "--budget", "1GiB"]);
    assert!(said.contains("only planned for"), "{said}");
    let said = fails(1, &["plan", "cnn-digits", "--device", "cuda:93"]);
    assert!(said.contains("there is no GPU cuda:93 here"), "{said}");
}

#[test]
fn a_selftest_of_nothing_is_refused() {
    assert!(fails(1, &["selftest", "--device", "toaster"]).contains("toaster"));
    assert!(fails(1, &["selftest", "--device", "cuda:99"]).len() > 20);
    assert!(fails(2, &["selftest", "--only", "f31"]).contains("f31"));
}

#[test]
fn misuse_is_told_apart_from_errors() {
    for arguments in [
        &["plan"][..],
        &["plan", "cnn-digits", "--nothing"],
        &["plan", "cnn-digits", "--budget", "lots"],
        &["plan", "cnn-digits", "--set", "batch.micro"],
        &["plan", "cnn-digits", "--set", "batch.mirco=3"],
        &["plan", "cnn-digits", "--set", "batch.micro=many"],
        &["trian"],
        &["train", "cnn-digits", "--steps", "-1"],
    ] {
        fails(2, arguments);
    }
    assert!(fails(2, &["plan", "cnn-digits", "--set", "batch.mirco=3"]).contains("did you mean batch.micro?"));
    assert!(fails(2, &["trian"]).contains("did you mean train?"));
    for arguments in [&["tran", "mlp-digits"][..], &["tran", "mlp-digits", "--steps", "3"], &["tran", "--steps", "3"]] {
        assert!(fails(2, arguments).contains("`tran` is not a command"), "{arguments:?}");
        assert!(fails(2, arguments).contains("did you mean train?"), "{arguments:?}");
    }
    assert!(fails(2, &["mlp-digits", "--steps", "3"]).contains("--steps"));
    assert!(
        fails(2, &["plan", "cnn-digits", "--set", "optimiser.lr=1"]).contains("did you mean optimizer.learning_rate?")
    );
    assert!(fails(2, &["pln"]).contains("did you mean plan?"));
    assert!(fails(2, &["mlp-digit"]).contains("did you mean mlp-digits?"));
}

#[test]
fn impossible_changes_are_blamed_on_their_flag() {
    let said = |arguments: &[&str]| fails(1, &[&["plan", "cnn-digits"], arguments].concat());
    assert!(said(&["--set", "batch.micro=0"]).contains("--set batch.micro=0: batch.micro: 0 is not a batch; write 1"));
    assert!(said(&["--set", "batch.micro=5000"]).contains("5000 is more than the 14"));
    assert!(said(&["--budget", "0"]).contains("--budget: budget: 0 B is not a budget"));
    assert!(said(&["--device", "toaster"]).contains("--device: device: \"toaster\""));
    assert!(fails(1, &["train", "mlp-digits", "--steps", "0"]).contains("0 is not a number of steps"));
}

#[test]
fn a_bad_preset_is_answered_with_file_line_and_mend() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bad.toml");
    let said = |preset: &str| {
        fs::write(&path, preset).expect("written");
        fails(1, &["plan", path.to_str().expect("text")])
    };
    for (preset, place, part) in [
        ("version = 1\n[batch]\nmicro = 0\n", "line 3", "write 1 or more"),
        ("version = 1\n[batch]\nmirco = 3\n", "line 3", "did you mean batch.micro?"),
        ("[optimizer]\nkind = \"adamww\"\n", "line 2", "did you mean \"adamw\"?"),
        ("precision = 32\n", "line 1", "write one of"),
        ("title = \"never closed\n", "line 1", "double quotes"),
        ("version = 9\n", "line 1", "newer"),
        ("budget = \"0\"\n", "line 1", "above 0"),
        ("[data]\nkind = \"idx\"\n", "line 1", "write the folder"),
        ("[model]\nkind = \"cnn\"\ndepth = 4\n", "line 3", "write 3 or less"),
        ("[run]\nsteps = 1\nepochs = 1\n", "line 3", "take one of the two out"),
    ] {
        let answer = said(preset);
        assert!(answer.contains(&format!("bad.toml ({place}, column")) && answer.contains(part), "{answer}");
    }
}

#[test]
fn a_missing_preset_is_answered_with_the_shipped_ones() {
    let said = fails(1, &["plan", "mlp-digit"]);
    assert!(said.contains("did you mean mlp-digits") && said.contains("`plimsoll presets` lists"), "{said}");
    assert!(said.lines().count() == 1 && said.len() < 200, "{said}");
    assert!(fails(1, &["plan", "nowhere/x.toml"]).contains("no such file"));
}

#[test]
fn data_that_is_not_there_is_an_error_with_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let preset = folder.path().join("own.toml");
    let data = folder.path().join("none");
    let quoted = data.to_str().expect("text");
    fs::write(&preset, format!("version = 1\n[data]\nkind = \"cifar10\"\npath = '{quoted}'\n")).expect("written");
    let answer = fails(1, &["plan", preset.to_str().expect("text")]);
    assert!(answer.contains(quoted), "{answer}");
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_said_to_be() {
    for arguments in [&["presets"][..], &["plan", "mlp-digits"], &["plan", "mlp-digits", "--json"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device that is full");
        let mut program = program();
        let output = program.args(arguments).stdout(full).output().expect("the program starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("error: standard output cannot be written: ") && said.contains("room for it"), "{said}");
    }
}

#[test]
fn what_is_set_and_not_used_is_told() {
    let said = |arguments: &[&str]| text(&plimsoll(arguments).stderr);
    let unused =
        ["plan", "brackets-gpt", "--set", "model.kv_heads=2", "--set", "model.head_dim=8", "--set", "model.heads=2"];
    let told = said(&unused);
    for key in ["model.head_dim", "model.kv_heads"] {
        assert!(told.contains(&format!("note: --set: {key} is not used by gpt2, only by llama\n")), "{told}");
    }
    assert!(!told.contains("model.heads is"), "{told}");
    assert!(!said(&[&unused[..], &["--set", "model.kind=llama"]].concat()).contains("not used"));
    assert_eq!(said(&[&unused[..], &["--quiet"]].concat()), "");
    // One of each group, all alike.
    for setting in [
        "quantise.weights=int4",
        "quantise.calibration=3",
        "lora.alpha=3",
        "prune.n=1",
        "distil.weight=0.5",
        "gpu.tf32=true",
        "optimizer.momentum=0.5",
        "model.heads=2",
        "data.modulus=7",
    ] {
        let set = ["plan", "cnn-digits", "--set", setting];
        let key = setting.split('=').next().expect("a key");
        let told = said(&set);
        assert!(told.starts_with(&format!("note: --set: {key} is not used")) && told.lines().count() == 1, "{told}");
        assert_eq!(said(&[&set[..], &["--quiet"]].concat()), "");
    }
}

#[test]
fn what_a_file_gives_and_nothing_uses_is_told_with_its_place_and_stops_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let preset = folder.path().join("mine.toml");
    fs::write(&preset, "version = 2\n[optimizer]\nkind = \"adamw\"\nmomentum = 0.8\n").expect("written");
    let path = preset.to_str().expect("text");
    let said = |more: &[&str]| {
        let output = plimsoll(&[&["plan", path], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let words = "optimizer.momentum is not used by adamw, only by momentum, nesterov, muon";
    assert_eq!(said(&[]), format!("note: {path} (line 4, column 1): {words}\n"));
    assert_eq!(said(&["--set", "optimizer.kind=momentum"]), "");
    assert_eq!(said(&["--quiet"]), "");
}

#[test]
fn a_table_says_what_it_read_as_texts_and_refuses_what_32_bits_cannot_hold() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("prices.csv");
    let plan = |price: &dyn Fn(usize) -> String| {
        let row = |i: usize| format!("{i},\"{}\",{}\n", price(i), ["no", "yes"][i % 2]);
        let rows: String = (0..40).map(row).collect();
        fs::write(&path, format!("number,price,sold\n{rows}")).expect("written");
        let data = format!("data.path={}", path.display());
        plimsoll(&[
            "plan",
            "mlp-table",
            "--set",
            &data,
            "--set",
            "data.label=sold",
            "--set",
            "batch.micro=8",
            "--set",
            "data.leave_out=",
        ])
    };
    let output = plan(&|i| format!("{},{:03}.5", i + 1, i));
    let told = text(&output.stdout);
    assert!(
        told.contains("read as categories: 'price' (for example \"1,000.5\"); write 1000.5 for a number"),
        "{told}{}",
        text(&output.stderr)
    );
    let output = plan(&|i| if i == 6 { "1e308".to_owned() } else { i.to_string() });
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("prices.csv (line 8, column `price`): 1e308 is too far from the other numbers"), "{told}");
}

#[test]
fn bytes_have_256_tokens_and_another_number_is_said_to_be_of_no_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("letters.txt");
    fs::write(&path, "to be or not to be ".repeat(400)).expect("written");
    let data = format!("data.path={}", path.display());
    let plan = |vocabulary: &str| {
        let vocabulary = format!("data.vocabulary={vocabulary}");
        let set = ["data.kind=text", &data, &vocabulary, "data.length=16", "batch.micro=4"];
        json(&[&["plan", "brackets-gpt", "--json"], &set.map(|set| ["--set", set]).concat()[..]].concat())
    };
    let notes = |plan: &Value| plan["data_notes"].as_array().expect("a list").clone();
    let (bytes, other) = (plan("0"), plan("258"));
    assert_eq!(bytes["parameters"], other["parameters"]);
    assert_eq!((notes(&bytes).len(), notes(&plan("256")).len()), (0, 0));
    let said = notes(&other)[0].to_string();
    assert!(said.contains("256 of them, and data.vocabulary = 258 is not used"), "{said}");
}
