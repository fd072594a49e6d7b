//! Tables of classes and of values: what a run over them takes is predicted, one that goes on is the one that was never stopped,
//! and a file that changed meanwhile is noticed, of a table as of JSON lines.

use std::{fs, path::Path, time::Duration};

use plimsoll_engine::{
    Bytes, Error, Experiment,
    experiment::{DataKind, Model, ModelKind, Precision, UpdateTime},
    memory::Category,
    train::{Command, Event, Keep, Outcome, Start, Tester, Trainer, Tried},
};

use super::going_on::{OF_ENDED_THREADS, goes_on};

fn experiment(label: &str) -> Experiment {
    let mut experiment = Experiment { budget: Bytes::gib(1), ..Experiment::default() };
    experiment.model = Model { kind: ModelKind::Mlp, width: 24, depth: 2, ..Model::default() };
    experiment.data.kind = DataKind::Table;
    experiment.data.path = Some("shipped:ships.csv".into());
    experiment.data.label = label.to_owned();
    experiment.batch.micro = 50;
    (experiment.run.steps, experiment.run.evaluate_every) = (Some(20), 6);
    experiment
}

#[test]
fn a_run_over_a_table_that_goes_on_is_the_run_that_was_never_stopped() {
    let cases = [
        ("type", Precision::F32, 1, 0, UpdateTime::AfterBackward),
        ("deadweight_t", Precision::F32, 2, 0, UpdateTime::AfterBackward),
        ("deadweight_t", Precision::Bf16Mixed, 1, 7, UpdateTime::InBackward),
        ("deadweight_t", Precision::F16Mixed, 1, 0, UpdateTime::AfterBackward),
    ];
    for (label, precision, accumulation, loss_chunk, update) in cases {
        let mut experiment = Experiment { precision, loss_chunk, ..experiment(label) };
        (experiment.batch.accumulation, experiment.optimizer.update) = (accumulation, update);
        for stop_after in [2, 17] {
            let run = goes_on(&experiment, stop_after, &|| format!("stopped after {stop_after}: {experiment:?}"));
            let (predicted, measured) = (run.plan.peak.live.0 as f64, run.summary.measured.live.0 as f64);
            let context = run.plan.categories_at_peak.get(Category::Context).0 as f64;
            // In addition to the bookkeeping, the scratch of threads that came too late for a piece of a small kernel.
            let scratch = (Bytes::kib(64) + OF_ENDED_THREADS).0 as f64;
            assert!(
                predicted <= measured * 1.01 + context + scratch,
                "{predicted}, {measured} measured: {experiment:?}"
            );
            assert_eq!(run.summary.test_errors.is_some(), label != "type");
        }
    }
}

/// How a run ends.
pub(super) fn end(start: Start) -> Outcome {
    let trainer = Trainer::new(|| {});
    trainer.send(Command::Start(Box::new(start)));
    loop {
        let event = trainer.events().recv_timeout(Duration::from_secs(60)).expect("the trainer goes on");
        if let Event::Ended { outcome, .. } = event {
            return outcome;
        }
    }
}

#[test]
fn a_file_that_holds_something_else_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows: String = (0..100).map(|i| format!("{i},{}\n", i * 7 % 50)).collect();
    let lines: String = (0..100).map(|i| format!("{{\"text\": \"line {i}\"}}\n")).collect();
    let mut of_lines = experiment("");
    of_lines.model = Model { kind: ModelKind::Gpt2, width: 8, depth: 1, heads: 1, hidden: 8, ..Model::default() };
    (of_lines.data.kind, of_lines.data.length) = (DataKind::Jsonl, 8);
    for (name, text, mut experiment) in
        [("t.csv", format!("a,b\n{rows}"), experiment("b")), ("t.jsonl", lines, of_lines)]
    {
        let path = folder.path().join(name);
        fs::write(&path, &text).expect("room on the disk");
        (experiment.data.path, experiment.run.steps) = (Some(path.clone()), Some(2));
        let kept = folder.path().join(format!("{name}.run"));
        let start = |experiment: &Experiment, folder: &Path| Start {
            keep: Keep::in_folder(folder),
            ..Start::new(experiment.clone())
        };
        assert!(matches!(end(start(&experiment, &kept)), Outcome::Finished));
        experiment.run.steps = Some(4);
        let resume = || Some(kept.join("last.safetensors"));
        fs::write(&path, text.replace("31", "99")).expect("room on the disk");
        match end(Start { resume: resume(), ..start(&experiment, &folder.path().join("other")) }) {
            Outcome::Failed(error @ Error::Experiment(_)) => {
                let message = error.to_string();
                assert!(message.starts_with("data.path: ") && message.contains("the data have changed"), "{message}");
            }
            other => panic!("{name}: {other:?}"),
        }
        // What a number means to the model follows from the rows of its own table; a text means the same anywhere.
        let tried = Tried { experiment: experiment.clone(), checkpoint: resume() };
        let answered = Tester::new().evaluate(&tried).map(|evaluation| evaluation.samples);
        match (experiment.data.kind, answered) {
            (DataKind::Table, Err(error)) => {
                let message = error.to_string();
                assert!(
                    message.starts_with("data.path: the table is not the one that the model learned from"),
                    "{message}"
                );
            }
            (DataKind::Jsonl, Ok(samples)) => assert_eq!(samples, 20),
            (kind, other) => panic!("{kind:?}: {other:?}"),
        }
        fs::write(&path, &text).expect("room on the disk");
        Tester::new().evaluate(&tried).expect("its own file");
        assert!(matches!(end(Start { resume: resume(), ..start(&experiment, &kept) }), Outcome::Finished), "{name}");
    }
}
