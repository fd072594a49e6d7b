//! What settings and runs are called.

use plimsoll_engine::{
    error::Problem,
    experiment::{Precision, preset::set},
};

use super::{setting::setting_of, *};
use crate::panels;

fn with(changes: &[&str]) -> Experiment {
    let mut experiment = Experiment::default();
    for change in changes {
        set(&mut experiment, change).expect("a setting");
    }
    experiment
}

fn words(from: &Experiment, to: &Experiment) -> Vec<String> {
    differing(from, to).iter().map(Differing::words).collect()
}

#[test]
fn experiments_are_told_apart_by_what_differs() {
    let plain = Experiment::default();
    let other = with(&["run.seed=7", "checkpointing=blocks", "batch.micro=32", "title=Another"]);
    assert_eq!(words(&plain, &other), ["micro-batch 32", "every block", "seed 7"]);
    assert_eq!(words(&other, &plain), ["micro-batch 64", "no checkpointing", "seed 1"]);
    assert!(words(&plain, &plain).is_empty());
    let narrow = Experiment { precision: Precision::Bf16Mixed, retain_graph: true, ..Experiment::default() };
    assert_eq!(words(&plain, &narrow), ["bf16-mixed", "retain graph"]);
    assert_eq!(words(&narrow, &plain), ["f32", "no retain graph"]);
    let pruned = with(&["prune.kind=magnitude", "prune.final_sparsity=0.9", "prune.every=20"]);
    assert_eq!(words(&plain, &pruned), ["pruning", "final sparsity 0.9", "pruned every 20 steps"]);
    assert_eq!(words(&pruned, &plain), ["no pruning"]);
    let (after, aware) = (with(&["quantise.kind=after"]), with(&["quantise.kind=aware"]));
    assert_eq!(words(&plain, &after), ["integers after training"]);
    assert_eq!(words(&after, &aware), ["trained for integers"]);
    assert_eq!(words(&aware, &plain), ["no integers"]);
    let alone = with(&["quantise.kind=after", "quantise.weights=int4"]);
    assert_eq!(words(&after, &alone), ["weights alone as int4"]);
    let grouped = with(&["prune.kind=n:m", "prune.n=1"]);
    assert_eq!(words(&plain, &grouped), ["n:m pruning", "1 kept"]);
}

#[test]
fn a_problem_calls_every_setting_as_its_control_does() {
    let mend = "write 22 or less, lower batch.micro, or `--set data.samples=200000`";
    let told = problem(&Problem::new("batch.accumulation", "30720 samples are too many", mend), ModelKind::Cnn);
    let said = "Accumulation: 30\u{a0}720 samples are too many; write 22 or less, lower micro-batch, or `--set data.samples=200000`";
    assert_eq!(told, said);
}

#[test]
fn names_of_columns_have_a_space_between_them() {
    let without = with(&["data.kind=table", "data.leave_out=hull,port"]);
    assert!(words(&with(&["data.kind=table"]), &without).contains(&"left out hull, port".to_owned()));
    assert_eq!(value("data.leave_out", "hull,port", |_| None), "hull, port");
}

#[test]
fn a_value_beside_its_name_does_not_repeat_it() {
    for (key, given, words) in [
        ("batch.micro", "8", "8"),
        ("optimizer.learning_rate", "0.03", "0.03"),
        ("run.steps", "40", "40"),
        ("checkpointing", "blocks", "every block"),
        ("retain_graph", "true", "retain graph"),
        ("retain_graph", "false", "no retain graph"),
        ("precision", "bf16", "bf16"),
    ] {
        assert_eq!(value(key, given, |_| None), words, "{key}");
    }
}

#[test]
fn a_setting_is_called_as_its_control_is_and_no_two_settings_alike() {
    for (key, name) in [
        ("batch.micro", "micro-batch"),
        ("batch.evaluation", "evaluation batch"),
        ("prune.n", "weights kept of a group"),
        ("optimizer.kind", "optimizer"),
        ("data.color_jitter", "colour jitter"),
        // Units, filters or numbers of a token.
        ("model.width", "width"),
        ("device", "device"),
    ] {
        assert_eq!(setting(key), name, "{key}");
    }
    let mut known: HashMap<String, &str> = HashMap::new();
    for key in panels::settings_in_order() {
        let other = known.insert(setting(key), key).filter(|other| *other != key);
        assert_eq!(other, None, "{key} has the name of another setting: {}", setting(key));
    }
    assert!(known.len() > 80, "{}", known.len());
}

#[test]
fn every_setting_of_the_window_is_told_by_the_name_of_its_control() {
    let mut told = 0;
    for family in ModelKind::ALL {
        let own = panels::names_for_family(family);
        for key in panels::settings_in_order() {
            let everywhere = || panels::names_of_settings().into_iter().find(|(known, _)| *known == key);
            let known = own.iter().find(|(known, _)| *known == key).cloned();
            let (_, name) = known.or_else(everywhere).expect("it is drawn");
            if !key.starts_with("model.") || own.iter().any(|(known, _)| *known == key) {
                assert_eq!(setting_of(key, family), name, "{key} of {family:?}");
            }
            for value in ["7", "true", "false"] {
                let Some(differing) = Differing::read(&format!("{key}={value}")) else { continue };
                let differing = differing.of_family(family);
                let words = differing.words();
                assert!(
                    words.contains(&differing.name) || differing.phrase().is_some(),
                    "{key} of {family:?}: {words}"
                );
                assert!(!words.contains(", "), "a comma stands between settings: {words}");
                told += 1;
            }
        }
    }
    assert!(told > 1000, "{told}");
}

