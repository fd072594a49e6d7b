//! The learning rate over the steps of a run.

use crate::experiment::{Optimizer, Schedule};

/// Learning rate of `step` (from 1) of `total`: a linear rise over the warm-up, then constant, or half a cosine
/// (Loshchilov & Hutter 2017) or a line to zero.
pub fn learning_rate(choice: &Optimizer, step: u64, total: u64) -> f64 {
    let warmup = choice.warmup_steps;
    if step <= warmup {
        return choice.learning_rate * step as f64 / warmup as f64;
    }
    let done = ((step - warmup - 1) as f64 / total.saturating_sub(warmup).max(1) as f64).min(1.0);
    match choice.schedule {
        Schedule::Constant => choice.learning_rate,
        Schedule::Cosine => choice.learning_rate * 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
        Schedule::Linear => choice.learning_rate * (1.0 - done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_then_stays_or_falls_to_nearly_nothing() {
        let mut choice = Optimizer { learning_rate: 0.8, warmup_steps: 4, ..Optimizer::default() };
        let rates: Vec<f64> = (1..=6).map(|step| learning_rate(&choice, step, 100)).collect();
        assert_eq!(rates, [0.2, 0.4, 0.6000000000000001, 0.8, 0.8, 0.8]);
        choice.schedule = Schedule::Cosine;
        assert_eq!(learning_rate(&choice, 5, 100), 0.8);
        assert!((learning_rate(&choice, 53, 100) - 0.4).abs() < 1e-12);
        assert!(learning_rate(&choice, 100, 100) < 0.8 * 1e-3);
        choice.schedule = Schedule::Linear;
        // transformers: lr * (total - (step - 1)) / (total - warmup), after the warm-up.
        assert_eq!([5, 53, 100].map(|step| learning_rate(&choice, step, 100)), [0.8, 0.4, 0.8 * (1.0 - 95.0 / 96.0)]);
        // A run that goes on past its plan learns no more.
        assert_eq!(learning_rate(&choice, 200, 100), 0.0);
    }
}
