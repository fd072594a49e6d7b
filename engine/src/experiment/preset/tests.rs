//! Reading, writing and setting, and every kind of mistake.

mod drawn;
mod files;

use super::*;
use crate::{
    bytes::Bytes,
    experiment::{
        Checkpointing, CodedWeights, Frozen, ModelKind, Optimizer, OptimizerKind, PoolPolicy, Precision, PruneKind,
        PruneSchedule, QuantiseKind, Recompute,
    },
};

/// The answer to a preset with a mistake in it.
#[track_caller]
fn answer(text: &str) -> String {
    parse(text, "x.toml").expect_err("a mistake").to_string()
}

#[track_caller]
fn answers(text: &str, place: &str, parts: &[&str]) {
    let answer = answer(text);
    assert!(answer.starts_with(&format!("x.toml ({place}): ")), "{answer}");
    for part in parts {
        assert!(answer.contains(part), "no {part:?} in {answer}");
    }
}

#[test]
fn an_impossible_value_is_answered_with_place_and_mend() {
    assert_eq!(
        answer("version = 1\n\n[batch]\nmicro = 0\n"),
        "x.toml (line 4, column 1): batch.micro: 0 is not a batch; write 1 or more"
    );
    answers("budget = 0", "line 1, column 1", &["budget: 0 B is not a budget"]);
}

#[test]
fn an_unknown_key_is_answered_with_the_one_that_was_meant() {
    answers(
        "[batch]\nmirco = 3",
        "line 2, column 1",
        &[
            "batch.mirco: there is no such key; did you mean batch.micro? The keys of [batch] are micro, accumulation, evaluation",
        ],
    );
    answers("micro = 3", "line 1, column 1", &["did you mean batch.micro?"]);
    answers("[modle]\nkind = \"mlp\"", "line 1, column 2", &["did you mean model?"]);
    answers("[zzzz]", "line 1, column 2", &["the keys of the top are version, title"]);
}

#[test]
fn a_wrong_type_is_answered_with_the_right_one() {
    answers("[batch]\nmicro = \"64\"", "line 2, column 1", &["\"64\" is text", "write a whole number"]);
    answers("[batch]\nmicro = 6.5", "line 2, column 1", &["6.5 does not fit", "write a whole number"]);
    answers("[batch]\nmicro = -1", "line 2, column 1", &["-1 does not fit", "write a whole number"]);
    answers("precision = 16", "line 1, column 1", &["write one of \"f32\", \"bf16-mixed\""]);
    answers("precision = \"bf16mixed\"", "line 1, column 1", &["did you mean \"bf16-mixed\"?"]);
    answers("checkpointing = \"every:0\"", "line 1, column 1", &["every:K"]);
    answers("budget = \"lots\"", "line 1, column 1", &["512 MiB"]);
    answers("batch = 64", "line 1, column 1", &["is a group", "micro, accumulation"]);
    answers("[precision]", "line 1, column 2", &["is one value, not a group"]);
    answers("[[batch]]\nmicro = 1", "line 1, column 3", &["is a group"]);
    // A number that TOML itself cannot hold is named in full, and the advice is valid.
    let message = "): batch.micro: 99999999999999999999 is too large for a whole number; write 1048576 or less";
    for text in
        ["[batch]\nmicro = 99999999999999999999", "\nbatch = { accumulation = 1, micro = 99999999999999999999 }"]
    {
        assert!(answer(text).starts_with("x.toml (line 2") && answer(text).ends_with(message), "{}", answer(text));
    }
    let set = set(&mut Experiment::default(), "batch.micro=99999999999999999999").expect_err("too large");
    assert!(message.ends_with(&set.to_string()), "{set}");
    answers("title = [1]", "line 1, column 1", &["a list", "text in double quotes"]);
    answers("[optimizer]\nlearning_rate = true", "line 2, column 1", &["yes or no", "0.001"]);
}

#[test]
fn broken_text_is_answered_with_its_place() {
    answers("version = 1\ntitle = \"open", "line 2, column 14", &["a line is `key = value`"]);
    answers("title = \"a\"\ntitle = \"b\"", "line 2, column 1", &["title is given twice"]);
    for (text, place) in [
        ("[batch]\nmicro = 1\nmicro = 2", "line 3, column 1"),
        ("batch = { micro = 1, micro = 2 }", "line 1, column 22"),
        ("batch.micro = 1\nbatch.micro = 2", "line 2, column 7"),
    ] {
        answers(text, place, &[": batch.micro is given twice; take one of the two out"]);
    }
    answers("[batch]\nmicro = 1\n[batch]", "line 3, column 2", &["batch is given twice"]);
    answers("precision = bf16", "line 1, column 13", &["double quotes"]);
}

