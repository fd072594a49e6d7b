//! The prediction: a dry run of the first steps.

use crate::{error::Result, experiment::Experiment, plan::Plan};

/// Plans an experiment.
///
/// # Errors
/// An experiment that cannot be, or data that cannot be read.
pub fn predict(experiment: &Experiment) -> Result<Plan> {
    let _ = experiment;
    Err(crate::Error::Device("no plan".to_owned()))
}
