//! 8-bit integers, in plain loops; and the slopes of numbers that are rounded as codes would be.

use plimsoll_engine::{
    backend::{
        DType, Kernel, Window,
        ops::{Follow, Int8},
    },
    selftest::draw::{Draw, fresh_seed},
};

use super::bench::Threads;

/// The distance of neighbouring codes, and the code of zero.
fn steps(range: &[f64]) -> (f32, f32) {
    let [low, high] = [range[0] as f32, range[1] as f32];
    let scale = (high - low) / 255.0;
    if scale == 0.0 { (1.0, 0.0) } else { (scale, (-low / scale).round_ties_even()) }
}

/// The code of a number before the ends are cut off.
fn step(x: f64, scale: f32) -> f32 {
    (x as f32 / scale).round_ties_even()
}

/// What the outputs of `kernel` become; `outs` holds them before.
pub(crate) fn run(kernel: &Int8, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match *kernel {
        Int8::Encode => {
            let rows = outs[1].len();
            let columns = ins[0].len() / rows;
            for row in 0..rows {
                let of = row * columns..(row + 1) * columns;
                let scale = row_scale(&ins[0][of.clone()]);
                let codes: Vec<i32> = ins[0][of.clone()].iter().map(|w| weight_step(*w, scale) as i32).collect();
                (outs[1][row], outs[2][row]) = (f64::from(scale), f64::from(codes.iter().sum::<i32>() as u32));
                outs[0][of].iter_mut().zip(codes).for_each(|(to, code)| *to = f64::from(code as u8));
            }
        }
        Int8::Observe(follow) => {
            let seen = |sign: f64| ins[0].iter().fold(0.0_f64, |most, x| most.max(sign * f64::from(*x as f32)));
            let (low, high) = (-seen(-1.0), seen(1.0));
            let range = &mut outs[0];
            let share = match follow {
                Follow::Widest => 0.0,
                Follow::Narrowing(share) => share,
            };
            range[0] = if low <= range[0] { low } else { range[0] + share * (low - range[0]) };
            range[1] = if high >= range[1] { high } else { range[1] + share * (high - range[1]) };
        }
        Int8::Code => {
            let (scale, zero) = steps(&ins[1]);
            let code = |x: &f64| f64::from((step(*x, scale) + zero).clamp(0.0, 255.0));
            outs[0] = ins[0].iter().map(code).collect();
        }
        Int8::Product(w) => product(&w, ins, &mut outs[0]),
        Int8::FakeWeight { columns } => {
            let rounded = |row: &[f64]| {
                let scale = row_scale(row);
                row.iter().map(|w| f64::from(weight_step(*w, scale) * scale)).collect::<Vec<_>>()
            };
            outs[0] = ins[0].chunks(columns).flat_map(rounded).collect();
        }
        Int8::Fake => {
            let (scale, zero) = steps(&ins[1]);
            let rounded = |x: &f64| f64::from(step(*x, scale).clamp(-zero, 255.0 - zero) * scale);
            let is_known = ins[1] != [0.0, 0.0];
            outs[0] = ins[0].iter().map(|x| if is_known { rounded(x) } else { *x }).collect();
        }
        Int8::FakeGrad => {
            let (scale, zero) = steps(&ins[1]);
            for (dx, x) in outs[0].iter_mut().zip(&ins[0]) {
                let is_inside = ins[1] == [0.0, 0.0] || (-zero..=255.0 - zero).contains(&step(*x, scale));
                *dx = if is_inside { *dx } else { 0.0 };
            }
        }
    }
}

fn row_scale(row: &[f64]) -> f32 {
    row.iter().fold(0.0_f32, |most, w| most.max((*w as f32).abs())) / 127.0
}

fn weight_step(w: f64, scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { (w as f32 / scale).round_ties_even() }
}