#[test]
fn every_mistake_of_a_file_is_answered_in_its_order() {
    let answer = answer("budget = true\n[batch]\nmicro = \"a\"\n[run]\nsede = 1\n");
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(lines.len(), 3, "{answer}");
    for (line, place) in lines.iter().zip(["line 1,", "line 3,", "line 5,"]) {
        assert!(line.starts_with(&format!("x.toml ({place}")), "{line}");
    }
}

#[test]
fn a_newer_version_is_the_only_thing_said() {
    let answer = answer("version = 3\nnovel = 1\n");
    assert!(answer.contains("3 is newer than this program") && answer.lines().count() == 1, "{answer}");
}

#[test]
fn steps_and_epochs_exclude_each_other() {
    answers("[run]\nsteps = 5\nepochs = 5", "line 3, column 1", &["take one of the two out"]);
}

#[test]
fn what_the_chosen_kinds_do_not_use_is_not_written() {
    let text = to_text(&Experiment {
        optimizer: Optimizer { kind: OptimizerKind::Sgd, ..Default::default() },
        ..Default::default()
    });
    for key in ["kernel", "dense", "classes", "samples", "path", "momentum", "beta1", "epsilon", "epochs"] {
        assert!(!text.contains(&format!("{key} =")), "{key} in {text}");
    }
    assert!(text.starts_with("version = 2\ntitle = \"Untitled\"\nbudget = \"64 MiB\"\nprecision ="), "{text}");
}

#[test]
fn a_long_description_is_wrapped_and_reads_back() {
    let words = "What to look at: the stack grows forward and falls backward. ".repeat(8);
    let experiment = Experiment { description: words.trim_end().to_owned(), ..Default::default() };
    let text = to_text(&experiment);
    assert!(text.lines().all(|line| line.chars().count() <= 102), "{text}");
    assert_eq!(parse(&text, "x.toml").expect("own text"), experiment);
}

#[test]
fn set_takes_toml_and_bare_words() {
    let mut e = Experiment::default();
    for assignment in [
        "precision=bf16-mixed",
        "budget=8GiB",
        "batch.micro = 32",
        "optimizer.learning_rate=1",
        "checkpointing=every:2",
        "title=\"in quotes\"",
        "run.epochs=3",
        "run.steps=7",
    ] {
        set(&mut e, assignment).expect(assignment);
    }
    assert_eq!((e.precision, e.budget, e.batch.micro), (Precision::Bf16Mixed, Bytes::gib(8), 32));
    assert_eq!((e.checkpointing, e.title.as_str()), (Checkpointing::Every(2), "in quotes"));
    assert_eq!((e.run.steps, e.run.epochs), (Some(7), None));
    for (wrong, part) in [
        ("batch.micro", "key=value"),
        ("micro=3", "did you mean batch.micro?"),
        ("batch.mirco=3", "did you mean batch.micro?"),
        ("batch=3", "name one of its keys: micro, accumulation"),
        ("batch.micro=many", "write a whole number"),
        ("precision=fp16", "did you mean \"f16-mixed\"?"),
        ("precision=f31", "did you mean \"f32\"?"),
    ] {
        let problem = set(&mut e, wrong).expect_err(wrong).to_string();
        assert!(problem.contains(part), "{problem}");
    }
}

#[test]
fn the_keys_of_a_gpu_are_set_and_written_where_there_is_one() {
    let mut e = Experiment::default();
    for assignment in ["gpu.pool=release", "gpu.workspace=0", "gpu.tf32=true", "gpu.deterministic=false"] {
        set(&mut e, assignment).expect(assignment);
    }
    assert!(!to_text(&e).contains("[gpu]"));
    e.device = "cuda:0".to_owned();
    let text = to_text(&e);
    assert!(
        text.contains("[gpu]\npool = \"release\"\nworkspace = \"0 B\"\ntf32 = true\ndeterministic = false\n"),
        "{text}"
    );
    assert_eq!(parse(&text, "x.toml").expect("own text"), e);
    answers("device = \"rtx4060\"", "line 1, column 1", &["is not a device", "did you mean rtx4060-8g?"]);
    answers("[gpu]\npool = \"keep\"", "line 2, column 1", &["write one of \"grow\", \"release\", \"reserve\""]);
}

