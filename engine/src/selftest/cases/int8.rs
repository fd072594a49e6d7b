//! 8-bit integers: codes of random elements, products of random codes, and numbers rounded as codes would be.

use super::{Case, Extent, Operand, kernel_names};
use crate::{
    backend::{
        DType, Window,
        ops::{Follow, Int8},
    },
    selftest::draw::Draw,
};

kernel_names! {
    Int8;
    Int8::Encode => "int8-encode-weight",
    Int8::Observe(_) => "int8-observe",
    Int8::Code => "int8-encode-input",
    Int8::Product(_) => "int8-product",
    Int8::FakeWeight { .. } => "int8-round-weight",
    Int8::Fake => "int8-round-input",
    Int8::FakeGrad => "int8-round-input-gradient",
}

/// Ranges, one of which has not seen a tensor, and one that not all elements lie in.
const RANGES: [[f64; 2]; 4] = [[-0.5, 0.75], [0.0, 0.0], [0.0, 2.0], [-1.5, 0.0]];

fn range(i: usize) -> Operand {
    (RANGES[i % RANGES.len()].to_vec(), DType::F32)
}

/// Every kernel but products, on `[rows, columns]`.
pub fn codes(draw: &mut Draw, dtype: DType, [rows, columns]: [usize; 2]) -> Vec<Case> {
    let n = rows * columns;
    let mut numbers = || (draw.numbers(n), dtype);
    let (x, w, dx) = (numbers(), numbers(), numbers());
    let bytes = || (vec![7.0; n], DType::U8);
    let outputs = vec![bytes(), (vec![7.0; rows], DType::F32), (vec![7.0; rows], DType::U32)];
    let mut cases = vec![
        Case::new(Int8::Encode, vec![w.clone()], outputs, 1),
        Case::new(Int8::FakeWeight { columns }, vec![w.clone()], vec![w], 1),
    ];
    for i in 0..RANGES.len() {
        for follow in [Follow::Widest, Follow::Narrowing(0.125)] {
            cases.push(Case::new(Int8::Observe(follow), vec![x.clone()], vec![range(i)], 1));
        }
        cases.push(Case::new(Int8::Code, vec![x.clone(), range(i)], vec![bytes()], 1));
        cases.push(Case::new(Int8::Fake, vec![x.clone(), range(i)], vec![x.clone()], 1));
        cases.push(Case::new(Int8::FakeGrad, vec![x.clone(), range(i)], vec![dx.clone()], 1));
    }
    cases
}

/// A product with a bias and one without.
pub fn products(draw: &mut Draw, dtype: DType, w: Window) -> Vec<Case> {
    let (taps, filters) = (w.taps(), w.filters);
    let of = |i: usize, draw: &mut Draw| {
        let x = (draw.integers(w.elements(), 255), DType::U8);
        let signed: Vec<i32> = draw.integers(filters * taps, 254).iter().map(|code| *code as i32 - 127).collect();
        let sums = signed.chunks(taps).map(|row| f64::from(row.iter().sum::<i32>() as u32)).collect();
        let codes = signed.iter().map(|code| f64::from(*code as u8)).collect();
        // At this size results are about one.
        let scale = 1.0 / (64.0 * 64.0 * (taps as f64).sqrt());
        let scales = draw.numbers(filters).iter().map(|x| f64::from(((x.abs() + 0.25) * scale) as f32)).collect();
        let mut inputs = vec![x, (RANGES[0].iter().map(|end| end * 204.0).collect(), DType::F32)];
        inputs.extend([(codes, DType::U8), (scales, DType::F32), (sums, DType::U32)]);
        inputs.extend((i == 0).then(|| (draw.numbers(filters), dtype)));
        Case::new(Int8::Product(w), inputs, vec![(draw.numbers(w.out_elements()), dtype)], 1)
    };
    vec![of(0, draw), of(1, draw)]
}

/// Rows and columns.
const SIZES: [[usize; 2]; 6] = [[3, 71], [7, 257], [1, 1], [65, 33], [2, 4097], [9, 16_384]];

/// `batch, side, channels, filters, size, stride, padding`.
const WINDOWS: [[usize; 7]; 9] = [
    [2, 5, 3, 5, 3, 1, 1],
    [7, 1, 20, 9, 1, 1, 0],
    [2, 7, 36, 300, 1, 1, 0],
    [1, 9, 4, 6, 3, 2, 1],
    [1, 4, 130, 33, 3, 1, 1],
    [2, 6, 16, 300, 1, 2, 0],
    [40, 1, 1100, 17, 1, 1, 0],
    [1, 1, 1, 1, 1, 1, 0],
    [3, 8, 8, 12, 5, 1, 2],
];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for size in extent.of(&SIZES) {
        cases.extend(codes(draw, dtype, *size));
    }
    for [batch, side, channels, filters, size, stride, padding] in extent.of(&WINDOWS) {
        let (height, width) = (*side, *side);
        let w = Window {
            batch: *batch,
            height,
            width,
            channels: *channels,
            filters: *filters,
            size: *size,
            stride: *stride,
            padding: *padding,
        };
        cases.extend(products(draw, dtype, w));
    }
    cases
}
