//! Layers: each file holds a layer's parameters, its forward pass and, beside it, its gradient rule.

mod batch_norm;
mod conv;
mod curve;
mod dropout;
mod layer_norm;
mod linear;
mod param;
mod pool;
mod relu;
mod reshape;
mod residual;

pub use batch_norm::BatchNorm;
pub use conv::{Conv2d, ConvShape, Depthwise};
pub use curve::{Gelu, Silu};
pub use dropout::Dropout;
pub use layer_norm::{LayerNorm, RmsNorm};
pub use linear::Linear;
pub use param::{Init, Kept, Param};
pub use pool::{AvgPool, GlobalPool, MaxPool};
pub use relu::{Relu, Relu6};
pub use reshape::Flatten;
pub use residual::{Residual, chain};

use crate::{
    autograd::{Tape, Value},
    backend::Backend,
    error::Result,
    memory::timeline::LayerId,
};

/// One layer of a model.
pub trait Layer<B: Backend> {
    /// Runs forward, leaving the gradient rule on the tape.
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>>;

    /// Where its memory is booked.
    fn layer(&self) -> LayerId;

    /// The layers it is made of, in forward order; none for a layer that is one itself.
    fn inner(&self) -> Vec<&dyn Layer<B>> {
        Vec::new()
    }

    /// Its parameters, in a fixed order.
    fn params(&self) -> Vec<&Param<B>> {
        Vec::new()
    }
}