#[test]
fn without_a_budget_the_line_is_drawn_where_the_card_ends() {
    let budget = |text: &str| parse(text, "x.toml").expect("a preset").budget;
    let card = named("rtx4060-8g").expect("ships");
    assert_eq!(budget("device = \"rtx4060-8g\"\n"), card.usable_memory());
    assert_eq!(budget("device = \"rtx4060-8g\"\nbudget = \"3 GiB\"\n"), Bytes::gib(3));
    assert_eq!(budget("device = \"cpu\"\n"), Experiment::default().budget);
}

#[test]
fn a_rule_brings_its_own_usual_decays_unless_others_were_chosen() {
    let momentum = |text: &str| parse(text, "x.toml").expect("a preset").optimizer.momentum;
    assert_eq!(momentum("[optimizer]\nkind = \"muon\"\n"), 0.95);
    assert_eq!(momentum("[optimizer]\nkind = \"muon\"\nmomentum = 0.9\n"), 0.9);
    let beta2 = |text: &str| parse(text, "x.toml").expect("a preset").optimizer.beta2;
    assert_eq!(beta2("[optimizer]\nkind = \"lion\"\n"), 0.99);
    assert_eq!(beta2("[optimizer]\nkind = \"lion\"\nbeta2 = 0.999\n"), 0.999);
    assert_eq!(beta2("[optimizer]\nkind = \"adamw8bit\"\n"), 0.999);
    let mut experiment = Experiment::default();
    set(&mut experiment, "optimizer.kind=lion").expect("a rule");
    assert_eq!(experiment.optimizer.beta2, 0.99);
    set(&mut experiment, "optimizer.kind=muon").expect("a rule");
    assert_eq!((experiment.optimizer.beta2, experiment.optimizer.momentum), (0.999, 0.95));
    set(&mut experiment, "optimizer.beta2=0.98").expect("a decay");
    set(&mut experiment, "optimizer.kind=adamw").expect("a rule");
    assert_eq!((experiment.optimizer.beta2, experiment.optimizer.momentum), (0.98, 0.9));
}

#[test]
fn a_preset_of_version_1_is_read_with_notes_and_saved_as_2() {
    let text = "version = 1\noutputs = \"made-again\"\ntape = \"held\"\ndevice = \"cuda:0\"\n[gpu]\npool = \"give-back\"\n\
                [data]\nkind = \"shapes\"\ncrop = 4\ncolour = 0.2\n";
    let Opened { experiment, notes, .. } = opened(text, "x.toml").expect("a preset");
    assert_eq!((experiment.recompute, experiment.retain_graph), (Recompute::Cheap, true));
    assert_eq!(experiment.gpu.pool, PoolPolicy::Release);
    assert_eq!((experiment.data.crop_padding, experiment.data.color_jitter), (4, 0.2));
    assert_eq!(
        notes,
        [
            "is of version 1 of the format, and is saved as 2",
            "outputs = \"made-again\" is called recompute = \"cheap\" now",
            "tape = \"held\" is called retain_graph = true now",
            "gpu.pool = \"give-back\" is called gpu.pool = \"release\" now",
            "data.crop = 4 is called data.crop_padding = 4 now",
            "data.colour = 0.2 is called data.color_jitter = 0.2 now",
        ]
    );
    let saved = to_text(&experiment);
    assert!(saved.starts_with("version = 2\n") && saved.contains("\nretain_graph = true\n"), "{saved}");
    let again = opened(&saved, "x.toml").expect("own text");
    assert_eq!((again.experiment, again.notes), (experiment, Vec::new()));
}

