//! Plans: what they say, what they stand on, and what they must not depend on; the direction of the layers, and the names of
//! families.

mod cards;
mod families;
mod layer_order;
mod machines;
mod pages;
mod places;
mod planning;
