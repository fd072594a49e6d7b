//! Every kernel on the CPU: against a plain reference, against finite differences, against its rule of scratch, and
//! against itself on another number of threads. Shapes and numbers are fresh in every run; a failure prints the seed.

mod bench;
mod coded;
mod companded;
mod gathers;
mod int8;
mod optimizers;
mod pruning;
mod reference;
mod sequence;
mod slopes;
mod trials;

use bench::{Shapes, Threads, dry};
use plimsoll_engine::backend::ops::{
    Activation, Attention, Coded, Convolution, Depthwise, Elementwise, Gather, Int8, Lesson, Linear, Loss, Norm,
    Optimizer, Pool, Rotary,
};
use plimsoll_engine::{
    backend::{
        AttentionShape, DType, Kernel, Window,
        ops::{Rows, Update, UpdateRule},
    },
    device::{Processor, Target},
    selftest::{
        Outcome,
        cases::{Case, FLOATS, Operand, attention},
        compare::{Worst, allowed, rounding},
        draw::{Draw, fresh_seed},
    },
};
use trials::trials;

fn compare(case: &Case, outcome: &Outcome, context: &str) {
    let has_codes = matches!(
        case.kernel,
        Kernel::Optimizer(Optimizer::Update(Update {
            rule: UpdateRule::AdamW8(_) | UpdateRule::AdamW4 { .. } | UpdateRule::FlashAdamW { .. },
            ..
        }))
    );
    if has_codes || matches!(case.kernel, Kernel::Coded(Coded::Encode(_) | Coded::EncodeScales)) {
        // Their codes have tests of their own.
        return;
    }
    let want = reference::run(&case.kernel, &outcome.inputs, &outcome.before);
    for (i, ((want, got), (_, dtype))) in want.iter().zip(&outcome.after).zip(&case.outputs).enumerate() {
        for (j, (want, got)) in want.iter().zip(got).enumerate() {
            let worst = Worst::between(*got, *want, allowed(case, i, *want));
            assert!(worst.holds(), "{context}: output {i} of {dtype:?} at {j}: {got}, not {want}: {:?}", case.kernel);
        }
    }
}

#[test]
fn every_kernel_agrees_with_the_plain_reference_on_one_thread_and_on_two_alike() {
    let seed = fresh_seed();
    let (one, two) = (Threads::new(1), Threads::new(2));
    let mut draw = Draw::new(seed);
    for round in 0..12 {
        for dtype in FLOATS {
            // Small shapes for the edges, larger ones for tiles and threads.
            for trial in trials(&mut draw, dtype, if round % 4 == 3 { 17 } else { 6 }) {
                let (outcome, _) = one.launch(trial.kernel, &trial.inputs, &trial.outputs);
                compare(&trial, &outcome, &format!("seed {seed}, {dtype:?}"));
                let (again, _) = two.launch(trial.kernel, &trial.inputs, &trial.outputs);
                assert!(outcome == again, "seed {seed}, {dtype:?}: two threads differ from one: {:?}", trial.kernel);
            }
        }
    }
}

#[test]
fn a_launch_takes_no_more_than_its_rule_and_a_dry_run_books_the_same() {
    let seed = fresh_seed();
    let mut draw = Draw::new(seed);
    for count in [1, 2, 3] {
        let threads = Threads::new(count);
        for round in 0..8 {
            for dtype in FLOATS {
                for trial in trials(&mut draw, dtype, if round % 4 == 3 { 17 } else { 8 }) {
                    let context = format!("seed {seed}, {dtype:?}, {count} threads, {:?}", trial.kernel);
                    let (_, cost) = threads.launch(trial.kernel, &trial.inputs, &trial.outputs);
                    assert!(cost.measured <= cost.booked, "{cost:?}: {context}");
                    assert_eq!(cost.booked, dry(count, trial.kernel, &trial.inputs, &trial.outputs), "{context}");
                    assert!(count > 2 || cost.booked <= 1 << 20, "{cost:?}: {context}");
                }
            }
        }
    }
}

/// Rows of one number lie one after another, so that the crate takes the operands of such a product the other way round.
#[test]
fn attention_of_heads_of_one_number_stays_within_its_rule() {
    let (threads, mut draw) = (Threads::new(1), Draw::new(3));
    for dtype in FLOATS {
        for length in [17, 86, 130, 300] {
            let is_causal = length % 4 > 0;
            let s = AttentionShape { batch: 1, length, heads: 2, kv_heads: 1, head_dim: 1, is_causal, window: 0 };
            for case in attention::attention(&mut draw, dtype, s) {
                let (_, cost) = threads.launch(case.kernel, &case.inputs, &case.outputs);
                assert!(cost.measured <= cost.booked, "{cost:?}: {dtype:?} {:?}", case.kernel);
            }
        }
    }
}

