//! AdamW with moments of 8 and of 4 bits, step by step, against its rule in f64 on what its codes stand for.

use plimsoll_engine::backend::ops::Optimizer;
use plimsoll_engine::backend::{
    Backend, Cpu, DType, Executor, HostSlice, Kernel, Tensor,
    ops::{Moments, Rows, Update, UpdateRule},
};
use plimsoll_engine::memory::{Category, Ledger};
use plimsoll_engine::selftest::draw::{Draw, fresh_seed};

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

/// The 4-bit codes of the paper: of first moments, and of second ones.
fn four_bit_values() -> [Vec<f64>; 2] {
    let mut signed = vec![0.0, 1.0];
    for decade in 0..3 {
        let (count, top) = (1 << decade, 10f64.powi(decade - 2));
        let values = (0..count).map(|i| top * (0.1 + 0.9 * (f64::from(i) + 0.5) / f64::from(count)));
        signed.extend(values.flat_map(|value| [value, -value]));
    }
    signed.sort_by(f64::total_cmp);
    [signed, (1..=16).map(|i| f64::from(i) / 16.0).collect()]
}

/// What pairs of codes stand for, before they are scaled.
fn halves(executor: &Executor<Cpu>, codes: &Tensor<Cpu>, values: &[f64], count: usize) -> Vec<f64> {
    let bytes = numbers(executor, codes);
    let value = |i: usize| values[(bytes[i / 2] as usize >> if i.is_multiple_of(2) { 4 } else { 0 }) & 15];
    (0..count).map(value).collect()
}

/// That `wanted` is held as nearly as the code allows, where element `i` has the scale `scales[i]`.
fn expect_nearest(values: &[f64], held: &[f64], scales: &[f64], wanted: &[f64], context: &str) {
    for (i, ((held, scale), wanted)) in held.iter().zip(scales).zip(wanted).enumerate() {
        let distance = |value: &f64| (value * scale - wanted).abs();
        let least = values.iter().map(distance).fold(f64::INFINITY, f64::min);
        let found = (held * scale - wanted).abs();
        assert!(found <= least + 1e-6 * scale, "{context}: {held} of {scale} for {wanted} at {i}");
    }
}

/// The largest magnitude in each run of elements that `place` gives one number.
fn tops(of: &[f64], count: usize, place: impl Fn(usize) -> usize) -> Vec<f64> {
    let mut tops = vec![0.0f64; count];
    of.iter().enumerate().for_each(|(i, x)| tops[place(i)] = tops[place(i)].max(x.abs()));
    tops
}

fn expect_near(found: &[f64], wanted: &[f64], context: &str) {
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() <= 1e-6 * wanted, "{context}: a scale of {found}, not {wanted}");
    }
}

#[test]
fn adamw_with_4_bit_moments_steps_by_its_codes_and_keeps_the_nearest() {
    let seed = fresh_seed();
    let (mut draw, [signed, even]) = (Draw::new(seed), four_bit_values());
    for (dtype, is_matrix) in [(DType::F32, true), (DType::F32, false), (DType::F64, true), (DType::F32, true)] {
        let rows = if is_matrix { draw.between(2, 300) } else { 1 };
        let columns = draw.between(2, if is_matrix { 300 } else { 3000 });
        let (n, extents) = (rows * columns, Rows { rows, columns });
        let executor = Executor::new(Cpu::new(2), Ledger::new(None, false));
        let make =
            |count: usize, dtype| executor.filled(0.0, [count], dtype, Category::Batch, "operand").expect("room");
        let (weight, grad) = (make(n, dtype), make(n, dtype));
        let moments = Moments { beta1: 0.875, beta2: 0.9375, epsilon: 1e-3, step: 0 };
        let layout = UpdateRule::AdamW4 { moments, extents }.state_layout([n].into(), dtype);
        let state: Vec<Tensor<Cpu>> = layout.iter().map(|spec| make(spec.shape.elements(), spec.dtype)).collect();
        let mean_scales = |executor: &_| -> Vec<f64> {
            let tops = numbers(executor, &state[1]);
            (0..n).map(|i| tops[i / UpdateRule::BLOCK_OF_4_BITS]).collect()
        };
        let square_scales = |executor: &_| -> Vec<f64> {
            let tops: Vec<_> = state[3..].iter().map(|tops| numbers(executor, tops)).collect();
            let of = |i: usize| match &tops[..] {
                [by_row, by_column] => by_row[i / columns].min(by_column[i % columns]),
                by_block => by_block[0][i / UpdateRule::BLOCK_OF_4_BITS],
            };
            (0..n).map(of).collect()
        };
        for step in 1..=5u64 {
            let context = format!("seed {seed}, step {step} of {rows} x {columns} {dtype:?}");
            let g: Vec<f32> =
                (0..n).map(|_| (draw.number() * 10f64.powi(-(draw.between(0, 3) as i32))) as f32).collect();
            executor.backend().write(&grad, HostSlice::F32(&g)).expect("numbers");
            let (rate, weight_decay, grad_scale) = (0.0625, 0.125, 0.5);
            let w = numbers(&executor, &weight);
            let scaled = |shares: Vec<f64>, scales: Vec<f64>| -> Vec<f64> {
                shares.iter().zip(scales).map(|(share, scale)| share * scale).collect()
            };
            let mut m = scaled(halves(&executor, &state[0], &signed, n), mean_scales(&executor));
            let mut v = scaled(halves(&executor, &state[2], &even, n), square_scales(&executor));
            let rule = UpdateRule::AdamW4 { moments: Moments { step, ..moments }, extents };
            let outputs: Vec<&Tensor<Cpu>> = [&weight].into_iter().chain(&state).collect();
            let kernel = Kernel::from(Optimizer::Update(Update { rule, rate, weight_decay, grad_scale }));
            executor.launch(kernel, &[&grad], &outputs).unwrap_or_else(|e| panic!("{context}: {e}"));
            let (after, Moments { beta1, beta2, epsilon, .. }) = (numbers(&executor, &weight), moments);
            for i in 0..n {
                let g = grad_scale * f64::from(g[i]);
                m[i] = beta1 * m[i] + (1.0 - beta1) * g;
                v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
                let [mean, square] = [m[i] / (1.0 - beta1.powf(step as f64)), v[i] / (1.0 - beta2.powf(step as f64))];
                let wanted = w[i] * (1.0 - rate * weight_decay) - rate * mean / (square.sqrt() + epsilon);
                assert!((after[i] - wanted).abs() <= 1e-5, "{context}: {}, not {wanted} at {i}", after[i]);
            }
            let blocks = n.div_ceil(UpdateRule::BLOCK_OF_4_BITS);
            let by_block = |of: &[f64]| tops(of, blocks, |i| i / UpdateRule::BLOCK_OF_4_BITS);
            expect_near(&numbers(&executor, &state[1]), &by_block(&m), &context);
            let wanted = if is_matrix { tops(&v, rows, |i| i / columns) } else { by_block(&v) };
            expect_near(&numbers(&executor, &state[3]), &wanted, &context);
            if is_matrix {
                expect_near(&numbers(&executor, &state[4]), &tops(&v, columns, |i| i % columns), &context);
            }
            expect_nearest(&signed, &halves(&executor, &state[0], &signed, n), &mean_scales(&executor), &m, &context);
            expect_nearest(&even, &halves(&executor, &state[2], &even, n), &square_scales(&executor), &v, &context);
        }
    }
}