#[test]
fn an_old_key_is_set_with_a_note_and_excludes_the_new_one() {
    let mut e = Experiment::default();
    let note = set(&mut e, "outputs=made-again").expect("an old key");
    assert_eq!(
        (e.recompute, note.as_deref()),
        (Recompute::Cheap, Some("outputs = \"made-again\" is called recompute = \"cheap\" now"))
    );
    assert_eq!((set(&mut e, "recompute=none"), e.recompute), (Ok(None), Recompute::None));
    // On or off is enough, as for every other switch.
    assert_eq!((set(&mut e, "recompute=true"), e.recompute), (Ok(None), Recompute::Cheap));
    assert_eq!((set(&mut e, "recompute=false"), e.recompute), (Ok(None), Recompute::None));
    assert!(set(&mut e, "optimizer.schedule=true").is_err());
    answers("tape = \"slack\"", "line 1, column 1", &["tape: \"slack\" is text", "write true or false"]);
    answers("tape = \"held\"\nretain_graph = false", "line 2, column 1", &["retain_graph: ", "take tape out"]);
    answers("recompute = \"none\"\noutputs = \"kept\"", "line 2, column 1", &["recompute under its earlier name"]);
    // The fault of an old key's value is shown at its place.
    answers("\n[data]\nkind = \"shapes\"\ncolour = 2.0", "line 4, column 1", &["data.color_jitter: 2 is more than"]);
}

#[test]
fn a_length_is_set_in_steps_or_in_epochs() {
    let all = |assignments: &[&'static str]| {
        let mut e = Experiment::default();
        set_all(&mut e, assignments.iter().copied()).map(|_| (e.run.steps, e.run.epochs))
    };
    assert_eq!(all(&["run.steps=5", "run.steps=6"]), Ok((Some(6), None)));
    for both in [["run.steps=5", "run.epochs=1"], ["run.epochs=1", " run.steps = 5"]] {
        let (assignment, problem) = all(&both).expect_err("two lengths");
        assert_eq!(assignment, both[1]);
        assert!(problem.to_string().contains("both give the length of the run; give one of the two"), "{problem}");
    }
}

#[test]
fn what_differs_is_what_to_set() {
    let from = Experiment::default();
    let mut to = from.clone();
    (to.batch.micro, to.retain_graph, to.checkpointing) = (8, true, Checkpointing::Every(2));
    to.model.kernel = 5;
    let changes = changes(&from, &to);
    assert_eq!(changes, ["checkpointing=\"every:2\"", "retain_graph=true", "batch.micro=8"]);
    let mut set = from;
    set_all(&mut set, changes.iter().map(String::as_str)).expect("own text");
    // The kernel is not part of it: dense layers have none.
    to.model.kernel = Experiment::default().model.kernel;
    assert_eq!(set, to);
}

#[test]
fn a_number_too_large_is_answered_with_its_key() {
    answers(
        "[run]\nseed = 9223372036854775808",
        "line 2, column 8",
        &["seed: 9223372036854775808 is too large for a whole number; write 9223372036854775807 or less"],
    );
    let problem = set(&mut Experiment::default(), "run.seed=9223372036854775808").expect_err("too large").to_string();
    assert!(problem.starts_with("run.seed: 9223372036854775808 is too large for a whole number; write"), "{problem}");
}

#[test]
fn a_size_without_a_unit_is_said_to_be_bytes() {
    let mut e = Experiment::default();
    let note = set(&mut e, "budget=12").expect("a size").expect("a note");
    assert_eq!(
        (e.budget, note.as_str()),
        (Bytes(12), "budget = 12 is 12 bytes: sizes have a unit, such as \"64 MiB\"")
    );
    assert_eq!(set(&mut e, "budget=2147483648"), Ok(None));
    assert_eq!(set(&mut e, "budget=12MiB"), Ok(None));
    assert_eq!(opened("budget = 12", "x.toml").map(|opened| opened.notes.len()), Ok(1));
}

#[test]
fn what_an_earlier_version_remembered_is_read() {
    let text = r#"{"version":1,"title":"T","budget":"3 MiB","outputs":"made-again","tape":"held","frozen":"blocks:2",
        "gpu":{"pool":"give-back","tf32":true},"model":{"kind":"gpt2","dropout":0.25},"run":{"steps":7,"seed":3},
        "data":{"crop":4},"gone":{"x":1}}"#;
    let e: Experiment = serde_json::from_str(text).expect("a map");
    assert_eq!((e.version, e.title.as_str(), e.budget), (VERSION, "T", Bytes::mib(3)));
    assert_eq!((e.recompute, e.retain_graph, e.frozen), (Recompute::Cheap, true, Frozen::Blocks(2)));
    assert_eq!((e.gpu.pool, e.gpu.tf32), (PoolPolicy::Release, true));
    assert_eq!((e.model.kind, e.model.dropout, e.run.steps, e.run.seed), (ModelKind::Gpt2, 0.25, Some(7), 3));
    assert_eq!(e.data.crop_padding, 4);
}

