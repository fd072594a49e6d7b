//! What a tensor is called by, whatever holds its elements: their type, the shape, and numbers of the host.
//!
//! Owns [`DType`], [`Shape`] and [`HostSlice`]. It stands below everything that speaks of tensors, so that an experiment
//! can name types and a data source can name shapes without knowing a backend.

mod dtype;
mod host;
mod shape;

pub use dtype::DType;
pub use host::HostSlice;
pub use shape::{MAX_ELEMENTS, Shape};
