//! `plimsoll evaluate` and `plimsoll try`: what a script gets of a trained model.

use super::{kept::Kept, *};

#[track_caller]
fn object(text: &str) -> Value {
    serde_json::from_str(text).expect("one JSON object")
}

#[test]
fn a_run_is_tried_by_its_checkpoint_and_has_the_figures_that_it_reported() {
    let kept = Kept::new();
    let events = lines(&kept.told(&["train", "mlp-digits", "--steps", "12", "--json"]));
    let tested = events.iter().rfind(|event| event["event"] == "evaluated").expect("it was tested");
    let found = object(&kept.told(&["evaluate", "last", "--last", "--json"]));
    assert_eq!((&found["loss"], &found["accuracy"]), (&tested["loss"], &tested["accuracy"]));
    assert_eq!((&found["samples"], &found["weights"]["step"]), (&359.into(), &12.into()));
    let classes = found["classes"].as_array().expect("ten");
    assert_eq!(classes.len(), 10);
    has_keys(&classes[3], &["class", "count", "correct", "answered", "recall", "precision"]);
    assert_eq!(found["confusion"].as_array().map(Vec::len), Some(10));
    let memory = |name: &str| found["memory"][name].as_u64().expect("bytes");
    assert!(memory("measured_live_bytes") <= memory("predicted_live_bytes"));
    let words = kept.told(&["evaluate", "last"]);
    assert!(words.contains("after step 12") && words.contains("of 359 samples"), "{words}");

    let reply = object(&kept.told(&["try", "last", "--sample", "0", "--json"]));
    assert_eq!(reply["classes"].as_array().map(Vec::len), Some(5));
    has_keys(&reply["classes"][0], &["class", "probability"]);
    // Any picture will do.
    let picture = concat!(env!("CARGO_MANIFEST_DIR"), "/../assets/screenshot.png");
    let shown = kept.told(&["try", "last", "--image", picture]);
    assert!(shown.contains("probability") && shown.contains('%'), "{shown}");
    for (arguments, why) in [
        (vec!["try", "last", "--prompt", "3"], "takes no prompt"),
        (vec!["try", "last", "--sample", "359"], "name one from 0 to 358"),
        (vec!["try", "last", "--image", "nowhere.png"], "nowhere.png: is not an image"),
        (vec!["evaluate", "last", "--budget", "70KiB"], "of a budget of 70.0 KiB"),
        (vec!["evaluate", "last", "--set", "model.width=9"], "another architecture"),
        (vec!["evaluate", "no-such-run"], "no-such-run"),
    ] {
        let output = kept.output(&arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).contains(why), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_run_that_made_integers_says_which_weights_are_tested() {
    let kept = Kept::new();
    kept.told(&["train", "mlp-digits", "--steps", "2", "--quiet", "--set", "quantise.kind=after"]);
    let noted = |more: &[&str]| text(&kept.output(&[&["evaluate", "last"], more].concat()).stderr).to_owned();
    assert!(noted(&[]).contains("note: the trained weights are tested"), "{}", noted(&[]));
    assert!(!noted(&["--set", "quantise.kind=none"]).contains("integers"));
}

#[test]
fn a_kept_run_is_named_as_weights_and_as_a_teacher() {
    let kept = Kept::new();
    let key = kept.train("3", &[]);
    let trained = object(&kept.told(&["evaluate", "last", "--last", "--json"]));
    for name in ["last", &key] {
        let weights = format!("weights.path={name}");
        let found = object(&kept.told(&["evaluate", "mlp-digits", "--set", &weights, "--json", "--quiet"]));
        assert_eq!(found["loss"], trained["loss"], "{name}");
    }
    let teacher = format!("distil.teacher={key}");
    let events = lines(&kept.told(&["train", "mlp-digits", "--set", &teacher, "--steps", "2", "--json", "--quiet"]));
    assert_eq!(events.last().expect("an end")["event"], "finished");
    for key in ["weights.path", "distil.teacher"] {
        let output = kept.output(&["train", "mlp-digits", "--set", &format!("{key}=no-such-run")]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(said.contains(key) && said.contains("no kept run and no file is called `no-such-run`"), "{said}");
    }
    let listed = kept.told(&["runs"]);
    assert!(listed.contains(&format!("taught by {key}")) && !listed.contains("taught by Run"), "{listed}");
    // A run that goes on cannot choose another.
    kept.told(&["runs", "delete", &key, "--yes"]);
    let output = kept.output(&["resume", "last", "--steps", "4"]);
    let said = text(&output.stderr);
    assert!(said.contains("distil.teacher: ") && said.contains("; put it there, or choose another teacher"), "{said}");
}

#[test]
fn events_of_a_teacher_that_is_trained_first_say_so() {
    let kept = Kept::new();
    let train = ["train", "mlp-digits", "--set", "distil.teacher=mlp-digits", "--steps", "2", "--json", "--quiet"];
    let events = lines(&kept.told(&train));
    let is_teachers = |event: &&Value| event["is_teachers"] == true;
    let named = |of: &dyn Fn(&&Value) -> bool, name: &str| {
        events.iter().filter(of).filter(|event| event["event"] == name).count()
    };
    for name in ["started", "kept", "finished"] {
        assert_eq!([named(&is_teachers, name), named(&|event| !is_teachers(event), name)], [1, 1], "{name}");
    }
    assert!(is_teachers(&&events[0]) && !is_teachers(&events.last().expect("an end")));
    assert_eq!(named(&|event| !is_teachers(event), "step"), 2);
}

#[test]
fn what_became_of_a_model_is_compared_with_its_whole_layers() {
    let kept = Kept::new();
    let whole = |settings: &[&str]| {
        let more: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let planned = object(&stdout(&[&["plan", "mlp-digits", "--json"], &more[..]].concat()));
        let train = ["train", "mlp-digits", "--steps", "2", "--keep", "nothing", "--json", "--quiet"];
        let events = lines(&kept.told(&[&train, &more[..]].concat()));
        let [planned, trained] = [&planned, events.last().expect("an end")].map(|end| end["compressed"].clone());
        assert_eq!(planned["whole_bytes"], trained["whole_bytes"], "{settings:?}: {planned}, {trained}");
        planned["whole_bytes"].as_u64().expect("bytes")
    };
    let (rank, integers, zeros) = ("low_rank.rank=4", "quantise.kind=after", "prune.kind=magnitude");
    let dense = whole(&[integers]);
    for settings in [&[rank][..], &[zeros], &[rank, integers], &[rank, zeros], &[zeros, integers]] {
        assert_eq!(whole(settings), dense, "{settings:?}");
    }
}

#[test]
fn the_bytes_of_a_model_that_became_smaller_are_shown_and_compared() {
    let kept = Kept::new();
    let plain = kept.train("3", &[]);
    let pruned = kept.train("3", &["--set", "prune.kind=magnitude", "--set", "prune.begin_step=1"]);
    let shown = kept.told(&["show", "last"]);
    assert!(shown.contains("\nThe model without its pruned parts: ") && shown.contains("% of "), "{shown}");
    let of = |run: &str| kept.show(run)["smaller"].clone();
    assert_eq!((of(&pruned)["became"].as_str(), &of(&plain)), (Some("pruned"), &Value::Null));
    assert!(of(&pruned)["bytes"].as_u64() < of(&pruned)["whole_bytes"].as_u64(), "{}", of(&pruned));
    let compared = kept.told(&["compare", &plain, &pruned]);
    let row = compared.lines().find(|line| line.starts_with("the model in the end"));
    assert!(row.is_some_and(|row| row.contains('–') && row.ends_with("(pruned)")), "{compared}");
    // What trains on from zeros fills them again.
    let weights = format!("weights.path={pruned}");
    let train = ["train", "mlp-digits", "--steps", "1", "--set", &weights];
    let said = |more: &[&str]| text(&kept.output(&[&train, more].concat()).stderr);
    assert!(said(&[]).contains("zeros become other numbers again"), "{}", said(&[]));
    assert!(!said(&["--set", "prune.kind=magnitude"]).contains("zeros become other numbers"));
    let ranks = said(&["--set", "low_rank.energy=0.5", "--set", "low_rank.ranks=4"]);
    assert!(ranks.contains("low_rank.ranks: `4` do not follow from these weights"), "{ranks}");
}

#[test]
fn the_phases_of_a_plan_are_listed_with_the_one_of_the_peak() {
    let plan = json(&["plan", "cnn-digits-channels", "--json"]);
    let phases = plan["phases"].as_array().expect("phases");
    let of = |name: &str| phases.iter().find(|phase| phase["phase"] == name).expect(name);
    assert_eq!((&of("steady")["live_bytes"], &of("pruned")["after_step"]), (&plan["peak"]["live_bytes"], &600.into()));
    assert!(of("pruned")["live_bytes"].as_u64() < of("steady")["live_bytes"].as_u64());
    let words = stdout(&["plan", "cnn-digits-channels"]);
    assert!(words.contains("from step 601 on") && words.contains("the peak\n"), "{words}");
    let export =
        ["export", "cnn-digits-channels", "--format", "csv", "--what", "layers", "--phase", "pruned", "-o", "-"];
    assert!(fails(2, &export).contains("--phase: the table of layers"));
}

#[test]
fn a_preset_is_tried_as_it_is_initialised_and_says_so() {
    let kept = Kept::new();
    let words = kept.told(&["evaluate", "mlp-digits", "--quiet"]);
    assert!(words.contains("as it is initialised: nothing is trained yet"), "{words}");
    let found = object(&kept.told(&["evaluate", "sort-llama", "--json", "--quiet"]));
    let perplexity = found["perplexity"].as_f64().expect("a number");
    assert!((perplexity - found["loss"].as_f64().expect("a number").exp()).abs() < 1e-9);
    let written = |seed: &str| {
        let prompt = "3 1 4 1 5 9 2 6";
        object(&kept.told(&["try", "sort-llama", "--prompt", prompt, "--seed", seed, "--json", "--quiet"]))
    };
    let first = written("1");
    assert_eq!(first["tokens"], written("1")["tokens"], "the same seed writes the same");
    assert_eq!(first["tokens"].as_array().map(Vec::len), Some(8));
    // Of the prompt and of all that is written but the last, which nothing sees.
    assert_eq!(first["cache"]["positions"], 15);
    assert!(first["cache"]["predicted_bytes"].as_u64() > Some(0), "{first}");
    let both = kept.output(&["try", "mlp-digits", "--sample", "1", "--prompt", "3"]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stderr));
}

#[test]
fn what_cannot_be_tried_is_answered_with_what_can() {
    let kept = Kept::new();
    let fails = |arguments: &[&str]| {
        let output = kept.output(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    for temperature in ["-1", "-0.5", "101"] {
        let said = fails(&["try", "sort-llama", "--prompt", "3 1 4 1 5 9 2 6", "--temperature", temperature]);
        assert!(said.contains("is not a temperature; write 0 to 100") && !said.contains("tip"), "{said}");
    }
    let said = fails(&["try", "sort-llama", "--sample", "1"]);
    assert!(said.contains("sequences, not pictures; give it a prompt to write on from (--prompt TEXT)"), "{said}");
    // A folder is looked into before the store is.
    let folder = kept.0.path().join("weights");
    fs::create_dir(&folder).expect("made");
    fs::write(folder.join("model.safetensors"), "").expect("written");
    let named = folder.to_string_lossy();
    let said = fails(&["try", &named, "--prompt", "hi"]);
    assert!(
        said.contains("is a folder of weights without a config.json") && said.contains("--set weights.path="),
        "{said}"
    );
    fs::write(folder.join("adapter_config.json"), "{}").expect("written");
    let output = program().args(["plan", "weights"]).current_dir(kept.0.path()).output().expect("the program starts");
    let said = text(&output.stderr);
    assert!(said.contains("is a folder of adapters") && said.contains("--format huggingface --merge"), "{said}");
}

#[test]
fn a_run_whose_checkpoints_lie_elsewhere_is_tried_by_their_file() {
    let kept = Kept::new();
    let place = kept.0.path().join("elsewhere");
    kept.train("4", &["--checkpoints", &place.to_string_lossy()]);
    let said = text(&kept.output(&["try", "last", "--sample", "0"]).stderr);
    assert!(said.contains("`plimsoll try FILE` and `plimsoll evaluate FILE` take a checkpoint that lies"), "{said}");
    assert!(said.contains("last.safetensors"), "{said}");
    let said = text(&kept.output(&["resume", "last"]).stderr);
    assert!(said.contains("`plimsoll resume FILE` goes on from a checkpoint that lies elsewhere"), "{said}");
}

#[test]
fn weights_that_are_pickled_are_not_taken_for_random_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let config =
        r#"{"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 8, "vocab_size": 20}"#;
    fs::write(folder.path().join("config.json"), config).expect("written");
    fs::write(folder.path().join("pytorch_model.bin"), "no").expect("written");
    let model = folder.path().to_str().expect("text");
    for command in [&["train", model, "--quiet"][..], &["evaluate", model], &["try", model, "--prompt", "1"]] {
        let said = fails(1, command);
        assert!(said.contains("pytorch_model.bin: is pickled") && said.contains("save_pretrained"), "{said}");
        assert!(said.contains("--set weights.path="), "{said}");
    }
    // What it takes can be planned, and nothing is refused that was asked for.
    let planned = plimsoll(&["plan", model, "--json"]);
    assert!(planned.status.success() && text(&planned.stderr).contains("is pickled and not read"));
    let chosen = stdout(&["try", model, "--set", "weights.path=", "--prompt", "1", "--json", "--quiet"]);
    assert_eq!(object(&chosen)["weights"]["from"], "initialised");
}

#[test]
fn a_run_whose_weights_do_not_fit_is_none_that_is_kept() {
    let kept = Kept::new();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("other.safetensors");
    let head = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    fs::write(&path, [&(head.len() as u64).to_le_bytes()[..], head.as_bytes(), &[0; 4]].concat()).expect("written");
    let chosen = format!("weights.path={}", path.display());
    let output = kept.output(&["train", "mlp-digits", "--steps", "1", "--set", &chosen]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("has none of the tensors of this model"), "{said}");
    assert_eq!(lines(&kept.told(&["runs", "--json"])).len(), 0, "nothing was done");
}