#[test]
fn what_is_set_and_not_used_is_told_with_the_kinds_that_use_it() {
    let mut e = Experiment::default();
    let said = |e: &Experiment, assignments: &[&str]| unused(e, assignments.iter().copied());
    e.model.kind = ModelKind::Gpt2;
    let set = ["model.kv_heads=2", "model.heads=4", "model.head_dim=7", "model.qk_norm=true"];
    assert_eq!(
        said(&e, &set),
        ["model.head_dim", "model.kv_heads", "model.qk_norm"]
            .map(|key| format!("{key} is not used by gpt2, only by llama"))
    );
    e.model.kind = ModelKind::Llama;
    assert!(said(&e, &set).is_empty());
    assert_eq!(
        said(&e, &["data.modulus = 7", "data.modulus=9"]),
        ["data.modulus is not used by digits, only by modular"]
    );
    let momentum = said(&e, &["optimizer.momentum=0.8"]);
    assert_eq!(momentum, ["optimizer.momentum is not used by adamw, only by momentum, nesterov, muon"]);
    assert_eq!(said(&e, &["lora.alpha=3"]), ["lora.alpha is not used with lora.rank = 0"]);
    assert_eq!(said(&e, &["gpu.tf32=true"]), ["gpu.tf32 is not used on the CPU"]);
    assert_eq!(said(&e, &["distil.weight=1"]), ["distil.weight is not used without distil.teacher"]);
    assert!(said(&e, &["run.steps=3", "no.such=1", "tape=held"]).is_empty());
    assert_eq!(said(&e, &["prune.n=1"]), ["prune.n is not used with prune.kind = none"]);
    e.prune.kind = PruneKind::Magnitude;
    assert_eq!(said(&e, &["prune.n=1"]), ["prune.n is not used by magnitude, only by n:m"]);
    e.prune.schedule = PruneSchedule::Constant;
    let without = "prune.initial_sparsity is not used with prune.schedule = constant";
    assert_eq!(said(&e, &["prune.initial_sparsity=0.1"]), [without]);
    for (kind, weights, key) in [
        (QuantiseKind::None, "quantise.kind = none, only with after", "quantise.weights"),
        (QuantiseKind::Aware, "quantise.kind = aware, only with after", "quantise.weights"),
        (QuantiseKind::After, "quantise.weights = int4", "quantise.calibration"),
    ] {
        (e.quantise.kind, e.quantise.weights) = (kind, CodedWeights::Int4);
        let set = ["quantise.weights=int4", "quantise.calibration=3"];
        assert!(said(&e, &set).contains(&format!("{key} is not used with {weights}")), "{:?}", said(&e, &set));
    }
}

#[test]
fn a_key_of_a_file_that_is_not_used_is_told_with_its_place_and_stops_nothing() {
    let text = "version = 2\n[optimizer]\nkind = \"adamw\"\nmomentum = 0.8\n[data]\nmodulus = 7\n[gpu]\ntf32 = true\n";
    let Opened { experiment, places, .. } = opened(text, "mine.toml").expect("nothing is wrong");
    let said = |chosen: &Experiment| -> Vec<(String, String)> {
        let unused = places.unused(&experiment, chosen);
        unused.into_iter().map(|unused| (unused.place.to_owned(), unused.words)).collect()
    };
    let told = [
        ("line 8, column 1", "gpu.tf32 is not used on the CPU"),
        ("line 6, column 1", "data.modulus is not used by digits, only by modular"),
        ("line 4, column 1", "optimizer.momentum is not used by adamw, only by momentum, nesterov, muon"),
    ]
    .map(|(place, words)| (place.to_owned(), words.to_owned()));
    let mut found = said(&experiment);
    found.sort();
    found.reverse();
    assert_eq!(found, told);
    // A setting that a change puts to use is used, and one that it leaves unused was used by the file.
    let mut chosen = experiment.clone();
    (chosen.device, chosen.optimizer.kind) = ("cuda:0".to_owned(), OptimizerKind::Momentum);
    assert_eq!(said(&chosen), [told[1].clone()]);
}
