//! Launches that gather batches from a training set on the device, and the same in plain loops.

use plimsoll_engine::{
    backend::{DType, Kernel},
    data::UNSCORED,
};

use crate::{
    bench::{Draw, Operand},
    trials::Trial,
};

/// Sets of every type, and places anywhere in them.
pub(crate) fn trials(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let (samples, batch) = (draw.between(1, largest * 4), draw.between(1, largest * 4));
    let integers = |draw: &mut Draw, count: usize, most: usize| -> Vec<f64> {
        (0..count).map(|_| draw.between(0, most) as f64).collect()
    };
    let places: Operand = (integers(draw, batch, samples - 1), DType::U32);
    let (row, rows) = (draw.between(1, largest * 3), draw.between(1, largest));
    let pixels = (integers(draw, samples * row * rows, 255), DType::U8);
    let scaling = (draw.numbers(2 * row), DType::F32);
    let images = (vec![0.0; batch * row * rows], dtype);
    let wide = if draw.coin() { (DType::U8, 255) } else { (DType::U32, 100_000) };
    let targets = draw.between(1, largest * 4);
    let labels = (integers(draw, samples * targets, wide.1), wide.0);
    let length = draw.between(1, largest * 4);
    let tokens = (integers(draw, samples + length, wide.1), wide.0);
    let out = |count: usize| (vec![7.0; count], DType::U32);
    let scored = draw.between(1, length);
    vec![
        Trial::new(Kernel::GatherImages, vec![pixels, scaling, places.clone()], vec![images], 2),
        Trial::new(Kernel::GatherLabels, vec![labels, places.clone()], vec![out(batch * targets)], 1),
        Trial::new(
            Kernel::GatherTokens { scored },
            vec![tokens, places],
            vec![out(batch * length), out(batch * length)],
            1,
        ),
    ]
}

/// [`Kernel::GatherImages`].
pub(crate) fn images(ins: &[Vec<f64>], y: &mut [f64]) {
    let (size, row) = (y.len() / ins[2].len(), ins[1].len() / 2);
    for (i, y) in y.iter_mut().enumerate() {
        let pixel = ins[0][ins[2][i / size] as usize * size + i % size];
        // A product and a sum of f32, each rounded.
        *y = f64::from(pixel as f32 * ins[1][i % row] as f32 + ins[1][row + i % row] as f32);
    }
}

/// [`Kernel::GatherLabels`].
pub(crate) fn labels(ins: &[Vec<f64>], y: &mut [f64]) {
    let targets = y.len() / ins[1].len();
    y.iter_mut().enumerate().for_each(|(i, y)| *y = ins[0][ins[1][i / targets] as usize * targets + i % targets]);
}

/// [`Kernel::GatherTokens`].
pub(crate) fn tokens(scored: usize, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    let length = outs[0].len() / ins[1].len();
    for i in 0..outs[0].len() {
        let at = ins[1][i / length] as usize + i % length;
        let is_scored = i % length >= length - scored;
        (outs[0][i], outs[1][i]) = (ins[0][at], if is_scored { ins[0][at + 1] } else { f64::from(UNSCORED) });
    }
}
