//! AdamW with 8-bit moments, step by step, against its rule in f64 on what its codes stand for.

use plimsoll_engine::backend::ops::Optimizer;
use plimsoll_engine::backend::{
    Backend, Cpu, DType, Executor, HostSlice, Kernel, Tensor,
    ops::{Moments, Update, UpdateRule},
};
use plimsoll_engine::memory::{Category, Ledger};
use plimsoll_engine::selftest::draw::Draw;

use super::bench::fresh_seed;

/// The values of the dynamic code, rising, as the paper describes them: an exponent of zero bits, a bit that ends them,
/// and the rest a fraction between 0.1 and 1; with a sign, or with one bit more for the fraction.
fn values(has_sign: bool) -> Vec<f64> {
    let mut values = vec![0.0, 1.0];
    for zeros in 0..7 {
        let fraction_bits = 6 - zeros + i32::from(!has_sign);
        let steps = 2f64.powi(fraction_bits);
        for i in 0..1 << fraction_bits {
            let value = 10f64.powi(-zeros) * (0.1 + 0.9 * (f64::from(i) + 0.5) / steps);
            values.push(value);
            if has_sign {
                values.push(-value);
            }
        }
    }
    values.sort_by(f64::total_cmp);
    assert_eq!(values.len(), 256);
    values
}

struct Moment {
    values: Vec<f64>,
    codes: Tensor<Cpu>,
    largest: Tensor<Cpu>,
}

impl Moment {
    fn read(&self, executor: &Executor<Cpu>) -> Vec<f64> {
        let (codes, largest) = (numbers(executor, &self.codes), numbers(executor, &self.largest));
        codes.iter().enumerate().map(|(i, code)| self.values[*code as usize] * largest[i / UpdateRule::BLOCK]).collect()
    }

    /// That `wanted` is held as nearly as the code allows.
    fn expect(&self, executor: &Executor<Cpu>, wanted: &[f64], context: &str) {
        let largest = numbers(executor, &self.largest);
        for (block, largest) in wanted.chunks(UpdateRule::BLOCK).zip(&largest) {
            let most = block.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            assert!((most - largest).abs() <= 1e-6 * most, "{context}: {largest}, not {most}");
        }
        for (i, (wanted, held)) in wanted.iter().zip(self.read(executor)).enumerate() {
            let largest = largest[i / UpdateRule::BLOCK];
            let distance = |value: &f64| (value * largest - wanted).abs();
            let least = self.values.iter().map(distance).fold(f64::INFINITY, f64::min);
            // A second moment is not rounded down to zero.
            let floor = if self.values[0] == 0.0 && *wanted > 0.0 { distance(&self.values[1]) } else { 0.0 };
            let allowed = least.max(floor) + 1e-6 * largest;
            assert!((held - wanted).abs() <= allowed, "{context}: {held} for {wanted} of {largest} at {i}");
            assert!(self.values[0] != 0.0 || *wanted == 0.0 || held > 0.0, "{context}: a divisor became zero");
        }
    }
}

fn numbers(executor: &Executor<Cpu>, tensor: &Tensor<Cpu>) -> Vec<f64> {
    executor.read(tensor).expect("candle has elements").expect("candle has elements")
}

#[test]
fn adamw_with_8_bit_moments_steps_by_its_codes_and_keeps_the_nearest() {
    let seed = fresh_seed();
    let mut draw = Draw::new(seed);
    for dtype in [DType::F32, DType::F64, DType::F32] {
        let n = draw.between(1, 3000);
        let executor = Executor::new(Cpu::new(2), Ledger::new(None, false));
        let make =
            |count: usize, dtype| executor.filled(0.0, [count], dtype, Category::Batch, "operand").expect("room");
        let moment = |has_sign| Moment {
            values: values(has_sign),
            codes: make(n, DType::U8),
            largest: make(n.div_ceil(UpdateRule::BLOCK), DType::F32),
        };
        let (weight, grad, first, second) = (make(n, dtype), make(n, dtype), moment(true), moment(false));
        for step in 1..=6u64 {
            let context = format!("seed {seed}, step {step} of {n} {dtype:?}");
            // Of many sizes, and zeros among them.
            let g: Vec<f32> =
                (0..n).map(|_| (draw.number() * 10f64.powi(-(draw.between(0, 6) as i32))) as f32).collect();
            executor.backend().write(&grad, HostSlice::F32(&g)).expect("numbers");
            let (rate, weight_decay, grad_scale) = (0.0625, 0.125, 0.5);
            let (beta1, beta2, epsilon) = (0.875, 0.9375, 1e-3);
            let [w, mut m, mut v] = [numbers(&executor, &weight), first.read(&executor), second.read(&executor)];
            let rule = UpdateRule::AdamW8(Moments { beta1, beta2, epsilon, step });
            let outputs = [&weight, &first.codes, &first.largest, &second.codes, &second.largest];
            let kernel = Kernel::from(Optimizer::Update(Update { rule, rate, weight_decay, grad_scale }));
            executor.launch(kernel, &[&grad], &outputs).unwrap_or_else(|e| panic!("{context}: {e}"));
            let after = numbers(&executor, &weight);
            for i in 0..n {
                let g = grad_scale * f64::from(g[i]);
                m[i] = beta1 * m[i] + (1.0 - beta1) * g;
                v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
                let [mean, square] = [m[i] / (1.0 - beta1.powf(step as f64)), v[i] / (1.0 - beta2.powf(step as f64))];
                let wanted = w[i] * (1.0 - rate * weight_decay) - rate * mean / (square.sqrt() + epsilon);
                assert!((after[i] - wanted).abs() <= 1e-5, "{context}: {}, not {wanted} at {i}", after[i]);
            }
            first.expect(&executor, &m, &context);
            second.expect(&executor, &v, &context);
        }
    }
}