#[test]
fn the_depth_of_a_model_is_called_as_its_family_does() {
    for (kind, name) in [("mlp", "hidden layers"), ("cnn", "blocks"), ("vit", "blocks"), ("unet", "levels")] {
        let [from, to] = ["2", "3"]
            .map(|depth| with(&[format!("model.kind={kind}").as_str(), format!("model.depth={depth}").as_str()]));
        assert_eq!(changes(&from, &to, |_| None), [format!("{name} 2 → 3")]);
        let runs = [&from, &to].map(|run| preset::changes(&Experiment::default(), run));
        let apart = apart(&runs.each_ref().map(Vec::as_slice));
        assert_eq!(named(&apart[1], 1), format!("{name} 3"), "{kind}");
        let mut names = Names::default();
        let told = |run: (usize, &Vec<String>)| named(&names.of(&run.0.to_string(), "Mine", run.1), 1);
        let told: Vec<String> = runs.iter().enumerate().map(told).collect();
        assert_eq!(told, [String::new(), format!("{name} 3")], "{kind}");
    }
    assert_eq!(words(&with(&["data.kind=shapes"]), &with(&["data.kind=shapes", "data.samples=300"])), ["300 samples"]);
    let [ten, twenty] = ["0.1", "0.2"].map(|share| {
        let mut experiment = with(&["data.kind=table"]);
        set(&mut experiment, &format!("data.test_fraction={share}")).expect("a setting");
        experiment
    });
    assert_eq!(changes(&ten, &twenty, |_| None), ["test share 0.1 → 0.2"]);
    let families = [ModelKind::Mlp, ModelKind::Cnn, ModelKind::Vit];
    assert_eq!(setting_among("model.depth", families.into_iter()), "hidden layers / blocks");
}

#[test]
fn what_is_wrong_is_told_by_the_name_of_its_control() {
    let wrong = Problem::new("batch.micro", "is 0", "write 1 or more");
    assert_eq!(problem(&wrong, ModelKind::Mlp), "Micro-batch: is 0; write 1 or more");
    let deep = Problem::new("model.depth", "leaves nothing of the image", "lower model.depth");
    assert_eq!(problem(&deep, ModelKind::Cnn), "Blocks: leaves nothing of the image; lower blocks");
}

#[test]
fn a_change_names_its_setting_once() {
    let (plain, other) = (Experiment::default(), with(&["batch.micro=32", "precision=bf16", "run.seed=7"]));
    assert_eq!(changes(&plain, &other, |_| None), ["micro-batch 64 → 32", "f32 → bf16", "seed 1 → 7"]);
    assert_eq!(changes(&other, &plain, |_| None), ["micro-batch 32 → 64", "bf16 → f32", "seed 7 → 1"]);
    assert_eq!(
        changes(&with(&["run.steps=10000"]), &with(&["run.steps=2000"]), |_| None),
        ["steps 10\u{a0}000 → 2\u{a0}000"]
    );
    assert_eq!(changes(&with(&["budget=32MiB"]), &with(&["budget=7988MiB"]), |_| None), ["budget 32 MiB → 7.80 GiB"]);
    let of_host = |size: &str| with(&["data.kind=shapes", &format!("data.host_budget={size}")]);
    assert_eq!(changes(&of_host("50MiB"), &of_host("0"), |_| None), ["host budget 50 MiB → none"]);
    assert_eq!(changes(&of_host("0"), &of_host("50MiB"), |_| None), ["host budget none → 50 MiB"]);
}

#[test]
fn runs_are_told_apart_by_the_settings_that_are_not_the_same_in_all() {
    let settings = |changes: &[&str]| preset::changes(&Experiment::default(), &with(changes));
    let runs = [
        settings(&["budget=8MiB"]),
        settings(&["budget=8MiB", "batch.micro=32"]),
        settings(&["budget=8MiB", "checkpointing=blocks", "batch.micro=32", "run.seed=7"]),
    ];
    let runs: Vec<&[String]> = runs.iter().map(Vec::as_slice).collect();
    let apart_of = apart(&runs);
    let words: Vec<String> = apart_of.iter().map(|differing| named(differing, 3)).collect();
    assert_eq!(words[0], "micro-batch 64, no checkpointing, seed 1");
    assert_eq!(words[1], "micro-batch 32, no checkpointing, seed 1");
    assert_eq!(words[2], "micro-batch 32, every block, seed 7", "in the same order");
    assert_eq!(named(&apart_of[2], 2), "every block, seed 7 and 1 more", "what two of three share is left out");
    assert!(apart(&runs[..1]).iter().all(Vec::is_empty));
}

#[test]
fn what_nearly_all_runs_share_is_left_out_before_what_differs() {
    let settings = |changes: &[&str]| preset::changes(&Experiment::default(), &with(changes));
    let mut runs: Vec<Vec<String>> = [32, 48, 96, 128].map(|w| settings(&[&format!("model.width={w}")])).to_vec();
    runs.push(settings(&["batch.micro=32", "precision=bf16"]));
    let apart = apart(&runs.iter().map(Vec::as_slice).collect::<Vec<_>>());
    assert_eq!([named(&apart[0], 3), named(&apart[0], 1)], ["micro-batch 64, f32, width 32", "width 32 and 2 more"]);
    assert_eq!(named(&apart[4], 2), "micro-batch 32, bf16 and 1 more");
}

#[test]
fn a_long_list_is_cut_and_says_so() {
    let words = ["a", "b", "c"].map(str::to_owned);
    assert_eq!([listed(&words, 3), listed(&words, 1)], ["a, b, c", "a and 2 more"]);
    assert_eq!(listed(&[], 2), "");
}
