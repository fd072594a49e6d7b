//! Gradients of whole models: every layer's rule, the tape and checkpointing, against finite differences in f64.

use plimsoll_engine::{
    Experiment,
    backend::{Cpu, Executor},
    data::DatasetInfo,
    experiment::Precision,
    memory::Ledger,
    selftest::{
        draw::fresh_seed,
        gradients::{Probe, Slope, WAYS, cases},
    },
};

fn probe(experiment: &Experiment, facts: DatasetInfo, seed: u64) -> Probe<Cpu> {
    let executor = Executor::new(Cpu::new(1), Ledger::new(None, false));
    Probe::new(executor, experiment, facts, seed).expect("a small model")
}

#[test]
fn directional_derivatives_agree_with_finite_differences() {
    let seed = fresh_seed();
    for (mut experiment, facts) in cases() {
        experiment.run.seed = seed;
        let mut slopes = 0;
        let each = |slope: Slope| {
            slopes += 1;
            let (kind, checkpointing, execution) =
                (experiment.model.kind, experiment.checkpointing, experiment.execution);
            assert!(slope.worst().holds(), "seed {seed}, {kind:?} {checkpointing} {execution:?}: {slope:?}");
        };
        probe(&experiment, facts, seed).slopes(seed, each).expect("a pass");
        assert!(slopes > 1);
    }
}

#[test]
fn neither_checkpointing_nor_fusing_changes_a_bit_of_loss_or_gradients() {
    let seed = fresh_seed();
    for precision in [Precision::F32, Precision::Bf16Mixed] {
        let run = |(mut experiment, facts): (Experiment, DatasetInfo)| {
            experiment.run.seed = seed;
            experiment.precision = precision;
            // It drops the same when it is computed again.
            experiment.model.dropout = 0.3;
            let probe = probe(&experiment, facts, seed);
            (probe.loss(false).expect("a pass"), probe.gradients().expect("a pass"))
        };
        let results: Vec<_> = cases().into_iter().map(run).collect();
        for of_one_model in results.chunks(WAYS.len()) {
            assert!(of_one_model.iter().all(|r| r == &of_one_model[0]), "seed {seed}, {precision:?}");
        }
    }
}
