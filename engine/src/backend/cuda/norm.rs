//! Normalisations: by the statistics of a batch and by those of each row.

pub(super) mod batch;
pub(super) mod row;
