//! The controls as data: key, name, lesson, stops. Tables, so that the lessons can be read side by side.

mod data;
mod distil;
mod gpu;
mod low_rank;
mod memory;
mod model;
mod optimizer;
mod prune;
mod quantise;
mod run;
mod sizes;
mod task;
mod training;
mod transformer;

pub(super) use self::{
    data::*, distil::*, gpu::*, low_rank::*, memory::*, model::*, optimizer::*, prune::*, quantise::*, run::*,
    sizes::*, training::*, transformer::*,
};
use crate::widgets::control::{Number, Spec};

/// A number's description and stops.
type Numeric = (Spec, Number);