/// Every product of what the codes stand for, in f64.
fn product(w: &Window, ins: &[Vec<f64>], y: &mut [f64]) {
    let (scale, zero) = steps(&ins[1]);
    let x = |i: usize| ins[0][i] - f64::from(zero);
    let weight = |i: usize| f64::from(ins[2][i] as u8 as i8);
    for (at, y) in y.iter_mut().enumerate() {
        let (pixel, filter) = (at / w.filters, at % w.filters);
        let (image, place) = (pixel / (w.out_height() * w.out_width()), pixel % (w.out_height() * w.out_width()));
        let (top, left) = (place / w.out_width() * w.stride, place % w.out_width() * w.stride);
        let mut sum = 0.0;
        for tap in 0..w.taps() {
            let (row, column, channel) = (tap / w.channels / w.size, tap / w.channels % w.size, tap % w.channels);
            let inside = |at: usize, extent: usize| at.checked_sub(w.padding).filter(|at| *at < extent);
            if let (Some(v), Some(u)) = (inside(top + row, w.height), inside(left + column, w.width)) {
                sum +=
                    x(((image * w.height + v) * w.width + u) * w.channels + channel) * weight(filter * w.taps() + tap);
            }
        }
        let bias = ins.get(5).map_or(0.0, |bias| bias[filter]);
        *y = sum * f64::from(scale) * ins[3][filter] + bias;
    }
}

/// Rounding has no slope, so that a small difference of an input shows none. Over many steps of the codes a rounded number
/// rises as the number itself does, and beyond the range it does not rise: that mean slope is what the estimator states.
#[test]
fn the_slope_of_rounded_inputs_is_their_mean_slope_inside_the_range_and_none_outside() {
    let seed = fresh_seed();
    let (threads, mut draw) = (Threads::new(2), Draw::new(seed));
    for _ in 0..20 {
        let count = draw.between(1, 400);
        // A range of whole steps of 1/64, so that its ends are codes.
        let (low, high) = (-(draw.between(0, 100) as f64), draw.between(1, 155) as f64);
        let (low, high) = (low / 64.0, (high.max(255.0 + low)) / 64.0);
        let range = (vec![low, high], DType::F32);
        let scale = (high - low) / 255.0;
        let x: Vec<f64> = draw.numbers(count).iter().map(|x| 4.0 * x).collect();
        let fake = |shift: f64| {
            let x = x.iter().map(|x| x + shift).collect();
            threads.launch(Int8::Fake, &[(x, DType::F64), range.clone()], &[(vec![0.0; count], DType::F64)]).0.after
        };
        // Whole steps apart, every number lies as far from its code.
        let reach = 8.0 * scale;
        let (above, below) = (fake(reach), fake(-reach));
        let dx = draw.numbers(count);
        let outcome = threads.launch(
            Kernel::from(Int8::FakeGrad),
            &[(x.clone(), DType::F64), range],
            &[(dx.clone(), DType::F64)],
        );
        for (i, x) in x.iter().enumerate() {
            let slope = (above[0][i] - below[0][i]) / (2.0 * reach);
            let given = outcome.0.after[0][i];
            let margin = reach + scale;
            if (low + margin..=high - margin).contains(x) {
                assert!((slope - 1.0).abs() < 1e-4 && given == dx[i], "seed {seed}: {x}: {slope}, {given}");
            } else if *x < low - margin || *x > high + margin {
                assert!(slope == 0.0 && given == 0.0, "seed {seed}: {x}: {slope}, {given}");
            }
        }
    }
}

/// The largest number of a row is a code, and no number is further than half a step from its own: of weights nothing lies
/// outside, and the gradient by what they are rounded to is that by the weights.
#[test]
fn rounded_weights_are_within_half_a_step_and_a_code_is_what_they_are_rounded_to() {
    let seed = fresh_seed();
    let (threads, mut draw) = (Threads::new(2), Draw::new(seed));
    for _ in 0..20 {
        let [rows, columns] = [draw.between(1, 20), draw.between(1, 300)];
        let w = (draw.numbers(rows * columns), DType::F32);
        let rounded = threads.launch(Int8::FakeWeight { columns }, std::slice::from_ref(&w), std::slice::from_ref(&w));
        let outputs =
            [(vec![0.0; rows * columns], DType::U8), (vec![0.0; rows], DType::F32), (vec![0.0; rows], DType::U32)];
        let coded = threads.launch(Int8::Encode, &[w], &outputs).0;
        let (w, rounded) = (&coded.inputs[0], &rounded.0.after[0]);
        for (i, (w, rounded)) in w.iter().zip(rounded).enumerate() {
            let scale = coded.after[1][i / columns];
            assert!((w - rounded).abs() <= scale * 0.5001, "seed {seed}: {w} became {rounded} by {scale}");
            let code = f64::from(coded.after[0][i] as u8 as i8);
            assert!(
                (code * scale - rounded).abs() <= rounded.abs() * 1e-6,
                "seed {seed}: {code} by {scale}: {rounded}"
            );
        }
    }
}
