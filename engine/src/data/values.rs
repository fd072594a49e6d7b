//! Values in the label's own units, and the measures by which models of them are judged.
//!
//! Owns [`ValueScale`] and [`ValueErrors`]. Always holds: a model learns values of mean 0 and deviation 1 over the training
//! samples; errors are reported in the units of the label.

use crate::data::{Dataset, Split};

/// Less than this, in squared deviations of the training labels, is rounding.
const LEAST_VARIANCE: f64 = 1e-12;

/// How the values of a data set become labels of mean 0 and deviation 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueScale {
    /// Mean of the training labels.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// Mean square of the test labels about their own mean, in those deviations.
    pub test_variance: f64,
}

/// How far a model's values are from the labels.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ValueErrors {
    /// Root of the mean squared error, in the label's units.
    pub rmse: f64,
    /// Mean absolute error, in the label's units.
    pub mae: f64,
    /// The share of the labels' variance that is explained (the coefficient of determination): 1 for no error, 0 for a model
    /// that always answers their mean, and less for a worse one.
    pub r2: f64,
}

impl ValueScale {
    /// The value that a model's output stands for.
    pub fn value(&self, output: f64) -> f64 {
        self.mean + self.deviation * output
    }

    /// The errors of labels of a part, from their mean squared and mean absolute error at mean 0 and deviation 1.
    pub fn errors(&self, split: Split, squared: f64, absolute: f64) -> ValueErrors {
        let variance = match split {
            Split::Train => 1.0,
            Split::Test => self.test_variance,
        };
        // Labels that do not vary have no variance to explain: right is 1 and wrong is 0, as in scikit-learn.
        let r2 = match variance > LEAST_VARIANCE {
            true => 1.0 - squared / variance,
            false => f64::from(u8::from(squared <= LEAST_VARIANCE)),
        };
        ValueErrors { rmse: squared.sqrt() * self.deviation, mae: absolute * self.deviation, r2 }
    }
}

impl Dataset {
    /// How the labels are scaled, where they are values.
    pub fn value_scale(&self) -> Option<ValueScale> {
        let [mean, deviation, test_variance] = self.table()?.value_scale()?;
        Some(ValueScale { mean, deviation, test_variance })
    }

    /// The score of a part, and the errors of values, from a session's measurements: for classes the accuracy, for values
    /// the share of the variance that is explained.
    pub fn score(&self, split: Split, (loss, second): (f64, f64)) -> (f64, Option<ValueErrors>) {
        let errors = self.value_scale().map(|scale| scale.errors(split, loss, second));
        (errors.map_or(second, |errors| errors.r2), errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_in_the_units_of_the_label() {
        let scale = ValueScale { mean: 100.0, deviation: 20.0, test_variance: 0.5 };
        assert_eq!(scale.value(-1.5), 70.0);
        let errors = scale.errors(Split::Test, 0.25, 0.4);
        assert_eq!((errors.rmse, errors.mae, errors.r2), (10.0, 8.0, 0.5));
        assert_eq!(scale.errors(Split::Train, 0.25, 0.4).r2, 0.75);
        let same = ValueScale { test_variance: 0.0, ..scale };
        assert_eq!(same.errors(Split::Test, 0.25, 0.4).r2, 0.0, "wrong about labels that are all the same");
        assert_eq!(same.errors(Split::Test, 0.0, 0.0).r2, 1.0, "right about them");
    }
}
