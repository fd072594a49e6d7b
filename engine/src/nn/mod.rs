//! Layers: each file holds a layer's parameters, its forward pass and, next to it, its gradient rule.

mod activation;
mod adapter;
mod attention;
mod channels;
mod class_token;
mod coded;
mod convolution;
mod dropout;
mod embedding;
mod factored;
mod fused;
mod int8;
mod layout;
mod linear;
mod norm;
mod param;
mod pool;
mod positions;
mod residual;
mod role;
mod rotary;
mod start;

pub use activation::*;
pub use attention::*;
pub use channels::{ChannelGroup, ChannelMap, TensorChannels};
pub use class_token::{ClassToken, TakeFirst};
pub use coded::CodedParam;
pub use convolution::*;
pub use dropout::*;
pub use embedding::*;
pub use factored::Factorable;
pub use fused::Tail;
pub use int8::IntegerLayer;
pub(crate) use int8::RANGE;
pub use layout::{Concat, Flatten, Sequences, Transpose};
pub use linear::*;
pub use norm::*;
pub use param::{Init, Param, Replaced};
pub use pool::*;
pub use positions::Positions;
pub use residual::{Residual, Visit, chain, chain_before, visited_chain};
pub use role::{ParamRole, ParamUse};
pub use rotary::*;
pub use start::Start;

use std::cell::Cell;

use crate::{
    autograd::{Tape, Value},
    backend::{
        Backend, Tensor,
        ops::{Function, RowScale},
    },
    error::Result,
    memory::timeline::LayerId,
};

/// One layer of a model.
pub trait Layer<B: Backend> {
    /// Runs the forward pass and leaves the gradient rule on the tape.
    ///
    /// # Errors
    /// The errors of the executor's ops: the input has a shape that the layer does not take, an output or its scratch crosses
    /// the budget, or the device fails.
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>>;

    /// [`Layer::forward`] of this layer and of those that follow it as `tail`, in one pass over memory if it can. Fused
    /// execution calls this.
    ///
    /// # Errors
    /// The errors of [`Layer::forward`], of each of them.
    fn forward_through<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>, tail: Tail<'m, B>) -> Result<Value<B>> {
        let y = self.forward(tape, x)?;
        tail.apart(tape, y)
    }

    /// The function of each element that the layer is, if it is one: the layer before it may compute it in its own pass.
    fn function(&self) -> Option<Function> {
        None
    }

    /// The layer as a dropout, if it is one.
    fn dropout(&self) -> Option<&Dropout> {
        None
    }

    /// The layer as a norm of rows, if it is one.
    fn row_norm(&self) -> Option<RowScale<'_, B>> {
        None
    }

    /// The norm of rows that alone uses the input, if the layer begins with one.
    fn opening(&self) -> Option<&dyn Layer<B>> {
        None
    }

    /// The layer under which its memory is booked.
    fn layer(&self) -> LayerId;

    /// The layers inside this one, in forward order; none for a simple layer.
    fn inner(&self) -> Vec<&dyn Layer<B>> {
        Vec::new()
    }

    /// The tensors that it keeps in addition to its parameters, such as running statistics, each with its name.
    fn buffers(&self) -> Vec<(&'static str, &Tensor<B>)> {
        Vec::new()
    }

    /// How many training passes it has drawn random numbers for, of a layer that does.
    fn passes(&self) -> Option<&Cell<u64>> {
        None
    }

    /// The layer's weight, if it is held as codes.
    fn coded(&self) -> Option<&CodedParam<B>> {
        None
    }

    /// The state for becoming a layer of 8-bit integers, if the layer may become one; its weight is then
    /// [`Layer::prunable`].
    fn integers(&self) -> Option<&IntegerLayer<B>> {
        None
    }

    /// The layer's weight, if it is a matrix or the filters of products and belongs to no other layer. Pruning may set such
    /// weights to zero.
    fn prunable(&self) -> Option<&Param<B>> {
        None
    }

    /// Notes which channels its tensors have, given that its input has the channels `input`; returns the channels of its
    /// output. A layer without tensors returns `input`.
    fn channels(&self, map: &mut ChannelMap, input: ChannelGroup) -> ChannelGroup {
        let _ = map;
        input
    }

    /// Calls `see` for each of the layer's parameters, in a fixed order.
    fn each_param<'a>(&'a self, _see: &mut dyn FnMut(&'a Param<B>)) {}

    /// The same parameters as a list.
    fn params(&self) -> Vec<&Param<B>> {
        let mut params = Vec::new();
        self.each_param(&mut |param| params.push(param));
        params
    }
}
