//! Kept runs: what a script finds of them, what a kill leaves, and what a bad store does to a run.

use std::io::{BufRead, BufReader, Write};

use super::*;

/// A store of its own.
pub(super) struct Kept(pub(super) tempfile::TempDir);

impl Kept {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(super) fn program(&self, arguments: &[&str]) -> Command {
        let mut program = program();
        program.args(arguments).arg("--store").arg(self.0.path());
        program
    }

    pub(super) fn output(&self, arguments: &[&str]) -> Output {
        self.program(arguments).output().expect("the program starts")
    }

    /// What a command that must succeed wrote.
    #[track_caller]
    pub(super) fn told(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// Trains for so many steps, and gives the name that the run was kept under.
    #[track_caller]
    pub(super) fn train(&self, steps: &str, more: &[&str]) -> String {
        let events = lines(&self.told(&[&["train", "mlp-digits", "--steps", steps, "--json"], more].concat()));
        let place = events.iter().position(|event| event["event"] == "kept").expect("kept");
        let first = events.iter().position(|event| event["event"] == "step").expect("a step");
        assert!(place < first, "a script knows the run before its first step");
        events[place]["run"].as_str().expect("a name").to_owned()
    }

    pub(super) fn runs(&self) -> Vec<Value> {
        lines(&self.told(&["runs", "--json"]))
    }

    pub(super) fn show(&self, run: &str) -> Value {
        serde_json::from_str(&self.told(&["show", run, "--json"])).expect("one object")
    }
}

#[test]
fn a_run_is_listed_and_shown_as_it_was() {
    let kept = Kept::new();
    assert!(kept.told(&["runs"]).starts_with("No runs are kept in"));
    assert_eq!(kept.runs(), Vec::<Value>::new());
    let run = kept.train("30", &["--set", "batch.micro=16"]);
    let rows = kept.runs();
    assert_eq!((rows.len(), &rows[0]["run"], &rows[0]["state"]), (1, &run.as_str().into(), &"finished".into()));
    has_keys(&rows[0], &["title", "started", "test_accuracy", "bytes_on_disk"]);
    assert_eq!((rows[0]["steps"].as_u64(), rows[0]["origin"].as_str()), (Some(30), Some("command line")));
    for which in ["predicted", "measured"] {
        has_keys(&rows[0]["peak"][which], &PEAK);
        assert!(rows[0]["peak"][which]["live_bytes"].as_u64() > Some(0));
    }
    let shown = kept.show("last");
    assert_eq!((&shown["predicted"]["live_bytes"], &shown["measured"]), {
        let peak = &rows[0]["peak"];
        assert!(shown["measured"]["live_bytes"] == peak["measured"]["live_bytes"]);
        (&peak["predicted"]["live_bytes"], &shown["measured"])
    });
    let steps = &shown["series"]["steps"];
    assert_eq!(steps["step"].as_array().map(Vec::len), Some(30));
    assert_eq!(steps["live_bytes"].as_array().and_then(|bytes| bytes.iter().map(Value::as_u64).max()).flatten(), {
        shown["measured"]["live_bytes"].as_u64()
    });
    assert!(shown["series"]["evaluations"]["accuracy"].as_array().is_some_and(|tests| !tests.is_empty()));
    let preset = shown["preset"].as_str().expect("text");
    assert!(preset.contains("micro = 16") && preset.contains("steps = 30"), "{preset}");
    assert_eq!(kept.told(&["show", &run[..17], "--preset"]), preset);
    assert!(kept.told(&["show", "last"]).contains("batch.micro=16"));
    // The run can be done again from what is kept of it.
    let mut again = kept.program(&["plan", "-", "--json"]);
    let arguments: Vec<_> = again.get_args().take(3).map(ToOwned::to_owned).collect();
    again = program();
    let mut again =
        again.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
    again.stdin.take().expect("piped").write_all(preset.as_bytes()).expect("read");
    let plan: Value = serde_json::from_slice(&again.wait_with_output().expect("it ends").stdout).expect("one object");
    assert_eq!(plan["peak"]["live_bytes"], rows[0]["peak"]["predicted"]["live_bytes"]);
}

#[test]
fn a_killed_run_is_interrupted_and_what_it_wrote_is_there() {
    let kept = Kept::new();
    let mut child = kept
        .program(&["train", "mlp-digits", "--steps", "10000000", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut told = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    told.by_ref().find(|line| line.contains("\"kept\"")).expect("kept");
    assert_eq!(kept.runs()[0]["state"], "running");
    assert!(text(&kept.output(&["runs", "delete", "last", "--yes"]).stderr).contains("still trains"));
    // Past the first writings.
    let since = std::time::Instant::now();
    told.by_ref().find(|_| since.elapsed() > std::time::Duration::from_millis(2500)).expect("steps");
    child.kill().expect("killed");
    // Dead after a moment, because its threads end one by one, and not yet asked for by its parent.
    let rows =
        (0..200).map(|_| kept.runs()).find(|rows| rows[0]["state"] != "running").expect("it is found to be dead");
    assert_eq!(rows[0]["state"], "interrupted", "{}", rows[0]);
    child.wait().expect("it ended");
    let shown = kept.show("last");
    let steps = shown["series"]["steps"]["step"].as_array().expect("a list").len() as u64;
    assert!(steps > 1 && shown["steps"].as_u64() == Some(steps), "{steps}");
    assert_eq!((&shown["state"], &shown["series"]["damage"]), (&"interrupted".into(), &Value::Null));
}

#[test]
fn a_kept_run_goes_on_as_itself() {
    let kept = Kept::new();
    // A schedule that ends with the run would make two lengths two trainings.
    let constant = ["--set", "optimizer.schedule=constant"];
    let run = kept.train("20", &constant);
    let whole = kept.train("40", &constant);
    kept.told(&["resume", &run, "--steps", "40"]);
    assert_eq!(kept.runs().len(), 2);
    let [resumed, whole] = [run, whole].map(|run| kept.show(&run));
    assert_eq!((&resumed["state"], &resumed["steps"]), (&"finished".into(), &40.into()));
    assert_eq!(resumed["settings"], whole["settings"], "the steps that it has now");
    assert_eq!(resumed["total_steps"], 40);
    for column in ["step", "loss"] {
        assert_eq!(resumed["series"]["steps"][column], whole["series"]["steps"][column], "{column}");
    }
    assert_eq!(
        resumed["events"].as_array().map(|events| events.iter().filter(|e| e["kind"] == "continued").count()),
        Some(1)
    );
    assert!(text(&kept.output(&["resume", "nothing"]).stderr).contains("no run of this name"));
}

#[test]
fn a_run_that_saves_elsewhere_is_found_and_saves_into_no_other_runs_folder() {
    let kept = Kept::new();
    let run = kept.train("5", &[]);
    let files = kept.0.path().join("runs").join(&run);
    let before = std::fs::read(files.join("last.safetensors")).expect("saved");
    let output = kept.output(&["train", "mlp-digits", "--steps", "6", "--checkpoints", &files.display().to_string()]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("the folder of a kept run"), "{said}");
    assert_eq!(std::fs::read(files.join("last.safetensors")).expect("as it was"), before);
    // Where it did save is told where its checkpoint is looked for.
    let elsewhere = kept.0.path().join("elsewhere");
    let place = elsewhere.display().to_string();
    let run = kept.train("6", &["--checkpoints", &place]);
    let file = elsewhere.join("last.safetensors").display().to_string();
    for arguments in [&["resume", &run][..], &["export", &run, "--format", "safetensors", "-o", "w.safetensors"]] {
        let said = text(&kept.output(arguments).stderr);
        assert!(said.contains(&file) && said.contains("plimsoll resume FILE"), "{said}");
    }
    kept.told(&["resume", &file, "--steps", "8"]);
}

#[test]
fn runs_are_named_tagged_starred_and_deleted() {
    let kept = Kept::new();
    let runs = ["5", "6", "7"].map(|steps| kept.train(steps, &["--keep", "series"]));
    let listed = kept.told(&["runs"]);
    assert!(["steps 5", "steps 6", "steps 7"].iter().all(|differs| listed.contains(differs)), "{listed}");
    for (change, told) in [
        (&["rename", &runs[0], "the first"][..], "RUN is called the first now.\n"),
        (&["tag", &runs[0], "a", "b"], "RUN is tagged a, b now.\n"),
        (&["tag", &runs[0], "a", "--remove"], "RUN is tagged b now.\n"),
        (&["note", &runs[0], "worth keeping"], "Noted on RUN.\n"),
        (&["star", &runs[0]], "Starred RUN.\n"),
    ] {
        assert_eq!(kept.told(&[&["runs"], change].concat()), told.replace("RUN", &runs[0]));
    }
    let named = |arguments: &[&str]| -> Vec<Value> {
        let all = lines(&kept.told(&[&["runs", "--json"], arguments].concat()));
        all.iter().map(|row| row["run"].clone()).collect()
    };
    for filter in [&["--starred"][..], &["--tag", "b"], &["--match", "WORTH"], &["--match", "the first"]] {
        assert_eq!(named(filter), [runs[0].as_str()], "{filter:?}");
    }
    assert_eq!(named(&["--tag", "a"]), Vec::<Value>::new());
    assert_eq!(named(&["--state", "finished"]).len(), 3);
    assert_eq!(named(&["--limit", "2"]).len(), 2);
    assert!(text(&kept.output(&["runs", "--state", "done"]).stderr).contains("interrupted"));

    // Without an answer nothing goes.
    let output = kept.program(&["runs", "delete", &runs[1]]).stdin(Stdio::null()).output().expect("starts");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let mut child = kept.program(&["runs", "delete", &runs[1]]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    child.stdin.take().expect("piped").write_all(b"n\n").expect("read");
    assert!(text(&child.wait_with_output().expect("ends").stdout).contains("Nothing was deleted"));
    assert_eq!(named(&[]).len(), 3);

    let said = kept.told(&["runs", "prune", "--keep-best", "1", "--yes"]);
    let left = named(&[]);
    assert!(left.contains(&runs[0].as_str().into()), "starred: {said}");
    assert!((1..=2).contains(&left.len()), "the starred one and the best one: {said}");
    assert!(kept.told(&["runs", "prune", "--older-than", "1d", "--yes"]).contains("Nothing is to be deleted"));
    assert_eq!(kept.output(&["runs", "prune"]).status.code(), Some(2));
    kept.told(&["runs", "delete", &runs[0], "--yes"]);
    assert!(!named(&[]).contains(&runs[0].as_str().into()));
}

#[test]
fn what_is_not_to_be_kept_or_was_refused_is_not_kept() {
    let kept = Kept::new();
    let events = lines(&kept.told(&["train", "mlp-digits", "--steps", "2", "--json", "--keep", "nothing"]));
    assert!(events.iter().all(|event| event["event"] != "kept"));
    assert!(!kept.0.path().join("runs.db").exists());
    assert_eq!(kept.output(&["train", "cnn-shapes-over-budget"]).status.code(), Some(1));
    assert_eq!(kept.runs(), Vec::<Value>::new());
    assert!(fs::read_dir(kept.0.path().join("runs")).is_ok_and(|mut runs| runs.next().is_none()), "no empty folder");
    assert_eq!(kept.output(&["train", "cnn-shapes-over-budget", "--anyway"]).status.code(), Some(1));
    // A script knows it by its state, a reader by the word that the window has; what was measured up to there is kept.
    assert_eq!(kept.runs()[0]["state"], "failed");
    assert!(
        kept.told(&["runs"]).contains("  over budget  ")
            && kept.told(&["show", "last"]).contains("State: over budget: ")
    );
    let table = kept.told(&["compare", "last", "cnn-shapes", "--json"]);
    let compared: Value = serde_json::from_str(&table).expect("one object");
    assert!(compared["subjects"][0]["measured_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{table}");
}

#[test]
fn a_bad_store_ends_no_run_and_stays_as_it_is() {
    let newer = |path: &Path| {
        let kept = Kept::new();
        kept.train("1", &[]);
        let mut bytes = fs::read(kept.0.path().join("runs.db")).expect("written");
        // The version that a program writes, at its place in the header (SQLite's file format, 1.3).
        bytes[60..64].copy_from_slice(&1000u32.to_be_bytes());
        fs::write(path, bytes).expect("written");
    };
    let garbage = |path: &Path| fs::write(path, vec![7; 5000]).expect("written");
    let cut = |path: &Path| {
        newer(path);
        let whole = fs::read(path).expect("written");
        fs::write(path, &whole[..whole.len() / 2]).expect("written");
    };
    type Make<'a> = &'a dyn Fn(&Path);
    for (make, said) in [(&newer as Make<'_>, "newer version"), (&garbage, "not a store of runs"), (&cut, "damaged")] {
        let kept = Kept::new();
        let path = kept.0.path().join("runs.db");
        make(&path);
        let before = fs::read(&path).expect("there");
        let trained = kept.output(&["train", "mlp-digits", "--steps", "3"]);
        let warning = text(&trained.stderr);
        assert!(trained.status.success() && warning.contains(said), "{said}: {warning}");
        assert!(warning.contains("--store or PLIMSOLL_STORE"), "{warning}");
        assert!(text(&trained.stdout).contains("3 steps"));
        let listed = kept.output(&["runs"]);
        assert_eq!(listed.status.code(), Some(1));
        assert!(text(&listed.stderr).contains(said), "{}", text(&listed.stderr));
        assert_eq!(fs::read(&path).expect("there"), before, "{said}: nothing is written over it");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_said_whatever_is_to_be_quiet_and_the_run_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    let place = file.join("store");
    let output =
        program().args(["train", "mlp-digits", "--steps", "3", "-q", "--store"]).arg(&place).output().expect("starts");
    assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("warning: the run was not kept"), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("cannot be the folder of kept runs"), "{}", text(&output.stderr));
}

#[test]
fn quiet_is_quiet() {
    let kept = Kept::new();
    let output = kept.output(&["train", "mlp-digits", "--steps", "3", "--quiet"]);
    assert_eq!((output.status.code(), output.stdout.len(), output.stderr.len()), (Some(0), 0, 0));
    assert_eq!(kept.runs().len(), 1);
}

#[test]
fn a_model_of_others_is_trained_and_goes_out_as_it_came() {
    let store = Kept::new();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    fs::create_dir(at("tiny")).expect("a folder");
    let config = r#"{"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 6, "vocab_size": 12,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}"#;
    fs::write(folder.path().join("tiny/config.json"), config).expect("written");
    let shorter = ["--set", "data.samples=20", "--set", "run.steps=1", "--quiet"];
    store.told(&[&["train", &at("tiny")], &shorter[..]].concat());
    let said = store.told(&["export", "last", "--format", "huggingface", "-o", &at("out")]);
    assert_eq!(said.lines().collect::<Vec<_>>(), [at("out/model.safetensors"), at("out/config.json")]);
    let planned = plimsoll(&["plan", &at("out")]);
    assert!(planned.status.success(), "{planned:?}");
    assert!(text(&planned.stderr).contains("weights: 16 tensors by transformers' GPT-2 names"), "{planned:?}");
    let wider = plimsoll(&["plan", &at("out"), "--set", "model.width=16"]);
    assert!(!wider.status.success() && text(&wider.stderr).contains("tensors have other extents"), "{wider:?}");
    let again = store.output(&["export", "last", "--format", "huggingface", "-o", &at("out")]);
    assert!(text(&again.stderr).contains("has files already; write --force"), "{again:?}");
}

#[test]
fn what_is_made_of_a_trained_model_is_said_once() {
    let told = Kept::new().told(&["train", "cnn-digits-int8", "--steps", "3"]);
    assert_eq!(told.matches("as 8-bit integers:").count(), 1, "{told}");
}
