//! Coded weights: codes and scales of random elements, and products with random codes.

use super::{Case, Extent, Operand, kernel_names};
use crate::{
    backend::{
        DType,
        ops::{Code, Coded, CodedProduct, SCALE_BLOCK},
    },
    selftest::draw::Draw,
};

kernel_names! {
    Coded;
    Coded::Encode(_) => "encode-weight",
    Coded::EncodeScales => "encode-scales",
    Coded::Decode(_) => "decode-weight",
    Coded::Product(_) => "coded-matmul",
}

const CODES: [Code; 3] = [Code::Nf4, Code::Int8, Code::Int4];

/// Codes of `elements` and their scales, which are coded too where `is_double`.
fn weight(draw: &mut Draw, code: Code, elements: usize, is_double: bool) -> Vec<Operand> {
    let (codes, blocks) = ((draw.integers(code.bytes(elements), 255), DType::U8), code.blocks(elements));
    if !is_double {
        let scales = draw.numbers(blocks).iter().map(|x| f64::from((x.abs() + 0.25) as f32)).collect();
        return vec![codes, (scales, DType::F32)];
    }
    let tops = vec![0.25; blocks.div_ceil(SCALE_BLOCK)];
    vec![codes, (draw.integers(blocks, 255), DType::U8), (tops, DType::F32), (vec![0.5], DType::F32)]
}

/// Codes of `elements`, codes of scales, and the values of codes.
pub fn codes(draw: &mut Draw, dtype: DType, elements: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    let bytes = |count: usize| (vec![7.0; count], DType::U8);
    let scales = |count: usize| (vec![7.0; count], DType::F32);
    for code in CODES {
        let (w, blocks) = ((draw.numbers(elements), dtype), code.blocks(elements));
        let outputs = vec![bytes(code.bytes(elements)), scales(blocks)];
        cases.push(Case::new(Coded::Encode(code), vec![w.clone()], outputs, 1));
        for is_double in [false, true] {
            let inputs = weight(draw, code, elements, is_double);
            cases.push(Case::new(Coded::Decode(code), inputs, vec![w.clone()], 1));
        }
    }
    let positive = draw.numbers(elements).iter().map(|x| f64::from(x.abs() as f32)).collect();
    let outputs = vec![bytes(elements), scales(elements.div_ceil(SCALE_BLOCK)), scales(1)];
    cases.push(Case::new(Coded::EncodeScales, vec![(positive, DType::F32)], outputs, elements));
    cases
}

/// Products with a weight `[out, inner]`, both ways.
pub fn products(draw: &mut Draw, dtype: DType, [rows, out, inner]: [usize; 3]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (i, code) in CODES.into_iter().enumerate() {
        for by_input in [false, true] {
            let (depth, columns) = if by_input { (out, inner) } else { (inner, out) };
            let mut inputs = vec![(draw.numbers(rows * depth), dtype)];
            inputs.extend(weight(draw, code, out * inner, by_input == (i == 0)));
            let product = CodedProduct { rows, out, inner, code, by_input };
            let y = (draw.numbers(rows * columns), dtype);
            cases.push(Case::new(Coded::Product(product), inputs, vec![y], depth));
        }
    }
    cases
}

/// Elements.
const SIZES: [usize; 6] = [71, 600, 1, 64, 257, 70_001];
/// `rows, out, inner`.
const PRODUCTS: [[usize; 3]; 7] =
    [[5, 7, 9], [33, 65, 70], [1, 1, 1], [1, 257, 31], [70, 33, 1031], [129, 64, 128], [3, 1, 300]];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for elements in extent.of(&SIZES) {
        cases.extend(codes(draw, dtype, *elements));
    }
    for sizes in extent.of(&PRODUCTS) {
        cases.extend(products(draw, dtype, *sizes));
    }
    cases
}
