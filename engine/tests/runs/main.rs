//! Runs, as the program starts them: events, checkpoints, weights in and out, and what is tried afterwards.

mod asked_once;
mod channels;
mod checkpoints;
mod deep;
mod distilling;
mod evaluation;
mod feeding;
mod interop;
mod low_rank;
mod placement;
mod pruning;
mod quantising;
mod resume;
mod training;
mod trying;
mod weights;
mod writing;
