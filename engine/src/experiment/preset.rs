//! The text form of an experiment.
