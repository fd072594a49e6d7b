//! The description of a tensor on any backend: the type of its elements, its shape, and numbers of the host.
//!
//! Owns [`DType`], [`Shape`] and [`HostSlice`]. It lies below everything that uses tensors, so that an experiment can name
//! types and a data source can name shapes without knowing a backend.

mod dtype;
mod host;
mod shape;

pub use dtype::DType;
pub use host::HostSlice;
pub use shape::{MAX_ELEMENTS, Shape};
