//! What cannot be: impossible experiments, each with what would be valid.
