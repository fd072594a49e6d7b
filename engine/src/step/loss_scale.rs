//! Dynamic loss scaling for f16 (Micikevicius et al. 2018, "Mixed precision training").
//!
//! f16 gradients below 6e-8 become zero, so the loss is multiplied by a scale first and gradients are divided by it
//! again. A scale too large makes them infinite: that step is skipped and the scale halved.

use crate::experiment::Precision;

const START: f64 = 65536.0;
const LARGEST: f64 = 16_777_216.0;
/// Good steps before the scale doubles. Runs here are short, so it probes more often than the usual 2000.
const GROW_AFTER: u64 = 200;

/// The scale and its history.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LossScale {
    scale: f64,
    good: u64,
    is_dynamic: bool,
}

impl LossScale {
    /// The scale a precision needs: dynamic for f16, always 1 otherwise.
    pub(super) fn new(precision: Precision) -> Self {
        let is_dynamic = precision == Precision::F16Mixed;
        Self { scale: if is_dynamic { START } else { 1.0 }, good: 0, is_dynamic }
    }

    /// The scale of a run that goes on: the scale, and the good steps since it changed.
    pub(super) fn restored(self, (scale, good): (f64, u64)) -> Self {
        if self.is_dynamic { Self { scale, good, ..self } } else { self }
    }

    /// The state that [`LossScale::restored`] takes.
    pub(super) fn history(&self) -> (f64, u64) {
        (self.scale, self.good)
    }

    /// The factor of the loss.
    pub(super) fn scale(&self) -> f64 {
        self.scale
    }

    /// Whether it changes with the results of steps.
    pub(super) fn is_dynamic(&self) -> bool {
        self.is_dynamic
    }

    /// Learns from a step whose gradients were `finite` or not. Returns whether to skip the update.
    ///
    /// When halving has reached 1, the scale is not why gradients are still not finite: the step is not skipped, and the loss
    /// shows it.
    pub(super) fn skips(&mut self, finite: bool) -> bool {
        if !self.is_dynamic {
            return false;
        }
        if finite {
            self.good += 1;
            if self.good >= GROW_AFTER {
                self.scale = (self.scale * 2.0).min(LARGEST);
                self.good = 0;
            }
            return false;
        }
        let skip = self.scale > 1.0;
        self.scale = (self.scale / 2.0).max(1.0);
        self.good = 0;
        skip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_on_overflow_and_doubles_after_good_steps() {
        let mut scale = LossScale::new(Precision::F16Mixed);
        assert!(scale.skips(false));
        assert_eq!(scale.scale(), START / 2.0);
        for _ in 0..GROW_AFTER {
            assert!(!scale.skips(true));
        }
        assert_eq!(scale.scale(), START);
    }

    #[test]
    fn gives_up_skipping_at_one() {
        let mut scale = LossScale::new(Precision::F16Mixed);
        let skipped = (0..100).filter(|_| scale.skips(false)).count();
        assert_eq!((skipped, scale.scale()), (16, 1.0));
        assert!(!LossScale::new(Precision::F32).skips(false));
    }
}
