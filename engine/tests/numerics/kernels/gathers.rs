//! Batches gathered from a training set, in plain loops.

use plimsoll_engine::backend::IGNORE_INDEX;

/// [`Gather::Images`](plimsoll_engine::backend::ops::Gather::Images).
pub(crate) fn images(ins: &[Vec<f64>], y: &mut [f64]) {
    let (size, row) = (y.len() / ins[2].len(), ins[1].len() / 2);
    for (i, y) in y.iter_mut().enumerate() {
        let pixel = ins[0][ins[2][i / size] as usize * size + i % size];
        // A product and a sum of f32, each rounded.
        *y = f64::from(pixel as f32 * ins[1][i % row] as f32 + ins[1][row + i % row] as f32);
    }
}

/// [`Gather::Labels`](plimsoll_engine::backend::ops::Gather::Labels).
pub(crate) fn labels(ins: &[Vec<f64>], y: &mut [f64]) {
    let targets = y.len() / ins[1].len();
    y.iter_mut().enumerate().for_each(|(i, y)| *y = ins[0][ins[1][i / targets] as usize * targets + i % targets]);
}

/// [`Gather::Tokens`](plimsoll_engine::backend::ops::Gather::Tokens).
pub(crate) fn tokens(scored: usize, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    let length = outs[0].len() / ins[1].len();
    for i in 0..outs[0].len() {
        let at = ins[1][i / length] as usize + i % length;
        let is_scored = i % length >= length - scored;
        (outs[0][i], outs[1][i]) = (ins[0][at], if is_scored { ins[0][at + 1] } else { f64::from(IGNORE_INDEX) });
    }
}
