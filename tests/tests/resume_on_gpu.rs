//! Going on from a checkpoint on a GPU: as on the processor, and with what lies on the card copied down part by part.
#![cfg(all(target_os = "linux", feature = "cuda"))]

#[path = "../../engine/tests/runs/resume/going_on.rs"]
mod going_on;

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{
        Answers, Execution, ModelKind, Placement, PoolPolicy, Precision, Prune, PruneKind, Quantise, QuantiseKind,
    },
    plan::Pass,
    train::{Keep, Start},
};
use plimsoll_tests::on_simulated_gpu;

/// The first family only, because the simulated GPU is slow: `PLIMSOLL_DRAWN=19` draws one of each.
const DRAWN: usize = 1;

#[test]
fn a_run_that_goes_on_is_the_run_that_was_never_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().display().to_string();
    on_simulated_gpu("a_run_that_goes_on_is_the_run_that_was_never_stopped", &[("XDG_CACHE_HOME", &cache)], || {
        going_on::is_the_run_that_was_never_stopped("cuda:0", DRAWN);
    });
}

#[test]
fn a_taught_run_that_goes_on_is_the_run_that_was_never_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().display().to_string();
    on_simulated_gpu(
        "a_taught_run_that_goes_on_is_the_run_that_was_never_stopped",
        &[("XDG_CACHE_HOME", &cache)],
        || {
            let folder = tempfile::tempdir().expect("a folder");
            let mut teacher = Experiment { budget: Bytes::gib(4), ..Experiment::default() };
            (teacher.model.kind, teacher.model.width, teacher.model.depth, teacher.model.dense) =
                (ModelKind::Cnn, 8, 1, 16);
            (teacher.batch.micro, teacher.run.steps) = (6, Some(2));
            going_on::run(Start { keep: Keep::in_folder(folder.path()), ..Start::new(teacher.clone()) }, None);
            for precision in [Precision::F32, Precision::Bf16Mixed] {
                let mut student = Experiment { device: "cuda:0".to_owned(), precision, ..teacher.clone() };
                (student.model.kind, student.run.steps) = (ModelKind::Mlp, Some(4));
                student.distil.teacher = Some(folder.path().to_owned());
                going_on::goes_on(&student, 2, &|| format!("{student:?}"));
            }
            // Asked once, in a pool that grows, that gives back, and whose places are planned; with the training set on the card.
            for (pool, placement) in [
                (PoolPolicy::Grow, Placement::Host),
                (PoolPolicy::Release, Placement::Device),
                (PoolPolicy::Planned, Placement::Host),
            ] {
                let mut student = Experiment { device: "cuda:0".to_owned(), ..teacher.clone() };
                (student.model.kind, student.run.steps, student.gpu.pool) = (ModelKind::Mlp, Some(4), pool);
                (student.distil.teacher, student.data.placement) = (Some(folder.path().to_owned()), placement);
                let live = going_on::run(Start::new(student.clone()), None);
                student.distil.answers = Answers::Cached;
                let once = going_on::goes_on(&student, 2, &|| format!("{student:?}"));
                assert_eq!(once.losses(), live.losses(), "{student:?}");
                let steady = [&once, &live].map(|run| run.plan.timeline(Pass::Steady).peak());
                assert!(steady[0] < steady[1], "{student:?}: {steady:?}");
            }
        },
    );
}

#[test]
fn a_run_that_goes_on_before_or_after_its_channels_went_is_the_run_that_was_never_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().display().to_string();
    on_simulated_gpu(
        "a_run_that_goes_on_before_or_after_its_channels_went_is_the_run_that_was_never_stopped",
        &[("XDG_CACHE_HOME", &cache)],
        || {
            let mut thinned =
                Experiment { budget: Bytes::gib(4), device: "cuda:0".to_owned(), ..Experiment::default() };
            (thinned.model.kind, thinned.model.width, thinned.model.depth, thinned.model.dense) =
                (ModelKind::Cnn, 8, 1, 16);
            (thinned.batch.micro, thinned.run.steps) = (6, Some(5));
            thinned.prune = Prune { kind: PruneKind::Channels, begin_step: 3, ..Prune::default() };
            for (precision, stop_after) in [(Precision::F32, 2), (Precision::Bf16Mixed, 4)] {
                let experiment = Experiment { precision, ..thinned.clone() };
                let run = going_on::goes_on(&experiment, stop_after, &|| format!("{experiment:?}"));
                assert!(run.summary.stripped.is_some_and(|stripped| !stripped.are_zeros));
            }
        },
    );
}

#[test]
fn a_run_launched_as_graphs_goes_on_as_the_run_that_was_never_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().display().to_string();
    on_simulated_gpu(
        "a_run_launched_as_graphs_goes_on_as_the_run_that_was_never_stopped",
        &[("XDG_CACHE_HOME", &cache)],
        || {
            for precision in [Precision::F32, Precision::Bf16Mixed] {
                let execution = Execution::Fused;
                let mut fused =
                    Experiment { device: "cuda:0".to_owned(), precision, execution, ..Experiment::default() };
                (fused.budget, fused.batch.micro, fused.run.steps) = (Bytes::gib(4), 8, Some(10));
                fused.model.dropout = 0.2;
                let run = going_on::goes_on(&fused, 5, &|| format!("{fused:?}"));
                assert!(run.summary.graphs.is_some_and(|graphs| graphs.times > 0), "{:?}", run.summary.graphs);
            }
        },
    );
}

#[test]
fn a_run_that_becomes_integers_goes_on_as_the_run_that_was_never_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().display().to_string();
    on_simulated_gpu(
        "a_run_that_becomes_integers_goes_on_as_the_run_that_was_never_stopped",
        &[("XDG_CACHE_HOME", &cache)],
        || {
            for (kind, precision, pool) in [
                (QuantiseKind::Aware, Precision::F32, PoolPolicy::Grow),
                (QuantiseKind::After, Precision::Bf16Mixed, PoolPolicy::Planned),
            ] {
                let mut e = Experiment { budget: Bytes::gib(4), device: "cuda:0".to_owned(), ..Experiment::default() };
                (e.model.kind, e.model.width, e.model.depth, e.model.dense) = (ModelKind::Cnn, 8, 1, 16);
                (e.batch.micro, e.run.steps, e.precision, e.gpu.pool) = (6, Some(4), precision, pool);
                e.quantise = Quantise { kind, calibration: 5, ..Quantise::default() };
                let all = going_on::goes_on(&e, 2, &|| format!("{e:?}"));
                assert!(all.summary.compressed.is_some_and(|compressed| compressed.bytes < compressed.dense_bytes));
            }
        },
    );
}
