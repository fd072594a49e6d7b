//! AdamW with companded moments and corrected weights, step by step, against its rule in f64 on what its codes stand for.

use plimsoll_engine::backend::ops::Optimizer;
use plimsoll_engine::backend::{
    Backend, Cpu, DType, Executor, HostSlice, Kernel, Tensor,
    ops::{Moments, NarrowWeight, Update, UpdateRule},
};
use plimsoll_engine::memory::{Category, Ledger};
use plimsoll_engine::selftest::draw::{Draw, fresh_seed};

const GROUP: usize = UpdateRule::GROUP;

fn numbers(executor: &Executor<Cpu>, tensor: &Tensor<Cpu>) -> Vec<f64> {
    executor.read(tensor).expect("here").expect("numbers")
}

/// Two's complement, in 127ths.
fn signed(code: f64) -> f64 {
    (if code < 128.0 { code } else { code - 256.0 }) / 127.0
}

/// What the 256 codes of a first moment and of the root of a second stand for, as shares of their scale.
fn values() -> [Vec<f64>; 2] {
    let first = (0..256).map(|code| signed(f64::from(code)) / (2.0 - signed(f64::from(code)).abs()));
    [first.collect(), (0..256).map(|code| f64::from(code) / 255.0).collect()]
}

/// The gap between a number of a type of 16 bits and the next one away from zero.
fn gap(narrow: NarrowWeight, x: f64) -> f64 {
    let (fraction_bits, least) = match narrow {
        NarrowWeight::Bf16 => (7, -126),
        NarrowWeight::F16 => (10, -14),
    };
    let mut exponent = least;
    while x.abs() >= 2f64.powi(exponent + 1) {
        exponent += 1;
    }
    2f64.powi(exponent - fraction_bits)
}

/// What rounding its root to one of the two numbers of f16 around it makes of a scale, at the most.
const OFF: f64 = 2.1 / 1024.0;

/// A parameter with its state.
struct Held {
    executor: Executor<Cpu>,
    weight: Tensor<Cpu>,
    grad: Tensor<Cpu>,
    state: Vec<Tensor<Cpu>>,
    narrow: Option<NarrowWeight>,
}

impl Held {
    fn new(n: usize, [weight, grad]: [DType; 2], moments: Moments) -> Self {
        let executor = Executor::new(Cpu::new(2), Ledger::new(None, false));
        let make =
            |count: usize, dtype| executor.filled(0.0, [count], dtype, Category::Batch, "operand").expect("room");
        let narrow = NarrowWeight::of(weight);
        let layout = UpdateRule::FlashAdamW { moments, narrow }.state_layout([n].into(), weight);
        assert_eq!(layout.len(), if narrow.is_some() { 5 } else { 4 });
        let bytes: usize = layout.iter().map(|spec| spec.shape.elements() * spec.dtype.size()).sum();
        assert_eq!(bytes, (2 + usize::from(narrow.is_some())) * n + 4 * n.div_ceil(GROUP));
        let state = layout.iter().map(|spec| make(spec.shape.elements(), spec.dtype)).collect();
        let (weight, grad) = (make(n, weight), make(n, grad));
        Self { executor, weight, grad, state, narrow }
    }

    fn read(&self, i: usize) -> Vec<f64> {
        numbers(&self.executor, &self.state[i])
    }

    /// The scales of a moment's groups, whose roots are kept.
    fn scales(&self, moment: usize) -> Vec<f64> {
        let factor = f64::from(UpdateRule::ROOT_FACTOR);
        self.read(2 * moment + 1).into_iter().map(|root| (root / factor).powi(2)).collect()
    }

    /// Both moments: the first, and the root of the second.
    fn moments(&self) -> [Vec<f64>; 2] {
        let values = values();
        [0, 1].map(|moment| {
            let (codes, scales) = (self.read(2 * moment), self.scales(moment));
            codes.iter().enumerate().map(|(i, code)| values[moment][*code as usize] * scales[i / GROUP]).collect()
        })
    }

