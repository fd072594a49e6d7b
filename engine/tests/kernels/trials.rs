//! Launches of every kernel, with random shapes and operands.

mod sequence;

pub(crate) use sequence::shape;

use plimsoll_engine::{
    backend::{
        DType, Kernel,
        kernel::{Curve, Moments, Rows, Rule, Update},
    },
    data::UNSCORED,
};

use crate::{
    bench::{Draw, FLOATS, Operand},
    gathers,
};

/// A launch to try, and how many terms its longest sum has.
pub(crate) struct Trial {
    pub(crate) kernel: Kernel,
    pub(crate) inputs: Vec<Operand>,
    pub(crate) outputs: Vec<Operand>,
    pub(crate) terms: usize,
}

impl Trial {
    pub(crate) fn new(kernel: Kernel, inputs: Vec<Operand>, outputs: Vec<Operand>, terms: usize) -> Self {
        Self { kernel, inputs, outputs, terms }
    }
}

fn other_type(draw: &mut Draw) -> DType {
    draw.pick(&FLOATS)
}

/// f32 as often as the type itself, where a sum may be wider than its terms.
fn sum_type(draw: &mut Draw, dtype: DType) -> DType {
    if dtype == DType::F64 { dtype } else { draw.pick(&[dtype, DType::F32]) }
}

fn products(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let p = draw.matmul(largest * 16);
    let mut trials = vec![];
    let numbers = |draw: &mut Draw, count: usize, dtype: DType| (draw.numbers(count), dtype);
    let sum = sum_type(draw, dtype);
    let operands = vec![numbers(draw, p.m * p.k, dtype), numbers(draw, p.k * p.n, dtype)];
    trials.push(Trial::new(Kernel::MatMul(p), operands, vec![numbers(draw, p.m * p.n, sum)], p.k));
    for own in [false, true] {
        let w = draw.window(largest, own);
        let x = numbers(draw, w.batch * w.height * w.width * w.channels, dtype);
        let y = numbers(draw, w.out_pixels() * w.filters, dtype);
        let weights = if own { w.taps() } else { w.taps() * w.filters };
        let dw = numbers(draw, weights, sum);
        let weights = numbers(draw, weights, dtype);
        let accumulate = draw.coin();
        let (pixels, taps) = (w.out_pixels(), w.taps());
        let [forward, input, weight] = if own {
            [Kernel::Depthwise(w), Kernel::DepthwiseInputGrad(w), Kernel::DepthwiseWeightGrad { window: w, accumulate }]
        } else {
            [Kernel::Conv2d(w), Kernel::Conv2dInputGrad(w), Kernel::Conv2dWeightGrad { window: w, accumulate }]
        };
        trials.push(Trial::new(forward, vec![x.clone(), weights.clone()], vec![y.clone()], taps));
        trials.push(Trial::new(input, vec![y.clone(), weights], vec![x.clone()], taps * w.filters));
        trials.push(Trial::new(weight, vec![x, y], vec![dw], pixels));
    }
    trials
}

