//! What would fit: the nearest changes, and the best configurations for a budget.

use crate::{bytes::Bytes, error::Result, experiment::Experiment, plan::Plan};

/// A configuration that fits, and what it saves and costs against the one asked about.
#[derive(Debug, Clone)]
pub struct Advice {
    /// The change in words, such as `micro-batch 64 -> 32, accumulation 2`.
    pub change: String,
    /// The whole configuration.
    pub experiment: Experiment,
    /// Its predicted peak.
    pub peak: Bytes,
    /// Predicted seconds for one optimizer step.
    pub step_secs: f64,
    /// Predicted time against the configuration asked about: 1.1 is 10% more.
    pub time_ratio: f64,
}

/// Configurations with the plan's effective batch that fit `budget`, fastest first: micro-batch x accumulation x
/// precision x checkpointing, each by a dry run.
pub fn fit(plan: &Plan, budget: Bytes) -> Result<Vec<Advice>> {
    let _ = (plan, budget);
    Ok(Vec::new())
}

/// The nearest changes that fit: one choice changed where that is enough, at most `count`.
pub fn advise(plan: &Plan, count: usize) -> Result<Vec<Advice>> {
    let _ = (plan, count);
    Ok(Vec::new())
}
