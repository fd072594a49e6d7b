//! Weights of files, held against the model that is to take them before a plan is made.

use plimsoll_engine::{Error, error::Problem, experiment::Teacher, interop, plan::Resolved};

use super::Obstacle;

/// Holds the weights that the experiment begins with against its model.
pub(super) fn fits_weights(resolved: &Resolved) -> Result<(), Obstacle> {
    let problem = |error| match error {
        Error::Experiment(problem) => problem,
        error => Problem::new("weights.path", error.to_string(), "choose other weights, or none"),
    };
    let fitted = interop::chosen(resolved.experiment(), resolved.info());
    fitted.map(drop).map_err(|error| Obstacle::Problems(vec![problem(error)]))
}

/// Holds the weights of the model that teaches against it.
pub(super) fn fits_teacher(resolved: &Resolved) -> Result<(), Obstacle> {
    if resolved.to_train_first().is_some() {
        return Ok(());
    }
    let fitted = interop::teaching(resolved.experiment(), resolved.teacher(), resolved.info());
    fitted.map(drop).map_err(|error| Obstacle::Problems(vec![Teacher::problem_of(&error)]))
}
