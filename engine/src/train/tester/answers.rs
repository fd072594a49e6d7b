//! The counted answers of a model: by class, by sample, and which class was taken for which.
//!
//! Always holds: an answer is the first of the largest logits, and right where the loss counts it as right, so that the
//! right answers are the accuracy's. The answers lie in host memory, and do not count in the measured pass.

use super::rows::Rows;
use crate::{experiment::Task, tensor::DType};

/// The most classes for which it is kept which was taken for which: the table has as many cells as their square.
const MOST_CONFUSED: usize = 1024;

/// Likeliest classes that are kept of an answer.
const LIKELIEST: usize = 5;

/// A class, and how likely a model finds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Likely {
    /// The class.
    pub class: u32,
    /// The probability from 0 to 1: the softmax of the logits.
    pub probability: f32,
}

/// The answers to the labels of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OfClass {
    /// Labels of this class.
    pub labels: u64,
    /// How many of them were answered right.
    pub right: u64,
    /// How often the answer was this class.
    pub answered: u64,
}

impl OfClass {
    /// Share of its labels that were answered right; `None` for a class without labels.
    pub fn recall(&self) -> Option<f64> {
        share(self.right, self.labels)
    }

    /// Share of its answers that were right; `None` for a class that was never answered.
    pub fn precision(&self) -> Option<f64> {
        share(self.right, self.answered)
    }

    /// Intersection over union of labels and answers (the Jaccard index); `None` if both are empty.
    pub fn iou(&self) -> Option<f64> {
        share(self.right, self.labels + self.answered - self.right)
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The answer to one sample of a test set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// The sample's class; 0 for a mask.
    pub label: u32,
    /// Share of its labels that were answered right: 0 or 1 for a class.
    pub right: f32,
    /// How likely the model found its own answers, on average.
    pub confidence: f32,
    right_labels: u32,
    likeliest: [Likely; LIKELIEST],
}

impl Answer {
    const BLANK: Self = Self {
        label: 0,
        right: 0.0,
        confidence: 0.0,
        right_labels: 0,
        likeliest: [Likely { class: 0, probability: -1.0 }; LIKELIEST],
    };

    /// The likeliest classes of a sample that has one class, likeliest first; empty for a mask.
    pub fn likeliest(&self) -> &[Likely] {
        let count = self.likeliest.iter().take_while(|likely| likely.probability >= 0.0).count();
        &self.likeliest[..count]
    }

    /// The class that was answered; of a mask, 0.
    pub fn class(&self) -> u32 {
        self.likeliest[0].class
    }

    /// Whether all of it was answered right.
    pub fn is_right(&self) -> bool {
        self.right >= 1.0
    }
}

/// The answers of a model to a whole test set.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// The results by class.
    pub classes: Vec<OfClass>,
    /// `[class of the label, class answered]`: how often; `None` for more classes than a table is kept of.
    pub confusion: Option<Vec<u64>>,
    /// The answers by sample, in the order of the test set.
    pub samples: Vec<Answer>,
}

impl Answers {
    fn new(classes: usize, samples: usize) -> Self {
        let confusion = (classes <= MOST_CONFUSED).then(|| vec![0; classes * classes]);
        Self { classes: vec![OfClass::default(); classes], confusion, samples: Vec::with_capacity(samples) }
    }

    /// Labels of class `label` that were answered as `answer`; 0 if no table is kept.
    pub fn confused(&self, label: usize, answer: usize) -> u64 {
        let cell = |table: &Vec<u64>| table.get(label * self.classes.len() + answer).copied();
        self.confusion.as_ref().and_then(cell).unwrap_or(0)
    }

    /// The mean over classes of their intersection over union, by which masks are judged.
    pub fn mean_iou(&self) -> Option<f64> {
        let all: Vec<f64> = self.classes.iter().filter_map(OfClass::iou).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }
}

/// The largest of some logits.
struct Largest {
    class: usize,
    logit: f32,
    /// Sum of the exponentials of all, less the largest: NaN if no answer is right.
    total: f64,
}

impl Largest {
    fn of(row: &[f32]) -> Self {
        let first = |best: (usize, f32), next: (usize, f32)| if next.1 > best.1 { next } else { best };
        let (class, logit) = row.iter().copied().enumerate().fold((0, f32::NEG_INFINITY), first);
        let total = row.iter().map(|x| f64::from(x - logit).exp()).sum();
        Self { class, logit, total }
    }

    fn probability(&self, logit: f32) -> f32 {
        let probability = (f64::from(logit - self.logit).exp() / self.total) as f32;
        if probability.is_nan() { 0.0 } else { probability }
    }

    fn is_right(&self, label: u32) -> bool {
        self.class == label as usize && !self.total.is_nan()
    }
}

/// The probabilities of all classes by their logits.
pub(super) fn probabilities(row: &[f32]) -> Vec<f32> {
    let largest = Largest::of(row);
    row.iter().map(|logit| largest.probability(*logit)).collect()
}

/// The first of the largest logits.
pub(super) fn answered(row: &[f32]) -> u32 {
    Largest::of(row).class as u32
}

