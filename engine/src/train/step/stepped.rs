//! What a step comes to: first on its way, then here.

use crate::{backend::Arriving, error::Result, train::loss::means};

/// A step whose kernels are queued, and whose numbers are on their way.
pub struct Underway {
    pub(super) sums: Arriving,
    pub(super) squares: Arriving,
    /// Labels that count.
    pub(super) labels: usize,
    pub(super) loss_scale: f64,
    pub(super) skipped: bool,
}

impl Underway {
    /// Whether [`Underway::wait`] would return at once.
    pub fn has_come(&self) -> bool {
        self.sums.has_come() && self.squares.has_come()
    }

    /// Waits for what the step came to.
    ///
    /// # Errors
    /// What a kernel ended with.
    pub fn wait(self) -> Result<Stepped> {
        let Self { sums, squares, labels, loss_scale, skipped } = self;
        let (loss, accuracy) = means(sums.wait()?, labels);
        let gradient_norm = squares.wait()?.map_or(0.0, |sum| sum[0].sqrt()) / loss_scale;
        Ok(Stepped { loss, accuracy, gradient_norm, loss_scale, skipped })
    }
}

/// What a step came to. In a dry run there are no numbers: they are as of a step that went well.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stepped {
    /// Mean loss over the effective batch's scored labels.
    pub loss: f64,
    /// Share of them that was answered right.
    pub accuracy: f64,
    /// Norm of the whole gradient, unscaled, before clipping.
    pub gradient_norm: f64,
    /// The loss scale the step was made with.
    pub loss_scale: f64,
    /// Whether the update was skipped.
    pub skipped: bool,
}
