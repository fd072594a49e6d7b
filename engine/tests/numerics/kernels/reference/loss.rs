//! Losses: cross entropy, that of a teacher, squared error.

use plimsoll_engine::backend::{IGNORE_INDEX, ops::Loss};

pub(super) fn run(kernel: &Loss, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match kernel {
        Loss::CrossEntropy { classes } => {
            let columns = ins[0].len() / ins[1].len();
            for (row, label) in ins[0].chunks(columns).zip(&ins[1]).filter(|(_, label)| is_scored(**label)) {
                let (place, probabilities) = softmax(&row[..*classes]);
                outs[0][0] -= probabilities[*label as usize].ln();
                outs[0][1] += f64::from(u8::from(place == *label as usize));
            }
        }
        Loss::CrossEntropyGrad { classes, scale } => {
            let columns = outs[0].len() / ins[0].len();
            for (row, label) in outs[0].chunks_mut(columns).zip(&ins[0]) {
                let (_, probabilities) = softmax(&row[..*classes]);
                let scale = if is_scored(*label) { *scale } else { 0.0 };
                row[*classes..].fill(0.0);
                for (class, (x, p)) in row.iter_mut().zip(probabilities).enumerate() {
                    *x = scale * (p - if class == *label as usize { 1.0 } else { 0.0 });
                }
            }
        }
        Loss::Distil { classes, lesson } => {
            let [columns, of_told] = [&ins[0], &ins[1]].map(|all| all.len() / ins[2].len());
            let square = lesson.temperature.powi(2);
            let rows = ins[0].chunks(columns).zip(ins[1].chunks(of_told)).zip(&ins[2]);
            for ((row, told), label) in rows.filter(|(_, label)| is_scored(**label)) {
                let (row, told) = (&row[..*classes], &told[..*classes]);
                let (place, probabilities) = softmax(row);
                let [own, told] = [row, told].map(|row| softened(row, lesson.temperature));
                let divergence: f64 = told.iter().zip(&own).map(|(p, q)| p * (p / q).ln()).sum();
                outs[0][0] -= (1.0 - lesson.weight) * probabilities[*label as usize].ln();
                outs[0][0] += lesson.weight * square * divergence;
                outs[0][1] += f64::from(u8::from(place == *label as usize));
            }
        }
        Loss::DistilGrad { classes, lesson, scale } => {
            let [columns, of_told] = [&outs[0], &ins[0]].map(|all| all.len() / ins[1].len());
            for ((row, told), label) in outs[0].chunks_mut(columns).zip(ins[0].chunks(of_told)).zip(&ins[1]) {
                let (row, behind) = row.split_at_mut(*classes);
                let told = &told[..*classes];
                behind.fill(0.0);
                let (_, probabilities) = softmax(row);
                let (own, told) = (softened(row, lesson.temperature), softened(told, lesson.temperature));
                let scale = if is_scored(*label) { *scale } else { 0.0 };
                for (class, x) in row.iter_mut().enumerate() {
                    let by_label = probabilities[class] - if class == *label as usize { 1.0 } else { 0.0 };
                    let by_teacher = lesson.temperature * (own[class] - told[class]);
                    *x = scale * ((1.0 - lesson.weight) * by_label + lesson.weight * by_teacher);
                }
            }
        }
        Loss::SquaredError => {
            for (value, label) in ins[0].iter().zip(&ins[1]) {
                outs[0][0] += (value - label).powi(2);
                outs[0][1] += (value - label).abs();
            }
        }
        Loss::SquaredErrorGrad { scale } => {
            outs[0].iter_mut().zip(&ins[0]).for_each(|(value, label)| *value = 2.0 * scale * (*value - label));
        }
    }
}

fn is_scored(label: f64) -> bool {
    label != f64::from(IGNORE_INDEX)
}

fn softmax(row: &[f64]) -> (usize, Vec<f64>) {
    let place = (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best });
    let total: f64 = row.iter().map(|x| (x - row[place]).exp()).sum();
    (place, row.iter().map(|x| (x - row[place]).exp() / total).collect())
}

/// The probabilities of a row at a temperature.
fn softened(row: &[f64], temperature: f64) -> Vec<f64> {
    softmax(&row.iter().map(|x| x / temperature).collect::<Vec<_>>()).1
}
