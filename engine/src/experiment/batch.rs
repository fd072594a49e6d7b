//! How many samples at once: those of a step, and those of a test.
//!
//! Always holds: the test results are those of every other evaluation batch, up to the order in which the losses of samples
//! are summed, and up to the rounding of products whose blocks a library chooses by the size of the batch. Weights and
//! training losses are the same to the last bit.

use std::fmt;

use toml_edit::Value;

use super::{
    limits::MAX_BATCH,
    settings::{Field, Number, SIZES, Wrong, settings, too_large},
};

/// Samples that go through the model at once when it is tested. Never more than there are to test on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvaluationBatch {
    /// As many as in training.
    Micro,
    /// All that are held out.
    Whole,
    /// So many.
    Samples(usize),
}

settings! {
    /// How many samples at once.
    #[derive(Eq)]
    pub struct Batch in batch {
        /// Samples that one forward pass sees.
        pub micro: usize = 64, SIZES.counts(1, MAX_BATCH as u64, "a batch");
        /// Forward and backward passes before one update.
        pub accumulation: usize = 1, SIZES.counts(1, MAX_BATCH as u64, "a number of micro-batches");
        /// Samples that one forward pass sees when the model is tested: a number, `micro` for as many as in training, or
        /// `whole` for the whole test set.
        pub evaluation: EvaluationBatch = EvaluationBatch::Micro, SIZES
            .counts(1, MAX_BATCH as u64, "an evaluation batch")
            .quiet();
    }
}

impl Batch {
    /// Samples that one update sees.
    pub fn effective(&self) -> usize {
        self.micro * self.accumulation
    }

    /// Samples of one evaluation batch, of `test` that are held out.
    pub fn evaluated(&self, test: usize) -> usize {
        match self.evaluation {
            EvaluationBatch::Micro => self.micro.min(test),
            EvaluationBatch::Whole => test,
            EvaluationBatch::Samples(samples) => samples.min(test),
        }
    }
}

impl EvaluationBatch {
    const WORDS: &[&str] = &["micro", "whole"];
}

impl fmt::Display for EvaluationBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Micro => f.pad(Self::WORDS[0]),
            Self::Whole => f.pad(Self::WORDS[1]),
            Self::Samples(samples) => samples.fmt(f),
        }
    }
}

impl Field for EvaluationBatch {
    fn read(&mut self, value: &Value) -> bool {
        let word = |word| [Self::Micro, Self::Whole].into_iter().zip(Self::WORDS).find(|(_, known)| **known == word);
        let named = value.as_str().and_then(word).map(|(choice, _)| choice);
        let counted = value.as_integer().and_then(|n| usize::try_from(n).ok()).map(Self::Samples);
        named.or(counted).map(|choice| *self = choice).is_some()
    }

    fn valid(&self) -> String {
        "write a whole number, such as 256, \"micro\" for as many as in training, or \"whole\" for the whole test set"
            .to_owned()
    }

    fn write(&self) -> Option<String> {
        Some(match self {
            Self::Samples(samples) => samples.to_string(),
            word => format!("\"{word}\""),
        })
    }

    fn too_large(&self, value: &Value, most: Option<&str>) -> Option<Wrong> {
        value.as_str().and_then(|text| too_large(text, most))
    }

    fn number(&self) -> Option<Number> {
        if let Self::Samples(samples) = self { Some(Number::Whole(*samples as u64)) } else { None }
    }

    fn set_number(&mut self, number: f64) {
        *self = Self::Samples(number.round() as usize);
    }

    fn words(&self) -> &'static [&'static str] {
        Self::WORDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, check::check, preset};

    #[test]
    fn an_evaluation_batch_is_a_word_or_a_number_and_never_more_than_there_is() {
        let of = |text: &str| {
            let mut experiment = Experiment::default();
            preset::set(&mut experiment, &format!("batch.evaluation={text}")).expect("a value");
            let samples = experiment.batch.evaluated(359);
            (experiment.batch.evaluation, samples)
        };
        assert_eq!(of("micro"), (EvaluationBatch::Micro, 64));
        assert_eq!(of("whole"), (EvaluationBatch::Whole, 359));
        assert_eq!(of("\"whole\""), (EvaluationBatch::Whole, 359));
        assert_eq!(of("100"), (EvaluationBatch::Samples(100), 100));
        assert_eq!(of("1000"), (EvaluationBatch::Samples(1000), 359));
        assert_eq!(Batch { micro: 500, ..Batch::default() }.evaluated(359), 359);
    }

    #[test]
    fn what_is_no_evaluation_batch_is_answered_with_what_would_be() {
        let said = |text: &str| {
            let mut experiment = Experiment::default();
            match preset::set(&mut experiment, &format!("batch.evaluation={text}")) {
                Err(problem) => problem.to_string(),
                Ok(_) => check(&experiment, None).iter().map(ToString::to_string).collect(),
            }
        };
        assert!(said("whol").contains("did you mean \"whole\"? write a whole number"), "{}", said("whol"));
        assert!(said("-3").contains("-3 does not fit here; write a whole number"), "{}", said("-3"));
        assert!(said("0").contains("0 is not an evaluation batch; write 1 or more"), "{}", said("0"));
        assert!(said("2000000").contains("is more than an evaluation batch may be"), "{}", said("2000000"));
        let nines = "9".repeat(20);
        assert!(said(&nines).contains("is too large for a whole number"), "{}", said(&nines));
    }
}
