//! The gradients of sequence models' ops against finite differences, and what their kernels must refuse or keep apart.

use plimsoll_engine::backend::ops::{Elementwise, Embedding, Linear};
use plimsoll_engine::{
    Error,
    backend::{AttentionShape, Cpu, DType, Executor, HostSlice, Tensor},
    memory::{Category, Ledger},
    selftest::draw::{Draw, fresh_seed},
};

use super::trials;

type T = Tensor<Cpu>;

fn executor() -> Executor<Cpu> {
    Executor::new(Cpu::new(2), Ledger::new(None, false))
}

/// A tensor of f64; the numbers are exact in f32.
fn upload(executor: &Executor<Cpu>, numbers: &[f64]) -> T {
    let numbers: Vec<f32> = numbers.iter().map(|&x| x as f32).collect();
    executor.upload(HostSlice::F32(&numbers), [numbers.len()], DType::F64, "operand").expect("no budget")
}

fn values(executor: &Executor<Cpu>, tensor: &T) -> Vec<f64> {
    executor.read(tensor).expect("elements").expect("elements")
}

/// Compares, along a random direction, how a random weighing of `forward` changes with what `gradient` says, given the
/// weights. Four values (Richardson 1911), so that the error of the difference is of fourth order.
fn follows(
    draw: &mut Draw,
    x: &[f64],
    outputs: usize,
    forward: impl Fn(&Executor<Cpu>, &T) -> T,
    gradient: impl Fn(&Executor<Cpu>, &T, &T) -> T,
    context: &str,
) {
    const STEP: f64 = 1.0 / 2048.0;
    let executor = executor();
    let direction: Vec<f64> = x.iter().map(|_| draw.between(0, 2) as f64 - 1.0).collect();
    let weights = draw.numbers(outputs);
    let value = |steps: f64| {
        let x: Vec<f64> = x.iter().zip(&direction).map(|(x, d)| x + steps * STEP * d).collect();
        let y = forward(&executor, &upload(&executor, &x));
        values(&executor, &y).iter().zip(&weights).map(|(y, w)| y * w).sum::<f64>()
    };
    let difference = (8.0 * (value(1.0) - value(-1.0)) - (value(2.0) - value(-2.0))) / (12.0 * STEP);
    let dx = gradient(&executor, &upload(&executor, x), &upload(&executor, &weights));
    let slope: f64 = values(&executor, &dx).iter().zip(&direction).map(|(g, d)| g * d).sum();
    let allowed = 1e-8 * (1.0 + difference.abs());
    assert!((slope - difference).abs() <= allowed, "{context}: {slope}, not {difference}");
}

#[test]
fn gradients_of_attention_agree_with_finite_differences() {
    let seed = fresh_seed();
    let mut draw = Draw::new(seed);
    for round in 0..40 {
        let s = trials::shape(&mut draw, if round % 10 == 9 { 17 } else { 4 });
        let context = format!("seed {seed}, {s:?}");
        let (qkv, outputs) = (draw.numbers(s.rows() * s.packed()), s.rows() * s.width());
        let blockwise = |e: &Executor<Cpu>, qkv: &T| e.attention(qkv, s).expect("attention");
        follows(
            &mut draw,
            &qkv,
            outputs,
            |e, qkv| blockwise(e, qkv).0,
            |e, qkv, dy| {
                let (y, lse) = blockwise(e, qkv);
                e.attention_grad(qkv, [&y, &lse], dy, s).expect("gradient")
            },
            &context,
        );
        let plain = |e: &Executor<Cpu>, qkv: &T| e.attention_plain(qkv, s).expect("attention");
        follows(
            &mut draw,
            &qkv,
            outputs,
            |e, qkv| plain(e, qkv).0,
            |e, qkv, dy| e.attention_plain_grad(qkv, &plain(e, qkv).1, dy, s).expect("gradient"),
            &context,
        );
        let s = AttentionShape { head_dim: 2 * s.head_dim, ..s };
        let qkv = draw.numbers(s.rows() * s.packed());
        let base = draw.between(2, 10_000) as f64;
        let turn = |e: &Executor<Cpu>, x: &T, is_inverse| e.rotary(x.clone(), s, base, is_inverse).expect("rotary");
        follows(&mut draw, &qkv, qkv.len(), |e, qkv| turn(e, qkv, false), |e, _, dy| turn(e, dy, true), &context);
    }
}

#[test]
fn both_forms_of_attention_are_the_same_function() {
    let seed = fresh_seed();
    let (mut draw, executor) = (Draw::new(seed), executor());
    for _ in 0..30 {
        let s = trials::shape(&mut draw, 17);
        let qkv = upload(&executor, &draw.numbers(s.rows() * s.packed()));
        let ((y, _), (plain, _)) =
            (executor.attention(&qkv, s).expect("y"), executor.attention_plain(&qkv, s).expect("y"));
        for (y, plain) in values(&executor, &y).iter().zip(values(&executor, &plain)) {
            assert!((y - plain).abs() < 1e-12, "seed {seed}: {y} and {plain}: {s:?}");
        }
    }
}

