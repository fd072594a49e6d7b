//! The cross entropy, the squared error, and their gradients.

use super::{Case, Extent, Operand, kernel_names};
use crate::backend::ops::{Lesson, Loss};
use crate::{
    backend::{DType, IGNORE_INDEX, ops::Rows},
    selftest::draw::Draw,
};

kernel_names! {
    Loss;
    Loss::CrossEntropy { .. } => "cross-entropy",
    Loss::CrossEntropyGrad { .. } => "cross-entropy-gradient",
    Loss::Distil { .. } => "distillation",
    Loss::DistilGrad { .. } => "distillation-gradient",
    Loss::SquaredError => "squared-error",
    Loss::SquaredErrorGrad { .. } => "squared-error-gradient",
}

/// A batch in which a label of five, or so, does not count. The last columns, `behind` of them, are behind the classes.
pub fn loss(draw: &mut Draw, dtype: DType, Rows { rows, columns }: Rows, behind: usize, scale: f64) -> Vec<Case> {
    let classes = columns - behind;
    let mut label = || if draw.between(0, 4) == 0 { IGNORE_INDEX } else { draw.between(0, classes - 1) as u32 };
    let labels: Operand = ((0..rows).map(|_| f64::from(label())).collect(), DType::U32);
    let logits: Operand = (draw.numbers(rows * columns).iter().map(|x| 4.0 * x).collect(), dtype);
    let stats = vec![(vec![0.5, 2.0], DType::F64)];
    vec![
        Case::new(Loss::CrossEntropy { classes }, vec![logits.clone(), labels.clone()], stats, 16 * rows * columns),
        Case::new(Loss::CrossEntropyGrad { classes, scale }, vec![labels], vec![logits], 16 * columns),
    ]
}

/// A batch with a teacher's answers to it, in which about one label of five does not count. The last columns, `behind` of them,
/// are behind the classes, and the answers have none.
pub fn distillation(
    draw: &mut Draw,
    dtype: DType,
    Rows { rows, columns }: Rows,
    behind: usize,
    lesson: Lesson,
    scale: f64,
) -> Vec<Case> {
    let classes = columns - behind;
    let mut label = || if draw.between(0, 4) == 0 { IGNORE_INDEX } else { draw.between(0, classes - 1) as u32 };
    let labels: Operand = ((0..rows).map(|_| f64::from(label())).collect(), DType::U32);
    let mut logits =
        |columns: usize| -> Operand { (draw.numbers(rows * columns).iter().map(|x| 4.0 * x).collect(), dtype) };
    let (own, taught) = (logits(columns), logits(classes));
    let stats = vec![(vec![0.5, 2.0], DType::F64)];
    // The rounded term is multiplied by the temperature's square, which adds up like the root of the terms.
    let square = lesson.temperature.powi(2).max(1.0).ceil() as usize;
    let (sums, slope) = (16 * square * square * rows * columns, 16 * square * columns);
    vec![
        Case::new(Loss::Distil { classes, lesson }, vec![own.clone(), taught.clone(), labels.clone()], stats, sums),
        Case::new(Loss::DistilGrad { classes, lesson, scale }, vec![taught, labels], vec![own], slope),
    ]
}

/// A batch of values.
pub fn squared_error(draw: &mut Draw, dtype: DType, rows: usize, scale: f64) -> Vec<Case> {
    let labels: Operand = (draw.numbers(rows), DType::F32);
    let values: Operand = (draw.numbers(rows), dtype);
    let stats = vec![(vec![0.5, 2.0], DType::F64)];
    vec![
        Case::new(Loss::SquaredError, vec![values.clone(), labels.clone()], stats, 8 * rows),
        Case::new(Loss::SquaredErrorGrad { scale }, vec![labels], vec![values], 8),
    ]
}

/// A NaN logit shows in the loss; among equal logits the first is the answer.
fn edges(dtype: DType) -> Vec<Case> {
    let stats = || vec![(vec![0.5, 2.0], DType::F64)];
    let labels = |labels: [u32; 3]| (labels.map(f64::from).to_vec(), DType::U32);
    let equal = (vec![1.0, 2.0, 2.0, 2.0, 2.0, 1.0, 3.0, 3.0, 3.0], dtype);
    let none = (vec![1.0, f64::NAN, 0.0, 0.0, 1.0, 2.0, 2.0, 1.0, 0.0], dtype);
    vec![
        Case::new(Loss::CrossEntropy { classes: 3 }, vec![equal.clone(), labels([1, 1, 0])], stats(), 64),
        Case::new(Loss::CrossEntropy { classes: 3 }, vec![none, labels([0, 2, IGNORE_INDEX])], stats(), 64),
        Case::new(Loss::CrossEntropy { classes: 3 }, vec![equal, labels([IGNORE_INDEX; 3])], stats(), 64),
    ]
}

/// Rows, columns, and how many of these are behind the classes.
const EXTENTS: [[usize; 3]; 11] = [
    [5, 7, 0],
    [37, 72, 7],
    [3, 1088, 57],
    [37, 65, 0],
    [1, 1, 0],
    [1, 2, 0],
    [1, 8, 7],
    [300, 5, 0],
    [3, 1031, 0],
    [2053, 3, 0],
    [65, 257, 0],
];

pub(super) fn cases(draw: &mut Draw, dtype: DType, extent: Extent) -> Vec<Case> {
    let mut cases = edges(dtype);
    for [rows, columns, behind] in extent.of(&EXTENTS).iter().copied() {
        cases.extend(loss(draw, dtype, Rows { rows, columns }, behind, 0.5));
        for (temperature, weight) in [(4.0, 0.7), (1.0, 1.0), (2.5, 0.0)] {
            let lesson = Lesson { temperature, weight };
            cases.extend(distillation(draw, dtype, Rows { rows, columns }, behind, lesson, 0.5));
        }
        cases.extend(squared_error(draw, dtype, rows, 0.25));
    }
    cases
}
