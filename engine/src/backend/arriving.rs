//! Numbers on their way to the host, so that it need not wait for the device where it can go on without them.

use crate::error::Result;

/// Numbers of a tensor as f64; none in a dry run.
pub enum Arriving {
    /// They are here.
    Here(Option<Vec<f64>>),
    /// A device brings them.
    Coming(Box<dyn Coming>),
}

/// Numbers that a device brings.
pub trait Coming {
    /// Whether [`Coming::wait`] would return at once.
    fn has_come(&self) -> bool;

    /// Waits for them.
    ///
    /// # Errors
    /// What a kernel before them ended with.
    fn wait(self: Box<Self>) -> Result<Vec<f64>>;
}

impl Arriving {
    /// Whether [`Arriving::wait`] would return at once.
    pub fn has_come(&self) -> bool {
        match self {
            Self::Here(_) => true,
            Self::Coming(coming) => coming.has_come(),
        }
    }

    /// Waits for them.
    ///
    /// # Errors
    /// What a kernel before them ended with.
    pub fn wait(self) -> Result<Option<Vec<f64>>> {
        match self {
            Self::Here(numbers) => Ok(numbers),
            Self::Coming(coming) => coming.wait().map(Some),
        }
    }
}
