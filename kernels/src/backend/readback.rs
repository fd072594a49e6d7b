//! Numbers on their way to the host. The host waits for them only when it needs them.

use crate::error::Result;

/// Numbers of a tensor as f64; none in a dry run.
pub enum Readback {
    /// The numbers are on the host.
    Ready(Option<Vec<f64>>),
    /// A device is copying them.
    Pending(Box<dyn PendingReadback>),
}

/// Numbers that a device is copying to the host.
pub trait PendingReadback {
    /// Whether [`PendingReadback::wait`] would return at once.
    fn is_ready(&self) -> bool;

    /// Waits for them.
    ///
    /// # Errors
    /// The failure of a kernel that was launched before.
    fn wait(self: Box<Self>) -> Result<Vec<f64>>;
}

impl Readback {
    /// Whether [`Readback::wait`] would return at once.
    pub fn is_ready(&self) -> bool {
        match self {
            Self::Ready(_) => true,
            Self::Pending(pending) => pending.is_ready(),
        }
    }

    /// Waits for them.
    ///
    /// # Errors
    /// The failure of a kernel that was launched before.
    pub fn wait(self) -> Result<Option<Vec<f64>>> {
        match self {
            Self::Ready(numbers) => Ok(numbers),
            Self::Pending(pending) => pending.wait().map(Some),
        }
    }
}
