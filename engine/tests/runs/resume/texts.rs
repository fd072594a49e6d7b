//! Texts, padded and packed: what a run over them takes is predicted, and one that goes on is the one that was never stopped.

use std::{fs, io::Write, path::Path};

use plimsoll_engine::{
    Bytes, Error, Experiment,
    experiment::{DataKind, Model, ModelKind, Placement, Precision, UpdateTime},
    memory::Category,
    train::{Keep, Outcome, Sampling, Start, Tester, Tried},
};

use super::{
    going_on::{OF_ENDED_THREADS, goes_on},
    tables::end,
};

/// Prompts with completions of many lengths, some longer than a sequence.
fn lines() -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".jsonl").tempfile().expect("a file");
    for i in 0..60usize {
        let (prompt, completion) = ("load ".repeat(i % 4), "the line ".repeat(i * i % 5));
        writeln!(file, "{{\"prompt\": \"{prompt}\", \"completion\": \"{completion}{i}\"}}").expect("room on the disk");
    }
    file
}

#[test]
fn a_run_over_texts_that_goes_on_is_the_run_that_was_never_stopped() {
    let lines = lines();
    let cases = [
        (false, 1, 1, Placement::Streamed, Precision::F32, UpdateTime::AfterBackward),
        (false, 2, 0, Placement::Host, Precision::F16Mixed, UpdateTime::AfterBackward),
        (true, 2, 1, Placement::Streamed, Precision::Bf16Mixed, UpdateTime::AfterBackward),
        (true, 1, 8, Placement::Host, Precision::F32, UpdateTime::InBackward),
    ];
    for (packing, accumulation, loss_chunk, placement, precision, update) in cases {
        let mut experiment = Experiment { precision, loss_chunk, budget: Bytes::gib(1), ..Experiment::default() };
        let kind = if packing { ModelKind::Gpt2 } else { ModelKind::Llama };
        experiment.model = Model { kind, width: 16, depth: 2, heads: 2, kv_heads: 1, hidden: 32, ..Model::default() };
        experiment.data.kind = DataKind::Jsonl;
        experiment.data.path = Some(lines.path().to_owned());
        (experiment.data.length, experiment.data.packing, experiment.data.placement) = (24, packing, placement);
        (experiment.batch.micro, experiment.batch.accumulation) = (3, accumulation);
        experiment.optimizer.update = update;
        // Packed, into the second epoch.
        experiment.run.steps = Some(14);
        experiment.run.evaluate_every = 6;
        for stop_after in [2, 13] {
            let run = goes_on(&experiment, stop_after, &|| format!("stopped after {stop_after}: {experiment:?}"));
            let (predicted, measured) = (run.plan.peak.live.0 as f64, run.summary.measured.live.0 as f64);
            let context = run.plan.categories_at_peak.get(Category::Context).0 as f64;
            assert!(
                predicted <= measured * 1.01 + context + OF_ENDED_THREADS.0 as f64,
                "{predicted} predicted, {measured} measured: {experiment:?}"
            );
        }
    }
}

/// A tokenizer of three words, with a template.
fn write_tokenizer(folder: &Path, words: [&str; 3], template: &str) {
    let [a, b, c] = words;
    let tokenizer = format!(
        r#"{{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {{"type": "Whitespace"}}, "post_processor": null, "decoder": null,
        "model": {{"type": "WordLevel", "vocab": {{"{a}": 0, "{b}": 1, "{c}": 2}}, "unk_token": "{c}"}}}}"#
    );
    fs::write(folder.join("tokenizer.json"), tokenizer).expect("room on the disk");
    fs::write(folder.join("chat_template.jinja"), template).expect("room on the disk");
}

#[test]
fn another_tokenizer_or_template_is_noticed() {
    const TEMPLATE: &str = "{% for m in messages %}{{ m.content }}{% endfor %}";
    let folder = tempfile::tempdir().expect("a folder");
    let write = |words, template| write_tokenizer(folder.path(), words, template);
    write(["load", "the", "line"], TEMPLATE);
    let lines = lines();
    let mut experiment = Experiment { budget: Bytes::gib(1), ..Experiment::default() };
    experiment.model = Model { kind: ModelKind::Gpt2, width: 8, depth: 1, heads: 1, hidden: 8, ..Model::default() };
    (experiment.data.kind, experiment.data.length) = (DataKind::Jsonl, 4);
    experiment.data.path = Some(lines.path().to_owned());
    experiment.data.tokenizer = Some(folder.path().to_owned());
    (experiment.batch.micro, experiment.run.steps) = (3, Some(1));
    let kept = folder.path().join("kept");
    let start = |experiment: &Experiment, at: &str| Start {
        keep: Keep::in_folder(folder.path().join(at)),
        ..Start::new(experiment.clone())
    };
    assert!(matches!(end(start(&experiment, "kept")), Outcome::Finished));
    experiment.run.steps = Some(2);
    let resume = || Some(kept.join("last.safetensors"));
    let tried = Tried { experiment: experiment.clone(), checkpoint: resume() };
    let cautions = || {
        let written =
            Tester::new().write(&tried, "load", Sampling::default(), &mut |_| std::ops::ControlFlow::Continue(()));
        [Tester::new().evaluate(&tried).expect("a test set").caution, written.expect("a prompt").caution]
    };
    assert_eq!(cautions(), [None, None]);
    for (words, template) in [(["the", "load", "line"], TEMPLATE), (["load", "the", "line"], "{{ messages }}")] {
        write(words, template);
        match end(Start { resume: resume(), ..start(&experiment, "other") }) {
            Outcome::Failed(error @ Error::Experiment(_)) => {
                let message = error.to_string();
                assert!(
                    message.starts_with("data.tokenizer: the tokenizer or its template is not the one"),
                    "{message}"
                );
            }
            other => panic!("{other:?}"),
        }
        for caution in cautions() {
            assert!(caution.as_deref().is_some_and(|text| text.contains("tokenizer.json")), "{caution:?}");
        }
    }
    write(["load", "the", "line"], TEMPLATE);
    assert!(matches!(end(Start { resume: resume(), ..start(&experiment, "kept") }), Outcome::Finished));
}