fn streams(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let (rows, columns) = (draw.between(1, largest * 8), draw.between(1, largest * 8));
    let n = rows * columns;
    let numbers = |draw: &mut Draw, count: usize, dtype: DType| (draw.numbers(count), dtype);
    let (x, y) = (numbers(draw, n, dtype), numbers(draw, n, dtype));
    let row = numbers(draw, columns, dtype);
    let (sum, other) = (sum_type(draw, dtype), draw.pick(&FLOATS));
    let label = |draw: &mut Draw| if draw.between(0, 4) == 0 { UNSCORED } else { draw.between(0, columns - 1) as u32 };
    let labels = ((0..rows).map(|_| f64::from(label(draw))).collect(), DType::U32);
    let bias = Kernel::BiasGrad { accumulate: draw.coin() };
    let w = draw.window(largest, true);
    let image = numbers(draw, w.batch * w.height * w.width * w.channels, dtype);
    let out = (vec![0.0; w.out_pixels() * w.channels], dtype);
    let index = (vec![0.0; w.out_pixels() * w.channels], DType::U8);
    let out_gradient = draw.numbers(w.out_pixels() * w.channels);
    let images = draw.between(1, 3);
    let curve = draw.pick(&[Curve::Gelu, Curve::GeluTanh, Curve::Silu]);
    let wide: Operand = (x.0.iter().map(|x| 5.0 * x).collect(), dtype);
    let (several, means) = (numbers(draw, images * n, dtype), numbers(draw, images * columns, dtype));
    vec![
        Trial::new(Kernel::Fill(0.25), vec![], vec![y.clone()], 1),
        Trial::new(Kernel::Uniform { bound: 0.7, key: n as u64 }, vec![], vec![y.clone()], 1),
        Trial::new(Kernel::Cast, vec![x.clone()], vec![(y.0.clone(), other)], 1),
        Trial::new(Kernel::AddBias, vec![row.clone()], vec![y.clone()], 2),
        Trial::new(bias, vec![x.clone()], vec![(row.0, sum)], rows),
        Trial::new(Kernel::Relu, vec![], vec![y.clone()], 1),
        Trial::new(Kernel::ReluGrad, vec![x.clone()], vec![y.clone()], 1),
        Trial::new(Kernel::Relu6, vec![], vec![(y.0.iter().map(|y| 9.0 * y).collect(), dtype)], 1),
        Trial::new(
            Kernel::Relu6Grad,
            vec![(x.0.iter().map(|x| (9.0 * x).clamp(0.0, 6.0)).collect(), dtype)],
            vec![y.clone()],
            1,
        ),
        Trial::new(Kernel::Add, vec![x.clone()], vec![y.clone()], 2),
        Trial::new(Kernel::Scale(-0.375), vec![], vec![y.clone()], 1),
        Trial::new(Kernel::SumSquares, vec![x.clone()], vec![(vec![0.5], DType::F64)], n),
        Trial::new(Kernel::Clip { limit: 0.5 }, vec![(vec![9.0], DType::F64)], vec![(vec![0.0], DType::F64)], 2),
        Trial::new(Kernel::Clip { limit: 4.0 }, vec![(vec![9.0], DType::F64)], vec![(vec![0.0], DType::F64)], 2),
        Trial::new(Kernel::CrossEntropy, vec![x, labels.clone()], vec![(vec![0.5, 2.0], DType::F64)], n),
        Trial::new(Kernel::CrossEntropyGrad { scale: 0.5 }, vec![labels], vec![y.clone()], columns),
        Trial::new(Kernel::Curve(curve), vec![wide.clone()], vec![y.clone()], 32),
        Trial::new(Kernel::CurveGrad(curve), vec![wide], vec![y.clone()], 64),
        Trial::new(Kernel::Dropout { share: 0.25, key: n as u64 }, vec![], vec![y.clone()], 2),
        Trial::new(Kernel::AvgPool(w), vec![image.clone()], vec![out.clone()], w.size * w.size),
        Trial::new(Kernel::AvgPoolGrad(w), vec![(out_gradient, dtype)], vec![image.clone()], w.size * w.size),
        Trial::new(
            Kernel::GlobalPool { pixels: rows, channels: columns },
            vec![several.clone()],
            vec![means.clone()],
            rows,
        ),
        Trial::new(Kernel::GlobalPoolGrad { pixels: rows, channels: columns }, vec![means], vec![several], 1),
        Trial::new(Kernel::MaxPool(w), vec![image.clone()], vec![out.clone()], 1),
        Trial::new(Kernel::MaxPool(w), vec![image], vec![out, index], 1),
    ]
}

fn norms(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let (rows, columns) = (draw.between(2, largest * 50), draw.between(1, largest * 12));
    let extents = Rows { rows, columns };
    let (weight, sums) = (sum_type(draw, dtype), if dtype == DType::F64 { dtype } else { DType::F32 });
    let x = (draw.numbers(rows * columns).iter().map(|x| x + 3.0).collect(), dtype);
    let mut vector = |shift: f64, dtype: DType| (draw.numbers(columns).iter().map(|x| x + shift).collect(), dtype);
    let (scale, offset) = (vector(0.0, weight), vector(0.0, weight));
    let (mean, deviation) = (vector(3.0, sums), vector(1.5, sums));
    let mut outputs = vec![x.clone(), mean.clone(), mean.clone()];
    let fixed = vec![mean.clone(), deviation.clone(), scale.clone(), offset.clone()];
    let again = vec![x.clone(), mean.clone(), deviation.clone(), scale.clone(), offset.clone()];
    let kernel = Kernel::BatchNorm { extents, epsilon: 1e-3, momentum: 0.125 };
    let inputs = vec![x.clone(), scale.clone(), offset.clone()];
    let plain = Trial::new(kernel, inputs.clone(), outputs.clone(), rows * 4);
    outputs.extend([mean.clone(), deviation.clone()]);
    let gradient = Kernel::BatchNormGrad { extents, accumulate: draw.coin() };
    let dy = (draw.numbers(rows * columns), dtype);
    let row_mean = (draw.numbers(rows).iter().map(|x| x + 3.0).collect(), sums);
    let row_deviation: Operand = (draw.numbers(rows).iter().map(|x| x + 1.5).collect(), sums);
    let [layer, rms] = [Kernel::LayerNorm { extents, epsilon: 1e-3 }, Kernel::RmsNorm { extents, epsilon: 1e-3 }];
    let accumulate = draw.coin();
    let layer_gradient = Kernel::LayerNormGrad { extents, accumulate };
    let rms_gradient = Kernel::RmsNormGrad { extents, accumulate };
    let (saved, more) = ([x.clone(), row_mean.clone(), row_deviation.clone(), scale.clone()], (rows + columns) * 64);
    let without_mean = vec![x.clone(), row_deviation.clone(), scale.clone()];
    let dx = vec![dy.clone(), scale.clone(), offset.clone()];
    let normalised = vec![dy.clone(), row_mean, row_deviation.clone()];
    vec![
        Trial::new(layer, inputs.clone(), normalised, columns * 16),
        Trial::new(layer_gradient, saved.to_vec(), dx.clone(), more),
        Trial::new(rms, inputs[..2].to_vec(), vec![dy.clone(), row_deviation], columns * 16),
        Trial::new(rms_gradient, without_mean, dx[..2].to_vec(), more),
        plain,
        Trial::new(kernel, inputs, outputs, rows * 4),
        Trial::new(gradient, vec![x.clone(), mean, deviation, scale.clone()], vec![dy, scale, offset], rows * 16),
        Trial::new(Kernel::BatchNormAgain { adds: false }, again[1..].to_vec(), vec![x.clone()], 64),
        Trial::new(Kernel::BatchNormAgain { adds: draw.coin() }, again, vec![x.clone()], 64),
        Trial::new(Kernel::BatchNormFixed { epsilon: 1e-3 }, fixed, vec![x], 64),
    ]
}

