//! What is kept for the backward pass, made again, or held: the same losses to the last bit, and the bytes it is said to
//! take.

use plimsoll_engine::{
    Experiment,
    backend::{Candle, Executor, pool},
    data::{Facts, Input},
    experiment::{Checkpointing, DataKind, ModelKind, Outputs, Precision},
    memory::Ledger,
    plan::predict,
    rng::{Rng, Stream},
    train::step::{MicroBatch, Session},
};

const FACTS: Facts = Facts::one_label(Input::Image { height: 16, width: 16, channels: 3 }, 5, 100, 20);

/// Noise with labels.
struct Noise {
    images: Vec<f32>,
    labels: Vec<u32>,
}

impl Noise {
    fn new(samples: usize) -> Self {
        let rng = Rng::new(5, Stream::Data, 0);
        let images = (0..(samples * 16 * 16 * 3) as u64).map(|i| rng.normal(i) as f32).collect();
        Self { images, labels: (0..samples).map(|i| (i % FACTS.classes) as u32).collect() }
    }
}

impl MicroBatch for &Noise {
    fn samples(&self) -> usize {
        self.labels.len()
    }
    fn inputs(&self) -> plimsoll_engine::backend::HostSlice<'_> {
        plimsoll_engine::backend::HostSlice::F32(&self.images)
    }
    fn labels(&self) -> &[u32] {
        &self.labels
    }
}

/// Losses of some steps, bit by bit.
fn losses(experiment: &Experiment) -> Vec<u64> {
    let noise = Noise::new(experiment.batch.micro);
    let executor = Executor::new(Candle::cpu(pool::threads()), Ledger::new(None, false));
    let mut session = Session::new(executor, experiment, &FACTS).expect("no budget");
    (0..3).map(|_| session.step(1e-2, || Ok(&noise)).expect("a step").loss.to_bits()).collect()
}

fn experiment(kind: ModelKind) -> Experiment {
    let mut experiment = Experiment::default();
    (experiment.model.kind, experiment.model.width, experiment.model.multiplier) = (kind, 8, 0.25);
    experiment.batch.micro = 4;
    experiment
}

#[test]
fn outputs_made_again_change_no_loss_by_a_bit() {
    for kind in [ModelKind::Cnn, ModelKind::Sepcnn, ModelKind::Resnet, ModelKind::Mobilenetv1, ModelKind::Mobilenetv2] {
        for precision in [Precision::F32, Precision::Bf16Mixed] {
            for checkpointing in [Checkpointing::None, Checkpointing::Every(2)] {
                let kept = Experiment { precision, checkpointing, ..experiment(kind) };
                let again = Experiment { outputs: Outputs::MadeAgain, ..kept.clone() };
                assert_eq!(losses(&again), losses(&kept), "{kind:?} {precision:?} {checkpointing:?}");
            }
        }
    }
}

#[test]
fn workloads_take_at_most_three_quarters_of_what_they_take_in_pytorch() {
    // Measured with PyTorch 2.15 on the CPU: most bytes of tensors in a steady step.
    for (kind, outputs, micro, width, theirs) in [
        (ModelKind::Resnet, Outputs::MadeAgain, 32, 64, 329_855_544_u64),
        (ModelKind::Sepcnn, Outputs::Kept, 64, 32, 46_968_980),
    ] {
        let mut experiment = experiment(kind);
        experiment.data.kind = DataKind::Shapes;
        (experiment.batch.micro, experiment.model.width) = (micro, width);
        experiment.outputs = outputs;
        let plan = predict(&experiment).expect("a plan");
        let share = plan.peak.live.0 as f64 / theirs as f64;
        assert!(share <= 0.75, "{kind:?}: {share}");
    }
}
