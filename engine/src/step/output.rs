//! The result of a step: a [`PendingStep`] at once, and its [`StepOutput`] once the device has computed it.

use crate::{backend::Readback, error::Result, step::loss::means};

/// A step whose kernels are queued, and whose numbers are on their way.
pub struct PendingStep {
    pub(super) sums: Readback,
    pub(super) squares: Readback,
    /// Labels that count.
    pub(super) labels: usize,
    pub(super) loss_scale: f64,
    /// The factor by which the gradients are too large.
    pub(super) grad_scale: f64,
    pub(super) skipped: bool,
}

impl PendingStep {
    /// Whether [`PendingStep::wait`] would return at once.
    pub fn is_ready(&self) -> bool {
        self.sums.is_ready() && self.squares.is_ready()
    }

    /// Waits for the step's output.
    ///
    /// # Errors
    /// The failure of a kernel.
    pub fn wait(self) -> Result<StepOutput> {
        let Self { sums, squares, labels, loss_scale, grad_scale, skipped } = self;
        let (loss, accuracy) = means(sums.wait()?, labels);
        let gradient_norm = squares.wait()?.map_or(0.0, |sum| sum[0].sqrt()) / grad_scale;
        Ok(StepOutput { loss, accuracy, gradient_norm, loss_scale, skipped })
    }
}

/// The numbers of a step. A dry run has none; it gives the numbers of a step that went well.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepOutput {
    /// Mean loss over the effective batch's scored labels.
    pub loss: f64,
    /// Share of them that was answered right; of values the mean absolute error.
    pub accuracy: f64,
    /// Norm of the whole gradient, unscaled, before clipping.
    pub gradient_norm: f64,
    /// The loss scale the step was made with.
    pub loss_scale: f64,
    /// Whether the update was skipped.
    pub skipped: bool,
}