fn updates(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let n = draw.between(1, largest * largest * 64);
    let (rate, weight_decay, grad_scale) = (0.0625, 0.125, 0.5);
    let step = draw.between(1, 50) as u64;
    let moments = Moments { beta1: 0.875, beta2: 0.9375, epsilon: 1e-3, step };
    let momentum = 0.875;
    let extents = Rows { rows: draw.between(2, largest * 50), columns: draw.between(2, largest * 12) };
    let vector = Rows { rows: 1, columns: n };
    let rules = [
        Rule::Sgd,
        Rule::Momentum { momentum },
        Rule::Nesterov { momentum },
        Rule::Lion { beta1: 0.875, beta2: 0.9375 },
        Rule::Adam(moments),
        Rule::AdamW(moments),
        Rule::AdamW8(moments),
        Rule::Adafactor { extents: vector, step },
        Rule::Adafactor { extents, step },
    ];
    let mut trials = vec![];
    for rule in rules {
        let narrow = matches!(dtype, DType::Bf16 | DType::F16);
        // The weight's own type, or f32 with gradients of either width and a narrow copy.
        let (weight, grad) =
            if narrow && draw.coin() { (DType::F32, draw.pick(&[dtype, DType::F32])) } else { (dtype, dtype) };
        let sums = if dtype == DType::F64 { dtype } else { DType::F32 };
        let (mut count, mut positive) =
            (n, |count| (draw.numbers(count).iter().map(|v| v.abs() + 0.125).collect(), sums));
        let kept: Vec<Operand> = match rule {
            Rule::Sgd => vec![],
            Rule::Momentum { .. } | Rule::Nesterov { .. } | Rule::Lion { .. } => vec![(draw.numbers(n), weight)],
            Rule::Adam(_) | Rule::AdamW(_) => {
                let second = draw.numbers(n).iter().map(|v| v.abs()).collect();
                vec![(draw.numbers(n), weight), (second, weight)]
            }
            Rule::AdamW8(_) => {
                let scales: Operand = (vec![0.5; n.div_ceil(Rule::BLOCK)], DType::F32);
                vec![(vec![40.0; n], DType::U8), scales.clone(), (vec![200.0; n], DType::U8), scales]
            }
            Rule::Adafactor { extents: Rows { rows: 1, columns }, .. } => vec![positive(columns)],
            Rule::Adafactor { extents: Rows { rows, columns }, .. } => {
                count = rows * columns;
                vec![positive(rows), positive(columns)]
            }
        };
        let mut outputs: Vec<Operand> = [(draw.numbers(count), weight)].into_iter().chain(kept).collect();
        if weight != dtype {
            outputs.push((vec![0.0; count], dtype));
        }
        let kernel = Kernel::Update(Update { rule, rate, weight_decay, grad_scale });
        let terms = if matches!(rule, Rule::Adafactor { .. }) { count } else { 4 };
        // Every other one with a scale from the device.
        let scale = trials.len().is_multiple_of(2).then(|| (vec![0.75], DType::F64));
        let inputs = [(draw.numbers(count), grad)].into_iter().chain(scale).collect();
        trials.push(Trial::new(kernel, inputs, outputs, terms));
    }
    trials
}

pub(crate) fn trials(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let mut trials = products(draw, dtype, largest);
    trials.extend(streams(draw, dtype, largest));
    trials.extend(norms(draw, dtype, largest));
    trials.extend(updates(draw, dtype, largest));
    trials.extend(gathers::trials(draw, dtype, largest));
    trials.extend(sequence::moves(draw, dtype, largest));
    trials.extend(sequence::attention(draw, dtype, largest));
    trials
}
