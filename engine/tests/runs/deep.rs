//! A model of thousands of layers: planned, trained and written like any other, its bookkeeping predicted.

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{Checkpointing, ModelKind, UpdateTime},
    memory::Category,
};

use super::resume::going_on::{OF_ENDED_THREADS, goes_on};

#[test]
fn five_thousand_layers_take_what_was_predicted() {
    let cases = [(Checkpointing::None, UpdateTime::AfterBackward), (Checkpointing::Sqrt, UpdateTime::InBackward)];
    for (checkpointing, update) in cases {
        let mut experiment = Experiment { budget: Bytes::gib(1), checkpointing, ..Experiment::default() };
        experiment.model.kind = ModelKind::Mlp;
        (experiment.model.width, experiment.model.depth) = (8, 5000);
        (experiment.batch.micro, experiment.run.steps) = (16, Some(3));
        experiment.optimizer.update = update;
        let run = goes_on(&experiment, 1, &|| format!("{checkpointing:?}, {update:?}"));
        assert_eq!(run.plan.layers.iter().filter(|row| row.path.ends_with("/dense")).count(), 5000);
        let (predicted, measured) = (run.plan.peak.live.0 as f64, run.summary.measured.live.0 as f64);
        let context = run.plan.categories_at_peak.get(Category::Context).0;
        assert!(context > 5000 * 100, "structures of the engine take a part of it: {context}");
        let beside = (Bytes::kib(64) + OF_ENDED_THREADS).0 as f64;
        assert!(predicted <= measured * 1.01 + beside, "{predicted} predicted, {measured} measured: {checkpointing:?}");
    }
}
