//! Attention, and the rotary positions of its queries and keys.

use plimsoll_engine::backend::{
    AttentionShape,
    ops::{Attention, CachedAttention, Rotary},
};

pub(super) fn run(kernel: &Attention, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match *kernel {
        Attention::Efficient(s) => attend(&s, &ins[0], outs, false),
        Attention::Plain(s) => attend(&s, &ins[0], outs, true),
        Attention::EfficientGrad(s) => {
            let probability = |head: &Head, i: usize, j: usize| {
                (head.logit(&ins[0], i, j) - ins[2][(head.sequence * s.heads + head.head) * s.length + i]).exp()
            };
            let mean = |head: &Head, i: usize| {
                let place = head.result(i)..head.result(i) + s.head_dim;
                ins[1][place.clone()].iter().zip(&ins[3][place]).map(|(y, dy)| y * dy).sum()
            };
            gradient(&s, &ins[0], &ins[3], probability, mean, &mut outs[0]);
        }
        Attention::PlainGrad(s) => {
            let probability = |head: &Head, i: usize, j: usize| {
                ins[1][((head.sequence * s.heads + head.head) * s.length + i) * s.length + j]
            };
            let mean = |head: &Head, i: usize| {
                let dy = &ins[2][head.result(i)..head.result(i) + s.head_dim];
                (0..s.length).map(|j| probability(head, i, j) * head.of_value(&ins[0], dy, j)).sum()
            };
            gradient(&s, &ins[0], &ins[2], probability, mean, &mut outs[0]);
        }
        Attention::Cached(shape) => cached(&shape, ins, &mut outs[0]),
    }
}

pub(super) fn turn(Rotary { shape: s, first, base, is_inverse }: &Rotary, qkv: &mut [f64]) {
    let half = s.head_dim / 2;
    for (row, qkv) in qkv.chunks_mut(s.packed()).enumerate() {
        for head in qkv[..(s.heads + s.kv_heads) * s.head_dim].chunks_mut(s.head_dim) {
            for i in 0..half {
                let angle = (first + row % s.length) as f64 * base.powf(-((2 * i) as f64) / s.head_dim as f64);
                let (sin, cos) = if *is_inverse { (-angle).sin_cos() } else { angle.sin_cos() };
                let (a, b) = (head[i], head[i + half]);
                (head[i], head[i + half]) = (a * cos - b * sin, a * sin + b * cos);
            }
        }
    }
}

/// One head of one sequence.
struct Head<'a> {
    s: &'a AttentionShape,
    sequence: usize,
    head: usize,
}

impl Head<'_> {
    fn all(s: &AttentionShape) -> impl Iterator<Item = Head<'_>> {
        (0..s.batch * s.heads).map(|i| Head { s, sequence: i / s.heads, head: i % s.heads })
    }

    /// Where the queries, keys and values of a position lie.
    fn places(&self, position: usize) -> [usize; 3] {
        let (row, shared) =
            ((self.sequence * self.s.length + position) * self.s.packed(), self.s.heads / self.s.kv_heads);
        let at = |head: usize| row + head * self.s.head_dim;
        let key = self.s.heads + self.head / shared;
        [at(self.head), at(key), at(key + self.s.kv_heads)]
    }

    fn result(&self, position: usize) -> usize {
        (self.sequence * self.s.length + position) * self.s.width() + self.head * self.s.head_dim
    }

    /// The gradient of a probability of value `j`, from its row's `dy`.
    fn of_value(&self, qkv: &[f64], dy: &[f64], j: usize) -> f64 {
        dy.iter().zip(&qkv[self.places(j)[2]..]).map(|(dy, v)| dy * v).sum()
    }

    fn logit(&self, qkv: &[f64], i: usize, j: usize) -> f64 {
        let ([q, ..], [_, k, _], n) = (self.places(i), self.places(j), self.s.head_dim);
        qkv[q..q + n].iter().zip(&qkv[k..k + n]).map(|(q, k)| q * k).sum::<f64>() / (n as f64).sqrt()
    }
}

fn attend(s: &AttentionShape, qkv: &[f64], outs: &mut [Vec<f64>], keeps: bool) {
    outs[0].fill(0.0);
    for head in Head::all(s) {
        for i in 0..s.length {
            let logit = |j: usize| if s.sees(i, j) { head.logit(qkv, i, j) } else { f64::NEG_INFINITY };
            let logits: Vec<f64> = (0..s.length).map(logit).collect();
            let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let lse = max + logits.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
            let row = (head.sequence * s.heads + head.head) * s.length + i;
            if !keeps {
                outs[1][row] = lse;
            }
            for (j, logit) in logits.iter().enumerate() {
                let p = (logit - lse).exp();
                if keeps {
                    outs[1][row * s.length + j] = p;
                }
                for d in 0..s.head_dim {
                    outs[0][head.result(i) + d] += p * qkv[head.places(j)[2] + d];
                }
            }
        }
    }
}

/// The last rows of attention over packed rows; the rows before them have no queries.
fn cached(cached: &CachedAttention, ins: &[Vec<f64>], y: &mut [f64]) {
    let (s, queries, row) = (cached.whole(), cached.shape.width(), cached.row());
    let mut qkv = vec![0.0; s.rows() * s.packed()];
    for (position, packed) in qkv.chunks_mut(s.packed()).enumerate() {
        packed[queries..].copy_from_slice(&ins[1][position * row..][..row]);
        if let Some(new) = position.checked_sub(cached.seen) {
            packed[..queries].copy_from_slice(&ins[0][new * s.packed()..][..queries]);
        }
    }
    let mut outs = [vec![0.0; s.rows() * s.width()], vec![0.0; s.heads * s.length]];
    attend(&s, &qkv, &mut outs, false);
    y.copy_from_slice(&outs[0][cached.seen * s.width()..]);
}

fn gradient(
    s: &AttentionShape,
    qkv: &[f64],
    dy: &[f64],
    probability: impl Fn(&Head, usize, usize) -> f64,
    mean: impl Fn(&Head, usize) -> f64,
    dqkv: &mut [f64],
) {
    dqkv.fill(0.0);
    for head in Head::all(s) {
        for i in 0..s.length {
            let dy = &dy[head.result(i)..head.result(i) + s.head_dim];
            let mean = mean(&head, i);
            for j in (0..s.length).filter(|&j| s.sees(i, j)) {
                let p = probability(&head, i, j);
                let slope = p * (head.of_value(qkv, dy, j) - mean) / (s.head_dim as f64).sqrt();
                let ([q, ..], [_, k, v]) = (head.places(i), head.places(j));
                for d in 0..s.head_dim {
                    dqkv[q + d] += slope * qkv[k + d];
                    dqkv[k + d] += slope * qkv[q + d];
                    dqkv[v + d] += p * dy[d];
                }
            }
        }
    }
}