#[test]
fn the_rule_stays_within_a_mebibyte_on_two_threads_at_every_size() {
    let seed = fresh_seed();
    let mut draw = Draw::new(seed);
    for _ in 0..20_000 {
        let dtype = draw.pick(&FLOATS);
        let mut w: Window = draw.window(64, false);
        w.batch = draw.between(1, 256);
        w.channels = draw.between(1, 700);
        w.filters = draw.between(1, 700);
        let s = AttentionShape {
            batch: 1,
            length: draw.between(1, 2048),
            heads: draw.between(1, 64),
            kv_heads: 1,
            head_dim: draw.between(1, 256),
            is_causal: draw.coin(),
            window: draw.between(0, 512),
        };
        let accumulate = draw.coin();
        for kernel in [
            Kernel::from(Linear::MatMul(draw.matmul(3000))),
            Kernel::from(Convolution::Forward(w)),
            Kernel::from(Convolution::InputGrad(w)),
            Kernel::from(Convolution::WeightGrad { window: w, accumulate }),
            Kernel::from(Depthwise::WeightGrad { window: w, accumulate }),
            Kernel::from(Norm::BatchGrad {
                extents: Rows { rows: w.out_pixels(), columns: w.channels * 4 },
                accumulate,
            }),
            Kernel::from(Int8::Product(w)),
            Kernel::from(Attention::Efficient(s)),
            Kernel::from(Attention::Plain(s)),
            Kernel::from(Rotary { shape: s, first: 0, base: 1e4, is_inverse: false }),
        ] {
            let bytes = kernel.scratch_bytes(dtype, &Target::Cpu(Processor::with_threads(2)));
            assert!(bytes <= 1 << 20, "seed {seed}: {bytes} for {dtype:?} {kernel:?}");
        }
    }
}

#[test]
fn the_gradient_of_pooling_agrees_with_the_plain_reference() {
    let seed = fresh_seed();
    let (one, two, mut draw) = (Threads::new(1), Threads::new(2), Draw::new(seed));
    for dtype in FLOATS.into_iter().cycle().take(60) {
        let w = draw.window(12, true);
        let x = (draw.numbers(w.batch * w.height * w.width * w.channels), dtype);
        let dy = (draw.numbers(w.out_pixels() * w.channels), dtype);
        let seen @ [_, dy_seen, index, dx] = &one.pool_and_back(w, &x, &dy);
        let want = reference::run(
            &Kernel::from(Pool::MaxGrad(w)),
            &[dy_seen.clone(), index.clone()],
            std::slice::from_ref(dx),
        );
        for (want, got) in want[0].iter().zip(dx) {
            let allowed = 2.0 * rounding(dtype).max(rounding(DType::F32)) * (1.0 + want.abs());
            assert!((want - got).abs() <= allowed, "seed {seed}: {got}, not {want}: {dtype:?} {w:?}");
        }
        assert!(*seen == two.pool_and_back(w, &x, &dy), "seed {seed}: two threads differ from one: {dtype:?} {w:?}");
    }
}

#[test]
fn nan_is_never_lost() {
    let threads = Threads::new(1);
    let nan = f64::NAN;
    for dtype in FLOATS {
        let one = |kernel, ins: &[Operand], outs: &[Operand]| threads.launch(kernel, ins, outs).0.after;
        assert!(one(Kernel::from(Activation::Relu), &[], &[(vec![nan, -1.0], dtype)])[0][0].is_nan());
        let gradient = one(Kernel::from(Activation::ReluGrad), &[(vec![nan], dtype)], &[(vec![3.0], dtype)]);
        assert_eq!(gradient[0], [3.0], "a gradient passes where the output is not a number");
        let w = Window { batch: 1, height: 1, width: 3, channels: 1, filters: 1, size: 1, stride: 1, padding: 0 };
        let w = Window { height: 3, size: 3, ..w };
        let x = vec![1.0, 2.0, 3.0, 9.0, nan, 9.0, 5.0, nan, 9.0];
        let pooled = one(Kernel::from(Pool::Max(w)), &[(x, dtype)], &[(vec![0.0], dtype), (vec![0.0], DType::U8)]);
        assert!(pooled[0][0].is_nan() && pooled[1][0] == 4.0, "the first NaN wins: {pooled:?}");
        let labels = (vec![0.0], DType::U32);
        let loss = one(
            Kernel::from(Loss::CrossEntropy { classes: 2 }),
            &[(vec![1.0, nan], dtype), labels],
            &[(vec![0.0; 2], DType::F64)],
        );
        assert!(loss[0][0].is_nan() && loss[0][1] == 0.0);
        assert!(
            one(Kernel::from(Optimizer::SumSquares), &[(vec![1.0, nan], dtype)], &[(vec![0.0], DType::F64)])[0][0]
                .is_nan()
        );
    }
    let huge = threads.launch(Optimizer::SumSquares, &[(vec![3e38; 40], DType::F32)], &[(vec![0.0], DType::F64)]);
    assert!(huge.0.after[0][0].is_finite(), "a finite f32 has a finite square in f64");
}

