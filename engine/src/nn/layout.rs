//! Layers that change the places of elements and not their values.

mod concat;
mod reshape;
mod transpose;

pub use concat::Concat;
pub use reshape::{Flatten, Sequences};
pub use transpose::Transpose;
