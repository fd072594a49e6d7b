//! Exports of runs whose models became smaller, or were to.

use std::{
    io::{BufRead, BufReader},
    sync::Arc,
};

use plimsoll_engine::{
    experiment::shipped,
    hardware::Machine,
    plan::Plan,
    store::{Origin, Recorder, Recording},
    train::{Event, Outcome, StepRecord, Summary},
};

use super::{kept::Kept, *};

const EXPORT: [&str; 7] = ["export", "last", "--format", "safetensors", "--compressed", "--json", "-o"];

/// What `export --compressed` of the newest run says, which is refused.
#[track_caller]
fn refused(kept: &Kept) -> String {
    let path = kept.0.path().join("never.safetensors");
    let output = kept.output(&[&EXPORT[..], &[path.to_str().expect("text")]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(!path.exists());
    text(&output.stderr)
}

/// Trains, and stops the run by a signal after its first step; what it wrote.
#[cfg(unix)]
fn stopped(kept: &Kept, arguments: &[&str], signal: &str) -> String {
    let endless = [&["train"], arguments, &["--steps", "1000000", "--set", "run.save_every=1"]].concat();
    let mut child = kept.program(&endless).stdout(Stdio::piped()).spawn().expect("the program starts");
    // Once the first checkpoint is there.
    let is_saved = || {
        let runs = fs::read_dir(kept.0.path().join("runs")).into_iter().flatten().flatten();
        runs.into_iter().any(|run| run.path().join("last.safetensors").exists())
    };
    let out = BufReader::new(child.stdout.take().expect("piped"));
    let told = std::thread::spawn(move || out.lines().map_while(Result::ok).collect::<Vec<_>>().join("\n"));
    while !is_saved() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    child.wait().expect("it ends");
    told.join().expect("read")
}

#[test]
#[cfg(unix)]
fn a_run_that_was_stopped_before_its_model_was_made_smaller_is_finished_first() {
    let all: [&[&str]; 4] = [
        &["cnn-digits-int8", "--set", "model.width=8"],
        &["mlp-digits", "--set", "prune.kind=magnitude", "--set", "run.evaluate_every=100000"],
        &["cnn-digits-channels", "--set", "model.width=8", "--set", "prune.begin_step=1"],
        &["cnn-digits-low-rank", "--set", "model.width=16"],
    ];
    for arguments in all {
        let kept = Kept::new();
        let told = stopped(&kept, arguments, "-INT");
        let run = kept.runs()[0]["run"].as_str().expect("a name").to_owned();
        let mend = format!("`plimsoll resume {run}` finishes it");
        assert!(told.contains(", before its model was made smaller and tested") && told.contains(&mend), "{told}");
        let said = refused(&kept);
        assert!(said.contains("the run was stopped before its model was made smaller and tested"), "{said}");
        assert!(said.contains(&mend) && !said.contains("stayed as it was"), "{said}");
        let shown = kept.told(&["show", "last"]);
        assert!(shown.contains("Unfinished: it did ") && shown.contains(&mend), "{shown}");
    }
    let kept = Kept::new();
    stopped(&kept, all[0], "-KILL");
    let said =
        (0..200).map(|_| refused(&kept)).find(|said| !said.contains("it trains")).expect("it is found to be dead");
    assert!(said.contains("the run was interrupted before its model was made smaller"), "{said}");
}

/// Keeps a run of `preset` that did all its steps, and was stopped in its last test or after it.
fn all_steps(kept: &Kept, preset: &str, is_tested: bool) {
    let mut experiment = shipped::find(preset).expect("a shipped preset").expect("it can be read");
    experiment.shorten(5);
    let plan = Arc::new(Plan::of(&experiment, &Machine::nominal()).expect("a plan"));
    let (folder, origin) = (kept.0.path().to_owned(), Origin::CommandLine);
    let recorder = Recorder::new(Recording { folder, origin, is_forced: false, continued: None });
    recorder.take(&Event::Started { run: 1, plan });
    let mut record = StepRecord {
        step: 0,
        loss: 1.0,
        accuracy: 0.5,
        learning_rate: 0.1,
        gradient_norm: 1.0,
        loss_scale: 1.0,
        skipped: false,
        at_secs: 1.0,
        secs: 1.0,
        live: Default::default(),
        reserved: Default::default(),
        process: Default::default(),
    };
    for step in 1..=5 {
        record.step = step;
        recorder.take(&Event::Step(record));
    }
    if is_tested {
        recorder.take(&Event::Evaluated { step: 5, at_secs: 5.0, loss: 1.0, accuracy: 0.5, errors: None });
    }
    let summary = Box::new(Summary { steps: 5, ..Summary::default() });
    recorder.take(&Event::Ended { run: 1, outcome: Outcome::Stopped, summary });
    assert_eq!(recorder.finish(), None);
}

#[test]
fn a_run_that_did_all_its_steps_and_lacks_its_last_test_is_listed_and_shown_so() {
    let lacks = [
        "lacks its last test",
        "lacks the last test, in which its model gets smaller",
        "lacks the test of its model as integers",
    ];
    let runs = [("mlp-digits", false), ("cnn-digits-int8", false), ("cnn-digits-int8", true)];
    for (lacks, (preset, is_tested)) in lacks.into_iter().zip(runs) {
        let kept = Kept::new();
        all_steps(&kept, preset, is_tested);
        let listed = kept.told(&["runs"]);
        assert!(listed.contains("5/5, no end"), "{listed}");
        assert_eq!((&kept.runs()[0]["lacks_end"], &kept.runs()[0]["steps"]), (&true.into(), &5.into()));
        let shown = kept.told(&["show", "last"]);
        assert!(shown.contains(&format!("Unfinished: it did all its 5 steps, and {lacks}")), "{shown}");
    }
    let kept = Kept::new();
    kept.train("2", &[]);
    assert!(kept.runs()[0]["lacks_end"] == false && !kept.told(&["show", "last"]).contains("Unfinished"));
    assert!(!kept.told(&["runs"]).contains("no end"));
}

#[test]
fn a_compressed_file_begins_a_run_and_teaches_and_says_what_it_is_where_a_checkpoint_is_asked_for() {
    let kept = Kept::new();
    let path = kept.0.path().join("c.safetensors");
    let path = path.to_str().expect("text");
    let small = ["--set", "model.width=8"];
    kept.told(&[&["train", "cnn-digits-int8", "--set", "run.epochs=3", "--quiet"], &small[..]].concat());
    kept.told(&[&EXPORT[..], &[path]].concat());
    let begun = format!("weights.path={path}");
    let tested: Value = serde_json::from_str(
        &kept.told(
            &[&["evaluate", "cnn-digits-int8", "--set", &begun, "--set", "quantise.kind=none", "--json"], &small[..]]
                .concat(),
        ),
    )
    .expect("one object");
    let trained = kept.runs()[0]["test_accuracy"].as_f64().expect("tested");
    let accuracy = tested["accuracy"].as_f64().expect("tested");
    assert!(
        trained > 0.5 && (accuracy - trained).abs() < 0.03,
        "{accuracy} from the file, {trained} as it was trained"
    );
    kept.told(&[&["train", "cnn-digits-int8", "--steps", "1", "--set", &begun, "--quiet"], &small[..]].concat());
    let teacher = format!("distil.teacher={path}");
    kept.told(&["train", "mlp-digits", "--steps", "1", "--set", &teacher, "--quiet"]);
    for command in ["evaluate", "resume"] {
        let said = text(&kept.output(&[command, path]).stderr);
        assert!(said.contains("has weights, and not where a run stood: it was exported"), "{said}");
        assert!(said.contains("--set weights.path=FILE") && !said.contains("damaged"), "{said}");
    }
}

/// The folder of the files of the newest run.
fn files(kept: &Kept) -> PathBuf {
    let run = kept.runs()[0]["run"].as_str().expect("a name").to_owned();
    kept.0.path().join("runs").join(run)
}

#[test]
fn what_a_run_lacks_for_an_export_is_named_with_what_to_do() {
    let kept = Kept::new();
    kept.told(&["train", "cnn-digits-int8", "--set", "model.width=8", "--steps", "2", "--quiet"]);
    let files = files(&kept);
    let [ranges, last] = ["ranges.safetensors", "last.safetensors"].map(|name| files.join(name));
    let whole = fs::read(&ranges).expect("kept");
    fs::remove_file(&ranges).expect("ours");
    let said = refused(&kept);
    assert!(said.contains("ranges.safetensors is missing") && said.contains("train the run again"), "{said}");
    fs::create_dir(&ranges).expect("ours");
    assert!(refused(&kept).contains("ranges.safetensors is a folder"), "{}", refused(&kept));
    fs::remove_dir(&ranges).expect("ours");
    fs::write(&ranges, whole).expect("ours");
    let export = |arguments: &[&str], code: i32| {
        let output = kept.output(&[&["export", "last", "--format", "safetensors"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let to = kept.0.path().join("to.safetensors");
    let to = to.to_str().expect("text");
    let said = export(&["--best", "-o", to], 1);
    assert!(said.contains("run.save_best = true") && said.contains("leave --best out"), "{said}");
    let said = export(&["--compressed", "-o", "-"], 2);
    assert!(said.contains("-o -: weights go to a file, and not to standard output"), "{said}");
    let nowhere = kept.0.path().join("nowhere");
    let said = export(&["-o", nowhere.join("../to.safetensors").to_str().expect("text")], 1);
    assert!(said.contains(&format!("there is no folder {}; make it first", nowhere.display())), "{said}");
    if cfg!(target_os = "linux") {
        let said = export(&["--compressed", "-o", "/proc/to.safetensors"], 1);
        assert!(said.contains("choose another folder"), "{said}");
    }
    let mut damaged = fs::read(&last).expect("saved");
    *damaged.last_mut().expect("bytes") ^= 1;
    fs::write(&last, damaged).expect("ours");
    assert!(export(&["-o", to], 1).contains("take another checkpoint of the run, or train it again"));
    fs::remove_file(&last).expect("ours");
    let said = export(&["-o", to], 1);
    assert!(said.contains("it has none in the store; the last one it wrote, after step 2"), "{said}");
    assert!(!said.contains("choose the folder of a run"), "{said}");
}

#[test]
fn adapters_leave_merged_into_their_model() {
    let kept = Kept::new();
    let adapters =
        ["--set", "lora.rank=2", "--set", "frozen=all", "--set", "model.width=16", "--set", "model.hidden=16"];
    kept.told(&[&["train", "sort-llama", "--steps", "1", "--quiet"], &adapters[..]].concat());
    let said = refused(&kept);
    assert!(said.contains("with --format huggingface --merge") && !said.contains("quantise.kind"), "{said}");
}

#[test]
fn half_of_the_channels_are_said_to_be_three_quarters_of_the_weights() {
    let kept = Kept::new();
    let small = ["cnn-digits-channels", "--set", "model.width=8", "--set", "prune.begin_step=1"];
    let why = "A layer loses 50% of its channels, and the next one the inputs that came from them: one that loses both keeps \
               25% of its weights.";
    let planned = stdout(&[&["plan"], &small[..]].concat());
    assert!(planned.contains(why), "{planned}");
    let trained = kept.told(&[&["train", "--steps", "2"], &small[..]].concat());
    assert!(trained.contains(why.trim_end_matches('.')), "{trained}");
    assert!(!stdout(&["plan", "cnn-digits-pruned"]).contains("of its channels"));
}

#[test]
fn a_setting_without_use_is_named_with_what_uses_it() {
    let output = plimsoll(&["plan", "sort-llama", "--set", "quantise.kind=aware", "--set", "quantise.weights=int4"]);
    let said = "note: --set: quantise.weights is not used with quantise.kind = aware, only with after";
    assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
}