    /// The weights with their corrections.
    fn weights(&self) -> Vec<f64> {
        let mut weights = numbers(&self.executor, &self.weight);
        if let Some(narrow) = self.narrow {
            for (w, code) in weights.iter_mut().zip(self.read(4)) {
                *w += signed(code) * gap(narrow, *w) / 2.0;
            }
        }
        weights
    }

    /// That `wanted` is what the codes of a moment say, as nearly as they can.
    fn expect(&self, moment: usize, wanted: &[f64], context: &str) {
        let (values, scales) = (&values()[moment], self.scales(moment));
        for (group, scale) in wanted.chunks(GROUP).zip(&scales) {
            let most = group.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            assert!((scale - most).abs() <= OFF * most, "{context}: {scale} of {most}");
        }
        for (i, (held, wanted)) in self.moments()[moment].iter().zip(wanted).enumerate() {
            let scale = scales[i / GROUP];
            // The middle between two codes is that of what is coded: the companded share.
            let at =
                values.iter().position(|value| value * scale == *held).unwrap_or_else(|| panic!("{context}: {held}"));
            let near = [at.wrapping_add(255) % 256, (at + 1) % 256].map(|code| (values[code] * scale - held).abs());
            // The least root that is not zero stands for all below it.
            let share = if moment == 1 && at == 1 { 1.0 } else { 0.75 };
            let allowed = near.into_iter().fold(0.0, f64::max).min(2.0 / 127.0 * scale) * share + OFF * scale;
            assert!((held - wanted).abs() <= allowed, "{context}: {held} for {wanted} of {scale} at {i}");
            assert!(moment == 0 || (*wanted > 0.0) == (*held > 0.0), "{context}: a divisor became zero, or came of it");
        }
    }
}

const TYPES: [[DType; 2]; 6] = [
    [DType::F32, DType::F32],
    [DType::Bf16, DType::Bf16],
    [DType::Bf16, DType::F32],
    [DType::F16, DType::F32],
    [DType::F16, DType::F16],
    [DType::F64, DType::F64],
];

#[test]
fn flash_adamw_steps_by_its_codes_and_keeps_the_nearest() {
    let seed = fresh_seed();
    let mut draw = Draw::new(seed);
    for types in TYPES {
        let n = draw.between(1, 3000);
        let mut moments = Moments { beta1: 0.875, beta2: 0.9375, epsilon: 1e-3, step: 0 };
        let held = Held::new(n, types, moments);
        for step in 1..=6u64 {
            let context = format!("seed {seed}, step {step} of {n} {types:?}");
            // Of many sizes, and zeros among them.
            let g: Vec<f32> =
                (0..n).map(|_| (draw.number() * 10f64.powi(-(draw.between(0, 4) as i32))) as f32).collect();
            held.executor.backend().write(&held.grad, HostSlice::F32(&g)).expect("numbers");
            let g = numbers(&held.executor, &held.grad);
            let (rate, weight_decay, grad_scale) = (0.0625, 0.125, 0.5);
            let (before, [mut m, mut root]) = (held.weights(), held.moments());
            moments.step = step;
            let rule = UpdateRule::FlashAdamW { moments, narrow: held.narrow };
            let outputs: Vec<&Tensor<Cpu>> = [&held.weight].into_iter().chain(&held.state).collect();
            let kernel = Kernel::from(Optimizer::Update(Update { rule, rate, weight_decay, grad_scale }));
            held.executor.launch(kernel, &[&held.grad], &outputs).unwrap_or_else(|e| panic!("{context}: {e}"));
            let after = held.weights();
            let Moments { beta1, beta2, epsilon, .. } = moments;
            for i in 0..n {
                let g = grad_scale * g[i];
                m[i] = beta1 * m[i] + (1.0 - beta1) * g;
                root[i] = (beta2 * root[i] * root[i] + (1.0 - beta2) * g * g).sqrt();
                let mean = m[i] / (1.0 - beta1.powf(step as f64));
                let deviation = root[i] / (1.0 - beta2.powf(step as f64)).sqrt();
                let wanted = before[i] * (1.0 - rate * weight_decay) - rate * mean / (deviation + epsilon);
                // 16 bits of fraction at the least: 8 of the weight, and 8 of its correction.
                let allowed = 1e-5 + wanted.abs() * if held.narrow.is_some() { 2f64.powi(-16) } else { 0.0 };
                assert!((after[i] - wanted).abs() <= allowed, "{context}: {}, not {wanted} at {i}", after[i]);
            }
            held.expect(0, &m, &context);
            held.expect(1, &root, &context);
        }
    }
}

