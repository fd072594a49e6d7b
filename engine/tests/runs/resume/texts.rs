//! Texts, padded and packed: what a run over them takes is predicted, and one that goes on is the one that was never stopped.

use std::io::Write;

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{DataKind, Model, ModelKind, Placement, Precision, UpdateTime},
    memory::Category,
};

use super::going_on::{OF_ENDED_THREADS, goes_on};

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