#[test]
fn gradients_of_moved_and_gated_elements_agree_with_finite_differences() {
    let seed = fresh_seed();
    let mut draw = Draw::new(seed);
    for _ in 0..40 {
        let [batch, rows, columns, more] =
            [draw.between(1, 3), draw.between(1, 40), draw.between(1, 40), draw.between(1, 9)];
        let context = format!("seed {seed}, {batch} x {rows} x {columns}, {more} more");
        let n = batch * rows * columns;
        let x = draw.numbers(n);
        let back = |e: &Executor<Cpu>, dy: &T, offset: usize| {
            e.take_columns_grad(&dy.reshape([batch * rows, columns]), offset, [batch * rows, more + columns].into())
        };
        let wide = draw.numbers(batch * rows * (more + columns));
        follows(
            &mut draw,
            &wide,
            n,
            |e, x| e.take_columns(&x.reshape([batch * rows, more + columns]), more..more + columns).expect("columns"),
            |e, _, dy| back(e, dy, more).expect("gradient"),
            &context,
        );
        let other = draw.numbers(batch * rows * more);
        let joined = batch * rows * (columns + more);
        follows(
            &mut draw,
            &x,
            joined,
            |e, x| {
                let other = upload(e, &other).reshape([batch, rows, more]);
                e.concat(&x.reshape([batch, rows, columns]), &other).expect("joined")
            },
            |e, _, dy| {
                let [dx, _] = e.split(&dy.reshape([batch, rows, columns + more]), columns).expect("parts");
                dx
            },
            &context,
        );
        follows(
            &mut draw,
            &x,
            n,
            |e, x| e.transpose(&x.reshape([batch, rows, columns])).expect("turned"),
            |e, _, dy| e.transpose(&dy.reshape([batch, columns, rows])).expect("turned back"),
            &context,
        );
        let row = draw.numbers(columns);
        follows(
            &mut draw,
            &row,
            n + batch * columns,
            |e, row| e.prepend(row, &upload(e, &x).reshape([batch, rows, columns])).expect("one more"),
            |e, row, dy| {
                let [first, _] = e.split(&dy.reshape([batch, (rows + 1) * columns]), columns).expect("parts");
                let drow = e.allocate(row.shape(), DType::F64, Category::Gradients, "gradient").expect("room");
                e.launch(Linear::BiasGrad { accumulate: false }, &[&first], &[&drow]).expect("sum");
                drow
            },
            &context,
        );
        let gated = draw.numbers(2 * n);
        let halves = |x: &T| x.reshape([batch * rows, 2 * columns]);
        follows(
            &mut draw,
            &gated,
            n,
            |e, x| e.swiglu(&halves(x)).expect("gated"),
            |e, x, dy| e.swiglu_grad(&halves(x), dy).expect("gradient"),
            &context,
        );
        let tokens: Vec<u32> = (0..rows).map(|_| draw.between(0, batch * rows - 1) as u32).collect();
        let tokens =
            |e: &Executor<Cpu>| e.upload(HostSlice::U32(&tokens), [rows], DType::U32, "tokens").expect("no budget");
        follows(
            &mut draw,
            &x,
            rows * columns,
            |e, table| e.embedding(&tokens(e), &table.reshape([batch * rows, columns])).expect("looked up"),
            |e, table, dy| {
                let dtable = e.allocate(table.shape(), DType::F64, Category::Gradients, "gradient").expect("room");
                e.launch(Embedding::Grad { rows, accumulate: false }, &[&tokens(e), dy], &[&dtable]).expect("sums");
                dtable
            },
            &context,
        );
    }
}

#[test]
fn some_rows_of_a_tensor_are_read_and_written_in_place() {
    let executor = executor();
    let numbers: Vec<f64> = (0..12).map(f64::from).collect();
    let x = upload(&executor, &numbers).reshape([4, 3]);
    let rows = x.rows_view(1..3);
    assert_eq!((rows.shape().dims(), rows.bytes()), ([2, 3].as_slice(), 48));
    assert_eq!(values(&executor, &rows), (3..9).map(f64::from).collect::<Vec<_>>());
    assert_eq!(values(&executor, &rows.rows_view(1..2)), [6.0, 7.0, 8.0]);
    executor.launch(Elementwise::Scale(2.0), &[], &[&rows]).expect("scaled");
    assert_eq!(values(&executor, &x), [0.0, 1.0, 2.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 9.0, 10.0, 11.0]);
    drop(x);
    assert!(!rows.is_unique(), "what is not all of its buffer is never overwritten");
    let copy = executor.relu(rows.clone()).expect("a copy");
    assert!(!copy.shares_buffer(&rows));
}

#[test]
fn tokens_labels_and_shapes_that_cannot_be_are_refused() {
    let executor = executor();
    let tokens = executor.upload(HostSlice::U32(&[0, 4]), [2], DType::U32, "tokens").expect("no budget");
    let table = upload(&executor, &[0.0; 12]).reshape([4, 3]);
    let refused = executor.embedding(&tokens, &table);
    assert!(matches!(&refused, Err(Error::Kernel { message, .. }) if message.contains("token 4")), "{refused:?}");
    let s = AttentionShape { batch: 1, length: 2, heads: 3, kv_heads: 2, head_dim: 3, is_causal: true, window: 0 };
    let qkv = upload(&executor, &[0.0; 42]);
    let refused = executor.attention(&qkv, s);
    assert!(
        matches!(&refused, Err(Error::Kernel { message, .. }) if message.contains("3 heads share 2")),
        "{refused:?}"
    );
    let s = AttentionShape { heads: 3, kv_heads: 1, ..s };
    let refused = executor.rotary(qkv.clone(), s, 1e4, false);
    assert!(refused.is_err(), "{refused:?}");
    assert!(executor.attention(&qkv, AttentionShape { length: 3, ..s }).is_err());
}