/// Updates far below a step of bf16 move a weight as they move one of f32, and are lost without corrections.
#[test]
fn corrections_hold_what_a_weight_of_16_bits_loses() {
    let moments = Moments { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, step: 0 };
    let run = |types: [DType; 2]| {
        let held = Held::new(1, types, moments);
        held.executor.backend().write(&held.weight, HostSlice::F32(&[1.0])).expect("a weight");
        held.executor.backend().write(&held.grad, HostSlice::F32(&[1.0])).expect("a gradient");
        for step in 1..=200 {
            let rule = UpdateRule::FlashAdamW { moments: Moments { step, ..moments }, narrow: held.narrow };
            let update = Update { rule, rate: 1e-4, weight_decay: 0.0, grad_scale: 1.0 };
            let outputs: Vec<&Tensor<Cpu>> = [&held.weight].into_iter().chain(&held.state).collect();
            held.executor.launch(Kernel::from(Optimizer::Update(update)), &[&held.grad], &outputs).expect("a rule");
        }
        held.weights()[0]
    };
    // Each step is the rate, 1e-4, and the gap of bf16 below 1 is 0.0039.
    assert!((run([DType::F32, DType::F32]) - 0.98).abs() < 1e-4);
    assert!((run([DType::Bf16, DType::Bf16]) - 0.98).abs() < 2e-3, "{}", run([DType::Bf16, DType::Bf16]));
    assert!((run([DType::Bf16, DType::F32]) - 0.98).abs() < 2e-3);
    assert!((run([DType::F16, DType::F32]) - 0.98).abs() < 3e-4);
}

/// Without gradients a second moment falls as it should on average, although a step is less than 16 bits tell apart.
#[test]
fn moments_fall_by_their_decay_where_there_is_no_gradient() {
    let (n, steps) = (64 * GROUP, 700);
    let moments = Moments { beta1: 0.999, beta2: 0.999, epsilon: 1e-8, step: 0 };
    let held = Held::new(n, [DType::F32, DType::F32], moments);
    let mut draw = Draw::new(fresh_seed());
    let update = |step: u64, g: &[f32]| {
        held.executor.backend().write(&held.grad, HostSlice::F32(g)).expect("a gradient");
        let rule = UpdateRule::FlashAdamW { moments: Moments { step, ..moments }, narrow: None };
        let update = Update { rule, rate: 0.0, weight_decay: 0.0, grad_scale: 1.0 };
        let outputs: Vec<&Tensor<Cpu>> = [&held.weight].into_iter().chain(&held.state).collect();
        held.executor.launch(Kernel::from(Optimizer::Update(update)), &[&held.grad], &outputs).expect("a rule");
    };
    // Moments below the smallest number of f16, as those of large models are.
    let g: Vec<f32> = (0..n).map(|_| (draw.number() * 1e-7) as f32).collect();
    update(1, &g);
    let size = |held: &Held| held.moments().map(|moment| moment.iter().map(|x| x.abs()).sum::<f64>());
    let before = size(&held);
    (2..2 + steps).for_each(|step| update(step, &vec![0.0; n]));
    let after = size(&held);
    for (moment, decay) in [moments.beta1, moments.beta2.sqrt()].into_iter().enumerate() {
        let (fell, wanted) = (after[moment] / before[moment], decay.powi(steps as i32));
        assert!((fell / wanted - 1.0).abs() < 0.02, "moment {moment} fell to {fell}, not to {wanted}");
    }
}
