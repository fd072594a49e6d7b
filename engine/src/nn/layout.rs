//! Layers that change where elements lie, and none of the elements.

mod concat;
mod reshape;
mod transpose;

pub use concat::Concat;
pub use reshape::{Flatten, Sequences};
pub use transpose::Transpose;
