//! Published architectures: as many parameters as published, plans in milliseconds, and steps that train.

use plimsoll_engine::{
    Experiment,
    backend::{DryRun, Executor, Rates},
    data::{DatasetInfo, Input},
    device::{Processor, Target},
    experiment::{DataKind, Model, ModelKind, Stem},
    hardware::Machine,
    memory::Ledger,
    models,
    plan::Plan,
    train::{Command, Event, Outcome, Start, Trainer},
};

const IMAGENET: DatasetInfo =
    DatasetInfo::one_label(Input::Image { height: 224, width: 224, channels: 3 }, 1000, 1000, 100);

fn parameters(model: Model) -> u64 {
    let executor =
        Executor::new(DryRun::new(Target::Cpu(Processor::with_threads(1)), Rates::NOMINAL), Ledger::new(None, false));
    let experiment = Experiment { model, ..Experiment::default() };
    models::Model::build(&executor, &experiment, &IMAGENET).expect("no budget").parameters()
}

#[test]
fn parameters_are_as_many_as_published() {
    let model = |kind| Model { kind, stem: Stem::Imagenet, ..Model::default() };
    // torchvision's models, which follow the papers' tables.
    for (layers, published) in [(18, 11_689_512), (34, 21_797_672), (50, 25_557_032), (101, 44_549_160)] {
        assert_eq!(parameters(Model { layers, ..model(ModelKind::Resnet) }), published, "resnet-{layers}");
    }
    assert_eq!(parameters(model(ModelKind::Mobilenetv2)), 3_504_872);
    // Howard et al. 2017, table 8, rounds it to 4.2 million.
    assert_eq!(parameters(model(ModelKind::Mobilenetv1)), 4_231_976);
}

fn small(kind: ModelKind) -> Experiment {
    let mut experiment = Experiment { budget: plimsoll_engine::Bytes::gib(8), ..Experiment::default() };
    experiment.model.kind = kind;
    experiment.model.multiplier = 0.25;
    experiment.data.kind = DataKind::Shapes;
    experiment.data.samples = 200;
    experiment.batch.micro = 16;
    experiment
}

#[test]
fn the_small_stem_has_the_parameters_of_the_benchmark() {
    let executor =
        Executor::new(DryRun::new(Target::Cpu(Processor::with_threads(1)), Rates::NOMINAL), Ledger::new(None, false));
    let facts = DatasetInfo::one_label(Input::Image { height: 32, width: 32, channels: 3 }, 10, 100, 10);
    let model = models::Model::build(&executor, &small(ModelKind::Resnet), &facts).expect("no budget");
    assert_eq!(model.parameters(), 11_173_962);
}

#[test]
fn each_trains_and_measures_no_more_than_predicted() {
    let trainer = Trainer::new(|| {});
    for kind in [ModelKind::Mobilenetv1, ModelKind::Mobilenetv2, ModelKind::Resnet] {
        let mut experiment = small(kind);
        experiment.run.steps = Some(if kind == ModelKind::Resnet { 2 } else { 4 });
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
        trainer.send(Command::Start(Box::new(Start::new(experiment))));
        let (outcome, summary) = trainer
            .events()
            .iter()
            .find_map(
                |event| if let Event::Ended { outcome, summary, .. } = event { Some((outcome, summary)) } else { None },
            )
            .expect("the trainer goes on");
        assert!(matches!(outcome, Outcome::Finished), "{kind:?}: {outcome:?}");
        let (predicted, measured) = (plan.peak.live.0 as f64, summary.measured.live.0 as f64);
        assert!(measured <= predicted, "{kind:?}: {measured} measured, {predicted} predicted");
        assert!(
            predicted <= measured * 1.01 + (1 << 20) as f64,
            "{kind:?}: {measured} measured, {predicted} predicted"
        );
        assert_eq!(summary.left_over.0, 0);
    }
}
