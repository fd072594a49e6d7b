//! The same step through candle's own `backward()`: what the tape saves, both sides measured by the same meter.

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{AdamW, Conv2dConfig, Optimizer, ParamsAdamW, VarBuilder, VarMap};
use plimsoll_engine::{
    Bytes, Experiment,
    experiment::ModelKind,
    memory::probe::{Meter, meter_this_thread},
    train::{Command, Event, Outcome, Start, Trainer},
};

const BATCH: usize = 64;
const STEPS: usize = 3;

/// The share of candle's peak that this engine may take.
const SHARE: f64 = 0.8;

type Forward = Box<dyn Fn(&Tensor) -> candle_core::Result<Tensor>>;

/// The networks of `mlp-digits-b64` and `cnn-digits-b64`, as candle's layers.
fn network(kind: ModelKind, vars: &VarBuilder) -> candle_core::Result<Forward> {
    let dense = |name: &str, from, to| candle_nn::linear(from, to, vars.pp(name));
    if kind == ModelKind::Mlp {
        let layers = [dense("a", 64, 256)?, dense("b", 256, 256)?, dense("c", 256, 10)?];
        return Ok(Box::new(move |x| {
            let x = layers[0].forward(&x.flatten_from(1)?)?.relu()?;
            layers[2].forward(&layers[1].forward(&x)?.relu()?)
        }));
    }
    let same = Conv2dConfig { padding: 1, ..Conv2dConfig::default() };
    let convolutions =
        [candle_nn::conv2d(1, 32, 3, same, vars.pp("c1"))?, candle_nn::conv2d(32, 64, 3, same, vars.pp("c2"))?];
    let layers = [dense("a", 256, 64)?, dense("b", 64, 10)?];
    Ok(Box::new(move |x| {
        let mut x = x.clone();
        for convolution in &convolutions {
            x = convolution.forward(&x)?.relu()?.max_pool2d(2)?;
        }
        layers[1].forward(&layers[0].forward(&x.flatten_from(1)?)?.relu()?)
    }))
}

/// Peak bytes alive over some steps of forward, `backward()` and AdamW.
fn candle_peak(kind: ModelKind) -> candle_core::Result<Bytes> {
    let meter = Meter::new();
    meter_this_thread(Some(meter));
    let vars = VarMap::new();
    let forward = network(kind, &VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu))?;
    let mut optimizer = AdamW::new(vars.all_vars(), ParamsAdamW { lr: 1e-3, ..ParamsAdamW::default() })?;
    let mut warmed = Bytes::ZERO;
    for step in 0..STEPS {
        if step == 1 {
            // The first step also makes the libraries' per-thread buffers: they are not part of a step.
            meter.reset_peak();
            warmed = meter.now().live;
        }
        let images = Tensor::rand(0f32, 1.0, (BATCH, 1, 8, 8), &Device::Cpu)?;
        let labels = Tensor::zeros(BATCH, DType::U32, &Device::Cpu)?;
        let loss = candle_nn::loss::cross_entropy(&forward(&images)?, &labels)?;
        optimizer.backward_step(&loss)?;
    }
    let peak = meter.peak().live;
    // Parameters and moments live on: what was there after the first step includes the buffers, which are not counted.
    let parameters: usize = vars.all_vars().iter().map(|v| v.elem_count() * 4).sum();
    let kept = Bytes(3 * parameters as u64);
    meter_this_thread(None);
    Ok(peak.saturating_sub(warmed) + kept)
}

fn our_peak(kind: ModelKind) -> Bytes {
    let mut experiment = Experiment::default();
    experiment.model.kind = kind;
    experiment.model.width = if kind == ModelKind::Mlp { 256 } else { 32 };
    experiment.run.steps = Some(STEPS as u64);
    let trainer = Trainer::new(|| {});
    trainer.send(Command::Start(Box::new(Start::new(experiment))));
    loop {
        if let Event::Ended { outcome, summary, .. } = trainer.events().recv().expect("the trainer goes on") {
            assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
            return summary.measured.live;
        }
    }
}

#[test]
fn a_step_takes_at_most_four_fifths_of_candles_own() {
    for kind in [ModelKind::Mlp, ModelKind::Cnn] {
        let (ours, candle) = (our_peak(kind), candle_peak(kind).expect("candle trains"));
        println!("{kind:?}: {ours} here, {candle} through candle's backward()");
        assert!(ours.0 as f64 <= SHARE * candle.0 as f64, "{kind:?}: {ours} here, {candle} through candle");
    }
}