#[test]
fn operands_that_do_not_fit_are_an_error_and_not_a_panic() {
    use plimsoll_engine::{
        Error,
        backend::{Backend as _, Cpu, Executor, HostSlice},
        memory::{Category, Ledger},
    };
    let executor = Executor::new(Cpu::new(1), Ledger::new(None, false));
    let make = |n: usize, dtype| executor.allocate([n], dtype, Category::Batch, "operand").expect("no budget");
    let (short, long) = (make(3, DType::F32), make(4, DType::F32));
    let (narrow, labels, stats) = (make(4, DType::Bf16), make(1, DType::U32), make(2, DType::F64));
    let (bytes, one) =
        (executor.filled(0.0, [4], DType::U8, Category::Batch, "operand").expect("no budget"), make(1, DType::U32));
    executor.backend().write(&labels, HostSlice::U32(&[4])).expect("labels");
    let lesson = Lesson { temperature: 4.0, weight: 0.5 };
    let update = Update { rule: UpdateRule::Sgd, rate: 0.5, weight_decay: 0.0, grad_scale: 1.0 };
    for (kernel, inputs, outputs) in [
        (Kernel::from(Elementwise::Add), vec![&short], vec![&long]),
        (Kernel::from(Elementwise::Add), vec![&narrow], vec![&long]),
        (Kernel::from(Elementwise::Add), vec![&long], vec![&long]),
        (Kernel::from(Activation::Relu), vec![], vec![&labels]),
        (Kernel::from(Activation::Relu), vec![], vec![]),
        (Kernel::from(Loss::CrossEntropy { classes: 4 }), vec![&long, &labels], vec![&stats]),
        // Columns behind the classes are no classes, and there are no more classes than columns.
        (Kernel::from(Loss::CrossEntropy { classes: 3 }), vec![&long, &labels], vec![&stats]),
        (Kernel::from(Loss::CrossEntropy { classes: 5 }), vec![&long, &labels], vec![&stats]),
        (Kernel::from(Loss::Distil { classes: 4, lesson }), vec![&long, &long, &labels], vec![&stats]),
        (Kernel::from(Loss::Distil { classes: 4, lesson }), vec![&long, &short, &labels], vec![&stats]),
        (Kernel::from(Loss::DistilGrad { classes: 4, lesson, scale: 1.0 }), vec![&narrow, &labels], vec![&long]),
        (Kernel::from(Loss::SquaredError), vec![&long, &short], vec![&stats]),
        (Kernel::from(Loss::SquaredError), vec![&short, &labels], vec![&stats]),
        (Kernel::from(Optimizer::SumAllSquares { parts: 2, accumulate: true }), vec![&long], vec![&one]),
        (Kernel::from(Optimizer::SumAllSquares { parts: 1, accumulate: true }), vec![&labels], vec![&one]),
        (Kernel::from(Optimizer::UpdateAll { update, count: 2 }), vec![&long, &short], vec![&long, &short, &short]),
        (Kernel::from(Optimizer::UpdateAll { update, count: 2 }), vec![&long, &short], vec![&short, &long]),
        (Kernel::from(Optimizer::UpdateAll { update, count: 0 }), vec![], vec![]),
        // The place is 4, and there are four rows.
        (Kernel::from(Gather::Labels), vec![&bytes, &labels], vec![&one]),
        (Kernel::from(Gather::Tokens { scored: 1 }), vec![&bytes, &labels], vec![&one, &one]),
        (Kernel::from(Gather::Images), vec![&long, &short, &labels], vec![&long]),
    ] {
        let refused = executor.launch(kernel, &inputs, &outputs);
        assert!(matches!(refused, Err(Error::Kernel { .. })), "{kernel:?}: {refused:?}");
    }
    assert!(matches!(executor.backend().write(&long, HostSlice::F32(&[1.0])), Err(Error::Kernel { .. })));
    assert!(matches!(executor.backend().write(&long, HostSlice::U32(&[1; 4])), Err(Error::Kernel { .. })));
}