/// Counts the answers of batch after batch.
pub(super) struct Counting {
    rows: Rows,
    task: Task,
    /// Labels of a sample.
    labels_per_sample: usize,
    /// The labels of the present batch.
    labels: Vec<u32>,
    /// The number of these labels that were answered.
    at: usize,
    present: Answer,
    answers: Answers,
}

impl Counting {
    pub(super) fn new(task: Task, classes: usize, labels_per_sample: usize, samples: usize) -> Self {
        Self {
            rows: Rows::new(classes),
            task,
            labels_per_sample,
            labels: Vec::new(),
            at: 0,
            present: Answer::BLANK,
            answers: Answers::new(classes, samples),
        }
    }

    /// The labels of the batch whose logits come next.
    pub(super) fn begin(&mut self, labels: &[u32]) {
        self.labels.clear();
        self.labels.extend(labels);
        self.at = 0;
    }

    /// Logits of the batch.
    pub(super) fn take(&mut self, dtype: DType, bytes: &[u8]) {
        let Self { rows, task, labels_per_sample, labels, at, present, answers } = self;
        rows.take(dtype, bytes, |row| {
            let Some(label) = labels.get(*at).copied() else { return };
            *at += 1;
            count(*task, row, label, *labels_per_sample, present, answers);
            if at.is_multiple_of(*labels_per_sample) {
                answers.samples.push(std::mem::replace(present, Answer::BLANK));
            }
        });
    }

    pub(super) fn into_answers(self) -> Answers {
        self.answers
    }
}

fn count(task: Task, row: &[f32], label: u32, labels_per_sample: usize, present: &mut Answer, answers: &mut Answers) {
    let largest = Largest::of(row);
    let is_right = largest.is_right(label);
    let classes = answers.classes.len();
    if let Some(of_class) = answers.classes.get_mut(label as usize) {
        of_class.labels += 1;
        of_class.right += u64::from(is_right);
    }
    // NaN is not an answer of any class.
    if !largest.total.is_nan() {
        answers.classes[largest.class].answered += 1;
        let cell = answers.confusion.as_mut().and_then(|table| table.get_mut(label as usize * classes + largest.class));
        cell.into_iter().for_each(|cell| *cell += 1);
    }
    // Counted whole, so that a mask without a fault is exactly 1.
    present.right_labels += u32::from(is_right);
    present.right = present.right_labels as f32 / labels_per_sample as f32;
    present.confidence += largest.probability(largest.logit) / labels_per_sample as f32;
    if task == Task::Class {
        present.label = label;
        for (class, logit) in row.iter().enumerate() {
            insert(&mut present.likeliest, Likely { class: class as u32, probability: largest.probability(*logit) });
        }
    }
}

/// Puts `new` where it belongs among the likeliest.
fn insert(likeliest: &mut [Likely; LIKELIEST], new: Likely) {
    let Some(at) = likeliest.iter().position(|known| new.probability > known.probability) else { return };
    likeliest[at..].rotate_right(1);
    likeliest[at] = new;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(rows: &[[f32; 3]]) -> Vec<u8> {
        rows.iter().flatten().flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn answers_are_counted_by_class_sample_and_pair() {
        let mut counting = Counting::new(Task::Class, 3, 1, 4);
        counting.begin(&[0, 1, 1, 2]);
        counting.take(
            DType::F32,
            // The second is a tie, and the first of them counts; the last is NaN.
            &bytes(&[[2.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 3.0, 1.0], [0.0, f32::NAN, 1.0]]),
        );
        let answers = counting.into_answers();
        let of = |class: usize| {
            let OfClass { labels, right, answered } = answers.classes[class];
            [labels, right, answered]
        };
        assert_eq!([of(0), of(1), of(2)], [[1, 1, 2], [2, 1, 1], [1, 0, 0]]);
        assert_eq!(answers.confusion, Some(vec![1, 0, 0, 1, 1, 0, 0, 0, 0]));
        assert_eq!((answers.confused(1, 0), answers.classes[2].precision()), (1, None));
        assert_eq!((answers.classes[1].recall(), answers.classes[0].precision()), (Some(0.5), Some(0.5)));
        let rights: Vec<bool> = answers.samples.iter().map(Answer::is_right).collect();
        assert_eq!(rights, [true, false, true, false]);
        let likeliest = answers.samples[2].likeliest();
        assert_eq!(likeliest.iter().map(|likely| likely.class).collect::<Vec<_>>(), [1, 2, 0]);
        assert!((likeliest.iter().map(|likely| likely.probability).sum::<f32>() - 1.0).abs() < 1e-6);
        assert_eq!(answers.samples[2].confidence, likeliest[0].probability);
    }

    #[test]
    fn a_mask_is_judged_by_the_overlap_of_its_classes() {
        let mut counting = Counting::new(Task::Mask, 3, 4, 1);
        counting.begin(&[0, 0, 1, 1]);
        let (zero, one) = ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]);
        counting.take(DType::F32, &bytes(&[zero, one, one, one]));
        let answers = counting.into_answers();
        // Class 0 has one of two, class 1 two of three; class 2 is nowhere.
        assert_eq!(answers.mean_iou(), Some((0.5 + 2.0 / 3.0) / 2.0));
        assert_eq!((answers.samples.len(), answers.samples[0].right, answers.samples[0].is_right()), (1, 0.75, false));
    }
}
