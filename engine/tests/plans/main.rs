//! Plans: what they say, what they stand on, and what they must not depend on; and the direction of the layers.

mod cards;
mod layer_order;
mod machines;
mod places;
mod planning;
