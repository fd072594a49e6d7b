//! Runs that two programs want, that lose their reader, or whose files are not theirs.

use std::{
    io::{BufRead, BufReader},
    process::Child,
    time::Duration,
};

use super::{kept::Kept, *};

/// A schedule that ends with the run would make two lengths two trainings.
const CONSTANT: [&str; 2] = ["--set", "optimizer.schedule=constant"];
/// So many steps that no run comes to its end.
const ENDLESS: &str = "1000000000";

fn interrupt(child: &mut Child) {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn of_two_programs_that_go_on_with_a_run_one_does() {
    let kept = Kept::new();
    let run = kept.train("20", &CONSTANT);
    let goes_on = || {
        let mut program = kept.program(&["resume", &run, "--steps", ENDLESS, "--quiet"]);
        program.stderr(Stdio::piped()).spawn().expect("the program starts")
    };
    let mut both = [goes_on(), goes_on()];
    let first_to_end = loop {
        match both.iter_mut().position(|child| child.try_wait().expect("a program").is_some()) {
            Some(place) => break place,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let [a, b] = both;
    let (refused, mut trains) = if first_to_end == 0 { (a, b) } else { (b, a) };
    let output = refused.wait_with_output().expect("it ended");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("being trained by process {}; stop it there first", trains.id())), "{said}");
    // It has begun to train, and the others are told so.
    while kept.runs()[0]["state"] != "running" {
        std::thread::sleep(Duration::from_millis(5));
    }
    for arguments in [&["resume", &run][..], &["runs", "delete", &run, "--yes"]] {
        let said = text(&kept.output(arguments).stderr);
        assert!(said.contains(&format!("process {}", trains.id())) && said.contains("stop it there first"), "{said}");
    }
    interrupt(&mut trains);
    let shown = kept.show(&run);
    assert_eq!(shown["state"], "stopped");
    let steps: Vec<u64> =
        shown["series"]["steps"]["step"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    assert!(steps.iter().copied().eq(1..=steps.len() as u64), "each step once, in order");
}

#[test]
fn a_checkpoint_of_another_experiment_in_the_folder_of_a_run_is_refused() {
    let kept = Kept::new();
    let run = kept.train("4", &CONSTANT);
    let other = kept.train("6", &[&CONSTANT[..], &["--set", "optimizer.learning_rate=0.25"]].concat());
    let last = |run: &str| kept.0.path().join("runs").join(run).join("last.safetensors");
    let own = fs::read(last(&run)).expect("saved");
    fs::copy(last(&other), last(&run)).expect("copied");
    let output = kept.output(&["resume", &run, "--steps", "8"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("is not a checkpoint of this run: the settings differ in optimizer.learning_rate"), "{said}");
    assert_eq!((kept.show(&run)["steps"].as_u64(), kept.show(&run)["state"].as_str()), (Some(4), Some("finished")));
    fs::write(last(&run), own).expect("written");
    kept.told(&["resume", &run, "--steps", "8"]);
    assert_eq!(kept.show(&run)["steps"], 8);
}

/// What is not to be kept leaves what is kept as it is, and a new run that begins from a kept one's checkpoint has its own.
#[test]
fn a_kept_run_s_checkpoint_is_replaced_by_no_other_run() {
    let kept = Kept::new();
    let run = kept.train("2", &CONSTANT);
    let last = kept.0.path().join("runs").join(&run).join("last.safetensors");
    let before = fs::read(&last).expect("saved");
    kept.told(&["resume", &run, "--steps", "3", "--keep", "nothing", "-q"]);
    assert_eq!((fs::read(&last).expect("there") == before, kept.show(&run)["steps"].as_u64()), (true, Some(2)));
    kept.told(&["resume", last.to_str().expect("text"), "--steps", "4", "-q"]);
    assert!(fs::read(&last).expect("there") == before && kept.runs().len() == 2);
    kept.told(&["resume", "last", "--steps", "5", "-q"]);
    assert_eq!((kept.show("last")["steps"].as_u64(), kept.show(&run)["steps"].as_u64()), (Some(5), Some(2)));
    kept.told(&["resume", &run, "--steps", "4", "--keep", "series", "-q"]);
    assert_eq!((fs::read(&last).expect("there") == before, kept.show(&run)["steps"].as_u64()), (true, Some(4)));
}

#[test]
fn a_run_without_checkpoints_says_so_whether_its_folder_is_there_or_not() {
    let kept = Kept::new();
    let run = kept.train("2", &["--keep", "series"]);
    for is_there in [false, true] {
        if is_there {
            fs::create_dir_all(kept.0.path().join("runs").join(&run)).expect("made");
        }
        let output = kept.output(&["resume", &run, "--steps", "4", "--json"]);
        let said = text(&output.stderr);
        assert!(said.contains("has no checkpoint to go on from") && output.stdout.is_empty(), "{is_there}: {said}");
    }
}

#[test]
fn training_that_loses_its_reader_is_stopped_and_saved() {
    for (how, wanted) in [(&["--json"][..], "\"step\""), (&["--set", "run.evaluate_every=1"], "test loss")] {
        let kept = Kept::new();
        let mut child = kept
            .program(&[&["train", "mlp-digits", "--steps", ENDLESS], how].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut told = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        told.by_ref().find(|line| line.contains(wanted)).expect("it trains");
        drop(told);
        let output = child.wait_with_output().expect("it ends");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(141), "{how:?}: {said}");
        let run = &kept.runs()[0];
        let (key, steps) = (run["run"].as_str().expect("a name"), run["steps"].as_u64().expect("steps"));
        assert_eq!(run["state"], "stopped", "{how:?}");
        assert_eq!(
            said,
            format!(
                "standard output has no reader any more, so the run was ended after step {steps}; `plimsoll resume {key}` goes \
                 on with it\n"
            )
        );
        kept.told(&["resume", key, "--steps", &(steps + 1).to_string()]);
    }
}

#[test]
fn a_pipe_in_place_of_a_checkpoint_is_refused() {
    let kept = Kept::new();
    let run = kept.train("2", &[]);
    let folder = kept.0.path().join("runs").join(run);
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let said = text(&kept.output(&["resume", pipe.to_str().expect("text")]).stderr);
    assert!(said.contains("is a pipe or a device; choose a checkpoint"), "{said}");
    fs::rename(&pipe, folder.join("last.safetensors")).expect("renamed");
    for place in ["last", folder.to_str().expect("text")] {
        let said = text(&kept.output(&["resume", place]).stderr);
        assert!(said.contains("is a pipe or a device; choose a checkpoint"), "{place}: {said}");
    }
}

/// A run cannot begin with a pipe in the place of its weights, so it has no plan either, and nothing waits for a writer.
#[cfg(unix)]
#[test]
fn a_model_whose_weights_are_a_pipe_has_no_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let config = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 256, "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5, "hidden_act": "silu"}"#;
    fs::write(at("config.json"), config).expect("written");
    assert!(Command::new("mkfifo").arg(at("model.safetensors")).status().expect("mkfifo runs").success());
    let model = folder.path().to_str().expect("text");
    let weights = format!("weights.path={}", at("model.safetensors"));
    for arguments in [&["plan", model][..], &["fit", model], &["plan", "sort-llama", "--set", &weights]] {
        let said = fails(1, arguments);
        assert!(said.contains("model.safetensors is a pipe or a device; choose a .safetensors file"), "{said}");
    }
    fs::remove_file(at("model.safetensors")).expect("ours");
    stdout(&["plan", model]);
}

/// A store that no file can hold: that is said once, nothing waits for it, and no empty file is left.
#[test]
fn a_limit_below_a_store_is_said_once_and_nothing_is_waited_for() {
    let kept = Kept::new();
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -f 20; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_plimsoll"), "train", "mlp-digits"]);
    command.args(["--steps", "3", "--keep", "series", "--store"]).arg(kept.0.path().join("small"));
    let output = command.output().expect("it starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let words = "the run is not kept: ";
    assert!(said.matches("not kept").count() == 1 && said.contains(words), "{said}");
    assert!(said.contains("may have 20.0 KiB at most (`ulimit -f`)"), "{said}");
    assert!(!kept.0.path().join("small/runs.db").exists(), "an empty file is no store");
}

/// A file that the system lets grow no further: nothing ends the program but the end of its work.
#[test]
fn a_limit_of_the_size_of_files_is_said() {
    let kept = Kept::new();
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -f 1; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_plimsoll"), "train", "mlp-digits"]);
    let output = command.args(["--steps", "3", "--keep", "nothing", "--checkpoints"]).arg(kept.0.path().join("here"));
    let output = output.output().expect("it starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("last.safetensors: cannot be saved: the file would be larger than the system allows"),
        "{said}"
    );
}
